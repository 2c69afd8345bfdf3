//! The strip cache compared with a naive model, and small cases by hand.
//!
//! The model has vectors for lists and sets for blocks, finds everything by searching, and sums the costs of
//! all strip caches anew for each decision. Feedback arithmetic and single costs are those of the crate,
//! which have their own models.

use crate::blocks::Blocks;
use crate::cache::{Answer, Dropped, StripCache};
use crate::costs::{Following, StripCosts, VirtualCosts};
use crate::feedback::Feedback;
use crate::geometry::{Geometry, StripNo};
use crate::replacement::Lru;
use crate::rules::{Massive, Rules, Settings, Strips, TRIAL_EVERY};
use crate::testing::{Simple, array};
use foreseek_units::{PageIndex, PageSpan, Pages};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const STRIP: u64 = 4;

fn rules(strips: Strips) -> Rules {
    Rules { strips, massive: Massive::Never, measured: false }
}

fn cache(geometry: Geometry, pages: u64, strips: Strips) -> StripCache {
    let settings = Settings { cache: Pages(pages), following: Following::Streams };
    StripCache::new(geometry, settings, rules(strips), Arc::new(Simple), Box::new(Lru)).expect("large enough")
}

type Set = BTreeSet<u64>;

fn set(blocks: Blocks) -> Set {
    (0..STRIP).filter(|block| blocks.has(*block)).collect()
}

fn blocks(set: &Set) -> Blocks {
    set.iter().fold(Blocks::NONE, |all, block| all.with(Blocks::range(*block, block + 1)))
}

#[derive(Clone, Debug, Default)]
struct Entry {
    held: Set,
    arriving: Set,
    requested: Set,
    costs: StripCosts,
    massive: bool,
}

struct Naive {
    geometry: Geometry,
    strips: Strips,
    capacity: usize,
    bottom: usize,
    /// Most recently used first.
    up: Vec<u64>,
    down: Vec<u64>,
    entries: BTreeMap<u64, Entry>,
    /// Past request states, of ghosts and of living strips.
    past: BTreeMap<u64, Set>,
    feedback: Feedback,
    costs: VirtualCosts,
    /// The strips whose costs count under `Careful`, most recently referenced first.
    recent: Vec<u64>,
    /// Paid, and saved or put by, in nanoseconds: all of `Careful`'s, in order.
    account: Vec<i64>,
    /// The most that the credit can be, in nanoseconds.
    trial: i64,
    /// Misses that only the upstream's size refused, since the last trial.
    refused: u64,
    paused: bool,
    /// The read of several strips that is looked at: its blocks by strip.
    wide: BTreeMap<u64, Set>,
    /// Blocks that were read past the cache.
    uncached: u64,
    dropped: BTreeSet<(u64, u64)>,
}

impl Naive {
    fn new(geometry: Geometry, pages: u64, strips: Strips) -> Self {
        Self {
            geometry,
            strips,
            capacity: pages as usize,
            bottom: Feedback::bottom(pages / STRIP) as usize,
            up: Vec::new(),
            down: Vec::new(),
            entries: BTreeMap::new(),
            past: BTreeMap::new(),
            feedback: Feedback::new(pages / STRIP),
            costs: VirtualCosts::new(geometry, Arc::new(Simple), Following::Streams),
            recent: Vec::new(),
            account: Vec::new(),
            // A block takes a millisecond; five members.
            trial: (pages / 8).max(5 * STRIP) as i64 * 1_000_000,
            refused: 0,
            paused: false,
            wide: BTreeMap::new(),
            uncached: 0,
            dropped: BTreeSet::new(),
        }
    }

    fn used(&self) -> usize {
        self.entries.values().map(|entry| entry.held.len()).sum()
    }

    fn global(&self) -> Vec<u64> {
        [self.up.clone(), self.down.clone()].concat()
    }

    fn last(list: &[u64], count: usize) -> Vec<u64> {
        list[list.len().saturating_sub(count)..].to_vec()
    }

    fn occupancy(&self, strips: &[u64]) -> (u64, u64) {
        let held = strips.iter().map(|strip| self.entries[strip].held.len() as u64).sum();
        (strips.len() as u64, held)
    }

    fn past_of(&self, strip: u64) -> Set {
        self.past.get(&strip).cloned().unwrap_or_default()
    }

    fn counts(&self, strip: u64) -> bool {
        self.strips != Strips::Careful || self.recent.contains(&strip)
    }

    /// What strips may still cost: the account added up anew.
    fn credit(&self) -> i64 {
        self.account.iter().fold(self.trial, |left, change| (left + change).min(self.trial))
    }

    /// The host references blocks for the first time, some of which were missing.
    fn charge(&mut self, strip: u64, first: &Set, missing: &Set) {
        let entry = self.entries.get_mut(&strip).expect("alive");
        self.costs.strip(StripNo(strip), &mut entry.costs);
        for run in blocks(first).runs() {
            let cost = self.costs.blocks(StripNo(strip), run, &mut entry.costs).get() as i64;
            let found = (run.0..run.1).filter(|block| !missing.contains(block)).count() as i64;
            if found < (run.1 - run.0) as i64 {
                self.account.push(cost / 128);
            }
            if found > 0 && !entry.massive {
                let transfer = found * 1_000_000;
                let whole = found == (run.1 - run.0) as i64;
                self.account.push(if whole { cost.max(transfer) } else { transfer });
            }
        }
    }

    fn recall(&mut self, strip: u64, first: bool) {
        if self.strips != Strips::Careful || !(first || self.recent.contains(&strip)) {
            return;
        }
        self.recent.retain(|one| *one != strip);
        self.recent.insert(0, strip);
        for left in self.recent.split_off(self.recent.len().min(self.capacity / STRIP as usize)) {
            self.costs.forget(&mut self.entries.get_mut(&left).expect("alive").costs);
        }
    }

    fn prefetches(&mut self, price: i64) -> bool {
        let with: u64 = self.entries.values().map(|entry| entry.costs.with.get()).sum();
        let without: u64 = self.entries.values().map(|entry| entry.costs.without.get()).sum();
        match self.strips {
            _ if self.paused => false,
            Strips::Never => false,
            Strips::Always => true,
            Strips::Adaptive { cost_test, .. } => {
                self.feedback.is_frozen() || (self.feedback.is_on() && (!cost_test || with <= without))
            }
            Strips::Careful if with > without || price > self.credit() => false,
            Strips::Careful if self.feedback.is_on() => true,
            Strips::Careful => {
                self.refused += 1;
                let trial = self.refused == TRIAL_EVERY;
                self.refused %= TRIAL_EVERY;
                trial
            }
        }
    }

    fn renew(&mut self, strip: u64, upstream: bool) {
        self.up.retain(|one| *one != strip);
        self.down.retain(|one| *one != strip);
        if upstream { self.up.insert(0, strip) } else { self.down.insert(0, strip) }
    }

    fn enliven(&mut self, strip: u64) {
        let new = !self.entries.contains_key(&strip);
        self.entries.entry(strip).or_default();
        if new {
            self.renew(strip, true);
        }
    }

    fn make_room(&mut self, blocks: usize, keep: u64) -> bool {
        while self.used() + blocks > self.capacity {
            self.feedback.thaw();
            let may_go = |strip: &&u64| {
                let is_read = **strip == keep || self.wide.contains_key(*strip);
                !is_read && self.entries[*strip].arriving.is_empty()
            };
            let Some(victim) = self.global().iter().rev().find(may_go).copied() else { return false };
            let held = self.entries[&victim].held.clone();
            self.drop_blocks(victim, &held);
            self.die(victim);
        }
        true
    }

    fn drop_blocks(&mut self, strip: u64, blocks: &Set) {
        let entry = self.entries.get_mut(&strip).expect("alive");
        entry.held = &entry.held - blocks;
        self.dropped.extend(blocks.iter().map(|block| (strip, *block)));
    }

    fn die(&mut self, strip: u64) {
        let mut entry = self.entries.remove(&strip).expect("alive");
        self.costs.forget(&mut entry.costs);
        self.recent.retain(|one| *one != strip);
        self.up.retain(|one| *one != strip);
        self.down.retain(|one| *one != strip);
        let past = &self.past_of(strip) | &entry.requested;
        self.past.insert(strip, past);
        let ghosts = matches!(self.strips, Strips::Adaptive { ghosts: true, .. } | Strips::Careful);
        let (geometry, entries) = (self.geometry, &self.entries);
        let stripe = |strip: u64| geometry.stripe_of(StripNo(strip));
        self.past.retain(|one, _| {
            let siblings = entries.keys().any(|living| stripe(*living) == stripe(*one));
            entries.contains_key(one) || (ghosts && siblings)
        });
    }

    fn settle(&mut self, strip: u64) {
        let Some(entry) = self.entries.get(&strip).cloned() else { return };
        if self.down.contains(&strip) {
            let keep = &(&entry.requested | &self.past_of(strip)) | &entry.arriving;
            self.drop_blocks(strip, &(&entry.held - &keep));
        }
        if self.entries[&strip].held.is_empty() {
            self.die(strip);
        }
    }

    fn flow(&mut self) {
        while matches!(self.strips, Strips::Adaptive { .. } | Strips::Careful)
            && self.up.len() as u64 > self.feedback.limit()
        {
            let strip = *self.up.last().expect("longer than the limit");
            self.renew(strip, false);
            self.settle(strip);
        }
    }

    fn hits(&mut self, strip: u64, held: &Set) {
        let past = self.past_of(strip);
        let requested = self.entries[&strip].requested.clone();
        let kept = |block: &u64| requested.contains(block) || past.contains(block);
        let upstream = Self::last(&self.up, self.bottom);
        let global = Self::last(&self.global(), self.bottom);
        if upstream.contains(&strip) && held.iter().any(|block| !kept(block)) {
            self.feedback.prefetch_hit();
        }
        if global.contains(&strip) && held.iter().any(kept) {
            self.feedback.cache_hit(self.occupancy(&upstream), self.occupancy(&global));
        }
    }

    fn missing(&self, strip: u64, want: &Set) -> Set {
        self.entries.get(&strip).map_or_else(|| want.clone(), |entry| want - &entry.held)
    }

    /// A read of several strips. Answers whether all that it misses finds room beside what must stay: its own blocks, and strips of which
    /// some are on their way.
    fn begin_wide(&mut self, parts: &[(u64, Set)]) -> bool {
        let wide: BTreeMap<u64, Set> = parts.iter().cloned().collect();
        let count: usize = wide.iter().map(|(strip, want)| self.missing(*strip, want).len()).sum();
        let stays = |(strip, entry): &(&u64, &Entry)| wide.contains_key(strip) || !entry.arriving.is_empty();
        let staying: usize = self.entries.iter().filter(stays).map(|(_, entry)| entry.held.len()).sum();
        let fits = count == 0 || staying + count <= self.capacity;
        if fits {
            self.wide = wide;
        } else {
            self.uncached += parts.iter().map(|(_, want)| want.len() as u64).sum::<u64>();
        }
        fits
    }

    fn read(&mut self, strip: u64, want: &Set) -> Answer {
        let before = self.entries.get(&strip).cloned().unwrap_or_default();
        let held = &before.held & want;
        if self.entries.contains_key(&strip) {
            self.hits(strip, &held);
        }
        let missing = want - &held;
        let fetch = if missing.is_empty() { Set::new() } else { self.miss(strip, &missing) };
        let past = &missing - &fetch;
        self.uncached += past.len() as u64;
        let referenced = want - &past;
        if self.entries.contains_key(&strip) && !referenced.is_empty() {
            let first = &referenced - &self.entries[&strip].requested;
            if !first.is_empty() {
                self.charge(strip, &first, &missing);
            }
            self.recall(strip, !first.is_empty());
            self.entries.get_mut(&strip).expect("alive").requested.extend(first);
            let upstream = self.up.contains(&strip);
            self.renew(strip, upstream);
        }
        self.flow();
        Answer {
            here: blocks(&(&held - &before.arriving)),
            coming: blocks(&(&held & &before.arriving)),
            fetch: blocks(&fetch),
            past: blocks(&past),
        }
    }

    fn miss(&mut self, strip: u64, missing: &Set) -> Set {
        let all = self.missing(strip, &set(self.geometry.blocks_of(StripNo(strip))));
        let price = (&all - missing).len() as i64 * 1_000_000;
        let whole = self.prefetches(price);
        self.enliven(strip);
        // A whole strip only where the strips behind it still find room.
        let behind: usize =
            self.wide.range(strip + 1..).map(|(strip, want)| self.missing(*strip, want).len()).sum();
        let mut choices = vec![(missing.clone(), 0)];
        if whole {
            choices.insert(0, (all, behind));
        }
        for (fetch, behind) in choices {
            if self.make_room(fetch.len() + behind, strip) {
                self.hold(strip, &fetch);
                if fetch.len() > missing.len() {
                    self.account.push(-price);
                }
                if (&fetch - missing).difference(&self.past_of(strip)).next().is_some() {
                    self.renew(strip, true);
                }
                return fetch;
            }
        }
        self.settle(strip);
        Set::new()
    }

    fn hold(&mut self, strip: u64, fetch: &Set) {
        let entry = self.entries.get_mut(&strip).expect("alive");
        entry.held.extend(fetch);
        entry.arriving.extend(fetch);
    }

    fn prefetch(&mut self, strip: u64) -> Set {
        let held = self.entries.get(&strip).map(|entry| entry.held.clone()).unwrap_or_default();
        let missing = &set(self.geometry.blocks_of(StripNo(strip))) - &held;
        if missing.is_empty() {
            return missing;
        }
        self.enliven(strip);
        if !self.make_room(missing.len(), strip) {
            self.settle(strip);
            return Set::new();
        }
        self.hold(strip, &missing);
        self.entries.get_mut(&strip).expect("alive").massive = true;
        self.renew(strip, true);
        self.flow();
        missing
    }

    fn arrived(&mut self, strip: u64, well: bool) {
        let Some(entry) = self.entries.get_mut(&strip) else { return };
        let arrived = std::mem::take(&mut entry.arriving);
        if !well {
            entry.held = &entry.held - &arrived;
            entry.requested = &entry.requested - &arrived;
        }
        self.settle(strip);
    }

    fn changed(&mut self, strip: u64, which: &Set) {
        let Some(entry) = self.entries.get_mut(&strip) else { return };
        let stale = &(which & &entry.held) - &entry.arriving;
        entry.requested = &entry.requested - &stale;
        self.drop_blocks(strip, &stale);
        self.settle(strip);
    }

    fn check(&self, cache: &StripCache) {
        assert_eq!(cache.stats().uncached, self.uncached);
        assert_eq!(cache.used().get() as usize, self.used());
        assert!(self.used() <= self.capacity);
        assert_eq!(cache.upstream_limit(), self.feedback.limit());
        let ghosts = self.past.keys().filter(|strip| !self.entries.contains_key(strip)).count();
        assert_eq!(cache.slots_in_use(), self.entries.len() + ghosts);
        assert_eq!(cache.strips(), (self.up.len() as u64, self.down.len() as u64, ghosts as u64));
        for strip in 0..40 {
            let entry = self.entries.get(&strip).cloned().unwrap_or_default();
            assert_eq!(cache.held(StripNo(strip)), (blocks(&entry.held), blocks(&entry.arriving)), "{strip}");
        }
        if let Some(sums) = cache.costs() {
            let with = self.entries.values().map(|entry| entry.costs.with).sum();
            let without = self.entries.values().map(|entry| entry.costs.without).sum();
            assert_eq!(sums, (with, without));
            let counted = self.entries.iter().filter(|(_, entry)| entry.costs != StripCosts::default());
            assert!(counted.into_iter().all(|(strip, _)| self.counts(*strip)));
        }
        // The downstream excludes prefetched blocks (section 2.2).
        for strip in &self.down {
            let entry = &self.entries[strip];
            let known = &(&entry.requested | &self.past_of(*strip)) | &entry.arriving;
            assert!(entry.held.is_subset(&known));
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Read(u64, u64, u64),
    /// From a page on.
    Wide(u64, u64),
    Prefetch(u64),
    Arrived(u64, bool),
    AllArrived,
    Changed(u64, u64, u64),
    Rest(bool),
}

fn op() -> impl Strategy<Value = Op> {
    let part = || (0..40u64, 0..STRIP, 1..=STRIP);
    prop_oneof![
        // Half of the reads go to a few strips.
        6 => part().prop_map(|(strip, from, len)| Op::Read(strip, from, (from + len).min(STRIP))),
        6 => part().prop_map(|(strip, from, len)| Op::Read(strip % 9, from, (from + len).min(STRIP))),
        2 => (0..160u64, 2..40u64).prop_map(|(start, pages)| Op::Wide(start, pages)),
        1 => (0..40u64).prop_map(Op::Prefetch),
        2 => (0..40u64, any::<bool>()).prop_map(|(strip, well)| Op::Arrived(strip, well)),
        6 => Just(Op::AllArrived),
        1 => part().prop_map(|(strip, from, len)| Op::Changed(strip, from, (from + len).min(STRIP))),
        1 => proptest::bool::weighted(0.2).prop_map(Op::Rest),
    ]
}

fn which() -> impl Strategy<Value = Strips> {
    let adaptive =
        (any::<bool>(), any::<bool>()).prop_map(|(cost_test, ghosts)| Strips::Adaptive { cost_test, ghosts });
    prop_oneof![1 => Just(Strips::Never), 1 => Just(Strips::Always), 6 => adaptive, 3 => Just(Strips::Careful)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn it_is_the_naive_cache(
        strips in which(), pages in 20..60u64, length in 130..160u64,
        ops in proptest::collection::vec(op(), 0..250),
    ) {
        let geometry = array(STRIP, length);
        let mut cache = cache(geometry, pages, strips);
        let mut naive = Naive::new(geometry, pages, strips);
        let mut dropped = Vec::new();
        for op in ops {
            match op {
                Op::Read(strip, from, to) => {
                    let want = Blocks::range(from, to).and(geometry.blocks_of(StripNo(strip)));
                    let answer = cache.read(StripNo(strip), want, &mut dropped);
                    prop_assert_eq!(answer, naive.read(strip, &set(want)));
                }
                Op::Wide(start, pages) => {
                    let span = PageSpan::at(PageIndex(start), Pages(pages));
                    let parts: Vec<(StripNo, Blocks)> = geometry.strips(span).collect();
                    if parts.len() < 2 {
                        continue;
                    }
                    let naives: Vec<(u64, Set)> =
                        parts.iter().map(|(strip, want)| (strip.0, set(*want))).collect();
                    let fits = cache.begin_wide(parts.iter().copied());
                    prop_assert_eq!(fits, naive.begin_wide(&naives));
                    for ((strip, want), (no, naives)) in parts.into_iter().zip(&naives).filter(|_| fits) {
                        let answer = cache.read(strip, want, &mut dropped);
                        prop_assert!(answer.past.is_empty(), "there was room: {:?}", answer);
                        prop_assert_eq!(answer, naive.read(*no, naives));
                    }
                    cache.end_wide();
                    naive.wide.clear();
                }
                Op::Prefetch(strip) => {
                    let fetch = cache.prefetch(StripNo(strip), &mut dropped);
                    prop_assert_eq!(set(fetch), naive.prefetch(strip));
                }
                Op::Arrived(strip, well) => {
                    cache.arrived(StripNo(strip), Blocks::range(0, STRIP), well, &mut dropped);
                    naive.arrived(strip, well);
                }
                Op::AllArrived => (0..40).for_each(|strip| {
                    cache.arrived(StripNo(strip), Blocks::range(0, STRIP), true, &mut dropped);
                    naive.arrived(strip, true);
                }),
                Op::Rest(paused) => {
                    cache.pause(paused);
                    naive.paused = paused;
                }
                Op::Changed(strip, from, to) => {
                    cache.changed(StripNo(strip), Blocks::range(from, to), &mut dropped);
                    naive.changed(strip, &(from..to).collect());
                }
            }
            let mut gone = BTreeSet::new();
            for Dropped { strip, blocks } in dropped.drain(..) {
                set(blocks).into_iter().for_each(|block| assert!(gone.insert((strip.0, block)), "dropped twice"));
            }
            prop_assert_eq!(gone, std::mem::take(&mut naive.dropped));
            naive.check(&cache);
        }
    }
}

/// What strips cost and save, as somebody sees it who knows the reads and their answers alone. A block takes a
/// millisecond, and 7 more where the last block that was read without strips lies elsewhere.
struct Observer {
    geometry: Geometry,
    /// Prefetched, and not requested.
    ahead: BTreeSet<(u64, u64)>,
    /// For each member, where the last first request ended.
    heads: BTreeMap<u32, foreseek_units::Lba>,
    /// Paid less saved and put by, in microseconds; and the least that it has been.
    balance: f64,
    least: f64,
}

impl Observer {
    fn new(geometry: Geometry) -> Self {
        let (ahead, heads) = (BTreeSet::new(), BTreeMap::new());
        Self { geometry, ahead, heads, balance: 0.0, least: 0.0 }
    }

    fn cost(&mut self, strip: u64, start: u64, end: u64) -> f64 {
        let from = self.geometry.address_of(StripNo(strip), start);
        let head = self.heads.entry(from.member.0).or_default();
        let far = *head != from.lba;
        *head = from.lba + Pages(end - start).sectors();
        (end - start) as f64 + if far { 7.0 } else { 0.0 }
    }

    /// Looks at a read. Answers how much more has been paid than saved and put by, since whenever that was least.
    fn read(&mut self, strip: u64, want: &Set, answer: &Answer, dropped: &[Dropped]) -> f64 {
        let (fetched, missing) = (set(answer.fetch), set(answer.fetch.and(blocks(want))));
        self.balance += (fetched.len() - missing.len()) as f64;
        let found: Set = want.iter().copied().filter(|block| self.ahead.remove(&(strip, *block))).collect();
        for (start, end) in blocks(&(&found | &missing)).runs() {
            let cost = self.cost(strip, start, end);
            let saved = (start..end).filter(|block| found.contains(block)).count() as f64;
            let read = (start..end).any(|block| missing.contains(&block));
            self.balance -= if read { cost / 128.0 + saved } else { cost };
        }
        self.ahead.extend((&fetched - &missing).into_iter().map(|block| (strip, block)));
        for Dropped { strip, blocks } in dropped {
            self.ahead.retain(|(one, block)| *one != strip.0 || !blocks.has(*block));
        }
        self.least = self.least.min(self.balance);
        self.balance - self.least
    }
}

/// Reads of a part of a strip, or backwards through some strips, or anywhere in some strips.
#[derive(Clone, Copy, Debug)]
enum Reads {
    One(u64, u64, u64),
    Backwards(u64, u64),
    Anywhere(u64, u64, u64),
}

fn reads() -> impl Strategy<Value = Reads> {
    prop_oneof![
        4 => (0..900u64, 0..STRIP, 1..=STRIP).prop_map(|(strip, from, len)| Reads::One(strip, from, (from + len).min(STRIP))),
        2 => (0..800u64, 1..60u64).prop_map(|(strip, strips)| Reads::Backwards(strip, strips)),
        2 => (1..900u64, 1..400u64, any::<u64>()).prop_map(|(strips, reads, seed)| Reads::Anywhere(strips, reads, seed)),
    ]
}

/// A number that looks like no other's neighbour (splitmix64).
fn mixed(number: u64) -> u64 {
    let by = |number: u64, right: u32, times: u64| (number ^ number >> right).wrapping_mul(times);
    let once = by(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), 30, 0xbf58_476d_1ce4_e5b9);
    let twice = by(once, 27, 0x94d0_49bb_1331_11eb);
    twice ^ twice >> 31
}

impl Reads {
    fn parts(self) -> Vec<(u64, u64, u64)> {
        match self {
            Self::One(strip, from, to) => vec![(strip, from, to)],
            Self::Backwards(strip, strips) => {
                let blocks = (strip * STRIP..(strip + strips) * STRIP).rev();
                blocks.map(|block| (block / STRIP, block % STRIP, block % STRIP + 1)).collect()
            }
            Self::Anywhere(strips, reads, seed) => (0..reads)
                .map(|read| mixed(read.wrapping_add(seed)))
                .map(|at| (at % strips, at / strips % STRIP, at / strips % STRIP + 1))
                .collect(),
        }
    }
}

/// The most that strips have cost beyond what they saved and put by, over any part of these reads.
fn paid_on_trial(strips: Strips, pages: u64, reads: &[Reads]) -> f64 {
    let geometry = array(STRIP, 900 * STRIP);
    let (mut cache, mut observer) = (cache(geometry, pages, strips), Observer::new(geometry));
    let (mut most, mut dropped) = (0.0f64, Vec::new());
    for (strip, from, to) in reads.iter().flat_map(|reads| reads.parts()) {
        let want = Blocks::range(from, to);
        let answer = cache.read(StripNo(strip), want, &mut dropped);
        cache.arrived(StripNo(strip), answer.fetch, true, &mut dropped);
        most = most.max(observer.read(strip, &set(want), &answer, &dropped));
        dropped.clear();
    }
    most
}

/// `K`: an eighth of the cache, and a strip for each member at least.
fn trial(pages: u64) -> f64 {
    (pages / 8).max(5 * STRIP) as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Whatever is read.
    #[test]
    fn strips_cost_no_more_than_the_credit(pages in 20..1500u64, reads in proptest::collection::vec(reads(), 0..40)) {
        let most = paid_on_trial(Strips::Careful, pages, &reads);
        prop_assert!(most <= trial(pages) + 1e-3, "{most} of {}", trial(pages));
    }
}

/// Reads that pay for strips, and then reads that do not.
#[test]
fn the_papers_rules_cost_more_than_the_credit() {
    let reads = [Reads::Backwards(0, 200), Reads::Anywhere(900, 400, 1)];
    for strips in [Strips::Always, Strips::Adaptive { cost_test: true, ghosts: true }] {
        let paid = paid_on_trial(strips, 1200, &reads);
        assert!(paid > 2.0 * trial(1200), "{strips:?}: {paid}");
    }
    let careful = paid_on_trial(Strips::Careful, 1200, &reads);
    assert!(careful > 0.9 * trial(1200), "all of it is used: {careful}");
}
