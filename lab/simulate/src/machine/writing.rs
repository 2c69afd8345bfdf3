//! Writing: into the page cache, and from there to the device later.
//!
//! A write makes pages dirty; one that covers a page in part reads it first. Write-back (pdflush of Linux 2.6)
//! writes the file that has been dirty for longest, in ascending order, when more than the background share of
//! the page cache's memory is dirty, and every file that has been dirty for longer than the limit. A writer
//! that finds more than the limit dirty waits. `fsync` writes one file at once; a removed file is no longer
//! written. Limits: no journal and no metadata are written; a file that is made again has the extents of the
//! one before.

use super::events::Event;
use super::files::PageEntry;
use super::names::FileNo;
use super::process::{Doing, Wait};
use super::processors::Turn;
use super::reading::{Brought, Touched};
use super::reclaim::Why;
use super::{Machine, MachineError};
use crate::program::FileNumber;
use foreseek_device::Op;
use foreseek_seam::{Extent, ProcessId};
use foreseek_units::{ByteOffset, Bytes, Instant, PAGE_SIZE, PageIndex, PageSpan, Pages, Span};
use std::collections::VecDeque;

/// The most pages of write-back in flight: `MAX_WRITEBACK_PAGES` of 2.6.
const WRITING_LIMIT: Pages = Pages(1024);

/// What a growing file gets at a time: ext2 reserves eight blocks.
const GROWTH: Pages = Pages(8);

/// The process that writes back.
const PDFLUSH: ProcessId = ProcessId(0);

/// Dirty pages.
#[derive(Debug, Default)]
pub(super) struct Dirt {
    pub(super) dirty: Pages,
    pub(super) writing: Pages,
    /// Files with dirty pages, and since when.
    files: VecDeque<(Instant, FileNo)>,
    /// Processes that wait until less is dirty.
    waiters: VecDeque<u32>,
    /// Processes that wait until a file's dirty pages are written.
    syncing: Vec<(u32, FileNo)>,
    ticking: bool,
}

impl Machine {
    /// The next page of a write.
    pub(super) fn write_page(&mut self, process: u32) -> Result<Turn, MachineError> {
        let Some(Doing::Write { stream, at, end }) =
            self.processes.get(process as usize).map(|one| one.doing)
        else {
            return Ok(Turn::GoesOn);
        };
        let Some(file) = self.file_of(stream) else { return Ok(Turn::Waits) };
        self.retrying(process);
        if self.dirt.dirty + self.dirt.writing >= self.share(self.settings.write_back.limit) {
            self.wait(process, Wait::Dirty);
            self.dirt.waiters.push_back(process);
            self.write_back();
            return Ok(Turn::Waits);
        }
        let page = at.page();
        let next = page.next().offset().min(end);
        let whole = at == page.offset() && next - at == Bytes(PAGE_SIZE);
        let touched = Touched { process, stream, page, request: Pages(1), first: false, mapped: false };
        let fresh = whole || page >= self.files[file.0 as usize].written_end;
        let Some(frame) = (match self.files[file.0 as usize].entry(page).frame() {
            None if fresh && self.room() => Some(self.insert(touched, file, page, Why::Write, false)),
            None if fresh => {
                self.wait(process, Wait::Memory);
                self.short_of_memory.push_back(process);
                None
            }
            _ => match self.bring_alone(touched)? {
                Brought::Here(frame) => {
                    self.hold(frame);
                    Some(frame)
                }
                Brought::Waits => None,
            },
        }) else {
            return Ok(Turn::Waits);
        };
        self.dirty(file, page, frame);
        self.reclaim.referenced(self.now, frame);
        self.bill += self.settings.costs.look_up;
        self.bill += self.settings.costs.copy * (next - at).get() / PAGE_SIZE;
        self.metrics.counters.written += next - at;
        let written = &mut self.files[file.0 as usize].written_end;
        *written = (*written).max(page.next());
        self.set_doing(
            process,
            if next < end { Doing::Write { stream, at: next, end } } else { Doing::Next },
        );
        Ok(Turn::GoesOn)
    }

    /// Extends a file, at the end of the used part of the device.
    pub(super) fn grow(&mut self, stream: u32, end: ByteOffset) -> Result<(), MachineError> {
        let Some(file) = self.file_of(stream) else { return Ok(()) };
        let files_end = self.files_end();
        let one = &mut self.files[file.0 as usize];
        one.length = one.length.max(Bytes(end.get()));
        let last = PageIndex(one.pages().get());
        while one.mapped_end() < last {
            let extent = Extent { page: one.mapped_end(), pages: GROWTH, lba: self.free_from };
            self.free_from += GROWTH.sectors();
            if self.free_from > files_end {
                return Err(MachineError::NoSpace { file: file.0, capacity: self.block.capacity().bytes() });
            }
            one.extend(extent);
        }
        Ok(())
    }

    /// A share of the memory of the page cache.
    fn share(&self, share: f64) -> Pages {
        self.cache_limit().scale(share).max(Pages(1))
    }

    /// A held page becomes dirty.
    fn dirty(&mut self, file: FileNo, page: PageIndex, frame: super::FrameNo) {
        let held = self.frames.get_mut(frame);
        if held.dirty {
            self.let_go(frame);
            return;
        }
        held.dirty = true;
        let dirty = &mut self.files[file.0 as usize].dirty;
        if dirty.is_empty() {
            self.dirt.files.push_back((self.now, file));
        }
        dirty.insert(page.get() as u32);
        self.dirt.dirty += Pages(1);
        if !self.dirt.ticking {
            self.dirt.ticking = true;
            self.events.arrange(self.now + self.settings.write_back.period, Event::Flush);
        }
        if self.dirt.dirty > self.share(self.settings.write_back.background) {
            self.write_back();
        }
    }

    /// Write-back writes files that have been dirty for too long.
    pub(super) fn flush(&mut self) {
        self.write_back();
        self.dirt.ticking = !self.dirt.files.is_empty();
        if self.dirt.ticking {
            self.events.arrange(self.now + self.settings.write_back.period, Event::Flush);
        }
        self.work_of_kernel();
    }

    fn write_back(&mut self) {
        while self.dirt.writing < WRITING_LIMIT && !self.block.congested_writes() {
            let Some(&(since, _)) = self.dirt.files.front() else { return };
            let old = since + self.settings.write_back.expire <= self.now;
            if !old && self.dirt.dirty <= self.share(self.settings.write_back.background) {
                return;
            }
            if !self.write_first() {
                return;
            }
        }
    }

    /// Reclaim has found nothing: dirty pages are written so that they can be reclaimed, as `shrink_list` does.
    pub(super) fn write_back_for_memory(&mut self) {
        if self.dirt.writing.is_zero() {
            let _ = self.write_first();
        }
    }

    /// Writes a run of the file that has been dirty for longest; returns false if none can be written.
    fn write_first(&mut self) -> bool {
        for _ in 0..self.dirt.files.len() {
            let Some((since, file)) = self.dirt.files.pop_front() else { return false };
            let written = self.write_run(file);
            let left = !self.files[file.0 as usize].dirty.is_empty();
            match (left, written) {
                (true, true) => self.dirt.files.push_front((since, file)),
                // The remaining pages are being written in an older version: they have to wait for that.
                (true, false) => self.dirt.files.push_back((since, file)),
                (false, _) => {}
            }
            if written {
                return true;
            }
        }
        false
    }

    /// Writes a file's first contiguous run of dirty pages that are not in flight; returns false if there is
    /// none.
    fn write_run(&mut self, file: FileNo) -> bool {
        let one = &self.files[file.0 as usize];
        let can = |page: &u32| {
            let frame = one.entry(PageIndex(u64::from(*page))).frame();
            frame.is_some_and(|frame| !self.frames.get(frame).writing)
        };
        let Some(first) = one.dirty.iter().copied().find(can) else { return false };
        let start = PageIndex(u64::from(first));
        let together = one.address(start).map_or(Pages(1), |(_, pages)| pages).min(WRITING_LIMIT);
        let pages = one.dirty.range(first..).zip(first..).take(together.get() as usize);
        let pages = pages.take_while(|(page, expected)| *page == expected && can(page)).count();
        let run: PageSpan = Span::at(start, Pages(pages as u64));
        for page in run.iter() {
            self.files[file.0 as usize].dirty.remove(&(page.get() as u32));
        }
        for page in run.iter() {
            if let Some(frame) = self.files[file.0 as usize].entry(page).frame() {
                let frame = self.frames.get_mut(frame);
                frame.dirty = false;
                frame.writing = true;
            }
        }
        self.dirt.dirty -= run.len();
        self.dirt.writing += run.len();
        self.files[file.0 as usize].writing += run.len();
        self.submit(Op::Write, file, run, PDFLUSH, false);
        true
    }

    /// Writes a file's dirty pages, and waits for those in flight.
    pub(super) fn sync(&mut self, process: u32, stream: u32) -> Turn {
        let Some(file) = self.file_of(stream) else { return Turn::GoesOn };
        while self.write_run(file) {}
        if self.files[file.0 as usize].writing.is_zero() {
            self.set_doing(process, Doing::Next);
            return Turn::GoesOn;
        }
        self.wait(process, Wait::Sync);
        self.dirt.syncing.push((process, file));
        self.block.unplug(self.now);
        self.look_at_block();
        Turn::Waits
    }

    /// Removes a file: its dirty pages are dropped, and its pages leave memory except those in flight.
    pub(super) fn unlink(&mut self, process: u32, file: FileNumber) -> Result<(), MachineError> {
        let at = file.0 as usize;
        if at >= self.files.len() || self.is_device(FileNo(file.0)) {
            let number = self.processes.get(process as usize).map_or(0, |one| one.number);
            let reason = format!("there is no file {}", file.0);
            return Err(MachineError::Program { number, step: "unlink", reason });
        }
        for page in (0..self.files[at].pages().get()).map(PageIndex) {
            let PageEntry::Held(frame) = self.files[at].entry(page) else { continue };
            if std::mem::take(&mut self.frames.get_mut(frame).dirty) {
                self.files[at].dirty.remove(&(page.get() as u32));
                self.dirt.dirty -= Pages(1);
                self.let_go(frame);
            }
            if self.frames.get(frame).holds == 0 {
                self.bill += self.settings.costs.reclaim;
                self.reclaim.removed(frame);
                self.evict(frame);
                self.files[at].set(page, PageEntry::Absent);
            }
        }
        self.files[at].written_end = PageIndex::ZERO;
        if self.files[at].dirty.is_empty() {
            self.dirt.files.retain(|(_, of)| of.0 != file.0);
        }
        self.memory_came();
        self.less_is_dirty();
        Ok(())
    }

    /// Writers that waited for fewer dirty pages go on if there are fewer.
    fn less_is_dirty(&mut self) {
        if self.dirt.dirty + self.dirt.writing < self.share(self.settings.write_back.limit) {
            while let Some(process) = self.dirt.waiters.pop_front() {
                self.ready(process);
            }
        }
    }

    /// Pages have been written.
    pub(super) fn written(&mut self, file: FileNo, pages: PageSpan) {
        self.dirt.writing -= pages.len();
        self.mount_written(file, pages);
        for page in pages.iter() {
            if let PageEntry::Held(frame) = self.files[file.0 as usize].entry(page) {
                self.frames.get_mut(frame).writing = false;
                self.let_go(frame);
            }
        }
        self.files[file.0 as usize].writing -= pages.len();
        if self.files[file.0 as usize].writing.is_zero() {
            for (process, _) in self.dirt.syncing.extract_if(.., |(_, of)| *of == file).collect::<Vec<_>>() {
                self.ready(process);
            }
        }
        self.less_is_dirty();
        self.write_back();
    }
}
