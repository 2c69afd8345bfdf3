//! `foreseek lab bench walk`.

use super::{Measured, measured};
use crate::commands::{Answer, Format};
use clap::ValueHint;
use foreseek_bench::walk::program::NamedProgram;
use foreseek_bench::walk::tree::Tree;
use foreseek_bench::walk::way::Way;
use foreseek_bench::walk::{self, FileSystem, Options, PAIRS, PROFILE};
use foreseek_rig::queue::Scheduler;
use foreseek_units::Bytes;
use std::path::PathBuf;

/// What is said after the options.
const AFTER_HELP: &str = "\
Each run is written to runs.jsonl in --output when it ends. The same command
continues from there, also with more --pairs, --trees, --programs or --ways.
Each pair has a new disk, file system and trees, of its own seed (--seed and the
number of the pair): trees of one kind do not lie alike. Making them takes from
seconds (fresh) to minutes (aged) in each pair; --same-trees makes them once.
Without --trees, --programs and --ways, what decides no aim runs in the first
pair alone: the trees large, maildir and media, shuffled and dump, and over fresh
and aged trees the ways stock-4m and mount.
Programs that are not installed are left out, and listed at the beginning. So is
the tree large with a --share below 0.9: its memory would be more than a quarter.

Examples:
  foreseek lab bench walk --quick               a first look, within 20 minutes
  foreseek lab bench walk --trees fresh --programs tar,grep \\
           --ways stock,warm,watch --pairs 5
  foreseek lab bench walk --profile exos-18t    all of it: a night

Exit status: 0 all aims of what was asked for are reached; 1 they are not, or not
all is measured and certain; 2 it could not be measured.";

/// Options of `foreseek lab bench walk`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct WalkArgs {
    /// A first look: a tenth of the files, two trees, five programs, three ways, one pair.
    #[arg(long, conflicts_with_all = ["trees", "programs", "ways", "pairs", "share"])]
    quick: bool,

    /// The trees to read: fresh, aged, large (four times the memory), maildir, media [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    trees: Vec<Tree>,

    /// The programs to run, each on the trees that it is meant for: tar, cp, grep, rg, rsync-checksum, rsync-dry-run, find, du, sha256sum,
    /// jdupes, shuffled, borg, restic, git-status, git-grep, fclones, dump, two-tars, grep-and-reader [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    programs: Vec<NamedProgram>,

    /// The ways to compare, stock first: stock, stock-512k, stock-1m, stock-4m, stock-16m (read_ahead_kb), warm, watch,
    /// mount [default: stock,stock-4m,warm,watch,mount].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ways: Vec<Way>,

    /// How often each program runs in each way; five decide.
    #[arg(long, value_name = "NUMBER", default_value_t = PAIRS)]
    pairs: u32,

    /// The size of the trees: 1 is 50,000 fresh ones and 200,000 aged ones.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    share: f64,

    /// The seed of the trees of the first pair; each further pair has the next one (with five pairs, 1 and 6 share no trees).
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Make the trees once, for all pairs; the intervals do not show how much trees differ then.
    #[arg(long)]
    same_trees: bool,

    /// The disk: a built-in profile or a TOML file (`foreseek profile --list` shows them).
    #[arg(long, value_name = "NAME|FILE", default_value = PROFILE)]
    profile: String,

    /// The disk's size; only what is written takes space.
    #[arg(long, value_name = "SIZE", default_value_t = Options::default().disk_size)]
    disk_size: Bytes,

    /// The factor on the disk's time.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, allow_negative_numbers = true)]
    time_scale: f64,

    /// The file system on the disk: ext4 or xfs.
    #[arg(long, value_name = "KIND", default_value = "ext4")]
    file_system: FileSystem,

    /// How much of the file system is filled before trees are made, so that these lie all over the disk: 0.95.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    filled: f64,

    /// The I/O scheduler above the disk: mq-deadline, bfq [default: none, as loop devices begin].
    #[arg(long, value_name = "NAME")]
    scheduler: Option<Scheduler>,

    /// Where the emulated disk keeps its data, and backups their repositories [default: /var/tmp].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    disk_space: Option<PathBuf>,

    /// Where raw runs and the report go.
    #[arg(long, alias = "out", value_name = "DIR", default_value = "bench-walk", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(args: WalkArgs) -> anyhow::Result<Answer> {
    let (format, quiet) = (args.format, args.quiet);
    let options = options(args);
    measured(format, quiet, |interrupt, reporting| {
        let report = walk::run(&options, interrupt, reporting)?;
        let written = walk::write(&report, &options.out);
        Ok(Measured { table: report.to_table(), json: report.to_json(), holds: report.holds(), written })
    })
}

fn options(args: WalkArgs) -> Options {
    let default = Options::default();
    let all_in_each_pair = !(args.trees.is_empty() && args.programs.is_empty() && args.ways.is_empty());
    let options = Options {
        trees: if args.trees.is_empty() { default.trees } else { args.trees },
        programs: if args.programs.is_empty() { default.programs } else { args.programs },
        ways: if args.ways.is_empty() { default.ways } else { args.ways },
        pairs: args.pairs,
        all_in_each_pair,
        share: args.share,
        seed: args.seed,
        new_trees: !args.same_trees,
        profile: args.profile,
        disk_size: args.disk_size,
        time_scale: args.time_scale,
        file_system: args.file_system,
        filled: args.filled,
        scheduler: args.scheduler,
        disk_space: args.disk_space,
        out: args.output,
    };
    if args.quick { options.quick() } else { options }
}
