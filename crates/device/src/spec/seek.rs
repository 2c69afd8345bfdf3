//! The description of a seek curve.

use super::error::ProfileError;
use super::keys::{Keys, bounds};
use super::limits::LONGEST_MS;
use super::write::Writer;
use crate::seek::{DistanceMoments, NoCurve, SeekCurve, TABLE_POINTS_LIMIT, ThreePoints};
use foreseek_units::Nanos;

/// The curve, with its parameters as in the profile.
#[derive(Clone, Debug, PartialEq)]
pub enum SeekSpec {
    /// A root up to a distance, linear beyond (Ruemmler and Wilkes 1994).
    RuemmlerWilkes {
        /// The constant of the short seeks.
        short_ms: f64,
        /// Their factor of the root.
        short_ms_per_sqrt_cylinder: f64,
        /// The constant of the long seeks.
        long_ms: f64,
        /// Their factor of the distance.
        long_ms_per_cylinder: f64,
        /// The distance at which the long seeks begin.
        crossover_cylinders: u32,
    },
    /// Lee's formula over the shortest, the average and the longest seek.
    Lee {
        /// Over one cylinder.
        track_to_track_ms: f64,
        /// Over all.
        full_stroke_ms: f64,
    },
    /// A root and a line through the shortest and the longest seek, with the stated average.
    Calibrated {
        /// Over one cylinder.
        track_to_track_ms: f64,
        /// Over all.
        full_stroke_ms: f64,
    },
    /// Measured times, linear in between.
    Table {
        /// Distances, ascending whole numbers.
        distance_cylinders: Vec<f64>,
        /// The time of each.
        time_ms: Vec<f64>,
    },
}

const MODELS: &str = "'calibrated', 'lee', 'ruemmler-wilkes' or 'table'";

impl SeekSpec {
    pub(crate) fn read(mut keys: Keys<'_>) -> Result<Self, ProfileError> {
        let times = bounds(0.0, LONGEST_MS);
        let cylinders = bounds(1.0, f64::from(u32::MAX));
        let spec = match keys.text("model")? {
            "ruemmler-wilkes" => Self::RuemmlerWilkes {
                short_ms: keys.number("short_ms", times)?,
                short_ms_per_sqrt_cylinder: keys.number("short_ms_per_sqrt_cylinder", times)?,
                long_ms: keys.number("long_ms", times)?,
                long_ms_per_cylinder: keys.number("long_ms_per_cylinder", times)?,
                crossover_cylinders: keys.whole("crossover_cylinders", bounds(1, u64::from(u32::MAX)))?
                    as u32,
            },
            "lee" => Self::Lee {
                track_to_track_ms: keys.number("track_to_track_ms", times)?,
                full_stroke_ms: keys.number("full_stroke_ms", times)?,
            },
            "calibrated" => Self::Calibrated {
                track_to_track_ms: keys.number("track_to_track_ms", times)?,
                full_stroke_ms: keys.number("full_stroke_ms", times)?,
            },
            "table" => {
                let length = bounds(1, TABLE_POINTS_LIMIT);
                let distances = keys.numbers("distance_cylinders", length, cylinders)?;
                let times = keys.numbers("time_ms", length, times)?;
                Self::check_table(&keys, &distances, &times)?;
                Self::Table { distance_cylinders: distances, time_ms: times }
            }
            other => return Err(keys.wrong("model", format!("is '{other}', must be {MODELS}"))),
        };
        keys.finish()?;
        Ok(spec)
    }

    fn check_table(keys: &Keys<'_>, distances: &[f64], times: &[f64]) -> Result<(), ProfileError> {
        if distances.len() != times.len() {
            let reason = format!("has {} entries, distance_cylinders has {}", times.len(), distances.len());
            return Err(keys.wrong("time_ms", reason));
        }
        if distances.iter().any(|distance| distance.fract() != 0.0) {
            return Err(keys.wrong("distance_cylinders", "must be whole numbers"));
        }
        if !distances.is_sorted_by(|one, next| one < next) {
            return Err(keys.wrong("distance_cylinders", "must ascend, each greater than the one before"));
        }
        Ok(())
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.table("seek");
        match self {
            Self::RuemmlerWilkes {
                short_ms,
                short_ms_per_sqrt_cylinder,
                long_ms,
                long_ms_per_cylinder,
                crossover_cylinders,
            } => {
                to.text("model", "ruemmler-wilkes");
                to.number("short_ms", *short_ms);
                to.number("short_ms_per_sqrt_cylinder", *short_ms_per_sqrt_cylinder);
                to.number("long_ms", *long_ms);
                to.number("long_ms_per_cylinder", *long_ms_per_cylinder);
                to.whole("crossover_cylinders", u64::from(*crossover_cylinders));
            }
            Self::Lee { track_to_track_ms, full_stroke_ms }
            | Self::Calibrated { track_to_track_ms, full_stroke_ms } => {
                let lee = matches!(self, Self::Lee { .. });
                to.text("model", if lee { "lee" } else { "calibrated" });
                to.number("track_to_track_ms", *track_to_track_ms);
                to.number("full_stroke_ms", *full_stroke_ms);
            }
            Self::Table { distance_cylinders, time_ms } => {
                to.text("model", "table");
                to.numbers("distance_cylinders", distance_cylinders);
                to.numbers("time_ms", time_ms);
            }
        }
        to.end_table();
    }

    /// The time for one cylinder.
    #[must_use]
    pub fn shortest_ms(&self) -> f64 {
        match self {
            Self::RuemmlerWilkes { crossover_cylinders: 1, long_ms, long_ms_per_cylinder, .. } => {
                long_ms + long_ms_per_cylinder
            }
            Self::RuemmlerWilkes { short_ms, short_ms_per_sqrt_cylinder, .. } => {
                short_ms + short_ms_per_sqrt_cylinder
            }
            Self::Lee { track_to_track_ms, .. } | Self::Calibrated { track_to_track_ms, .. } => {
                *track_to_track_ms
            }
            Self::Table { time_ms, .. } => time_ms.first().copied().unwrap_or(0.0),
        }
    }

    /// An upper bound of the time for a distance: for forms whose coefficients depend on the layout the full
    /// stroke.
    pub(crate) fn at_most_ms(&self, distance: u32) -> f64 {
        match self {
            Self::Lee { full_stroke_ms, track_to_track_ms }
            | Self::Calibrated { full_stroke_ms, track_to_track_ms } => {
                if distance > 1 {
                    *full_stroke_ms
                } else {
                    *track_to_track_ms
                }
            }
            Self::RuemmlerWilkes {
                short_ms,
                short_ms_per_sqrt_cylinder,
                long_ms,
                long_ms_per_cylinder,
                ..
            } => {
                let cylinders = f64::from(distance);
                let (short, long) = (
                    short_ms + short_ms_per_sqrt_cylinder * cylinders.sqrt(),
                    long_ms + long_ms_per_cylinder * cylinders,
                );
                short.max(long)
            }
            Self::Table { distance_cylinders, time_ms } => {
                let above = distance_cylinders.partition_point(|point| *point < f64::from(distance));
                time_ms.iter().take(above + 1).copied().fold(0.0, f64::max)
            }
        }
    }

    /// The curve over a number of cylinders.
    pub(crate) fn curve(
        &self,
        average_ms: f64,
        cylinders: u32,
        moments: &DistanceMoments,
        keys: &Keys<'_>,
    ) -> Result<SeekCurve, ProfileError> {
        let ns = |ms: f64| ms * 1e6;
        let points = |shortest_ms: &f64, longest_ms: &f64| ThreePoints {
            shortest_ms: *shortest_ms,
            average_ms,
            longest_ms: *longest_ms,
        };
        let curve = match self {
            Self::RuemmlerWilkes {
                short_ms,
                short_ms_per_sqrt_cylinder,
                long_ms,
                long_ms_per_cylinder,
                crossover_cylinders,
            } => Ok(SeekCurve::RuemmlerWilkes {
                a: ns(*short_ms),
                b: ns(*short_ms_per_sqrt_cylinder),
                c: ns(*long_ms),
                e: ns(*long_ms_per_cylinder),
                crossover: *crossover_cylinders,
            }),
            Self::Lee { track_to_track_ms, full_stroke_ms } => {
                SeekCurve::lee(points(track_to_track_ms, full_stroke_ms), cylinders)
            }
            Self::Calibrated { track_to_track_ms, full_stroke_ms } => {
                SeekCurve::calibrated(points(track_to_track_ms, full_stroke_ms), moments)
            }
            Self::Table { distance_cylinders, time_ms } => Ok(SeekCurve::Table {
                distances: distance_cylinders.iter().map(|distance| *distance as u32).collect(),
                times: time_ms.iter().map(|time| Nanos::from_millis_f64(*time)).collect(),
            }),
        };
        let curve = curve.map_err(|why| match why {
            NoCurve::FullStroke { least_ms, most_ms } => {
                // Rounded to permitted values.
                let (least, most) = ((least_ms * 100.0).ceil() / 100.0, (most_ms * 100.0).floor() / 100.0);
                keys.wrong(
                    "seek.full_stroke_ms",
                    format!(
                        "makes no curve with an average of {average_ms} ms: must be from {least} to {most}"
                    ),
                )
            }
            NoCurve::TooFewCylinders => {
                keys.wrong("seek.model", format!("needs three cylinders, the disk has {cylinders}"))
            }
        })?;
        let longest = curve.time(f64::from(cylinders - 1)).as_millis_f64();
        if longest > LONGEST_MS {
            let reason = format!("the full stroke would take {longest:.1} ms, must be at most {LONGEST_MS}");
            return Err(keys.wrong("seek", reason));
        }
        Ok(curve)
    }
}
