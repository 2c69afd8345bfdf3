//! `foreseek warm`: trees or a list of files brought into memory in disk order, for a command that
//! reads them.

use super::order::{complain_of_each, read_list, source_of};
use super::progress::Bar;
use super::report::{new_table, text_of};
use super::{Format, note};
use anyhow::Context;
use clap::ValueEnum;
use foreseek_storage::SignalQueue;
use foreseek_units::Bytes;
use foreseek_warm::{Limits, MEMORY_LEAST, Options, Reading, Report, SIGNALS, warm};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is said after the options.
const AFTER_HELP: &str = "\
Examples:
  foreseek warm /data                          bring a tree into memory
  foreseek warm /data --then -- grep -r x /data    and stay ahead of a command
  foreseek warm /data --metadata --then -- du -s /data

Exit status: that of the command; without one 0 if all is in memory, 1 if not
all is, 2 if it cannot start, 130 after Ctrl-C.

order and warm are explained in walks.md, in share/doc/foreseek or in docs/use
of the source.";

/// Options of `foreseek warm`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    override_usage = "foreseek warm [OPTIONS] <PATH>... [--then -- <COMMAND>...]\n       \
                      foreseek warm [OPTIONS] --list <FILE|-> [--then -- <COMMAND>...]"
)]
pub(crate) struct Args {
    /// Trees, and single files.
    #[arg(required_unless_present = "list", conflicts_with = "list")]
    path: Vec<PathBuf>,

    /// Take the paths of files from this file instead, in the order in which they will be read; `-`
    /// is standard input.
    #[arg(long, value_name = "FILE|-")]
    list: Option<PathBuf>,

    /// The paths of the list end with a NUL byte each instead of a newline.
    #[arg(long, short = '0', requires = "list")]
    null: bool,

    /// Bring only directories and inodes, for programs that look at files and do not open them (find,
    /// du, ls -l, rsync without -c).
    #[arg(long)]
    metadata: bool,

    /// Start this command when enough is in memory, and stay ahead of it. The exit status is the
    /// command's.
    #[arg(long, num_args = 0, requires = "command")]
    then: bool,

    /// The command and its arguments, after `--`.
    #[arg(last = true, requires = "then", value_name = "COMMAND")]
    command: Vec<OsString>,

    /// The order in which the command reads the entries of a directory; it matters where the trees do
    /// not fit into memory.
    #[arg(long, value_enum, default_value_t, conflicts_with = "list")]
    reading: ReadingArg,

    /// Upper limit on memory for what was read ahead and not used yet, at least 4 MiB; --share
    /// counts, too.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<Bytes>,

    /// The share of the available memory, 0.01 to 0.9, that may hold what was read ahead and not used yet.
    #[arg(long, default_value_t = 0.5, value_parser = share, value_name = "SHARE")]
    share: f64,

    /// Stay on the file system of each path.
    #[arg(long, short = 'x', conflicts_with = "list")]
    one_file_system: bool,

    /// How to report. With --then the report goes to standard error.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress and, with --then, no report for people.
    #[arg(long)]
    quiet: bool,
}

/// The order in which a command reads a directory.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ReadingArg {
    /// As the directory lists them: grep -r, tar, find, du.
    #[default]
    Listing,
    /// By inode number: cp, borg.
    Inode,
    /// By name: rsync, git.
    Name,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(memory) = args.memory {
        super::check_memory(memory, MEMORY_LEAST)?;
    }
    let list = read_list(args.list.as_deref())?;
    // Before any thread is started, and after what may wait for a person at a terminal.
    let signals = SignalQueue::block(&SIGNALS).context("cannot receive signals")?;
    let options = Options {
        limits: Limits { one_file_system: args.one_file_system },
        metadata_only: args.metadata,
        share: args.share,
        memory: args.memory,
        reading: match args.reading {
            ReadingArg::Listing => Reading::Listing,
            ReadingArg::Inode => Reading::Inode,
            ReadingArg::Name => Reading::Name,
        },
        command: args.then.then(|| args.command.clone()),
    };
    let separator = if args.null { b'\0' } else { b'\n' };
    let bar = Bar::new(args.quiet);
    let source = source_of(&args.path, list.as_deref(), separator);
    let warmed = warm(source, &options, &signals, &|progress| bar.follow(progress));
    bar.clear();
    let report = warmed?;
    // The JSON on standard error has them, and a program parses all that is there.
    let is_json_on_error = args.format == Format::Json && report.command.is_some();
    if !is_json_on_error {
        report.notes.iter().for_each(|text| note(text));
        complain_of_each(&report.errors, report.unreadable);
    }
    let text = text_of(args.format, &report, table)?;
    match report.command {
        Some(ended) => {
            if is_json_on_error || !args.quiet {
                super::print_error(&text);
            }
            Ok(ExitCode::from(ended.status))
        }
        None => {
            super::print(&text).context("cannot write to standard output")?;
            Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
    }
}

fn table(report: &Report) -> String {
    let mut table = new_table();
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    let bytes = |bytes: u64| Bytes(bytes).to_string();
    row("found", format!("{} files in {} directories", report.files, report.directories));
    row(
        "inodes and directories",
        match report.metadata_extents {
            0 => format!("through the file system, {:.2} s", report.list_seconds),
            pieces => format!(
                "{} in {pieces} pieces of the block device, {:.2} s",
                bytes(report.metadata_bytes),
                report.list_seconds
            ),
        },
    );
    if report.batches > 0 || report.size_bytes > 0 {
        let resident = bytes(report.resident_bytes);
        row("in memory before", format!("{resident} of {}", bytes(report.size_bytes)));
        row("addresses", format!("{} extents, {:.2} s", report.extents, report.map_seconds));
        let rate = report.fetched_bytes as f64 / 1e6 / report.read_seconds.max(1e-3);
        row(
            "read ahead",
            match report.batches {
                0 | 1 => {
                    format!("{} in {:.2} s, {rate:.1} MB/s", bytes(report.fetched_bytes), report.read_seconds)
                }
                batches => format!(
                    "{} in up to {batches} batches, memory limit {}",
                    bytes(report.fetched_bytes),
                    bytes(report.window_bytes)
                ),
            },
        );
    }
    if report.unmapped_bytes > 0 {
        let unmapped = bytes(report.unmapped_bytes);
        row("not on the disk", format!("{unmapped}: holes, inline or compressed data, not written yet"));
    }
    if report.skipped_bytes > 0 {
        let has_run = report.command.is_some() && report.batches > 0;
        let why = if has_run {
            "beyond a file's part of memory, or not needed in time"
        } else {
            "beyond the share of memory"
        };
        row("skipped", format!("{}, {why}", bytes(report.skipped_bytes)));
    }
    if report.fetched_again_bytes > 0 {
        row("read again", format!("{}, evicted before use", bytes(report.fetched_again_bytes)));
    }
    if report.evicted_bytes > 0 {
        row("evicted", format!("{} before use, or gone", bytes(report.evicted_bytes)));
    }
    if report.held_back_seconds > 0.0 {
        row("held back", format!("for {:.2} s, as others read from the disk", report.held_back_seconds));
    }
    row(
        "besides",
        format!(
            "{:.2} s of processor time, {} FIEMAP calls; the kernel evicted at most {} for it",
            report.processor_seconds,
            report.fiemap_calls,
            bytes(report.reclaimed_bytes)
        ),
    );
    if let Some(seconds) = report.command_seconds {
        row("command", format!("{seconds:.2} s"));
    }
    if let Some(used) = report.used_files {
        row("used", format!("{used} files"));
    }
    table.to_string()
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.01..=0.9).contains(&share) => Ok(share),
        _ => Err("it must be a number from 0.01 to 0.9".to_owned()),
    }
}
