//! `foreseek lab bench`: measured comparisons.

mod array;
mod jobs;
mod mount;
mod walk;

use crate::commands::progress::with_bar;
use crate::commands::{Answer, Format, note, print};
use foreseek_bench::Reporting;
use foreseek_bench::pairs::Ahead;
use foreseek_rig::Interrupt;
use std::path::PathBuf;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Measure the mount against stock Linux, nbdkit and a plain pass-through.
    Mount(Box<mount::MountArgs>),
    /// Measure warm, watch and the mount for programs that read trees of files.
    Walk(Box<walk::WalkArgs>),
    /// Measure array against the same array without it.
    Array(Box<array::ArrayArgs>),
    /// Measure the mount for jobs that it was not tuned for.
    Jobs(Box<jobs::JobsArgs>),
    /// Read as standard input asks; run by `lab bench mount`.
    #[command(hide = true)]
    Reader,
}

pub(crate) fn run(command: Command) -> anyhow::Result<Answer> {
    match command {
        Command::Mount(args) => mount::run(*args),
        Command::Walk(args) => walk::run(*args),
        Command::Array(args) => array::run(*args),
        Command::Jobs(args) => jobs::run(*args),
        Command::Reader => {
            foreseek_bench::reader::serve()?;
            Ok(Answer::Done)
        }
    }
}

/// What was measured in pairs.
struct Measured {
    table: String,
    json: String,
    /// Whether what was aimed at holds.
    holds: bool,
    /// Where the report was written, beside the raw runs.
    written: foreseek_bench::Result<PathBuf>,
}

/// Measures in pairs, with what is to come said first and a bar, and prints the report.
fn measured(
    format: Format,
    quiet: bool,
    work: impl FnOnce(&Interrupt, &Reporting<'_, Ahead>) -> foreseek_bench::Result<Measured>,
) -> anyhow::Result<Answer> {
    let interrupt = Interrupt::listen()?;
    let ahead = |ahead: &Ahead| report_ahead(ahead, quiet);
    let measured = with_bar(quiet, |progress| {
        let reporting = Reporting { ahead: &ahead, progress: &|share, what| progress(share, what) };
        work(&interrupt, &reporting)
    })?;
    print(&match format {
        Format::Json => measured.json,
        Format::Table => format!("{}\n", measured.table),
    })?;
    let written = measured.written?;
    if !quiet {
        note(&format!("the report and the raw runs are beside {}", written.display()));
    }
    Ok(if measured.holds { Answer::Done } else { Answer::No })
}

/// Says what is to come.
fn report_ahead(ahead: &Ahead, quiet: bool) {
    ahead.left_out.iter().for_each(|what| note(what));
    if !quiet {
        note(&format!("{} runs are there already, {} are to be made", ahead.there, ahead.runs));
    }
}
