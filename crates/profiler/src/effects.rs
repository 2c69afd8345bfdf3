//! The effects of request size and queue depth.
//!
//! *Request size*: the rate of sequential reads, one request at a time, and the response time of a random
//! read, by size. *Queue depth*: random pages at each depth. The pages a second show how much a drive gains
//! by reordering, and how many heads there are.
//!
//! Source: ATC'09 section 3.4 (figure 5) for the request size.

use super::estimate::statistics::median_time;
use super::offsets::PAGE;
use super::probe::Timed;
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, Rate};

/// Request sizes, in KiB.
const SIZES_KIB: [u64; 6] = [4, 16, 64, 128, 256, 1024];
/// The most bytes that are read in sequence for one size.
const IN_SEQUENCE: Bytes = Bytes::mib(8);
/// Queue depths: common drives' queues end at 32, and larger depths gain nothing on them.
pub(super) const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// At each depth at least this many times the depth is read, so that filling and draining the queue do not
/// decide the result.
const FILLINGS: usize = 4;

/// The fewest reads for a result.
const READS_LEAST: usize = 4;
/// At most one part in this many of the plan's time is spent on one size, for either kind of read: devices
/// with long latencies get fewer reads.
const SIZE_SHARE: u64 = 100;
/// The same for one depth.
const DEPTH_SHARE: u64 = 40;

/// The effect of a request size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizePoint {
    /// The size of a request.
    pub size: Bytes,
    /// The rate in sequence, one request at a time.
    pub rate: Rate,
    /// The median response time at a random offset.
    pub random: Nanos,
}

/// The effect of a queue depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthPoint {
    /// The queue depth.
    pub depth: usize,
    /// Random pages a second.
    pub reads_per_second: f64,
    /// The median response time.
    pub response: Nanos,
}

/// Measures the effect of request sizes.
pub(super) fn sizes(session: &mut Session<'_>) -> Result<Vec<SizePoint>, Error> {
    session.begin("request size", 0.06);
    let mut points = Vec::with_capacity(SIZES_KIB.len());
    for size in SIZES_KIB.iter().map(|kib| Bytes::kib(*kib)) {
        if session.is_late() {
            break;
        }
        let count = (session.plan.reads as u64).min(IN_SEQUENCE / size).max(READS_LEAST as u64);
        let start = session.anywhere(size * count);
        let times = read_in_time(session, count as usize, |_, at| ByteSpan::at(start + size * at, size))?;
        let (first, last) = ends(&times);
        let read = size * (times.len() as u64 - 1);
        let rate = Rate::bytes_per_second(read.get() as f64 / (last - first).as_secs_f64().max(1e-9));
        let count = session.plan.reads.div_ceil(8).max(READS_LEAST);
        let random = read_in_time(session, count, |session, _| ByteSpan::at(session.anywhere(size), size))?;
        let random: Vec<Nanos> = random.into_iter().map(Timed::response).collect();
        points.push(SizePoint { size, rate, random: median_time(&random) });
        session.at(points.len() as f64 / SIZES_KIB.len() as f64);
    }
    Ok(points)
}

/// Reads one range after the other, until the time for one result is used up.
fn read_in_time(
    session: &mut Session<'_>,
    count: usize,
    mut range: impl FnMut(&mut Session<'_>, u64) -> ByteSpan,
) -> Result<Vec<Timed>, Error> {
    let until = session.elapsed() + session.plan.limit / SIZE_SHARE;
    let mut times = Vec::with_capacity(count);
    while times.len() < count && (times.len() < READS_LEAST || session.elapsed() < until) {
        let range = range(session, times.len() as u64);
        times.push(session.probe.read(range)?);
    }
    Ok(times)
}

/// Measures the effect of queue depths.
pub(super) fn depths(session: &mut Session<'_>) -> Result<Vec<DepthPoint>, Error> {
    session.begin("queue depth", 0.12);
    let mut points = Vec::with_capacity(DEPTHS.len());
    for depth in DEPTHS {
        if session.is_late() {
            break;
        }
        let before = points.last().map(|point: &DepthPoint| point.reads_per_second);
        points.push(at_depth(session, depth, before)?);
        session.at(points.len() as f64 / DEPTHS.len() as f64);
    }
    Ok(points)
}

/// Reads random pages at a queue depth; `before` is the rate at a lower depth, in pages a second.
pub(super) fn at_depth(
    session: &mut Session<'_>,
    depth: usize,
    before: Option<f64>,
) -> Result<DepthPoint, Error> {
    let per_second = match before {
        Some(before) => before,
        None => {
            let offset = session.anywhere(PAGE);
            1.0 / session.page(offset)?.response().as_secs_f64().max(1e-9)
        }
    };
    let in_time = (session.plan.limit / DEPTH_SHARE).as_secs_f64() * per_second;
    let count = session.plan.reads.min(in_time as usize).max(FILLINGS * depth).max(READS_LEAST);
    let capacity = session.capacity();
    let pages: Vec<ByteSpan> = (0..count).map(|_| session.offsets.page(capacity)).collect();
    let times = session.probe.read_all(&pages, depth)?;
    let issued = times.iter().map(|time| time.issued).min().unwrap_or(Instant::ZERO);
    let mut finished: Vec<Instant> = times.iter().map(|time| time.finished).collect();
    finished.sort_unstable();
    // The queue drains at the end: only the time before that counts.
    let full = count - depth;
    let until = finished.get(full).copied().unwrap_or(issued);
    let seconds = (until - issued).as_secs_f64().max(1e-9);
    let responses: Vec<Nanos> = times.iter().map(|time| time.response()).collect();
    Ok(DepthPoint { depth, reads_per_second: (full + 1) as f64 / seconds, response: median_time(&responses) })
}

/// When the first and the last of some reads completed.
fn ends(times: &[Timed]) -> (Instant, Instant) {
    let finished = || times.iter().map(|time| time.finished);
    (finished().min().unwrap_or(Instant::ZERO), finished().max().unwrap_or(Instant::ZERO))
}
