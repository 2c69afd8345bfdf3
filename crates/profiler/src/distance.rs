//! Does what lies far take longer to read than what lies near?
//!
//! Reads go near and far in turn from one region. If the far ones take longer, by the
//! rank test of Mann and Whitney, something moves: then a revolution that was not found is due to a host
//! or a device that is too busy, and no profile is made of it. A network and an SSD do not know far
//! from near.

use super::seeks::ALL_MEMBERS;
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteSpan, Bytes, Nanos};

/// Reads of each sort, at least and at most: an arm's 5 ms more are certain after ten in spite of
/// half a revolution of 4, on a busy host after some more.
const READS: (usize, usize) = (10, 40);
/// One part in so many of the plan's time may go into it.
const SHARE: u64 = 20;
/// How far near is: some cylinders, and beyond what a drive reads ahead.
const NEAR: Bytes = Bytes::mib(24);
/// From which part of the device on it is far.
const FAR_PART: u64 = 3;
/// Standard deviations of the rank sum at which it counts: one in forty by chance, and then only a
/// turn is looked for once more.
const CERTAIN: f64 = 2.0;

/// Whether far reads take longer than near ones.
pub(super) fn matters(session: &mut Session<'_>) -> Result<bool, Error> {
    session.begin("near and far", 0.02);
    let (capacity, far) = (session.capacity(), session.capacity() / FAR_PART);
    let (mut near_times, mut far_times) = (Vec::with_capacity(READS.1), Vec::with_capacity(READS.1));
    let until = session.elapsed() + session.plan.limit / SHARE;
    while near_times.len() < READS.0 || (near_times.len() < READS.1 && session.elapsed() < until) {
        // A long read in the upper third brings all arms there, those of an array's members too; then
        // a page near that, and one in the lower third.
        let high = session.places.between(far * 2, capacity - ALL_MEMBERS);
        session.probe.read(ByteSpan::at(high, ALL_MEMBERS))?;
        near_times.push(session.page(high - NEAR.min(far / 2))?.response());
        let low = session.places.between(Bytes::ZERO, far);
        far_times.push(session.page(low)?.response());
    }
    Ok(rank_excess(&far_times, &near_times) > CERTAIN)
}

/// By how many standard deviations the ranks of `one` lie above those of as many others drawn from
/// the same distribution.
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
