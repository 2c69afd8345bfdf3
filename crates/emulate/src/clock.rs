//! Converts real time to modelled time and back, with a factor that can change while the disk runs.

use foreseek_units::{Instant, Nanos};

/// The smallest and largest factor. Below, only the path's own cost would remain. Above, a single request
/// would take minutes, and the kernel would report a hung disk.
pub(crate) const SCALES: std::ops::RangeInclusive<f64> = 0.001..=100.0;

/// Maps real time to modelled time: a piecewise linear function without jumps, whose slope changes with the
/// factor. Modelled time therefore never runs backwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelClock {
    real: Instant,
    model: Instant,
    scale: f64,
}

impl ModelClock {
    /// Modelled time begins now.
    pub(crate) fn new(now: Instant, scale: f64) -> Self {
        Self { real: now, model: Instant::ZERO, scale }
    }

    pub(crate) fn scale(&self) -> f64 {
        self.scale
    }

    /// The modelled time at a real time; for times before the last change of the factor, that of the change.
    pub(crate) fn model_at(&self, real: Instant) -> Instant {
        let passed = (real - self.real).get() as f64 / self.scale;
        self.model + Nanos(passed as u64)
    }

    /// The first real time at which modelled time is at least `model`.
    pub(crate) fn real_at(&self, model: Instant) -> Instant {
        let passed = (model - self.model).get() as f64 * self.scale;
        let mut real = self.real + Nanos(passed as u64);
        while self.model_at(real) < model {
            real += Nanos(1);
        }
        real
    }

    /// The real time of modelled time zero, if the present factor had always applied.
    pub(crate) fn epoch(&self) -> Instant {
        self.real - self.model.distance(Instant::ZERO).scale(self.scale)
    }

    /// Changes the factor from `now` on.
    pub(crate) fn set_scale(&mut self, now: Instant, scale: f64) {
        *self = Self { real: now.max(self.real), model: self.model_at(now), scale };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn modelled_time_never_runs_backwards(
            steps in prop::collection::vec((0..10_000_000_000u64, prop::option::of(0.001..100.0f64)), 1..50)
        ) {
            let mut now = Instant(1_000);
            let mut clock = ModelClock::new(now, 1.0);
            let mut last = clock.model_at(now);
            for (passed, scale) in steps {
                now += Nanos(passed);
                let model = clock.model_at(now);
                prop_assert!(model >= last);
                last = model;
                if let Some(scale) = scale {
                    clock.set_scale(now, scale);
                    prop_assert!(clock.model_at(now) == last, "a jump");
                }
            }
        }

        #[test]
        fn the_way_back_is_the_first_time_that_is_late_enough(
            scale in 0.001..100.0f64, ahead in 0..1_000_000_000_000u64
        ) {
            let clock = ModelClock::new(Instant(5), scale);
            let real = clock.real_at(Instant(ahead));
            prop_assert!(clock.model_at(real) >= Instant(ahead));
            // Within the rounding of a division.
            prop_assert!(real == Instant(5) || clock.model_at(real - Nanos(2)) <= Instant(ahead));
        }

        #[test]
        fn a_factor_scales_what_passes(scale in 0.01..100.0f64, passed in 1..1_000_000_000u64) {
            let clock = ModelClock::new(Instant(0), scale);
            let real = clock.real_at(Instant(passed)).get() as f64;
            prop_assert!((real - passed as f64 * scale).abs() <= scale + 1.0);
        }
    }
}
