//! The seek time as a function of the distance in cylinders.
//!
//! Four forms, all `t(0) = 0`:
//!
//! - *Ruemmler and Wilkes* (IEEE Computer 27(3), 1994): `a + b sqrt(d)` below a crossover distance, where the
//!   arm accelerates half the way, and `c + e d` from there on, where it coasts.
//! - *Lee* (three parameters): `a sqrt(d - 1) + b (d - 1) + c` with the coefficients of Lee's formulas for
//!   the one-cylinder, average and full-stroke times over N cylinders. The average of that curve is only near
//!   the given one; a negative `a` or `b` is refused.
//! - *Calibrated*: Lee's shape with `a` and `b` solved so that the full stroke and the average over random
//!   pairs of sectors *of this geometry* are exact. The built-in profiles use it.
//! - *Table*: an extracted curve, linear between its points.
//!
//! Limits: one curve for both directions, for reads and writes alike; settling is part of it.

use foreseek_units::Nanos;

/// The most points of a seek table. Extracted curves have about 150; a search through the limit takes twelve
/// steps.
pub const TABLE_POINTS_LIMIT: usize = 4096;

/// Seek time as a function of distance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SeekCurve {
    /// `a + b sqrt(d)` below `crossover`, `c + e d` from there on; nanoseconds and cylinders.
    RuemmlerWilkes { a: f64, b: f64, c: f64, e: f64, crossover: u32 },
    /// `a sqrt(d - 1) + b (d - 1) + c`; nanoseconds and cylinders.
    Lee { a: f64, b: f64, c: f64 },
    /// Points of ascending distance, linear between them, level beyond the ends.
    Table { distances: Vec<u32>, times: Vec<Nanos> },
}

/// The three times of Lee's and the calibrated form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ThreePoints {
    /// One cylinder.
    pub(crate) shortest_ms: f64,
    /// Over random pairs of positions.
    pub(crate) average_ms: f64,
    /// From the first cylinder to the last.
    pub(crate) longest_ms: f64,
}

/// Why three times make no curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NoCurve {
    /// The full stroke is too short or too long for the other two: a coefficient would be negative.
    FullStroke {
        /// The shortest full stroke that makes a curve with them.
        least_ms: f64,
        /// The longest one.
        most_ms: f64,
    },
    /// There are fewer than three cylinders.
    TooFewCylinders,
}

/// The seek distances of random accesses, for the calibrated form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DistanceMoments {
    /// The longest distance.
    pub(crate) longest: f64,
    /// The share of pairs on one cylinder.
    pub(crate) at_zero: f64,
    /// Mean of `sqrt(d - 1)` over all pairs, those at distance zero counting zero.
    pub(crate) root: f64,
    /// Mean of `d - 1` over all pairs, those at distance zero counting zero.
    pub(crate) linear: f64,
}

impl SeekCurve {
    /// Lee's curve over `cylinders`, by Lee's formulas.
    pub(crate) fn lee(points: ThreePoints, cylinders: u32) -> Result<Self, NoCurve> {
        if cylinders < 3 {
            return Err(NoCurve::TooFewCylinders);
        }
        let ThreePoints { shortest_ms: min, average_ms: avg, longest_ms: max } = points;
        let n = f64::from(cylinders);
        let a = (-10.0 * min + 15.0 * avg - 5.0 * max) / (3.0 * n.sqrt());
        let b = (7.0 * min - 15.0 * avg + 8.0 * max) / (3.0 * n);
        // At which b and a are zero.
        let (least_ms, most_ms) = ((15.0 * avg - 7.0 * min) / 8.0, 3.0 * avg - 2.0 * min);
        Self::lee_from_ms(a, b, min).ok_or(NoCurve::FullStroke { least_ms, most_ms })
    }

    /// Lee's shape with an exact average of random accesses.
    ///
    /// Two linear equations in `a` and `b`: the curve at the longest distance is `longest`, and its
    /// mean over the distances is `average`.
    pub(crate) fn calibrated(points: ThreePoints, moments: &DistanceMoments) -> Result<Self, NoCurve> {
        let reach = moments.longest - 1.0;
        let determinant = reach.sqrt() * moments.linear - reach * moments.root;
        if reach < 1.0 || determinant == 0.0 {
            return Err(NoCurve::TooFewCylinders);
        }
        let rise = points.longest_ms - points.shortest_ms;
        let mean = points.average_ms - points.shortest_ms * (1.0 - moments.at_zero);
        let a = (rise * moments.linear - mean * reach) / determinant;
        let b = (reach.sqrt() * mean - moments.root * rise) / determinant;
        // At which b and a are zero.
        let least_ms = points.shortest_ms + reach.sqrt() * mean / moments.root;
        let most_ms = points.shortest_ms + mean * reach / moments.linear;
        Self::lee_from_ms(a, b, points.shortest_ms).ok_or(NoCurve::FullStroke { least_ms, most_ms })
    }

    /// `None` if the curve would fall.
    fn lee_from_ms(a: f64, b: f64, c: f64) -> Option<Self> {
        (a >= 0.0 && b >= 0.0).then_some(Self::Lee { a: a * 1e6, b: b * 1e6, c: c * 1e6 })
    }

    /// The time for `distance` cylinders, which may be fractional for a fitted curve.
    pub(crate) fn time(&self, distance: f64) -> Nanos {
        if distance <= 0.0 {
            return Nanos::ZERO;
        }
        match self {
            Self::RuemmlerWilkes { a, b, .. } if distance < self.crossover() => {
                Nanos((a + b * distance.sqrt()) as u64)
            }
            Self::RuemmlerWilkes { c, e, .. } => Nanos((c + e * distance) as u64),
            Self::Lee { a, b, c } => {
                let beyond = (distance - 1.0).max(0.0);
                Nanos((a * beyond.sqrt() + b * beyond + c) as u64)
            }
            Self::Table { distances, times } => interpolate(distances, times, distance),
        }
    }

    fn crossover(&self) -> f64 {
        match self {
            Self::RuemmlerWilkes { crossover, .. } => f64::from(*crossover),
            _ => 0.0,
        }
    }
}

fn interpolate(distances: &[u32], times: &[Nanos], distance: f64) -> Nanos {
    let above = distances.partition_point(|point| f64::from(*point) < distance);
    let (Some(&high), Some(low)) = (distances.get(above), above.checked_sub(1)) else {
        return times.get(above).or(times.last()).copied().unwrap_or_default();
    };
    let (from, to) = (times[low].get() as f64, times[above].get() as f64);
    let share = (distance - f64::from(distances[low])) / f64::from(high - distances[low]);
    Nanos((from + (to - from) * share) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(curve: &SeekCurve, distance: f64) -> f64 {
        curve.time(distance).as_millis_f64()
    }

    /// The HP 97560 as Ruemmler and Wilkes published it: 3.24 + 0.400 sqrt(d) below 383 cylinders,
    /// 8.00 + 0.008 d from there on.
    #[test]
    fn the_published_curve_of_the_hp_97560() {
        let curve = SeekCurve::RuemmlerWilkes { a: 3.24e6, b: 0.4e6, c: 8e6, e: 0.008e6, crossover: 383 };
        for (distance, expected) in
            [(0.0, 0.0), (1.0, 3.64), (100.0, 7.24), (382.0, 11.058), (383.0, 11.064), (1961.0, 23.688)]
        {
            assert!((ms(&curve, distance) - expected).abs() < 1e-3, "{distance}: {}", ms(&curve, distance));
        }
    }

    #[test]
    fn lees_formulas_by_hand() {
        // N = 900: a = (-20 + 165 - 100) / 90 = 0.5, b = (14 - 165 + 160) / 2700 = 1/300.
        let points = ThreePoints { shortest_ms: 2.0, average_ms: 11.0, longest_ms: 20.0 };
        let curve = SeekCurve::lee(points, 900).expect("both coefficients are positive");
        for (distance, expected) in [(0.0, 0.0), (1.0, 2.0), (101.0, 7.333), (401.0, 13.333), (899.0, 19.977)]
        {
            assert!((ms(&curve, distance) - expected).abs() < 1e-2, "{distance}: {}", ms(&curve, distance));
        }
    }

    #[test]
    fn lees_curve_is_refused_where_a_coefficient_is_negative() {
        let curve =
            |longest_ms| SeekCurve::lee(ThreePoints { shortest_ms: 1.0, average_ms: 8.0, longest_ms }, 1000);
        let refused = Err(NoCurve::FullStroke { least_ms: 113.0 / 8.0, most_ms: 22.0 });
        for (longest_ms, good) in [(14.0, false), (14.13, true), (16.0, true), (21.99, true), (23.0, false)] {
            let curve = curve(longest_ms);
            assert!(if good { curve.is_ok() } else { curve == refused }, "{longest_ms}: {curve:?}");
        }
        let points = ThreePoints { shortest_ms: 1.0, average_ms: 8.0, longest_ms: 16.0 };
        assert_eq!(SeekCurve::lee(points, 2), Err(NoCurve::TooFewCylinders));
    }

    #[test]
    fn a_table_is_linear_between_its_points_and_level_beyond_them() {
        let curve = SeekCurve::Table {
            distances: vec![2, 10, 110],
            times: [1.0, 2.0, 7.0].map(Nanos::from_millis_f64).to_vec(),
        };
        for (distance, expected) in [
            (0.0, 0.0),
            (1.0, 1.0),
            (2.0, 1.0),
            (6.0, 1.5),
            (10.0, 2.0),
            (60.0, 4.5),
            (110.0, 7.0),
            (9e9, 7.0),
        ] {
            assert!((ms(&curve, distance) - expected).abs() < 1e-6, "{distance}: {}", ms(&curve, distance));
        }
    }
}
