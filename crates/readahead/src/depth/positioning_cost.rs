//! The current cost of a positioning: an average over the device's last seeks, plus half a rotation.
//!
//! The two papers average differently. TR-840 (section 3) keeps an exponentially weighted average of
//! the seek *distances* and maps the mean by `f_seek`; EuroSys'07 (section 5) maps each distance and
//! averages the *times*. As seek curves are concave, the first way gives the longer time.
//!
//! Only positionings count. A request that begins where the one before ended needs no seek; a block layer splits
//! one fetch into such pieces, which would pull the average towards zero.
//!
//! Before the first seek the estimate is that of random places: the average seek, or the time for a third of
//! the device, the mean distance of two independent places.

use super::rule::Served;
use foreseek_units::{DeviceCosts, Nanos, Sectors};
use std::sync::Arc;

/// Weight of the newest seek. Neither paper gives its own. The kernels of the papers use an eighth for
/// similar averages, the anticipatory scheduler's seek distance and think time (they decay by 7/8). The last
/// dozen seeks make four fifths of the estimate, so that it follows a change of load within a tenth of a
/// second of disk time.
pub const POSITIONING_WEIGHT: f64 = 0.125;

/// The quantity that is averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Averaging {
    /// Seek distances; the mean is mapped to a time (TR-840).
    Distances,
    /// Seek times (EuroSys'07).
    #[default]
    Times,
}

/// The running estimate of the positioning cost.
#[derive(Clone)]
pub struct PositioningCost {
    costs: Arc<dyn DeviceCosts>,
    averaging: Averaging,
    weight: f64,
    /// Sectors or nanoseconds, depending on what is averaged.
    mean: f64,
    estimate: Nanos,
}

impl PositioningCost {
    /// For a device. `weight` of the newest seek is clamped to 0..=1; a NaN becomes [`POSITIONING_WEIGHT`].
    #[must_use]
    pub fn new(costs: Arc<dyn DeviceCosts>, averaging: Averaging, weight: f64) -> Self {
        let (mean, seek) = match averaging {
            Averaging::Distances => {
                let third = costs.capacity() / 3;
                (third.get() as f64, costs.seek_time(third))
            }
            Averaging::Times => (costs.average_seek().get() as f64, costs.average_seek()),
        };
        let estimate = seek + costs.half_rotation();
        let weight = if weight.is_nan() { POSITIONING_WEIGHT } else { weight.clamp(0.0, 1.0) };
        Self { costs, averaging, weight, mean, estimate }
    }

    /// A request was served.
    pub fn served(&mut self, served: Served) {
        let distance = served.from.distance(served.range.start);
        if distance.is_zero() {
            return;
        }
        let newest = match self.averaging {
            Averaging::Distances => distance.get(),
            Averaging::Times => self.costs.seek_time(distance).get(),
        };
        self.mean += (newest as f64 - self.mean) * self.weight;
        let seek = match self.averaging {
            Averaging::Distances => self.costs.seek_time(Sectors(self.mean.round() as u64)),
            Averaging::Times => Nanos(self.mean.round() as u64),
        };
        self.estimate = seek + self.costs.half_rotation();
    }

    /// The current estimate of the cost of a positioning.
    #[must_use]
    pub fn estimate(&self) -> Nanos {
        self.estimate
    }

    /// The device's costs.
    #[must_use]
    pub fn costs(&self) -> &dyn DeviceCosts {
        &*self.costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_device::Profile;
    use foreseek_units::{Lba, SectorSpan};

    fn costs() -> Arc<Profile> {
        Arc::new(Profile::builtin("ibm-36g-51").expect("a built-in profile"))
    }

    fn seek(from: u64, to: u64) -> Served {
        Served { from: Lba(from), range: SectorSpan::at(Lba(to), Sectors(64)) }
    }

    #[test]
    fn before_the_first_seek_it_is_that_of_random_places() {
        let times = PositioningCost::new(costs(), Averaging::Times, POSITIONING_WEIGHT);
        assert_eq!(times.estimate(), Nanos::from_millis_f64(10.53));
        let distances = PositioningCost::new(costs(), Averaging::Distances, POSITIONING_WEIGHT);
        let third = costs().capacity().sectors_floor() / 3;
        assert_eq!(distances.estimate(), costs().seek_time(third) + Nanos::from_millis(3));
    }

    #[test]
    fn the_average_moves_by_the_weight_and_transfers_in_place_do_not_count() {
        let mut positioning = PositioningCost::new(costs(), Averaging::Times, 0.25);
        positioning.served(seek(1000, 1000));
        assert_eq!(positioning.estimate(), Nanos::from_millis_f64(10.53));
        let newest = costs().seek_time(Sectors(500_000)).get() as f64;
        positioning.served(seek(0, 500_000));
        let expected = 7.53e6 * 0.75 + newest * 0.25 + 3e6;
        assert!((positioning.estimate().get() as f64 - expected).abs() <= 1.0, "{}", positioning.estimate());
    }

    /// The curve is concave: the time of the mean distance is longer than the mean of the times.
    #[test]
    fn averaging_distances_gives_more_than_averaging_times() {
        let estimate = |averaging| {
            let mut positioning = PositioningCost::new(costs(), averaging, 0.05);
            for round in 0..400u64 {
                let far = if round % 2 == 0 { 40_000 } else { 60_000_000 };
                positioning.served(seek(0, far));
            }
            positioning.estimate()
        };
        let (distances, times) = (estimate(Averaging::Distances), estimate(Averaging::Times));
        assert!(distances > times.scale(1.1), "{distances} and {times}");
    }

    #[test]
    fn it_follows_a_change_within_some_dozen_seeks() {
        let mut positioning = PositioningCost::new(costs(), Averaging::Times, POSITIONING_WEIGHT);
        for _ in 0..36 {
            positioning.served(seek(0, 2000));
        }
        let near = costs().seek_time(Sectors(2000)) + Nanos::from_millis(3);
        assert!(positioning.estimate() - near < near.scale(0.02), "{} of {near}", positioning.estimate());
    }
}
