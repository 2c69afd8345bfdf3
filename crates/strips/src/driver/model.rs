//! The driver compared with a naive device, by sector: over all interleavings of small cases, and random ones
//! of large cases.
//!
//! An operation below takes effect at one moment and ends at a later one; in between anything may happen. A
//! read must be answered with contents that the device had at each of its sectors at some time between the
//! read's arrival and its answer.

use super::{Action, StripDriver, skip};
use crate::testing::Simple;
use crate::{Following, Geometry, Lru, Member, Outcome, Settings, StripEngine, registry};
use foreseek_seam::{FetchId, FrameId, RequestId};
use foreseek_units::{
    ByteOffset, ByteSpan, Bytes, Instant, Lba, Level, Pages, SECTORS_PER_PAGE, Sectors, Stripes,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SECTORS: usize = SECTORS_PER_PAGE as usize;

#[derive(Clone, Copy, Debug)]
enum Request {
    Read(u64, u64),
    /// Write or discard.
    Change(u64, u64),
}

fn span(start: u64, length: u64) -> ByteSpan {
    ByteSpan::at(ByteOffset(start * 512), Bytes(length * 512))
}

fn sectors(range: ByteSpan) -> std::ops::Range<usize> {
    (range.start.get() / 512) as usize..(range.end.get() / 512) as usize
}

#[derive(Debug)]
enum What {
    Fetch(FetchId, Vec<FrameId>),
    Part(RequestId),
    Change(RequestId),
}

/// An operation in progress below.
#[derive(Debug)]
struct Below {
    what: What,
    range: ByteSpan,
    /// How it will end, once it has taken effect; with the data of a read.
    effect: Option<Result<Vec<u32>, ()>>,
}

/// A read that is carried out below.
struct Pass {
    range: ByteSpan,
    left: usize,
    got: BTreeMap<usize, u32>,
    failed: bool,
}

struct World<'a> {
    driver: StripDriver,
    choose: &'a mut dyn FnMut(usize) -> usize,
    faults: bool,
    /// Operations on this member do not end.
    stuck: Option<Member>,
    /// Operations on this member fail.
    broken: Option<Member>,
    step: usize,
    /// The contents of each sector over time.
    held: Vec<Vec<(usize, u32)>>,
    frames: Vec<Option<Vec<u32>>>,
    filling: BTreeSet<FrameId>,
    below: Vec<Below>,
    passes: BTreeMap<RequestId, Pass>,
    arrived: BTreeMap<RequestId, usize>,
    ranges: BTreeMap<RequestId, ByteSpan>,
    failed: BTreeSet<RequestId>,
    /// The requests that were acknowledged.
    answered: BTreeSet<RequestId>,
    served: usize,
}

impl<'a> World<'a> {
    fn new(policy: &str, set_up: SetUp, faults: bool, choose: &'a mut dyn FnMut(usize) -> usize) -> Self {
        let stripes = Stripes { level: Level::Raid5, members: 3, strip: Sectors(2 * SECTORS_PER_PAGE) };
        let geometry =
            Geometry::new(stripes, Lba(set_up.origin * SECTORS_PER_PAGE), Pages(set_up.sectors / 8));
        let geometry = geometry.expect("valid");
        let settings = Settings { cache: Pages(10), following: Following::Streams };
        let rules = registry::by_name(policy).expect("known").rules;
        let engine = StripEngine::new(geometry, settings, rules, Arc::new(Simple), Box::new(Lru));
        let frames = 10 + set_up.spare;
        Self {
            driver: StripDriver::new(engine.expect("large enough"), geometry, frames),
            choose,
            faults,
            stuck: None,
            broken: None,
            step: 0,
            held: vec![vec![(0, 0)]; set_up.sectors as usize],
            frames: vec![None; frames as usize],
            filling: BTreeSet::new(),
            below: Vec::new(),
            passes: BTreeMap::new(),
            arrived: BTreeMap::new(),
            ranges: BTreeMap::new(),
            failed: BTreeSet::new(),
            answered: BTreeSet::new(),
            served: 0,
        }
    }

    /// Runs all requests to their end.
    fn run(&mut self, requests: &[Request]) {
        self.run_as_far_as_possible(requests);
        if self.stuck.is_some() {
            self.assert_others_are_answered();
            self.stuck = None;
            self.run_as_far_as_possible(&[]);
        }
        assert_eq!(self.answered.len(), requests.len(), "every request is answered");
        assert!(self.driver.reads.is_empty() && self.driver.fetches.is_empty());
        let frames = self.driver.places.len() + self.driver.free.len();
        assert_eq!(frames, self.frames.len(), "no frame is lost");
        assert_eq!(self.driver.places.len() as u64, self.driver.cache().used().get());
    }

    fn run_as_far_as_possible(&mut self, requests: &[Request]) {
        let mut next = 0;
        loop {
            let arrivals = usize::from(next < requests.len());
            let goes_on = |below: &Below| self.stuck.is_none_or(|member| !self.lies_on(below.range, member));
            let going: Vec<usize> = (0..self.below.len()).filter(|at| goes_on(&self.below[*at])).collect();
            let choices = arrivals + going.len();
            if choices == 0 {
                return;
            }
            self.step += 1;
            let choice = (self.choose)(choices);
            if choice < arrivals {
                self.arrive(RequestId(next as u64), requests[next]);
                next += 1;
            } else {
                self.proceed(going[choice - arrivals]);
            }
            let changes = self.below.iter().filter(|below| matches!(below.what, What::Change(_))).count();
            let counted = self.driver.engine.wide_under_way();
            assert!(counted.is_none_or(|wide| wide as usize == changes), "{counted:?} of {changes}");
        }
    }

    /// Whether a part of this range is on this member.
    fn lies_on(&self, range: ByteSpan, member: Member) -> bool {
        let geometry = &self.driver.geometry;
        geometry.strips(range.pages()).any(|(strip, _)| geometry.member_of(strip) == member)
    }

    /// All requests must be answered, except those that need the stuck member and those that wait for a
    /// change that does.
    fn assert_others_are_answered(&self) {
        let stuck = self.stuck.expect("one is");
        let mut changes: Vec<ByteSpan> = Vec::new();
        for (request, range) in &self.ranges {
            let waits = self.lies_on(*range, stuck) || changes.iter().any(|earlier| earlier.overlaps(*range));
            assert!(
                waits || self.answered.contains(request),
                "{request:?} waits for a member that it does not need"
            );
            if waits && self.is_change(*request) {
                changes.push(*range);
            }
        }
    }

    fn arrive(&mut self, request: RequestId, what: Request) {
        let (Request::Read(start, length) | Request::Change(start, length)) = what;
        let range = span(start, length);
        self.arrived.insert(request, self.step);
        self.ranges.insert(request, range);
        let mut actions = Vec::new();
        match what {
            Request::Read(..) => self.driver.read(request, range, &mut actions),
            Request::Change(..) => self.driver.change(request, range, &mut actions),
        }
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for act in actions {
            match act {
                Action::Fetch { fetch, pages, frames, .. } => {
                    assert_eq!(pages.len().get() as usize, frames.len());
                    for frame in &frames {
                        assert!(self.filling.insert(*frame), "filled twice");
                        self.frames[frame.0 as usize] = None;
                    }
                    assert_eq!(self.driver.parts(pages.bytes()).count(), 1, "a fetch is of one member");
                    self.start(What::Fetch(fetch, frames), pages.bytes());
                }
                Action::Serve { request, range, frames } => {
                    let pages = frames.iter().map(|frame| {
                        assert!(!self.filling.contains(frame), "it is being filled");
                        self.frames[frame.0 as usize].clone().expect("it is full")
                    });
                    let bytes: Vec<u32> = pages.collect::<Vec<_>>().concat();
                    let skip = (skip(range).get() / 512) as usize;
                    self.served += 1;
                    self.answer(request, &bytes[skip..skip + sectors(range).len()]);
                }
                Action::Pass { request, range } => {
                    let parts: Vec<ByteSpan> = self.driver.parts(range).collect();
                    assert_eq!(parts.iter().map(|part| part.len().get()).sum::<u64>(), range.len().get());
                    let pass = Pass { range, left: parts.len(), got: BTreeMap::new(), failed: false };
                    self.passes.insert(request, pass);
                    parts.into_iter().for_each(|part| self.start(What::Part(request), part));
                }
                Action::Change { request } => {
                    let range = self.ranges[&request];
                    // Overlapping changes are never below together, and go there in their order of arrival.
                    for (other, its) in self.ranges.range(..request) {
                        let is_change = !self.answered.contains(other) && self.is_change(*other);
                        assert!(!(is_change && its.overlaps(range)), "{other:?} comes first");
                    }
                    self.start(What::Change(request), range);
                }
                Action::Empty { frames } => {
                    for frame in frames {
                        assert!(!self.filling.contains(&frame), "it is being filled");
                        self.frames[frame.0 as usize] = None;
                    }
                }
            }
        }
    }

    fn is_change(&self, request: RequestId) -> bool {
        self.driver.order.range(request).is_some()
    }

    fn start(&mut self, what: What, range: ByteSpan) {
        self.below.push(Below { what, range, effect: None });
    }

    /// An operation below takes effect, or ends.
    fn proceed(&mut self, at: usize) {
        let is_broken = self.broken.is_some_and(|member| self.lies_on(self.below[at].range, member));
        let Below { what, range, effect } = &mut self.below[at];
        let Some(result) = effect.take() else {
            // Of a failed operation, a part may have been done.
            let outcome = match (is_broken, self.faults) {
                (true, _) => 1 + (self.choose)(2),
                (false, true) => (self.choose)(3),
                (false, false) => 0,
            };
            if let (What::Change(request), 0 | 1) = (&what, outcome) {
                for sector in sectors(*range) {
                    self.held[sector].push((self.step, request.0 as u32 + 1));
                }
            }
            let read = sectors(*range).map(|sector| self.held[sector].last().expect("at first 0").1);
            *effect = Some(if outcome == 0 { Ok(read.collect()) } else { Err(()) });
            return;
        };
        let Below { what, range, .. } = self.below.remove(at);
        let mut actions = Vec::new();
        match what {
            What::Fetch(fetch, frames) => {
                for frame in &frames {
                    self.filling.remove(frame);
                }
                for (frame, page) in frames.iter().zip(result.iter().flat_map(|got| got.chunks(SECTORS))) {
                    self.frames[frame.0 as usize] = Some(page.to_vec());
                }
                let outcome = if result.is_ok() { Outcome::Arrived } else { Outcome::Failed };
                self.driver.fetched(fetch, outcome, &mut actions);
            }
            What::Part(request) => self.part(request, range, result),
            What::Change(request) => {
                self.driver.changed(request, Instant(self.step as u64), &mut actions);
                self.answered.insert(request);
                self.failed.extend(result.is_err().then_some(request));
            }
        }
        self.carry_out(actions);
    }

    fn part(&mut self, request: RequestId, range: ByteSpan, result: Result<Vec<u32>, ()>) {
        let pass = self.passes.get_mut(&request).expect("it is under way");
        pass.left -= 1;
        match result {
            Ok(got) => pass.got.extend(sectors(range).zip(got)),
            Err(()) => pass.failed = true,
        }
        if pass.left > 0 {
            return;
        }
        let pass = self.passes.remove(&request).expect("it was there");
        if pass.failed {
            self.answered.insert(request);
            self.failed.insert(request);
        } else {
            let bytes: Vec<u32> = sectors(pass.range).map(|sector| pass.got[&sector]).collect();
            self.answer(request, &bytes);
        }
    }

    fn answer(&mut self, request: RequestId, got: &[u32]) {
        assert!(self.answered.insert(request), "answered twice");
        let arrived = self.arrived[&request];
        for (sector, got) in sectors(self.ranges[&request]).zip(got) {
            let held = &self.held[sector];
            let at_arrival = held.iter().rposition(|(since, _)| *since <= arrived).expect("at first 0");
            let fits = held[at_arrival..].iter().any(|(_, value)| value == got);
            assert!(
                fits,
                "{request:?} got {got} of sector {sector}, which held {held:?}; it came at {arrived}"
            );
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct SetUp {
    origin: u64,
    sectors: u64,
    spare: u32,
}

/// Runs something with each possible sequence of choices; returns their number.
fn explore(mut run: impl FnMut(&mut dyn FnMut(usize) -> usize)) -> usize {
    let (mut path, mut runs): (Vec<(usize, usize)>, usize) = (Vec::new(), 0);
    loop {
        let mut depth = 0;
        run(&mut |of| {
            if depth == path.len() {
                path.push((0, of));
            }
            depth += 1;
            path[depth - 1].0
        });
        runs += 1;
        path.truncate(depth);
        while path.last().is_some_and(|(chosen, of)| chosen + 1 == *of) {
            path.pop();
        }
        match path.last_mut() {
            Some((chosen, _)) => *chosen += 1,
            None => return runs,
        }
    }
}

/// Reads and changes that overlap in part, in one strip, across two, and at offsets within pages.
const SMALL: [Request; 6] = [
    Request::Read(0, 8),
    Request::Read(4, 16),
    Request::Read(13, 1),
    Request::Change(0, 8),
    Request::Change(4, 9),
    Request::Change(12, 16),
];
const SMALL_SET_UP: SetUp = SetUp { origin: 0, sectors: 32, spare: 4 };

fn all_of_three(policy: &str, faults: bool, with: impl Fn(&[Request]) -> bool) -> usize {
    let mut runs = 0;
    for (a, b, c) in (0..216).map(|number| (number / 36, number / 6 % 6, number % 6)) {
        let requests = [SMALL[a], SMALL[b], SMALL[c]];
        let changes = requests.iter().filter(|one| matches!(one, Request::Change(..))).count();
        if changes > 0 && with(&requests) {
            runs += explore(|choose| World::new(policy, SMALL_SET_UP, faults, choose).run(&requests));
        }
    }
    runs
}

#[test]
fn all_interleavings_of_three_requests() {
    // Cases that begin with a wide change or one of the two wide reads take minutes.
    let small = |requests: &[Request]| {
        matches!(requests[0], Request::Read(13, 1) | Request::Change(0, 8) | Request::Change(4, 9))
            && matches!(requests[2], Request::Read(13, 1) | Request::Read(0, 8) | Request::Change(..))
    };
    let runs = all_of_three("sp", false, small);
    assert!(runs > 10_000, "{runs}");
}

/// Four minutes for each policy.
#[test]
#[ignore = "takes minutes; run it after a change of the driver: cargo test -p foreseek-strips -- --ignored"]
fn all_interleavings_of_all_three_requests() {
    for policy in ["none", "sp"] {
        let runs = all_of_three(policy, false, |_| true);
        assert!(runs > 50_000, "{policy}: {runs}");
    }
}

#[test]
#[ignore = "takes minutes; run it after a change of the driver: cargo test -p foreseek-strips -- --ignored"]
fn all_interleavings_of_three_requests_with_every_fault() {
    let runs = all_of_three("sp", true, |requests| {
        matches!((requests[0], requests[2]), (Request::Change(0, 8), Request::Read(0, 8)))
    });
    assert!(runs > 10_000, "{runs}");
}

#[test]
fn changes_that_do_not_overlap_go_below_together_and_whole() {
    let mut always_first = |_| 0;
    let mut world = World::new("asp+msp", SMALL_SET_UP, false, &mut always_first);
    world.arrive(RequestId(0), Request::Change(0, 24));
    world.arrive(RequestId(1), Request::Change(24, 8));
    world.arrive(RequestId(2), Request::Change(20, 6));
    let below: Vec<_> = world.below.iter().map(|below| sectors(below.range)).collect();
    assert_eq!(below, [0..24, 24..32]);
}

fn request(sectors: u64) -> impl Strategy<Value = Request> {
    let place = (0..sectors, prop_oneof![3 => Just(8u64), 2 => 1..40u64], any::<bool>());
    (place, 0..3u8).prop_map(move |((start, length, aligned), kind)| {
        let start = if aligned { start / 8 * 8 } else { start };
        let length = length.min(sectors - start);
        if kind == 0 { Request::Change(start, length) } else { Request::Read(start, length) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Devices that begin and end within a strip, and within a page.
    #[test]
    fn drawn_interleavings_of_many_requests(
        policy in prop::sample::select(registry::names().collect::<Vec<_>>()),
        (set_up, requests) in (0..5u64, 60..200u64, 0..4u32).prop_flat_map(|(origin, sectors, spare)| {
            let set_up = SetUp { origin, sectors, spare };
            (Just(set_up), prop::collection::vec(request(sectors), 1..60))
        }),
        faults in any::<bool>(),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 64),
    ) {
        let mut at = 0;
        let mut choose = |of: usize| {
            at += 1;
            // Faults are rare, so that the cache fills.
            if of == 3 && at % 5 != 0 { 0 } else { choices[(at * 7 + at / 64) % choices.len()].index(of) }
        };
        World::new(policy, set_up, faults, &mut choose).run(&requests);
    }

    /// A member that does not answer delays requests on it, and changes of it delay the requests behind them.
    #[test]
    fn a_slow_member_delays_only_its_own_requests(
        (policy, member, requests, choices) in one_bad_member(),
    ) {
        let mut choose = drawn(&choices);
        let mut world = World::new(policy, LARGE_SET_UP, false, &mut choose);
        world.stuck = Some(member);
        world.run(&requests);
    }

    /// A member that fails fails the requests on it, and no other, whatever is prefetched from it.
    #[test]
    fn a_broken_member_fails_only_its_own_requests(
        (policy, member, requests, choices) in one_bad_member(),
    ) {
        let mut choose = drawn(&choices);
        let mut world = World::new(policy, LARGE_SET_UP, false, &mut choose);
        world.broken = Some(member);
        world.run(&requests);
        for (request, range) in &world.ranges {
            prop_assert_eq!(world.failed.contains(request), world.lies_on(*range, member), "{:?}", request);
        }
    }
}

/// A policy, the faulty member, requests and choices.
fn one_bad_member() -> impl Strategy<Value = (&'static str, Member, Vec<Request>, Vec<prop::sample::Index>)> {
    let policy = prop::sample::select(registry::names().collect::<Vec<_>>());
    let requests = prop::collection::vec(request(120), 1..60);
    (policy, (0..3u32).prop_map(Member), requests, prop::collection::vec(any::<prop::sample::Index>(), 64))
}

const LARGE_SET_UP: SetUp = SetUp { origin: 0, sectors: 120, spare: 4 };

/// Makes the given choices, cyclically.
fn drawn(choices: &[prop::sample::Index]) -> impl FnMut(usize) -> usize + use<'_> {
    let mut at = 0;
    move |of| {
        at += 1;
        choices[(at * 7 + at / 64) % choices.len()].index(of)
    }
}

#[test]
fn fetched_pages_are_served_from_memory_until_they_change() {
    let mut always_first = |_| 0;
    let mut world = World::new("sp", SMALL_SET_UP, false, &mut always_first);
    world.run(&[Request::Read(0, 8)]);
    let before = world.served;
    world.arrive(RequestId(1), Request::Read(8, 8));
    assert_eq!(world.served, before + 1, "its strip was fetched");
    world.arrive(RequestId(2), Request::Change(9, 1));
    world.arrive(RequestId(3), Request::Read(9, 1));
    assert_eq!(world.served, before + 1, "it waits for the change");
    while !world.below.is_empty() {
        world.proceed(0);
    }
    assert!(world.answered.contains(&RequestId(3)));
}
