//! One revolution, and how much a track holds, from reads that descend through a track.
//!
//! A page is read, then the page that lies a *step* before it, and so on. The platter carries each
//! of them past the head once a turn; a page that lies before the last one comes round a little
//! earlier than after a whole turn. So the time from one completion to the next is
//! `turn - step x turn / track`: a falling straight line in the step. Its height at zero is a turn,
//! its slope tells what a track holds. No seek, overhead or cache is part of it, as long as the next
//! request reaches the drive before its page comes round.
//!
//! Where a step crosses the end of a track the interval is shorter by the skew; crossings are the
//! minority as long as steps are well below a track, and medians leave them out.
//!
//! Anything without a platter does not follow that law: its intervals scatter, or do not depend on
//! the step. That is how a disk is told from everything else.

use super::statistics::{MAD_TO_SIGMA, deviation, median, nanos, numbers};
use foreseek_units::{Bytes, Nanos};

/// Turns that a spindle can have, from ten times the fastest sold (an emulated disk with its time
/// compressed) to the slowest floppy disk.
const TURNS: (Nanos, Nanos) = (Nanos::from_micros(400), Nanos::from_millis(170));
/// Tracks hold from a tenth of an old disk's to ten times of today's.
const TRACKS: (Bytes, Bytes) = (Bytes::kib(4), Bytes::mib(64));
/// By how much intervals of a disk may scatter, as a share: the host's wake-ups are late by some
/// 0.1 ms of 4 to 8; network volumes scatter by tens of per cent.
const SCATTER: f64 = 0.05;
/// How many standard errors the line must fall for it to be a line.
const CERTAIN: f64 = 4.0;
/// From the standard error of a mean to that of a median (normal distribution).
const MEDIAN_ERROR: f64 = 1.253;

/// Intervals between completions at one step.
#[derive(Clone, Debug)]
pub(in crate::profiler) struct Descent {
    /// From one page to the one before.
    pub(in crate::profiler) step: Bytes,
    /// Between completions.
    pub(in crate::profiler) intervals: Vec<Nanos>,
}

/// A turn, and what a track holds at that place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::profiler) struct Turn {
    pub(in crate::profiler) turn: Nanos,
    pub(in crate::profiler) track: Bytes,
}

/// Whether intervals scatter no more than those of a platter do.
pub(in crate::profiler) fn is_steady(descent: &Descent) -> bool {
    let times = numbers(&descent.intervals);
    !times.is_empty() && deviation(&times) * MAD_TO_SIGMA <= SCATTER * median(&times)
}

/// The turn that two descents show, the second of a larger step; `None` where nothing turns.
pub(in crate::profiler) fn turn_of(near: &Descent, far: &Descent) -> Option<Turn> {
    let (near_times, far_times) = (numbers(&near.intervals), numbers(&far.intervals));
    if !is_steady(near) || !is_steady(far) {
        return None;
    }
    let (high, low) = (median(&near_times), median(&far_times));
    let scatter = deviation(&near_times).max(deviation(&far_times)) * MAD_TO_SIGMA;
    let count = near_times.len().min(far_times.len()) as f64;
    let error = scatter * MEDIAN_ERROR * (2.0 / count).sqrt();
    if high - low <= CERTAIN * error {
        return None;
    }
    let (from, to) = (near.step.get() as f64, far.step.get() as f64);
    let slope = (high - low) / (to - from);
    let turn = high + slope * from;
    let track = Bytes((turn / slope) as u64);
    let possible = (TURNS.0..=TURNS.1).contains(&nanos(turn)) && (TRACKS.0..=TRACKS.1).contains(&track);
    possible.then(|| Turn { turn: nanos(turn), track })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn descent(step: u64, times: impl IntoIterator<Item = f64>) -> Descent {
        Descent { step: Bytes::kib(step), intervals: times.into_iter().map(nanos).collect() }
    }

    proptest! {
        /// The law with noise of the host and every eighth interval across a track's end.
        #[test]
        fn a_platter_is_recognised(
            turn in 3e6..12e6f64,
            track in 200..3000u64,
            noise in prop::collection::vec(-6e3..6e3f64, 16),
        ) {
            let at = |step: u64| {
                let whole = turn - turn * step as f64 / track as f64;
                let times = noise.iter().enumerate().map(|(at, noise)| {
                    whole + noise - if at % 8 == 7 { 0.8e6 } else { 0.0 }
                });
                descent(step, times.collect::<Vec<_>>())
            };
            let found = turn_of(&at(4), &at(64)).expect("a disk");
            prop_assert!((found.turn.get() as f64 / turn - 1.0).abs() < 0.005, "{:?}", found);
            prop_assert!((found.track.get() as f64 / (track * 1024) as f64 - 1.0).abs() < 0.1, "{:?}", found);
        }
    }

    /// Latencies that do not know where they read: of a thousand devices of all scatters next to none
    /// passes for a disk, and the measurement asks at several places.
    #[test]
    fn a_network_has_none() {
        let mut state = 1u64;
        let mut one = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1u64 << 24) as f64
        };
        let mut passed = 0;
        for _ in 0..1000 {
            let (level, scatter) = (4e5 + 5e7 * one(), 0.5 * one());
            let mut times =
                || (0..16).map(|_| level * (1.0 + scatter * (one() + one() - 1.0))).collect::<Vec<_>>();
            let (near, far) = (descent(4, times()), descent(16, times()));
            passed += u32::from(turn_of(&near, &far).is_some());
        }
        assert!(passed <= 2, "{passed} of 1000");
    }

    #[test]
    fn a_constant_latency_is_no_turn() {
        let times = vec![8e6; 16];
        assert_eq!(turn_of(&descent(4, times.clone()), &descent(16, times)), None);
        assert_eq!(turn_of(&descent(4, []), &descent(16, [])), None);
    }
}
