//! Reading: what happens at each page that a process touches.
//!
//! As in `do_generic_mapping_read` of Linux 2.6: first the read-ahead is called with how the page was found,
//! and its ranges are submitted. Then the page is waited for, or read alone where read-ahead did not read it. A
//! page that was waited for is held until its reader has used it.

use super::files::{File, PageEntry};
use super::frames::NOBODY;
use super::names::FrameNo;
use super::process::{Doing, Wait};
use super::processors::Turn;
use super::{Machine, MachineError};
use crate::machine::reclaim::Why;
use foreseek_readahead::stream::{Found, Touch, View};
use foreseek_seam::{ObjectId, StreamId};
use foreseek_units::{ByteSpan, Lba, PAGE_SIZE, PageIndex, Pages};

/// What a prefetcher sees of the machine.
struct Sight<'a> {
    file: &'a File,
    congested: bool,
    bound: Option<Pages>,
}

impl View for Sight<'_> {
    fn cached(&self, page: PageIndex) -> bool {
        self.file.cached(page)
    }

    fn congested(&self) -> bool {
        self.congested
    }

    fn lba(&self, page: PageIndex) -> Option<Lba> {
        self.file.address(page).map(|(lba, _)| lba)
    }

    fn bound(&self) -> Option<Pages> {
        self.bound
    }
}

/// A page that a process touches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touched {
    pub(super) process: u32,
    pub(super) stream: u32,
    pub(super) page: PageIndex,
    /// How many pages the call reads from this one on.
    pub(super) request: Pages,
    /// Whether the call begins here.
    pub(super) first: bool,
    /// Whether it is a fault.
    pub(super) mapped: bool,
}

/// Whether a touched page can be used.
pub(super) enum Brought {
    /// It is in memory.
    Here(FrameNo),
    /// The process waits.
    Waits,
}

impl Machine {
    /// The next page of a read.
    pub(super) fn read_page(&mut self, process: u32) -> Result<Turn, MachineError> {
        let Some(Doing::Read { stream, at, end, first }) =
            self.processes.get(process as usize).map(|one| one.doing)
        else {
            return Ok(Turn::GoesOn);
        };
        let page = at.page();
        let request = ByteSpan::new(at, end).pages().len();
        let touched = Touched { process, stream, page, request, first, mapped: false };
        if self.find(touched)? {
            return Ok(Turn::Waits);
        }
        let Brought::Here(frame) = self.bring(touched)? else { return Ok(Turn::Waits) };
        // Linux 2.6.3 to 2.6.10 mark a page "if we read the beginning" (`do_generic_mapping_read`): one that
        // two calls read in parts is marked once.
        let marks = !self.settings.memory.marks_beginning || at == page.offset();
        self.used(frame, marks);
        let next = page.next().offset().min(end);
        let copied = next - at;
        self.bill += self.settings.costs.look_up;
        self.bill += self.settings.costs.copy * copied.get() / PAGE_SIZE;
        self.metrics.counters.read += copied;
        let doing =
            if next < end { Doing::Read { stream, at: next, end, first: false } } else { Doing::Next };
        self.set_doing(process, doing);
        Ok(Turn::GoesOn)
    }

    /// A mapped page is touched.
    pub(super) fn touch_page(&mut self, process: u32) -> Result<Turn, MachineError> {
        let Some(Doing::Touch { stream, page }) = self.processes.get(process as usize).map(|one| one.doing)
        else {
            return Ok(Turn::GoesOn);
        };
        if self.file_of(stream).is_none_or(|file| page >= self.files[file.0 as usize].end()) {
            let number = self.processes.get(process as usize).map_or(0, |one| one.number);
            let reason = format!("page {} lies past the end of the file", page.get());
            return Err(MachineError::Program { number, step: "touch", reason });
        }
        let touched = Touched { process, stream, page, request: Pages(1), first: true, mapped: true };
        if self.find(touched)? {
            return Ok(Turn::Waits);
        }
        let Brought::Here(frame) = self.bring(touched)? else { return Ok(Turn::Waits) };
        self.used_mapped(frame);
        self.bill += self.settings.costs.fault;
        self.metrics.counters.read += Pages(1).bytes();
        self.set_doing(process, Doing::Next);
        Ok(Turn::GoesOn)
    }

    /// Brings a touched page into memory, and the prefetcher's ranges beside it.
    pub(super) fn bring(&mut self, touched: Touched) -> Result<Brought, MachineError> {
        if let Some(frame) = self.has_arrived(touched.process) {
            return Ok(Brought::Here(frame));
        }
        if !self.retrying(touched.process) {
            self.ask_prefetcher(touched)?;
            if self.sleeps_for_request(touched.process) {
                return Ok(Brought::Waits);
            }
        }
        self.wait_or_fetch(touched)
    }

    /// Brings a page that a write covers in part into memory: alone, as `prepare_write` does.
    pub(super) fn bring_alone(&mut self, touched: Touched) -> Result<Brought, MachineError> {
        match self.has_arrived(touched.process) {
            Some(frame) => Ok(Brought::Here(frame)),
            None => self.wait_or_fetch(touched),
        }
    }

    /// The page that the process waited for, if it has arrived. It is no longer held; its reader uses it at
    /// once.
    pub(super) fn has_arrived(&mut self, process: u32) -> Option<FrameNo> {
        let frame = self.processes.get_mut(process as usize)?.arrived.take()?;
        self.let_go(frame);
        Some(frame)
    }

    fn wait_or_fetch(&mut self, touched: Touched) -> Result<Brought, MachineError> {
        let Touched { process, stream, page, .. } = touched;
        let Some(&opened) = self.streams.get(stream as usize) else { return Ok(Brought::Waits) };
        if self.files[opened.file.0 as usize].entry(page).frame().is_none()
            && !self.fetch_one(touched, Why::Demand)?
        {
            self.wait(process, Wait::Memory);
            self.short_of_memory.push_back(process);
            return Ok(Brought::Waits);
        }
        let Some(frame) = self.files[opened.file.0 as usize].entry(page).frame() else {
            return Ok(Brought::Waits);
        };
        if !self.frames.get(frame).in_flight {
            return Ok(Brought::Here(frame));
        }
        self.wait_for_page(process, frame);
        Ok(Brought::Waits)
    }

    /// Reports the touch to the prefetcher and fetches its ranges.
    fn ask_prefetcher(&mut self, touched: Touched) -> Result<(), MachineError> {
        let Touched { stream, page, request, first, mapped, .. } = touched;
        let Some(&opened) = self.streams.get(stream as usize) else { return Ok(()) };
        let entry = self.files[opened.file.0 as usize].entry(page);
        let (found, marker) = self.look(entry, opened.opening);
        self.metrics.counters.found(found);
        if matches!(found, Found::Miss | Found::Thrashed) {
            let object = ObjectId(u64::from(opened.file.0));
            self.reclaim.missed(self.now, object, page, found == Found::Thrashed);
        }
        let mut wanted = std::mem::take(&mut self.wanted);
        let touch =
            Touch { stream: StreamId(u64::from(stream)), page, request, first, mapped, found, marker };
        let bound = self.reclaim.bound(self.now, self.open_streams());
        let file = &self.files[opened.file.0 as usize];
        let sight = Sight { file, congested: self.block.congested(), bound };
        self.prefetcher.touch(self.now, touch, &sight, &mut wanted);
        for ahead in wanted.drain(..) {
            self.fetch(touched, ahead)?;
        }
        self.wanted = wanted;
        Ok(())
    }

    /// How a page is found, and whether it has the marker, which is cleared.
    fn look(&mut self, entry: PageEntry, opening: u32) -> (Found, bool) {
        match entry {
            PageEntry::Absent => (Found::Miss, false),
            PageEntry::Evicted(by) if by == opening => (Found::Thrashed, false),
            PageEntry::Evicted(_) => (Found::Miss, false),
            PageEntry::Held(frame) => {
                let frame = self.frames.get_mut(frame);
                let found = if frame.in_flight { Found::InFlight } else { Found::Hit };
                (found, std::mem::take(&mut frame.marker))
            }
        }
    }

    /// Whether the process has touched its page already and only waited for memory.
    pub(super) fn retrying(&mut self, process: u32) -> bool {
        self.processes.get_mut(process as usize).is_some_and(|one| std::mem::take(&mut one.retrying))
    }

    /// A process waits for a page: the queue is no longer deferred.
    pub(super) fn wait_for_page(&mut self, process: u32, frame: FrameNo) {
        self.hold(frame);
        let first = std::mem::replace(&mut self.frames.get_mut(frame).waiter, process);
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.wait = Wait::Page(frame);
            one.next_waiter = first;
        }
        self.block.unplug(self.now);
        self.look_at_block();
    }

    /// Wakes the processes that wait for a page, in order of arrival.
    pub(super) fn wake_waiters(&mut self, frame: FrameNo) {
        let mut at = std::mem::replace(&mut self.frames.get_mut(frame).waiter, NOBODY);
        let mut waiters = std::mem::take(&mut self.waiters);
        while at != NOBODY {
            waiters.push(at);
            at = match self.processes.get_mut(at as usize) {
                Some(one) => {
                    one.arrived = Some(frame);
                    std::mem::replace(&mut one.next_waiter, NOBODY)
                }
                None => NOBODY,
            };
        }
        for process in waiters.drain(..).rev() {
            self.ready(process);
        }
        self.waiters = waiters;
    }

    /// A process uses a page that it maps. Where mapped pages count separately, only the first touch is
    /// reported. Limit: mappings are not counted; a page stays mapped until it is evicted, as in a server of
    /// threads.
    fn used_mapped(&mut self, frame: FrameNo) {
        if !self.settings.memory.paged {
            return self.used(frame, true);
        }
        if std::mem::replace(&mut self.frames.get_mut(frame).mapped, true) {
            self.reclaim.touched(frame);
        } else {
            self.used(frame, true);
            self.reclaim.mapped(frame);
        }
    }

    /// A process uses a page, and marks it as accessed or not.
    pub(super) fn used(&mut self, frame: FrameNo, marks: bool) {
        let page = self.frames.get_mut(frame);
        if std::mem::take(&mut page.ahead) {
            self.metrics.counters.used += Pages(1);
        }
        if marks {
            self.reclaim.referenced(self.now, frame);
        }
    }
}

impl File {
    /// The first page after its end.
    pub(super) fn end(&self) -> PageIndex {
        PageIndex(self.pages().get())
    }
}

impl PageEntry {
    /// The frame that holds the page, or will hold it.
    pub(super) fn frame(self) -> Option<FrameNo> {
        match self {
            Self::Held(frame) => Some(frame),
            Self::Absent | Self::Evicted(_) => None,
        }
    }
}
