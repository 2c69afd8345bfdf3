//! `foreseek lab device validate`: how near a drive's model is to the drive.

use super::drive::Source;
use super::import::write_new;
use super::plot;
use crate::commands::{Answer, Format, note, print};
use crate::text;
use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use foreseek_device::{Build, Device, Profile};
use foreseek_drives::validation::{Demerit, Measured, Replay, parse_trace, replay};
use indicatif::ProgressBar;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest trace as a text: ten million requests have half of it.
const TRACE_LIMIT: u64 = 1 << 30;
/// The trace is replayed again and again for this time, which gives the requests a second.
const TIMED: Duration = Duration::from_millis(250);
/// At least so many times, so that there is a median.
const TIMED_LEAST: usize = 5;
/// The shares of requests of which the table shows the times.
const SHARES: [f64; 11] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99];

/// Options of `foreseek lab device validate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The drive's .model file; the .seek file that it names is looked for beside it.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// The trace: R|W Hit|Miss ADDRESS BLOCKS RESPONSE_US GAP_US in each line; may be compressed by gzip.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    #[command(flatten)]
    source: Source,

    /// Draw the two distributions into this file (SVG), which must not exist.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Where the platter's angle starts.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

/// What came out, as `--format json` shows it.
#[derive(Debug, Serialize)]
struct Report {
    drive: String,
    controller: String,
    requests: usize,
    /// The demerit figure of Ruemmler and Wilkes.
    rms_ms: f64,
    mean_error_ms: f64,
    measured_mean_ms: f64,
    /// Of the replay in virtual time, per second of processor time of one core.
    requests_per_second: f64,
    quantiles: Vec<Quantile>,
}

/// The times below which a share of the requests lies.
#[derive(Debug, Serialize)]
struct Quantile {
    share: f64,
    measured_ms: f64,
    modelled_ms: f64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Answer> {
    let loaded = args.source.load(&args.model)?;
    for text in &loaded.notes {
        note(text);
    }
    let name = args.trace.display().to_string();
    let trace = parse_trace(&name, &text::read("cannot read the trace", &args.trace, TRACE_LIMIT)?)?;
    let (replayed, rate) = {
        let _progress = spinner(args.quiet, trace.len());
        let build = Build { seed: args.seed, ..Build::default() };
        timed(&loaded.profile, &build, &trace).with_context(|| format!("replay {name}"))?
    };
    let measured = trace.iter().map(|request| request.response).collect();
    let demerit = Demerit::new(measured, replayed.responses);
    if let Some(path) = &args.plot {
        write_new(path, &plot::distributions(loaded.profile.name(), &demerit))?;
    }
    let quantile = |share: f64| {
        let (measured_ms, modelled_ms) = demerit.quantile_ms(share);
        Quantile { share, measured_ms, modelled_ms }
    };
    let report = Report {
        drive: loaded.profile.name().to_owned(),
        controller: loaded.controller,
        requests: trace.len(),
        rms_ms: demerit.rms_ms(),
        mean_error_ms: demerit.mean_error_ms(),
        measured_mean_ms: demerit.measured_mean_ms(),
        requests_per_second: rate,
        quantiles: SHARES.map(quantile).into(),
    };
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&report)? + "\n",
        Format::Table => table(&report),
    };
    print(&text).context("writing the report to standard output")?;
    Ok(Answer::Done)
}

/// Replays the trace; answers the first replay, and the median rate of some.
fn timed(profile: &Profile, build: &Build, trace: &[Measured]) -> anyhow::Result<(Replay, f64)> {
    let mut first = None;
    let mut rates = Vec::new();
    let began = Instant::now();
    while rates.len() < TIMED_LEAST || began.elapsed() < TIMED {
        let mut device: Box<dyn Device> = profile.build(build)?;
        let start = processor_time();
        let replayed = replay(&mut *device, trace)?;
        rates.push(trace.len() as f64 / (processor_time() - start).as_secs_f64().max(1e-9));
        first.get_or_insert(replayed);
    }
    rates.sort_by(f64::total_cmp);
    let replayed = first.context("a trace was replayed at least once")?;
    Ok((replayed, rates[rates.len() / 2]))
}

/// What this thread has used of a core: what others run beside it does not count.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Something that moves while the trace is replayed.
fn spinner(quiet: bool, requests: usize) -> ProgressBar {
    // It draws on a terminal only.
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    bar.set_message(format!("replaying {requests} requests"));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn table(report: &Report) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "requests faster",
        "measured ms",
        "modelled ms",
        "difference",
    ]);
    for column in 0..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for Quantile { share, measured_ms, modelled_ms } in &report.quantiles {
        table.add_row([
            format!("{:.0} %", share * 100.0),
            format!("{measured_ms:.3}"),
            format!("{modelled_ms:.3}"),
            format!("{:+.3}", modelled_ms - measured_ms),
        ]);
    }
    let Report { drive, controller, requests, rms_ms, mean_error_ms, measured_mean_ms, .. } = report;
    format!(
        "{table}\n\n{drive}: {requests} requests, mean {measured_mean_ms:.3} ms measured\n\
         rms distance of the distributions (demerit) {rms_ms:.3} ms, {:.1} % of the mean; mean error {mean_error_ms:+.3} ms\n\
         controller: {controller}\n\
         replayed at {:.0} requests a second on one core\n",
        100.0 * rms_ms / measured_mean_ms,
        report.requests_per_second,
    )
}
