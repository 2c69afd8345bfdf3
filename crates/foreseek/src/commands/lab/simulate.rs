//! `foreseek lab simulate`: runs an experiment in virtual time.

use crate::commands::progress::with_bar;
use crate::commands::{Answer, Format};
use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use foreseek_device::Profile;
use foreseek_simulate::experiment::{Experiment, METRICS, Metric, Progress, Results, Summary, run};
use foreseek_storage::read_text;
use rustix::fs::Access;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// How much of an experiment file is read; the parser takes no more.
const LENGTH_LIMIT: u64 = 1 << 21;

/// Options of `foreseek lab simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The experiment, a sweep over devices, policies and concurrency: a TOML file, as those in experiments/ of the
    /// source.
    #[arg(value_name = "EXPERIMENT.toml")]
    experiment: PathBuf,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Write every run with all of its numbers to this file, too.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Run once with this seed instead of the experiment's seeds: no intervals.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// A first look: one seed, a fifth of the time measured. The numbers differ from the full run's.
    #[arg(long)]
    quick: bool,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run_command(args: Args) -> anyhow::Result<Answer> {
    let mut experiment = load(&args.experiment)?;
    if args.quick {
        experiment = experiment.quick();
    }
    if let Some(seed) = args.seed {
        experiment = experiment.each(&|one| one.seeds = vec![seed]);
    }
    // Before the work: a place that cannot be written is known at once, and nothing is lost later.
    let csv = args.csv.as_deref().map(Csv::check).transpose()?;
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let results = with_bar(args.quiet, |report| {
        run(&experiment, workers, &|progress: Progress| {
            report(progress.share, &format!("{} of {} runs", progress.over, progress.runs));
        })
    })?;
    // What was run is shown in any case: a file that cannot be written is said after it.
    let written = csv.map(|csv| csv.write(&results.to_csv()));
    let text = match args.format {
        Format::Table => table(&results),
        Format::Json => serde_json::to_string_pretty(&results.to_json())? + "\n",
    };
    crate::commands::print(&text).context("writing the results to standard output")?;
    written.transpose()?;
    Ok(Answer::Done)
}

fn load(path: &Path) -> anyhow::Result<Experiment> {
    let name = path.display().to_string();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LENGTH_LIMIT).read_to_string(&mut text))
        .with_context(|| format!("cannot read the experiment {name}"))?;
    let device = |given: &str| Profile::load(given, read_text).map_err(|error| error.to_string());
    Ok(Experiment::parse(&name, &text, &device)?)
}

/// A file that is there whole or not at all.
struct Csv<'a> {
    path: &'a Path,
}

impl<'a> Csv<'a> {
    /// Whether it can be written; nothing is left behind by looking.
    fn check(path: &'a Path) -> anyhow::Result<Self> {
        let csv = Self { path };
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            anyhow::bail!("{}: it is no file: give another name", csv.cannot());
        }
        csv.beside()?;
        Ok(csv)
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        let mut beside = self.beside()?;
        beside.write_all(text.as_bytes()).with_context(|| self.cannot())?;
        beside.persist(self.path).with_context(|| self.cannot())?;
        Ok(())
    }

    fn cannot(&self) -> String {
        format!("cannot write the results to {} (--csv)", self.path.display())
    }

    /// A file in the same folder, which goes away by itself until it takes the other's name.
    fn beside(&self) -> anyhow::Result<tempfile::NamedTempFile> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // The system's reason for the folder; that for a temporary file would name the file.
        rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).with_context(|| self.cannot())?;
        tempfile::Builder::new()
            .prefix(".foreseek-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(folder)
            .with_context(|| self.cannot())
    }
}

/// The metrics of the table; the others are in JSON and CSV.
const COLUMNS: [(&str, &str, usize); 9] = [
    ("throughput_mb_per_s", "MB/s", 2),
    ("requests_per_s", "req/s", 2),
    ("response_mean_ms", "mean ms", 1),
    ("response_p99_ms", "p99 ms", 0),
    ("fetch_pages", "fetch pages", 1),
    ("seeks_per_s", "seeks/s", 1),
    ("thrashed_pages_per_s", "thrash/s", 1),
    ("device_use_percent", "device %", 1),
    ("processor_use_percent", "cpu %", 1),
];

fn table(results: &Results) -> String {
    let mut table = Table::new();
    let jobs = results.points.iter().any(|point| point.runs.iter().any(|run| !run.report.jobs.is_empty()));
    let mut columns: Vec<(&Metric, &str, usize)> = COLUMNS
        .iter()
        .filter_map(|(name, title, digits)| Some((Metric::by_name(name)?, *title, *digits)))
        .collect();
    if jobs {
        columns.insert(0, (&Metric::TIME, "time s", 3));
    }
    let key = results.key.as_deref();
    let titles = ["device", "policy", "conc"].into_iter().chain(columns.iter().map(|(_, title, _)| *title));
    let titles = key.into_iter().chain(titles);
    let first = 2 + usize::from(key.is_some());
    table.load_preset(presets::NOTHING).set_header(titles.collect::<Vec<_>>());
    for column in first..columns.len() + first + 1 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for point in &results.points {
        let mut row: Vec<String> = point.value.iter().cloned().collect();
        row.extend([point.device.clone(), point.policy.to_string(), point.concurrency.to_string()]);
        row.extend(columns.iter().map(|(metric, _, digits)| cell(&point.summary(metric), *digits)));
        table.add_row(row);
    }
    format!(
        "{}: {}, scheduler {}\n{table}\n\nMeans over the seeds with half of their 95 % intervals; \
         --format json has {} numbers a point, --csv every run.\n",
        results.experiment,
        results.workload,
        results.scheduler,
        METRICS.len()
    )
}

fn cell(summary: &Summary, digits: usize) -> String {
    let half = summary.high - summary.mean;
    if summary.values.len() > 1 {
        format!("{:.digits$} +-{half:.digits$}", summary.mean)
    } else {
        format!("{:.digits$}", summary.mean)
    }
}
