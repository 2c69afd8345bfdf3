//! `foreseek lab trace info`.

use super::{Answer, Format, Source};
use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use foreseek_simulate::trace::{self, Summary, TargetSummary, TraceTarget};
use serde::Serialize;

/// Options of `foreseek lab trace info`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

/// A trace, as `--format json` shows it.
#[derive(Debug, Serialize)]
struct Info {
    file: String,
    format: &'static str,
    requests: u64,
    reads: u64,
    writes: u64,
    flushes: u64,
    read_bytes: u64,
    written_bytes: u64,
    mean_bytes: f64,
    longest_bytes: u64,
    sequential_share: f64,
    duration_s: Option<f64>,
    disordered: u64,
    paused_s: f64,
    mean_response_ms: Option<f64>,
    processes: usize,
    targets: Vec<TargetInfo>,
}

#[derive(Debug, Serialize)]
struct TargetInfo {
    kind: &'static str,
    number: u32,
    name: Option<String>,
    requests: u64,
    end_bytes: u64,
}

impl TargetInfo {
    fn new(target: &TargetSummary, format: trace::Format) -> Self {
        let (kind, number) = match target.target {
            TraceTarget::Device(number) => ("device", number),
            TraceTarget::File(number) => ("file", number),
        };
        let TargetSummary { name, requests, end, .. } = target;
        let name = match format {
            // A kernel's device number.
            trace::Format::Blkparse | trace::Format::Blktrace => {
                Some(format!("{},{}", number >> 20, number & ((1 << 20) - 1)))
            }
            _ => name.clone(),
        };
        Self { kind, number, name, requests: *requests, end_bytes: end.get() }
    }
}

impl From<&Summary> for Info {
    fn from(summary: &Summary) -> Self {
        let moved = (summary.reads + summary.writes).max(1) as f64;
        Self {
            file: summary.file.clone(),
            format: summary.format.name(),
            requests: summary.requests(),
            reads: summary.reads,
            writes: summary.writes,
            flushes: summary.flushes,
            read_bytes: summary.read.get(),
            written_bytes: summary.written.get(),
            mean_bytes: (summary.read.get() as f64 + summary.written.get() as f64) / moved,
            longest_bytes: summary.longest.get(),
            sequential_share: summary.sequential as f64 / moved,
            duration_s: summary.duration().map(|time| time.as_secs_f64()),
            disordered: summary.disordered,
            paused_s: summary.paused.as_secs_f64(),
            mean_response_ms: summary.mean_response().map(|time| time.as_millis_f64()),
            processes: summary.processes,
            targets: summary.targets.iter().map(|target| TargetInfo::new(target, summary.format)).collect(),
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let summary = args.source.summary(args.quiet)?;
    let info = Info::from(&summary);
    let text = match args.format {
        Format::Table => text(&summary, &info),
        Format::Json => serde_json::to_string_pretty(&info)? + "\n",
    };
    crate::commands::print(&text).context("writing to standard output")?;
    Ok(Answer::Done)
}

fn text(summary: &Summary, info: &Info) -> String {
    let mut lines = vec![
        format!("{}: {} ({})", info.file, info.format, summary.format.description()),
        format!(
            "requests    {}: {} reads, {} writes, {} flushes",
            info.requests, info.reads, info.writes, info.flushes
        ),
        format!("bytes       {} read, {} written", summary.read, summary.written),
        format!("length      {:.1} KiB on average, {} at most", info.mean_bytes / 1024.0, summary.longest),
        format!(
            "sequential  {:.1} % begin where the one before them on the same target ended",
            info.sequential_share * 100.0
        ),
    ];
    match info.duration_s {
        Some(seconds) => lines.push(format!(
            "time        {seconds:.3} s, {} requests earlier than the one before them",
            info.disordered
        )),
        None => lines.push(format!("time        none; {:.3} s of pauses after requests", info.paused_s)),
    }
    if let Some(ms) = info.mean_response_ms {
        lines.push(format!("response    {ms:.3} ms on average"));
    }
    if info.processes > 0 {
        lines.push(format!("processes   {}", info.processes));
    }
    format!("{}\n\n{}\n", lines.join("\n"), targets(info))
}

fn targets(info: &Info) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["target", "requests", "reaches"]);
    for column in 1..=2 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for target in &info.targets {
        let name = match &target.name {
            // A name out of a file: nothing that a terminal would obey.
            Some(name) => name.escape_debug().to_string(),
            None => format!("{} {}", target.kind, target.number),
        };
        table.add_row([
            name,
            target.requests.to_string(),
            foreseek_units::Bytes(target.end_bytes).to_string(),
        ]);
    }
    table
}
