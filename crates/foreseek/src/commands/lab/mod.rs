//! `foreseek lab`: the commands of the laboratory. They show that Foreseek is right, and how fast it is;
//! nobody needs them to use it.

mod bench;
mod device;
mod reproduce;
mod simulate;
mod trace;

use super::Answer;

/// What is said after the list of commands.
const AFTER_HELP: &str = "\
The laboratory is how we know that Foreseek is right and how fast it is. It runs
the papers' machines, loads and disks in virtual time, with the policies that a
mount has; 'bench' measures on the real kernel.
None of it is needed to use Foreseek.

Examples:
  foreseek lab reproduce --quick                            check the papers
  foreseek lab simulate experiments/two-rand-0.toml         run an experiment
  foreseek lab trace replay FILE --profile barracuda-500g   replay a trace
  foreseek lab bench mount                                  compare with Linux

docs/README.md lists the pages on the laboratory and on what was measured.";

/// The commands of the laboratory.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) enum Command {
    /// Check every claim of the papers in virtual time, one by one.
    Reproduce(reproduce::Args),
    /// Run an experiment of your own in virtual time.
    Simulate(simulate::Args),
    /// Read traces of real systems and replay them on a modelled device.
    #[command(subcommand)]
    Trace(trace::Command),
    /// Make device profiles from DiskSim drive descriptions, and check them.
    #[command(subcommand)]
    Device(device::Command),
    /// Measure the mount, warm, watch and array against stock Linux.
    #[command(subcommand)]
    Bench(bench::Command),
}

pub(crate) fn run(command: Command) -> anyhow::Result<Answer> {
    match command {
        Command::Reproduce(args) => reproduce::run(args),
        Command::Simulate(args) => simulate::run_command(args),
        Command::Trace(command) => trace::run(command),
        Command::Device(command) => device::run(command),
        Command::Bench(command) => bench::run(command),
    }
}
