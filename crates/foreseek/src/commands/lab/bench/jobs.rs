//! `foreseek lab bench jobs`.

use super::{Measured, measured};
use crate::commands::{Answer, Format};
use clap::ValueHint;
use foreseek_bench::jobs::{self, NamedJob, Options, PAIRS, PROFILE, Way};
use foreseek_units::Bytes;
use std::path::PathBuf;

/// What is said after the options.
const AFTER_HELP: &str = "\
Each run is written to runs.jsonl in --output when it ends. The same command
continues from there, also with more --pairs, --jobs or --ways. Jobs whose
programs are not installed are left out, and listed at the beginning with what
to install.

Examples:
  foreseek lab bench jobs --jobs cat-4,git-log --ways stock,mount --pairs 5
  foreseek lab bench jobs --python venv/bin/python3
                                        all of it, for an hour; the Python in
                                        venv has duckdb and pyarrow

Exit status: 0 the mount is no slower than stock for any job; 1 it is, or not
all is certain; 2 it could not be measured.";

/// Options of `foreseek lab bench jobs`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct JobsArgs {
    /// The jobs to run: cat, cat-twice, cat-4, cp, cmp, grep, sha256sum, git-log, git-status, git-grep, tree-status, tree-grep, tree-tar,
    /// tree-find, tree-cp, duckdb, pyarrow, zip, unzip, compile, mmap, model-8, check-5, torrent, ffmpeg-2, pg-seq, pg-index, pg-bitmap, pg-update, pg-update-20k, pg-update-20k-late, sshfs-cat, sshfs-cat-4 [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    jobs: Vec<NamedJob>,

    /// The ways to compare, stock first: stock, stock-512k and stock-4m (read_ahead_kb), plain (a mount that passes reads
    /// on), mount [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ways: Vec<Way>,

    /// How often each job runs in each way.
    #[arg(long, value_name = "NUMBER", default_value_t = PAIRS)]
    pairs: u32,

    /// The size of the data: 1 is 100 to 500 MB for each job.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    share: f64,

    /// The seed of the data.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// All of the memory: one group for the programs, and for a mount beside them.
    #[arg(long, value_name = "SIZE", default_value_t = Options::default().memory)]
    memory: Bytes,

    /// With a mount, programs and mount have half of the memory each, in groups of their own.
    #[arg(long)]
    halves: bool,

    /// The disk: a built-in profile or a TOML file (`foreseek profile --list` shows them).
    #[arg(long, value_name = "NAME|FILE", default_value = PROFILE)]
    profile: String,

    /// The factor on the disk's time.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, allow_negative_numbers = true)]
    time_scale: f64,

    /// The Python for jobs that need one; those over Parquet need its modules duckdb and pyarrow.
    #[arg(long, value_name = "FILE", default_value = "python3", value_hint = ValueHint::ExecutablePath)]
    python: PathBuf,

    /// Where the emulated disk keeps its data, and programs what they write [default: /var/tmp].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    disk_space: Option<PathBuf>,

    /// Where raw runs and the report go.
    #[arg(long, alias = "out", value_name = "DIR", default_value = "bench-jobs", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(args: JobsArgs) -> anyhow::Result<Answer> {
    let (format, quiet) = (args.format, args.quiet);
    let options = options(args);
    measured(format, quiet, |interrupt, reporting| {
        let report = jobs::run(&options, interrupt, reporting)?;
        let written = jobs::write(&report, &options.out);
        Ok(Measured { table: report.to_table(), json: report.to_json(), holds: report.holds(), written })
    })
}

fn options(args: JobsArgs) -> Options {
    let default = Options::default();
    Options {
        jobs: if args.jobs.is_empty() { default.jobs } else { args.jobs },
        ways: if args.ways.is_empty() { default.ways } else { args.ways },
        pairs: args.pairs,
        share: args.share,
        seed: args.seed,
        memory: args.memory,
        halves: args.halves,
        profile: args.profile,
        time_scale: args.time_scale,
        python: args.python,
        disk_space: args.disk_space,
        out: args.output,
    }
}
