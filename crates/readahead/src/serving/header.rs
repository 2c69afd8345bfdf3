//! The settings of a serving engine as the second line of its recording.

use super::settings::Settings;
use crate::depth::{Averaging, PageMeasure};
use crate::stream;
use foreseek_seam::record::Header;
use foreseek_seam::record::fields::{Fields, Reason, number};
use foreseek_units::Pages;
use serde::de::value::Error as ValueError;
use serde::de::{DeserializeOwned, IntoDeserializer};
use std::fmt::Write;

impl Header for Settings {
    fn write(&self, line: &mut String) {
        let Self { policy, stream, memory, machine, history, fetch, in_flight, overlapping, is_bounded } =
            self;
        let stream::Settings {
            generation,
            window,
            aggressive,
            slow_start,
            averaging,
            positioning_weight,
            page_measure,
            rho,
            unseen_hits,
        } = stream;
        let averaging = match averaging {
            Averaging::Distances => "distances",
            Averaging::Times => "times",
        };
        let page_measure = match page_measure {
            PageMeasure::Exact => "exact",
            PageMeasure::Paper => "paper",
        };
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "serving policy={policy} memory={} machine={} history={} fetch={} in_flight={in_flight} \
             overlapping={overlapping} generation={} window={} aggressive={} slow_start={} \
             averaging={averaging} positioning_weight={positioning_weight} \
             page_measure={page_measure} rho={rho} unseen_hits={unseen_hits} is_bounded={is_bounded}",
            memory.0,
            machine.0,
            history.0,
            fetch.0,
            generation.name(),
            window.0,
            aggressive.0,
            slow_start.0,
        );
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self, Reason> {
        fields.expect("serving")?;
        let pages = |word: &str| number(word).map(Pages);
        let policy = fields.value("policy")?.to_owned();
        let memory = pages(fields.value("memory")?)?;
        let machine = pages(fields.value("machine")?)?;
        let history = pages(fields.value("history")?)?;
        let fetch = pages(fields.value("fetch")?)?;
        let in_flight = number(fields.value("in_flight")?)?;
        let overlapping = number(fields.value("overlapping")?)?;
        let stream = stream::Settings {
            generation: named(fields.value("generation")?)?,
            window: pages(fields.value("window")?)?,
            aggressive: pages(fields.value("aggressive")?)?,
            slow_start: pages(fields.value("slow_start")?)?,
            averaging: named(fields.value("averaging")?)?,
            positioning_weight: number(fields.value_once("positioning_weight", "switch_weight")?)?,
            page_measure: named(fields.value("page_measure")?)?,
            rho: number(fields.value("rho")?)?,
            unseen_hits: number(fields.value("unseen_hits")?)?,
        };
        // Recordings of earlier releases end here: all of their engines were bounded.
        let is_bounded = fields.clone().word("end").is_err() || number(fields.value("is_bounded")?)?;
        Ok(Self { policy, stream, memory, machine, history, fetch, in_flight, overlapping, is_bounded })
    }
}

/// A setting that is one of several words.
fn named<T: DeserializeOwned>(word: &str) -> Result<T, Reason> {
    T::deserialize(word.into_deserializer()).map_err(|error: ValueError| error.to_string())
}
