//! The costs of a device, as two numbers.

use foreseek_units::{Bytes, Nanos, Rate};

/// The longest plausible positioning time: a tape library's.
const POSITIONING_MOST: Nanos = Nanos::from_secs(600);
/// A positioning time and a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The time to move to another place, until its first byte arrives.
    pub positioning: Nanos,
    /// The transfer rate from there on.
    pub rate: Rate,
}

impl Measured {
    /// Plausible rates, from a tape library to memory, in bytes per second.
    pub const RATES: (f64, f64) = (1e4, 1e12);

    /// The costs, if they are plausible for a device: for values from a file.
    #[must_use]
    pub fn plausible(positioning: Nanos, rate: Rate) -> Option<Self> {
        let bytes = rate.as_bytes_per_second();
        (positioning <= POSITIONING_MOST && (Self::RATES.0..=Self::RATES.1).contains(&bytes))
            .then_some(Self { positioning, rate })
    }

    /// The competitive depth: the bytes transferred in a positioning time.
    #[must_use]
    pub fn depth(&self) -> Bytes {
        self.rate.in_time(self.positioning)
    }

    /// The largest gap that passes under the head: reading beyond it is no positioning.
    #[must_use]
    pub fn gap(&self) -> Bytes {
        self.depth().scale(NEAR)
    }
}

/// A gap of up to this share of the competitive depth passes under the head and is no positioning. Indirect
/// blocks lie between a file's pages, and counting them as positionings would make a device look faster than
/// it is.
const NEAR: f64 = 0.25;
