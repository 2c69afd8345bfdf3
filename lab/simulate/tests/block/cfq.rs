//! Complete fair queueing: a test for each rule.

use crate::rig::{Rig, at, sectors};
use crate::stage::Stage;
use foreseek_device::Op;
use foreseek_simulate::block::{Anticipations, Settings, scheduler};
use foreseek_units::Nanos;

/// The first sector of a process's requests.
fn place(pid: u32) -> u64 {
    u64::from(pid) * 100_000_000
}

/// Serves one request a millisecond and records the processes; each keeps `queue` requests waiting.
fn shares(stage: &mut Stage, from: u64, to: u64, queue: &mut [(u32, u64)]) -> Vec<u32> {
    let mut order = Vec::new();
    for ms in from..to {
        let start = stage.dispatch(ms).expect("requests wait");
        let pid = (start / 100_000_000) as u32;
        order.push(pid);
        stage.over(ms + 1, start);
        if let Some((_, next)) = queue.iter_mut().find(|(one, _)| *one == pid) {
            stage.read(ms + 1, place(pid) + *next * 8, pid);
            *next += 1;
        }
    }
    order
}

/// Lengths of the runs of one process.
fn runs(order: &[u32]) -> Vec<(u32, usize)> {
    order.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect()
}

/// Process `pid` has read this often, with these seeks and think times, until 1000 ms.
fn habit(stage: &mut Stage, pid: u32, seek: u64, think: u64) {
    for left in (0..50).rev() {
        let (ms, start) = (1000 - left * (think + 1), place(pid) + (50 - left) * seek);
        stage.read(ms - 1, start, pid);
        stage.serves(ms - 1, start, ms);
    }
}

#[test]
fn each_process_has_the_disk_for_100_ms_and_four_requests_go_at_a_time() {
    let mut stage = Stage::new("cfq");
    let mut queue = [(1, 8), (2, 8), (3, 8)];
    for (pid, waiting) in queue {
        (0..waiting).for_each(|n| _ = stage.read(0, place(pid) + n * 8, pid));
    }
    let order = shares(&mut stage, 0, 416, &mut queue);
    // At 100 ms the slice is not over yet, so that four more go.
    assert_eq!(runs(&order), [(1, 104), (2, 104), (3, 104), (1, 104)]);
}

#[test]
fn the_four_go_in_ascending_order_from_the_head() {
    let mut stage = Stage::new("cfq");
    stage.read(0, 1000, 1);
    stage.serves(0, 1000, 0);
    for start in [900, 5000, 3000, 100, 2000, 4000] {
        stage.read(0, start, 1);
    }
    // 900 lies 108 behind the head, which counts 216; 2000 lies farther.
    assert_eq!(stage.order(0), [2000, 3000, 4000, 900, 5000, 100]);
}

#[test]
fn the_elevator_goes_back_16_mib_at_twice_the_cost() {
    let go = |behind: u64, ahead: u64| {
        let mut stage = Stage::new("cfq");
        stage.read(0, 10_000_000 - 8, 1);
        stage.serves(0, 10_000_000 - 8, 0);
        // The four that are taken together are sorted again: five show which one was left out.
        stage.read(0, 10_000_000 - behind, 1);
        (0..4).for_each(|n| _ = stage.read(0, 10_000_000 + ahead + n * 8, 1));
        stage.order(0).last().copied().is_some_and(|last| last > 10_000_000 + ahead)
    };
    assert!(go(1000, 2001) && !go(1000, 1000));
    assert!(go(32 * 1024, 100_000) && !go(32 * 1024 + 1, 100_000));
}

#[test]
fn the_disk_is_kept_idle_for_the_process_for_8_ms() {
    let mut stage = Stage::new("cfq");
    habit(&mut stage, 1, 8, 0);
    stage.read(1000, place(2), 2);
    assert_eq!((stage.dispatch(1000), stage.deadline()), (None, Some(1008.0)));
    stage.read(1003, place(1) + 51 * 8, 1);
    stage.serves(1003, place(1) + 51 * 8, 1004);
    assert_eq!((stage.dispatch(1004), stage.deadline()), (None, Some(1012.0)));
    assert_eq!(stage.dispatch(1012), Some(place(2)));
    let idle = Nanos::from_millis(3 + 8);
    let expected = Anticipations { met: 1, timed_out: 1, idle, ..Anticipations::default() };
    assert_eq!(stage.scheduler.anticipations(), expected);
}

#[test]
fn only_2_ms_for_one_that_seeks_beyond_131072_sectors() {
    for (seek, until) in [(100_000, 1008.0), (140_000, 1002.0)] {
        let mut stage = Stage::new("cfq");
        habit(&mut stage, 1, seek, 0);
        stage.read(1000, place(2), 2);
        assert_eq!((stage.dispatch(1000), stage.deadline()), (None, Some(until)), "{seek}");
    }
}

#[test]
fn not_for_one_that_thinks_longer_than_8_ms() {
    for (think, idles) in [(7, true), (10, false)] {
        let mut stage = Stage::new("cfq");
        habit(&mut stage, 1, 8, think);
        stage.read(1000, place(2), 2);
        assert_eq!(stage.dispatch(1000).is_none(), idles, "{think} ms");
    }
}

#[test]
fn not_for_one_that_has_ended() {
    let mut stage = Stage::new("cfq");
    habit(&mut stage, 1, 8, 0);
    stage.read(1000, place(2), 2);
    assert_eq!(stage.dispatch(1000), None);
    stage.exited(1001, 1);
    assert_eq!(stage.dispatch(1001), Some(place(2)));
    assert_eq!(stage.scheduler.anticipations().given_up, 1);
}

#[test]
fn not_for_one_that_seeks_where_the_device_orders_requests_itself() {
    let mut stage = Stage::new("cfq");
    (0..5).for_each(|n| _ = stage.read(0, place(9) + n * 8, 9));
    let given: Vec<u64> = (0..5).map(|_| stage.dispatch(0).expect("five wait")).collect();
    given.iter().for_each(|start| stage.over(1, *start));
    habit(&mut stage, 1, 140_000, 0);
    stage.read(1000, place(2), 2);
    assert_eq!(stage.dispatch(1000), Some(place(2)));
}

#[test]
fn not_when_the_process_goes_on_to_write() {
    let mut stage = Stage::new("cfq");
    habit(&mut stage, 1, 8, 0);
    stage.read(1000, place(2), 2);
    assert_eq!(stage.dispatch(1000), None);
    stage.write(1001, 5000, 1);
    assert_eq!(stage.dispatch(1001), Some(place(2)));
}

#[test]
fn asynchronous_requests_share_one_queue_of_40_ms_or_16_requests() {
    for (took, most) in [(1, 16), (6, 8)] {
        let mut stage = Stage::new("cfq");
        (0..40).for_each(|n| _ = stage.write(0, n * 8, (n % 3) as u32));
        (0..40).for_each(|n| _ = stage.read(0, place(7) + n * 8, 7));
        let mut order = Vec::new();
        for n in 0..40 {
            let start = stage.dispatch(n * took).expect("requests wait");
            stage.over((n + 1) * took, start);
            order.push((start / 100_000_000) as u32);
        }
        let runs = runs(&order);
        // The end of 40 ms is noticed while the second four are in flight.
        assert_eq!(runs[0], (0, most), "{runs:?}");
        assert_eq!(runs[1].0, 7);
    }
}

#[test]
fn a_new_process_comes_before_those_that_have_been_served() {
    let mut stage = Stage::new("cfq");
    let mut queue = [(1, 8), (2, 8)];
    for (pid, waiting) in queue {
        (0..waiting).for_each(|n| _ = stage.read(0, place(pid) + n * 8, pid));
    }
    let mut order = shares(&mut stage, 0, 150, &mut queue);
    (0..4).for_each(|n| _ = stage.read(150, place(3) + n * 8, 3));
    stage.exited(150, 3);
    order.extend(shares(&mut stage, 150, 320, &mut queue));
    assert_eq!(runs(&order), [(1, 104), (2, 104), (3, 4), (1, 104), (2, 4)]);
}

#[test]
fn a_request_that_has_waited_too_long_is_served_first_once_a_slice() {
    let mut stage = Stage::new("cfq");
    stage.read(0, 90_000, 1);
    stage.read(0, 95_000, 1);
    (0..8).for_each(|n| _ = stage.read(100, n * 8, 1));
    // 125 ms are not too long.
    let mut early = Stage::new("cfq");
    early.read(0, 90_000, 1);
    (0..8).for_each(|n| _ = early.read(0, n * 8, 1));
    assert_eq!(early.order(125)[8], 90_000);
    // It is one of the first four, which are sorted; the elevator continued from it to 95,000.
    assert_eq!(stage.order(126), [0, 8, 90_000, 95_000, 16, 24, 32, 40, 48, 56]);
}

#[test]
fn requests_of_different_processes_are_not_merged() {
    let mut rig =
        Rig::new(Settings::LINUX_2_6_18, scheduler::by_name("cfq").expect("known"), Nanos::from_millis(1));
    rig.read(at(0), sectors(0, 8), 1);
    rig.read(at(0), sectors(8, 8), 2);
    rig.read(at(0), sectors(8, 8), 1);
    rig.submit(at(0), Op::Write, sectors(16, 8), 1);
    rig.submit(at(0), Op::Write, sectors(24, 8), 2);
    rig.finish();
    let mut given: Vec<_> = rig.dispatched().iter().map(|one| (one.1, one.2)).collect();
    given.sort_unstable();
    assert_eq!(given, [(0, 16), (8, 8), (16, 16)]);
    assert_eq!(rig.completed().len(), 5);
}
