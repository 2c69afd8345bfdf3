//! How long passes really take.
//!
//! The model of the device serves one request at a time. A drive has many requests of a pass in its queue, and takes them
//! as they come under its head: a pass over scattered blocks takes about half of what the model says. What a pass is
//! charged is the model's price, since the bound must hold in any case. Whether it is worth its time, and whether the
//! walk has cost as much, is judged by the time that it is expected to take: its price, times what earlier fetches of
//! inodes took over their prices. Those of contents are reported when the last requests are still in the queue.

use foreseek_units::Nanos;

/// Prices before the ratio is believed: some thirty blocks.
const BELIEVED: Nanos = Nanos::from_millis(250);
/// Prices after which older ones count half.
const RECENT: Nanos = Nanos::from_secs(4);
/// The least that is expected: half of the price. What was in memory unnoticed lowers the ratio.
const LEAST: u64 = 2;

/// The ratio of one device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speed {
    took: Nanos,
    price: Nanos,
}

impl Speed {
    /// A fetch with this price took so long.
    pub(crate) fn fetched(&mut self, price: Nanos, took: Nanos) {
        self.took += took;
        self.price += price;
        if self.price > RECENT {
            (self.took, self.price) = (self.took / 2, self.price / 2);
        }
    }

    /// What is expected to be taken of the believed prices, and these.
    fn ratio(self) -> (u64, u64) {
        if self.price < BELIEVED {
            return (1, 1);
        }
        let price = self.price.get();
        (self.took.get().clamp(price / LEAST, price), price)
    }

    /// The time that a pass with this price is expected to take.
    pub(crate) fn time_of(self, price: Nanos) -> Nanos {
        let (took, of) = self.ratio();
        scaled(price, took, of)
    }

    /// The price of a pass that is expected to take so long.
    pub(crate) fn price_of(self, time: Nanos) -> Nanos {
        let (took, of) = self.ratio();
        scaled(time, of, took)
    }
}

fn scaled(time: Nanos, by: u64, over: u64) -> Nanos {
    let scaled = u128::from(time.get()) * u128::from(by) / u128::from(over.max(1));
    Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_expected_to_take_what_earlier_ones_took_over_their_prices() {
        let (mut speed, second) = (Speed::default(), Nanos::from_secs(1));
        speed.fetched(Nanos::from_millis(200), Nanos::from_millis(10));
        assert_eq!((speed.time_of(second), speed.price_of(second)), (second, second), "too little is known");
        (0..20).for_each(|_| speed.fetched(second, Nanos::from_millis(800)));
        let off = |time: Nanos, of: f64| (time.as_secs_f64() - of).abs();
        assert!(off(speed.time_of(second), 0.8) < 0.02 && off(speed.price_of(second), 1.25) < 0.02);
        // Another disk.
        (0..40).for_each(|_| speed.fetched(second, second * 3));
        assert_eq!(speed.time_of(second), second, "never more than the price");
        (0..40).for_each(|_| speed.fetched(second, Nanos(1)));
        assert!(off(speed.time_of(second), 0.5) < 0.001 && off(speed.price_of(second), 2.0) < 0.001);
    }
}
