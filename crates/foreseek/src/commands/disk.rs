//! `foreseek disk`.

use super::{Answer, Format};

/// What to do with emulated disks.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List emulated disks.
    List {
        /// How to report.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
}

pub(crate) fn run(command: Command) -> anyhow::Result<Answer> {
    anyhow::bail!("not built yet ({command:?})")
}
