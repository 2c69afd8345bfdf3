//! A straight line through the times of visits: `time = positioning + per_byte * length`.
//!
//! It is computed from the weight, the length and the time of each point, by weighted least squares. Several lines may
//! share their slope: the slope of each is taken with its weight ([`Sums::slope`]), and these are added
//! ([`Slope::and`]).

/// The sums of a weighted least-squares fit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    ones: f64,
    lengths: f64,
    squares: f64,
    times: f64,
    moments: f64,
}

impl Sums {
    pub(super) fn add(&mut self, weight: f64, length: f64, time: f64) {
        self.ones += weight;
        self.lengths += weight * length;
        self.squares += weight * length * length;
        self.times += weight * time;
        self.moments += weight * length * time;
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            ones: self.ones + other.ones,
            lengths: self.lengths + other.lengths,
            squares: self.squares + other.squares,
            times: self.times + other.times,
            moments: self.moments + other.moments,
        }
    }

    /// The slope if the positioning is unknown.
    pub(super) fn slope(&self) -> Slope {
        if self.ones == 0.0 {
            return Slope::default();
        }
        Slope {
            squares: self.squares - self.lengths * self.lengths / self.ones,
            moments: self.moments - self.lengths * self.times / self.ones,
        }
    }

    /// The slope with this positioning.
    pub(super) fn through(&self, positioning: f64) -> Slope {
        Slope { squares: self.squares, moments: self.moments - self.lengths * positioning }
    }

    /// The positioning with this slope.
    pub(super) fn intercept(&self, per_byte: f64) -> f64 {
        (self.times - self.lengths * per_byte) / self.ones
    }
}

/// A slope, in seconds for a byte, and its weight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slope {
    squares: f64,
    moments: f64,
}

impl Slope {
    pub(super) fn of(weight: f64, per_byte: f64) -> Self {
        Self { squares: weight, moments: weight * per_byte }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, moments: self.moments + other.moments }
    }

    /// The seconds for a byte. By chance they may be zero or negative.
    pub(super) fn value(self) -> f64 {
        self.moments / self.squares
    }
}
