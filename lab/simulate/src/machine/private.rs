//! Private memory as pages ([`Memory::paged`](super::Memory::paged)): touched, swapped out, read back.
//!
//! A process touches all of its private memory when it begins ("the user-level memory footprint of each request
//! handler is 1 MB", TR-840 section 5.1). After that each call that reads goes into the next part of it, in
//! rotation: handlers "access private memory of 1 MB" (position paper, section 3.1), and all that is known of
//! the accesses is that what is read must be stored somewhere. A touch of memory that is present costs nothing
//! more than the copy. The first touch of a page costs a fault and a free page. A page that was swapped out is
//! read back, in its aligned group of eight (`page_cluster` 3), and its process waits: the "random page faults
//! during high memory pressure" of TR-840 section 2.3.
//!
//! Swap is the last part of the machine's one device ([`Memory::swap`](super::Memory::swap)). Each process has
//! its own area there, so that pages that were swapped out together are contiguous; the kernel hands out slots
//! in order of swapping out, in clusters of 256. A page is written first, in contiguous runs, and is free when
//! it is written; if it is touched meanwhile it stays.
//!
//! Limit: a page that was read back and only stands in the swap cache is clean; once touched it counts as
//! written.

use super::files::{File, PageEntry};
use super::frames::Swapping;
use super::names::{FileNo, FrameNo};
use super::process::Wait;
use super::processors::Turn;
use super::reading::Touched;
use super::reclaim::{Inserted, Why};
use super::{Machine, MachineError};
use foreseek_device::Op;
use foreseek_seam::{Extent, ObjectId, ProcessId, StreamId};
use foreseek_units::{Lba, PageIndex, PageSpan, Pages, Sectors, Span};

/// Pages that are read back together: 1 << `page_cluster`.
const GROUP: u64 = 8;
/// Pages that are touched before the machine checks for other events.
const AT_ONCE: u32 = 16;
/// The process that swaps out.
const KSWAPD: ProcessId = ProcessId(0);
/// No open file.
const NO_STREAM: u32 = u32::MAX;

/// The swap space and its users.
#[derive(Debug)]
pub(super) struct Swap {
    pub(super) file: FileNo,
    start: Lba,
    end: PageIndex,
    /// The end of the part that was ever in use.
    given: PageIndex,
    free: Vec<PageSpan>,
    /// Areas of processes that have ended, with the number of their pages in flight.
    closing: Vec<(PageSpan, u64)>,
    /// Pages that are swapped out.
    out: Pages,
}

/// A process's private memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// Its area in swap, in whole groups.
    pages: PageSpan,
    /// The offset of the next touch.
    next: Pages,
    /// Pages to be touched before it goes on.
    due: PageSpan,
}

impl Machine {
    /// Lays out the swap space at the end of the device.
    pub(super) fn lay_out_swap(&mut self) {
        if !self.settings.memory.paged {
            return;
        }
        let file = FileNo(self.files.len() as u32);
        let capacity = self.block.capacity();
        let wanted = self.settings.memory.swap(capacity).sectors();
        let start = Lba(capacity.get() - wanted.get()).max(self.free_from);
        let pages = Sectors(capacity.get().saturating_sub(start.get())).bytes().pages_floor();
        self.files.push(File::new(pages.bytes(), vec![Extent { page: PageIndex::ZERO, pages, lba: start }]));
        self.swap = Some(Swap {
            file,
            start,
            end: PageIndex(pages.get()),
            given: PageIndex::ZERO,
            free: Vec::new(),
            closing: Vec::new(),
            out: Pages::ZERO,
        });
    }

    /// The end of the part of the device for files.
    pub(super) fn files_end(&self) -> Lba {
        self.swap.as_ref().map_or(Lba(self.block.capacity().get()), |swap| swap.start)
    }

    /// Replaces a process's private memory by this much, which it has to touch.
    pub(super) fn own(&mut self, process: u32, memory: Pages) -> Result<(), MachineError> {
        self.disown(process);
        let Some(swap) = self.swap.as_mut() else { return Ok(()) };
        let capacity = self.block.capacity().bytes();
        let part = swap.give(memory).ok_or(MachineError::NoSpace { file: swap.file.0, capacity })?;
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.own = Own { pages: part, next: Pages::ZERO, due: PageSpan::at(part.start, memory) };
        }
        Ok(())
    }

    /// A process's private memory is free again.
    pub(super) fn disown(&mut self, process: u32) {
        let own = self.processes.get_mut(process as usize).map(|one| std::mem::take(&mut one.own));
        if let Some(own) = own.filter(|own| !own.pages.is_empty()) {
            self.release(own.pages);
        }
    }

    /// The same where the process has already ended.
    pub(super) fn release(&mut self, pages: PageSpan) {
        let Some(file) = self.swap.as_ref().map(|swap| swap.file) else { return };
        let mut under_way = 0;
        for page in pages.iter() {
            match self.files[file.0 as usize].entry(page) {
                PageEntry::Absent => {}
                PageEntry::Evicted(_) => self.forget_swapped(file, page),
                PageEntry::Held(frame) => {
                    let held = self.frames.get(frame);
                    if held.in_flight || held.swap != Swapping::No {
                        under_way += 1;
                    } else {
                        self.reclaim.removed(frame);
                        self.drop_private(file, page, frame);
                    }
                }
            }
        }
        let Some(swap) = self.swap.as_mut() else { return };
        if under_way == 0 {
            swap.free.push(pages);
        } else {
            swap.closing.push((pages, under_way));
        }
        self.memory_came();
    }

    fn forget_swapped(&mut self, file: FileNo, page: PageIndex) {
        self.files[file.0 as usize].set(page, PageEntry::Absent);
        if let Some(swap) = self.swap.as_mut() {
            swap.out -= Pages(1);
        }
    }

    /// A page of private memory is freed, in memory or in swap.
    fn drop_private(&mut self, file: FileNo, page: PageIndex, frame: FrameNo) {
        self.frames.remove(frame);
        self.files[file.0 as usize].set(page, PageEntry::Absent);
    }

    /// A call reads this many pages: they go to the next part of the process's memory.
    pub(super) fn fill(&mut self, process: u32, count: Pages) {
        if !self.settings.memory.reused {
            return;
        }
        let Some(one) = self.processes.get_mut(process as usize) else { return };
        let own = &mut one.own;
        let all = own.pages.len();
        if all.is_zero() {
            return;
        }
        if own.next >= all {
            own.next = Pages::ZERO;
        }
        let count = count.min(all - own.next);
        own.due = PageSpan::at(own.pages.start + own.next, count);
        own.next += count;
    }

    /// Whether a process has to touch private memory before it goes on.
    pub(super) fn has_to_touch(&self, process: u32) -> bool {
        self.processes.get(process as usize).is_some_and(|one| !one.own.due.is_empty())
    }

    /// Touches the due pages of private memory.
    pub(super) fn touch_private(&mut self, process: u32) -> Result<Turn, MachineError> {
        let Some(file) = self.swap.as_ref().map(|swap| swap.file) else { return Ok(Turn::GoesOn) };
        // What follows is a touch of its own.
        self.retrying(process);
        self.has_arrived(process);
        for _ in 0..AT_ONCE {
            let Some(due) = self.processes.get(process as usize).map(|one| one.own.due) else { break };
            if due.is_empty() {
                break;
            }
            let page = due.start;
            let memory = match self.files[file.0 as usize].entry(page) {
                PageEntry::Held(frame) if self.frames.get(frame).in_flight => {
                    self.wait_for_page(process, frame);
                    return Ok(Turn::Waits);
                }
                PageEntry::Held(frame) => {
                    self.touched_private(frame);
                    true
                }
                PageEntry::Absent => self.first_touch(process, file, page),
                PageEntry::Evicted(_) => {
                    if self.swap_in(process, file, page)? {
                        continue;
                    }
                    false
                }
            };
            if !memory {
                self.wait(process, Wait::Memory);
                self.short_of_memory.push_back(process);
                return Ok(Turn::Waits);
            }
            if let Some(one) = self.processes.get_mut(process as usize) {
                one.own.due.start = page.next();
            }
        }
        Ok(Turn::GoesOn)
    }

    fn touched_private(&mut self, frame: FrameNo) {
        let held = self.frames.get_mut(frame);
        if held.swap != Swapping::No {
            held.swap = Swapping::Restored;
            self.bill += self.settings.costs.fault;
        } else if held.mapped {
            self.reclaim.touched(frame);
        } else {
            held.mapped = true;
            self.reclaim.mapped(frame);
            self.bill += self.settings.costs.fault;
        }
    }

    fn first_touch(&mut self, process: u32, file: FileNo, page: PageIndex) -> bool {
        if !self.room() {
            return false;
        }
        self.insert(touch(process, page), file, page, Why::Private, false);
        self.bill += self.settings.costs.fault;
        true
    }

    /// Reads a page back, with its neighbours; returns false if there is no memory for it.
    fn swap_in(&mut self, process: u32, file: FileNo, page: PageIndex) -> Result<bool, MachineError> {
        if !self.room() {
            return Ok(false);
        }
        let own = self.processes.get(process as usize).map_or(PageSpan::default(), |one| one.own.pages);
        let group = PageSpan::at(PageIndex(page.get() / GROUP * GROUP), Pages(GROUP)).intersection(own);
        self.reclaim.missed(self.now, ObjectId(u64::from(file.0)), page, false);
        self.bill += self.settings.costs.fault;
        let mut run = PageSpan::new(group.start, group.start);
        for one in group.iter() {
            let out = matches!(self.files[file.0 as usize].entry(one), PageEntry::Evicted(_));
            if out && (one == page || self.room()) {
                self.forget_swapped(file, one);
                self.insert(touch(process, one), file, one, Why::Swapped, false);
                run.end = one.next();
            } else {
                self.read_back(process, file, run);
                run = Span::new(one.next(), one.next());
            }
        }
        self.read_back(process, file, run);
        Ok(true)
    }

    fn read_back(&mut self, process: u32, file: FileNo, run: PageSpan) {
        if run.is_empty() {
            return;
        }
        let pid = self.processes.get(process as usize).map_or(ProcessId(0), |one| one.pid);
        self.submit(Op::Read, file, run, pid, true);
    }

    /// Takes pages of private memory that are off the lists out of memory: those only in the swap cache at
    /// once, the others when they are written.
    pub(super) fn swap_out(&mut self, mut frames: Vec<FrameNo>) {
        let Some(file) = self.swap.as_ref().map(|swap| swap.file) else { return };
        frames.sort_unstable_by_key(|frame| self.frames.get(*frame).page);
        let mut run = PageSpan::default();
        for frame in frames {
            let held = self.frames.get_mut(frame);
            let page = held.page();
            if !held.mapped {
                self.swapped(file, page, frame);
                continue;
            }
            held.swap = Swapping::Out;
            if run.is_empty() || run.end != page {
                self.write_out(file, run);
                run = PageSpan::new(page, page);
            }
            run.end = page.next();
        }
        self.write_out(file, run);
    }

    fn write_out(&mut self, file: FileNo, run: PageSpan) {
        if !run.is_empty() {
            self.metrics.counters.swapped_out += run.len();
            self.submit(Op::Write, file, run, KSWAPD, false);
        }
    }

    /// A page is in swap and no longer in memory.
    fn swapped(&mut self, file: FileNo, page: PageIndex, frame: FrameNo) {
        self.frames.remove(frame);
        self.files[file.0 as usize].set(page, PageEntry::Evicted(0));
        let Some(swap) = self.swap.as_mut() else { return };
        swap.out += Pages(1);
        let most = &mut self.metrics.counters.swapped_most;
        *most = (*most).max(swap.out);
    }

    /// Pages have been written; returns whether they are private memory.
    pub(super) fn swapped_out(&mut self, file: FileNo, pages: PageSpan) -> bool {
        if self.swap.as_ref().is_none_or(|swap| swap.file != file) {
            return false;
        }
        for page in pages.iter() {
            let PageEntry::Held(frame) = self.files[file.0 as usize].entry(page) else { continue };
            let held = self.frames.get_mut(frame);
            match std::mem::replace(&mut held.swap, Swapping::No) {
                Swapping::No => {}
                Swapping::Out => {
                    self.swapped(file, page, frame);
                    self.closed_page(file, page);
                }
                Swapping::Restored => {
                    let inserted = Inserted {
                        frame,
                        object: ObjectId(u64::from(file.0)),
                        page,
                        why: Why::Private,
                        pid: KSWAPD,
                        stream: StreamId(u64::from(NO_STREAM)),
                    };
                    self.reclaim.inserted(self.now, inserted);
                    self.closed_page(file, page);
                }
            }
        }
        self.memory_came();
        true
    }

    /// A page has been read: it may be private memory of a process that has ended.
    pub(super) fn swap_came(&mut self, file: FileNo, page: PageIndex) {
        if self.swap.as_ref().is_some_and(|swap| swap.file == file) {
            self.closed_page(file, page);
        }
    }

    /// Nothing is in flight for a page: if its process has ended, it is freed.
    fn closed_page(&mut self, file: FileNo, page: PageIndex) {
        let Some(swap) = self.swap.as_mut() else { return };
        let Some(at) = swap.closing.iter().position(|(pages, _)| pages.start <= page && page < pages.end)
        else {
            return;
        };
        swap.closing[at].1 -= 1;
        if swap.closing[at].1 == 0 {
            let (pages, _) = swap.closing.swap_remove(at);
            swap.free.push(pages);
        }
        match self.files[file.0 as usize].entry(page) {
            PageEntry::Absent => {}
            PageEntry::Evicted(_) => self.forget_swapped(file, page),
            PageEntry::Held(frame) => {
                self.reclaim.removed(frame);
                self.drop_private(file, page, frame);
            }
        }
    }
}

fn touch(process: u32, page: PageIndex) -> Touched {
    Touched { process, stream: NO_STREAM, page, request: Pages(1), first: false, mapped: true }
}

impl Swap {
    /// An area for this many pages.
    fn give(&mut self, pages: Pages) -> Option<PageSpan> {
        let length = Pages(pages.get().div_ceil(GROUP) * GROUP);
        let at = self.free.iter().position(|part| part.len() >= length);
        let part = match at {
            Some(at) => {
                let part = self.free.swap_remove(at);
                let rest = PageSpan::new(part.start + length, part.end);
                if !rest.is_empty() {
                    self.free.push(rest);
                }
                PageSpan::at(part.start, length)
            }
            None => {
                let part = PageSpan::at(self.given, length);
                self.given = part.end;
                part
            }
        };
        (part.end <= self.end).then_some(part)
    }
}
