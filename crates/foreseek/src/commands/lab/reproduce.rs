//! `foreseek lab reproduce`: the papers' claims, run and judged; and what learning adds to them.

use crate::commands::progress::with_bar;
use crate::commands::{Answer, Format};
use anyhow::Context;
use foreseek_kernels::Congestion;
use foreseek_reproduce::{LearntOptions, LearntOutcome, Options, Outcome, Progress, learnt, reproduce};
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Options of `foreseek lab reproduce`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the claims whose names match: EU-two-rand, TR-*, *-depth-*. With --learnt only the runs:
    /// learnt-two-*, studies, traces.
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,

    /// A look: one seed, a fifth of the time measured, no intervals.
    #[arg(long)]
    quick: bool,

    /// What learnt depth adds to the papers: its runs, its studies and its aims with their verdicts.
    #[arg(long, conflicts_with = "seed")]
    learnt: bool,

    /// With --learnt: every run on all devices, with 1 to 512 requests at a time. Takes hours.
    #[arg(long, requires = "learnt", conflicts_with = "quick")]
    full: bool,

    /// With --learnt: replay the traces of this folder, too.
    #[arg(long, value_name = "DIR", requires = "learnt")]
    traces: Option<PathBuf>,

    /// The first seed; the others follow it.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..1 << 32))]
    seed: u64,

    /// What a congested queue cancels of read-ahead, in place of each set-up's own rule: stock,
    /// cancels-all, cancels-ahead or ignored.
    #[arg(long, value_name = "RULE", conflicts_with = "learnt")]
    congestion: Option<Congestion>,

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
    if args.learnt {
        return run_learnt(&args, workers);
    }
    let Args { ref only, quick, seed, congestion, .. } = args;
    let options = Options { only: only.clone(), quick, seed, congestion, workers };
    let outcome = with_bar(args.quiet, |tell| {
        reproduce(&options, &|progress: Progress<'_>| tell(progress.share, progress.run))
    })?;
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
    Ok(if outcome.holding() == outcome.claims.len() { Answer::Done } else { Answer::No })
}

/// What learning is worth.
fn run_learnt(args: &Args, workers: usize) -> anyhow::Result<Answer> {
    let traces = match &args.traces {
        Some(folder) => super::trace::programs(folder)?,
        None => Vec::new(),
    };
    let (quick, full) = (args.quick, args.full);
    let options = LearntOptions { only: args.only.clone(), quick, full, workers, traces };
    let outcome = with_bar(args.quiet, |tell| {
        learnt(&options, &|progress: Progress<'_>| tell(progress.share, progress.run))
    })?;
    if let Some(only) = &args.only
        && outcome.tables.is_empty()
        && outcome.left_out.is_empty()
    {
        anyhow::bail!(
            "no run matches '{only}'; names are like learnt-two-*, studies, traces (with --traces DIR)"
        );
    }
    // What was measured is shown in any case: a report that cannot be written is said after it.
    let written = args.output.as_deref().map(|folder| write_learnt(&outcome, folder));
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

fn write_learnt(outcome: &LearntOutcome, folder: &Path) -> anyhow::Result<PathBuf> {
    put(folder, "learnt.txt", outcome.to_table())?;
    put(folder, "learnt.json", format!("{:#}\n", outcome.to_json()))?;
    put(folder, "learnt.html", outcome.to_html())
}

fn put(folder: &Path, name: &str, text: String) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
