//! Rates: bytes per second.

use crate::{Bytes, Nanos};
use std::fmt;

/// A transfer rate. Shown in MB/s of 10^6 bytes, as disk vendors and the papers do.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate {
    bytes_per_second: f64,
}

impl Rate {
    /// `rate` bytes per second; it must be positive and finite to be useful as a divisor.
    #[must_use]
    pub const fn bytes_per_second(rate: f64) -> Self {
        Self { bytes_per_second: rate }
    }

    /// `rate` MB/s of 10^6 bytes.
    #[must_use]
    pub fn mb_per_second(rate: f64) -> Self {
        Self { bytes_per_second: rate * 1e6 }
    }

    /// In bytes per second.
    #[must_use]
    pub const fn as_bytes_per_second(self) -> f64 {
        self.bytes_per_second
    }

    /// In MB/s of 10^6 bytes.
    #[must_use]
    pub fn as_mb_per_second(self) -> f64 {
        self.bytes_per_second / 1e6
    }

    /// The time for `amount` at this rate, rounded to the nanosecond.
    #[must_use]
    pub fn time_for(self, amount: Bytes) -> Nanos {
        Nanos::from_secs_f64(amount.get() as f64 / self.bytes_per_second)
    }

    /// The amount in `time` at this rate, rounded to the byte. With the positioning time of a device this is
    /// its competitive depth (TR-840 section 3).
    #[must_use]
    pub fn in_time(self, time: Nanos) -> Bytes {
        Bytes((self.bytes_per_second * time.as_secs_f64()).round() as u64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} MB/s", self.as_mb_per_second()))
    }
}
