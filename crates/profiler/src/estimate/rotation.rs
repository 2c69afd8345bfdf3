//! The rotation period and the size of a track, from reads that descend through a track.
//!
//! A page is read, then the page that lies a *step* before it, and so on. Each passes the head once a
//! revolution; a page before the last one passes a little earlier than after a whole revolution. The time
//! from one completion to the next is therefore `period - step x period / track`: a straight line that falls
//! with the step. Its value at zero is the rotation period, and its slope gives the size of a track. Seek,
//! overhead and cache are not part of it, as long as the next request reaches the drive before its page
//! passes.
//!
//! Where a step crosses the end of a track, the interval is shorter by the skew; crossings are the minority
//! as long as steps are well below a track. A host that is late with one completion makes one interval longer
//! and the next shorter, by any amount. The result is therefore taken from where intervals *agree*
//! ([`densest`]).
//!
//! A device without a platter does not follow that law: its intervals scatter, or do not depend on the step.
//! This distinguishes a disk from everything else.

use super::statistics::{densest, nanos};
use foreseek_units::{Bytes, Instant, Nanos};

/// Possible rotation periods: from ten times the fastest speed sold (an emulated disk with its time
/// compressed) to the slowest floppy disk.
const PERIODS: (Nanos, Nanos) = (Nanos::from_micros(400), Nanos::from_millis(170));
/// Possible track sizes: from a tenth of an old disk's to ten times today's.
const TRACKS: (Bytes, Bytes) = (Bytes::kib(4), Bytes::mib(64));
/// The most pages in an interval: an average over more says less about each.
const REACH: usize = 3;
/// The share of the intervals that must agree. If half of the completions are in time, a quarter of the
/// intervals have both ends in time: a host with five times as many runnable threads as processors.
const AGREEING: f64 = 0.25;
/// The range of intervals that agree, as a share of their value. Those of a platter differ by the host's
/// ordinary wake-ups, some 0.05 ms of 4 to 8; latencies of a network are spread ten times as far.
const SCATTER: f64 = 0.025;
/// A difference between two intervals counts if it is this many times the range in which they agree.
const CLEAR: f64 = 1.5;
/// By how much a third point may be off the line through two, beyond the uncertainty of their ranges.
const ON_A_LINE: f64 = 0.1;

/// Completions at one step.
#[derive(Clone, Debug)]
pub(crate) struct Descent {
    /// From one page to the next one read, which lies before it.
    pub(crate) step: Bytes,
    /// When each page arrived.
    pub(crate) completions: Vec<Instant>,
}

impl Descent {
    /// The time from page to page, from each completion to the next few. Delays do not add up from page to
    /// page, so that two pages in time give it whatever happened in between.
    fn intervals(&self) -> Vec<f64> {
        let after = |at: usize| {
            let next = (1..=REACH).map_while(move |pages| Some((pages, *self.completions.get(at + pages)?)));
            next.map(move |(pages, then)| (then - self.completions[at]).get() as f64 / pages as f64)
        };
        (0..self.completions.len()).flat_map(after).collect()
    }
}

/// The rotation period, and the size of a track at that offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rotation {
    pub(crate) period: Nanos,
    pub(crate) track: Bytes,
}

/// The share of pages that followed the previous one after the most common time: how quiet device and host
/// were.
pub(crate) fn in_time(descent: &Descent) -> f64 {
    let Some(Agreement { middle, .. }) = Agreement::of(descent) else { return 0.0 };
    let gaps = descent.completions.windows(2).map(|pair| (pair[1] - pair[0]).get() as f64);
    let near = gaps.filter(|gap| (gap / middle - 1.0).abs() <= SCATTER).count();
    near as f64 / (descent.completions.len() - 1).max(1) as f64
}

/// The value on which intervals agree.
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

    /// The rotation by the line through two points, if it falls clearly.
    fn line_to(self, other: Self) -> Option<Rotation> {
        let fall = self.middle - other.middle;
        if fall <= CLEAR * (self.width + other.width) {
            return None;
        }
        let slope = fall / (other.step - self.step);
        let period = self.middle + slope * self.step;
        let track = Bytes((period / slope) as u64);
        let possible =
            (PERIODS.0..=PERIODS.1).contains(&nanos(period)) && (TRACKS.0..=TRACKS.1).contains(&track);
        possible.then(|| Rotation { period: nanos(period), track })
    }
}

/// Whether intervals agree as closely as those of a platter.
pub(crate) fn is_steady(descent: &Descent) -> bool {
    Agreement::of(descent).is_some()
}

/// The rotation that three descents of rising steps show; `None` where there is none. If the three lie on one
/// line, the largest step gives the best one. On an array the largest step may leave the member; then the
/// first two are used.
pub(crate) fn rotation_of(near: &Descent, middle: &Descent, far: &Descent) -> Option<Rotation> {
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
        /// The law with noise of the host: every eighth interval crosses a track's end, and every other pair
        /// is late by up to two milliseconds and early after that.
        #[test]
        fn a_platter_is_recognised(
            period in 3e6..12e6f64,
            track in 200..3000u64,
            noise in prop::collection::vec(-6e3..6e3f64, 24),
            late in prop::collection::vec(0.0..2e6f64, 24),
        ) {
            let at = |step: u64| {
                let whole = period - period * step as f64 / track as f64;
                let times = noise.iter().enumerate().map(|(at, noise)| {
                    let crossing = if at % 8 == 7 { 0.8e6 } else { 0.0 };
                    whole + noise - crossing + [late[at], -late[at.saturating_sub(1)], 0.0, 0.0][at % 4]
                });
                descent(step, times.collect::<Vec<_>>())
            };
            let found = rotation_of(&at(4), &at(16), &at(64)).expect("a disk");
            prop_assert!((found.period.get() as f64 / period - 1.0).abs() < 0.005, "{:?}", found);
            prop_assert!((found.track.get() as f64 / (track * 1024) as f64 - 1.0).abs() < 0.1, "{:?}", found);
        }
    }

    /// Latencies that do not depend on the offset: of a thousand offsets on devices of all scatters, few pass
    /// for a disk. The measurement uses several offsets, which must agree, and then checks whether random
    /// reads spread over a revolution.
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
            passed += u32::from(rotation_of(&descents[0], &descents[1], &descents[2]).is_some());
        }
        assert!(passed <= 50, "{passed} of 1000");
    }

    #[test]
    fn a_constant_latency_is_no_rotation() {
        let times = vec![8e6; 16];
        let [near, middle, far] = [4, 16, 64].map(|step| descent(step, times.clone()));
        assert_eq!(rotation_of(&near, &middle, &far), None);
        let [near, middle, far] = [4, 16, 64].map(|step| descent(step, []));
        assert_eq!(rotation_of(&near, &middle, &far), None);
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
