//! A device without moving parts: an SSD, a network volume, an object store, memory.
//!
//! Its positioning time is the latency, whose distribution comes from random pages. Few are read at a time,
//! so that none waits for another. How many requests overlap, or how many start a second, follows from the
//! pages a second at rising depth and in bursts ([`estimate::overlap`]). The rate is that of large sequential
//! requests, as many at a time as help. Both loads are sustained for a while, to see whether credit runs out
//! ([`estimate::credit`]).
//!
//! Limits: credit that lasts longer than the measurement is not found, and some credit is spent before it is
//! measured.
//!
//! [`estimate::overlap`]: super::estimate::overlap
//! [`estimate::credit`]: super::estimate::credit

use super::effects::{self, DepthPoint};
use super::estimate::credit::{self, Credit, Slice};
use super::estimate::latency::{self, LatencyFit};
use super::estimate::overlap::{self, Limit};
use super::estimate::statistics::median;
use super::offsets::PAGE;
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteSpan, Bytes, Nanos, Rate};

/// Queue depths beyond those of disks: connections and virtual queues go up to these.
const DEPTHS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// The largest of them.
const DEEPEST: usize = DEPTHS[DEPTHS.len() - 1];
/// Large requests, so that the latency of each is small beside its transfer.
const REQUEST: Bytes = Bytes::mib(4);
/// Large concurrent requests: with a latency of 100 ms they keep 1.3 GB/s in flight.
const REQUESTS_AT_A_TIME: usize = 32;
/// A slice is at least this many times the depth: filling and draining the queue take two of them.
const FILLINGS: usize = 4;
/// Large concurrent requests on a link that a few saturate.
const FEW_AT_A_TIME: usize = 4;
/// The share of the best rate that counts as equal to it.
const NEARLY: f64 = 0.9;
/// If requests wait this many times as long as a response takes, the link limits them.
const LINK_BOUND: f64 = 4.0;
/// Slices of a sustained run.
const SLICES: u64 = 16;
/// The share of the device's concurrency at which latencies are sampled: no request waits then.
const UNLOADED: f64 = 0.5;
/// The most requests in a burst: more show nothing new.
const BURST_MOST: usize = 32;
/// Requests in all bursts, so that small ones are repeated more often: latencies vary by as much as they
/// last, and the waits in a burst of two must stand out from that.
const IN_BURSTS: usize = 800;
/// At most one part in this many of the plan's time is spent on sampling latencies.
const LATENCY_SHARE: u64 = 6;
/// At most one part in this many of the plan's time is spent on bursts.
const BURST_SHARE: u64 = 20;
/// If fewer requests overlap, limits on concurrency and on operations a second are the same.
const OVERLAPPING: f64 = 2.0;

/// The factor by which a written burst is faster than the base: more than rounding changes.
const CLEARLY: f64 = 1.01;

/// The measurements of a latency-bound device.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyBound {
    /// The positioning time.
    pub latency: LatencyFit,
    /// The rate of large requests.
    pub rate: Rate,
    /// What limits the pages a second.
    pub limit: Limit,
    /// The largest queue depth tried.
    pub deepest: usize,
    /// Credit for bytes, in bytes.
    pub byte_credit: Option<Credit>,
    /// Credit for operations, in reads.
    pub operation_credit: Option<Credit>,
}

impl LatencyBound {
    /// The rate in MB/s while there was credit, and the credit in MiB; `None` where a profile cannot have
    /// them.
    pub(super) fn burst_rate(&self) -> Option<(f64, f64)> {
        let credit = self.byte_credit?;
        let (burst, amount) = (credit.burst_per_second / 1e6, credit.amount / Bytes::mib(1).get() as f64);
        (burst > self.rate.as_mb_per_second().max(1.0) * CLEARLY && amount >= 1.0).then_some((burst, amount))
    }

    /// The operations a second while there was credit, and the credit in operations; `None` where a profile
    /// cannot have them.
    pub(super) fn burst_operations(&self, base: f64) -> Option<(f64, f64)> {
        let credit = self.operation_credit?;
        (credit.burst_per_second > base * CLEARLY && credit.amount >= 1.0)
            .then_some((credit.burst_per_second, credit.amount))
    }
}

/// Measures all of it.
pub(super) fn measure(session: &mut Session<'_>) -> Result<(LatencyBound, Vec<DepthPoint>), Error> {
    session.begin("queue depth", 0.2);
    let mut depths = Vec::with_capacity(DEPTHS.len());
    for depth in DEPTHS {
        let before = depths.last().map(|point: &DepthPoint| point.reads_per_second);
        depths.push(effects::at_depth(session, depth, before)?);
        session.at(depths.len() as f64 / DEPTHS.len() as f64);
    }
    session.begin("sequential rate", 0.25);
    let rough =
        depths.first().map_or(Nanos::ZERO, |point| Nanos::from_secs_f64(1.0 / point.reads_per_second));
    let at_a_time = saturating(session, rough)?;
    let bytes = sustain(session, session.plan.sustained / 2, at_a_time, REQUEST)?;
    session.begin("pages a second", 0.25);
    let reads = sustain(session, session.plan.sustained / 2, deep_enough(&depths), PAGE)?;
    let byte_credit = credit::of(&bytes);
    let operation_credit = credit::of(&reads);
    let rate =
        Rate::bytes_per_second(byte_credit.map_or_else(|| steady(&bytes), |credit| credit.base_per_second));
    let pages =
        operation_credit.map_or_else(|| steady(&reads), |credit| credit.base_per_second) / PAGE.get() as f64;
    let overlapping = (pages * rough.as_secs_f64()).max(1.0);
    session.begin("latency", 0.25);
    let latency = latencies(session, overlapping * UNLOADED, pages, rate)?;
    let growth = bursts(session, overlapping)?;
    // Providers sell credit for operations a second: where it ran out, operations are the limit.
    let limit = match operation_credit {
        Some(_) => Limit::Operations(pages),
        None => overlap::limit(pages, latency.mean, growth),
    };
    let in_reads = |credit: Credit| Credit {
        burst_per_second: credit.burst_per_second / PAGE.get() as f64,
        base_per_second: credit.base_per_second / PAGE.get() as f64,
        amount: credit.amount / PAGE.get() as f64,
        ..credit
    };
    let operation_credit = operation_credit.map(in_reads);
    Ok((LatencyBound { latency, rate, limit, deepest: DEEPEST, byte_credit, operation_credit }, depths))
}

/// The depth that reaches the highest rate of pages, doubled to be sure. If a small one does, larger ones
/// would only make slices too long.
fn deep_enough(depths: &[DepthPoint]) -> usize {
    let best = depths.iter().map(|point| point.reads_per_second).fold(0.0, f64::max);
    let enough = depths.iter().find(|point| point.reads_per_second >= best * NEARLY);
    enough.map_or(DEEPEST, |point| (2 * point.depth).clamp(FEW_AT_A_TIME, DEEPEST))
}

/// How many large concurrent requests saturate the device. A few, where they wait for the link far longer
/// than a response takes: more would make slices too long to show when credit runs out. Otherwise many.
fn saturating(session: &mut Session<'_>, latency: Nanos) -> Result<usize, Error> {
    let requests = requests(session, FEW_AT_A_TIME * FILLINGS, REQUEST);
    let slice = slice(session, &requests, FEW_AT_A_TIME)?;
    let per_second = slice.amount / slice.time.as_secs_f64().max(1e-9);
    let waits = (FEW_AT_A_TIME as u64 * REQUEST.get()) as f64 / per_second.max(1.0);
    let busy = waits >= LINK_BOUND * latency.as_secs_f64();
    Ok(if busy { FEW_AT_A_TIME } else { REQUESTS_AT_A_TIME })
}

/// Loads the device for a while. Returns the bytes of each slice of that time.
fn sustain(session: &mut Session<'_>, time: Nanos, depth: usize, size: Bytes) -> Result<Vec<Slice>, Error> {
    let mut slices: Vec<Slice> = Vec::new();
    let began = session.elapsed();
    let mut count = depth * FILLINGS;
    while session.elapsed() - began < time {
        let requests = requests(session, count, size);
        let slice = slice(session, &requests, depth)?;
        // The first slices only find the number of requests for a slice; they are too short for a rate.
        if slice.time * 2 >= time / SLICES {
            slices.push(slice);
        }
        let wanted = (time / SLICES).as_secs_f64() / slice.time.as_secs_f64().max(1e-6);
        count = ((count as f64 * wanted.clamp(0.5, 4.0)) as usize).max(depth * FILLINGS);
        session.at((session.elapsed() - began).as_secs_f64() / time.as_secs_f64());
    }
    Ok(slices)
}

/// The amount of a number of requests, at the rate of those completed while the queue was full.
fn slice(session: &mut Session<'_>, requests: &[ByteSpan], depth: usize) -> Result<Slice, Error> {
    let before = session.probe.now();
    let times = session.probe.read_all(requests, depth)?;
    let time = session.probe.now() - before;
    let mut finished: Vec<_> = times.iter().map(|time| time.finished).collect();
    finished.sort_unstable();
    let filled = depth.min(finished.len() / 2);
    let full = &finished[filled..finished.len() - filled];
    let (Some(first), Some(last)) = (full.first(), full.last()) else {
        return Ok(Slice { time, amount: 0.0 });
    };
    let each = (*last - *first).as_secs_f64().max(1e-9) / (full.len() - 1).max(1) as f64;
    let size = requests.first().map_or(0, |request| request.len().get()) as f64;
    Ok(Slice { time, amount: size / each * time.as_secs_f64() })
}

/// Large requests are sequential from a random offset on; pages have random offsets.
fn requests(session: &mut Session<'_>, count: usize, size: Bytes) -> Vec<ByteSpan> {
    let capacity = session.capacity();
    if size == PAGE {
        return (0..count).map(|_| session.offsets.page(capacity)).collect();
    }
    let fits = (capacity / size).max(1);
    let first = session.offsets.between(Bytes::ZERO, capacity).get() / size.get();
    (0..count as u64)
        .map(|at| ByteSpan::at(foreseek_units::ByteOffset((first + at) % fits * size.get()), size))
        .collect()
}

/// The rate of the slices, as an amount a second. Filling and draining the queue weighs more in short slices:
/// the first ones, which find the length of a slice, are left out.
fn steady(slices: &[Slice]) -> f64 {
    let later = &slices[slices.len() / 4..];
    median(&later.iter().map(|slice| slice.amount / slice.time.as_secs_f64().max(1e-9)).collect::<Vec<_>>())
}

/// Samples the latency at a concurrency. Less than one means one request with pauses, so that none waits on a
/// device that starts requests some time apart.
fn latencies(
    session: &mut Session<'_>,
    depth: f64,
    per_second: f64,
    rate: Rate,
) -> Result<LatencyFit, Error> {
    let apart = if depth < 1.0 { Nanos::from_secs_f64(1.0 / per_second.max(1.0)) } else { Nanos::ZERO };
    let (wanted, depth) = (session.plan.latencies, (depth as usize).clamp(1, BURST_MOST));
    let batch = if apart.is_zero() { wanted / SLICES as usize } else { 1 };
    let mut samples = Vec::with_capacity(wanted);
    let until = session.elapsed() + session.plan.limit / LATENCY_SHARE;
    while samples.len() < wanted && (samples.is_empty() || session.elapsed() < until) {
        let pages = requests(session, batch, PAGE);
        samples.extend(session.probe.read_all(&pages, depth)?.iter().map(|time| time.response()));
        session.probe.pause(apart);
        session.at(samples.len() as f64 / wanted as f64);
    }
    Ok(latency::fit(&samples, rate.time_for(PAGE)))
}

/// By how much longer each request of a burst waits than the one before it.
fn bursts(session: &mut Session<'_>, overlapping: f64) -> Result<f64, Error> {
    if overlapping < OVERLAPPING {
        return Ok(0.0);
    }
    // No more than overlap: a request without a free slot waits under either limit.
    let size = (overlapping as usize).min(BURST_MOST);
    let count = IN_BURSTS / size;
    let until = session.elapsed() + session.plan.limit / BURST_SHARE;
    let mut bursts = Vec::with_capacity(count);
    while bursts.len() < count && (bursts.is_empty() || session.elapsed() < until) {
        let pages = requests(session, size, PAGE);
        let mut times = session.probe.read_all(&pages, size)?;
        times.sort_unstable_by_key(|time| time.issued);
        bursts.push(times.iter().map(|time| time.response()).collect());
    }
    Ok(overlap::growth(&bursts))
}
