//! The ways in which a program is run: over stock Linux, after `warm`, beside `watch`, over a mount.
//!
//! Watcher and mount are this program itself, with a state folder of their own, so that they do not meet a
//! watcher of the machine. They are started before the timing and ended after it; `warm --then` is timed with
//! the program.

use super::program::{Program, SHELL};
use super::record::SideCosts;
use crate::named::by_name;
use crate::server::Server;
use crate::{Error, Result};
use foreseek_rig::Interrupt;
use foreseek_storage::loop_device::DEFAULT_READ_AHEAD;
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The kernel with its defaults: `read_ahead_kb` at 128.
    Stock,
    /// `read_ahead_kb` at 512.
    #[serde(rename = "stock-512k")]
    Stock512K,
    /// `read_ahead_kb` at 1024.
    #[serde(rename = "stock-1m")]
    Stock1M,
    /// `read_ahead_kb` at 4096.
    #[serde(rename = "stock-4m")]
    Stock4M,
    /// `read_ahead_kb` at 16384.
    #[serde(rename = "stock-16m")]
    Stock16M,
    /// `foreseek warm TREE --then -- PROGRAM`.
    Warm,
    /// `foreseek watch` beside.
    Watch,
    /// Over `foreseek mount`.
    Mount,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Stock,
        Self::Stock512K,
        Self::Stock1M,
        Self::Stock4M,
        Self::Stock16M,
        Self::Warm,
        Self::Watch,
        Self::Mount,
    ];

    /// Those that are measured if none are named.
    pub const USUAL: [Self; 5] = [Self::Stock, Self::Stock4M, Self::Warm, Self::Watch, Self::Mount];

    /// The kernel's read-ahead.
    pub(crate) const fn read_ahead(self) -> Bytes {
        match self {
            Self::Stock512K => Bytes::kib(512),
            Self::Stock1M => Bytes::mib(1),
            Self::Stock4M => Bytes::mib(4),
            Self::Stock16M => Bytes::mib(16),
            Self::Stock | Self::Warm | Self::Watch | Self::Mount => DEFAULT_READ_AHEAD,
        }
    }

    /// Whether it differs from stock by the kernel's read-ahead alone.
    pub(crate) fn is_another_read_ahead(self) -> bool {
        self.read_ahead() != DEFAULT_READ_AHEAD
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Stock512K => "stock-512k",
            Self::Stock1M => "stock-1m",
            Self::Stock4M => "stock-4m",
            Self::Stock16M => "stock-16m",
            Self::Warm => "warm",
            Self::Watch => "watch",
            Self::Mount => "mount",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Way {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        by_name(name, Self::ALL, Self::name, "a way to run a program")
    }
}

/// What every way needs.
#[derive(Debug)]
pub(crate) struct Environment<'a> {
    /// This program.
    pub(crate) foreseek: &'a Path,
    pub(crate) profile: &'a str,
    /// Where the disk is mounted.
    pub(crate) disk: &'a Path,
    /// Where a mount shows it.
    pub(crate) view: &'a Path,
    /// Where servers keep their state.
    pub(crate) state: &'a Path,
    /// All of the memory, where it is limited: a server gets half of it, programs the other half.
    pub(crate) memory: Option<Bytes>,
    pub(crate) interrupt: &'a Interrupt,
}

/// What was started for a run; ended when dropped.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The directory in which programs find the disk's files.
    pub(crate) root: PathBuf,
    server: Option<Server>,
}

impl Environment<'_> {
    /// The programs' part of the memory.
    pub(crate) fn programs_memory(&self, way: Way) -> Option<Bytes> {
        let has_server = matches!(way, Way::Watch | Way::Mount);
        self.memory.map(|memory| if has_server { memory / 2 } else { memory })
    }

    /// Limits a server to its part of it.
    fn limit(&self, command: &mut Command) {
        if let Some(memory) = self.memory {
            command.args(["--memory", &(memory / 2).get().to_string()]);
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.foreseek);
        command.env("FORESEEK_RUN", self.state).env("FORESEEK_STATE", "");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts what a way needs.
    pub(crate) fn setup(&self, way: Way) -> Result<Standing> {
        let mut command = self.command();
        let (server, root) = match way {
            Way::Stock | Way::Stock512K | Way::Stock1M | Way::Stock4M | Way::Stock16M | Way::Warm => {
                (None, self.disk)
            }
            Way::Watch => {
                command.args(["watch", "--foreground", "--profile", self.profile]);
                self.limit(&mut command);
                command.arg(self.disk);
                let answers = || self.watches();
                (Some(Server::start("watch", "foreseek", command, None, self.interrupt, answers)?), self.disk)
            }
            Way::Mount => {
                command.args(["mount", "--foreground"]);
                self.limit(&mut command);
                command.args([self.disk, self.view]);
                (Some(Server::showing("mount", "foreseek", command, self.view, self.interrupt)?), self.view)
            }
        };
        Ok(Standing { root: root.to_owned(), server })
    }

    /// Whether the watcher answers.
    fn watches(&self) -> bool {
        let status = self.command().args(["watch", "--status"]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// What the watcher has cost so far; `None` for other ways.
    pub(crate) fn watchers_costs(&self, way: Way) -> Result<Option<SideCosts>> {
        if way != Way::Watch {
            return Ok(None);
        }
        let mut command = self.command();
        command.args(["watch", "--status", "--format", "json"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let said = command.output().map_err(|error| Error::io("cannot ask", "the watcher", error))?;
        let costs = serde_json::from_slice(&said.stdout).ok().and_then(|told| SideCosts::of(&told));
        let what = "does not tell what it costs".to_owned();
        costs.map(Some).ok_or_else(|| Error::Server { policy: way.to_string(), what })
    }

    /// The command of a way for a program. If it reads no contents, none are fetched for it.
    pub(crate) fn shell(&self, way: Way, program: &Program, tree: &Path, scratch: &Path) -> Vec<OsString> {
        let mut all: Vec<OsString> = Vec::new();
        if way == Way::Warm {
            all.extend([self.foreseek.into()]);
            all.extend(["warm", "--quiet", "--format", "json"].map(OsString::from));
            all.extend((!program.reads_contents()).then(|| "--metadata".into()));
            all.extend([tree.into(), "--then".into(), "--".into()]);
        }
        all.extend(SHELL.into_iter().chain([program.line(), SHELL[0]]).map(OsString::from));
        all.extend([tree.into(), scratch.into()]);
        all
    }
}

impl Standing {
    /// Ends what was started.
    pub(crate) fn end(self) -> Result<()> {
        self.server.map_or(Ok(()), Server::end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_named() {
        for way in Way::ALL {
            assert_eq!(way.name().parse::<Way>().expect("known"), way);
            assert_eq!(serde_json::to_value(way).expect("JSON"), way.name());
        }
        assert!("fast".parse::<Way>().expect_err("unknown").to_string().contains("stock-4m"));
    }
}
