//! What learning the lengths of streams gains: the runs of `experiments/adaptive-*.toml`, traces, and studies
//! that count device time alone, with a verdict on each aim.
//!
//! [`adaptive`] runs all of it. Runs in virtual time show what remains of the gain in a whole machine. The
//! studies show what the papers' model predicts, which classes of streams and which `rho` gain, how regret
//! grows, and what a change of behaviour costs.

mod aims;
mod evidence;
mod matrix;
mod page;
mod study;

pub use aims::{Aim, AimPoint, Reached};

use crate::figure::Figure;
use crate::outcome::Drawn;
use crate::pick::Runs;
use crate::{Error, Overrides, charts, run};
use foreseek_device::Profile;
use foreseek_simulate::experiment::{self, Experiment, Made, Metric, Policy, Results, SetUp, Summary};
use foreseek_simulate::program::Drive;
use foreseek_simulate::workload::{Parameters, by_name};

/// A trace to be replayed through the modelled page cache.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its name.
    pub name: String,
    /// Its programs.
    pub made: Made,
}

/// The options.
#[derive(Clone, Debug)]
pub struct AdaptiveOptions {
    /// Only runs whose names match (`*` and `?`), `traces`, `studies` and `adversary` among them; `None` for all.
    pub only: Option<String>,
    /// A short run: one seed and a fifth of the time.
    pub quick: bool,
    /// The whole matrix: every closed loop on all devices with 1 to 512 concurrent requests.
    pub full: bool,
    /// Overrides of the runs; studies and traces have none.
    pub set: Overrides,
    /// Threads.
    pub workers: usize,
    /// Traces that are replayed, too.
    pub traces: Vec<Trace>,
}

/// A table: its title, its headers and its rows.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// The headers of its columns.
    pub heads: Vec<String>,
    /// Its rows: a name and numbers.
    pub rows: Vec<(String, Vec<f64>)>,
}

/// The outcome.
#[derive(Clone, Debug)]
pub struct AdaptiveOutcome {
    /// The aims with their verdicts.
    pub aims: Vec<Aim>,
    /// The studies' and the runs' numbers.
    pub tables: Vec<Table>,
    /// The worst cases that the adversary found, in words.
    pub worst: Vec<String>,
    /// Charts of runs and studies.
    pub figures: Vec<Drawn>,
    /// Traces that were not replayed, and why.
    pub left_out: Vec<String>,
    /// Whether it was a short run.
    pub quick: bool,
    /// The overrides of the runs.
    pub set: Overrides,
}

/// The policies with which traces are replayed.
const TRACE_POLICIES: [&str; 6] =
    ["linux-2.6.3", "on-demand", "aggressive", "competitive", "adaptive", "adaptive-known-lengths"];
/// The devices on which they are replayed: one of the papers', one of later, one of today.
const TRACE_DEVICES: [&str; 3] = ["ibm-36g-51", "barracuda-500g", "exos-18t"];
/// The seeds of the studies' streams; runs have others.
const SEEDS: [u64; 3] = [11, 12, 13];
/// How many cases the searching adversary may try for each bound, and in a short run.
const SEARCHED: (usize, usize) = (4000, 200);
/// Approximate virtual time of a run of jobs and of a study, for the progress bar.
const JOBS_SECONDS: f64 = 200.0;

/// Runs everything.
///
/// # Errors
/// A run fails, or a file that was built in is damaged.
pub fn adaptive(
    options: &AdaptiveOptions,
    progress: &(dyn Fn(run::Progress<'_>) + Sync),
) -> Result<AdaptiveOutcome, Error> {
    let figures = Figure::adaptive(&options.set)?;
    let figures = if options.full { matrix::whole(figures) } else { figures };
    let sized = |run: &Experiment| if options.quick { run.clone().quick() } else { run.clone() };
    let only = run::Only::new(options.only.as_deref());
    let asked = |run: &&Experiment| only.matches(&run.name);
    let plan: Vec<Experiment> =
        figures.iter().flat_map(|figure| &figure.runs).filter(asked).map(sized).collect();
    let all: f64 = plan.iter().map(weight).sum::<f64>() + 1.0;
    let (mut runs, mut before) = (Runs::default(), 0.0);
    let mut tables = Vec::new();
    for run in &plan {
        let report = |step: experiment::Progress| {
            let share = (before + step.share * weight(run)) / all;
            progress(run::Progress { run: &run.name, share });
        };
        let results = experiment::run(run, options.workers, &report)?;
        tables.push(table(&results));
        tables.extend(times(&results));
        runs.insert(results);
        before += weight(run);
    }
    progress(run::Progress { run: "traces", share: before / all });
    let mut left_out = Vec::new();
    if only.matches("traces") {
        let (replayed, not) = replay(options);
        tables.extend(
            replayed.iter().flat_map(|results| std::iter::once(table(results)).chain(times(results))),
        );
        left_out = not;
    }
    let mut aims = aims::of_runs(&runs);
    let mut figures = charts::draw(&figures, &runs);
    if only.matches("studies") {
        progress(run::Progress { run: "studies", share: before / all });
        let streams = SEEDS.map(workload_streams).into_iter().collect::<Result<Vec<_>, _>>()?;
        let evidence = evidence::gather(options, &streams);
        aims.extend(evidence.aims);
        tables.extend(evidence.tables);
        figures.push(evidence.drawn);
    }
    let mut worst = Vec::new();
    if only.matches("adversary") {
        progress(run::Progress { run: "adversary", share: before / all });
        let (aim, table, words) = evidence::searched(if options.quick { SEARCHED.1 } else { SEARCHED.0 });
        aims.push(aim);
        tables.push(table);
        worst = words;
    }
    // An aim that was not requested is no miss.
    aims.retain(|aim| options.only.is_none() || !aim.places.is_empty());
    tables.extend(aims.iter().filter_map(Aim::table));
    let set = options.set.clone();
    Ok(AdaptiveOutcome { aims, tables, worst, figures, left_out, quick: options.quick, set })
}

/// Whether its processes read in closed loops, so that their number can be set; jobs run once.
fn closed(run: &Experiment) -> bool {
    by_name(&run.workload, &run.parameters).is_ok_and(|workload| workload.drive() == Drive::Closed)
}

fn weight(run: &Experiment) -> f64 {
    let runs = run.devices.len() * run.policies.len() * run.concurrency.len() * run.seeds.len();
    let seconds = (run.warm_up + run.duration).as_secs_f64();
    runs as f64 * if !closed(run) { JOBS_SECONDS } else { seconds }
}

/// Replays the traces; returns those that fit no device as well.
fn replay(options: &AdaptiveOptions) -> (Vec<Results>, Vec<String>) {
    let (mut results, mut left_out) = (Vec::new(), Vec::new());
    for trace in &options.traces {
        for device in TRACE_DEVICES {
            let mut run = Experiment::new(&format!("trace {}", trace.name), SetUp::Tr840, &trace.name);
            run.made = Some(trace.made.clone());
            run.devices = Profile::builtin(device).into_iter().collect();
            run.policies = TRACE_POLICIES.iter().map(|name| Policy::new(name)).collect();
            run.duration = foreseek_units::Nanos::from_secs(1_000_000);
            match experiment::run(&run, options.workers, &|_| {}) {
                Ok(outcome) => results.push(outcome),
                Err(error) => left_out.push(format!("{} on {device}: {error}", trace.name)),
            }
        }
    }
    (results, left_out)
}

/// Throughput (of jobs: time) at each point of a run, a column for each policy.
fn table(results: &Results) -> Table {
    let (metric, unit) = if of_jobs(results) { (Metric::TIME, "s") } else { (Metric::THROUGHPUT, "MB/s") };
    let mut heads: Vec<String> = Vec::new();
    let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
    for point in &results.points {
        let (policy, place) = (point.policy.to_string(), format!("{}, {}", point.device, point.concurrency));
        if !heads.contains(&policy) {
            heads.push(policy);
        }
        let value = point.summary(&metric).mean;
        match rows.iter_mut().find(|(name, _)| *name == place) {
            Some((_, values)) => values.push(value),
            None => rows.push((place, vec![value])),
        }
    }
    Table { title: format!("{}, {unit}", results.experiment), heads, rows }
}

fn of_jobs(results: &Results) -> bool {
    results.points.iter().any(|point| point.runs.iter().any(|run| !run.report.jobs.is_empty()))
}

/// Of jobs: their time under `adaptive` over that under competitive prefetching, with its interval over the
/// seeds.
fn times(results: &Results) -> Option<Table> {
    let (ours, theirs) = (Policy::new("adaptive"), Policy::new("competitive"));
    let points = results.points.iter().filter(|point| point.policy == ours && of_jobs(results));
    let row = |point: &experiment::Point| {
        let other = results.point(&point.device, &theirs, point.concurrency)?;
        let Summary { mean, low, high, .. } = point.ratio(other, &Metric::TIME);
        Some((format!("{}, {}", point.device, point.concurrency), vec![mean, low, high]))
    };
    let rows: Vec<(String, Vec<f64>)> = points.filter_map(row).collect();
    let heads = ["adaptive", "from", "to"].map(str::to_owned).to_vec();
    let title = format!("{}, time over competitive", results.experiment);
    (!rows.is_empty()).then_some(Table { title, heads, rows })
}

/// The streams of every workload that has enough of them to learn from, with one seed.
fn workload_streams(seed: u64) -> Result<Vec<(&'static str, Vec<study::StudiedStream>)>, Error> {
    /// Streams of each: what a busy disk serves in some minutes.
    const STREAMS: u64 = 2000;
    const NAMES: [&str; 10] = [
        "two-rand-0",
        "one-rand-10",
        "one-whole-0",
        "four-64kb-0",
        "media-server",
        "index-search",
        "sequence-search",
        "desktop-mix",
        "kernel-build",
        "tpch-q3",
    ];
    let streams = |name: &'static str| {
        let mut workload = by_name(name, &Parameters::default()).map_err(|cause| {
            let experiment = name.to_owned();
            experiment::ExperimentError::Workload { experiment, cause }
        })?;
        Ok((name, study::streams(&mut *workload, name, seed, STREAMS)))
    };
    NAMES.into_iter().map(streams).collect()
}
