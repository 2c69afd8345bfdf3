//! The commands, one a module, and what they share: the answer, the format, how they complain.

mod array;
mod demo;
mod disk;
mod documents;
mod help;
mod lab;
mod mount;
mod old_names;
mod order;
mod profile;
mod progress;
mod report;
mod sqlite;
mod warm;
mod watch;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use foreseek_device::Profile;
use foreseek_storage::{machine_memory, read_text};
use foreseek_units::Bytes;
use foreseek_warm::status_of_signal;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Makes programs read faster from hard disks, arrays and network volumes.
#[derive(Debug, Parser)]
#[command(name = "foreseek", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Mount a directory so that every program reads it faster.
    Mount(Box<mount::Args>),
    /// Measure what a disk's seeks and transfers cost; list known disks.
    Profile(profile::Args),
    /// Compare SQLite with and without Foreseek on an emulated disk.
    Demo(demo::Args),
    /// Serve a disk array as a block device that prefetches by strips.
    #[command(subcommand)]
    Array(array::Command),
    /// Emulate a hard disk, an array or a network volume as a block device.
    #[command(subcommand)]
    Disk(disk::Command),
    /// Print the files of a tree or a list in disk order.
    Order(order::Args),
    /// Bring a tree or a list of files into memory in disk order.
    Warm(Box<warm::Args>),
    /// Read ahead of every program that walks trees of files on a hard disk.
    Watch(watch::Args),
    /// Run a program so that its SQLite statements are prefetched.
    Sqlite(sqlite::Args),
    /// Reproduce the papers, simulate, replay traces, run benchmarks.
    #[command(subcommand)]
    Lab(lab::Command),
    #[command(hide = true)]
    Documents(documents::Args),
}

/// How a command reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    #[default]
    Table,
    /// One JSON value for programs.
    Json,
}

/// What a command has to say, as an exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done, or yes: 0.
    Done,
    /// The answer is no: 1.
    No,
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Done => Self::SUCCESS,
            Answer::No => Self::from(1),
        }
    }
}

/// Parses a command line. One that cannot be parsed, or asks for help, ends the process.
pub(crate) fn parse(line: impl Iterator<Item = OsString>) -> Cli {
    let (line, hint) = old_names::replaced(line.collect());
    if let Some(hint) = hint {
        warn(&hint);
    }
    let parser = || help::grouped(Cli::command());
    let cli = parser().try_get_matches_from(&line).and_then(|matches| Cli::from_arg_matches(&matches));
    cli.unwrap_or_else(|mut error| {
        suggest_lab(&mut error, line, parser());
        error.exit()
    })
}

/// Where no command has a name like an unknown one, suggests those of the laboratory that have.
fn suggest_lab(error: &mut clap::Error, mut line: Vec<OsString>, parser: clap::Command) {
    let suggested = |error: &clap::Error| match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    };
    if error.kind() != ErrorKind::InvalidSubcommand || !suggested(error).is_empty() {
        return;
    }
    line.insert(1, "lab".into());
    if let Err(in_lab) = parser.try_get_matches_from(line) {
        let names: Vec<_> = suggested(&in_lab).iter().map(|name| format!("lab {name}")).collect();
        if !names.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
        }
    }
}

/// Runs a parsed command line.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let answer = match cli.command {
        // Its exit status is that of the command that it ran.
        Command::Warm(args) => return warm::run(*args),
        Command::Sqlite(args) => return sqlite::run(&args),
        Command::Order(args) => order::run(args),
        Command::Watch(args) => watch::run(&args),
        Command::Mount(args) => mount::run(*args),
        Command::Profile(args) => profile::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Array(command) => array::run(command),
        Command::Disk(command) => disk::run(command),
        Command::Lab(command) => lab::run(command),
        Command::Documents(args) => documents::run(&args),
    };
    answer.map(ExitCode::from)
}

/// The exit status for an error: 2, or that of a program that a signal ended, as a shell reports it.
pub(crate) fn status_of(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(signal_of(error).map_or(2, status_of_signal))
}

/// The signal by which the user ended the work.
fn signal_of(error: &anyhow::Error) -> Option<i32> {
    error.chain().find_map(|cause| {
        let of_warm = || cause.downcast_ref::<foreseek_warm::Error>()?.signal();
        let of_demo = || cause.downcast_ref::<foreseek_demo::Error>()?.signal();
        let of_bench = || cause.downcast_ref::<foreseek_bench::Error>()?.signal();
        let of_rig = || cause.downcast_ref::<foreseek_rig::Error>()?.signal();
        of_warm().or_else(of_demo).or_else(of_bench).or_else(of_rig)
    })
}

/// Whether a memory limit, the option `--memory`, is possible on this machine.
pub(crate) fn check_memory(memory: Bytes, least: Bytes) -> anyhow::Result<()> {
    anyhow::ensure!(memory >= least, "--memory {memory}: give {least} or more");
    let machine = machine_memory().unwrap_or(Bytes(u64::MAX));
    anyhow::ensure!(memory <= machine, "--memory {memory}: this machine has {machine} in all; give less");
    Ok(())
}

/// Says on standard error what could not be done and why.
pub(crate) fn complain(error: &anyhow::Error) {
    // A message may already quote its cause: each reason is said once.
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    warn(&text);
}

/// The file into which a server records the events and commands of its engines, for a replay: `FORESEEK_RECORD`.
fn recording() -> anyhow::Result<Option<PathBuf>> {
    let name = std::env::var_os("FORESEEK_RECORD").filter(|name| !name.is_empty());
    Ok(name.map(std::path::absolute).transpose()?)
}

/// A profile that means the same in the server's working directory; one that there is not is refused
/// here.
pub(crate) fn server_profile(given: &str) -> anyhow::Result<String> {
    Profile::load(given, read_text)?;
    Ok(Profile::in_any_directory(given, |path| std::fs::canonicalize(path))?)
}

/// Writes on standard error what a user may want to know beside the result: what is missing, what is to come.
pub(crate) fn note(note: &str) {
    warn(&format!("note: {note}"));
}

/// Writes to standard error. Where that cannot be written either, the exit status has to do.
fn warn(what: &str) {
    let _ = writeln!(std::io::stderr(), "foreseek: {what}");
}

/// Writes a report to standard error, where standard output is another program's.
pub(crate) fn print_error(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes to standard output, all of it or an error.
pub(crate) fn write_out(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// The same, where nothing is lost when the reader has gone away: that is no failure then.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    match write_out(text) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// All pages.
    fn pages() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folders = ["docs/use", "docs/internals", "docs/lab"].map(|folder| root.join(folder));
        let listed = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder of pages"));
        let pages = listed.map(|entry| entry.expect("readable").path());
        pages.chain([root.join("README.md"), root.join("CONTRIBUTING.md")]).collect()
    }

    /// Command lines of this program in the code blocks of a page.
    fn commands(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        for block in text.split("\n```").skip(1).step_by(2) {
            let joined = block.replace("\\\n", " ");
            for line in joined.lines().skip(1) {
                // What a shell makes of several commands in a line is several commands.
                let parts = line.split(" | ").flat_map(|part| part.split(" && "));
                let plain = parts.map(|part| part.trim().trim_start_matches("sudo "));
                all.extend(plain.filter(|part| part.starts_with("foreseek ")).map(str::to_owned));
            }
        }
        all
    }

    /// The words of a command, without comment and redirections.
    fn words(command: &str) -> Vec<String> {
        let words = shlex::split(command).unwrap_or_else(|| panic!("quotes of: {command}"));
        let mut kept = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.trim_start_matches(|c: char| c.is_ascii_digit()) {
                ">" | "<" | ">>" => drop(words.next()),
                "&" | ">&2" | ">&1" => {}
                _ => kept.push(word),
            }
        }
        kept
    }

    #[test]
    fn every_documented_command_is_one() {
        let mut wrong = Vec::new();
        let mut count = 0;
        for page in pages() {
            // The policy that a reader of the recipe writes.
            let text = fs::read_to_string(&page).expect("a page").replace("as-long-as-read", "linux");
            for command in commands(&text) {
                count += 1;
                let line: Vec<OsString> = words(&command).into_iter().map(OsString::from).collect();
                let known = old_names::replaced(line.clone()).1.is_none();
                let parsed = Cli::try_parse_from(&line);
                // Help and version are errors to the parser.
                let is_help = |error: &clap::Error| {
                    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
                };
                match parsed {
                    Err(error) if !is_help(&error) => {
                        wrong.push(format!("{}: {command}: {error}", page.display()))
                    }
                    _ if !known => wrong.push(format!("{}: {command}: an old name", page.display())),
                    _ => {}
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 40, "{count} commands");
    }

    #[test]
    fn a_signal_ends_every_command_with_its_status() {
        let interrupted = || foreseek_rig::Error::Interrupted { signal: 2 };
        let errors: [anyhow::Error; 4] = [
            foreseek_warm::Error::Interrupted { signal: Some(2) }.into(),
            foreseek_demo::Error::from(interrupted()).into(),
            foreseek_bench::Error::from(interrupted()).into(),
            anyhow::Error::from(interrupted()).context("at work"),
        ];
        for error in errors {
            assert_eq!(signal_of(&error), Some(2), "{error:?}");
            assert_eq!(status_of(&error), ExitCode::from(130));
        }
        assert_eq!(signal_of(&anyhow::anyhow!("no such file")), None);
        assert_eq!([2, 15, 1].map(status_of_signal), [130, 143, 129]);
    }

    #[test]
    fn a_memory_limit_that_cannot_be_is_refused_by_its_option() {
        let check = |memory| check_memory(memory, Bytes::kib(4)).map_err(|error| error.to_string());
        assert_eq!(check(Bytes(100)), Err("--memory 100 B: give 4 KiB or more".to_owned()));
        assert_eq!(check(Bytes::kib(4)), Ok(()));
        let beyond = check(Bytes::gib(1 << 30)).expect_err("no machine has an exbibyte");
        assert!(beyond.starts_with("--memory ") && beyond.ends_with("give less"), "{beyond}");
    }

    #[test]
    fn commands_are_found_in_code_alone() {
        let text = "foreseek no\n```sh\nfind . | foreseek order --list - > out   # foreseek no\nsudo foreseek watch --all\n```\nforeseek no\n";
        assert_eq!(commands(text), ["foreseek order --list - > out   # foreseek no", "foreseek watch --all"]);
        assert_eq!(words(&commands(text)[0]), ["foreseek", "order", "--list", "-"]);
    }
}
