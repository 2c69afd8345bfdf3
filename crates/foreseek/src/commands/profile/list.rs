//! `foreseek profile --list` and `--show`: device profiles, and what follows from them for prefetching.

use crate::commands::{Answer, Format, print};
use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use foreseek_device::Profile;
use foreseek_storage::read_text;
use serde::Serialize;

/// One device, as `--format json` shows it. KB and MB are of 1000, as in the papers.
#[derive(Debug, Serialize)]
struct Device {
    name: String,
    kind: String,
    description: String,
    capacity_bytes: u64,
    rotation_rpm: Option<f64>,
    average_seek_ms: Option<f64>,
    positioning_ms: f64,
    sequential_rate_mb_per_s: f64,
    competitive_prefetch_size_kb: f64,
    competitive_prefetch_size_pages: u64,
    infill_bytes: u64,
    source: String,
}

impl From<&Profile> for Device {
    fn from(profile: &Profile) -> Self {
        let depth = profile.competitive_depth();
        Self {
            name: profile.name().to_owned(),
            kind: profile.kind().to_string(),
            description: profile.description().to_owned(),
            capacity_bytes: profile.capacity().get(),
            rotation_rpm: profile.rotation_rpm(),
            average_seek_ms: profile.average_seek().map(|seek| seek.as_millis_f64()),
            positioning_ms: profile.positioning_time().as_millis_f64(),
            sequential_rate_mb_per_s: profile.sequential_rate().as_mb_per_second(),
            competitive_prefetch_size_kb: depth.get() as f64 / 1000.0,
            competitive_prefetch_size_pages: depth.pages_floor().get(),
            infill_bytes: profile.infill().get(),
            source: profile.source().to_owned(),
        }
    }
}

/// Lists the built-in profiles.
pub(super) fn list(format: Format) -> anyhow::Result<Answer> {
    answer(&match format {
        Format::Table => builtin_table(),
        Format::Json => json(&builtin().map(|profile| Device::from(&profile)).collect::<Vec<_>>())?,
    })
}

/// Prints a built-in profile's text, or the figures of a profile file.
pub(super) fn show(device: &str, format: Format) -> anyhow::Result<Answer> {
    answer(&match (Profile::builtin_text(device), format) {
        (Some(text), Format::Table) => text.to_owned(),
        (None, Format::Table) => format!("{}\n", table([Profile::load(device, read_text)?])),
        (_, Format::Json) => json(&Device::from(&Profile::load(device, read_text)?))?,
    })
}

fn answer(text: &str) -> anyhow::Result<Answer> {
    print(text).context("writing the device profiles to standard output")?;
    Ok(Answer::Done)
}

fn builtin() -> impl Iterator<Item = Profile> {
    Profile::builtin_names().filter_map(Profile::builtin)
}

fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn builtin_table() -> String {
    format!(
        "{}\n\nposition = average seek + half a rotation (network volumes: mean latency); prefetch = position x rate:\n\
         how much to fetch at a time, in KB of 1000.\n\
         'foreseek profile --show NAME' prints a profile with the source of each number, to be copied and edited.\n",
        table(builtin())
    )
}

fn table(profiles: impl IntoIterator<Item = Profile>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "name",
        "kind",
        "rpm",
        "seek ms",
        "position ms",
        "MB/s",
        "prefetch KB",
        "pages",
        "source",
    ]);
    for column in 2..=7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for profile in profiles {
        let device = Device::from(&profile);
        let or_dash = |number: Option<f64>, digits: usize| {
            number.map_or("-".to_owned(), |number| format!("{number:.digits$}"))
        };
        table.add_row([
            device.name,
            device.kind,
            or_dash(device.rotation_rpm, 0),
            or_dash(device.average_seek_ms, 2),
            format!("{:.2}", device.positioning_ms),
            format!("{:.1}", device.sequential_rate_mb_per_s),
            format!("{:.1}", device.competitive_prefetch_size_kb),
            device.competitive_prefetch_size_pages.to_string(),
            device.source,
        ]);
    }
    table
}
