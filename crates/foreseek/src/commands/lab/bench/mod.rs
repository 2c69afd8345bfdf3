//! `foreseek lab bench`: measured comparisons.

mod array;
mod jobs;
mod mount;
mod walk;

use crate::commands::{Answer, remark};
use foreseek_bench::pairs::Ahead;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Measure the mount against stock Linux, nbdkit and a plain pass-through, on an emulated disk.
    Mount(Box<mount::MountArgs>),
    /// Measure `warm`, `watch` and the mount for programs that read trees of files, on an emulated disk.
    Walk(Box<walk::WalkArgs>),
    /// Measure `array` against the raw array, on an emulated one.
    Array(Box<array::ArrayArgs>),
    /// Measure the mount for jobs of programs that nobody tuned it for, on an emulated disk.
    Jobs(Box<jobs::JobsArgs>),
    /// Read, as told on standard input; run by `lab bench mount`.
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

/// Says what is to come.
fn say(ahead: &Ahead, quiet: bool) {
    ahead.left_out.iter().for_each(|what| remark(what));
    if !quiet {
        remark(&format!("{} runs are there already, {} are to be made", ahead.there, ahead.runs));
    }
}
