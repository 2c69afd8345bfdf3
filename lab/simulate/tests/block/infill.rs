//! Infill in the block layer (ATC'09 section 4.7): a test for each rule, and properties against a naive model.

use crate::rig::{MS, Rig, at, sectors};
use foreseek_device::{Op, Outcome};
use foreseek_simulate::block::{Settings, scheduler};
use foreseek_units::{Instant, Lba, Nanos, Sectors};
use proptest::prelude::*;
use std::collections::BTreeSet;

const SERVICE: Nanos = Nanos::from_millis(10);

/// Gaps of up to two pages are filled, and nothing but a wait unplugs the queue.
const TWO_PAGES: Settings = Settings { infill: Sectors(16), unplug_at: 1000, ..Settings::LINUX_2_6_3 };

fn rig(settings: Settings, scheduler: &str) -> Rig {
    Rig::new(settings, scheduler::by_name(scheduler).expect("known"), SERVICE)
}

/// What goes to the device of reads `(first sector, sectors, process)` that all wait.
fn dispatched(settings: Settings, scheduler: &str, reads: &[(u64, u64, u32)]) -> Vec<(u64, u64)> {
    let mut rig = rig(settings, scheduler);
    for (start, length, pid) in reads {
        assert!(rig.read(at(0), sectors(*start, *length), *pid).is_some());
    }
    rig.unplug(at(0));
    rig.finish();
    assert_eq!(rig.completed().len(), reads.len());
    rig.dispatched().iter().map(|one| (one.1, one.2)).collect()
}

#[test]
fn a_read_joins_the_nearest_that_waits_across_a_gap_of_up_to_the_longest() {
    // Above, below, and one sector too far.
    assert_eq!(dispatched(TWO_PAGES, "noop", &[(100, 8, 1), (124, 8, 1)]), [(100, 32)]);
    assert_eq!(dispatched(TWO_PAGES, "noop", &[(124, 8, 1), (100, 8, 1)]), [(100, 32)]);
    assert_eq!(dispatched(TWO_PAGES, "noop", &[(100, 8, 1), (125, 8, 1)]), [(100, 8), (125, 8)]);
    // The nearer of two, and of two that are equally near the one below. The other's gap stays.
    for (above, new, expected) in [
        (140, 118, [(100, 26), (140, 8)]),
        (140, 124, [(100, 8), (124, 24)]),
        (136, 118, [(100, 26), (136, 8)]),
    ] {
        assert_eq!(dispatched(TWO_PAGES, "noop", &[(100, 8, 1), (above, 8, 1), (new, 8, 1)]), expected);
    }
    // Without infill each is read alone.
    let none = Settings { infill: Sectors::ZERO, ..TWO_PAGES };
    assert_eq!(dispatched(none, "noop", &[(100, 8, 1), (109, 8, 1)]), [(100, 8), (109, 8)]);
}

#[test]
fn a_read_that_touches_a_request_is_merged_and_fills_no_gap() {
    let mut rig = rig(TWO_PAGES, "noop");
    for start in [100, 120, 128] {
        rig.read(at(0), sectors(start, 8), 1);
    }
    let metrics = rig.layer.metrics();
    assert_eq!((metrics.infilled, metrics.infill, metrics.merges), (1, Sectors(12), 1));
    rig.finish();
    assert_eq!(rig.dispatched(), [(3 * MS, 100, 36)]);
}

#[test]
fn a_read_that_closes_a_gap_without_a_dummy_makes_two_requests_one() {
    // 100 to 108 with 124 to 132; then 148 to 156, 24 above it; what joins 132 reaches 148.
    let reads = [(100, 8, 1), (124, 8, 1), (160, 8, 1), (184, 8, 1), (132, 28, 1), (176, 8, 1)];
    assert_eq!(dispatched(TWO_PAGES, "noop", &reads), [(100, 92)]);
}

#[test]
fn no_request_becomes_longer_than_the_largest() {
    // 255 sectors at most: 200 + 16 + 39 fit, 40 do not.
    assert_eq!(dispatched(TWO_PAGES, "noop", &[(0, 200, 1), (216, 39, 1)]), [(0, 255)]);
    assert_eq!(dispatched(TWO_PAGES, "noop", &[(0, 200, 1), (216, 40, 1)]), [(0, 200), (216, 40)]);
}

#[test]
fn writes_fill_no_gap_and_reads_none_towards_writes() {
    let mut rig = rig(TWO_PAGES, "noop");
    rig.submit(at(0), Op::Write, sectors(100, 8), 1);
    rig.submit(at(0), Op::Write, sectors(116, 8), 1);
    rig.read(at(0), sectors(132, 8), 1);
    rig.finish();
    assert_eq!(rig.dispatched().len(), 3);
    assert_eq!(rig.layer.metrics().infilled, 0);
}

#[test]
fn what_the_device_has_takes_no_more_parts() {
    let mut rig = rig(TWO_PAGES, "noop");
    rig.read(at(0), sectors(100, 8), 1);
    rig.unplug(at(0));
    rig.read(at(1), sectors(116, 8), 1);
    rig.finish();
    assert_eq!(rig.dispatched(), [(0, 100, 8), (10 * MS, 116, 8)]);
}

#[test]
fn under_cfq_a_read_joins_requests_of_its_own_process() {
    // The nearest is another's.
    assert_eq!(dispatched(TWO_PAGES, "cfq", &[(100, 8, 1), (112, 8, 2), (124, 8, 1)]).len(), 2);
    assert_eq!(dispatched(TWO_PAGES, "cfq", &[(100, 8, 1), (112, 8, 2)]).len(), 2);
}

#[test]
fn a_read_that_overlaps_a_waiting_dummy_is_served_from_it() {
    let mut rig = rig(TWO_PAGES, "cfq");
    rig.read(at(0), sectors(100, 8), 1);
    rig.read(at(0), sectors(124, 8), 1);
    // Another process's, and one of them twice.
    for (start, length) in [(108, 8), (108, 8), (116, 8)] {
        assert!(rig.read(at(1), sectors(start, length), 2).is_some());
    }
    assert_eq!(rig.layer.metrics().served_by_infill, 3);
    rig.unplug(at(1));
    rig.finish();
    assert_eq!(rig.dispatched(), [(MS, 100, 32)]);
    assert_eq!(rig.completed(), [0, 1, 2, 3, 4].map(|tag| (tag, 11 * MS)));
}

#[test]
fn what_lies_beside_the_dummy_is_read_and_the_submission_ends_with_both() {
    let mut rig = rig(TWO_PAGES, "noop");
    rig.read(at(0), sectors(100, 8), 1);
    rig.read(at(0), sectors(124, 8), 1);
    rig.read(at(0), sectors(116, 24), 2);
    let metrics = rig.layer.metrics();
    assert_eq!((metrics.splits, metrics.served_by_infill), (1, 1));
    rig.unplug(at(0));
    rig.finish();
    // What was asked for twice is read twice, as without infill.
    assert_eq!(rig.dispatched(), [(0, 100, 32), (10 * MS, 124, 16)]);
    assert_eq!(rig.completed(), [(0, 10 * MS), (1, 10 * MS), (2, 20 * MS)]);
}

#[test]
fn a_dummy_in_the_device_serves_nobody() {
    let mut rig = rig(TWO_PAGES, "noop");
    rig.read(at(0), sectors(100, 8), 1);
    rig.read(at(0), sectors(124, 8), 1);
    rig.unplug(at(0));
    rig.read(at(1), sectors(112, 8), 1);
    rig.finish();
    assert_eq!(rig.dispatched(), [(0, 100, 32), (10 * MS, 112, 8)]);
}

#[test]
fn joining_needs_no_free_request() {
    let mut rig = rig(Settings { requests: 1, ..TWO_PAGES }, "noop");
    assert!(rig.read(at(0), sectors(100, 8), 1).is_some());
    assert!(rig.read(at(0), sectors(200, 8), 1).is_none(), "the pool has one request");
    rig.finish();
    assert!(rig.read(at(20), sectors(100, 8), 1).is_some());
    assert!(rig.read(at(20), sectors(124, 8), 1).is_some(), "across a gap");
    assert!(rig.read(at(20), sectors(112, 8), 1).is_some(), "in the gap");
    rig.finish();
    assert_eq!(rig.completed().len(), 4);
}

#[test]
fn a_sector_that_cannot_be_read_fails_all_that_have_a_part_in_its_request() {
    let noop = scheduler::by_name("noop").expect("noop");
    let mut rig = Rig::with_device(TWO_PAGES, noop, SERVICE, 32, Some(Lba(110)));
    rig.read(at(0), sectors(100, 8), 1);
    rig.read(at(0), sectors(124, 8), 1);
    rig.read(at(0), sectors(900, 8), 1);
    rig.finish();
    let outcomes: Vec<Outcome> = rig.done.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [Outcome::Failed, Outcome::Failed, Outcome::Done]);
}

/// A request that waits in the naive model.
#[derive(Clone, Debug)]
struct Waiting {
    start: u64,
    end: u64,
    dummies: Vec<(u64, u64)>,
}

/// Requests in the order of their making, without a scheduler, pool or device. All look-ups are linear.
#[derive(Debug)]
struct Naive {
    infill: u64,
    largest: u64,
    queue: Vec<Waiting>,
}

impl Naive {
    fn read(&mut self, mut start: u64, end: u64) {
        while start < end {
            let to = end.min(start + self.largest / 8 * 8);
            let mut dummies: Vec<(u64, u64)> =
                self.queue.iter().flat_map(|one| one.dummies.clone()).collect();
            dummies.sort_unstable();
            start = match dummies.into_iter().find(|dummy| dummy.0 < to && start < dummy.1) {
                Some(dummy) if dummy.0 <= start => to.min(dummy.1),
                Some(dummy) => self.piece(start, dummy.0),
                None => self.piece(start, to),
            };
        }
    }

    fn piece(&mut self, start: u64, end: u64) -> u64 {
        let fits = |one: &Waiting| one.end.max(end) - one.start.min(start) <= self.largest;
        // The last made of those that touch it, below before above.
        let touches = |one: &Waiting| one.end == start || one.start == end;
        let below = self.queue.iter().rposition(|one| one.end == start);
        let above = self.queue.iter().rposition(|one| one.start == end);
        let touching = below.into_iter().chain(above).find(|which| fits(&self.queue[*which]));
        let gap = |one: &Waiting| {
            let gap = if one.end < start { start - one.end } else { one.start.saturating_sub(end) };
            (!touches(one) && gap > 0 && gap <= self.infill).then_some((gap, one.start > end))
        };
        let near = self.queue.iter().enumerate().filter_map(|(which, one)| Some((gap(one)?, which)));
        let nearest = near.min().map(|(_, which)| which).filter(|which| fits(&self.queue[*which]));
        match touching.or(nearest) {
            Some(which) => {
                let one = &mut self.queue[which];
                if one.end < start {
                    one.dummies.push((one.end, start));
                } else if one.start > end {
                    one.dummies.push((end, one.start));
                }
                (one.start, one.end) = (one.start.min(start), one.end.max(end));
                self.close(which);
            }
            None => self.queue.push(Waiting { start, end, dummies: Vec::new() }),
        }
        end
    }

    /// A request that has grown and now touches another.
    fn close(&mut self, which: usize) {
        let one = self.queue[which].clone();
        let after = self.queue.iter().rposition(|other| other.start == one.end);
        let before = self.queue.iter().rposition(|other| other.end == one.start);
        let fits = |other: &Waiting| other.end.max(one.end) - other.start.min(one.start) <= self.largest;
        let other = after.into_iter().chain(before).find(|other| fits(&self.queue[*other]));
        let Some(other) = other else { return };
        let (kept, gone) = if self.queue[other].start > one.start { (which, other) } else { (other, which) };
        let absorbed = self.queue[gone].clone();
        let kept = &mut self.queue[kept];
        (kept.start, kept.end) = (kept.start.min(absorbed.start), kept.end.max(absorbed.end));
        kept.dummies.extend(absorbed.dummies);
        self.queue.remove(gone);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// All reads wait before the first is dispatched: the device gets exactly the requests of the naive model.
    /// No two reads have a page in common, so that no two requests begin or end at one sector.
    #[test]
    fn requests_are_those_of_a_naive_model(
        infill in 0..6u64,
        largest in 8..64u64,
        order in Just((0..60u64).collect::<Vec<_>>()).prop_shuffle(),
        count in 1..40usize,
        pages in prop::collection::vec(1..3u64, 40),
    ) {
        let (infill, largest) = (infill * 8, largest * 8 + 3);
        let settings = Settings {
            infill: Sectors(infill), largest: Sectors(largest), unplug_at: 1000, ..Settings::LINUX_2_6_3
        };
        let mut rig = rig(settings, "noop");
        let mut naive = Naive { infill, largest, queue: Vec::new() };
        for (place, pages) in order.iter().take(count).zip(&pages) {
            rig.read(at(0), sectors(place * 16, pages * 8), 1);
            naive.read(place * 16, place * 16 + pages * 8);
        }
        rig.unplug(at(0));
        rig.finish();
        prop_assert_eq!(rig.completed().len(), count);
        let dispatched: Vec<_> = rig.dispatched().iter().map(|one| (one.1, one.1 + one.2)).collect();
        let modelled: Vec<_> = naive.queue.iter().map(|one| (one.start, one.end)).collect();
        prop_assert_eq!(dispatched, modelled);
        let filled: u64 = naive.queue.iter().flat_map(|one| &one.dummies).map(|(start, end)| end - start).sum();
        prop_assert_eq!(rig.layer.metrics().infill, Sectors(filled));
    }

    /// Under every scheduler and at all times: each submission ends once, and not before each of its sectors has
    /// been through the device since it was made. No request is too long. What nobody asked for are gaps of at
    /// most the longest, between sectors that somebody asked for.
    #[test]
    fn each_is_answered_once_by_reads_of_all_its_sectors(
        name in (0..scheduler::NAMES.len()).prop_map(|n| scheduler::NAMES[n].0),
        infill in 0..80u64,
        requests in 1..12usize,
        in_device in 1..5usize,
        submissions in prop::collection::vec(
            (0..3 * MS, 0..3u32, 0..120u64, 1..60u64, prop::bool::weighted(0.2)), 1..80),
    ) {
        let settings = Settings { infill: Sectors(infill), requests, in_device, ..Settings::LINUX_2_6_3 };
        let mut rig = Rig::new(settings, scheduler::by_name(name).expect("known"), Nanos(MS));
        let (mut now, mut made) = (Instant::ZERO, Vec::new());
        for (after, pid, place, pages, write) in submissions {
            now += Nanos(after);
            let op = if write { Op::Write } else { Op::Read };
            // Writes have places of their own, so that no read can seem to be answered by one.
            let start = place * 24 + if write { 1 << 20 } else { 0 };
            let length = 8 * if pages < 50 { pages % 3 + 1 } else { pages };
            let tag = loop {
                if let Some(tag) = rig.submit(now, op, sectors(start, length), pid) {
                    break tag;
                }
                now = rig.layer.next().expect("a full pool empties");
            };
            made.push((tag, now.get(), start, start + length));
        }
        rig.finish();
        prop_assert_eq!(rig.layer.waiting(), 0);
        let tags: BTreeSet<u64> = rig.done.iter().map(|one| one.tag.0).collect();
        prop_assert_eq!(tags.len(), rig.done.len());
        prop_assert_eq!(rig.done.len(), made.len());
        let served = rig.dispatched();
        for (tag, since, start, end) in &made {
            let over = rig.completed().iter().find(|one| one.0 == *tag).expect("over").1;
            let mut left: BTreeSet<u64> = (*start..*end).collect();
            let within = served.iter().filter(|(when, ..)| when >= since && when + MS <= over);
            within.for_each(|(_, from, length)| left.retain(|at| !(*from..from + length).contains(at)));
            prop_assert!(left.is_empty(), "submission {tag} has not read {left:?}");
        }
        let wanted: BTreeSet<u64> = made.iter().flat_map(|(_, _, start, end)| *start..*end).collect();
        for (_, from, length) in &served {
            prop_assert!(*length <= 255);
            let unasked = (*from..from + length).collect::<Vec<_>>();
            let runs = unasked.split(|at| wanted.contains(at)).map(<[u64]>::len);
            prop_assert!(runs.max().unwrap_or(0) as u64 <= infill);
            prop_assert!(wanted.contains(from) && wanted.contains(&(from + length - 1)));
        }
    }

    /// Where every gap is longer than what is filled, everything is as without infill.
    #[test]
    fn gaps_that_are_too_long_change_nothing(
        name in (0..scheduler::NAMES.len()).prop_map(|n| scheduler::NAMES[n].0),
        submissions in prop::collection::vec((0..3 * MS, 0..3u32, 0..60u64, any::<bool>()), 1..80),
    ) {
        let run = |infill| {
            let settings = Settings { infill: Sectors(infill), ..Settings::LINUX_2_6_3 };
            let mut rig = Rig::new(settings, scheduler::by_name(name).expect("known"), Nanos(MS));
            let mut now = Instant::ZERO;
            for (after, pid, place, write) in &submissions {
                now += Nanos(*after);
                let op = if *write { Op::Write } else { Op::Read };
                rig.submit(now, op, sectors(place * 24, 8), *pid);
            }
            rig.finish();
            (rig.dispatched(), rig.completed(), rig.layer.metrics())
        };
        prop_assert_eq!(run(0), run(15));
    }
}
