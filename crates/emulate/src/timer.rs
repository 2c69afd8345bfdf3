//! The single thread that decides when a disk's delayed requests are answered.
//!
//! It has the [`Schedule`] and answers each request at its due time: it sleeps until shortly before (any
//! message wakes it), then spins, within a budget ([`SpinBudget`]). It runs with real-time priority where
//! that is allowed. Other threads move the data meanwhile; if a request's data arrive after its due time, the
//! thread that moved them answers it.

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

/// A message to the timer.
pub(crate) enum TimerMessage {
    /// A request arrived.
    Arrived(Arc<Flight>),
    /// Whether requests take the modelled time.
    Delays(bool),
    /// A new factor on modelled time.
    Scale(f64),
    /// A new schedule; waiting requests are answered at once.
    Schedule(Box<Schedule>),
    /// A new cost of the path.
    Path(PathModel),
    /// Send the counters, and reset them if `reset` is set.
    Report { to: SyncSender<Report>, reset: bool },
}

/// The timer's counters.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) meter: Meter,
    pub(crate) counters: Counters,
    pub(crate) path: PathModel,
    pub(crate) clock: ModelClock,
    pub(crate) spun: Nanos,
    pub(crate) spins_refused: u64,
}

/// A sender to the timer, which ends when the last one is dropped.
#[derive(Clone)]
pub(crate) struct ToTimer(SyncSender<TimerMessage>);

impl ToTimer {
    /// Sends a message; waits while [`REQUESTS`] messages are queued.
    pub(crate) fn notify(&self, what: TimerMessage) -> bool {
        self.0.send(what).is_ok()
    }

    /// The timer's counters; `None` where it has ended.
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
    /// The device's counters and the time spent spinning at the last reset.
    since: (Counters, Nanos),
}

/// Why a wait ended.
enum Woken {
    Received(TimerMessage),
    Time,
    Ended,
}

impl Timer {
    /// A timer and a sender to it.
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

    /// The main loop; it ends when all senders are dropped.
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

    /// Answers a request, or leaves that to the thread that is still moving its data.
    fn answer(&mut self, due: Due) {
        let Some(flight) = self.flights.remove(&due.id) else { return };
        let Some(answer) = flight.due(due) else { return };
        // The time for sending is part of the path.
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
                    // It was in flight when delays were switched off.
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
                // The requester may have gone.
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

/// The present time, by the clock that sleeping uses.
pub(crate) fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

/// The kind of the model's operation, for counters and log.
pub(crate) fn kind_of(op: Op) -> (Kind, LoggedOp) {
    match op {
        Op::Read => (Kind::Read, LoggedOp::Read),
        Op::Write => (Kind::Write, LoggedOp::Write),
        Op::Flush => (Kind::Flush, LoggedOp::Flush),
    }
}

/// The times of a request that was due and whose answer was sent at `left`.
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
