//! `foreseek lab trace`: what a trace holds, and its replay on a modelled device.

mod file;
mod info;
mod programs;
mod replay;

pub(super) use programs::programs;

use crate::commands::{Answer, Format};

/// Reads traces of SPC, MSR, blkparse, blktrace, fio, DiskSim and libCacheSim, plain or compressed by gzip.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Read a trace to its end and say what it holds.
    Info(info::Args),
    /// Replay a trace's requests on a modelled device.
    Replay(Box<replay::Args>),
}

/// What both take.
#[derive(Debug, clap::Args)]
struct Source {
    /// The trace, plain or compressed by gzip.
    #[arg(value_name = "FILE")]
    file: std::path::PathBuf,

    /// The trace's format; without this it is found by the first line. One of spc, msr, blkparse, blktrace, fio,
    /// disksim, disksim-validation, libcachesim.
    #[arg(long = "as", value_name = "FORMAT", value_parser = file::format)]
    kind: Option<foreseek_simulate::trace::Format>,

    /// Only the first N requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

pub(crate) fn run(command: Command) -> anyhow::Result<Answer> {
    match command {
        Command::Info(args) => info::run(&args),
        Command::Replay(args) => replay::run(&args),
    }
}
