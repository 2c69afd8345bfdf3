//! `foreseek lab bench mount`.

use crate::commands::progress::with_bar;
use crate::commands::{Answer, Format, print};
use clap::ValueHint;
use foreseek_bench::{
    Ahead, Cell, DATA_SIZE, Options, Outcome, PAIRS, PROFILE, Policy, Reporting, SECONDS, TIME_SCALE,
    mounted, report,
};
use foreseek_rig::Interrupt;
use foreseek_units::Bytes;
use std::path::PathBuf;

/// What is said after the options.
const AFTER_HELP: &str = "\
Each run is written to runs.jsonl in --output when it ends. The same command
continues from there, also with more --pairs, --cells or --policies. A verdict
is 'inconclusive' where the interval of the paired ratio contains the bound, or
where there are fewer than five pairs.

Examples:
  foreseek lab bench mount              all policies, in under an hour
  foreseek lab bench mount --cells full --data-size 24000M --pairs 10 \\
           --seconds 20 --time-scale 1
  foreseek lab bench mount --cells two-rand-0@16,hot,cold \\
           --policies linux-128k,plain,mount-competitive

Exit status: 0 all claims hold; 1 they do not, or not all is certain; 2 it could
not be measured.";

/// Options of `foreseek lab bench mount`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MountArgs {
    /// What is measured: `core` (24 combinations of benchmark and concurrency, and the overheads hot and cold),
    /// `full` (40 and the overheads), or a list of BENCHMARK@CONCURRENCY[/SCHEDULER], `hot`, `cold`.
    #[arg(long, value_name = "CELLS", default_value = "core")]
    cells: String,

    /// The policies to compare: linux-128k, linux-depth, linux-4m, nbdkit, plain, mount-POLICY, mount-POLICY-unbounded
    /// (nothing but the memory of the server bounds what is prefetched).
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Policy::compared())]
    policies: Vec<Policy>,

    /// How often each policy runs in each cell, in pairs of the same seed.
    #[arg(long, value_name = "NUMBER", default_value_t = PAIRS)]
    pairs: u32,

    /// Seconds that a run of one reader is measured; a run of 256 readers takes twice as long. A warm-up of half
    /// that time comes first.
    #[arg(long, value_name = "SECONDS", default_value_t = SECONDS)]
    seconds: f64,

    /// Choose --seconds so that everything ends within this time. The beginning of the output shows them: give them
    /// to continue later with more.
    #[arg(long, value_name = "MINUTES", conflicts_with = "seconds")]
    minutes: Option<f64>,

    /// The seed of the first pair; later pairs count up from it.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// The factor on the disk's time and on think times: 0.25 makes it four times as fast. The
    /// processors stay as they are.
    #[arg(long, value_name = "FACTOR", default_value_t = TIME_SCALE, allow_negative_numbers = true)]
    time_scale: f64,

    /// The disk: a built-in profile or a TOML file (`foreseek profile --list` shows them).
    #[arg(long, value_name = "NAME|FILE", default_value = PROFILE)]
    profile: String,

    /// Length of all files together, of 4 MiB each; the papers had 24000M.
    #[arg(long, value_name = "SIZE", default_value_t = DATA_SIZE, allow_hyphen_values = true)]
    data_size: Bytes,

    /// All of the memory: readers, servers and page cache.
    #[arg(long, value_name = "SIZE", default_value_t = Options::default().memory, allow_hyphen_values = true)]
    memory: Bytes,

    /// The part of --memory for a policy's server, where it has one; the readers get the rest.
    #[arg(long, value_name = "SIZE", default_value_t = Options::default().server_memory, allow_hyphen_values = true)]
    server_memory: Bytes,

    /// What each reader holds and touches beside its buffer of 64 KiB, within --memory; the papers' readers hold 1M.
    #[arg(long, value_name = "SIZE", default_value_t = Options::default().reader_private, allow_hyphen_values = true)]
    reader_private: Bytes,

    /// Where the emulated disk keeps its data (as much as --data-size) [default: /var/tmp].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    disk_space: Option<PathBuf>,

    /// Where raw runs, charts and the report go.
    #[arg(long, alias = "out", value_name = "DIR", default_value = "bench-mount", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(args: MountArgs) -> anyhow::Result<Answer> {
    let (format, quiet) = (args.format, args.quiet);
    let mut options = options(&args)?;
    if let Some(minutes) = args.minutes {
        options.within(minutes)?;
    }
    let interrupt = Interrupt::listen()?;
    let ahead = |ahead: &Ahead| report_ahead(ahead, &options, quiet);
    let outcome: Outcome = with_bar(quiet, |progress| {
        let reporting = Reporting { ahead: &ahead, progress: &|share, what| progress(share, what) };
        foreseek_bench::run(&options, &interrupt, &reporting)
    })?;
    let written = report::write(&outcome, &options.out);
    let text = match format {
        Format::Json => outcome.to_json(),
        Format::Table => format!("{}\n", outcome.to_table()),
    };
    print(&text)?;
    let report = written?;
    if !quiet {
        crate::commands::note(&format!(
            "the report, the charts and the raw runs are beside {}",
            report.display()
        ));
    }
    Ok(if outcome.holds() { Answer::Done } else { Answer::No })
}

/// Says what is to come. What will be missing is said in any case: it is not to be found out after an
/// hour.
fn report_ahead(ahead: &Ahead, options: &Options, quiet: bool) {
    ahead.left_out.iter().for_each(|what| crate::commands::note(what));
    if quiet {
        return;
    }
    let Ahead { runs, there, .. } = *ahead;
    let already = if there > 0 { format!("{there} runs are there already; ") } else { String::new() };
    let (seconds, minutes) = (options.seconds, (ahead.seconds / 60.0).ceil());
    crate::commands::note(&format!("{already}{runs} runs of {seconds} s and more, about {minutes} minutes"));
}

fn options(args: &MountArgs) -> anyhow::Result<Options> {
    let cells = match args.cells.as_str() {
        "core" => Cell::core(),
        "full" => Cell::full(),
        list => {
            let cells = list.split(',').map(|cell| cell.trim().parse().map_err(anyhow::Error::msg));
            cells.collect::<anyhow::Result<_>>()?
        }
    };
    for policy in &args.policies {
        if let Policy::Mount(name) = policy {
            let known = mounted(name).0.parse::<foreseek_mount::Policy>();
            known.map_err(|error| anyhow::anyhow!("--policies {policy}: {error}"))?;
        }
    }
    Ok(Options {
        policies: args.policies.clone(),
        cells,
        pairs: args.pairs,
        seconds: args.seconds,
        seed: args.seed,
        time_scale: args.time_scale,
        profile: args.profile.clone(),
        data: args.data_size,
        memory: args.memory,
        server_memory: args.server_memory,
        reader_private: args.reader_private,
        disk_space: args.disk_space.clone(),
        out: args.output.clone(),
    })
}
