//! One revolution, and how much a track holds, from reads that descend through a track.
//!
//! A page is read, then the page that lies a *step* before it, and so on. The platter carries each
//! of them past the head once a revolution; a page that lies before the last one comes round a little
//! earlier than after a whole turn. So the time from one completion to the next is
//! `turn - step x turn / track`: a falling straight line in the step. Its height at zero is a revolution,
//! its slope tells what a track holds. No seek, overhead or cache is part of it, as long as the next
//! request reaches the drive before its page comes round.
//!
//! Where a step crosses the end of a track the interval is shorter by the skew; crossings are the
//! minority as long as steps are well below a track. A host that is late with one completion makes
//! one interval longer and the next shorter, by any amount. So what counts is where intervals *agree*
//! ([`densest`]).
//!
//! Anything without a platter does not follow that law: its intervals scatter, or do not depend on
//! the step. That is how a disk is told from everything else.

use super::statistics::{densest, nanos};
use foreseek_units::{Bytes, Instant, Nanos};

/// Turns that a spindle can have, from ten times the fastest sold (an emulated disk with its time
/// compressed) to the slowest floppy disk.
const TURNS: (Nanos, Nanos) = (Nanos::from_micros(400), Nanos::from_millis(170));
/// Tracks hold from a tenth of an old disk's to ten times of today's.
const TRACKS: (Bytes, Bytes) = (Bytes::kib(4), Bytes::mib(64));
/// How many pages on intervals are looked at: of more the average says less of each.
const REACH: usize = 3;
/// The share of the intervals that must agree. Where half of the completions are in time a quarter
/// of the intervals have both ends so: a host with five times as many runnable threads as processors.
const AGREEING: f64 = 0.25;
/// From end to end, intervals that agree may differ by this share: those of a platter do by the
/// host's ordinary wake-ups, some 0.05 ms of 4 to 8. As many latencies of a network lie ten times as
/// far apart.
const SCATTER: f64 = 0.025;
/// A difference between two intervals is clear when it is so many times as wide as where they agree.
const CLEAR: f64 = 1.5;
/// By how much a third point may be off the line through two, beyond what their widths make uncertain.
const ON_A_LINE: f64 = 0.1;

/// Completions at one step.
#[derive(Clone, Debug)]
pub(crate) struct Descent {
    /// From one page to the one before.
    pub(crate) step: Bytes,
    /// When each page was there.
    pub(crate) completions: Vec<Instant>,
}

impl Descent {
    /// The time from page to page, from each completion to the next few. Lateness does not add up
    /// from page to page, so that two pages which were in time tell it whatever happened in between.
    fn intervals(&self) -> Vec<f64> {
        let after = |at: usize| {
            let next = (1..=REACH).map_while(move |pages| Some((pages, *self.completions.get(at + pages)?)));
            next.map(move |(pages, then)| (then - self.completions[at]).get() as f64 / pages as f64)
        };
        (0..self.completions.len()).flat_map(after).collect()
    }
}

/// A turn, and what a track holds at that place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rotation {
    pub(crate) turn: Nanos,
    pub(crate) track: Bytes,
}

/// The share of pages that followed the one before in the time in which most do: how quiet device and
/// host were.
pub(crate) fn in_time(descent: &Descent) -> f64 {
    let Some(Agreement { middle, .. }) = Agreement::of(descent) else { return 0.0 };
    let gaps = descent.completions.windows(2).map(|pair| (pair[1] - pair[0]).get() as f64);
    let near = gaps.filter(|gap| (gap / middle - 1.0).abs() <= SCATTER).count();
    near as f64 / (descent.completions.len() - 1).max(1) as f64
}

/// Where intervals agree.
#[derive(Clone, Copy, Debug)]
struct Agreement {
    step: f64,
    middle: f64,
    width: f64,
}

impl Agreement {
    fn of(descent: &Descent) -> Option<Self> {
        let (middle, width) = densest(&descent.intervals(), AGREEING);
        let step = descent.step.get() as f64;
        (middle > 0.0 && width <= SCATTER * middle).then_some(Self { step, middle, width })
    }

    /// The turn of the line through two, if it falls clearly.
    fn line_to(self, other: Self) -> Option<Rotation> {
        let fall = self.middle - other.middle;
        if fall <= CLEAR * (self.width + other.width) {
            return None;
        }
        let slope = fall / (other.step - self.step);
        let turn = self.middle + slope * self.step;
        let track = Bytes((turn / slope) as u64);
        let possible = (TURNS.0..=TURNS.1).contains(&nanos(turn)) && (TRACKS.0..=TRACKS.1).contains(&track);
        possible.then(|| Rotation { turn: nanos(turn), track })
    }
}

/// Whether intervals agree as those of a platter do.
pub(crate) fn is_steady(descent: &Descent) -> bool {
    Agreement::of(descent).is_some()
}

/// The turn that three descents of rising steps show; `None` where nothing turns. The largest step
/// gives the best line, where the three lie on one; on an array the largest step may leave the
/// member, and then the first two have to do.
pub(crate) fn turn_of(near: &Descent, middle: &Descent, far: &Descent) -> Option<Rotation> {
    let (near, middle) = (Agreement::of(near)?, Agreement::of(middle)?);
    let on_a_line = |far: &Agreement| {
        let further = (far.step - near.step) / (middle.step - near.step);
        let expected = (near.middle - middle.middle) * further;
        let uncertain = (near.width + middle.width) / 2.0 * further;
        (near.middle - far.middle - expected).abs() <= ON_A_LINE * expected.abs() + uncertain
    };
    let far = Agreement::of(far).filter(on_a_line);
    far.and_then(|far| near.line_to(far)).or_else(|| near.line_to(middle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Completions at these intervals.
    fn descent(step: u64, times: impl IntoIterator<Item = f64>) -> Descent {
        let mut now = Instant(1 << 40);
        let mut completions = vec![now];
        for time in times {
            now += nanos(time);
            completions.push(now);
        }
        Descent { step: Bytes::kib(step), completions }
    }

    proptest! {
        /// The law with noise of the host, every eighth interval across a track's end, and every other
    /// pair late by up to two milliseconds and early after that.
        #[test]
        fn a_platter_is_recognised(
            turn in 3e6..12e6f64,
            track in 200..3000u64,
            noise in prop::collection::vec(-6e3..6e3f64, 24),
            late in prop::collection::vec(0.0..2e6f64, 24),
        ) {
            let at = |step: u64| {
                let whole = turn - turn * step as f64 / track as f64;
                let times = noise.iter().enumerate().map(|(at, noise)| {
                    let crossing = if at % 8 == 7 { 0.8e6 } else { 0.0 };
                    whole + noise - crossing + [late[at], -late[at.saturating_sub(1)], 0.0, 0.0][at % 4]
                });
                descent(step, times.collect::<Vec<_>>())
            };
            let found = turn_of(&at(4), &at(16), &at(64)).expect("a disk");
            prop_assert!((found.turn.get() as f64 / turn - 1.0).abs() < 0.005, "{:?}", found);
            prop_assert!((found.track.get() as f64 / (track * 1024) as f64 - 1.0).abs() < 0.1, "{:?}", found);
        }
    }

    /// Latencies that do not know where they read: of a thousand places on devices of all scatters few
    /// pass for a disk. The measurement asks at several places, which must agree, and then whether
    /// random reads spread over a revolution.
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
            let descents = [4, 16, 64].map(|step| descent(step, times()));
            passed += u32::from(turn_of(&descents[0], &descents[1], &descents[2]).is_some());
        }
        assert!(passed <= 50, "{passed} of 1000");
    }

    #[test]
    fn a_constant_latency_is_no_turn() {
        let times = vec![8e6; 16];
        let [near, middle, far] = [4, 16, 64].map(|step| descent(step, times.clone()));
        assert_eq!(turn_of(&near, &middle, &far), None);
        let [near, middle, far] = [4, 16, 64].map(|step| descent(step, []));
        assert_eq!(turn_of(&near, &middle, &far), None);
    }

    #[test]
    fn late_pages_are_counted() {
        let quiet = vec![8.3e6; 20];
        assert_eq!(in_time(&descent(4, quiet.clone())), 1.0);
        let mut busy = quiet;
        // Two pages late by 3 ms: each spoils the interval before and the one after it.
        for at in [4, 12] {
            busy[at] += 3e6;
            busy[at + 1] -= 3e6;
        }
        assert_eq!(in_time(&descent(4, busy)), 0.8);
        assert_eq!(in_time(&descent(4, [])), 0.0);
    }
}
