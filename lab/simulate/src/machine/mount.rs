//! A mount between the page cache and the block layer: the mount's own driver and engine in virtual time.
//!
//! The kernel's read-ahead reaches the [`ServingDriver`] as it reaches a FUSE server, in requests of at most
//! [`REQUEST`]. Its fetches go to the block layer as those of one process, the server: at most [`AT_A_TIME`];
//! the others wait in two queues, those that a process waits for first. When the driver serves a request, the
//! pages are in the page cache and its frames are free. A request costs [`CROSSING`] of processor time in
//! addition. A file that a program has closed is closed at the server once all of its requests are answered,
//! those of read-ahead too: a request of FUSE holds its file open.
//!
//! Limits: writes go to the device past the server, which gets them as changes by others. The engine gets no
//! descriptions of files, nothing that was learnt before, and no changes of its budget. The caller must take
//! the memory of the frames off that of the [machine](super::Memory). Requests reach the server in the order in
//! which they were made, any number at a time. The server gets ticks for pauses of up to [`PAUSE`], otherwise only at
//! other events. An error of the device ends the run, once the driver has tried again and failed a request with it.

use super::names::FileNo;
use super::reading::Touched;
use super::{Machine, MachineError};
use foreseek_device::Op;
use foreseek_readahead::driver::{Backing, FetchEnd, FrameFetch, Opening, Reply, ServingDriver, WaitingRead};
use foreseek_readahead::serving::{ServingEngine, Stats};
use foreseek_readahead::stream::Opened;
use foreseek_seam::{
    Event, FetchId, FrameId, ObjectId, ProcessId, Refusal, RequestId, ServingEvent, StreamId, Urgency,
};
use foreseek_units::{Bytes, Instant, Nanos, PageSpan, Pages, Span};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The longest FUSE request: 256 pages (`max_pages`).
const REQUEST: Pages = Bytes::mib(1).pages_floor();

/// Processor time of one request through FUSE, in both directions: 41 to 67 us were measured on today's
/// machines for 128 KiB.
const CROSSING: Nanos = Nanos::from_micros(60);

/// The server's process number in the block layer; no other process has it.
const SERVER: ProcessId = ProcessId(u32::MAX);

/// The longest pause after which the server continues by itself: a refused fetch, or the turn of a reader.
const PAUSE: Nanos = Nanos::from_millis(100);

/// The most fetches in flight: the size of the server's ring.
const AT_A_TIME: usize = 256;

/// A request of the kernel.
#[derive(Clone, Copy, Debug)]
struct Request {
    stream: StreamId,
    file: FileNo,
    pages: PageSpan,
}

/// A fetch of the engine, as one piece for each of its extents on the device.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    left: u32,
    pages: Pages,
    failed: bool,
}

/// The results of the driver's calls: recorded during a call, done after it.
#[derive(Debug, Default)]
struct Work {
    fetches: Vec<FrameFetch<FileNo>>,
    passes: Vec<RequestId>,
    replies: Vec<Reply<Request>>,
    /// A request that failed.
    failed: Option<Request>,
}

impl Backing for Work {
    type Answer = Request;
    type File = FileNo;
    type Version = Bytes;
    type Error = ();

    const NOT_OPEN: () = ();
    const UNKNOWN: () = ();

    fn fetch(&mut self, fetch: FrameFetch<FileNo>) -> Result<(), Refusal> {
        self.fetches.push(fetch);
        Ok(())
    }

    fn serve(&mut self, reply: Reply<Request>) -> Result<(), Reply<Request>> {
        self.replies.push(reply);
        Ok(())
    }

    fn pass(&mut self, request: RequestId, _asked: &WaitingRead<Request>, _file: FileNo) -> Result<(), ()> {
        self.passes.push(request);
        Ok(())
    }

    fn fail(&mut self, answer: Request, _error: ()) {
        self.failed = Some(answer);
    }

    /// The frames' memory does not belong to the machine.
    fn drop_frames(&mut self, _frames: &[FrameId]) {}
}

/// A stream that is open at the server.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// The number of its requests that are not answered.
    unanswered: u32,
    /// Whether its program has closed it.
    closed: bool,
}

/// The server.
pub(super) struct Mount {
    driver: ServingDriver<Work>,
    /// The names that the driver gave the machine's streams.
    streams: FxHashMap<u32, StreamId>,
    open: FxHashMap<StreamId, Open>,
    fetches: FxHashMap<FetchId, Pieces>,
    /// The fetch of each submission.
    pieces: FxHashMap<usize, FetchId>,
    /// Fetches that wait for others to end: those for which a process waits, and the others.
    lines: [VecDeque<FrameFetch<FileNo>>; 2],
    /// When the server continues by itself.
    continues: Option<Instant>,
}

impl Mount {
    pub(super) fn stats(&self) -> Stats {
        self.driver.stats()
    }

    /// The next fetch that may be made.
    fn next(&mut self) -> Option<FrameFetch<FileNo>> {
        if self.fetches.len() >= AT_A_TIME {
            return None;
        }
        self.lines.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Hands the server a request.
    fn ask(&mut self, now: Instant, pid: ProcessId, request: Request) {
        self.open.entry(request.stream).or_default().unanswered += 1;
        // A read of an open stream is always taken.
        let _ = self.driver.read(now, request.stream, request.pages.bytes(), pid, request);
    }

    /// A request of a stream is answered.
    fn answered(&mut self, now: Instant, stream: StreamId) {
        if let Some(open) = self.open.get_mut(&stream) {
            open.unanswered -= 1;
        }
        self.close_if_over(now, stream);
    }

    /// Closes a stream at the server that is closed and has no request left.
    fn close_if_over(&mut self, now: Instant, stream: StreamId) {
        if self.open.get(&stream).is_some_and(|open| open.closed && open.unanswered == 0) {
            self.open.remove(&stream);
            self.driver.close(now, stream);
        }
    }
}

impl Machine {
    /// The same machine with its files behind a mount that this engine serves.
    #[must_use]
    pub fn behind(mut self, engine: ServingEngine) -> Self {
        self.mount = Some(Box::new(Mount {
            driver: ServingDriver::new(engine, None, Work::default()),
            streams: FxHashMap::default(),
            open: FxHashMap::default(),
            fetches: FxHashMap::default(),
            pieces: FxHashMap::default(),
            lines: Default::default(),
            continues: None,
        }));
        self
    }

    pub(super) fn mount_opened(&mut self, opened: Opened) {
        let Opened { stream, object, pid, .. } = opened;
        let (Some(mount), Some(file)) = (&mut self.mount, self.files.get(object.0 as usize)) else { return };
        let (version, placed) = (file.length, Some(file.extents()));
        let opening = Opening { object, version, file: FileNo(object.0 as u32), pid, about: None, placed };
        let at_server = mount.driver.open(self.now, opening);
        mount.streams.insert(stream.0 as u32, at_server);
        mount.open.insert(at_server, Open::default());
        self.serve_mount();
    }

    pub(super) fn mount_closed(&mut self, stream: u32) {
        let Some(mount) = &mut self.mount else { return };
        if let Some(stream) = mount.streams.remove(&stream) {
            mount.open.entry(stream).or_default().closed = true;
            mount.close_if_over(self.now, stream);
        }
        self.serve_mount();
    }

    pub(super) fn mount_ran(&mut self, pid: ProcessId) {
        if let Some(mount) = &mut self.mount {
            mount.driver.send(self.now, Event::Serving(ServingEvent::Ran { pid }));
        }
    }

    pub(super) fn mount_exited(&mut self, pid: ProcessId) {
        if let Some(mount) = &mut self.mount {
            mount.driver.send(self.now, Event::Serving(ServingEvent::Exited { pid }));
        }
        self.serve_mount();
    }

    /// Pages of a file were written past the server.
    pub(super) fn mount_written(&mut self, file: FileNo, pages: PageSpan) {
        if let Some(mount) = &mut self.mount {
            let (object, length) = (ObjectId(u64::from(file.0)), self.files[file.0 as usize].length);
            mount.driver.changed(self.now, object, Some(pages.bytes()), length);
        }
    }

    /// The kernel requests pages from the server that it has put into its cache.
    pub(super) fn ask_mount(&mut self, touched: Touched, file: FileNo, pages: PageSpan, pid: ProcessId) {
        let mut start = pages.start;
        while start < pages.end {
            let part = Span::new(start, pages.end.min(start + REQUEST));
            start = part.end;
            self.bill += CROSSING;
            let Some(mount) = &mut self.mount else { return };
            let Some(&stream) = mount.streams.get(&touched.stream) else { return };
            mount.ask(self.now, pid, Request { stream, file, pages: part });
        }
        self.serve_mount();
    }

    /// A submission is complete; returns whether it was the server's, which is notified.
    pub(super) fn mount_completed(&mut self, at: usize, failed: bool) -> bool {
        let Some(mount) = &mut self.mount else { return false };
        let Some(fetch) = mount.pieces.remove(&at) else { return false };
        let Some(pieces) = mount.fetches.get_mut(&fetch) else { return true };
        pieces.left -= 1;
        pieces.failed |= failed;
        if pieces.left == 0 {
            let Pieces { pages, failed, .. } = *pieces;
            mount.fetches.remove(&fetch);
            let (got, end) =
                if failed { (Pages::ZERO, FetchEnd::Failed(())) } else { (pages, FetchEnd::Read) };
            mount.driver.done(self.now, fetch, got, end);
        }
        true
    }

    /// The same after the device has worked.
    ///
    /// # Errors
    /// A request has failed.
    pub(super) fn serve_completed(&mut self) -> Result<(), MachineError> {
        self.serve_mount();
        let failed = self.mount.as_mut().and_then(|mount| mount.driver.below_mut().failed.take());
        let Some(Request { file, pages, .. }) = failed else { return Ok(()) };
        Err(MachineError::Device { file: file.0, first: pages.start.get(), end: pages.end.get() })
    }

    /// Does what the driver has recorded, and what follows from it.
    pub(super) fn serve_mount(&mut self) {
        while let Some(mount) = &mut self.mount {
            let work = mount.driver.below_mut();
            let (fetches, passes) = (std::mem::take(&mut work.fetches), std::mem::take(&mut work.passes));
            let replies = std::mem::take(&mut work.replies);
            let is_idle = fetches.is_empty() && passes.is_empty() && replies.is_empty();
            for fetch in fetches {
                mount.lines[usize::from(fetch.urgency != Urgency::Demand)].push_back(fetch);
            }
            self.make_fetches();
            passes.into_iter().for_each(|request| self.pass(request));
            let unpinned: Vec<FrameId> = replies.into_iter().flat_map(|reply| self.served(reply)).collect();
            if is_idle {
                break;
            }
            if let Some(mount) = self.mount.as_mut().filter(|_| !unpinned.is_empty()) {
                mount.driver.unpinned(self.now, &unpinned);
            }
        }
        self.arrange_service();
    }

    /// Schedules the server's next call, if it pauses.
    fn arrange_service(&mut self) {
        let Some(mount) = &mut self.mount else { return };
        let Some(at) = mount.driver.deadline().filter(|at| *at <= self.now + PAUSE) else { return };
        let at = at.max(self.now + Nanos(1));
        if mount.continues.is_none_or(|arranged| at < arranged) {
            mount.continues = Some(at);
            self.events.arrange(at, super::events::Event::Serve);
        }
    }

    /// The server continues after a pause.
    pub(super) fn serve_again(&mut self) {
        if let Some(mount) =
            self.mount.as_mut().filter(|mount| mount.continues.is_some_and(|at| at <= self.now))
        {
            mount.continues = None;
            mount.driver.send(self.now, Event::Tick);
            self.serve_mount();
        }
    }

    /// Makes the fetches that may be made now, all together except for those that go separately.
    fn make_fetches(&mut self) {
        let mut asked = false;
        while let Some(fetch) = self.mount.as_mut().and_then(|mount| mount.next()) {
            asked = true;
            let apart = fetch.apart;
            self.fetch_for_mount(fetch);
            if apart {
                self.block.unplug(self.now);
            }
        }
        if asked {
            // The server submits what it has at once.
            self.block.unplug(self.now);
            self.look_at_block();
        }
    }

    fn fetch_for_mount(&mut self, fetch: FrameFetch<FileNo>) {
        let FrameFetch { id, file, range, .. } = fetch;
        let mut left = 0;
        let mut start = range.start;
        while start < range.end
            && let Ok((_, piece)) = self.address(file, start)
        {
            let part = Span::new(start, range.end.min(start + piece));
            start = part.end;
            self.metrics.submitted(part.len());
            let at = self.hand_over(Op::Read, file, part, SERVER, true);
            if let (Some(at), Some(mount)) = (at, &mut self.mount) {
                mount.pieces.insert(at, id);
                left += 1;
            }
        }
        if let Some(mount) = &mut self.mount {
            mount.fetches.insert(id, Pieces { left, pages: range.len(), failed: false });
        }
    }

    /// A request is answered: its pages are in the page cache. Returns the frames that are no longer in use.
    fn served(&mut self, reply: Reply<Request>) -> Vec<FrameId> {
        let Request { stream, file, pages } = reply.answer;
        for page in pages.iter() {
            self.arrived(file, page);
        }
        if let Some(mount) = &mut self.mount {
            mount.answered(self.now, stream);
        }
        reply.frames
    }

    /// The server reads for a request and keeps nothing of it.
    fn pass(&mut self, request: RequestId) {
        let asked = self.mount.as_mut().and_then(|mount| mount.driver.take(request));
        let Some(WaitingRead { answer: Request { stream, file, pages }, .. }) = asked else { return };
        self.submit(Op::Read, file, pages, SERVER, true);
        if let Some(mount) = &mut self.mount {
            mount.answered(self.now, stream);
        }
    }
}
