//! Budget fair queueing: a test for each rule.

use crate::stage::Stage;

/// The first sector of a process's requests.
fn place(pid: u32) -> u64 {
    u64::from(pid) * 100_000_000
}

/// Process `pid` has read this often, with these seeks and think times, until 1000 ms.
fn habit(stage: &mut Stage, pid: u32, seek: u64, think: u64) {
    for left in (0..50).rev() {
        let (ms, start) = (1000 - left * (think + 1), place(pid) + (50 - left) * seek);
        stage.read(ms - 1, start, pid);
        stage.serves(ms - 1, start, ms);
    }
}

/// Serves one request after the other, each in `took` ms, of processes that keep eight waiting; returns the
/// processes, in runs.
fn runs(stage: &mut Stage, took: u64, requests: u64, apart: u64, pid: &[u32]) -> Vec<(u32, usize)> {
    let mut next = [8u64; 10];
    for one in pid {
        (0..8).for_each(|n| _ = stage.read(0, place(*one) + n * apart, *one));
    }
    let mut order = Vec::new();
    for n in 0..requests {
        let start = stage.dispatch(n * took).expect("requests wait");
        stage.over((n + 1) * took, start);
        let pid = (start / 100_000_000) as u32;
        stage.read((n + 1) * took, place(pid) + next[pid as usize] * apart, pid);
        next[pid as usize] += 1;
        order.push(pid);
    }
    order.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect()
}

#[test]
fn a_service_lasts_125_ms_at_most() {
    // 8 sectors every 5 ms never use up a budget.
    let runs = runs(&mut Stage::new("bfq"), 5, 60, 8, &[1, 2]);
    assert_eq!(runs[..2], [(1, 25), (2, 25)]);
}

#[test]
fn a_budget_is_two_thirds_of_16384_sectors_at_first_and_more_when_it_was_used_up() {
    // All in no time: 10,922 sectors are 1,365 requests; then four times as much, 16,384 at most.
    let runs = runs(&mut Stage::new("bfq"), 0, 7000, 8, &[1, 2]);
    assert_eq!(runs[..3], [(1, 1365), (2, 1365), (1, 2048)]);
}

#[test]
fn the_disk_is_kept_idle_for_the_process_for_8_ms_or_2_where_it_seeks_beyond_800_sectors() {
    for (seek, until) in [(8, 1008.0), (800 + 8, 1008.0), (801 + 8, 1002.0)] {
        let mut stage = Stage::new("bfq");
        habit(&mut stage, 1, seek, 0);
        stage.read(1000, place(2), 2);
        assert_eq!((stage.dispatch(1000), stage.deadline()), (None, Some(until)), "{seek}");
        let start = place(1) + 51 * seek;
        stage.read(1001, start, 1);
        assert_eq!(stage.dispatch(1001), Some(start));
    }
}

#[test]
fn a_process_seeks_if_more_than_19_of_32_requests_were_far() {
    for (far, until) in [(19, 1008.0), (20, 1002.0)] {
        let mut stage = Stage::new("bfq");
        let mut start = place(1);
        for n in 0..32 {
            start += if n < far { 5000 } else { 8 };
            stage.read(968 + n, start, 1);
            stage.serves(968 + n, start, 969 + n);
        }
        stage.read(1000, place(2), 2);
        assert_eq!((stage.dispatch(1000), stage.deadline()), (None, Some(until)), "{far} of 32");
    }
}

#[test]
fn nobody_is_waited_for_who_has_ended() {
    let mut stage = Stage::new("bfq");
    habit(&mut stage, 1, 8, 0);
    stage.read(1000, place(2), 2);
    assert_eq!(stage.dispatch(1000), None);
    stage.exited(1001, 1);
    assert_eq!(stage.dispatch(1001), Some(place(2)));
}

#[test]
fn a_process_that_seeks_pays_for_its_time() {
    // Process 1 takes 10 ms a request, process 2 a tenth of that; both always have requests.
    let mut stage = Stage::new("bfq");
    let (mut ms, mut next, mut time) = (0, [8u64; 3], [0u64; 3]);
    let apart = [0, 50_000, 8];
    for pid in [1, 2] {
        (0..8).for_each(|n| _ = stage.read(0, place(pid) + n * apart[pid as usize], pid));
    }
    while ms < 20_000 {
        let start = stage.dispatch(ms).expect("requests wait");
        let pid = (start / 100_000_000) as usize;
        let took = if pid == 1 { 10 } else { 1 };
        (time[pid], ms) = (time[pid] + took, ms + took);
        stage.over(ms, start);
        stage.read(ms, place(pid as u32) + next[pid] * apart[pid] % 90_000_000, pid as u32);
        next[pid] += 1;
    }
    // By sectors alone the slow one would have ten elevenths of the time. It has more than half, since the rate
    // is learnt from the mix of both, and with it the largest budget.
    let share = time[1] as f64 / ms as f64;
    assert!((0.4..0.7).contains(&share), "{share}");
}
