//! `foreseek lab device`: drives as extraction tools describe them, made device profiles and checked
//! against what was measured of them.

mod drive;
mod import;
mod plot;
mod validate;

use crate::commands::Answer;

/// The verbs of `foreseek lab device`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a device profile of a drive's .model and .seek files.
    Import(import::Args),
    /// Replay a trace of measured response times on a drive's model and compare.
    Validate(validate::Args),
}

pub(crate) fn run(command: Command) -> anyhow::Result<Answer> {
    match command {
        Command::Import(args) => import::run(args),
        Command::Validate(args) => validate::run(args),
    }
}
