//! The strip cache (sections 2.1 to 2.4).
//!
//! A *strip cache* holds blocks of one strip. A block is
//!
//! - *cached*: present, and requested by the host since it was read;
//! - *past cached*: present, not requested since, but in an earlier life of the strip;
//! - *prefetched*: present, and neither;
//! - *empty*.
//!
//! New strip caches enter the upstream at its most recently used end. The [feedback](crate::feedback) limits
//! the strips of the upstream. Beyond the limit its least recently used strip flows into the downstream at
//! the top, and its prefetched blocks are *culled*: they become empty. Cached and past cached blocks stay. A
//! hit makes a strip the most recently used of its list. Under memory pressure the
//! [replacement](crate::replacement) evicts whole strip caches.
//!
//! A strip cache without blocks becomes a *ghost* if a sibling of its stripe is alive. A ghost records which
//! blocks were requested, until it is requested again (*reincarnated*) or the last sibling is gone. These
//! *past request states* remain, over several lives.
//!
//! A miss reads the whole strip, or only the missing blocks: the [rules](crate::rules), the feedback and the
//! [costs](crate::costs) decide. A strip cache is made in either case.
//!
//! Inferred, where the paper is silent:
//!
//! - A miss on a strip in the downstream that reads the whole strip again brings prefetched blocks, which the
//!   downstream excludes: the strip moves to the upstream. If only missing blocks are read it stays.
//! - Blocks in flight have memory and count as present. They are not culled, and their strip is not evicted;
//!   prefetched blocks that arrive in the downstream are culled on arrival.
//! - A strip to which MSP adds blocks becomes the most recently used of the upstream.
//! - `sp`, `msp` and no prefetching keep one list and cull nothing.
//! - If a whole strip finds no room, only the missing blocks are read; if these find none, they are read
//!   without the cache. A read of several strips that do not find room together is read without the cache as
//!   a whole, so that no part is read twice. No strip of it is evicted, or read as a whole, at the expense of
//!   another of them.
//!
//! Bounds: at most as many blocks as the setting, one strip cache for each block, [`GHOSTS_PER_STRIP`] ghosts
//! for each whole strip in the cache. Memory: [`BYTES_PER_STRIP`] for each strip cache or ghost of a stripe
//! of up to four strips, and at most as much again for tables that have just grown. That is 0.2 % (0.4 %) of
//! the cache if strips of 128 KiB are full. A cache with a single block of each strip needs it for 4 KiB.
//!
//! Writes are not cached: a change empties its blocks.

use crate::blocks::Blocks;
use crate::costs::{StripCosts, VirtualCosts};
use crate::credit::{Credit, SHARE};
use crate::error::StripsError;
use crate::feedback::Feedback;
use crate::geometry::{Geometry, StripNo};
use crate::lists::{Bottom, Lists, StripList};
use crate::recent::Recent;
use crate::replacement::Replacement;
use crate::rules::{CACHE_STRIPS_LEAST, Rules, Settings, Strips, TRIAL_EVERY};
use crate::stats::Stats;
use crate::stripe_table::StripeTable;
use foreseek_units::{DeviceCosts, Nanos, Pages};
use std::sync::Arc;

/// Ghosts for each whole strip in the cache: the history of four caches. A ghost lives only while a sibling
/// does, so that the number rarely comes near the limit.
pub const GHOSTS_PER_STRIP: u64 = 4;
/// The bytes of state of one strip: its entry, its links in the lists and its share of the tables.
pub const BYTES_PER_STRIP: usize = 256;

/// Blocks whose memory is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The strip.
    pub strip: StripNo,
    /// The blocks.
    pub blocks: Blocks,
}

/// The result of a read. Each block of the read is in exactly one of `here`, `coming`, `fetch` and `past`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Blocks that are present.
    pub here: Blocks,
    /// Blocks in flight.
    pub coming: Blocks,
    /// Blocks to fetch: the missing ones, and those prefetched with them.
    pub fetch: Blocks,
    /// Blocks to read without the cache, which has no room.
    pub past: Blocks,
}

/// A read of several strips.
#[derive(Clone, Copy, Debug)]
struct WideRead {
    first: StripNo,
    last: StripNo,
    /// Its blocks of the last strip. Of the strips between it has all blocks.
    end: Blocks,
    /// The strip that is looked up.
    at: StripNo,
    /// Blocks of later strips that still need room.
    missing: u64,
}

impl WideRead {
    /// Which of these blocks of a strip it is still to look at.
    fn still_to_come(&self, strip: StripNo, blocks: Blocks) -> Blocks {
        if strip <= self.at || strip > self.last {
            return Blocks::NONE;
        }
        if strip == self.last { blocks.and(self.end) } else { blocks }
    }
}

/// A strip cache or a ghost.
#[derive(Clone, Copy, Debug)]
struct Strip {
    no: StripNo,
    alive: bool,
    /// Blocks that are present or in flight.
    held: Blocks,
    arriving: Blocks,
    /// Blocks requested in this life.
    requested: Blocks,
    /// Blocks requested in earlier lives.
    past: Blocks,
    costs: StripCosts,
    /// Whether MSP has prefetched blocks of it in this life.
    massive: bool,
}

impl Strip {
    /// Its blocks, if they cannot be evicted.
    fn pinned(&self) -> u64 {
        if self.arriving.is_empty() { 0 } else { self.held.count() }
    }
}

/// The strip cache.
#[derive(Debug)]
pub struct StripCache {
    geometry: Geometry,
    strips: Strips,
    capacity: u64,
    used: u64,
    /// Blocks of strips with some blocks in flight, which cannot be evicted.
    pinned: u64,
    /// The read of several strips that is being handled.
    wide: Option<WideRead>,
    entries: Vec<Strip>,
    free: Vec<u32>,
    table: StripeTable,
    lists: Lists,
    feedback: Feedback,
    costs: Option<VirtualCosts>,
    /// The strips whose costs count, if not all do.
    recent: Option<Recent>,
    credit: Option<Credit>,
    replacement: Box<dyn Replacement>,
    ghosts: u64,
    /// Misses that only the upstream's size refused.
    trials: u64,
    paused: bool,
    stats: Stats,
}

impl StripCache {
    /// An empty cache of an array with these costs of a member.
    ///
    /// # Errors
    /// A cache of fewer than [`CACHE_STRIPS_LEAST`] strips.
    pub fn new(
        geometry: Geometry,
        settings: Settings,
        rules: Rules,
        member: Arc<dyn DeviceCosts>,
        replacement: Box<dyn Replacement>,
    ) -> Result<Self, StripsError> {
        let least = geometry.strip_pages() * CACHE_STRIPS_LEAST;
        if settings.cache < least {
            return Err(StripsError::Cache { given: settings.cache, least });
        }
        let whole = settings.cache / geometry.strip_pages();
        let tested = rules.strips.tests_costs();
        let careful = rules.strips == Strips::Careful;
        let on_trial = (settings.cache / SHARE).max(geometry.strip_pages() * u64::from(geometry.members()));
        let trial = member.mean_rate().time_for(on_trial.bytes());
        Ok(Self {
            geometry,
            strips: rules.strips,
            capacity: settings.cache.get(),
            used: 0,
            pinned: 0,
            wide: None,
            entries: Vec::new(),
            free: Vec::new(),
            table: StripeTable::new(geometry),
            lists: Lists::new(Feedback::bottom(whole) as u32),
            feedback: Feedback::new(whole),
            costs: tested.then(|| {
                let costs = VirtualCosts::new(geometry, member, settings.following);
                if rules.measured { costs.measured() } else { costs }
            }),
            recent: careful.then(|| Recent::new(whole)),
            credit: careful.then(|| Credit::new(trial)),
            replacement,
            ghosts: 0,
            trials: 0,
            paused: false,
            stats: Stats::default(),
        })
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Pauses strip prefetching, or resumes it: while it is paused misses read only the missing blocks, for
    /// any rules.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Whether strip prefetching is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The number of blocks that are not empty.
    #[must_use]
    pub fn used(&self) -> Pages {
        Pages(self.used)
    }

    /// The most strips in the upstream.
    #[must_use]
    pub fn upstream_limit(&self) -> u64 {
        self.feedback.limit()
    }

    /// The numbers of strips in the upstream and in the downstream, and of ghosts.
    #[must_use]
    pub fn strips(&self) -> (u64, u64, u64) {
        (self.lists.len(StripList::Up).into(), self.lists.len(StripList::Down).into(), self.ghosts)
    }

    /// The virtual read costs with and without strip prefetching, if the rules have the cost test.
    #[must_use]
    pub fn costs(&self) -> Option<(Nanos, Nanos)> {
        self.costs.as_ref().map(VirtualCosts::sums)
    }

    /// The time of a read of each member beyond its profile, in nanoseconds, if the rules have it measured.
    pub fn beyond_profile(&self) -> impl Iterator<Item = i64> + '_ {
        self.costs.iter().flat_map(VirtualCosts::beyond)
    }

    /// The costs, for adding measurements.
    pub(crate) fn costs_mut(&mut self) -> Option<&mut VirtualCosts> {
        self.costs.as_mut()
    }

    /// The blocks of a strip that are not empty, and those of them in flight.
    #[must_use]
    pub fn held(&self, strip: StripNo) -> (Blocks, Blocks) {
        let found = self.alive(strip).map(|slot| self.entries[slot as usize]);
        found.map_or_else(Default::default, |strip| (strip.held, strip.arriving))
    }

    #[cfg(test)]
    pub(crate) fn slots_in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The host reads these strips, of which there are several. [`StripCache::read`] follows for each of
    /// them, and then [`StripCache::end_wide`]. Returns whether all of it finds room; otherwise all of it is
    /// to be read without the cache.
    pub fn begin_wide(&mut self, strips: impl Iterator<Item = (StripNo, Blocks)>) -> bool {
        let mut wide: Option<WideRead> = None;
        let (mut missing, mut kept, mut all) = (0, 0, 0);
        for (strip, want) in strips {
            all += want.count();
            let slot = self.alive(strip);
            let found = slot.map_or(Blocks::NONE, |slot| self.entries[slot as usize].held);
            missing += want.without(found).count();
            kept += slot.map_or(0, |slot| found.count() - self.entries[slot as usize].pinned());
            let wide =
                wide.get_or_insert(WideRead { first: strip, last: strip, end: want, at: strip, missing: 0 });
            (wide.last, wide.end) = (strip, want);
        }
        if missing > 0 && self.pinned + kept + missing > self.capacity {
            self.stats.uncached += all;
            return false;
        }
        self.wide = wide.map(|wide| WideRead { missing, ..wide });
        true
    }

    /// All strips of it are handled.
    pub fn end_wide(&mut self) {
        self.wide = None;
    }

    /// The host reads blocks of a strip; they are on the device.
    pub fn read(&mut self, strip: StripNo, want: Blocks, dropped: &mut Vec<Dropped>) -> Answer {
        self.wide.iter_mut().for_each(|wide| wide.at = strip);
        let found = self.alive(strip);
        let before = found.map(|slot| self.entries[slot as usize]);
        let held = before.map_or(Blocks::NONE, |it| it.held).and(want);
        if let (Some(slot), Some(before)) = (found, before) {
            self.hit(slot, &before, held);
        }
        let missing = want.without(held);
        let mut answer = Answer::default();
        let arriving = before.map_or(Blocks::NONE, |it| it.arriving);
        (answer.here, answer.coming) = (held.without(arriving), held.and(arriving));
        if !missing.is_empty() {
            answer.fetch = self.miss(strip, missing, dropped);
            answer.past = missing.without(answer.fetch);
            self.stats.misses += missing.and(answer.fetch).count();
            self.stats.uncached += answer.past.count();
        }
        if let Some(slot) = self.alive(strip) {
            self.reference(slot, want.without(answer.past), missing);
        }
        self.flow(dropped);
        answer
    }

    /// Massive stripe prefetching wants a whole strip. Returns the blocks to fetch: those that are neither
    /// present nor in flight (section 2.5), and none if there is no room.
    pub fn prefetch(&mut self, strip: StripNo, dropped: &mut Vec<Dropped>) -> Blocks {
        let missing = self.geometry.blocks_of(strip).without(self.held(strip).0);
        if missing.is_empty() {
            return Blocks::NONE;
        }
        let slot = self.enliven(strip);
        if !self.make_room(missing.count(), slot, dropped) {
            self.settle(slot, dropped);
            return Blocks::NONE;
        }
        self.hold(slot, missing);
        self.entries[slot as usize].massive = true;
        self.lists.renew(slot, StripList::Up);
        self.stats.massive_blocks += missing.count();
        self.flow(dropped);
        missing
    }

    /// A fetch of blocks has ended. If it failed they are empty, and the caller has their memory.
    pub fn arrived(&mut self, strip: StripNo, blocks: Blocks, well: bool, dropped: &mut Vec<Dropped>) {
        let Some(slot) = self.alive(strip) else { return };
        let blocks = blocks.and(self.entries[slot as usize].arriving);
        self.pin(slot, |entry| entry.arriving = entry.arriving.without(blocks));
        if !well {
            let entry = &mut self.entries[slot as usize];
            entry.requested = entry.requested.without(blocks);
            self.empty(slot, blocks);
        }
        self.settle(slot, dropped);
    }

    /// The host has changed blocks on the device: present ones are dropped. Those in flight stay until they
    /// [arrive](Self::arrived); the caller must then report them as failed.
    pub fn changed(&mut self, strip: StripNo, blocks: Blocks, dropped: &mut Vec<Dropped>) {
        let Some(slot) = self.alive(strip) else { return };
        let entry = &mut self.entries[slot as usize];
        let stale = blocks.and(entry.held).without(entry.arriving);
        entry.requested = entry.requested.without(stale);
        self.drop_blocks(slot, stale, dropped);
        self.settle(slot, dropped);
    }

    /// Counts the hits of a read, and passes them to the feedback.
    fn hit(&mut self, slot: u32, before: &Strip, held: Blocks) {
        let cached = held.and(before.requested);
        let first = held.without(cached);
        let past = first.and(before.past);
        self.stats.cache_hits += cached.count();
        self.stats.prefetch_hits += first.count();
        self.stats.past_hits += past.count();
        if !first.without(past).is_empty() && self.lists.is_in(slot, Bottom::Upstream) {
            self.feedback.prefetch_hit();
        }
        if !cached.with(past).is_empty() && self.lists.is_in(slot, Bottom::Global) {
            let (upstream, global) = (self.lists.bottom(Bottom::Upstream), self.lists.bottom(Bottom::Global));
            self.feedback.cache_hit(upstream, global);
        }
    }

    /// Makes room for the blocks that a miss reads. Returns these blocks.
    fn miss(&mut self, strip: StripNo, missing: Blocks, dropped: &mut Vec<Dropped>) -> Blocks {
        let all = self.geometry.blocks_of(strip).without(self.held(strip).0);
        let costs = self.costs.as_ref().filter(|_| self.credit.is_some());
        let price = costs.map_or(Nanos::ZERO, |costs| costs.transfer(strip, all.without(missing)));
        let whole = self.prefetches(price);
        let slot = self.enliven(strip);
        let past = self.entries[slot as usize].past;
        // The rest of the same read needs room as well.
        let rest = self.wide.as_mut().map_or(0, |wide| {
            wide.missing = wide.missing.saturating_sub(missing.count());
            wide.missing
        });
        for (fetch, rest) in [whole.then_some((all, rest)), Some((missing, 0))].into_iter().flatten() {
            if self.make_room(fetch.count() + rest, slot, dropped) {
                self.hold(slot, fetch);
                let beside = fetch.without(missing);
                self.stats.strip_blocks += beside.count();
                if let Some(credit) = self.credit.as_mut().filter(|_| !beside.is_empty()) {
                    credit.paid(price);
                }
                if !beside.without(past).is_empty() {
                    self.lists.renew(slot, StripList::Up);
                }
                return fetch;
            }
        }
        self.settle(slot, dropped);
        Blocks::NONE
    }

    /// Whether a miss reads the whole strip, whose other blocks take so long.
    fn prefetches(&mut self, price: Nanos) -> bool {
        match self.strips {
            _ if self.paused => return false,
            Strips::Never => return false,
            Strips::Always => return true,
            Strips::Adaptive { .. } if self.feedback.is_frozen() => return true,
            Strips::Adaptive { .. } | Strips::Careful => {}
        }
        let cheap = self.costs.as_ref().is_none_or(VirtualCosts::favour_strips)
            && self.credit.is_none_or(|credit| credit.pays(price));
        let large = self.feedback.is_on() || (cheap && self.is_trial());
        self.stats.refused_by_size += u64::from(cheap && !large);
        self.stats.refused_by_cost += u64::from(!cheap);
        large && cheap
    }

    /// Whether a miss that the upstream's size refuses reads its strip nevertheless.
    fn is_trial(&mut self) -> bool {
        if self.strips != Strips::Careful {
            return false;
        }
        self.trials += 1;
        self.trials.is_multiple_of(TRIAL_EVERY)
    }

    /// The host references blocks that are present now, of which some were missing: adds their costs and makes
    /// the strip the most recently used.
    fn reference(&mut self, slot: u32, blocks: Blocks, missing: Blocks) {
        let first = blocks.without(self.entries[slot as usize].requested);
        if !first.is_empty() {
            self.charge(slot, first, missing);
        }
        if !blocks.is_empty() {
            self.recall(slot, !first.is_empty());
        }
        let entry = &mut self.entries[slot as usize];
        entry.requested = entry.requested.with(first);
        if let Some(stream) = self.lists.stream_of(slot).filter(|_| !blocks.is_empty()) {
            self.replacement.used(entry.no);
            self.lists.renew(slot, stream);
        }
    }

    /// Adds the costs of blocks that are referenced for the first time, of which some were missing.
    fn charge(&mut self, slot: u32, first: Blocks, missing: Blocks) {
        let Some(costs) = &mut self.costs else { return };
        let entry = &mut self.entries[slot as usize];
        costs.strip(entry.no, &mut entry.costs);
        for (start, end) in first.runs() {
            let cost = costs.blocks(entry.no, (start, end), &mut entry.costs);
            let Some(credit) = &mut self.credit else { continue };
            let run = Blocks::range(start, end);
            let found = run.without(missing);
            let transfer = costs.transfer(entry.no, found);
            if found != run {
                credit.missed(cost);
            }
            if !found.is_empty() && !entry.massive {
                credit.saved(if found == run { cost.max(transfer) } else { transfer });
            }
        }
    }

    /// Where only the last strips count: a strip is referenced, with blocks that had not been in this life or
    /// without. One that has left the list returns with such blocks alone: others are cached in any case.
    fn recall(&mut self, slot: u32, first: bool) {
        let Self { recent: Some(recent), costs: Some(costs), entries, .. } = self else { return };
        if first || recent.has(slot) {
            let left = recent.renew(slot);
            left.into_iter().for_each(|slot| costs.forget(&mut entries[slot as usize].costs));
        }
    }

    /// The slot of a strip that is alive.
    fn alive(&self, strip: StripNo) -> Option<u32> {
        self.table.find(strip).filter(|slot| self.entries[*slot as usize].alive)
    }

    /// The slot of a strip, which becomes alive.
    fn enliven(&mut self, strip: StripNo) -> u32 {
        let slot = match self.table.find(strip) {
            Some(slot) if self.entries[slot as usize].alive => return slot,
            Some(ghost) => {
                self.entries[ghost as usize].alive = true;
                self.ghosts -= 1;
                self.stats.reincarnated += 1;
                ghost
            }
            None => self.add(strip),
        };
        self.table.live(strip, slot);
        self.lists.renew(slot, StripList::Up);
        self.replacement.admitted(strip);
        slot
    }

    fn add(&mut self, no: StripNo) -> u32 {
        let (held, arriving) = (Blocks::NONE, Blocks::NONE);
        let (requested, past) = (Blocks::NONE, Blocks::NONE);
        let costs = StripCosts::default();
        let entry = Strip { no, alive: true, held, arriving, requested, past, costs, massive: false };
        if let Some(slot) = self.free.pop() {
            self.entries[slot as usize] = entry;
            return slot;
        }
        self.entries.push(entry);
        self.entries.len() as u32 - 1
    }

    /// Blocks get memory and are in flight.
    fn hold(&mut self, slot: u32, blocks: Blocks) {
        self.pin(slot, |entry| {
            entry.held = entry.held.with(blocks);
            entry.arriving = entry.arriving.with(blocks);
        });
        self.used += blocks.count();
        self.lists.set_blocks(slot, self.entries[slot as usize].held.count());
    }

    /// Changes the blocks of a strip, and counts those that cannot be evicted.
    fn pin(&mut self, slot: u32, change: impl FnOnce(&mut Strip)) {
        let entry = &mut self.entries[slot as usize];
        let before = entry.pinned();
        change(entry);
        self.pinned = self.pinned - before + entry.pinned();
    }

    /// Evicts strip caches until this many more blocks fit; `keep` stays. Returns whether they do.
    fn make_room(&mut self, blocks: u64, keep: u32, dropped: &mut Vec<Dropped>) -> bool {
        while self.used + blocks > self.capacity {
            self.feedback.thaw();
            let Some(slot) = self.victim(keep) else { return false };
            let held = self.entries[slot as usize].held;
            self.stats.evicted += 1;
            self.drop_blocks(slot, held, dropped);
            self.die(slot);
        }
        true
    }

    /// The strip cache to evict: one that is not being read.
    fn victim(&mut self, keep: u32) -> Option<u32> {
        let Self { replacement, lists, entries, table, wide, .. } = self;
        let is_read = |strip: StripNo| wide.is_some_and(|wide| (wide.first..=wide.last).contains(&strip));
        let found = |strip: StripNo| {
            table.find(strip).filter(|slot| {
                let entry = &entries[*slot as usize];
                *slot != keep && entry.alive && entry.arriving.is_empty() && !is_read(strip)
            })
        };
        let mut order = lists.oldest_first().map(|slot| entries[slot as usize].no);
        replacement.victim(&mut order, &|strip| found(strip).is_some()).and_then(found)
    }

    /// Moves the upstream's excess into the downstream.
    fn flow(&mut self, dropped: &mut Vec<Dropped>) {
        if !self.strips.culls() {
            return;
        }
        while u64::from(self.lists.len(StripList::Up)) > self.feedback.limit() {
            let Some(slot) = self.lists.oldest(StripList::Up) else { return };
            self.lists.renew(slot, StripList::Down);
            self.settle(slot, dropped);
        }
    }

    /// Applies the rules of its list to a strip: culls it in the downstream, and ends it if it has no blocks.
    fn settle(&mut self, slot: u32, dropped: &mut Vec<Dropped>) {
        let entry = &self.entries[slot as usize];
        if self.lists.stream_of(slot) == Some(StripList::Down) {
            let keep = entry.requested.with(entry.past).with(entry.arriving);
            let culled = entry.held.without(keep);
            self.stats.culled += culled.count();
            self.drop_blocks(slot, culled, dropped);
        }
        if self.entries[slot as usize].held.is_empty() {
            self.die(slot);
        }
    }

    /// Blocks become empty, and their memory is free.
    fn drop_blocks(&mut self, slot: u32, blocks: Blocks, dropped: &mut Vec<Dropped>) {
        if blocks.is_empty() {
            return;
        }
        let strip = self.entries[slot as usize].no;
        if let Some(wide) = &mut self.wide {
            // What is culled before its turn in the same read is missing then.
            wide.missing += wide.still_to_come(strip, blocks).count();
        }
        dropped.push(Dropped { strip, blocks });
        self.empty(slot, blocks);
    }

    /// Blocks become empty. Their request state stays.
    fn empty(&mut self, slot: u32, blocks: Blocks) {
        self.pin(slot, |entry| entry.held = entry.held.without(blocks));
        self.used -= blocks.count();
        self.lists.set_blocks(slot, self.entries[slot as usize].held.count());
    }

    /// A strip cache has no blocks any more: it becomes a ghost, or is removed.
    fn die(&mut self, slot: u32) {
        self.lists.remove(slot);
        let entry = &mut self.entries[slot as usize];
        let strip = entry.no;
        if let Some(costs) = &mut self.costs {
            costs.forget(&mut entry.costs);
        }
        self.recent.iter_mut().for_each(|recent| recent.remove(slot));
        entry.massive = false;
        entry.past = entry.past.with(entry.requested);
        entry.requested = Blocks::NONE;
        entry.alive = false;
        self.replacement.gone(strip);
        if self.table.die(strip) == 0 {
            let slots = self.table.close(self.geometry.stripe_of(strip));
            let before = self.free.len();
            self.free.extend(slots);
            // All but this one were ghosts.
            self.ghosts -= (self.free.len() - before) as u64 - 1;
        } else if self.keeps_ghosts() {
            self.ghosts += 1;
        } else {
            self.table.forget(strip);
            self.free.push(slot);
        }
    }

    fn keeps_ghosts(&self) -> bool {
        let limit = self.capacity / self.geometry.strip_pages().get() * GHOSTS_PER_STRIP;
        self.strips.keeps_ghosts() && self.ghosts < limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_needs_no_more_than_the_constant() {
        // A stripe of four strips of which one is alive: slots, count, and 17 bytes in a hash table 7/16
        // full.
        let table = 4 * 4 + 4 + 40;
        let lists = crate::lists::NODE_BYTES + crate::recent::NODE_BYTES;
        assert!(size_of::<Strip>() + lists + table <= BYTES_PER_STRIP);
    }
}
