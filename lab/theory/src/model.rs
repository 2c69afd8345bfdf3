//! The disk's time: a switch for each fetch, and the transfer at the sequential rate.
//!
//! Amounts are bytes as real numbers: the theory has no smallest amount of data, and a depth rounded to whole
//! bytes is no longer exactly `C x R`.

use foreseek_readahead::depth::Depths;
use foreseek_units::{Bytes, DeviceCosts, Lba, Nanos, Rate, Sectors};

/// A disk with a constant switch cost and a constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// `C`: what each fetch costs beside its transfer.
    pub positioning: Nanos,
    /// `R`: the rate of the transfer.
    pub rate: Rate,
}

/// The stream that costs most against its optimum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// How long it is, in bytes: it ends right after this much.
    pub length: f64,
    /// How many fetches are made for it.
    pub fetches: usize,
    /// Their cost over that of one fetch of just the stream.
    pub ratio: f64,
}

impl Model {
    /// `C x R` in bytes: what could be transferred during a switch.
    #[must_use]
    pub fn competitive_depth(&self) -> f64 {
        self.positioning.as_secs_f64() * self.rate.as_bytes_per_second()
    }

    /// The cost of `fetches` fetches of `bytes` together, in seconds.
    #[must_use]
    pub fn cost(&self, fetches: usize, bytes: f64) -> f64 {
        fetches as f64 * self.positioning.as_secs_f64() + bytes / self.rate.as_bytes_per_second()
    }

    /// The cost of a stream of this many bytes if its length is known, in seconds.
    #[must_use]
    pub fn optimum(&self, length: f64) -> f64 {
        self.cost(1, length)
    }

    /// The cost of reading a stream in fetches of these depths, in seconds. The depths must be positive and
    /// together reach the stream's end.
    #[must_use]
    pub fn online(&self, depths: &Depths, length: f64) -> f64 {
        let (fetches, bytes) = depths.until(length);
        self.cost(fetches, bytes)
    }

    /// The cost of those fetches over the optimum.
    #[must_use]
    pub fn ratio(&self, depths: &Depths, length: f64) -> f64 {
        self.online(depths, length) / self.optimum(length)
    }

    /// The stream for which these depths cost most, among those that end within `fetches` fetches.
    ///
    /// A stream costs most when it ends right after the data of a fetch, so that one more fetch has just been
    /// made. The ratio is a supremum: no length reaches it, and streams that are slightly longer approach it.
    #[must_use]
    pub fn worst(&self, depths: &Depths, fetches: usize) -> Worst {
        let mut worst = Worst { length: 0.0, fetches: 0, ratio: 0.0 };
        let mut before = 0.0;
        for (made, depth) in (1..=fetches).zip(depths.iter()) {
            let ratio = self.cost(made, before + depth) / self.optimum(before);
            if ratio > worst.ratio {
                worst = Worst { length: before, fetches: made, ratio };
            }
            before += depth;
        }
        worst
    }

    /// The most that fetches of the constant size `depth` cost over the optimum: `1 + max(depth / CR, CR /
    /// depth)`. For short streams the wasted data decide, for long ones the switches. Both are equal at `depth
    /// = CR`, where the bound is 2 (EuroSys'07 equation 8).
    #[must_use]
    pub fn bound(&self, depth: f64) -> f64 {
        let share = depth / self.competitive_depth();
        1.0 + share.max(1.0 / share)
    }
}

/// Every switch costs the same, whatever the distance, as the lower bound assumes.
impl DeviceCosts for Model {
    fn seek_time(&self, _distance: Sectors) -> Nanos {
        self.positioning
    }

    fn rate_at(&self, _place: Lba) -> Rate {
        self.rate
    }

    fn mean_rate(&self) -> Rate {
        self.rate
    }

    fn average_seek(&self) -> Nanos {
        self.positioning
    }

    /// Part of the switch cost.
    fn half_rotation(&self) -> Nanos {
        Nanos::ZERO
    }

    fn capacity(&self) -> Sectors {
        Bytes(1 << 50).sectors_floor()
    }
}
