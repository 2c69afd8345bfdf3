//! Pieces, merging, the pool, the plug, the device's queue: a test for each rule.

use crate::rig::{MS, Rig, at, sectors};
use foreseek_device::{Op, Outcome};
use foreseek_simulate::block::{Settings, scheduler};
use foreseek_units::{Instant, Lba, Nanos, Sectors};

const SERVICE: Nanos = Nanos::from_millis(10);

fn rig(settings: Settings) -> Rig {
    Rig::new(settings, scheduler::by_name("noop").expect("noop"), SERVICE)
}

#[test]
fn a_single_request_is_deferred_until_a_process_waits_or_for_three_milliseconds() {
    let mut rig = rig(Settings::LINUX_2_6_3);
    rig.read(at(0), sectors(0, 8), 1);
    assert_eq!(rig.layer.next(), Some(at(3)));
    rig.finish();
    rig.read(at(20), sectors(100, 8), 1);
    rig.unplug(at(21));
    rig.finish();
    assert_eq!(rig.dispatched(), [(3 * MS, 0, 8), (21 * MS, 100, 8)]);
    assert_eq!(rig.completed(), [(0, 13 * MS), (1, 31 * MS)]);
}

#[test]
fn four_requests_unplug_the_queue() {
    let mut rig = rig(Settings::LINUX_2_6_3);
    for n in 0..4 {
        assert_eq!(rig.dispatched(), []);
        rig.read(at(0), sectors(n * 100, 8), 1);
    }
    assert_eq!(rig.dispatched(), [(0, 0, 8)]);
}

#[test]
fn a_completion_unplugs_the_queue() {
    let mut rig = rig(Settings::LINUX_2_6_3);
    rig.read(at(0), sectors(0, 8), 1);
    rig.unplug(at(0));
    // The queue is empty, so that this one plugs it again although the device is busy.
    rig.read(at(9), sectors(100, 8), 1);
    rig.finish();
    assert_eq!(rig.dispatched(), [(0, 0, 8), (10 * MS, 100, 8)]);
}

#[test]
fn long_submissions_are_cut_at_whole_pages() {
    let mut rig = rig(Settings::LINUX_2_6_3);
    rig.read(at(0), sectors(1000, 256), 1);
    rig.unplug(at(0));
    rig.finish();
    // 255 sectors hold 31 pages.
    assert_eq!(rig.dispatched(), [(0, 1000, 248), (10 * MS, 1248, 8)]);
    assert_eq!(rig.completed(), [(0, 20 * MS)]);
    let metrics = rig.layer.metrics();
    assert_eq!((metrics.submissions, metrics.splits, metrics.requests), (1, 1, 2));
    assert_eq!((metrics.seeks, metrics.sizes[31], metrics.sizes[1]), (1, 1, 1));
    // 2.6.18 makes one request of it.
    let mut rig = Rig::new(Settings::LINUX_2_6_18, scheduler::by_name("noop").expect("noop"), SERVICE);
    rig.read(at(0), sectors(1000, 1032), 1);
    rig.finish();
    assert_eq!(rig.dispatched(), [(3 * MS, 1000, 1024), (13 * MS, 2024, 8)]);
}

#[test]
fn neighbours_are_merged_behind_before_and_across_up_to_the_largest_request() {
    let mut rig = rig(Settings::LINUX_2_6_3);
    rig.read(at(0), sectors(100, 8), 1);
    rig.read(at(0), sectors(108, 8), 2);
    rig.read(at(0), sectors(92, 8), 3);
    rig.read(at(0), sectors(124, 8), 4);
    // Closes the gap.
    rig.read(at(0), sectors(116, 8), 5);
    // 216 more would make 256.
    rig.read(at(0), sectors(132, 216), 6);
    rig.unplug(at(0));
    rig.finish();
    assert_eq!(rig.dispatched(), [(0, 92, 40), (10 * MS, 132, 216)]);
    assert_eq!(rig.completed(), [0, 1, 2, 4, 3, 5].map(|tag| (tag, if tag < 5 { 10 } else { 20 } * MS)));
    assert_eq!(rig.layer.metrics().merges, 3);
}

#[test]
fn reads_are_not_merged_with_writes_nor_with_what_the_device_has() {
    let mut rig = rig(Settings::LINUX_2_6_3);
    rig.read(at(0), sectors(0, 8), 1);
    rig.submit(at(0), Op::Write, sectors(8, 8), 1);
    rig.unplug(at(0));
    rig.read(at(1), sectors(8, 8), 1);
    rig.finish();
    assert_eq!(
        rig.dispatched().iter().map(|one| (one.1, one.2)).collect::<Vec<_>>(),
        [(0, 8), (8, 8), (8, 8)]
    );
}

#[test]
fn the_pool_holds_128_requests_of_each_direction() {
    let mut rig = rig(Settings::LINUX_2_6_3);
    for n in 0..128 {
        assert!(rig.layer.room(Op::Read));
        assert!(rig.read(at(0), sectors(n * 100, 8), 1).is_some());
    }
    assert!(!rig.layer.room(Op::Read));
    assert!(rig.read(at(0), sectors(90_000, 8), 1).is_none());
    // Merging needs no free request, and writes have their own.
    assert!(rig.read(at(0), sectors(12_708, 8), 1).is_some());
    assert!(rig.submit(at(0), Op::Write, sectors(90_000, 8), 1).is_some());
    rig.advance(at(10));
    assert!(rig.layer.room(Op::Read));
    assert!(rig.read(at(10), sectors(90_000, 8), 1).is_some());
    assert!(!rig.layer.room(Op::Read));
    assert_eq!(rig.layer.metrics().refused, 1);
}

#[test]
fn the_queue_is_congested_above_113_until_below_111_or_103() {
    for (settings, off) in [(Settings::LINUX_2_6_3, 111), (Settings::LINUX_2_6_10, 103)] {
        let mut rig = rig(settings);
        for n in 0..113 {
            rig.read(at(0), sectors(n * 100, 8), 1);
        }
        assert!(!rig.layer.congested());
        rig.read(at(0), sectors(90_000, 8), 1);
        assert!(rig.layer.congested() && !rig.layer.congested_writes());
        let over = 114 - off;
        rig.advance(at(10 * over));
        assert!(rig.layer.congested());
        rig.advance(at(10 * (over + 1)));
        assert!(!rig.layer.congested());
    }
}

#[test]
fn a_submission_that_the_pool_holds_in_part_goes_on_as_requests_become_free() {
    let settings = Settings { requests: 2, ..Settings::LINUX_2_6_3 };
    let mut rig = rig(settings);
    assert!(rig.read(at(0), sectors(0, 4 * 248), 1).is_some());
    assert!(rig.read(at(0), sectors(90_000, 8), 2).is_none());
    rig.advance(at(25));
    assert!(!rig.layer.room(Op::Read));
    rig.advance(at(30));
    assert!(rig.layer.room(Op::Read));
    rig.finish();
    let starts: Vec<u64> = rig.dispatched().iter().map(|one| one.1).collect();
    assert_eq!(starts, [0, 248, 496, 744]);
    assert_eq!(rig.completed(), [(0, 40 * MS)]);
}

/// With a batch of 1 the pool is the limit. With a kernel's batch of 32 a submitter that finds a request free
/// takes all that it needs, up to half a pool beyond the limit; no other follows until one is free.
#[test]
fn who_finds_a_request_free_takes_a_batch_of_them() {
    for (batch, pieces, waiting) in [(1, 3, 3), (2, 3, 4), (32, 3, 5), (32, 20, 5)] {
        let settings = Settings { requests: 4, batch, ..Settings::LINUX_2_6_3 };
        let mut rig = rig(settings);
        for n in 0..3 {
            assert!(rig.read(at(0), sectors(n * 10_000, 8), 1).is_some());
        }
        assert!(rig.read(at(0), sectors(90_000, pieces * 248), 2).is_some());
        assert_eq!(rig.layer.waiting(), waiting, "a batch of {batch}, {pieces} pieces");
        assert!(!rig.layer.room(Op::Read));
        rig.advance(at(10));
        assert!(!rig.layer.room(Op::Read) && rig.layer.waiting() >= 2);
        rig.finish();
        assert_eq!(rig.completed().len(), 4);
    }
}

#[test]
fn the_driver_keeps_as_many_requests_in_the_device_as_it_is_set_to_and_no_more_than_fit() {
    for (in_device, fit, at_once) in [(1, 32, 1), (3, 32, 3), (8, 2, 2)] {
        let settings = Settings { in_device, ..Settings::LINUX_2_6_3 };
        let noop = scheduler::by_name("noop").expect("noop");
        let mut rig = Rig::with_device(settings, noop, SERVICE, fit, None);
        for n in 0..6 {
            rig.read(at(0), sectors(n * 100, 8), 1);
        }
        assert_eq!(rig.dispatched().len(), at_once);
        rig.finish();
        assert_eq!(rig.completed().len(), 6);
        assert_eq!(rig.layer.metrics().busy, SERVICE * 6);
    }
}

#[test]
fn a_failed_request_fails_all_that_had_a_part_in_it_and_nobody_else() {
    let noop = scheduler::by_name("noop").expect("noop");
    let mut rig = Rig::with_device(Settings::LINUX_2_6_3, noop, SERVICE, 32, Some(Lba(300)));
    rig.read(at(0), sectors(0, 8), 1);
    rig.read(at(0), sectors(50, 300), 1);
    rig.read(at(0), sectors(350, 8), 1);
    rig.finish();
    let outcomes: Vec<_> = rig.done.iter().map(|one| (one.tag.0, one.outcome)).collect();
    assert_eq!(outcomes, [(0, Outcome::Done), (1, Outcome::Failed), (2, Outcome::Failed)]);
    assert_eq!(rig.layer.metrics().failed, 1);
}

#[test]
fn what_was_served_is_told_with_where_the_head_came_from() {
    let mut rig = rig(Settings::LINUX_2_6_3);
    rig.read(at(0), sectors(500, 8), 1);
    rig.read(at(0), sectors(100, 8), 1);
    rig.unplug(at(0));
    rig.advance(at(15));
    let served: Vec<_> = rig.layer.served().iter().map(|one| (one.from, one.range)).collect();
    assert_eq!(served, [(Lba(0), sectors(500, 8))]);
    rig.advance(at(25));
    let served: Vec<_> = rig.layer.served().iter().map(|one| (one.from, one.range)).collect();
    assert_eq!(served, [(Lba(508), sectors(100, 8))]);
    let metrics = rig.layer.metrics();
    assert_eq!((metrics.seeks, metrics.seek_distance), (2, Sectors(908)));
    assert_eq!(metrics.mean_seek(), Sectors(454));
}

#[test]
fn flushes_and_empty_ranges_pass_alone() {
    let mut rig = rig(Settings::LINUX_2_6_3);
    rig.submit(at(0), Op::Write, sectors(0, 8), 1);
    rig.submit(at(0), Op::Flush, sectors(8, 0), 1);
    rig.read(at(0), sectors(8, 0), 1);
    rig.finish();
    assert_eq!(rig.completed().len(), 3);
    assert_eq!(rig.layer.metrics().merges, 0);
    assert_eq!(rig.layer.next(), None::<Instant>);
}
