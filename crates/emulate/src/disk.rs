//! Serves the requests of a disk.
//!
//! The threads that receive requests also move the data, so that no hand-over is needed. With delays, a
//! thread first passes the request to the timer and moves the data while the modelled time passes. Without
//! delays, the same thread answers at once.

use crate::backing::BackingFile;
use crate::flight::{Flight, PreparedReply};
use crate::logbook::Logbook;
use crate::meter::{Gauge, Kind, Meter};
use crate::options::LbaRange;
use crate::protocol::LoggedOp;
use crate::timer::{TimerMessage, ToTimer, delayed, kind_of, now};
use crate::volatile::VolatileCache;
use foreseek_device::{Io, IoId, Op};
use foreseek_export::{DataReply, DoneReply, Failure, Request, Server};
use foreseek_storage::{Arena, Buffer};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// See the module's documentation.
pub(crate) struct Disk {
    backing: BackingFile,
    cache: VolatileCache,
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

/// A request that is being served: the data of a write are borrowed until they are moved.
enum Work<'a> {
    Read(DataReply),
    Write(&'a [u8], DoneReply),
    Flush(DoneReply),
}

impl Disk {
    pub(crate) fn new(
        backing: BackingFile,
        volatile: Bytes,
        arena: Arc<Arena>,
        timer: ToTimer,
        logbook: Arc<Logbook>,
        gauge: Arc<Gauge>,
        delays: bool,
    ) -> Self {
        Self {
            backing,
            cache: VolatileCache::new(volatile, Arc::clone(&arena)),
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

    pub(crate) fn backing(&self) -> &BackingFile {
        &self.backing
    }

    /// Switches the power on or off; what its volatile cache holds is lost with the power.
    pub(crate) fn set_power(&self, on: bool) -> Result<(), Failure> {
        self.cache.set_power(&self.backing, on)
    }

    pub(crate) fn is_off(&self) -> bool {
        self.cache.is_off()
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

    /// Sets whether requests take the modelled time.
    pub(crate) fn set_delays(&self, on: bool) {
        self.delays.store(on, Ordering::Relaxed);
        self.timer.notify(TimerMessage::Delays(on));
    }

    /// The sectors whose requests fail.
    pub(crate) fn failing(&self) -> Vec<LbaRange> {
        self.failing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets these sectors.
    pub(crate) fn set_failing(&self, ranges: Vec<LbaRange>) {
        self.any_failing.store(!ranges.is_empty(), Ordering::Release);
        *self.failing.write().unwrap_or_else(PoisonError::into_inner) = ranges;
    }

    /// The count of requests in flight.
    pub(crate) fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    /// The counters of the requests that the timer does not answer.
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
            let (kind, logged) = kind_of(op);
            self.logbook.answers(logged, range, (arrival, now()), answer.outcome(false));
            let result = answer.send(false);
            self.answered(kind, range, arrival, result);
            return;
        }
        let id = IoId(self.ids.fetch_add(1, Ordering::Relaxed));
        let flight = Arc::new(Flight::new(Io { id, op, range: range.sectors() }, arrival));
        self.timer.notify(TimerMessage::Arrived(Arc::clone(&flight)));
        let answer = self.move_data(range, work);
        if let Some((answer, due)) = flight.moved(answer) {
            let leaves = now();
            let (kind, logged) = kind_of(op);
            self.logbook.answers(logged, range, (arrival, leaves), answer.outcome(due.failed));
            let result = answer.send(due.failed);
            let delayed = delayed(&due, leaves);
            self.meter().answered(kind, range.len(), result, leaves - arrival, Some(delayed));
            self.gauge.answered();
        }
    }

    /// Moves the data; the request is then ready to be answered.
    fn move_data(&self, range: ByteSpan, work: Work<'_>) -> PreparedReply {
        let media = if self.fails(range) { Err(Failure::Io) } else { Ok(()) };
        match work {
            Work::Read(reply) => PreparedReply::Data(reply, media.and_then(|()| self.read(range))),
            Work::Write(data, reply) => {
                PreparedReply::Done(reply, media.and_then(|()| self.write(range, data)))
            }
            Work::Flush(reply) => PreparedReply::Done(reply, self.cache.flush(&self.backing)),
        }
    }

    fn read(&self, range: ByteSpan) -> Result<Buffer, Failure> {
        self.cache.check()?;
        let mut buffer = self.buffer(range)?;
        self.backing.read(range, &mut buffer)?;
        Ok(buffer)
    }

    fn write(&self, range: ByteSpan, data: &[u8]) -> Result<(), Failure> {
        self.cache.change(&self.backing, range, || {
            // Direct I/O needs aligned memory, and the kernel's buffer is not aligned.
            let mut buffer = self.buffer(range)?;
            buffer.copy_from_slice(data);
            self.backing.write(range, &buffer)
        })
    }

    fn buffer(&self, range: ByteSpan) -> Result<Buffer, Failure> {
        self.arena.take(range.len().get() as usize).ok_or(Failure::Io)
    }

    fn discard(&self, arrival: Instant, range: ByteSpan, reply: DoneReply) {
        let make = || self.cache.change(&self.backing, range, || self.backing.discard(range));
        let result = if self.fails(range) { Err(Failure::Io) } else { make() };
        self.logbook.answers(LoggedOp::Discard, range, (arrival, now()), result);
        reply.end(result);
        self.answered(Kind::Discard, range, arrival, result);
    }

    fn answered(&self, kind: Kind, range: ByteSpan, arrival: Instant, result: Result<(), Failure>) {
        self.meter().answered(kind, range.len(), result, now() - arrival, None);
        self.gauge.answered();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::fixed_schedule;
    use crate::timer::{Report, Timer};
    use crate::{AttachOptions, Backing};
    use foreseek_units::Nanos;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    /// Longest wait for an answer: a missing answer is a failure, not a hang.
    const LIMIT: Duration = Duration::from_secs(20);
    const SIZE: Bytes = Bytes::mib(4);

    struct Fixture {
        disk: Arc<Disk>,
        _directory: tempfile::TempDir,
    }

    /// A disk over a real file without FUSE; each request takes `delay`.
    fn fixture(delay: Nanos) -> Fixture {
        let directory = tempfile::tempdir().expect("a directory");
        let options = AttachOptions {
            backing: Backing::File(directory.path().join("disk")),
            ..AttachOptions::new("none", SIZE)
        };
        let backing = BackingFile::open(&options, "t").expect("opens");
        let (logbook, gauge) = (Arc::<Logbook>::default(), Arc::<Gauge>::default());
        let (timer, to) = Timer::new(fixed_schedule(delay), true, Arc::clone(&logbook), Arc::clone(&gauge));
        std::thread::spawn(move || timer.run());
        let arena = Arena::new(Bytes::mib(2)).expect("memory");
        Fixture {
            disk: Arc::new(Disk::new(backing, Bytes::ZERO, arena, to, logbook, gauge, true)),
            _directory: directory,
        }
    }

    impl Fixture {
        fn read(&self, at: u64, length: u64) -> Receiver<Result<Vec<u8>, Failure>> {
            let (to, from) = channel();
            let reply = DataReply::call(move |answer| {
                let _ = to.send(answer.map(<[u8]>::to_vec));
            });
            let range = ByteSpan::at(ByteOffset(at), Bytes(length));
            self.disk.serve(Request::Read { range, reply });
            from
        }

        fn write(&self, at: u64, data: &[u8]) -> Receiver<Result<(), Failure>> {
            let (to, from) = channel();
            let reply = DoneReply::call(move |answer| {
                let _ = to.send(answer);
            });
            let range = ByteSpan::at(ByteOffset(at), Bytes(data.len() as u64));
            self.disk.serve(Request::Write { range, data, reply });
            from
        }

        /// Waits until every received answer is counted: an answer is sent first.
        fn wait_until_counted(&self) {
            let until = std::time::Instant::now() + LIMIT;
            while self.disk.gauge().read(false).0 > 0 {
                assert!(std::time::Instant::now() < until, "answers were not counted");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }

        fn report(&self) -> Report {
            self.wait_until_counted();
            self.disk.timer().report(false).expect("the timer runs")
        }
    }

    #[test]
    fn what_was_written_is_read_with_and_without_delays() {
        let fixture = fixture(Nanos::from_millis(1));
        for (delays, byte) in [(true, 3), (false, 5), (true, 7)] {
            fixture.disk.set_delays(delays);
            fixture.write(8192, &[byte; 8192]).recv_timeout(LIMIT).expect("an answer").expect("written");
            let data = fixture.read(4096, 12288).recv_timeout(LIMIT).expect("an answer").expect("read");
            assert!(data[..4096].iter().all(|zero| *zero == 0));
            assert!(data[4096..].iter().all(|read| *read == byte));
        }
        let (mut meter, mut stats) = (fixture.report().meter, crate::Stats::default());
        meter.add(&fixture.disk.meter());
        meter.report(Nanos::from_secs(1), &mut stats);
        assert_eq!((stats.reads, stats.writes, stats.failed), (3, 3, 0));
        assert_eq!((stats.read_bytes, stats.written_bytes), (3 * 12288, 3 * 8192));
    }

    #[test]
    fn switching_delays_off_answers_waiting_requests() {
        let fixture = fixture(Nanos::from_secs(3600));
        let waiting: Vec<_> = (0..40).map(|page| fixture.read(page * 4096, 4096)).collect();
        assert_eq!(fixture.disk.gauge().read(false), (40, 40));
        fixture.disk.set_delays(false);
        for answer in waiting {
            answer.recv_timeout(LIMIT).expect("an answer").expect("read");
        }
        fixture.wait_until_counted();
        assert_eq!(fixture.disk.gauge().read(true), (0, 40));
    }

    #[test]
    fn a_failing_sector_fails_every_request_that_touches_it_and_keeps_what_it_held() {
        let fixture = fixture(Nanos::ZERO);
        fixture.write(4096, &[9; 4096]).recv_timeout(LIMIT).expect("an answer").expect("written");
        fixture.disk.set_failing(vec![LbaRange { start_lba: 9, end_lba: 10 }]);
        for delays in [true, false] {
            fixture.disk.set_delays(delays);
            let failed = fixture.read(0, 16384).recv_timeout(LIMIT).expect("an answer");
            assert_eq!(failed, Err(Failure::Io));
            let failed = fixture.write(4096, &[1; 4096]).recv_timeout(LIMIT).expect("an answer");
            assert_eq!(failed, Err(Failure::Io));
            fixture.read(4096 + 1024, 3072).recv_timeout(LIMIT).expect("an answer").expect("beside it");
        }
        fixture.disk.set_failing(Vec::new());
        let data = fixture.read(4096, 4096).recv_timeout(LIMIT).expect("an answer").expect("read");
        assert!(data.iter().all(|byte| *byte == 9));
    }

    #[test]
    fn more_data_than_there_is_memory_for_waits_and_gets_through() {
        let fixture = fixture(Nanos::from_millis(2));
        let readers: Vec<_> = (0..8)
            .map(|_| {
                let disk = Arc::clone(&fixture.disk);
                std::thread::spawn(move || {
                    let (to, from) = channel();
                    let reply = DataReply::call(move |answer| {
                        let _ = to.send(answer.map(<[u8]>::len));
                    });
                    let range = ByteSpan::at(ByteOffset(0), Bytes::mib(1));
                    disk.serve(Request::Read { range, reply });
                    from.recv_timeout(LIMIT)
                })
            })
            .collect();
        for reader in readers {
            assert_eq!(reader.join().expect("no panic"), Ok(Ok(1 << 20)));
        }
    }

    #[test]
    fn a_discard_reads_as_zero_and_is_counted() {
        let fixture = fixture(Nanos::ZERO);
        fixture.write(0, &[9; 8192]).recv_timeout(LIMIT).expect("an answer").expect("written");
        let (to, from) = channel();
        let reply = DoneReply::call(move |answer| {
            let _ = to.send(answer);
        });
        fixture.disk.serve(Request::Discard { range: ByteSpan::at(ByteOffset(0), Bytes(4096)), reply });
        if from.recv_timeout(LIMIT).expect("an answer") == Err(Failure::Unsupported) {
            return;
        }
        let data = fixture.read(0, 8192).recv_timeout(LIMIT).expect("an answer").expect("read");
        assert!(data[..4096].iter().all(|byte| *byte == 0) && data[4096..].iter().all(|byte| *byte == 9));
    }
}
