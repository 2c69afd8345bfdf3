//! `foreseek lab trace replay`: one run a scheduler and policy, compared in one table.

use super::{Answer, Format, Source, file};
use anyhow::{Context, bail};
use comfy_table::{CellAlignment, Table, presets};
use foreseek_device::{Build, Profile};
use foreseek_readahead::stream::UnknownPolicy;
use foreseek_simulate::block::{self, BlockLayer, Scheduler, scheduler};
use foreseek_simulate::machine::{Machine, Parts, Period, Settings, reclaim};
use foreseek_simulate::trace::replay::{Accesses, Addresses, Loop, Outcome, through_block};
use foreseek_simulate::trace::{Summary, TraceTarget};
use foreseek_storage::read_text;
use foreseek_units::{Bytes, DeviceCosts, Instant, Nanos, Sectors};
use serde::Serialize;
use std::sync::Arc;

/// The longest replay through a page cache, in virtual time: a process that waits for ever is a
/// mistake that the machine reports by itself, and traces of a year are not rare.
const LONGEST: Nanos = Nanos::from_secs(10 * 365 * 24 * 3600);

/// Memory of the machine that replays through its page cache: the papers' (TR-840 section 5).
const MEMORY: &str = "512M";

/// Options of `foreseek lab trace replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,

    /// The device: a built-in profile ('foreseek profile --list' shows them) or a file.
    #[arg(long, value_name = "NAME|FILE")]
    profile: String,

    /// When requests are made: at the recorded times, or each after the one before it of the same
    /// process and its think time. Without this: open where the trace has times and the replay goes
    /// through the block layer, else closed.
    #[arg(long = "loop", value_enum, value_name = "LOOP")]
    mode: Option<Mode>,

    /// Through what: the block layer alone, or files in a page cache with read-ahead. Without this:
    /// cache for traces of files, block for those of devices.
    #[arg(long, value_enum)]
    through: Option<Through>,

    /// I/O schedulers to compare, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "mq-deadline", value_name = "NAME,...")]
    scheduler: Vec<String>,

    /// Read-ahead policies to compare, separated by commas; for --through cache. Without this: on-demand.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    policy: Vec<String>,

    /// Memory of the machine, for --through cache. Without this: 512M.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<Bytes>,

    /// Wrap addresses beyond the end of the device around it; for --through block.
    #[arg(long)]
    wrap: bool,

    /// Fixes what is random in the device.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// At the recorded times.
    Open,
    /// After the request before, and a think time.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Through {
    /// Requests to a device.
    Block,
    /// Reads and writes of files.
    Cache,
}

/// A run, as `--format json` shows it.
#[derive(Debug, Serialize)]
struct Row {
    device: String,
    through: Through,
    #[serde(rename = "loop")]
    mode: &'static str,
    scheduler: String,
    policy: Option<String>,
    requests: u64,
    time_s: f64,
    moved_mb_per_s: f64,
    response_mean_ms: f64,
    response_median_ms: f64,
    response_p90_ms: f64,
    response_p99_ms: f64,
    response_max_ms: f64,
    recorded_response_mean_ms: Option<f64>,
    device_requests: u64,
    merges: u64,
    seeks: u64,
    mean_seek_sectors: u64,
    device_use_percent: f64,
    hit_pages: Option<u64>,
    missed_pages: Option<u64>,
    prefetched_pages: Option<u64>,
    wasted_pages: Option<u64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let profile = Profile::load(&args.profile, read_text)?;
    let summary = args.source.summary(args.quiet)?;
    let plan = Plan::new(args, &summary)?;
    let mut rows = Vec::new();
    for scheduler in &args.scheduler {
        for policy in &plan.policies {
            rows.push(plan.run(&profile, scheduler, policy.as_deref())?);
        }
    }
    let text = match args.format {
        Format::Table => format!("{}\n", table(&summary, &rows)),
        Format::Json => serde_json::to_string_pretty(&rows)? + "\n",
    };
    crate::commands::print(&text).context("writing to standard output")?;
    Ok(Answer::Done)
}

/// What the options come to with this trace.
struct Plan<'a> {
    args: &'a Args,
    summary: &'a Summary,
    through: Through,
    mode: Loop,
    /// One `None` for a replay without a page cache.
    policies: Vec<Option<String>>,
    memory: Bytes,
}

impl<'a> Plan<'a> {
    /// Refuses options that would change nothing, and names that are unknown, before the work.
    fn new(args: &'a Args, summary: &'a Summary) -> anyhow::Result<Self> {
        let files = summary.targets.iter().all(|target| matches!(target.target, TraceTarget::File(_)));
        let through = args.through.unwrap_or(if files { Through::Cache } else { Through::Block });
        let mode = match (args.mode, through, summary.times) {
            (Some(Mode::Open), Through::Cache, _) => bail!(
                "a replay through the page cache is a closed loop: what a process reads decides when it goes on; \
                 leave --loop away, or take --through block"
            ),
            (Some(Mode::Open), ..) | (None, Through::Block, Some(_)) => Loop::Open,
            (Some(Mode::Closed), ..) | (None, ..) => Loop::Closed,
        };
        if through == Through::Block {
            for (option, given) in
                [("--policy", !args.policy.is_empty()), ("--memory", args.memory.is_some())]
            {
                if given {
                    bail!(
                        "{option} is for a replay through the page cache: leave it away, or take --through cache"
                    );
                }
            }
        } else if args.wrap {
            bail!("--wrap is for a replay through the block layer: take a larger device, or --through block");
        }
        args.scheduler.iter().try_for_each(|name| scheduler_of(name).map(drop))?;
        let policies: Vec<Option<String>> = match (through, args.policy.as_slice()) {
            (Through::Block, _) => vec![None],
            (Through::Cache, []) => vec![Some("on-demand".to_owned())],
            (Through::Cache, names) => names.iter().map(|name| Some(name.clone())).collect(),
        };
        for name in policies.iter().flatten() {
            let known: Vec<&str> = foreseek_kernels::names().collect();
            if !known.contains(&name.as_str()) {
                return Err(UnknownPolicy { name: name.clone(), known }.into());
            }
        }
        let memory = match args.memory {
            Some(memory) => memory,
            None => MEMORY.parse()?,
        };
        Ok(Self { args, summary, through, mode, policies, memory })
    }

    fn run(&self, profile: &Profile, scheduler: &str, policy: Option<&str>) -> anyhow::Result<Row> {
        let device = profile.build(&Build { seed: self.args.seed, ..Build::default() })?;
        let capacity = device.capacity();
        let addresses = Addresses::new(self.summary, capacity, self.args.wrap)?;
        let block = BlockLayer::new(block::Settings::LINUX_2_6_18, scheduler_of(scheduler)?, device);
        match policy {
            None => self.through_block(profile, scheduler, &addresses, block),
            Some(policy) => self.through_cache(profile, scheduler, policy, &addresses, block),
        }
    }

    fn through_block(
        &self,
        profile: &Profile,
        scheduler: &str,
        addresses: &Addresses,
        block: BlockLayer,
    ) -> anyhow::Result<Row> {
        let bar = file::bar(self.args.quiet, 0, &format!("{scheduler}:"));
        let trace = self.args.source.open(&indicatif::ProgressBar::hidden())?;
        bar.set_length(self.summary.requests());
        let outcome = through_block(trace, self.summary, addresses, block, self.mode, &mut |over| {
            bar.set_position(over)
        });
        bar.finish_and_clear();
        let outcome: Outcome = outcome?;
        let times = outcome.responses;
        Ok(Row {
            requests: times.count,
            response_mean_ms: times.mean.as_millis_f64(),
            response_median_ms: times.median.as_millis_f64(),
            response_p90_ms: times.p90.as_millis_f64(),
            response_p99_ms: times.p99.as_millis_f64(),
            response_max_ms: times.longest.as_millis_f64(),
            recorded_response_mean_ms: outcome.recorded.map(|times| times.mean.as_millis_f64()),
            ..self.row(profile, scheduler, outcome.time, &outcome.block)
        })
    }

    fn through_cache(
        &self,
        profile: &Profile,
        scheduler: &str,
        policy: &str,
        addresses: &Addresses,
        block: BlockLayer,
    ) -> anyhow::Result<Row> {
        let bar = file::bar(self.args.quiet, 0, &format!("{scheduler}, {policy}:"));
        let trace = self.args.source.open(&indicatif::ProgressBar::hidden())?;
        let costs: Arc<dyn DeviceCosts> = Arc::new(profile.clone());
        let settings = Settings::xeons(self.memory);
        let parts = Parts {
            reclaim: Box::new(reclaim::LinuxLists::linux_2_6(&settings.memory)),
            settings,
            block,
            prefetcher: foreseek_kernels::by_name(policy, &foreseek_kernels::Settings::default(), &costs)?,
            extents: Accesses::extents(self.summary, addresses),
            workload: Box::new(Accesses::new(trace, self.summary)?),
            concurrency: 1,
            seed: self.args.seed,
        };
        // How long it takes is not known: the bar shows how much of the trace's own time has passed.
        let all = self.summary.duration().unwrap_or(self.summary.paused);
        bar.set_length(all.get().max(1));
        let period = Period { warm_up: Nanos::ZERO, duration: LONGEST };
        let report =
            Machine::new(parts)?.run(period, &mut |now| bar.set_position((now - Instant::ZERO).get()));
        bar.finish_and_clear();
        let report = report?;
        let times = report.responses;
        Ok(Row {
            policy: Some(policy.to_owned()),
            requests: times.count,
            moved_mb_per_s: per_second(report.counters.read + report.counters.written, report.time),
            response_mean_ms: times.mean.as_millis_f64(),
            response_median_ms: times.median.as_millis_f64(),
            response_p90_ms: times.p90.as_millis_f64(),
            response_p99_ms: times.p99.as_millis_f64(),
            response_max_ms: times.longest.as_millis_f64(),
            hit_pages: Some(report.counters.hits.get()),
            missed_pages: Some(report.counters.misses.get()),
            prefetched_pages: Some(report.counters.prefetched.get()),
            wasted_pages: Some(report.counters.wasted.get()),
            ..self.row(profile, scheduler, report.time, &report.block)
        })
    }

    /// What both ways have in common.
    fn row(&self, profile: &Profile, scheduler: &str, time: Nanos, block: &block::Metrics) -> Row {
        let moved: Sectors = block.read + block.written;
        Row {
            device: profile.name().to_owned(),
            through: self.through,
            mode: match self.mode {
                Loop::Open => "open",
                Loop::Closed => "closed",
            },
            scheduler: scheduler.to_owned(),
            policy: None,
            requests: 0,
            time_s: time.as_secs_f64(),
            moved_mb_per_s: per_second(moved.bytes(), time),
            response_mean_ms: 0.0,
            response_median_ms: 0.0,
            response_p90_ms: 0.0,
            response_p99_ms: 0.0,
            response_max_ms: 0.0,
            recorded_response_mean_ms: None,
            device_requests: block.requests,
            merges: block.merges,
            seeks: block.seeks,
            mean_seek_sectors: block.mean_seek().get(),
            device_use_percent: 100.0 * block.busy.as_secs_f64() / time.as_secs_f64().max(1e-9),
            hit_pages: None,
            missed_pages: None,
            prefetched_pages: None,
            wasted_pages: None,
        }
    }
}

fn scheduler_of(name: &str) -> anyhow::Result<Box<dyn Scheduler>> {
    let known = || scheduler::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    scheduler::by_name(name)
        .ok_or_else(|| anyhow::anyhow!("no scheduler is called '{name}': there are {}", known()))
}

fn per_second(bytes: Bytes, time: Nanos) -> f64 {
    bytes.get() as f64 / 1e6 / time.as_secs_f64().max(1e-9)
}

fn table(summary: &Summary, rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "scheduler",
        "policy",
        "time s",
        "MB/s",
        "mean ms",
        "median",
        "p90",
        "p99",
        "max",
        "device req",
        "merges",
        "seeks",
        "device %",
    ]);
    for column in 2..=12 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        let ms = |ms: f64| format!("{ms:.2}");
        table.add_row([
            row.scheduler.clone(),
            row.policy.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{:.3}", row.time_s),
            format!("{:.2}", row.moved_mb_per_s),
            ms(row.response_mean_ms),
            ms(row.response_median_ms),
            ms(row.response_p90_ms),
            ms(row.response_p99_ms),
            ms(row.response_max_ms),
            row.device_requests.to_string(),
            row.merges.to_string(),
            row.seeks.to_string(),
            format!("{:.1}", row.device_use_percent),
        ]);
    }
    let first = rows.first();
    let (mode, device) = first.map_or(("", ""), |row| (row.mode, row.device.as_str()));
    let recorded = first.and_then(|row| row.recorded_response_mean_ms);
    let recorded = recorded.map_or(String::new(), |ms| format!("\n\nThe trace has {ms:.2} ms on average."));
    let head = format!("{}: {} requests, {mode} loop, on {device}", summary.file, summary.requests());
    format!("{head}\n{table}{recorded}")
}
