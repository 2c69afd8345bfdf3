//! Skip or read: up to which gap between two wanted pages is it cheaper to read the gap through?
//!
//! A run of pages is read one by one with a gap between them; what one page takes then is the cost
//! of skipping. Read through in large requests, page and gap would take what their bytes take at the
//! rate of that place. The threshold is the largest gap up to which skipping costs more at every
//! gap. Measured near the outer edge, where reading is fastest and the threshold largest.
//!
//! Source: ATC'09 section 3.3 (infill pays up to 32 KB on one firmware, hardly on another).

use super::estimate::statistics::{median_time, nanos};
use super::places::{PAGE, page_at};
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteSpan, Bytes, Nanos, Rate};

/// Gaps: each page up to where the paper found the threshold, then in larger steps up to where it
/// found infill to hurt.
const GAPS_KIB: [u64; 17] = [4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 256, 512, 1024, 2048];
/// Runs for each gap; their median counts, so that one disturbed run does not.
const RUNS: usize = 3;
/// By how much skipping must be costlier to be called so: what two measurements of one thing differ.
const COSTLIER: f64 = 1.05;
/// The part of the device at whose start it is measured.
const OUTER_PART: u64 = 16;

/// What a gap costs, skipped and read through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapPoint {
    /// Between two wanted pages.
    pub gap: Bytes,
    /// A page and the way over the gap.
    pub skipped: Nanos,
    /// A page and the gap, read in sequence.
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

/// What a page takes in a run of pages with gaps between them.
fn skip(session: &mut Session<'_>, gap: Bytes) -> Result<Nanos, Error> {
    let stride = gap + PAGE;
    let reads = session.plan.gap_reads as u64 / RUNS as u64 + 1;
    let room = (session.capacity() / OUTER_PART).saturating_sub(stride * reads);
    let start = session.places.between(Bytes::ZERO, room);
    let pages: Vec<ByteSpan> = (0..reads).map(|at| page_at(start + stride * at)).collect();
    let times = session.probe.read_all(&pages, 1)?;
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(Nanos::ZERO) };
    Ok(nanos((last.finished - first.finished).get() as f64 / (reads - 1).max(1) as f64))
}

/// The largest gap that is cheaper read through, as are all smaller ones; zero if none is.
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
        // A gap far beyond that loses a revolution again: that is no matter of infill.
        assert_eq!(
            threshold(&points(&[(4, 300, 80), (8, 300, 120), (12, 160, 160), (16, 900, 200)])),
            Bytes::kib(8)
        );
        assert_eq!(threshold(&points(&[(4, 80, 80), (8, 300, 120)])), Bytes::ZERO);
    }
}
