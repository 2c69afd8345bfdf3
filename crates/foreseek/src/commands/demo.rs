//! `foreseek demo`: SQLite on an emulated disk, stock and with Foreseek.

use super::{Answer, Format};
use anyhow::Context;
use foreseek_demo::{DATABASE_SIZE, Interrupt, Mode, Options, PROFILE, Show, TIME_SCALE, report};
use foreseek_units::Bytes;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// What is said after the options.
const AFTER_HELP: &str = "\
Examples:
  foreseek demo --output demo-out                   with demo-out/index.html
  foreseek demo --simulate                          in virtual time: no root
  foreseek demo --profile exos-18t --time-scale 1   another disk, in real time

The real comparison needs root, /dev/fuse, loop devices and sqlite3. Where one
of them is missing it says so and runs in virtual time.";

/// Options of `foreseek demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Size of the database, at least.
    #[arg(long, value_name = "SIZE", default_value_t = DATABASE_SIZE, allow_hyphen_values = true)]
    database_size: Bytes,

    /// Memory of the main run, page cache included; half of the database unless given.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<Bytes>,

    /// The factor on the disk's time: 0.25 makes it four times as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = TIME_SCALE, allow_negative_numbers = true)]
    time_scale: f64,

    /// The disk: a built-in profile or a TOML file (`foreseek profile --list` shows them).
    #[arg(long, value_name = "NAME|FILE", default_value = PROFILE)]
    profile: String,

    /// Random seed.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Write the page, the plots and the JSON into this folder.
    #[arg(long, alias = "out", value_name = "DIR")]
    output: Option<PathBuf>,

    /// The SQLite extension, where it is not beside this program.
    #[arg(long, value_name = "FILE")]
    extension: Option<PathBuf>,

    /// How Foreseek fetches: `pipelined`, while the query reads, or `blocking`, the paper's way.
    #[arg(long, value_name = "MODE", default_value_t = Mode::Pipelined)]
    mode: Mode,

    /// Leave the disk attached and mounted at the end.
    #[arg(long)]
    keep: bool,

    /// Run in virtual time even where a real disk could be emulated.
    #[arg(long, conflicts_with = "keep")]
    simulate: bool,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Answer> {
    let options = Options {
        database_size: args.database_size,
        memory: args.memory,
        time_scale: args.time_scale,
        profile: args.profile,
        seed: args.seed,
        extension: args.extension,
        mode: args.mode,
        keep: args.keep,
        simulate: args.simulate,
        show: if args.quiet { Show::Quiet } else { Show::StandardError },
    };
    let interrupt = Interrupt::listen()?;
    if !options.simulate {
        foreseek_demo::left_behind().iter().for_each(|left| super::note(left));
    }
    args.output.as_deref().map(report::prepare).transpose()?;
    let outcome = foreseek_demo::run(&options, &interrupt)?;
    // What was measured is shown in any case: a report that cannot be written is said after it.
    let page = args.output.as_deref().map(|folder| report::write(&outcome, folder));
    let mut text = match args.format {
        Format::Json => format!("{:#}\n", outcome.to_json()),
        Format::Table => format!("{}\n", outcome.to_table()),
    };
    if let (Some(Ok(page)), Format::Table) = (&page, args.format) {
        text.push_str(&format!("\nThe report: {}\n", page.display()));
    }
    match std::io::stdout().write_all(text.as_bytes()) {
        // The reader of our output has closed it.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.context("cannot write the report")?,
    }
    page.transpose()?;
    Ok(Answer::Done)
}
