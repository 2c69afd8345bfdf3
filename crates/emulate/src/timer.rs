//! The one thread that decides when a disk's delayed requests are answered.
//!
//! It owns the [`Schedule`] and answers each request at its time: it sleeps until shortly before
//! (woken by whatever arrives), then spins the rest away, within a budget ([`SpinBudget`]). It
//! runs with real-time priority where it may. Data are moved by other threads meanwhile; a request
//! whose data come later than its time is answered by the thread that moved them.

use crate::clock::ModelClock;
use crate::flight::Flight;
use crate::logbook::Logbook;
use crate::meter::{Delayed, Gauge, Kind, Meter};
use crate::path::PathModel;
use crate::protocol::LoggedOp;
use crate::schedule::{Due, REQUESTS, Schedule};
use crate::spin::{Margin, SpinBudget};
use foreseek_device::{Counters, IoId, Op};
use foreseek_units::{Instant, Nanos};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};

/// What the timer is told.
pub(crate) enum TimerMessage {
    /// A request arrived.
    Arrived(Arc<Flight>),
    /// Requests shall take the modelled time, or not.
    Delays(bool),
    /// Modelled time runs by another factor.
    Scale(f64),
    /// Serve by this schedule from now on; who waits is answered at once.
    Schedule(Box<Schedule>),
    /// The path costs this.
    Path(PathModel),
    /// Say what was counted, and start anew if asked to.
    Report { to: SyncSender<Report>, reset: bool },
}

/// What the timer has counted.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) meter: Meter,
    pub(crate) counters: Counters,
    pub(crate) path: PathModel,
    pub(crate) clock: ModelClock,
    pub(crate) spun: Nanos,
    pub(crate) spins_refused: u64,
}

/// The other end of the timer: it ends when this is dropped.
#[derive(Clone)]
pub(crate) struct ToTimer(SyncSender<TimerMessage>);

impl ToTimer {
    /// Tells the timer; waits where it has not kept up with [`REQUESTS`] messages.
    pub(crate) fn notify(&self, what: TimerMessage) -> bool {
        self.0.send(what).is_ok()
    }

    /// What it has counted; `None` where it has ended.
    pub(crate) fn report(&self, reset: bool) -> Option<Report> {
        let (to, from) = sync_channel(1);
        self.notify(TimerMessage::Report { to, reset });
        from.recv().ok()
    }
}

/// See the module's documentation.
pub(crate) struct Timer {
    inbox: Receiver<TimerMessage>,
    schedule: Box<Schedule>,
    delays: bool,
    flights: HashMap<IoId, Arc<Flight>>,
    due: Vec<Due>,
    meter: Meter,
    logbook: Arc<Logbook>,
    gauge: Arc<Gauge>,
    budget: SpinBudget,
    margin: Margin,
    spins_refused: u64,
    /// What was counted when it was last reset.
    since: (Counters, Nanos),
}

/// What ended a wait.
enum Woken {
    Received(TimerMessage),
    Time,
    Ended,
}

impl Timer {
    /// A timer and its other end.
    pub(crate) fn new(
        schedule: Schedule,
        delays: bool,
        logbook: Arc<Logbook>,
        gauge: Arc<Gauge>,
    ) -> (Self, ToTimer) {
        let (to, inbox) = sync_channel(REQUESTS);
        let since = (schedule.counters(), Nanos::ZERO);
        let timer = Self {
            inbox,
            schedule: Box::new(schedule),
            delays,
            flights: HashMap::with_capacity(REQUESTS),
            due: Vec::with_capacity(REQUESTS),
            meter: Meter::new(),
            logbook,
            gauge,
            budget: SpinBudget::default(),
            margin: Margin::new(),
            spins_refused: 0,
            since,
        };
        (timer, ToTimer(to))
    }

    /// Serves until its other end is gone.
    pub(crate) fn run(mut self) {
        loop {
            self.answer_due();
            match self.wait(self.schedule.next()) {
                Woken::Received(what) => self.received(what),
                Woken::Time => {}
                Woken::Ended => return,
            }
        }
    }

    fn answer_due(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        self.schedule.act(now(), &mut due);
        for due in due.drain(..) {
            self.answer(due);
        }
        self.due = due;
    }

    /// Answers a request, or leaves that to the thread that still moves its data.
    fn answer(&mut self, due: Due) {
        let Some(flight) = self.flights.remove(&due.id) else { return };
        let Some(answer) = flight.due(due) else { return };
        // What sending takes is part of the path.
        let leaves = now();
        let (kind, op) = kind_of(flight.io.op);
        let outcome = answer.outcome(due.failed);
        self.logbook.answers(op, flight.io.range.bytes(), (flight.arrival, leaves), outcome);
        let result = answer.send(due.failed);
        let bytes = flight.io.range.len().bytes();
        self.meter.answered(kind, bytes, result, leaves - flight.arrival, Some(delayed(&due, leaves)));
        self.gauge.answered();
    }

    fn received(&mut self, what: TimerMessage) {
        match what {
            TimerMessage::Arrived(flight) => {
                self.flights.insert(flight.io.id, Arc::clone(&flight));
                self.schedule.arrive(flight.arrival, flight.io);
                if !self.delays {
                    // It was under way when delays were switched off.
                    self.release();
                }
            }
            TimerMessage::Delays(on) => {
                self.delays = on;
                if !on {
                    self.release();
                }
            }
            TimerMessage::Scale(scale) => self.schedule.set_scale(now(), scale),
            TimerMessage::Path(path) => self.schedule.set_path(path),
            TimerMessage::Schedule(schedule) => {
                self.release();
                self.since = (schedule.counters(), self.budget.total());
                self.meter = Meter::new();
                self.schedule = schedule;
            }
            TimerMessage::Report { to, reset } => {
                let report = self.report();
                if reset {
                    self.meter = Meter::new();
                    self.since = (self.schedule.counters(), self.budget.total());
                    self.spins_refused = 0;
                }
                // Who asked may have gone.
                let _ = to.try_send(report);
            }
        }
    }

    fn release(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        self.schedule.release(now(), &mut due);
        for due in due.drain(..) {
            self.answer(due);
        }
        self.due = due;
    }

    fn report(&self) -> Report {
        Report {
            meter: self.meter.clone(),
            counters: difference(self.schedule.counters(), self.since.0),
            path: self.schedule.path(),
            clock: *self.schedule.clock(),
            spun: self.budget.total() - self.since.1,
            spins_refused: self.spins_refused,
        }
    }

    /// Waits for a message, or until `time`.
    fn wait(&mut self, time: Option<Instant>) -> Woken {
        let Some(time) = time else {
            return self.inbox.recv().map_or(Woken::Ended, Woken::Received);
        };
        let start = now();
        let margin = if self.budget.left(start) >= self.margin.get() {
            self.margin.get()
        } else {
            self.spins_refused += u64::from(start < time);
            Nanos::ZERO
        };
        let asleep = time - margin - start;
        if !asleep.is_zero() {
            match self.inbox.recv_timeout(asleep.into()) {
                Ok(what) => return Woken::Received(what),
                Err(RecvTimeoutError::Disconnected) => return Woken::Ended,
                Err(RecvTimeoutError::Timeout) => self.margin.woke_late_by(now() - (time - margin)),
            }
        }
        self.spin(time)
    }

    fn spin(&mut self, time: Instant) -> Woken {
        let start = now();
        let (woken, end) = loop {
            let now = now();
            if now >= time {
                break (Woken::Time, now);
            }
            match self.inbox.try_recv() {
                Ok(what) => break (Woken::Received(what), now),
                Err(TryRecvError::Disconnected) => break (Woken::Ended, now),
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
            }
        };
        self.budget.spent(end, end - start);
        woken
    }
}

/// Now, by the clock that sleeping goes by.
pub(crate) fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

/// What the model calls it, as counters and log do.
pub(crate) fn kind_of(op: Op) -> (Kind, LoggedOp) {
    match op {
        Op::Read => (Kind::Read, LoggedOp::Read),
        Op::Write => (Kind::Write, LoggedOp::Write),
        Op::Flush => (Kind::Flush, LoggedOp::Flush),
    }
}

/// The times of a request that was due and whose answer left at `left`.
pub(crate) fn delayed(due: &Due, left: Instant) -> Delayed {
    Delayed { late: left - due.at, modelled: due.modelled, path: due.path }
}

fn difference(now: Counters, before: Counters) -> Counters {
    Counters {
        requests: now.requests - before.requests,
        failed: now.failed - before.failed,
        read: now.read - before.read,
        written: now.written - before.written,
        seeks: now.seeks - before.seeks,
        seek_distance: now.seek_distance - before.seek_distance,
        buffer_hits: now.buffer_hits - before.buffer_hits,
        busy: now.busy - before.busy,
        seek_time: now.seek_time - before.seek_time,
        rotation_time: now.rotation_time - before.rotation_time,
        transfer_time: now.transfer_time - before.transfer_time,
    }
}
