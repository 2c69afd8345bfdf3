//! What a device costs, as two numbers.

use foreseek_units::{Bytes, Nanos, Rate};

/// The longest switch that is believed: a tape library's.
const SWITCH_MOST: Nanos = Nanos::from_secs(600);
/// A switch time and a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// How long going to another place takes, until the first byte of it comes.
    pub switch: Nanos,
    /// The rate of reading on from there.
    pub rate: Rate,
}

impl Measured {
    /// Rates are between those of a tape library and of memory, in bytes a second.
    pub const RATES: (f64, f64) = (1e4, 1e12);

    /// What a device can be like, as far as these numbers go: for what was read from somewhere.
    #[must_use]
    pub fn plausible(switch: Nanos, rate: Rate) -> Option<Self> {
        let bytes = rate.as_bytes_per_second();
        (switch <= SWITCH_MOST && (Self::RATES.0..=Self::RATES.1).contains(&bytes))
            .then_some(Self { switch, rate })
    }

    /// The competitive depth: what passes in the time of a switch.
    #[must_use]
    pub fn depth(&self) -> Bytes {
        self.rate.in_time(self.switch)
    }

    /// How large a gap passes under the head: reading on behind it is no switch.
    #[must_use]
    pub fn gap(&self) -> Bytes {
        self.depth().scale(NEAR)
    }
}

/// A gap of up to this share of what passes during a switch is no switch: it passes under the head. Indirect
/// blocks lie between a file's pages, and counting them as switches would make a device look faster
/// than it is.
const NEAR: f64 = 0.25;
