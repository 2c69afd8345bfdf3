//! The server of a disk's requests.
//!
//! The threads that take requests from the kernel also move the data, so that nothing is handed
//! over that need not be. With delays the request is first told to the timer, then its data are
//! moved while its time passes. Without delays it is answered at once by the same thread.

use crate::arena::{Arena, Buffer};
use crate::backing::Backing;
use crate::flight::{Answer, Flight};
use crate::logbook::Logbook;
use crate::meter::{Gauge, Kind, Meter};
use crate::options::LbaRange;
use crate::protocol::LoggedOp;
use crate::timer::{Tell, ToTimer, delayed, kind_of, now};
use foreseek_device::{Io, IoId, Op};
use foreseek_export::{DataReply, DoneReply, Failure, Request, Server};
use foreseek_units::{ByteOffset, ByteSpan, Instant};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// See the module's documentation.
pub(crate) struct Disk {
    backing: Backing,
    arena: Arc<Arena>,
    timer: ToTimer,
    delays: AtomicBool,
    failing: RwLock<Vec<LbaRange>>,
    any_failing: AtomicBool,
    meter: Mutex<Meter>,
    logbook: Arc<Logbook>,
    ids: AtomicU64,
    gauge: Arc<Gauge>,
}

/// A request as the disk keeps it: the data of a write are borrowed until it is moved.
enum Work<'a> {
    Read(DataReply),
    Write(&'a [u8], DoneReply),
    Flush(DoneReply),
}

impl Disk {
    pub(crate) fn new(
        backing: Backing,
        arena: Arc<Arena>,
        timer: ToTimer,
        logbook: Arc<Logbook>,
        gauge: Arc<Gauge>,
        delays: bool,
    ) -> Self {
        Self {
            backing,
            arena,
            timer,
            delays: AtomicBool::new(delays),
            failing: RwLock::new(Vec::new()),
            any_failing: AtomicBool::new(false),
            meter: Mutex::new(Meter::new()),
            logbook,
            ids: AtomicU64::new(0),
            gauge,
        }
    }

    pub(crate) fn backing(&self) -> &Backing {
        &self.backing
    }

    pub(crate) fn timer(&self) -> &ToTimer {
        &self.timer
    }

    pub(crate) fn logbook(&self) -> &Logbook {
        &self.logbook
    }

    pub(crate) fn delays(&self) -> bool {
        self.delays.load(Ordering::Relaxed)
    }

    /// Whether requests take the modelled time from now on.
    pub(crate) fn set_delays(&self, on: bool) {
        self.delays.store(on, Ordering::Relaxed);
        self.timer.tell(Tell::Delays(on));
    }

    /// The sectors whose requests fail from now on.
    pub(crate) fn set_failing(&self, ranges: Vec<LbaRange>) {
        self.any_failing.store(!ranges.is_empty(), Ordering::Release);
        *self.failing.write().unwrap_or_else(PoisonError::into_inner) = ranges;
    }

    /// How many requests are under way.
    pub(crate) fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    /// The counters of requests that the timer did not answer.
    pub(crate) fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fails(&self, range: ByteSpan) -> bool {
        self.any_failing.load(Ordering::Acquire) && {
            let failing = self.failing.read().unwrap_or_else(PoisonError::into_inner);
            let sectors = range.sectors();
            failing.iter().any(|bad| bad.span().overlaps(sectors))
        }
    }

    fn serve_modelled(&self, arrival: Instant, op: Op, range: ByteSpan, work: Work<'_>) {
        if !self.delays() {
            let answer = self.move_data(range, work);
            let result = answer.send(false);
            let (kind, logged) = kind_of(op);
            self.answered(kind, logged, range, arrival, result);
            return;
        }
        let id = IoId(self.ids.fetch_add(1, Ordering::Relaxed));
        let flight = Arc::new(Flight::new(Io { id, op, range: range.sectors() }, arrival));
        self.timer.tell(Tell::Arrived(Arc::clone(&flight)));
        let answer = self.move_data(range, work);
        if let Some((answer, due)) = flight.moved(answer) {
            let result = answer.send(due.failed);
            let sent = now();
            self.gauge.answered();
            let (kind, logged) = kind_of(op);
            let delayed = delayed(&due, sent);
            self.meter().answered(kind, range.len(), result, sent - arrival, Some(delayed));
            self.logbook.answered(logged, range, (arrival, sent), result);
        }
    }

    /// Brings the data where they belong; what is left is to answer.
    fn move_data(&self, range: ByteSpan, work: Work<'_>) -> Answer {
        let sound = if self.fails(range) { Err(Failure::Io) } else { Ok(()) };
        match work {
            Work::Read(reply) => Answer::Data(reply, sound.and_then(|()| self.read(range))),
            Work::Write(data, reply) => Answer::Done(reply, sound.and_then(|()| self.write(range, data))),
            Work::Flush(reply) => Answer::Done(reply, self.backing.flush()),
        }
    }

    fn read(&self, range: ByteSpan) -> Result<Buffer, Failure> {
        let mut buffer = self.buffer(range)?;
        self.backing.read(range, &mut buffer)?;
        Ok(buffer)
    }

    fn write(&self, range: ByteSpan, data: &[u8]) -> Result<(), Failure> {
        // Direct I/O needs aligned memory, which what the kernel handed over is not.
        let mut buffer = self.buffer(range)?;
        buffer.copy_from_slice(data);
        self.backing.write(range, &buffer)
    }

    fn buffer(&self, range: ByteSpan) -> Result<Buffer, Failure> {
        self.arena.take(range.len().get() as usize).ok_or(Failure::Io)
    }

    fn discard(&self, arrival: Instant, range: ByteSpan, reply: DoneReply) {
        let result = if self.fails(range) { Err(Failure::Io) } else { self.backing.discard(range) };
        reply.end(result);
        self.answered(Kind::Discard, LoggedOp::Discard, range, arrival, result);
    }

    fn answered(
        &self,
        kind: Kind,
        op: LoggedOp,
        range: ByteSpan,
        arrival: Instant,
        result: Result<(), Failure>,
    ) {
        let sent = now();
        self.gauge.answered();
        self.meter().answered(kind, range.len(), result, sent - arrival, None);
        self.logbook.answered(op, range, (arrival, sent), result);
    }
}

impl Server for Disk {
    fn serve(&self, request: Request<'_>) {
        let arrival = now();
        self.gauge.arrived();
        let nowhere = ByteSpan::new(ByteOffset::ZERO, ByteOffset::ZERO);
        match request {
            Request::Read { range, reply } => {
                self.serve_modelled(arrival, Op::Read, range, Work::Read(reply));
            }
            Request::Write { range, data, reply } => {
                self.serve_modelled(arrival, Op::Write, range, Work::Write(data, reply));
            }
            Request::Flush { reply } => {
                self.serve_modelled(arrival, Op::Flush, nowhere, Work::Flush(reply));
            }
            Request::Discard { range, reply } => self.discard(arrival, range, reply),
        }
    }
}
