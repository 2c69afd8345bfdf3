//! Do distant reads take longer than near ones?
//!
//! From one region, near and far offsets are read alternately. If the far reads take longer, by the rank test
//! of Mann and Whitney, an arm moves. A rotation that was not found is then due to a busy host or device, and
//! no profile is made. On a network and on an SSD, distance makes no difference.

use super::seeks::ALL_MEMBERS;
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteSpan, Bytes, Nanos};

/// The least and the most reads of each kind. Ten show the 5 ms that an arm adds, beside rotational delays of
/// 4 ms on average; on a busy host it takes some more.
const READS: (usize, usize) = (10, 40);
/// At most one part in this many of the plan's time is spent on it.
const SHARE: u64 = 20;
/// The near distance: some cylinders, and beyond what a drive reads ahead.
const NEAR: Bytes = Bytes::mib(24);
/// Of this many equal parts of the device, the first and the last are far from each other.
const FAR_PART: u64 = 3;
/// The excess of the rank sum, in standard deviations, from which it counts: one in forty by chance, and then
/// the rotation is only measured once more.
const CERTAIN: f64 = 2.0;

/// Whether far reads take longer than near ones.
pub(super) fn matters(session: &mut Session<'_>) -> Result<bool, Error> {
    session.begin("near and far", 0.02);
    let (capacity, far) = (session.capacity(), session.capacity() / FAR_PART);
    let (mut near_times, mut far_times) = (Vec::with_capacity(READS.1), Vec::with_capacity(READS.1));
    let until = session.elapsed() + session.plan.limit / SHARE;
    while near_times.len() < READS.0 || (near_times.len() < READS.1 && session.elapsed() < until) {
        // A long read in the upper third moves all arms there, those of an array's members too. Then a page
        // near that offset is read, and one in the lower third.
        let high = session.offsets.between(far * 2, capacity - ALL_MEMBERS);
        session.probe.read(ByteSpan::at(high, ALL_MEMBERS))?;
        near_times.push(session.page(high - NEAR.min(far / 2))?.response());
        let low = session.offsets.between(Bytes::ZERO, far);
        far_times.push(session.page(low)?.response());
    }
    Ok(rank_excess(&far_times, &near_times) > CERTAIN)
}

/// By how many standard deviations the ranks of `one` exceed those of as many samples of the same
/// distribution.
fn rank_excess(one: &[Nanos], other: &[Nanos]) -> f64 {
    let score = |a: &Nanos, b: &Nanos| match a.cmp(b) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    let above: f64 = one.iter().map(|a| other.iter().map(|b| score(a, b)).sum::<f64>()).sum();
    let (n, m) = (one.len() as f64, other.len() as f64);
    (above - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_by_hand() {
        let times = |all: &[u64]| all.iter().map(|ms| Nanos::from_millis(*ms)).collect::<Vec<_>>();
        assert_eq!(rank_excess(&times(&[1, 2, 3]), &times(&[1, 2, 3])), 0.0);
        // All nine pairs above: (9 - 4.5) / sqrt(9 x 7 / 12).
        let excess = rank_excess(&times(&[7, 8, 9]), &times(&[1, 2, 3]));
        assert!((excess - 4.5 / 5.25f64.sqrt()).abs() < 1e-12, "{excess}");
    }
}
