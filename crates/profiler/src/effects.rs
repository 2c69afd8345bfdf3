//! What larger requests, and more of them at a time, bring.
//!
//! *Request size*: the rate of reading in sequence one request at a time, and the answer to a random
//! read, by size. *Queue depth*: random pages, so many at a time; what comes out a second tells how
//! much a drive gains by choosing among them, and how many heads there are.
//!
//! Source: ATC'09 section 3.4 (figure 5) for the request size.

use super::estimate::statistics::median_time;
use super::places::PAGE;
use super::probe::Timed;
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, Rate};

/// Sizes, in KiB.
const SIZES_KIB: [u64; 6] = [4, 16, 64, 128, 256, 1024];
/// Most bytes that are read in sequence for one size.
const IN_SEQUENCE: Bytes = Bytes::mib(8);
/// Depths: beyond 32, where common drives' queues end, nothing is gained on them.
pub(super) const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// At each depth so many times the depth is read at least, so that filling and emptying the queue
/// do not make the figure.
const FILLINGS: usize = 4;

/// No figure is made of fewer reads.
const READS_LEAST: usize = 4;
/// One part in so many of the plan's time may go into one size, read either way: on devices with
/// long latencies fewer reads are made.
const SIZE_SHARE: u64 = 100;
/// The same for one depth.
const DEPTH_SHARE: u64 = 40;

/// What a request size brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizePoint {
    /// Of a request.
    pub size: Bytes,
    /// In sequence, one request at a time.
    pub rate: Rate,
    /// Median answer at a random place.
    pub random: Nanos,
}

/// What a queue depth brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthPoint {
    /// Requests at a time.
    pub depth: usize,
    /// Random pages a second.
    pub reads_per_second: f64,
    /// Median answer.
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
        let times = timely(session, count as usize, |_, at| ByteSpan::at(start + size * at, size))?;
        let (first, last) = ends(&times);
        let read = size * (times.len() as u64 - 1);
        let rate = Rate::bytes_per_second(read.get() as f64 / (last - first).as_secs_f64().max(1e-9));
        let count = session.plan.reads.div_ceil(8).max(READS_LEAST);
        let random = timely(session, count, |session, _| ByteSpan::at(session.anywhere(size), size))?;
        let random: Vec<Nanos> = random.into_iter().map(Timed::response).collect();
        points.push(SizePoint { size, rate, random: median_time(&random) });
        session.at(points.len() as f64 / SIZES_KIB.len() as f64);
    }
    Ok(points)
}

/// Reads one range after the other, until the share of the time that a figure may take is over.
fn timely(
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

/// Reads random pages, so many at a time; `before` is what a lower depth gave a second.
pub(super) fn at_depth(
    session: &mut Session<'_>,
    depth: usize,
    before: Option<f64>,
) -> Result<DepthPoint, Error> {
    let per_second = match before {
        Some(before) => before,
        None => {
            let place = session.anywhere(PAGE);
            1.0 / session.page(place)?.response().as_secs_f64().max(1e-9)
        }
    };
    let in_time = (session.plan.limit / DEPTH_SHARE).as_secs_f64() * per_second;
    let count = session.plan.reads.min(in_time as usize).max(FILLINGS * depth).max(READS_LEAST);
    let capacity = session.capacity();
    let pages: Vec<ByteSpan> = (0..count).map(|_| session.places.page(capacity)).collect();
    let times = session.probe.read_all(&pages, depth)?;
    let issued = times.iter().map(|time| time.issued).min().unwrap_or(Instant::ZERO);
    let mut finished: Vec<Instant> = times.iter().map(|time| time.finished).collect();
    finished.sort_unstable();
    // The last ones finish while the queue empties: what counts is up to when it begins to.
    let full = count - depth;
    let until = finished.get(full).copied().unwrap_or(issued);
    let seconds = (until - issued).as_secs_f64().max(1e-9);
    let responses: Vec<Nanos> = times.iter().map(|time| time.response()).collect();
    Ok(DepthPoint { depth, reads_per_second: (full + 1) as f64 / seconds, response: median_time(&responses) })
}

/// When the first and the last of some reads finished.
fn ends(times: &[Timed]) -> (Instant, Instant) {
    let finished = || times.iter().map(|time| time.finished);
    (finished().min().unwrap_or(Instant::ZERO), finished().max().unwrap_or(Instant::ZERO))
}
