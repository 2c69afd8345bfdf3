//! From pages to requests and back.
//!
//! A range that is to be read becomes one submission for each run of missing pages that are contiguous on the
//! device. Its pages are put into the cache at once, held and in flight. They arrive piece by piece, as the
//! device serves the block layer's requests, so that a reader of the first page of a long fetch does not wait
//! for the last. A submission for which the block layer has no request waits in a queue of its direction; its
//! pages are in flight meanwhile.
//!
//! *A submitter that finds no request* ([`Settings::submitter_sleeps`](crate::block::Settings)) sleeps in the
//! middle of its call, as in `get_request_wait` of Linux 2.6.3 to 2.6.11: `__make_request` calls it for every
//! bio without the flag `READA`, and read-ahead submits with plain `READ` (`mpage_readpages`). Requests that
//! become free wake sleepers one by one, in order (`prepare_to_wait_exclusive`). Limits: writes do not sleep;
//! the pages of a reader that sleeps are in flight at once, while a kernel puts those of its later pieces into
//! the page cache as it submits them.

use super::files::PageEntry;
use super::frames::{Frame, NOBODY, Swapping};
use super::names::{FileNo, FrameNo};
use super::process::Wait;
use super::reading::Touched;
use super::reclaim::{Inserted, Why};
use super::{Machine, MachineError};
use crate::block::{Completed, Submission, Tag};
use foreseek_device::{Op, Outcome};
use foreseek_readahead::stream::{Ahead, Served};
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_units::{Lba, PageIndex, PageSpan, Pages, SECTORS_PER_PAGE, SectorSpan, Span};
use std::collections::{BTreeMap, VecDeque};

/// A submission in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) op: Op,
    pub(super) file: FileNo,
    pub(super) pages: PageSpan,
    lba: Lba,
    /// The process that reads or writes it past the page cache.
    pub(super) reader: Option<u32>,
}

/// All that is in flight.
#[derive(Debug, Default)]
pub(super) struct IoInFlight {
    pub(super) pending: slab::Slab<Pending>,
    /// Ranges that are still to be read, by their start: their end and their submission. They never overlap,
    /// since a page is in flight once; the arrived part of a long submission may be evicted and read again
    /// before the rest arrives.
    reads: BTreeMap<Lba, (Lba, usize)>,
    /// Submissions for which the block layer had no request: reads, writes.
    pub(super) unsent: [VecDeque<Submission>; 2],
    /// Processes that wait for room in the queue.
    pub(super) short_of_queue: VecDeque<u32>,
    /// Readers that sleep until all of their read-ahead has requests, in order of arrival.
    asleep: VecDeque<(u32, ProcessId)>,
    completed: Vec<Completed>,
    served: Vec<Served>,
}

impl Machine {
    /// Fetches the ranges that the prefetcher returned for a touch.
    pub(super) fn fetch(&mut self, touched: Touched, ahead: Ahead) -> Result<(), MachineError> {
        let Some(file) = self.file_of(touched.stream) else { return Ok(()) };
        let end = self.files[file.0 as usize].end();
        let range = ahead.range.intersection(Span::new(PageIndex::ZERO, end));
        self.ask_for_mapping(touched, file, range);
        let mut run = PageSpan::new(range.start, range.start);
        // Number of contiguous pages from here on.
        let mut piece = Pages::ZERO;
        for page in range.iter() {
            if piece.is_zero() {
                self.submit_read(touched, file, run);
                run = Span::new(page, page);
                piece = self.address(file, page)?.1;
            }
            let missing = !self.files[file.0 as usize].cached(page);
            if missing && self.insert_for(touched, file, page, ahead.marker == Some(page)) {
                run.end = page.next();
            } else {
                self.submit_read(touched, file, run);
                run = Span::new(page.next(), page.next());
            }
            piece -= Pages(1);
        }
        self.submit_read(touched, file, run);
        Ok(())
    }

    /// Reads one page alone; returns false if there is no memory for it.
    pub(super) fn fetch_one(&mut self, touched: Touched, why: Why) -> Result<bool, MachineError> {
        let Some(file) = self.file_of(touched.stream) else { return Ok(true) };
        self.address(file, touched.page)?;
        if !self.room() {
            return Ok(false);
        }
        self.insert(touched, file, touched.page, why, false);
        self.submit_read(touched, file, Span::at(touched.page, Pages(1)));
        Ok(true)
    }

    /// The address of a page.
    pub(super) fn address(&self, file: FileNo, page: PageIndex) -> Result<(Lba, Pages), MachineError> {
        let address = self.files[file.0 as usize].address(page);
        address.ok_or(MachineError::Unplaced { file: file.0, page: page.get() })
    }

    /// Puts a page that is to be read into the cache, if there is memory for it.
    fn insert_for(&mut self, touched: Touched, file: FileNo, page: PageIndex, marker: bool) -> bool {
        if !self.room() {
            self.metrics.counters.dropped += Pages(1);
            return false;
        }
        let why = if page == touched.page { Why::Demand } else { Why::Ahead };
        self.insert(touched, file, page, why, marker);
        true
    }

    pub(super) fn insert(
        &mut self,
        touched: Touched,
        file: FileNo,
        page: PageIndex,
        why: Why,
        marker: bool,
    ) -> FrameNo {
        let opening = self.streams.get(touched.stream as usize).map_or(0, |stream| stream.opening);
        let pid = self.processes.get(touched.process as usize).map_or(ProcessId(0), |one| one.pid);
        let frame = self.frames.insert(Frame {
            file,
            page: page.get() as u32,
            opening,
            waiter: NOBODY,
            holds: u16::from(why != Why::Private),
            in_flight: !matches!(why, Why::Write | Why::Private),
            ahead: why == Why::Ahead,
            marker,
            dirty: false,
            writing: false,
            mapped: why == Why::Private,
            swap: Swapping::No,
        });
        self.files[file.0 as usize].set(page, PageEntry::Held(frame));
        self.bill += self.settings.costs.allocate;
        match why {
            Why::Demand => self.metrics.counters.demanded += Pages(1),
            Why::Ahead => self.metrics.counters.prefetched += Pages(1),
            Why::Swapped => self.metrics.counters.swapped_in += Pages(1),
            Why::Write | Why::Private => {}
        }
        let (object, stream) = (ObjectId(u64::from(file.0)), StreamId(u64::from(touched.stream)));
        self.reclaim.inserted(self.now, Inserted { frame, object, page, why, pid, stream });
        frame
    }

    fn submit_read(&mut self, touched: Touched, file: FileNo, pages: PageSpan) {
        if pages.is_empty() {
            return;
        }
        let pid = self.processes.get(touched.process as usize).map_or(ProcessId(0), |one| one.pid);
        if self.mount.is_some() && !self.is_device(file) {
            return self.ask_mount(touched, file, pages, pid);
        }
        self.metrics.submitted(pages.len());
        self.submit(Op::Read, file, pages, pid, true);
    }

    /// Submits contiguous pages to the block layer.
    pub(super) fn submit(
        &mut self,
        op: Op,
        file: FileNo,
        pages: PageSpan,
        pid: ProcessId,
        synchronous: bool,
    ) {
        let at = self.hand_over(op, file, pages, pid, synchronous);
        if let Some(at) = at.filter(|_| op == Op::Read) {
            let lba = self.flight.pending[at].lba;
            let other = self.flight.reads.insert(lba, (lba + pages.len().sectors(), at));
            debug_assert!(other.is_none(), "two files have pages at {}", lba.get());
        }
    }

    /// The same without reports of what arrives of it; returns its number.
    pub(super) fn hand_over(
        &mut self,
        op: Op,
        file: FileNo,
        pages: PageSpan,
        pid: ProcessId,
        synchronous: bool,
    ) -> Option<usize> {
        let (lba, _) = self.files[file.0 as usize].address(pages.start)?;
        let at = self.flight.pending.insert(Pending { op, file, pages, lba, reader: None });
        let range = SectorSpan::at(lba, pages.len().sectors());
        self.bill += self.settings.costs.submit;
        let submission = Submission { tag: Tag(at as u64), op, range, pid, synchronous };
        let unsent = &mut self.flight.unsent[usize::from(op != Op::Read)];
        let sleeps = !unsent.is_empty() && !self.block.awaits(pid);
        if sleeps || self.block.submit(self.now, submission).is_err() {
            unsent.push_back(submission);
        }
        self.look_at_block();
        Some(at)
    }

    /// The block layer may have something to do earlier than was known.
    pub(super) fn look_at_block(&mut self) {
        self.block_next = self.block.next();
    }

    /// Runs the block layer up to now: what it has served arrives.
    pub(super) fn serve_block(&mut self) -> Result<(), MachineError> {
        let mut completed = std::mem::take(&mut self.flight.completed);
        let mut served = std::mem::take(&mut self.flight.served);
        self.block.advance(self.now, &mut completed);
        served.extend_from_slice(self.block.served());
        self.interrupted(true);
        for one in served.drain(..) {
            self.metrics.served(self.now, one.range);
            self.prefetcher.served(self.now, one);
            self.interrupt();
            self.arrive(one.range);
        }
        for one in completed.drain(..) {
            self.complete(one)?;
        }
        self.serve_completed()?;
        self.flight.completed = completed;
        self.flight.served = served;
        self.send_unsent();
        self.look_at_block();
        self.interrupted(false);
        self.work_of_kernel();
        Ok(())
    }

    /// Sectors have been read from the device: their pages are in memory.
    fn arrive(&mut self, range: SectorSpan) {
        let before = self.flight.reads.range(..=range.start).next_back().map(|(lba, _)| *lba);
        let mut from = before.unwrap_or(range.start);
        while from < range.end {
            let Some((&start, &(end, at))) = self.flight.reads.range(from..range.end).next() else { return };
            from = end;
            let due = SectorSpan::new(start, end);
            let come = due.intersection(range);
            if come.is_empty() {
                continue;
            }
            self.flight.reads.remove(&start);
            for left in [SectorSpan::new(start, come.start), SectorSpan::new(come.end, end)] {
                if !left.is_empty() {
                    self.flight.reads.insert(left.start, (left.end, at));
                }
            }
            let Pending { file, pages, lba, .. } = self.flight.pending[at];
            let page = |at: Lba| pages.start + Pages((at - lba).get() / SECTORS_PER_PAGE);
            for page in PageSpan::new(page(come.start), page(come.end)).iter() {
                self.arrived(file, page);
            }
        }
    }

    pub(super) fn arrived(&mut self, file: FileNo, page: PageIndex) {
        let PageEntry::Held(frame) = self.files[file.0 as usize].entry(page) else { return };
        self.frames.get_mut(frame).in_flight = false;
        self.let_go(frame);
        self.wake_waiters(frame);
        self.swap_came(file, page);
    }

    fn complete(&mut self, completed: Completed) -> Result<(), MachineError> {
        let Some(pending) = self.flight.pending.try_remove(completed.tag.0 as usize) else { return Ok(()) };
        let failed = completed.outcome == Outcome::Failed;
        if let Some(reader) = pending.reader {
            return self.direct_came(reader, pending, failed);
        }
        if self.mount_completed(completed.tag.0 as usize, failed) {
            return Ok(());
        }
        if failed {
            return self.failed(completed.tag.0 as usize, pending);
        }
        if pending.op == Op::Write && !self.swapped_out(pending.file, pending.pages) {
            self.written(pending.file, pending.pages);
        }
        Ok(())
    }

    /// The device has failed. Pages that no process waits for leave the cache and are read again when they are
    /// touched; a process that waits cannot go on.
    fn failed(&mut self, at: usize, pending: Pending) -> Result<(), MachineError> {
        let Pending { op, file, pages, .. } = pending;
        let error = MachineError::Device { file: file.0, first: pages.start.get(), end: pages.end.get() };
        if op != Op::Read || self.mount.is_some() {
            return Err(error);
        }
        self.flight.reads.retain(|_, (_, of)| *of != at);
        for page in pages.iter() {
            let PageEntry::Held(frame) = self.files[file.0 as usize].entry(page) else { continue };
            let held = self.frames.get(frame);
            if !held.in_flight {
                continue;
            }
            if held.waiter != NOBODY {
                return Err(error);
            }
            self.frames.get_mut(frame).in_flight = false;
            self.let_go(frame);
            self.reclaim.removed(frame);
            self.evict(frame);
        }
        Ok(())
    }

    /// Puts a reader to sleep whose read-ahead has no requests yet; returns whether it sleeps.
    pub(super) fn sleeps_for_request(&mut self, process: u32) -> bool {
        if !self.block.settings().submitter_sleeps {
            return false;
        }
        let Some(pid) = self.processes.get(process as usize).map(|one| one.pid) else { return false };
        if !self.lacks_request(pid) {
            return false;
        }
        self.wait(process, Wait::Queue);
        self.flight.asleep.push_back((process, pid));
        true
    }

    /// Whether a submission of this process has no request yet.
    fn lacks_request(&self, pid: ProcessId) -> bool {
        self.block.owes(pid) || self.flight.unsent[0].iter().any(|one| one.pid == pid)
    }

    /// Wakes readers whose read-ahead has its requests, in the order in which they fell asleep.
    fn requests_came(&mut self) {
        while let Some(&(process, pid)) = self.flight.asleep.front() {
            if self.lacks_request(pid) {
                return;
            }
            self.flight.asleep.pop_front();
            if let Some(one) = self.processes.get_mut(process as usize) {
                one.retrying = true;
            }
            self.ready(process);
        }
    }

    fn send_unsent(&mut self) {
        for op in [Op::Read, Op::Write] {
            let side = usize::from(op != Op::Read);
            while let Some(&first) = self.flight.unsent[side].front() {
                if !self.block.room(op) || self.block.submit(self.now, first).is_err() {
                    break;
                }
                self.flight.unsent[side].pop_front();
            }
        }
        self.requests_came();
        self.queue_came();
    }
}
