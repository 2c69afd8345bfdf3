//! The commands, one a module, and what they share: the answer, the format, how they complain.

mod bench;
mod demo;
mod device;
mod devices;
mod disk;
mod mount;
mod profile;
mod progress;
mod report;
mod reproduce;
mod simulate;
mod trace;

use clap::{Parser, Subcommand, ValueEnum};
use std::io::Write;
use std::process::ExitCode;

/// Makes programs read faster from storage that seeks: hard disks, arrays, network volumes.
#[derive(Debug, Parser)]
#[command(name = "foreseek", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the built-in device profiles and the competitive depth of each.
    Devices(devices::Args),
    /// Make device profiles of extracted drives, and check them against measured traces.
    #[command(subcommand)]
    Device(device::Command),
    /// Attach, list, watch and detach emulated disks.
    #[command(subcommand)]
    Disk(disk::Command),
    /// Show a directory through the prefetcher, without any change to the programs that read it.
    Mount(Box<mount::Args>),
    /// Measure a device from the outside, reading only, and write its profile.
    Profile(profile::Args),
    /// Show the main job: SQLite on an emulated disk, stock and with Foreseek.
    Demo(demo::Args),
    /// Measure a mount against stock Linux and its peers, with verdicts.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Run the papers' claims in virtual time and judge them, one by one.
    Reproduce(reproduce::Args),
    /// Run an experiment in virtual time: a sweep over devices, policies and concurrency.
    Simulate(simulate::Args),
    /// Look into traces of real systems and replay them on a modelled device.
    #[command(subcommand)]
    Trace(trace::Command),
}

/// How a command reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: one JSON value on standard output.
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

/// Runs a parsed command line.
pub(crate) fn run(cli: Cli) -> anyhow::Result<Answer> {
    match cli.command {
        Command::Devices(args) => devices::run(args),
        Command::Device(command) => device::run(command),
        Command::Disk(command) => disk::run(command),
        Command::Mount(args) => mount::run(*args),
        Command::Profile(args) => profile::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Bench(command) => bench::run(command),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Simulate(args) => simulate::run_command(args),
        Command::Trace(command) => trace::run(command),
    }
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
    tell(&text);
}

/// Says on standard error what was done with less than was wished for.
pub(crate) fn remark(remark: &str) {
    tell(&format!("note: {remark}"));
}

/// Writes to standard error. Where that cannot be written either, the exit status has to do.
fn tell(what: &str) {
    let _ = writeln!(std::io::stderr(), "foreseek: {what}");
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
