//! The settings of the prefetchers of streams.

use super::generation::Generation;
use crate::depth::{Averaging, POSITIONING_WEIGHT, PageMeasure, SLOW_START};
use foreseek_units::{Bytes, Pages};
use serde::{Deserialize, Deserializer};
use std::ops::RangeInclusive;

/// The largest window or depth in a setting: a gibibyte, more than any memory should give to one fetch.
const PAGES_LIMIT: u64 = Bytes::gib(1).pages_floor().0;

/// The default bound of `adaptive`. With known lengths, 3 reaches 98 % of the throughput without a bound,
/// over ten loads on two disks. docs/lab/adaptive.md has the other bounds.
pub const RHO: f64 = 3.0;
/// The largest bound in a setting: more than a thousand times the optimum is not meant.
pub const RHO_LIMIT: f64 = 1000.0;
/// The permitted bounds. No rule can keep less than 2 (EuroSys'07 section 4.2).
pub const RHO_RANGE: RangeInclusive<f64> = 2.0..=RHO_LIMIT;

/// Settings of all prefetchers of streams; each uses those that concern it. In a file the keys have their
/// unit: `window_pages`, `aggressive_pages`, `slow_start_pages`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The kernel in which the competitive and the aggressive depth replace the stock one.
    pub generation: Generation,
    /// The largest window of a stock kernel, also for page faults: 128 KiB in all of them.
    #[serde(rename = "window_pages", deserialize_with = "pages")]
    pub window: Pages,
    /// The depth of aggressive prefetching: 256 pages (TR-840 section 5.2). EuroSys'07 (section 6.2) uses 800
    /// KB.
    #[serde(rename = "aggressive_pages", deserialize_with = "pages")]
    pub aggressive: Pages,
    /// The first window of slow start.
    #[serde(rename = "slow_start_pages", deserialize_with = "pages")]
    pub slow_start: Pages,
    /// The quantity whose average estimates the positioning cost.
    pub averaging: Averaging,
    /// The weight of the newest seek in that average, 0 to 1.
    #[serde(alias = "switch_weight", deserialize_with = "share")]
    pub positioning_weight: f64,
    /// How the competitive depth is converted to pages.
    pub page_measure: PageMeasure,
    /// The most that a stream may cost under `adaptive`, as a multiple of the optimum: 2 to [`RHO_LIMIT`].
    #[serde(deserialize_with = "rho")]
    pub rho: f64,
    /// Whether hits of pages in memory are not visible, as in a mount whose kernel keeps a cache. A reader
    /// that leaves in front of such a page may then have read on unseen.
    pub unseen_hits: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            generation: Generation::ON_DEMAND,
            window: Pages(32),
            aggressive: Pages(256),
            slow_start: SLOW_START,
            averaging: Averaging::default(),
            positioning_weight: POSITIONING_WEIGHT,
            page_measure: PageMeasure::default(),
            rho: RHO,
            unseen_hits: false,
        }
    }
}

fn pages<'de, D: Deserializer<'de>>(from: D) -> Result<Pages, D::Error> {
    let pages = u64::deserialize(from)?;
    if (1..=PAGES_LIMIT).contains(&pages) {
        return Ok(Pages(pages));
    }
    Err(serde::de::Error::custom(format!("must be from 1 to {PAGES_LIMIT} pages, is {pages}")))
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(from)?;
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    Err(serde::de::Error::custom(format!("must be from 0 to 1, is {share}")))
}

fn rho<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let rho = f64::deserialize(from)?;
    if RHO_RANGE.contains(&rho) {
        return Ok(rho);
    }
    Err(serde::de::Error::custom(format!("must be from 2 to {RHO_LIMIT}, is {rho}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_toml_with_units_in_the_keys() {
        let text = r#"
            generation = "demand"
            window_pages = 64
            averaging = "distances"
            positioning_weight = 0.5
            page_measure = "paper"
        "#;
        let expected = Settings {
            generation: Generation::DEMAND,
            window: Pages(64),
            averaging: Averaging::Distances,
            positioning_weight: 0.5,
            page_measure: PageMeasure::Paper,
            ..Settings::default()
        };
        assert_eq!(toml::from_str(text), Ok(expected));
        assert_eq!(toml::from_str(""), Ok(Settings::default()));
        let earlier = Settings { positioning_weight: 0.25, ..Settings::default() };
        assert_eq!(toml::from_str("switch_weight = 0.25"), Ok(earlier));
    }

    #[test]
    fn every_generation_is_read_by_its_name() {
        for generation in Generation::ALL {
            let text = format!("generation = \"{}\"", generation.name());
            assert_eq!(toml::from_str(&text), Ok(Settings { generation, ..Settings::default() }));
        }
    }

    #[test]
    fn invalid_settings_are_refused() {
        for (text, complaint) in [
            ("window = 64", "unknown field `window`"),
            ("window_pages = 0", "must be from 1 to 262144 pages, is 0"),
            ("aggressive_pages = 300000", "must be from 1 to 262144 pages"),
            ("positioning_weight = 1.5", "must be from 0 to 1, is 1.5"),
            ("positioning_weight = nan", "must be from 0 to 1, is NaN"),
            ("rho = 1.9", "must be from 2 to 1000, is 1.9"),
            ("generation = \"linux-2.4\"", "there are no windows called 'linux-2.4'"),
        ] {
            let error = toml::from_str::<Settings>(text).expect_err(text).to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
