//! A trace to a device, through the block layer.

use super::addresses::Addresses;
use super::chains::Window;
use crate::block::{self, BlockLayer, Completed, Submission, Tag};
use crate::trace::{Record, Summary, TraceError, When};
use foreseek_device::{Counters, Op, Outcome as IoOutcome};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Nanos, SectorSpan};
use hdrhistogram::Histogram;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Requests of an open loop that may wait for the device's queue: with more the device cannot keep up, and
/// response times grow with the length of the trace.
pub const WAITING_LIMIT: usize = 1 << 20;

/// Requests between two calls of `progress`: some milliseconds of the real machine.
const PROGRESS: u64 = 1 << 12;

/// Significant digits of response times.
const DIGITS: u8 = 3;

/// When requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// At their recorded times.
    Open,
    /// After the process's request before, and its think time.
    Closed,
}

/// A summary of response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Their number.
    pub count: u64,
    /// Their mean.
    pub mean: Nanos,
    /// The median (to three digits, as the next two).
    pub median: Nanos,
    /// The 90th percentile.
    pub p90: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
    /// The longest.
    pub longest: Nanos,
}

/// The outcome of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// From the first request to the end of the last one.
    pub time: Nanos,
    /// From the start of a request to its completion.
    pub responses: Times,
    /// The same as recorded in the trace, if it is.
    pub recorded: Option<Times>,
    /// The metrics of the block layer.
    pub block: block::Metrics,
    /// The counters of the device.
    pub device: Counters,
}

/// Replays a trace through a block layer. `progress` is called now and then with the number of completed
/// requests.
///
/// # Errors
/// The trace is malformed or has no times for an open loop, or the device fails a request or cannot keep up.
pub fn through_block(
    trace: impl Iterator<Item = Result<Record, TraceError>>,
    summary: &Summary,
    addresses: &Addresses,
    block: BlockLayer,
    mode: Loop,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, TraceError> {
    let Some((origin, _)) = summary.times.or((mode == Loop::Closed).then_some(Default::default())) else {
        return Err(TraceError::NoTimes { file: summary.file.clone() });
    };
    let source = match mode {
        Loop::Open => Source::Open { trace, origin, next: None },
        Loop::Closed => Source::Closed { window: Window::new(trace), due: BinaryHeap::new() },
    };
    let mut replay = Replay {
        file: &summary.file,
        addresses,
        block,
        source,
        now: Instant::ZERO,
        flying: Slab::new(),
        waiting: VecDeque::new(),
        done: Vec::new(),
        responses: Tally::new(),
        recorded: Tally::new(),
    };
    replay.run(progress)?;
    Ok(replay.outcome())
}

/// Response times while they are counted.
struct Tally {
    histogram: Histogram<u64>,
    sum: u128,
    longest: Nanos,
}

impl Tally {
    fn new() -> Self {
        // Auto-resizing histograms of up to five digits are always made.
        let histogram =
            Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("{DIGITS} digits are allowed"));
        Self { histogram, sum: 0, longest: Nanos::ZERO }
    }

    fn add(&mut self, time: Nanos) {
        self.sum += u128::from(time.get());
        self.longest = self.longest.max(time);
        // It grows as needed: only a range that was fixed beforehand could refuse a value.
        let recorded = self.histogram.record(time.get());
        debug_assert!(recorded.is_ok(), "{time} does not fit into the histogram");
    }

    fn times(&self) -> Times {
        let count = self.histogram.len();
        let at = |share| Nanos(self.histogram.value_at_quantile(share));
        Times {
            count,
            mean: Nanos(self.sum.checked_div(u128::from(count)).unwrap_or(0) as u64),
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            longest: self.longest,
        }
    }
}

/// A request, made or to be made.
#[derive(Clone, Copy, Debug)]
struct MadeRequest {
    at: Instant,
    op: Op,
    range: SectorSpan,
    pid: ProcessId,
}

/// The source of the next request.
enum Source<T> {
    Open { trace: T, origin: Instant, next: Option<Record> },
    Closed { window: Window<T>, due: BinaryHeap<Reverse<(Instant, u32)>> },
}

struct Replay<'a, T> {
    file: &'a str,
    addresses: &'a Addresses,
    block: BlockLayer,
    source: Source<T>,
    now: Instant,
    flying: Slab<MadeRequest>,
    /// Made, and not yet taken by the block layer.
    waiting: VecDeque<MadeRequest>,
    done: Vec<Completed>,
    responses: Tally,
    recorded: Tally,
}

impl<T: Iterator<Item = Result<Record, TraceError>>> Replay<'_, T> {
    fn run(&mut self, progress: &mut dyn FnMut(u64)) -> Result<(), TraceError> {
        let mut announced = 0;
        loop {
            let arrival = self.arrival()?;
            let Some(next) = [arrival, self.block.next()].into_iter().flatten().min() else {
                return Ok(());
            };
            self.now = self.now.max(next);
            self.serve()?;
            if arrival.is_some_and(|arrival| arrival <= self.now)
                && let Some(made) = self.make()?
            {
                self.waiting.push_back(made);
            }
            self.submit()?;
            let over = self.responses.histogram.len();
            if over >= announced + PROGRESS {
                announced = over;
                progress(over);
            }
        }
    }

    /// The time of the next request; reads the trace as far as needed.
    fn arrival(&mut self) -> Result<Option<Instant>, TraceError> {
        match &mut self.source {
            Source::Open { trace, origin, next } => {
                if next.is_none() {
                    *next = trace.next().transpose()?;
                }
                let Some(record) = next else { return Ok(None) };
                match record.at {
                    // A request with an earlier time than the one before comes at once.
                    When::At(at) => Ok(Some((Instant::ZERO + (at - *origin)).max(self.now))),
                    When::After(_) => Err(TraceError::NoTimes { file: self.file.to_owned() }),
                }
            }
            Source::Closed { window, due } => {
                window.fill(&mut |at, pid| due.push(Reverse((at, pid.0))))?;
                Ok(due.peek().map(|Reverse((at, _))| (*at).max(self.now)))
            }
        }
    }

    /// The request that is to be made now.
    fn make(&mut self) -> Result<Option<MadeRequest>, TraceError> {
        let (record, pid) = match &mut self.source {
            Source::Open { next, .. } => match next.take() {
                Some(record) => (record, record.pid.unwrap_or_default()),
                None => return Ok(None),
            },
            Source::Closed { window, due } => {
                let Some(chained) = due.pop().and_then(|Reverse((_, pid))| window.take(ProcessId(pid)))
                else {
                    return Ok(None);
                };
                (chained.record, chained.pid)
            }
        };
        if let Some(response) = record.response {
            self.recorded.add(response);
        }
        if self.waiting.len() == WAITING_LIMIT {
            let at = self.now - Instant::ZERO;
            return Err(TraceError::Overload { file: self.file.to_owned(), at, waiting: WAITING_LIMIT });
        }
        let range = self.addresses.sectors(&record);
        Ok(Some(MadeRequest { at: self.now, op: record.op, range, pid }))
    }

    /// Submits waiting requests, as far as the block layer takes them.
    fn submit(&mut self) -> Result<(), TraceError> {
        let closed = matches!(self.source, Source::Closed { .. });
        while let Some(made) = self.waiting.front().copied() {
            // In a closed loop a process waits for every request, otherwise for reads.
            let synchronous = closed || made.op == Op::Read;
            let tag = Tag(self.flying.vacant_key() as u64);
            let submission = Submission { tag, op: made.op, range: made.range, pid: made.pid, synchronous };
            if self.block.submit(self.now, submission).is_err() {
                return Ok(());
            }
            self.flying.insert(made);
            self.waiting.pop_front();
            if synchronous {
                self.block.unplug(self.now);
            }
        }
        Ok(())
    }

    /// Handles completed requests.
    fn serve(&mut self) -> Result<(), TraceError> {
        let mut done = std::mem::take(&mut self.done);
        self.block.advance(self.now, &mut done);
        for completed in done.drain(..) {
            let Some(made) = self.flying.try_remove(completed.tag.0 as usize) else { continue };
            if completed.outcome == IoOutcome::Failed {
                let lba = made.range.start.get();
                return Err(TraceError::Failed { file: self.file.to_owned(), lba });
            }
            self.responses.add(completed.at - made.at);
            if let Source::Closed { window, due } = &mut self.source
                && let Some(next) = window.over(made.pid, completed.at)
            {
                due.push(Reverse((next, made.pid.0)));
            }
        }
        self.done = done;
        Ok(())
    }

    fn outcome(&self) -> Outcome {
        let recorded = self.recorded.times();
        Outcome {
            time: self.now - Instant::ZERO,
            responses: self.responses.times(),
            recorded: (recorded.count > 0).then_some(recorded),
            block: self.block.metrics(),
            device: self.block.device_counters(),
        }
    }
}
