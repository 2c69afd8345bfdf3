//! `foreseek lab bench array`.

use super::{Measured, measured};
use crate::commands::{Answer, Format};
use clap::ValueHint;
use foreseek_bench::array::{self, Load, Options, PAIRS, PROFILE, SECONDS, Way};
use foreseek_units::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// What is said after the options.
const AFTER_HELP: &str = "\
Each run is written to runs.jsonl in --output when it ends. The same command
continues from there, also with more --pairs, --loads or --ways.

Examples:
  foreseek lab bench array              all of it, an hour
  foreseek lab bench array --loads reverse-16,random-16 \\
           --ways raw,adaptive --pairs 1

Exit status: 0 all aims are reached; 1 they are not, or not all is certain; 2 it
could not be measured.";

/// Options of `foreseek lab bench array`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ArrayArgs {
    /// The loads to run: sequential, reverse, stride (each third block) or random, each with its number of readers, as
    /// reverse-16 [default: nine of them].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    loads: Vec<Load>,

    /// The ways to compare, raw first: raw, or a policy of 'foreseek array' (adaptive, none, sp, asp, msp, asp+msp),
    /// with '@' and the kernel's read-ahead where it is not 128K [default: nine of them].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ways: Vec<Way>,

    /// How often each load is read in each way.
    #[arg(long, value_name = "NUMBER", default_value_t = PAIRS)]
    pairs: u32,

    /// How long each run reads.
    #[arg(long, value_name = "NUMBER", default_value_t = SECONDS)]
    seconds: u64,

    /// The seed of random reads.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// The array: a built-in profile or a TOML file (`foreseek profile --list` shows them).
    #[arg(long, value_name = "NAME|FILE", default_value = PROFILE)]
    profile: String,

    /// The array's size; nothing is written to it.
    #[arg(long, value_name = "SIZE", default_value_t = Options::default().size)]
    size: Bytes,

    /// Memory that `foreseek array` gets.
    #[arg(long, value_name = "SIZE", default_value_t = Options::default().memory)]
    memory: Bytes,

    /// Memory of the readers, page cache included, by a memory cgroup [default: the machine's].
    #[arg(long, value_name = "SIZE")]
    reader_memory: Option<Bytes>,

    /// The factor on the disks' time.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, allow_negative_numbers = true)]
    time_scale: f64,

    /// Where the emulated array keeps its data [default: /var/tmp].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    disk_space: Option<PathBuf>,

    /// Where raw runs and the report go.
    #[arg(long, alias = "out", value_name = "DIR", default_value = "bench-array", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(args: ArrayArgs) -> anyhow::Result<Answer> {
    let (format, quiet) = (args.format, args.quiet);
    let options = options(args);
    measured(format, quiet, |interrupt, reporting| {
        let report = array::run(&options, interrupt, reporting)?;
        let written = array::write(&report, &options.out);
        Ok(Measured { table: report.to_table(), json: report.to_json(), holds: report.holds(), written })
    })
}

fn options(args: ArrayArgs) -> Options {
    let default = Options::default();
    Options {
        loads: if args.loads.is_empty() { default.loads } else { args.loads },
        ways: if args.ways.is_empty() { default.ways } else { args.ways },
        pairs: args.pairs,
        time: Duration::from_secs(args.seconds),
        seed: args.seed,
        profile: args.profile,
        size: args.size,
        memory: args.memory,
        reader_memory: args.reader_memory,
        time_scale: args.time_scale,
        disk_space: args.disk_space,
        out: args.output,
    }
}
