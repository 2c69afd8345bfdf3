//! Writes the manual pages and the shells' completions, from the one definition of the commands. For packagers.

use super::{Answer, Cli};
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;

/// Write manual pages and completions of bash, zsh and fish into a directory.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory; it is made.
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Answer> {
    let Args { directory } = args;
    let cannot = || format!("cannot write into {}", directory.display());
    fs::create_dir_all(directory).with_context(cannot)?;
    clap_mangen::generate_to(Cli::command(), directory).with_context(cannot)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "foreseek", directory).with_context(cannot)?;
    }
    Ok(Answer::Done)
}
