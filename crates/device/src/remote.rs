//! A network volume or object store: latency, rate, parallel requests; no head.
//!
//! A request takes a latency drawn from a lognormal distribution, then its data pass over a link that all
//! requests share. The number of requests served at a time is limited; the others wait in order. If the
//! service caps operations per second, the starts of requests are at least that far apart. A volume may allow
//! more of either until credit for it is spent (see [`crate::credit`]). Nearness does not help on such a
//! device: only fewer, larger requests and more of them at a time do.
//!
//! Limits: one latency distribution for reads and writes, no cache. The latencies use `ln` and `exp` of the
//! platform, so that another platform may differ in the last nanosecond.

use crate::credit::Credit;
use crate::io::{Counters, Finished, Io, Op, Outcome};
use crate::machine::{Clock, Machine};
use crate::random::{mix, normal};
use foreseek_units::{Instant, Lba, Nanos, Rate, SectorSpan, Sectors};
use std::collections::VecDeque;

/// A latency distribution: lognormal, by its median and its 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Latency {
    /// Nanoseconds.
    median: f64,
    /// Standard deviation of the logarithm.
    sigma: f64,
}

/// The 99 % quantile of the standard normal distribution.
const NORMAL_99: f64 = 2.326_347_874_040_841;

impl Latency {
    /// `p99` must not be below `median`.
    pub(crate) fn new(median: Nanos, p99: Nanos) -> Self {
        let (median, p99) = (median.get() as f64, p99.get() as f64);
        Self { median, sigma: (p99 / median).ln() / NORMAL_99 }
    }

    /// The latency for 64 random bits.
    fn draw(&self, bits: u64) -> Nanos {
        Nanos((self.median * (self.sigma * normal(bits)).exp()) as u64)
    }

    /// The mean over all draws.
    pub(crate) fn mean(&self) -> Nanos {
        Nanos((self.median * (self.sigma * self.sigma / 2.0).exp()) as u64)
    }
}

/// The parts of a remote volume.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) latency: Latency,
    pub(crate) link: Rate,
    /// A faster link, while there is credit.
    pub(crate) link_burst: Option<Burst<Rate>>,
    /// The least time between the starts of two requests; zero without a cap on operations.
    pub(crate) spacing: Nanos,
    /// A shorter one, while there is credit.
    pub(crate) spacing_burst: Option<Burst<Nanos>>,
    pub(crate) parallel: usize,
    pub(crate) depth: usize,
    pub(crate) capacity: Sectors,
    pub(crate) seed: u64,
    /// Sorted and disjoint.
    pub(crate) unreadable: Vec<SectorSpan>,
}

/// The allowance of a volume while there is credit for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Burst<T> {
    pub(crate) allows: T,
    /// The time that the whole credit saves compared with the base.
    pub(crate) credit: Nanos,
}

/// A network volume.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    parts: Parts,
    clock: Clock,
    drawn: u64,
    /// Requests that have not started, with their arrival.
    waiting: VecDeque<(Instant, Io)>,
    /// Requests being served, with the end of their latency.
    working: Vec<(Instant, u64, Io)>,
    /// Requests whose data are on the link, in the order in which they leave it.
    leaving: VecDeque<(Instant, Io, Outcome)>,
    may_start: Instant,
    start_credit: Credit,
    link_free: Instant,
    link_credit: Credit,
    busy_since: Instant,
    counters: Counters,
}

impl Remote {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            clock: Clock::default(),
            drawn: 0,
            waiting: VecDeque::with_capacity(parts.depth),
            working: Vec::with_capacity(parts.parallel),
            leaving: VecDeque::with_capacity(parts.depth),
            may_start: Instant::ZERO,
            start_credit: Credit::new(parts.spacing_burst.map_or(Nanos::ZERO, |burst| burst.credit)),
            link_free: Instant::ZERO,
            link_credit: Credit::new(parts.link_burst.map_or(Nanos::ZERO, |burst| burst.credit)),
            busy_since: Instant::ZERO,
            counters: Counters::default(),
            parts,
        }
    }

    fn held(&self) -> usize {
        self.waiting.len() + self.working.len() + self.leaving.len()
    }

    /// Requests that occupy the service, including those on the link.
    fn occupied(&self) -> usize {
        self.working.len() + self.leaving.len()
    }

    /// When the first waiting request may start, unless a completion must come first: one of the parallel
    /// requests, or for a flush the writes before it.
    fn next_start(&self) -> Option<Instant> {
        let (arrived, io) = self.waiting.front()?;
        let writes = || {
            let leaving = self.leaving.iter().map(|(_, io, _)| io.op);
            self.working.iter().map(|(_, _, io)| io.op).chain(leaving).any(|op| op == Op::Write)
        };
        let blocked = self.occupied() >= self.parts.parallel || (io.op == Op::Flush && writes());
        (!blocked).then_some(self.may_start.max(*arrived).max(self.clock.now()))
    }

    fn start_waiting(&mut self, now: Instant) {
        while self.next_start().is_some_and(|at| at <= now) {
            let Some((_, io)) = self.waiting.pop_front() else { return };
            let spacing = self.parts.spacing;
            let quick = self.parts.spacing_burst.map_or(spacing, |burst| burst.allows);
            self.may_start = now + self.start_credit.spend(now, quick, spacing);
            self.drawn += 1;
            let latency = self.parts.latency.draw(mix(self.parts.seed, self.drawn));
            self.working.push((now + latency, self.drawn, io));
        }
    }

    /// The latency of a request is over: its data pass over the link.
    fn answer(&mut self, now: Instant) {
        loop {
            let due = self.working.iter().enumerate().filter(|(_, (at, ..))| *at <= now);
            let Some((index, _)) = due.min_by_key(|(_, (at, order, _))| (*at, *order)) else { return };
            let (at, _, io) = self.working.swap_remove(index);
            let outcome = self.outcome(io);
            let bytes = io.range.len().bytes();
            if outcome == Outcome::Done && io.op != Op::Flush {
                let start = self.link_free.max(at);
                let slow = self.parts.link.time_for(bytes);
                let quick = self.parts.link_burst.map_or(slow, |burst| burst.allows.time_for(bytes));
                self.link_free = start + self.link_credit.spend(start, quick, slow);
            }
            // A reply does not overtake data on the link.
            self.link_free = self.link_free.max(at);
            self.leaving.push_back((self.link_free, io, outcome));
        }
    }

    fn outcome(&self, io: Io) -> Outcome {
        let next = self.parts.unreadable.partition_point(|span| span.end <= io.range.start);
        let bad = self.parts.unreadable.get(next).is_some_and(|span| span.overlaps(io.range));
        let beyond = !io.range.is_empty() && io.range.end > Lba(self.parts.capacity.get());
        match io.op {
            Op::Read if bad => Outcome::Failed,
            Op::Read | Op::Write if beyond => Outcome::Failed,
            _ => Outcome::Done,
        }
    }

    fn complete(&mut self, now: Instant, done: &mut Vec<Finished>) {
        while let Some((at, io, outcome)) = self.leaving.front().copied().filter(|(at, ..)| *at <= now) {
            self.leaving.pop_front();
            self.counters.count(io, outcome);
            done.push(Finished { id: io.id, at, outcome });
            if self.occupied() == 0 && self.waiting.is_empty() {
                self.counters.busy += at - self.busy_since;
            }
        }
    }
}

impl Machine for Remote {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn clock_mut(&mut self) -> &mut Clock {
        &mut self.clock
    }

    fn step(&mut self, now: Instant, done: &mut Vec<Finished>) -> Option<Instant> {
        self.answer(now);
        self.complete(now, done);
        self.start_waiting(now);
        let working = self.working.iter().map(|(at, ..)| *at);
        let leaving = self.leaving.front().map(|(at, ..)| *at);
        working.chain(leaving).chain(self.next_start()).min()
    }

    fn is_full(&self) -> bool {
        self.held() >= self.parts.depth
    }

    fn arrive(&mut self, now: Instant, io: Io) {
        if self.held() == 0 {
            self.busy_since = now;
        }
        self.waiting.push_back((now, io));
        if let Some(start) = self.next_start() {
            self.clock.wake(start);
        }
    }

    fn sectors(&self) -> Sectors {
        self.parts.capacity
    }

    fn counted(&self) -> Counters {
        let mut counters = self.counters;
        if self.held() > 0 {
            counters.busy += self.clock.now() - self.busy_since;
        }
        counters
    }
}
