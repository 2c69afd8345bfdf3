//! `foreseek devices`.

use super::{Answer, Format};

/// Options of `foreseek devices`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Answer> {
    anyhow::bail!("not built yet ({:?})", args.format)
}
