//! The infill threshold: up to which gap between two wanted pages is reading the gap cheaper than skipping
//! it?
//!
//! A run of pages is read one by one with a gap between them; the time for a page is the cost of skipping.
//! Read through in large requests, page and gap would take their length over the rate at that offset. The
//! threshold is the largest gap up to which skipping costs more at every gap. It is measured near the outer
//! edge, where the rate is highest and the threshold largest.
//!
//! Source: ATC'09 section 3.3 (infill pays up to 32 KB on one firmware, hardly on another).

use super::estimate::statistics::{median_time, nanos};
use super::offsets::{PAGE, page_at};
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteSpan, Bytes, Nanos, Rate};

/// Gaps: every multiple of a page up to the paper's threshold, then larger steps up to where infill hurt in
/// the paper.
const GAPS_KIB: [u64; 17] = [4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 256, 512, 1024, 2048];
/// Runs for each gap; the median counts, so that a disturbed run has no effect.
const RUNS: usize = 3;
/// By which factor skipping must be costlier to count: two measurements of the same cost differ by as much.
const COSTLIER: f64 = 1.05;
/// It is measured at the start of the device, in one part of this many.
const OUTER_PART: u64 = 16;

/// The cost of a gap, skipped and read through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapPoint {
    /// The gap between two wanted pages.
    pub gap: Bytes,
    /// The time for a page, with the gap skipped.
    pub skipped: Nanos,
    /// The time for a page and the gap, read in sequence.
    pub read: Nanos,
}

/// Measures all gaps; `rate` is that of the outer edge.
pub(super) fn measure(session: &mut Session<'_>, rate: Rate) -> Result<Vec<GapPoint>, Error> {
    session.begin("skip or read", 0.06);
    let mut points = Vec::with_capacity(GAPS_KIB.len());
    for (at, gap) in GAPS_KIB.iter().map(|kib| Bytes::kib(*kib)).enumerate() {
        let mut runs = [Nanos::ZERO; RUNS];
        for run in &mut runs {
            *run = skip(session, gap)?;
        }
        points.push(GapPoint { gap, skipped: median_time(&runs), read: rate.time_for(gap + PAGE) });
        session.at((at + 1) as f64 / GAPS_KIB.len() as f64);
    }
    Ok(points)
}

/// The time for a page in a run of pages with gaps between them.
fn skip(session: &mut Session<'_>, gap: Bytes) -> Result<Nanos, Error> {
    let stride = gap + PAGE;
    let reads = session.plan.gap_reads as u64 / RUNS as u64 + 1;
    let room = (session.capacity() / OUTER_PART).saturating_sub(stride * reads);
    let start = session.offsets.between(Bytes::ZERO, room);
    let pages: Vec<ByteSpan> = (0..reads).map(|at| page_at(start + stride * at)).collect();
    let times = session.probe.read_all(&pages, 1)?;
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(Nanos::ZERO) };
    Ok(nanos((last.finished - first.finished).get() as f64 / (reads - 1).max(1) as f64))
}

/// The largest gap that is cheaper to read, as are all smaller ones; zero if none is.
pub(super) fn threshold(points: &[GapPoint]) -> Bytes {
    let costlier = |point: &&GapPoint| point.skipped.get() as f64 > COSTLIER * point.read.get() as f64;
    points.iter().take_while(costlier).last().map_or(Bytes::ZERO, |point| point.gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(times: &[(u64, u64, u64)]) -> Vec<GapPoint> {
        let point = |&(kib, skipped, read): &(u64, u64, u64)| GapPoint {
            gap: Bytes::kib(kib),
            skipped: Nanos::from_micros(skipped),
            read: Nanos::from_micros(read),
        };
        times.iter().map(point).collect()
    }

    #[test]
    fn the_threshold_by_hand() {
        assert_eq!(threshold(&[]), Bytes::ZERO);
        assert_eq!(threshold(&points(&[(4, 100, 80), (8, 125, 120), (12, 160, 160)])), Bytes::kib(4));
        // A far larger gap costs a revolution again; it does not count.
        assert_eq!(
            threshold(&points(&[(4, 300, 80), (8, 300, 120), (12, 160, 160), (16, 900, 200)])),
            Bytes::kib(8)
        );
        assert_eq!(threshold(&points(&[(4, 80, 80), (8, 300, 120)])), Bytes::ZERO);
    }
}
