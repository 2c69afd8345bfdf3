//! `foreseek devices`: device profiles and the figures that the papers reckon with.

use super::{Answer, Format};
use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use foreseek_device::Profile;
use foreseek_storage::profile;
use serde::Serialize;

/// Options of `foreseek devices`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A built-in profile: print it as TOML, to be copied and edited. A file: check it and show its
    /// figures. With --format json the figures of either.
    #[arg(value_name = "NAME|FILE")]
    device: Option<String>,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One device, as `--format json` shows it. KB and MB are of 1000, as in the papers.
#[derive(Debug, Serialize)]
struct Device {
    name: String,
    kind: String,
    description: String,
    capacity_bytes: u64,
    rotation_rpm: Option<f64>,
    average_seek_ms: Option<f64>,
    switch_time_ms: f64,
    sequential_rate_mb_per_s: f64,
    competitive_depth_kb: f64,
    competitive_depth_pages: u64,
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
            switch_time_ms: profile.switch_time().as_millis_f64(),
            sequential_rate_mb_per_s: profile.sequential_rate().as_mb_per_second(),
            competitive_depth_kb: depth.get() as f64 / 1000.0,
            competitive_depth_pages: depth.pages_floor().get(),
            infill_bytes: profile.infill().get(),
            source: profile.source().to_owned(),
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<Answer> {
    let text = match (&args.device, args.format) {
        (None, Format::Table) => builtin_table(),
        (None, Format::Json) => json(&builtin().map(|profile| Device::from(&profile)).collect::<Vec<_>>())?,
        (Some(device), Format::Table) => match Profile::builtin_text(device) {
            Some(text) => text.to_owned(),
            None => format!("{}\n", table([profile::load(device)?])),
        },
        (Some(device), Format::Json) => json(&Device::from(&profile::load(device)?))?,
    };
    super::print(&text).context("writing the device profiles to standard output")?;
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
        "{}\n\nswitch = average seek + half a turn (remote: mean latency); depth = switch x rate, in KB of 1000.\n\
         'foreseek devices NAME' prints a profile with the source of each number, to be copied and edited.\n",
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
        "switch ms",
        "MB/s",
        "depth KB",
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
            format!("{:.2}", device.switch_time_ms),
            format!("{:.1}", device.sequential_rate_mb_per_s),
            format!("{:.1}", device.competitive_depth_kb),
            device.competitive_depth_pages.to_string(),
            device.source,
        ]);
    }
    table
}
