//! Mean times of visits by their length.
//!
//! Visits are put into bins by their length in octaves. Each bin keeps an exponentially weighted mean of length and
//! time, over [`BIN_MEMORY`] visits. Only visits of its own length replace a bin's mean: a hundred long visits in a row
//! do not displace the short ones, without which no line could be drawn. Visits of other bins make it fade slowly
//! ([`AGE`]). A time far from its bin's mean is cut ([`CUT`] mean deviations): one stall of a second changes nothing.

use foreseek_units::PAGE_SIZE;

/// Bins of length: octaves from a page to the [longest visit](super::visits::VISIT_LIMIT).
const BINS: usize = 15;
/// Over how many visits of its own length a bin averages. The deviation of a seek and half a rotation is some
/// 40 % of their mean: that leaves 5 % of the mean of two such bins. The mean follows a change within a
/// second or two of a busy disk.
const BIN_MEMORY: f64 = 32.0;
/// After how many visits of other lengths a bin's weight is halved: many more than [`BIN_MEMORY`], and a
/// minute or less of a busy disk.
const AGE: f64 = 1024.0;
/// A time is cut at this many mean deviations from the mean. Rotation and seek of a random visit stay within
/// 3; a retry or a stall is at 10 and more.
const CUT: f64 = 6.0;

/// Visits of similar length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bin {
    visits: f64,
    /// Mean length in bytes.
    pub(super) length: f64,
    /// Mean time in seconds.
    pub(super) time: f64,
    /// Mean deviation from it.
    deviation: f64,
    /// The number of the last visit.
    last: u64,
}

impl Bin {
    /// Adds a visit; `number` counts the visits, also those of other bins.
    pub(super) fn add(&mut self, length: f64, time: f64, number: u64) {
        self.visits = (self.visits + 1.0).min(BIN_MEMORY);
        let weight = 1.0 / self.visits;
        let off = time - self.time;
        // The first few show how far times deviate.
        let cut = if self.visits > 4.0 { CUT * self.deviation } else { f64::INFINITY };
        let off = if self.visits > 1.0 { off.clamp(-cut, cut) } else { off };
        self.time += off * weight;
        self.length += (length - self.length) * weight;
        if self.visits > 1.0 {
            let weight = 1.0 / (self.visits - 1.0);
            self.deviation += (off.abs() - self.deviation) * weight;
        }
        self.last = number;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.visits == 0.0
    }

    /// Its weight in the fit, by the time that such a visit should take: errors grow with that. `now` is the number
    /// of the last visit of any bin.
    pub(super) fn weight(&self, expected: f64, now: u64) -> f64 {
        let age = (now - self.last) as f64 / AGE;
        self.visits * 0.5f64.powf(age) / (expected * expected).max(1e-18)
    }
}

/// Visits with one positioning time, by their length in octaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Bins {
    bins: [Bin; BINS],
    visits: u64,
}

impl Bins {
    /// Adds a visit.
    pub(super) fn add(&mut self, length: f64, time: f64) {
        self.visits += 1;
        let octave = (length as u64 / PAGE_SIZE).max(1).ilog2() as usize;
        self.bins[octave.min(BINS - 1)].add(length, time, self.visits);
    }

    /// The number of visits.
    pub(super) fn visits(&self) -> u64 {
        self.visits
    }

    /// The bins that have visits.
    pub(super) fn filled(&self) -> impl Iterator<Item = &Bin> {
        self.bins.iter().filter(|bin| !bin.is_empty())
    }
}
