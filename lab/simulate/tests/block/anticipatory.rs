//! The anticipatory scheduler: a test for each rule.

use crate::rig::{Rig, at, sectors};
use crate::stage::Stage;
use foreseek_device::Op;
use foreseek_simulate::block::{Anticipations, Settings, scheduler};
use foreseek_units::Nanos;

const BOTH: [&str; 2] = ["anticipatory", "anticipatory-2.6.18"];
/// Far from the reads of process 1.
const FAR: u64 = 50_000_000;

/// A stage on which process 1 has read sequentially without thinking until 1000 ms, and on which a read of
/// process 2, far away, waits since then. The disk is at sector 1800.
fn settled(name: &str) -> Stage {
    let mut stage = Stage::new(name);
    reads_alone(&mut stage, 100, 0);
    stage.read(1000, FAR, 2);
    stage
}

/// Process 1 reads this often up to sector 1800, `think` milliseconds after the end of each read; the last one
/// is complete at 1000 ms.
fn reads_alone(stage: &mut Stage, times: u64, think: u64) {
    let took = |left: u64| left * (think + 1);
    for left in (0..times).rev() {
        let (ms, start) = (1000 - took(left), 1800 - (left + 1) * 8);
        stage.read(ms - 1, start, 1);
        stage.serves(ms - 1, start, ms);
    }
}

fn outcomes(stage: &Stage) -> Anticipations {
    stage.scheduler.anticipations()
}

#[test]
fn the_disk_is_kept_idle_for_the_process_and_serves_its_next_request_at_once() {
    for name in BOTH {
        let mut stage = settled(name);
        assert_eq!(stage.dispatch(1000), None);
        assert_eq!(stage.deadline(), Some(1006.0));
        stage.read(1002, 1800, 1);
        stage.serves(1002, 1800, 1003);
        assert_eq!(stage.dispatch(1003), None, "and so on");
        let idle = Nanos::from_millis(2);
        assert_eq!(outcomes(&stage), Anticipations { met: 1, idle, ..Anticipations::default() });
    }
}

#[test]
fn it_gives_up_after_six_milliseconds_and_does_not_wait_again_for_the_same() {
    for name in BOTH {
        let mut stage = settled(name);
        assert_eq!(stage.dispatch(1000), None);
        assert_eq!(stage.dispatch(1005), None);
        assert_eq!(stage.dispatch(1006), Some(FAR));
        let idle = Nanos::from_millis(6);
        assert_eq!(outcomes(&stage), Anticipations { timed_out: 1, idle, ..Anticipations::default() });
    }
}

#[test]
fn the_wait_is_counted_from_the_end_of_the_read() {
    let mut stage = settled("anticipatory");
    // At the next call, four milliseconds later, two are left.
    assert_eq!(stage.dispatch(1004), None);
    assert_eq!(stage.deadline(), Some(1006.0));
    let mut stage = settled("anticipatory");
    assert_eq!(stage.dispatch(1007), Some(FAR));
    assert_eq!(outcomes(&stage), Anticipations::default());
}

#[test]
fn nothing_is_waited_for_while_nothing_else_waits() {
    let mut stage = Stage::new("anticipatory");
    reads_alone(&mut stage, 10, 0);
    assert_eq!((stage.dispatch(1000), stage.deadline()), (None, None));
}

#[test]
fn a_process_with_requests_of_its_own_waiting_is_not_waited_for() {
    let mut stage = settled("anticipatory");
    stage.read(1000, 90_000_000, 1);
    assert_eq!(stage.dispatch(1000), Some(FAR));
    assert_eq!(outcomes(&stage).ended(), 0);
}

#[test]
fn a_process_that_thinks_longer_than_the_wait_is_not_waited_for() {
    for (think, waits) in [(5, true), (6, true), (7, false), (15, false)] {
        let mut stage = Stage::new("anticipatory");
        reads_alone(&mut stage, 50, think);
        stage.read(1000, FAR, 2);
        assert_eq!(stage.dispatch(1000).is_none(), waits, "{think} ms");
    }
}

#[test]
fn after_a_write_nothing_is_waited_for() {
    let mut stage = settled("anticipatory");
    stage.dispatch(1006);
    stage.over(1010, FAR);
    stage.exited(1010, 2);
    stage.write(1011, 2000, 1);
    stage.serves(1011, 2000, 1012);
    stage.read(1012, FAR, 2);
    assert_eq!(stage.dispatch(1012), Some(FAR));
}

#[test]
fn a_near_request_of_another_process_ends_it_64_sectors_at_first_and_doubling() {
    // Milliseconds since the end of the read, and the distance that is near ahead; behind it is half.
    for (waited, reach) in [(0, 64), (1, 64), (2, 128), (3, 256), (4, 512), (5, 1024)] {
        let hits = [1800 + reach, 1800 - reach / 2].map(|start| near("anticipatory", waited, start));
        let misses = [1801 + reach, 1799 - reach / 2].map(|start| near("anticipatory", waited, start));
        assert_eq!((hits, misses), ([true; 2], [false; 2]), "{waited} ms");
    }
}

#[test]
fn in_2_6_18_near_is_8192_sectors_at_first_and_doubling() {
    for (waited, reach) in [(0, 8192), (1, 16384), (2, 32768), (5, 8192 << 5)] {
        let start = 1800 + reach;
        assert!(near("anticipatory-2.6.18", waited, start), "{waited} ms");
        assert!(!near("anticipatory-2.6.18", waited, start + 1), "{waited} ms");
    }
}

/// Whether a request of process 3 that comes this long after process 1's read is served at once.
fn near(name: &str, waited: u64, start: u64) -> bool {
    let mut stage = settled(name);
    assert_eq!(stage.dispatch(1000), None);
    stage.read(1000 + waited, start, 3);
    let served = stage.dispatch(1000 + waited);
    assert!(served.is_none() || served == Some(start), "{served:?}");
    assert_eq!(outcomes(&stage).near, u64::from(served.is_some()));
    served.is_some()
}

#[test]
fn a_request_nearer_than_the_mean_seek_of_the_process_ends_it() {
    for name in BOTH {
        let mut stage = Stage::new(name);
        // Process 1 seeks back and forth by some 400,000 sectors.
        let mut last = 0;
        for n in 0..100 {
            last = if n % 2 == 0 { 10_000_000 } else { 10_400_000 };
            stage.read(n, last, 1);
            stage.serves(n, last, n);
        }
        let head = last + 8;
        stage.read(100, head + 390_000, 2);
        assert_eq!(stage.dispatch(100), Some(head + 390_000), "{name}");
        stage.over(101, head + 390_000);
    }
}

#[test]
fn a_request_farther_than_the_mean_seek_does_not() {
    for name in BOTH {
        let mut stage = settled(name);
        stage.read(1000, 1800 + 70_000, 3);
        assert_eq!(stage.dispatch(1000), None, "{name}");
    }
}

#[test]
fn an_ended_process_is_not_waited_for() {
    let mut stage = settled("anticipatory");
    assert_eq!(stage.dispatch(1000), None);
    stage.exited(1001, 1);
    assert_eq!(stage.dispatch(1001), Some(FAR));
    assert_eq!(outcomes(&stage).given_up, 1);
    let mut stage = settled("anticipatory");
    stage.exited(1000, 1);
    assert_eq!(stage.dispatch(1000), Some(FAR));
}

#[test]
fn in_2_6_18_an_ended_process_is_waited_for_until_nobody_is_seen_to_help() {
    let mut vain = 0;
    let mut stage = Stage::new("anticipatory-2.6.18");
    for round in 0..20 {
        let ms = round * 100;
        stage.read(ms, 1000, 100 + round as u32);
        stage.serves(ms, 1000, ms);
        stage.exited(ms, 100 + round as u32);
        stage.read(ms, FAR, 2);
        let served = stage.dispatch(ms);
        vain += u64::from(served.is_none());
        if served.is_none() {
            assert_eq!(stage.dispatch(ms + 6), Some(FAR));
        }
        stage.over(ms + 8, FAR);
    }
    // The probability exceeds one half after the sixth useless wait: 1 - (7/8)^6 = 0.55.
    assert_eq!(vain, 6);
}

#[test]
fn the_oldest_is_served_without_anticipation_when_it_has_waited_125_ms() {
    let mut stage = settled("anticipatory");
    let mut ms = 1000;
    let mut head = 1800;
    // Process 1 keeps the disk for itself as long as possible.
    let served = loop {
        if let Some(start) = stage.dispatch(ms) {
            break start;
        }
        ms += 1;
        stage.read(ms, head, 1);
        head += 8;
        match stage.dispatch(ms) {
            Some(start) if start == head - 8 => stage.over(ms, start),
            other => break other.expect("one waits"),
        }
    };
    // It came at 1000 and is checked once every 125 ms, counted from an earlier check.
    assert_eq!(served, FAR);
    assert!((1126..=1250).contains(&ms), "{ms}");
}

#[test]
fn short_ways_back_are_taken_at_twice_the_cost() {
    let go = |behind: u64, ahead: u64| {
        let mut stage = Stage::new("elevator");
        stage.read(0, 10_000_000 - 8, 1);
        stage.serves(0, 10_000_000 - 8, 0);
        stage.read(0, 10_000_000 - behind, 1);
        stage.read(0, 10_000_000 + ahead, 1);
        stage.order(0)[0] < 10_000_000
    };
    assert!(go(1000, 2001) && !go(1000, 2000) && !go(1000, 1000));
    assert!(go(1 << 20, 3 << 20), "1,048,576 sectors are allowed");
    assert!(!go((1 << 20) + 1, 3 << 20), "not one more");
    // With nothing ahead, the lowest is next, not the nearest behind.
    let mut stage = Stage::new("elevator");
    stage.read(0, 10_000_000, 1);
    stage.serves(0, 10_000_000, 0);
    stage.read(0, 500, 1);
    stage.read(0, 100, 1);
    assert_eq!(stage.order(0), [100, 500]);
}

#[test]
fn blind_to_processes_it_never_waits() {
    for name in ["anticipatory-blind", "anticipatory-blind-2.6.18", "elevator"] {
        let mut stage = settled(name);
        assert_eq!(stage.dispatch(1000), Some(FAR), "{name}");
        assert_eq!(outcomes(&stage).ended(), 0);
    }
}

#[test]
fn reads_and_writes_alternate_in_batches() {
    // How long reads continue while writes wait, and how many writes follow at first.
    for (name, time, writes) in [("anticipatory", 250, 6), ("anticipatory-2.6.18", 500, 12)] {
        let mut stage = Stage::new(name);
        stage.read(1000, 1_000_000, 1);
        stage.serves(1000, 1_000_000, 1000);
        for n in 0..100 {
            stage.write(1000, n * 1000, 9);
        }
        // Process 1 always has a read there; each request takes a millisecond.
        let mut head = 1_000_008;
        stage.read(1000, head, 1);
        let mut kinds = Vec::new();
        for ms in 1000..1600 {
            let start = stage.dispatch(ms).expect("reads and writes wait");
            kinds.push(start < 1_000_000);
            stage.over(ms + 1, start);
            if start == head {
                head += 8;
                stage.read(ms + 1, head, 1);
            }
        }
        let first_write = kinds.iter().position(|write| *write).expect("writes");
        let run = kinds[first_write..].iter().take_while(|write| **write).count();
        assert_eq!((first_write, run), (time + 1, writes), "{name}");
    }
}

#[test]
fn a_split_read_is_timed_from_the_end_of_its_last_piece_or_in_the_stock_kernel_of_its_first() {
    let gap = |name: &str| {
        let settings = Settings { in_device: 2, ..Settings::LINUX_2_6_3 };
        let scheduler = scheduler::by_name(name).expect("known");
        // A piece takes 10 ms; the device holds two.
        let mut rig = Rig::new(settings, scheduler, Nanos::from_millis(10));
        for n in 0..6 {
            rig.read(at(n * 25), sectors(n * 496, 496), 1);
            rig.unplug(at(n * 25));
        }
        rig.read(at(126), sectors(80_000_000, 8), 2);
        rig.unplug(at(126));
        rig.finish();
        let (when, start, _) = rig.dispatched()[12];
        assert_eq!(start, 80_000_000);
        when as f64 / 1e6
    };
    // The pieces are complete at 135 and 145.
    assert_eq!(gap("anticipatory-stock"), 141.0);
    assert_eq!(gap("anticipatory"), 151.0);
}

#[test]
fn the_awaited_process_finds_a_request_in_an_empty_pool() {
    let settings = Settings { requests: 2, ..Settings::LINUX_2_6_3 };
    let scheduler = scheduler::by_name("anticipatory").expect("known");
    let mut rig = Rig::new(settings, scheduler, Nanos::from_millis(1));
    for n in 0..20 {
        rig.read(at(n), sectors(n * 8, 8), 1);
        rig.unplug(at(n));
    }
    rig.read(at(19), sectors(80_000_000, 8), 2);
    rig.advance(at(20));
    assert!(rig.read(at(20), sectors(90_000_000, 8), 3).is_some());
    assert!(!rig.layer.room(Op::Read));
    assert!(rig.read(at(20), sectors(70_000_000, 8), 4).is_none());
    assert!(rig.read(at(22), sectors(160, 8), 1).is_some(), "it is waited for");
    rig.finish();
    assert_eq!(rig.dispatched()[20].1, 160);
}
