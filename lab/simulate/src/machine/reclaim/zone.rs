//! The lists of Linux 2.6.3 with mapped pages on them: `mm/vmscan.c`, `refill_inactive_zone`, `shrink_zone`,
//! `shrink_list`.
//!
//! Every page is on one of two lists. A page of a file enters at the young end of the inactive one, private
//! memory at that of the active one (`lru_cache_add_active`). A page that is read is marked
//! (`mark_page_accessed`: the second mark moves it to the active list). Another touch of a mapped page is only
//! recorded by the processor, in the page table, until a pass looks there (`page_referenced`).
//!
//! A *pass* is one `shrink_zone` with a priority from 12 to 1. It adds wanted x active / (2 x inactive) + 1 to
//! the number of active pages that are due. Where more than 32 are due, it scans that many of the oldest active
//! ones, 128 at most. Those that are not mapped become inactive. Mapped ones stay active, unless
//!
//! > mapped / 2 + distress + 60 (`swappiness`) is at least 100,
//!
//! with the percentage of memory that is mapped, and distress = 100 >> the priority at which the last balancing
//! ended; then those that were not touched since the last scan become inactive, too. After that the pass scans
//! the oldest inactive pages: inactive >> priority of them, or twice the number wanted. One that is held stays;
//! a mapped one that was touched becomes active; any other is evicted. Mapped private memory has to be written
//! first, so that it does not count as freed.
//!
//! Limit: one zone.

use crate::machine::names::FrameNo;
use foreseek_units::Pages;
use std::collections::VecDeque;

/// `vm_swappiness`.
const SWAPPINESS: u64 = 60;
/// The sum from which on mapped pages are evicted, too.
const TENDENCY: u64 = 100;
/// `SWAP_CLUSTER_MAX`.
const CLUSTER: u64 = 32;
/// The first priority of a balancing, `DEF_PRIORITY`: 1/4096 of the inactive list.
pub(in crate::machine) const PRIORITY: u32 = 12;

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Pages that are free at once, without being written first.
    pub freed: Pages,
    /// Pages that were scanned.
    pub scanned: Pages,
}

/// The list of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum On {
    #[default]
    Nothing,
    Inactive,
    Active,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    on: On,
    /// Which of its entries in the queues is valid.
    stamp: u32,
    referenced: bool,
    /// Touched through a page table since the last look there.
    young: bool,
    mapped: bool,
    private: bool,
    held: bool,
}

/// A queue from which pages are also removed in the middle: their entries stay and are void.
#[derive(Debug, Default)]
struct ListQueue {
    entries: VecDeque<(u32, u32)>,
    pages: u64,
}

/// The lists.
#[derive(Debug)]
pub(super) struct Zone {
    links: Vec<Link>,
    inactive: ListQueue,
    active: ListQueue,
    /// All memory, of which the mapped part is a share.
    total: u64,
    mapped: u64,
    /// `refill_counter`: active pages that are due to be scanned.
    due: u64,
    /// `prev_priority`.
    last_priority: u32,
}

/// A page that enters the lists.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entering {
    pub(super) active: bool,
    pub(super) private: bool,
    pub(super) mapped: bool,
    pub(super) held: bool,
}

impl Zone {
    pub(super) fn new(total: Pages) -> Self {
        Self {
            links: Vec::new(),
            inactive: ListQueue::default(),
            active: ListQueue::default(),
            total: total.get().max(1),
            mapped: 0,
            due: 0,
            last_priority: PRIORITY,
        }
    }

    pub(super) fn frames(&self) -> u64 {
        self.inactive.pages + self.active.pages
    }

    pub(super) fn insert(&mut self, frame: u32, entering: Entering) {
        let at = frame as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, Link::default());
        }
        let Entering { active, private, mapped, held } = entering;
        let stamp = self.links[at].stamp;
        self.links[at] = Link { stamp, private, mapped, young: mapped, held, ..Link::default() };
        self.mapped += u64::from(mapped);
        self.put(frame, if active { On::Active } else { On::Inactive });
    }

    pub(super) fn hold(&mut self, frame: u32, held: bool) {
        self.links[frame as usize].held = held;
    }

    /// `mark_page_accessed`.
    pub(super) fn referenced(&mut self, frame: u32) {
        let link = &mut self.links[frame as usize];
        if link.on == On::Inactive && link.referenced {
            link.referenced = false;
            self.take(frame);
            self.put(frame, On::Active);
        } else {
            link.referenced = true;
        }
    }

    /// A page is mapped from here on.
    pub(super) fn map(&mut self, frame: u32) {
        let link = &mut self.links[frame as usize];
        self.mapped += u64::from(!link.mapped);
        (link.mapped, link.young) = (true, true);
    }

    /// A mapped page is touched.
    pub(super) fn touched(&mut self, frame: u32) {
        self.links[frame as usize].young = true;
    }

    pub(super) fn remove(&mut self, frame: u32) {
        self.take(frame);
        let link = &mut self.links[frame as usize];
        self.mapped -= u64::from(std::mem::take(&mut link.mapped));
    }

    /// Balancing has ended at this priority.
    pub(super) fn rest(&mut self, priority: u32) {
        self.last_priority = priority;
    }

    /// Whether mapped pages may be evicted.
    fn takes_mapped(&self) -> bool {
        let distress = 100 >> self.last_priority;
        self.mapped * 100 / self.total / 2 + distress + SWAPPINESS >= TENDENCY
    }

    /// One `shrink_zone`. The evicted pages are off the lists.
    pub(super) fn pass(&mut self, wanted: Pages, priority: u32, victims: &mut Vec<FrameNo>) -> Pass {
        let wanted = wanted.get();
        let mut scanned = 0;
        self.due += wanted * self.active.pages / ((self.inactive.pages | 1) * 2) + 1;
        if self.due > CLUSTER {
            let due = std::mem::take(&mut self.due);
            scanned += self.refill(due.min(CLUSTER * 4));
        }
        let mut left = (self.inactive.pages >> priority).max(wanted * 2).min(self.inactive.pages);
        let mut freed = 0;
        while left > 0 && freed < wanted {
            let Some(frame) = self.oldest(On::Inactive) else { break };
            (left, scanned) = (left - 1, scanned + 1);
            let link = &mut self.links[frame as usize];
            if link.held {
                self.put(frame, On::Inactive);
                continue;
            }
            let used = std::mem::take(&mut link.referenced) | std::mem::take(&mut link.young);
            if link.mapped && used {
                self.put(frame, On::Active);
                continue;
            }
            let written_first = link.private && link.mapped;
            self.mapped -= u64::from(std::mem::take(&mut link.mapped));
            freed += u64::from(!written_first);
            victims.push(FrameNo(frame));
        }
        Pass { freed: Pages(freed), scanned: Pages(scanned) }
    }

    /// Scans the oldest active pages. Returns their number.
    fn refill(&mut self, count: u64) -> u64 {
        let takes_mapped = self.takes_mapped();
        let count = count.min(self.active.pages);
        for _ in 0..count {
            let Some(frame) = self.oldest(On::Active) else { break };
            let link = &mut self.links[frame as usize];
            let stays = link.mapped
                && (!takes_mapped || std::mem::take(&mut link.referenced) | std::mem::take(&mut link.young));
            self.put(frame, if stays { On::Active } else { On::Inactive });
        }
        count
    }

    fn queue(&mut self, on: On) -> &mut ListQueue {
        if on == On::Active { &mut self.active } else { &mut self.inactive }
    }

    /// Puts a page that is on no list at the young end of one.
    fn put(&mut self, frame: u32, on: On) {
        let link = &mut self.links[frame as usize];
        link.on = on;
        let stamp = link.stamp;
        let queue = self.queue(on);
        queue.pages += 1;
        queue.entries.push_back((frame, stamp));
        self.tidy(on);
    }

    /// Takes a page off its list, if it is on one.
    fn take(&mut self, frame: u32) {
        let link = &mut self.links[frame as usize];
        let on = std::mem::take(&mut link.on);
        link.stamp = link.stamp.wrapping_add(1);
        if on != On::Nothing {
            self.queue(on).pages -= 1;
        }
    }

    /// Takes the oldest page off a list.
    fn oldest(&mut self, on: On) -> Option<u32> {
        loop {
            let (frame, stamp) = self.queue(on).entries.pop_front()?;
            let link = &self.links[frame as usize];
            if link.stamp == stamp && link.on == on {
                self.take(frame);
                return Some(frame);
            }
        }
    }

    /// Drops void entries if they are the majority.
    fn tidy(&mut self, on: On) {
        let queue = if on == On::Active { &mut self.active } else { &mut self.inactive };
        if queue.entries.len() as u64 > 2 * queue.pages + 1024 {
            let links = &self.links;
            queue.entries.retain(|(frame, stamp)| {
                let link = &links[*frame as usize];
                link.stamp == *stamp && link.on == on
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Entering = Entering { active: false, private: false, mapped: false, held: false };
    const PRIVATE: Entering = Entering { active: true, private: true, mapped: true, held: false };

    fn pass(zone: &mut Zone, wanted: u64) -> (Vec<u32>, Pass) {
        let mut victims = Vec::new();
        let pass = zone.pass(Pages(wanted), PRIORITY, &mut victims);
        (victims.iter().map(|frame| frame.0).collect(), pass)
    }

    #[test]
    fn pages_of_files_go_oldest_first_and_the_second_mark_makes_one_active() {
        let mut zone = Zone::new(Pages(100));
        (0..5).for_each(|frame| zone.insert(frame, FILE));
        zone.hold(0, true);
        (0..2).for_each(|_| zone.referenced(1));
        zone.referenced(2);
        let (victims, came) = pass(&mut zone, 2);
        assert_eq!(victims, [2, 3], "one mark is no second chance for a page that nobody maps");
        assert_eq!(came, Pass { freed: Pages(2), scanned: Pages(3) });
        zone.hold(0, false);
        assert_eq!(pass(&mut zone, 4).0, [4, 0]);
    }

    #[test]
    fn private_memory_stays_while_less_than_four_fifths_are_mapped() {
        let mut zone = Zone::new(Pages(1000));
        (0..700).for_each(|frame| zone.insert(frame, PRIVATE));
        (700..900).for_each(|frame| zone.insert(frame, FILE));
        for _ in 0..40 {
            pass(&mut zone, 40);
        }
        assert_eq!((zone.mapped, zone.frames()), (700, 700), "every page of a file is gone and nothing else");
        // 70 % mapped: 35 + 60. Where balancing fails down to priority 4, distress is 6.
        zone.rest(4);
        let gone: usize = (0..200).map(|_| pass(&mut zone, 40).0.len()).sum();
        assert!(gone > 0, "distress takes mapped pages");
    }

    #[test]
    fn above_four_fifths_what_was_not_touched_goes_and_has_to_be_written() {
        let mut zone = Zone::new(Pages(1000));
        (0..900).for_each(|frame| zone.insert(frame, PRIVATE));
        let mut gone = Vec::new();
        for _ in 0..100 {
            (0..100).for_each(|frame| zone.touched(frame));
            let (victims, came) = pass(&mut zone, 40);
            assert_eq!(came.freed, Pages::ZERO);
            gone.extend(victims);
        }
        assert!(!gone.is_empty() && gone.iter().all(|frame| *frame >= 100), "{gone:?}");
        assert!(zone.mapped < 810, "{}: it ends at four fifths", zone.mapped);
        assert!(zone.mapped > 700, "{}: but for those that were inactive already", zone.mapped);
    }

    #[test]
    fn pages_that_leave_by_themselves_leave_nothing_behind() {
        let mut zone = Zone::new(Pages(100));
        for round in 0..10_000 {
            zone.insert(round % 7, if round % 2 == 0 { FILE } else { PRIVATE });
            zone.remove(round % 7);
        }
        assert_eq!((zone.frames(), zone.mapped), (0, 0));
        assert!(zone.inactive.entries.len() + zone.active.entries.len() < 2100);
        assert_eq!(pass(&mut zone, 4).0, Vec::<u32>::new());
    }
}
