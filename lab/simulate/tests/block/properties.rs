//! Properties of every scheduler and of the block layer, against naive models.

use crate::rig::{MS, Rig, sectors};
use crate::stage::Stage;
use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_simulate::block::{Request, RequestId, Settings, scheduler};
use foreseek_units::{Instant, Nanos};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn names() -> impl Strategy<Value = &'static str> {
    (0..scheduler::NAMES.len()).prop_map(|n| scheduler::NAMES[n].0)
}

/// An event of a scheduler, and the time since the one before.
#[derive(Clone, Debug)]
enum Event {
    Add { start: u64, length: u64, pid: u32, write: bool, waited_for: bool },
    Dispatch,
    Complete { which: usize, whole: bool },
    Grow { which: usize, by: u64, before: bool },
    Absorb { which: usize },
    Exit { pid: u32 },
}

fn event() -> impl Strategy<Value = (u64, Event)> {
    let add = (0..2000u64, 1..64u64, 0..4u32, prop::bool::weighted(0.3), any::<bool>()).prop_map(
        |(start, length, pid, write, waited_for)| Event::Add {
            start: start * 64,
            length,
            pid,
            write,
            waited_for,
        },
    );
    let event = prop_oneof![
        4 => add,
        4 => Just(Event::Dispatch),
        3 => (0..8usize, any::<bool>()).prop_map(|(which, whole)| Event::Complete { which, whole }),
        1 => (0..64usize, 1..64u64, any::<bool>()).prop_map(|(which, by, before)| Event::Grow { which, by, before }),
        1 => (0..64usize).prop_map(|which| Event::Absorb { which }),
        1 => (0..4u32).prop_map(|pid| Event::Exit { pid }),
    ];
    (prop_oneof![3 => 0..3 * MS, 1 => 0..200 * MS], event)
}

/// The expected state: requests that wait, and those in the device.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<RequestId, Request>,
    device: Vec<Request>,
    next: u32,
}

impl Model {
    /// Applies the event to the scheduler, as far as possible.
    fn apply(&mut self, stage: &mut Stage, now: Instant, event: &Event) -> Result<(), TestCaseError> {
        match *event {
            Event::Add { start, length, pid, write, waited_for } => {
                let op = if write { Op::Write } else { Op::Read };
                let (id, synchronous) = (RequestId(self.next), !write || waited_for);
                self.next += 1;
                let range = sectors(start, length);
                let request = Request { id, op, range, pid: ProcessId(pid), synchronous, at: now };
                self.waiting.insert(id, request);
                stage.scheduler.add(now, request);
            }
            Event::Dispatch => self.dispatch(stage, now)?,
            Event::Complete { which, whole } if which < self.device.len() => {
                let request = self.device.swap_remove(which);
                stage.scheduler.completed(now, &request, whole);
            }
            Event::Grow { which, by, before } => self.grow(stage, now, which, by, before),
            Event::Absorb { which } => self.absorb(stage, now, which),
            Event::Exit { pid } => stage.scheduler.exited(now, ProcessId(pid)),
            Event::Complete { .. } => {}
        }
        Ok(())
    }

    /// A dispatched request must wait and be as it was reported. A refusal must have a deadline, or wait for a
    /// completion; called again at that time, the scheduler may not give the same answer.
    fn dispatch(&mut self, stage: &mut Stage, now: Instant) -> Result<(), TestCaseError> {
        match stage.scheduler.dispatch(now) {
            Some(request) => {
                let known = self.waiting.remove(&request.id);
                prop_assert_eq!(known.map(|known| known.range), Some(request.range));
                self.device.push(request);
            }
            None if self.waiting.is_empty() => {}
            None => {
                let until = stage.scheduler.deadline();
                prop_assert!(until.is_some() || !self.device.is_empty(), "it refuses for ever");
                prop_assert!(until.is_none_or(|until| until > now), "it would be asked for ever");
            }
        }
        Ok(())
    }

    fn nth(&self, which: usize) -> Option<Request> {
        self.waiting.values().nth(which % self.waiting.len().max(1)).copied()
    }

    fn grow(&mut self, stage: &mut Stage, now: Instant, which: usize, by: u64, before: bool) {
        let Some(mut request) = self.nth(which) else { return };
        let (start, end) = (request.range.start.get(), request.range.end.get());
        let with = if before { sectors(start.saturating_sub(by), start.min(by)) } else { sectors(end, by) };
        if !stage.scheduler.may_merge(request.id, &Request { range: with, ..request }) {
            return;
        }
        request.range = request.range.hull(with);
        self.waiting.insert(request.id, request);
        stage.scheduler.grown(now, request.id, request.range);
    }

    fn absorb(&mut self, stage: &mut Stage, now: Instant, which: usize) {
        let Some(kept) = self.nth(which) else { return };
        let other = self
            .waiting
            .values()
            .find(|one| one.id != kept.id && one.op == kept.op && one.range.start > kept.range.start);
        let Some(gone) = other.copied() else { return };
        let may = |one: &Request, other: &Request| stage.scheduler.may_merge(one.id, other);
        if !may(&kept, &gone) || !may(&gone, &kept) {
            return;
        }
        self.waiting.remove(&gone.id);
        let range = kept.range.hull(gone.range);
        self.waiting.insert(kept.id, Request { range, ..kept });
        stage.scheduler.absorbed(now, kept.id, gone.id, range);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_is_lost_nothing_is_served_twice_and_no_refusal_lasts(
        name in names(),
        events in prop::collection::vec(event(), 1..300),
    ) {
        let (mut stage, mut model, mut now) = (Stage::new(name), Model::default(), Instant::ZERO);
        for (after, event) in &events {
            now += Nanos(*after);
            model.apply(&mut stage, now, event)?;
            prop_assert_eq!(stage.scheduler.waiting(), model.waiting.len());
        }
        // Finally all requests are dispatched, since each wait is bounded.
        while !(model.waiting.is_empty() && model.device.is_empty()) {
            let (waiting, device) = (model.waiting.len(), model.device.len());
            model.dispatch(&mut stage, now)?;
            if model.waiting.len() == waiting {
                let until = stage.scheduler.deadline().filter(|_| waiting > 0);
                match model.device.pop() {
                    Some(request) => stage.scheduler.completed(now, &request, true),
                    None => now = until.expect("checked by the model"),
                }
            }
            prop_assert!(model.device.len() <= device + 1);
        }
        prop_assert_eq!(stage.scheduler.dispatch(now), None);
    }

    #[test]
    fn c_scan_takes_the_nearest_ahead_or_else_the_lowest(
        steps in prop::collection::vec((prop::collection::vec(0..10_000u64, 0..6), 0..6usize), 1..60),
    ) {
        let mut stage = Stage::new("c-scan");
        let (mut waiting, mut head) = (BTreeSet::new(), 0);
        for (starts, dispatches) in steps {
            for start in starts {
                if waiting.insert(start * 8) {
                    stage.read(0, start * 8, 1);
                }
            }
            for _ in 0..dispatches {
                let ahead = waiting.iter().copied().filter(|start| *start >= head).min();
                let expected = ahead.or(waiting.first().copied());
                let given = stage.dispatch(0);
                prop_assert_eq!(given, expected);
                let Some(given) = given else { break };
                waiting.remove(&given);
                stage.over(0, given);
                head = given + 8;
            }
        }
    }

    #[test]
    fn the_elevator_takes_what_is_cheapest_with_ways_back_counting_double(
        starts in prop::collection::btree_set(0..4_000_000u64, 1..40),
        first in 0..4_000_000u64,
    ) {
        let mut stage = Stage::new("elevator");
        stage.read(0, first, 1);
        stage.serves(0, first, 0);
        let mut waiting = starts.clone();
        waiting.iter().for_each(|start| _ = stage.read(0, *start, 1));
        let mut head = first + 8;
        while !waiting.is_empty() {
            let cost = |start: &u64| match start.checked_sub(head) {
                Some(ahead) => Some(ahead),
                None if head - start <= 1 << 20 => Some(2 * (head - start)),
                None => None,
            };
            let nearest = waiting.iter().filter(|start| cost(start).is_some());
            // The higher of two with equal costs.
            let nearest = nearest.min_by_key(|start| (cost(start), u64::MAX - **start)).copied();
            let expected = nearest.or(waiting.first().copied());
            let given = stage.dispatch(0);
            prop_assert_eq!(given, expected);
            let given = given.expect("requests wait");
            waiting.remove(&given);
            stage.over(0, given);
            head = given + 8;
        }
    }

    /// While a process always has more requests just ahead of the head, one far behind it is served within its
    /// time limit, the running batch, and the older requests.
    #[test]
    fn the_deadline_schedulers_never_starve(
        name in prop_oneof![Just("deadline"), Just("mq-deadline")],
        service in 1..20u64,
        victims in prop::collection::vec((0..50_000u64, any::<bool>()), 1..10),
    ) {
        let mut stage = Stage::new(name);
        let mut head = 1_000_000;
        (0..8).for_each(|n| _ = stage.read(0, head + n * 8, 1));
        head += 64;
        let mut left: BTreeMap<u64, bool> = BTreeMap::new();
        let mut ms = service;
        for (start, write) in victims {
            if left.insert(start * 16, write).is_none() {
                let op = if write { Op::Write } else { Op::Read };
                stage.add(Instant(ms * MS), op, start * 16, 2);
            }
        }
        let begin = ms;
        let mut served = 0;
        while !left.is_empty() {
            let given = stage.dispatch(ms).expect("requests wait");
            ms += service;
            stage.over(ms, given);
            if left.remove(&given).is_none() {
                stage.read(ms, head, 1);
                head += 8;
            }
            served += 1;
            // Reads: 500 ms and a batch for each; writes: passed over for two batches of reads each.
            let bound = 5000 + 500 + (left.len() as u64 + 12) * 3 * 17 * service;
            prop_assert!(ms - begin <= bound, "{} left after {} ms, {} served", left.len(), ms - begin, served);
        }
    }

    /// However requests come, the device is never idle while requests wait for longer than the scheduler may
    /// wait; and only a scheduler that anticipates leaves it idle at all.
    #[test]
    fn no_idling_lasts_longer_than_it_may(
        name in names(),
        arrivals in prop::collection::vec((0..12 * MS, 0..3u32, 0..500u64), 1..120),
    ) {
        // A queue that is never plugged: only the scheduler can leave the device idle.
        let settings = Settings { unplug_at: 1, ..Settings::LINUX_2_6_3 };
        let limit = match name {
            "cfq" | "bfq" => 8 * MS,
            "anticipatory" | "anticipatory-stock" | "anticipatory-2.6.18" => 6 * MS,
            _ => 0,
        };
        let service = Nanos::from_millis(2);
        let mut rig = Rig::new(settings, scheduler::by_name(name).expect("known"), service);
        let mut now = Instant::ZERO;
        let mut idle_since = None;
        let mut longest = 0;
        let mut watch = |rig: &Rig, now: Instant| {
            let in_device = rig.dispatched().len() - rig.layer.metrics().requests as usize;
            if rig.layer.waiting() == 0 || in_device > 0 {
                idle_since = None;
            } else {
                let since: Instant = *idle_since.get_or_insert(now);
                longest = longest.max((now - since).get());
            }
        };
        for (after, pid, place) in arrivals {
            now += Nanos(after);
            while let Some(next) = rig.layer.next().filter(|next| *next <= now) {
                rig.advance(next);
                watch(&rig, next);
            }
            rig.read(now, sectors(u64::from(pid) * 50_000_000 + place * 64, 8), pid);
            watch(&rig, now);
        }
        while let Some(next) = rig.layer.next() {
            watch(&rig, next);
            rig.advance(next);
            watch(&rig, next);
        }
        prop_assert!(longest <= limit, "{name}: {longest} ns");
        prop_assert_eq!(rig.layer.waiting(), 0);
    }

    /// Every submission ends once, after all of its sectors and no others went to the device.
    #[test]
    fn the_block_layer_serves_exactly_what_was_submitted(
        name in names(),
        requests in 1..12usize,
        batch in 1..8usize,
        in_device in 1..5usize,
        submissions in prop::collection::vec((0..5 * MS, 0..3u32, 0..60u64, 1..90u64, any::<bool>()), 1..80),
    ) {
        let settings = Settings { requests, batch, in_device, ..Settings::LINUX_2_6_3 };
        let mut rig = Rig::new(settings, scheduler::by_name(name).expect("known"), Nanos(MS));
        let (mut now, mut tags, mut wanted) = (Instant::ZERO, BTreeSet::new(), BTreeMap::<u64, usize>::new());
        for (after, pid, place, pages, write) in submissions {
            now += Nanos(after);
            let op = if write { Op::Write } else { Op::Read };
            let range = sectors(place * 64, pages * 8);
            // Full: sleep until there is room.
            let tag = loop {
                if let Some(tag) = rig.submit(now, op, range, pid) {
                    break tag;
                }
                now = rig.layer.next().expect("a full pool empties");
            };
            tags.insert(tag);
            for page in 0..pages {
                *wanted.entry(place * 8 + page).or_default() += 1;
            }
        }
        rig.finish();
        prop_assert_eq!(rig.done.iter().map(|one| one.tag.0).collect::<BTreeSet<_>>(), tags.clone());
        prop_assert_eq!(rig.done.len(), tags.len());
        prop_assert!(rig.done.windows(2).all(|two| two[0].at <= two[1].at));
        let mut served = BTreeMap::<u64, usize>::new();
        for (_, start, length) in rig.dispatched() {
            prop_assert!(length <= 255);
            (start / 8..(start + length) / 8).for_each(|page| *served.entry(page).or_default() += 1);
        }
        prop_assert_eq!(served, wanted);
        prop_assert_eq!(rig.layer.next(), None);
    }
}
