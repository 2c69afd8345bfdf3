//! A process by its id and its start time: the kernel reuses ids.
//!
//! *Limit:* the start is counted in clock ticks (10 ms). An id that is reused within one tick is taken for
//! the old process; the kernel uses all other ids first.

use crate::{Context, Error};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::{Duration, Instant};

/// Longest wait for a killed process to end.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Between checks whether it has.
const POLL: Duration = Duration::from_millis(5);

/// A server's process, as in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerProcess {
    /// Its id.
    pub pid: u32,
    /// Its start in clock ticks since boot: id and start identify a process.
    pid_started: u64,
}

impl ServerProcess {
    /// This process.
    #[must_use]
    pub fn own() -> Self {
        let pid = std::process::id();
        Self::of(pid).unwrap_or(Self { pid, pid_started: 0 })
    }

    /// The process that has this id now.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, pid_started: Seen::of(pid)?.started })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        self.seen().is_some_and(|seen| !seen.ended)
    }

    /// Whether all its threads have ended. After its main thread others may wait for storage that does not answer; they
    /// hold its files open.
    fn is_gone(self) -> bool {
        self.seen().is_none_or(|seen| seen.ended && seen.threads <= 1)
    }

    fn seen(self) -> Option<Seen> {
        Seen::of(self.pid).filter(|seen| seen.started == self.pid_started)
    }

    /// Waits until it has ended, with all its threads. Returns whether it has within `limit`.
    #[must_use]
    pub fn wait_for_end(self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while !self.is_gone() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }

    /// Kills it, if it still runs, and waits until it has ended.
    ///
    /// # Errors
    /// It may not be killed, or does not end ([`Error::Unkillable`]).
    pub fn kill(self) -> Result<(), Error> {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()) else { return Ok(()) };
        // The pidfd cannot be reused; the start is therefore checked after it is opened.
        if let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
            && self.is_alive()
        {
            pidfd_send_signal(&process, Signal::KILL).context("end", format!("process {}", self.pid))?;
        }
        if self.wait_for_end(KILL_LIMIT) { Ok(()) } else { Err(Error::Unkillable(self.pid)) }
    }
}

/// A process as the kernel shows it.
struct Seen {
    /// When it started, in clock ticks since boot.
    started: u64,
    /// Its main thread has ended (it is a zombie).
    ended: bool,
    /// Its threads, the main one included.
    threads: u64,
}

impl Seen {
    /// `None` where there is no such process.
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything: fields are counted after it.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X");
        let threads = fields.nth(16)?.parse().ok()?;
        let started = fields.nth(1)?.parse().ok()?;
        Some(Self { started, ended, threads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn this_process_is_alive_and_another_with_its_id_is_not_it() {
        let own = ServerProcess::own();
        assert!(own.is_alive() && !own.wait_for_end(Duration::ZERO));
        let reused = ServerProcess { pid_started: own.pid_started + 1, ..own };
        assert!(!reused.is_alive());
        reused.kill().expect("nothing to do, and this process goes on");
    }

    #[test]
    fn an_ended_process_is_not_alive_even_before_it_is_waited_for() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("'sleep' exists");
        let pid = child.id();
        let process = ServerProcess::of(pid).expect("it runs");
        assert!(process.is_alive() && Seen::of(pid).is_some_and(|seen| seen.threads == 1));
        process.kill().expect("it is ours");
        assert!(!process.is_alive() && process.is_gone(), "a zombie");
        child.wait().expect("it ended");
        process.kill().expect("gone");
    }
}
