//! `foreseek lab reproduce`: the papers' claims, run and judged; and what learning adds to them.

use crate::commands::progress::with_bar;
use crate::commands::{Answer, Format};
use anyhow::Context;
use foreseek_kernels::Congestion;
use foreseek_reproduce::{
    AdaptiveOptions, AdaptiveOutcome, Options, Outcome, Overrides, Progress, adaptive, judge_again,
    reproduce, sensitivity, trials,
};
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Options of `foreseek lab reproduce`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the claims whose names match: EU-two-rand, *-depth-*, TR-*,POS-*. With --adaptive only the runs:
    /// adaptive-two-*, studies, traces, adversary (searches for the stream that costs most over its bound).
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,

    /// A first look: one seed, a fifth of the time measured, no intervals.
    #[arg(long)]
    quick: bool,

    /// Measure the policy `adaptive`, which is not of the papers: its runs, its studies and its aims with their verdicts.
    #[arg(long, alias = "learnt", conflicts_with = "seed")]
    adaptive: bool,

    /// With --adaptive: every run on all devices, with a concurrency of 1 to 512. Takes hours.
    #[arg(long, requires = "adaptive", conflicts_with = "quick")]
    full: bool,

    /// With --adaptive: replay the traces of this folder, too.
    #[arg(long, value_name = "DIR", requires = "adaptive")]
    traces: Option<PathBuf>,

    /// The first seed; the others follow it.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..1 << 32))]
    seed: u64,

    /// What a congested queue cancels of read-ahead, in place of each set-up's own rule: stock,
    /// cancels-all, cancels-ahead or ignored.
    #[arg(long, value_name = "RULE", conflicts_with = "adaptive")]
    congestion: Option<Congestion>,

    /// Set this key in every run in place of the set-ups' own value, to see what depends on it: block.in_device=4,
    /// machine.private_share=0.86, device.cache_segments=16. Can be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Run the claims under each variant of experiments/sensitivity.toml, side by side. With --quick it takes some twenty
    /// times as long as --quick alone. With --output what has ended is kept in DIR/variants, and a run that was stopped
    /// goes on there; what another build of the program or other options made is refused.
    #[arg(long, conflicts_with_all = ["adaptive", "set", "congestion"])]
    sensitivity: bool,

    /// Run each missed claim as set up, and with each setting that was varied to explain it (experiments/trials.toml).
    /// With --quick it takes some minutes.
    #[arg(long, conflicts_with_all = ["adaptive", "set", "congestion", "sensitivity"])]
    trials: bool,

    /// Run nothing: judge the results.json of an earlier run by today's rules.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["adaptive", "set", "congestion", "sensitivity", "trials", "only", "quick"])]
    judge: Option<PathBuf>,

    /// With --judge: results of a newer run that take the place of those of the same claims.
    #[arg(long, value_name = "FILE", requires = "judge")]
    newer: Option<PathBuf>,

    /// Write report.html, results.json and results.csv into this folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Answer> {
    // Before the work: a folder that cannot be written is known at once.
    args.output.as_deref().map(prepare).transpose()?;
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if args.adaptive {
        return run_adaptive(&args, workers);
    }
    let Args { ref only, quick, seed, .. } = args;
    let options = Options { only: only.clone(), quick, seed, set: overrides(&args)?, workers };
    if args.sensitivity {
        let outcome = with_bar(args.quiet, |report| {
            sensitivity(&options, args.output.as_deref(), &|progress: Progress<'_>| {
                report(progress.share, progress.run)
            })
        })?;
        return report_variants(&args, "sensitivity", outcome.to_table(), &outcome.to_json());
    }
    if args.trials {
        let outcome = with_bar(args.quiet, |report| {
            trials(&options, &|progress: Progress<'_>| report(progress.share, progress.run))
        })?;
        return report_variants(&args, "trials", outcome.to_table(), &outcome.to_json());
    }
    let outcome = match &args.judge {
        Some(file) => {
            let read =
                |file: &Path| fs::read_to_string(file).with_context(|| format!("reading {}", file.display()));
            judge_again(&read(file)?, args.newer.as_deref().map(read).transpose()?.as_deref())?
        }
        None => with_bar(args.quiet, |report| {
            reproduce(&options, &|progress: Progress<'_>| report(progress.share, progress.run))
        })?,
    };
    // What was measured is shown in any case: a report that cannot be written is said after it.
    let report = args.output.as_deref().map(|folder| write(&outcome, folder));
    let mut text = match args.format {
        Format::Json => format!("{:#}\n", outcome.to_json()),
        Format::Table => outcome.to_table(std::io::stdout().is_terminal()),
    };
    if let (Some(Ok(page)), Format::Table) = (&report, args.format) {
        text.push_str(&format!("\nThe report: {}\n", page.display()));
    }
    crate::commands::print(&text).context("writing the results to standard output")?;
    report.transpose()?;
    Ok(if outcome.all_hold() { Answer::Done } else { Answer::No })
}

/// What is to be set in every run.
fn overrides(args: &Args) -> anyhow::Result<Overrides> {
    let mut set = Overrides::default();
    if let Some(rule) = args.congestion {
        set.set("prefetch.congestion", &rule.to_string())?;
    }
    for given in &args.set {
        let (key, value) = given
            .split_once('=')
            .with_context(|| format!("--set {given}: give a key, '=' and a value: block.in_device=4"))?;
        set.set(key.trim(), value.trim())?;
    }
    Ok(set)
}

/// Shows claims under several settings, and writes them down.
fn report_variants(
    args: &Args,
    name: &str,
    table: String,
    json: &serde_json::Value,
) -> anyhow::Result<Answer> {
    let json = format!("{json:#}\n");
    let text = match args.format {
        Format::Json => &json,
        Format::Table => &table,
    };
    // What was measured is shown in any case: a file that cannot be written is said after it.
    let written = args.output.as_deref().map(|folder| {
        put(folder, &format!("{name}.txt"), &table)?;
        put(folder, &format!("{name}.json"), &json)
    });
    crate::commands::print(text).context("writing the results to standard output")?;
    written.transpose()?;
    Ok(Answer::Done)
}

/// What learning is worth.
fn run_adaptive(args: &Args, workers: usize) -> anyhow::Result<Answer> {
    let traces = match &args.traces {
        Some(folder) => super::trace::programs(folder)?,
        None => Vec::new(),
    };
    let (quick, full) = (args.quick, args.full);
    let set = overrides(args)?;
    let options = AdaptiveOptions { only: args.only.clone(), quick, full, set, workers, traces };
    let outcome = with_bar(args.quiet, |report| {
        adaptive(&options, &|progress: Progress<'_>| report(progress.share, progress.run))
    })?;
    if let Some(only) = &args.only
        && outcome.tables.is_empty()
        && outcome.left_out.is_empty()
    {
        anyhow::bail!(
            "no run matches '{only}'; names are like adaptive-two-*, studies, adversary, traces (with --traces DIR)"
        );
    }
    // What was measured is shown in any case: a report that cannot be written is said after it.
    let written = args.output.as_deref().map(|folder| write_adaptive(&outcome, folder));
    let text = match args.format {
        Format::Json => format!("{:#}\n", outcome.to_json()),
        Format::Table => outcome.to_table(),
    };
    crate::commands::print(&text).context("writing the results to standard output")?;
    written.transpose()?;
    Ok(if outcome.holding() == outcome.aims.len() { Answer::Done } else { Answer::No })
}

fn prepare(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder).map(drop)).with_context(|| {
        format!("cannot write the report to {}; give --output another folder", folder.display())
    })
}

/// Writes the report; answers its page.
fn write(outcome: &Outcome, folder: &Path) -> anyhow::Result<PathBuf> {
    put(folder, "results.json", format!("{:#}\n", outcome.to_json()))?;
    put(folder, "results.csv", outcome.to_csv())?;
    put(folder, "report.html", outcome.to_html())
}

fn write_adaptive(outcome: &AdaptiveOutcome, folder: &Path) -> anyhow::Result<PathBuf> {
    put(folder, "adaptive.txt", outcome.to_table())?;
    put(folder, "adaptive.json", format!("{:#}\n", outcome.to_json()))?;
    put(folder, "adaptive.html", outcome.to_html())
}

fn put(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
