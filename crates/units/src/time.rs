//! Times and durations, in nanoseconds.

use crate::amount::amount;
use crate::position::{Position, position};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

amount! {
    /// A duration in nanoseconds.
    Nanos
}
position! {
    /// A point in time: nanoseconds since an origin of the driver's choice, in virtual or real time.
    Instant, Nanos
}

impl Nanos {
    /// `us` microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// `ms` milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// `s` seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// Milliseconds with a fraction, rounded to the nanosecond; negative counts as zero.
    #[must_use]
    pub fn from_millis_f64(ms: f64) -> Self {
        Self((ms * 1e6).round().max(0.0) as u64)
    }

    /// Seconds with a fraction, rounded to the nanosecond; negative counts as zero.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round().max(0.0) as u64)
    }

    /// As microseconds.
    #[must_use]
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// As milliseconds.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// As seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for std::time::Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0..1_000 => format!("{} ns", self.0),
            1_000..1_000_000 => format!("{:.1} us", self.as_micros_f64()),
            1_000_000..1_000_000_000 => format!("{:.2} ms", self.as_millis_f64()),
            _ => format!("{:.2} s", self.as_secs_f64()),
        };
        f.pad(&text)
    }
}
