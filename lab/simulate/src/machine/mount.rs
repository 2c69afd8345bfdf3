//! A mount between the page cache and the block layer: the serving engine in virtual time.
//!
//! What the kernel's read-ahead asks for goes to the [`ServingEngine`] as a FUSE server would be told of
//! it, in requests of at most [`REQUEST`]. Its fetches go to the block layer as those of one process, the
//! server; when it serves a request the pages are in the page cache, and its frames are free. What
//! a request costs beside that is [`CROSSING`] of processor time.
//!
//! Limits: files are read only, so nothing is told of changes; the memory of the frames is the owner's
//! to take off that of the [machine](super::Memory); requests reach the server in the order in which
//! they were made, and as many at a time as there are.

use super::Machine;
use super::names::FileNo;
use super::reading::Touched;
use foreseek_device::Op;
use foreseek_readahead::serving::{ServingEngine, Stats};
use foreseek_readahead::stream::Opened;
use foreseek_seam::{
    Command, Commands, Engine, Epoch, Event, FetchId, FetchOutcome, Into, ObjectId, RequestId,
    ServingCommand, ServingEvent, StreamId, Who,
};
use foreseek_units::{Bytes, Nanos, PageSpan, Pages, Span};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The longest FUSE request: 256 pages (`max_pages`).
const REQUEST: Pages = Bytes::mib(1).pages_floor();

/// What one request through FUSE costs in processor time, there and back: 41 to 67 us were measured on
/// today's machines for 128 KiB.
const CROSSING: Nanos = Nanos::from_micros(60);

/// The process as which the block layer sees the server: no other bears this number.
const SERVER: Who = Who(u32::MAX);

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
struct Request {
    file: FileNo,
    pages: PageSpan,
}

/// A fetch of the engine, in as many pieces as it has on the device.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    pieces: u32,
    pages: Pages,
    epoch: Epoch,
}

/// The server.
pub(super) struct Mount {
    engine: ServingEngine,
    out: Commands,
    queue: VecDeque<Command>,
    requests: slab::Slab<Request>,
    fetches: FxHashMap<FetchId, Fetch>,
    /// Which fetch a submission is a piece of.
    pieces: FxHashMap<usize, FetchId>,
}

impl Mount {
    pub(super) fn new(engine: ServingEngine) -> Self {
        Self {
            engine,
            out: Commands::new(),
            queue: VecDeque::new(),
            requests: slab::Slab::new(),
            fetches: FxHashMap::default(),
            pieces: FxHashMap::default(),
        }
    }

    pub(super) fn stats(&self) -> Stats {
        self.engine.stats()
    }
}

impl Machine {
    /// The same machine with its files behind a mount that this engine serves.
    #[must_use]
    pub fn behind(mut self, engine: ServingEngine) -> Self {
        self.mount = Some(Box::new(Mount::new(engine)));
        self
    }

    /// Tells the engine, and carries out what follows; nothing without a mount.
    fn tell(&mut self, event: Event<'_>) {
        let Some(mount) = &mut self.mount else { return };
        mount.engine.on(self.now, event, &mut mount.out);
        while let Some(mount) = &mut self.mount {
            mount.queue.extend(mount.out.drain());
            if mount.engine.deadline().is_none_or(|deadline| deadline > self.now) {
                break;
            }
            mount.engine.on(self.now, Event::Tick, &mut mount.out);
        }
    }

    pub(super) fn mount_opened(&mut self, opened: Opened) {
        let Some(file) = self.files.get(opened.object.0 as usize).filter(|_| self.mount.is_some()) else {
            return;
        };
        let Opened { stream, object, who, .. } = opened;
        let (length, extents) = (file.length, file.extents().to_vec());
        self.tell(Event::Opened { stream, object, length, who });
        self.tell(Event::Placed { object, extents: &extents });
        self.serve_mount();
    }

    pub(super) fn mount_closed(&mut self, stream: u32) {
        self.tell(Event::Closed { stream: StreamId(u64::from(stream)) });
        self.serve_mount();
    }

    pub(super) fn mount_ran(&mut self, who: Who) {
        self.tell(Event::Serving(ServingEvent::Ran { who }));
    }

    pub(super) fn mount_exited(&mut self, who: Who) {
        self.tell(Event::Serving(ServingEvent::Exited { who }));
        self.serve_mount();
    }

    /// The kernel asks the server for pages that it has put into its cache.
    pub(super) fn ask_mount(&mut self, touched: Touched, file: FileNo, pages: PageSpan, who: Who) {
        let mut start = pages.start;
        while start < pages.end {
            let part = Span::new(start, pages.end.min(start + REQUEST));
            start = part.end;
            self.bill += CROSSING;
            let Some(mount) = &mut self.mount else { return };
            let request = RequestId(mount.requests.insert(Request { file, pages: part }) as u64);
            let stream = StreamId(u64::from(touched.stream));
            let range = part.bytes();
            self.tell(Event::Read { request, stream, range, who: Some(who) });
        }
        self.serve_mount();
    }

    /// A submission is complete: the server's, perhaps.
    pub(super) fn mount_completed(&mut self, at: usize) {
        let Some(mount) = &mut self.mount else { return };
        let Some(id) = mount.pieces.remove(&at) else { return };
        let Some(fetch) = mount.fetches.get_mut(&id) else { return };
        fetch.pieces -= 1;
        if fetch.pieces > 0 {
            return;
        }
        let Fetch { pages, epoch, .. } = *fetch;
        mount.fetches.remove(&id);
        let in_flight = mount.fetches.len() as u32;
        let (fetch, got, outcome) = (id, pages, FetchOutcome::Arrived);
        self.tell(Event::Done { fetch, epoch, got, outcome, in_flight });
    }

    /// Carries out what the engine has said.
    pub(super) fn serve_mount(&mut self) {
        let mut asked = false;
        while let Some(command) = self.mount.as_mut().and_then(|mount| mount.queue.pop_front()) {
            match command {
                Command::Fetch { fetch, object, range, epoch, into: Into::Frames(_), apart, .. } => {
                    asked = true;
                    self.fetch_for_mount(fetch, object, range, epoch);
                    if apart {
                        self.block.unplug(self.now);
                    }
                }
                Command::Serving(ServingCommand::Serve { request, frames }) => {
                    self.served(request);
                    self.tell(Event::Serving(ServingEvent::Unpinned { frames: &frames }));
                }
                Command::Pass { request } => self.pass(request),
                // A device that fails ends the run; memory is not given back; and nothing else is said
                // through this door.
                _ => {}
            }
        }
        if asked {
            // The server submits what it has at once.
            self.block.unplug(self.now);
            self.look_at_block();
        }
    }

    fn fetch_for_mount(&mut self, fetch: FetchId, object: ObjectId, range: PageSpan, epoch: Epoch) {
        let file = FileNo(object.0 as u32);
        let mut pieces = 0;
        let mut start = range.start;
        while start < range.end
            && let Ok((_, piece)) = self.place(file, start)
        {
            let part = Span::new(start, range.end.min(start + piece));
            start = part.end;
            self.metrics.submitted(part.len());
            let at = self.hand_over(Op::Read, file, part, SERVER, true);
            if let (Some(at), Some(mount)) = (at, &mut self.mount) {
                mount.pieces.insert(at, fetch);
                pieces += 1;
            }
        }
        if let Some(mount) = &mut self.mount {
            mount.fetches.insert(fetch, Fetch { pieces, pages: range.len(), epoch });
        }
    }

    /// A request is answered: its pages are in the page cache.
    fn served(&mut self, request: RequestId) {
        let Some(Request { file, pages }) = self.taken(request) else { return };
        for page in pages.iter() {
            self.arrived(file, page);
        }
    }

    /// The server reads for a request what it does not keep.
    fn pass(&mut self, request: RequestId) {
        let Some(Request { file, pages }) = self.taken(request) else { return };
        self.submit(Op::Read, file, pages, SERVER, true);
    }

    fn taken(&mut self, request: RequestId) -> Option<Request> {
        self.mount.as_mut()?.requests.try_remove(request.0 as usize)
    }
}
