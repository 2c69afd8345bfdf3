//! Invariants of a machine that hold between any two events.

use super::Machine;
use super::files::PageEntry;
use super::frames::NOBODY;
use super::names::FrameNo;
use super::process::Wait;
use foreseek_device::Op;
use foreseek_units::{PageIndex, Pages};

impl Machine {
    /// Panics if one does not hold.
    pub(super) fn audit(&self) {
        self.audit_pages();
        self.audit_waits();
        self.audit_conservation();
    }

    /// Each frame in use holds exactly one page, and its holds are those of the page.
    fn audit_pages(&self) {
        let (mut held, mut dirty, mut writing, mut ahead) = (0, 0, 0, 0);
        for (number, file) in self.files.iter().enumerate() {
            for page in 0..file.pages().get() {
                let PageEntry::Held(at) = file.entry(PageIndex(page)) else { continue };
                let frame = self.frames.get(at);
                assert_eq!((frame.file.0 as usize, u64::from(frame.page)), (number, page));
                held += 1;
                dirty += u64::from(frame.dirty);
                writing += u64::from(frame.writing);
                ahead += u64::from(frame.ahead);
                assert_eq!(frame.dirty, file.dirty.contains(&(page as u32)));
                let users = self.processes.iter();
                let users = users.filter(|(_, one)| one.arrived == Some(at) || one.wait == Wait::Page(at));
                let flags = [frame.in_flight, frame.dirty, frame.writing];
                let holds = users.count() + flags.into_iter().filter(|flag| *flag).count();
                assert_eq!(usize::from(frame.holds), holds, "file {number} page {page}: {frame:?}");
            }
        }
        assert_eq!(self.frames.used(), Pages(held));
        assert_eq!(self.dirt.dirty, Pages(dirty));
        assert_eq!(self.dirt.writing, Pages(writing));
        let counters = &self.metrics.counters;
        assert_eq!(counters.prefetched, counters.used + counters.wasted + Pages(ahead));
        assert!(self.frames.used() <= self.most_ever(), "{} of {}", self.frames.used(), self.most_ever());
    }

    /// The cache may exceed its limit only while pages that private memory displaced are in flight.
    fn most_ever(&self) -> Pages {
        self.settings.memory.total.pages_floor() - self.settings.memory.system.pages_ceil()
    }

    /// A process that waits for a page is in that page's list, once.
    fn audit_waits(&self) {
        for (process, one) in &self.processes {
            let Wait::Page(frame) = one.wait else { continue };
            let mut listed = 0;
            let mut at = self.frames.get(frame).waiter;
            while at != NOBODY {
                listed += u32::from(at as usize == process);
                at = self.processes[at as usize].next_waiter;
            }
            assert_eq!(listed, 1, "{}", one.describe());
            assert!(self.frames.get(FrameNo(frame.0)).in_flight);
        }
    }

    /// Every page that was requested from the device was demanded or prefetched; those that have not arrived
    /// are in flight.
    fn audit_conservation(&self) {
        let counters = &self.metrics.counters;
        let asked = counters.demanded + counters.prefetched + counters.swapped_in + counters.direct;
        let in_flight: u64 = (0..self.files.len())
            .map(|file| {
                let file = &self.files[file];
                let pages = (0..file.pages().get()).filter(|page| match file.entry(PageIndex(*page)) {
                    PageEntry::Held(frame) => self.frames.get(frame).in_flight,
                    PageEntry::Absent | PageEntry::Evicted(_) => false,
                });
                pages.count() as u64
            })
            .sum();
        let direct = self.flight.pending.iter().filter(|(_, one)| one.reader.is_some() && one.op == Op::Read);
        let in_flight = direct.map(|(_, pending)| pending.pages.len()).fold(Pages(in_flight), |a, b| a + b);
        let read = self.block.metrics().read.pages_ceil();
        assert_eq!(asked, read + in_flight);
        // Each touch had one result; a missing page was demanded; a write's page may be demanded without a
        // touch.
        assert!(counters.thrashed <= counters.misses);
    }
}
