//! The driver against models: it answers what it fetched, within its memory, and is deterministic.

use super::{Member, Settings, StripDevice};
use crate::block::scheduler;
use foreseek_device::{Build, Device, Finished, Io, IoId, Op, Outcome, Profile, Submitter};
use foreseek_seam::{FetchId, RequestId};
use foreseek_strips::{
    self as strips, Blocks, Command, Following, Geometry, Lru, StripEngine, StripNo, registry,
};
use foreseek_units::{Bytes, Instant, Lba, Nanos, Pages, SectorSpan, Sectors};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The memory behind the commands, block by block.
#[derive(Default)]
pub(super) struct Audit {
    geometry: Option<Geometry>,
    fetches: BTreeMap<FetchId, (StripNo, Blocks)>,
    there: BTreeSet<(StripNo, u64)>,
    served: u64,
}

fn each(blocks: Blocks) -> impl Iterator<Item = u64> {
    blocks.runs().flat_map(|(start, end)| start..end).collect::<Vec<_>>().into_iter()
}

impl Audit {
    pub(super) fn commanded(&mut self, command: &Command, range: impl Fn(RequestId) -> SectorSpan) {
        match *command {
            Command::Fetch { fetch, strip, blocks, .. } => {
                assert!(each(blocks).all(|block| !self.there.contains(&(strip, block))));
                self.fetches.insert(fetch, (strip, blocks));
            }
            Command::Serve { request } => {
                let Some(geometry) = self.geometry else { return };
                self.served += 1;
                for (strip, blocks) in geometry.strips(super::strip_device::pages_of(range(request))) {
                    assert!(each(blocks).all(|block| self.there.contains(&(strip, block))), "{request:?}");
                }
            }
            Command::Drop { strip, blocks } => {
                for block in each(blocks) {
                    self.there.remove(&(strip, block));
                }
            }
            Command::Pass { .. } => {}
        }
    }

    pub(super) fn arrived(&mut self, fetch: FetchId, well: bool) {
        let (strip, blocks) = self.fetches.remove(&fetch).expect("it was commanded");
        if well {
            self.there.extend(each(blocks).map(|block| (strip, block)));
        }
    }
}

const SIZE: Bytes = Bytes::mib(64);
const CACHE: Pages = Pages(320);

/// The array below a driver, and the driver's memory.
struct SetUp {
    cache: Pages,
    seed: u64,
    unreadable: Vec<SectorSpan>,
    /// Blocks for written data, if any.
    written: Option<Pages>,
    /// The delay of each request of member 0.
    slow: Nanos,
}

impl Default for SetUp {
    fn default() -> Self {
        Self { cache: CACHE, seed: 0, unreadable: Vec::new(), written: None, slow: Nanos::ZERO }
    }
}

fn driver(policy: &str, set_up: SetUp) -> StripDevice {
    let SetUp { cache, seed, unreadable, written, slow } = set_up;
    let profile = Profile::builtin("raid5-5x-15k").expect("built in");
    let geometry = Geometry::new(profile.stripes().expect("an array"), Lba(0), SIZE.pages_floor());
    let geometry = geometry.expect("valid");
    let settings = strips::Settings { cache, following: Following::Streams };
    let member = Arc::new(profile.member().expect("an array"));
    let rules = registry::by_name(policy).expect("known").rules;
    let engine = StripEngine::new(geometry, settings, rules, member, Box::new(Lru)).expect("large enough");
    let build = Build { size: Some(SIZE), seed, unreadable, ..Build::default() };
    let Settings { scheduler, members, request, copy, .. } = Settings::default();
    let mut slow_first = super::slow_first(slow);
    let mut behind = |disk: Box<dyn Device>| -> Box<dyn Device> {
        let scheduler = scheduler::by_name(&scheduler).expect("known");
        Box::new(Member::new(members, scheduler, slow_first(disk)))
    };
    let below = profile.build_over(&build, &mut behind).expect("a device");
    let mut driver = StripDevice::new(engine, below, (request, copy));
    driver.audit.geometry = Some(geometry);
    match written {
        Some(blocks) => driver.with_write_cache(geometry, blocks),
        None => driver,
    }
}

/// Runs requests to their ends, each at a given time after the one before.
fn run(driver: &mut StripDevice, requests: &[(Op, u64, u64, u64)]) -> Vec<Finished> {
    let (mut now, mut done) = (Instant::ZERO, Vec::new());
    for (number, (op, page, pages, wait)) in requests.iter().enumerate() {
        now += Nanos::from_micros(*wait);
        driver.advance(now, &mut done);
        let range = SectorSpan::at(Lba(page * 8), Sectors(pages * 8));
        let io = Io { id: IoId(number as u64), op: *op, range };
        driver.submit_for(now, io, Submitter(number as u32 % 3)).expect("room");
        assert!(driver.held() <= CACHE);
    }
    while let Some(next) = driver.next() {
        driver.advance(next, &mut done);
        assert!(driver.held() <= CACHE);
    }
    done
}

fn requests() -> impl Strategy<Value = Vec<(Op, u64, u64, u64)>> {
    let op = prop_oneof![9 => Just(Op::Read), 3 => Just(Op::Write)];
    // A few addresses and, for MSP, forward runs.
    let one = (op, prop_oneof![0..40u64, 3000..3600u64, 0..16_000u64], 1..40u64, 0..20_000u64);
    let runs = (0..15_000u64, 1..9u64).prop_map(|(from, pages)| {
        (0..48).map(|n| (Op::Read, from + n * pages, pages, 300)).collect::<Vec<_>>()
    });
    let part = prop_oneof![3 => one.prop_map(|one| vec![one]), 1 => runs];
    proptest::collection::vec(part, 1..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every request is answered once, reads get what was fetched, memory stays within its limit, and a second
    /// run gives the same.
    #[test]
    fn what_is_answered_was_fetched(
        policy in prop::sample::select(registry::names().collect::<Vec<_>>()),
        requests in requests(),
        seed in 0..4u64,
        // A page, which lies in one strip: two unreadable strips of a row are lost together.
        bad in proptest::option::of(0..12_500u64),
        written in proptest::option::of(1..200u64),
    ) {
        let unreadable = || bad.map(|page| SectorSpan::at(Lba(page * 8), Sectors(8))).into_iter().collect::<Vec<_>>();
        let written = written.map(Pages);
        let new = || driver(policy, SetUp { seed, unreadable: unreadable(), written, ..SetUp::default() });
        let mut first = new();
        let done = run(&mut first, &requests);
        prop_assert_eq!(done.len(), requests.len());
        prop_assert_eq!(done.iter().map(|one| one.id).collect::<BTreeSet<_>>().len(), requests.len());
        prop_assert!(done.iter().all(|one| one.outcome == Outcome::Done), "RAID-5 reads around one bad sector");
        prop_assert_eq!(first.held().get(), first.audit.there.len() as u64);
        let mut second = new();
        prop_assert_eq!(&done, &run(&mut second, &requests));
    }
}

#[test]
fn a_hit_costs_processor_time_and_no_disk() {
    let mut driver = driver("sp", SetUp::default());
    let done = run(&mut driver, &[(Op::Read, 5, 1, 0), (Op::Read, 9, 2, 100_000)]);
    let Settings { request, copy, .. } = Settings::default();
    assert_eq!(done[1].at, Instant::ZERO + Nanos::from_millis(100) + request + copy * 2);
    assert!(done[0].at > Instant::ZERO + Nanos::from_millis(1), "{done:?}");
    let stats = driver.seen().stats();
    assert_eq!((stats.misses, stats.strip_blocks, stats.prefetch_hits), (1, 31, 2));
    assert_eq!(driver.counters().buffer_hits, driver.audit.served);
}

/// Random reads of single blocks with some writes between them, no more than the slow member can serve.
#[test]
fn a_slow_member_is_measured_and_the_others_are_as_their_profile() {
    let random = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    let requests: Vec<_> = (0..4000)
        .map(|n| (if n % 50 == 0 { Op::Write } else { Op::Read }, random(n) % 12_000, 1, 20_000))
        .collect();
    let beyond = |policy: &str, slow: u64| {
        let slow = Nanos::from_millis(slow);
        let mut driver = driver(policy, SetUp { slow, ..SetUp::default() });
        run(&mut driver, &requests);
        driver.cache().beyond_profile().map(|ns| ns as f64 / 1e6).collect::<Vec<_>>()
    };
    for slow in [0, 20] {
        let measured = beyond("adaptive", slow);
        assert_eq!(measured.len(), 5);
        for (member, ms) in measured.iter().enumerate() {
            let expected = if member == 0 { slow as f64 } else { 0.0 };
            assert!((ms - expected).abs() < 2.0, "slow by {slow} ms: {measured:?}");
        }
    }
    assert!(beyond("adaptive-by-profile", 20).is_empty(), "it does not measure");
}

/// Sections 1.1.2 and 2.5: a strip is one access of one disk; stripes keep all of them busy.
#[test]
fn few_sequential_readers_are_faster_with_whole_stripes() {
    let sequential: Vec<_> = (0..4096).map(|page| (Op::Read, page, 1, 0)).collect();
    let time = |policy: &str| {
        let (mut driver, mut now, mut done) =
            (driver(policy, SetUp { cache: CACHE * 16, ..SetUp::default() }), Instant::ZERO, Vec::new());
        for (number, (op, page, pages, _)) in sequential.iter().enumerate() {
            let range = SectorSpan::at(Lba(page * 8), Sectors(pages * 8));
            driver.submit(now, Io { id: IoId(number as u64), op: *op, range }).expect("room");
            while done.len() <= number {
                now = driver.next().expect("it works on it");
                driver.advance(now, &mut done);
            }
        }
        now - Instant::ZERO
    };
    let (asp, both) = (time("asp"), time("asp+msp"));
    assert!(both.as_secs_f64() < 0.8 * asp.as_secs_f64(), "{both} {asp}");
}

/// A write is acknowledged at once if there is room for it, and written data are read without a disk.
#[test]
fn written_blocks_are_acknowledged_at_once_and_read_from_memory() {
    let mut driver = driver("none", SetUp { written: Some(Pages(160)), ..SetUp::default() });
    let requests = [(Op::Write, 0, 128, 0), (Op::Read, 10, 8, 1000), (Op::Write, 4000, 40, 0)];
    let done = run(&mut driver, &requests);
    let Settings { request, copy, .. } = Settings::default();
    let at = |of: usize| done.iter().find(|one| one.id.0 == of as u64).expect("done").at;
    assert_eq!(at(0), Instant::ZERO + request + copy * 128);
    assert_eq!(at(1), Instant::ZERO + Nanos::from_millis(1) + request + copy * 8);
    assert!(at(2) > at(1) + Nanos::from_millis(1), "it waits until the first stripe has been destaged");
}

/// More writes than a member has requests for: a refused one must not be offered again at the same time,
/// without end.
#[test]
fn a_member_whose_queue_is_full_of_writes_goes_on() {
    let mut driver = driver("none", SetUp::default());
    let writes: Vec<_> = (0..3000).map(|n| (Op::Write, n * 37 % 12_000, 1, 0)).collect();
    assert_eq!(run(&mut driver, &writes).len(), writes.len());
}
