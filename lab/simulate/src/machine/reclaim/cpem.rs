//! A prefetch cache beside the lists of Linux 2.6 (TR-840 section 4), for the paper's kernel "CPEM".
//!
//! A page that is read ahead enters the prefetch cache; one that is demanded or written enters the inactive
//! list. The first use moves a page from the prefetch cache to the young end of the inactive list, where it
//! counts as referenced once, as if it had been there before.
//!
//! Reclaim first moves pages from the prefetch cache to the inactive list while there are more than the ceiling
//! allows. Then it takes pages of the lists, as Linux does: pages in the prefetch cache are on no list and no
//! victims (section 4.1). Only where all pages of the lists together are fewer than needed does it take the
//! oldest of the prefetch cache, which the paper leaves to the kernel's last resort.
//!
//! Without private memory on the lists ([`Memory::paged`]) they can be empty in normal operation. There it
//! takes pages from the prefetch cache as soon as the lists have none that is not held.
//!
//! Evicted pages are recorded in the eviction history; a touch that misses looks there and reports to the
//! ceiling controller. Each stream may read ahead the ceiling divided by the number of streams: open files, or
//! those that have read ahead lately.
//!
//! The ceiling is at most "roughly the physical memory size minus those memory occupied by the kernel". Without
//! private memory on the lists that is what private memory leaves for the page cache.

use super::contract::{Inserted, Reclaim, Why};
use super::lists::Lists;
use super::zone::Pass;
use crate::machine::names::FrameNo;
use crate::machine::settings::Memory;
use foreseek_cache::{
    Activity, Ceiling, CeilingSettings, EvictionHistory, Mark, PrefetchCache, Process, Status, StreamCount,
    depth_cap,
};
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_units::{Instant, Nanos, PageIndex, Pages};

/// How long after a prefetch its process must have run to have had "the opportunity" (the paper) to use it: no
/// time.
const OPPORTUNITY: Nanos = Nanos::ZERO;

/// The content of a frame.
#[derive(Clone, Copy, Debug)]
struct Page {
    object: ObjectId,
    page: PageIndex,
    used: bool,
}

/// The page replacement.
#[derive(Debug)]
pub struct Cpem {
    lists: Lists,
    prefetched: PrefetchCache<FrameNo, ()>,
    activity: Activity,
    history: EvictionHistory<(ObjectId, PageIndex)>,
    ceiling: Ceiling,
    streams: StreamCount<StreamId>,
    /// Pages that were referenced.
    referenced: Pages,
    /// By frame number.
    pages: Vec<Page>,
}

impl Cpem {
    /// An empty cache of a machine with this memory.
    #[must_use]
    pub fn new(memory: &Memory, ceiling: CeilingSettings, streams: StreamCount<StreamId>) -> Self {
        let total = memory.total.pages_floor();
        let most = total - memory.system.pages_ceil();
        Self {
            lists: Lists::linux_2_6(memory),
            prefetched: PrefetchCache::new(OPPORTUNITY),
            activity: Activity::new(),
            history: EvictionHistory::of(total),
            ceiling: Ceiling::new(ceiling, total, most, Instant::ZERO),
            streams,
            referenced: Pages::ZERO,
            pages: Vec::new(),
        }
    }

    /// Moves what exceeds the ceiling to the inactive list.
    fn keep_ceiling(&mut self) {
        while let Some(evicted) = self.prefetched.evict_above(self.ceiling.pages(), &self.activity) {
            self.lists.insert(evicted.key.0, Why::Ahead, false);
        }
    }

    /// Records an evicted page.
    fn evicted(&mut self, frame: FrameNo) {
        let Page { object, page, used } = self.pages[frame.0 as usize];
        self.history.evicted((object, page), if used { Status::Lru } else { Status::Prefetched });
    }
}

impl Reclaim for Cpem {
    fn inserted(&mut self, now: Instant, inserted: Inserted) {
        let Inserted { frame, object, page, why, pid, stream } = inserted;
        self.history.take(&(object, page));
        let at = frame.0 as usize;
        // Private memory is never read ahead: a missed page of it was on the lists.
        let held = Page { object, page, used: matches!(why, Why::Private | Why::Swapped) };
        if at >= self.pages.len() {
            self.pages.resize(at + 1, held);
        }
        self.pages[at] = held;
        match why {
            Why::Ahead => {
                self.prefetched.insert(frame, (), Mark { process: Process(pid.0), at: now }, true);
                self.streams.touched(now, stream);
            }
            Why::Demand | Why::Write | Why::Private | Why::Swapped => {
                self.lists.insert(frame.0, why, inserted.held());
            }
        }
    }

    fn referenced(&mut self, _now: Instant, frame: FrameNo) {
        self.pages[frame.0 as usize].used = true;
        self.referenced += Pages(1);
        let held = self.prefetched.is_held(&frame);
        if self.prefetched.take(&frame).is_some() {
            self.lists.insert(frame.0, Why::Ahead, held);
        }
        self.lists.referenced(frame.0);
    }

    fn held(&mut self, frame: FrameNo, held: bool) {
        let there = if held { self.prefetched.hold(&frame) } else { self.prefetched.release(&frame) };
        if !there {
            self.lists.hold(frame.0, held);
        }
    }

    fn removed(&mut self, frame: FrameNo) {
        if self.prefetched.take(&frame).is_none() {
            self.lists.remove(frame.0);
        }
    }

    fn victim(&mut self, _now: Instant) -> Option<FrameNo> {
        self.keep_ceiling();
        let listed = self.lists.victim();
        let frame = listed.or_else(|| self.prefetched.evict(&self.activity).map(|evicted| evicted.key))?;
        self.evicted(frame);
        Some(frame)
    }

    fn mapped(&mut self, frame: FrameNo) {
        self.lists.mapped(frame.0);
    }

    fn touched(&mut self, frame: FrameNo) {
        self.lists.touched(frame.0);
    }

    fn pass(&mut self, _now: Instant, wanted: Pages, priority: u32, victims: &mut Vec<FrameNo>) -> Pass {
        self.keep_ceiling();
        while self.lists.frames() < wanted.get() {
            let Some(oldest) = self.prefetched.evict(&self.activity) else { break };
            self.lists.insert(oldest.key.0, Why::Ahead, false);
        }
        let first = victims.len();
        let pass = self.lists.pass(wanted, priority, victims);
        for victim in &victims[first..] {
            self.evicted(*victim);
        }
        pass
    }

    fn rested(&mut self, priority: u32) {
        self.lists.rest(priority);
    }

    fn missed(&mut self, _now: Instant, object: ObjectId, page: PageIndex, _unused: bool) {
        if let Some(status) = self.history.status(&(object, page)) {
            self.ceiling.missed(status);
        }
    }

    fn ran(&mut self, now: Instant, pid: ProcessId) {
        self.activity.ran(Process(pid.0), now);
    }

    fn exited(&mut self, _now: Instant, pid: ProcessId) {
        self.activity.exited(Process(pid.0));
    }

    fn resized(&mut self, _now: Instant, memory: Pages) {
        self.ceiling.resized(memory);
    }

    fn closed(&mut self, _now: Instant, stream: StreamId) {
        self.streams.closed(&stream);
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.ceiling.deadline())
    }

    fn tick(&mut self, now: Instant) {
        self.ceiling.tick(now, self.referenced);
    }

    fn bound(&mut self, now: Instant, streams: usize) -> Option<Pages> {
        Some(depth_cap(self.ceiling.pages(), self.streams.count(now, streams)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::reclaim::by_name;
    use foreseek_cache::Direction;
    use foreseek_units::Bytes;

    const OBJECT: ObjectId = ObjectId(1);

    /// 400 pages of memory: a prefetch cache of at most 100 in the beginning.
    fn memory() -> Memory {
        Memory {
            total: Pages(400).bytes(),
            system: Bytes::ZERO,
            private_share: 0.8,
            paged: false,
            marks_beginning: false,
            reused: true,
            advice_moves: false,
            low: Pages(10),
            high: Pages(20),
        }
    }

    fn cpem() -> Cpem {
        Cpem::new(&memory(), CeilingSettings::paper(Pages(10), Direction::Up), StreamCount::Open)
    }

    /// A page in the frame of its number, for the process and stream of its number divided by 100.
    fn at(page: u32, why: Why) -> Inserted {
        Inserted {
            frame: FrameNo(page),
            object: OBJECT,
            page: PageIndex(u64::from(page)),
            why,
            pid: ProcessId(page / 100),
            stream: StreamId(u64::from(page / 100)),
        }
    }

    fn insert(cpem: &mut Cpem, now: u64, page: u32, why: Why) {
        cpem.inserted(Instant(now), at(page, why));
        cpem.held(FrameNo(page), false);
    }

    fn victims(cpem: &mut Cpem, count: usize) -> Vec<u32> {
        (0..count).map_while(|_| cpem.victim(Instant(9))).map(|frame| frame.0).collect()
    }

    #[test]
    fn used_pages_go_before_prefetched_ones_that_are_older() {
        let mut cpem = cpem();
        (0..3).for_each(|page| insert(&mut cpem, 1, page, Why::Ahead));
        (10..13).for_each(|page| insert(&mut cpem, 2, page, Why::Demand));
        (10..13).for_each(|page| cpem.referenced(Instant(3), FrameNo(page)));
        assert_eq!(victims(&mut cpem, 5), [10, 11, 12, 0, 1]);
        // A used page is a page like others.
        insert(&mut cpem, 4, 20, Why::Ahead);
        cpem.referenced(Instant(5), FrameNo(2));
        assert_eq!(victims(&mut cpem, 3), [2, 20]);
    }

    #[test]
    fn above_the_ceiling_the_oldest_prefetched_pages_are_pages_as_others() {
        let mut cpem = cpem();
        cpem.ran(Instant(0), ProcessId(0));
        cpem.ran(Instant(0), ProcessId(1));
        (0..150).for_each(|page| insert(&mut cpem, 1, page, Why::Ahead));
        // All processes are alive: each page gets its second chance, then the oldest 50 are evicted.
        assert_eq!(victims(&mut cpem, 3), [0, 1, 2]);
        assert_eq!((cpem.prefetched.len(), cpem.lists.frames()), (Pages(100), 47));
        // Those of a process that has ended are evicted at once.
        cpem.exited(Instant(2), ProcessId(1));
        (200..230).for_each(|page| insert(&mut cpem, 3, page, Why::Ahead));
        assert_eq!(victims(&mut cpem, 48).last(), Some(&50));
    }

    #[test]
    fn held_pages_are_no_victims_wherever_they_are() {
        let mut cpem = cpem();
        (0..2).for_each(|page| insert(&mut cpem, 1, page, Why::Ahead));
        insert(&mut cpem, 1, 10, Why::Demand);
        for page in [0, 1, 10] {
            cpem.held(FrameNo(page), true);
        }
        // It stays held when it moves from one to the other.
        cpem.referenced(Instant(2), FrameNo(0));
        assert_eq!(cpem.victim(Instant(9)), None);
        for page in [0, 1, 10] {
            cpem.held(FrameNo(page), false);
        }
        assert_eq!(victims(&mut cpem, 4).len(), 3);
    }

    #[test]
    fn a_miss_is_told_by_what_its_page_was() {
        let mut cpem = cpem();
        insert(&mut cpem, 1, 0, Why::Ahead);
        insert(&mut cpem, 1, 10, Why::Demand);
        cpem.referenced(Instant(1), FrameNo(10));
        assert_eq!(victims(&mut cpem, 2), [10, 0]);
        for page in [0, 10, 10, 11] {
            cpem.missed(Instant(2), OBJECT, PageIndex(page), false);
        }
        let misses = cpem.ceiling.misses();
        assert_eq!((misses.lru, misses.prefetched), (2, 1));
        // A page that is in memory again is no longer in the history.
        insert(&mut cpem, 3, 10, Why::Demand);
        cpem.missed(Instant(4), OBJECT, PageIndex(10), false);
        assert_eq!(cpem.ceiling.misses(), misses);
    }

    #[test]
    fn golden_the_depth_is_bounded_by_ceiling_and_streams() {
        let memory = Memory::of(Bytes::mib(512));
        let mut open = by_name("cpem", &memory).expect("a name");
        assert_eq!(open.bound(Instant::ZERO, 512), Some(Pages(64)));
        assert_eq!(open.bound(Instant::ZERO, 2), Some(Pages(16_384)));
        // Private memory leaves 29,696 pages.
        open.resized(Instant::ZERO, Pages(29_696));
        assert_eq!(open.bound(Instant::ZERO, 512), Some(Pages(58)));
        // One unit up in the first epoch, half of 2,896 KiB twice.
        open.resized(Instant::ZERO, Pages(100_000));
        assert_eq!(open.deadline(), Some(Instant::ZERO + Nanos::from_secs(4)));
        open.inserted(Instant::ZERO, at(0, Why::Demand));
        open.referenced(Instant::ZERO, FrameNo(0));
        open.tick(Instant::ZERO + Nanos::from_secs(4));
        assert_eq!(open.bound(Instant::ZERO, 1), Some(Pages(32_768 + 1_448)));
    }

    #[test]
    fn open_files_that_nobody_reads_take_no_share_from_the_active() {
        let mut active = by_name("cpem-active", &Memory::of(Bytes::mib(512))).expect("a name");
        (0..4).for_each(|stream| active.inserted(Instant::ZERO, at(stream * 100, Why::Ahead)));
        assert_eq!(active.bound(Instant::ZERO, 512), Some(Pages(8192)));
        active.closed(Instant::ZERO, StreamId(3));
        active.closed(Instant::ZERO, StreamId(2));
        assert_eq!(active.bound(Instant::ZERO, 512), Some(Pages(16_384)));
    }
}
