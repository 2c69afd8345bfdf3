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
        Self { pid, pid_started: process_start(pid).unwrap_or_default() }
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        process_start(self.pid) == Some(self.pid_started)
    }

    /// Waits until it has ended. Returns whether it has within `limit`.
    #[must_use]
    pub fn wait_for_end(self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.is_alive() {
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

/// When a process started, in clock ticks since boot; `None` where it has ended (zombies have).
fn process_start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything: fields are counted after it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
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
        let process = ServerProcess { pid, pid_started: process_start(pid).expect("it runs") };
        assert!(process.is_alive());
        process.kill().expect("it is ours");
        assert!(!process.is_alive(), "a zombie");
        child.wait().expect("it ended");
        process.kill().expect("gone");
    }
}
