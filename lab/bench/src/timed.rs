//! A program that is timed to its end.

use crate::{Error, Result};
use foreseek_rig::{Interrupt, Running};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long one run of a program may take.
const LIMIT: Duration = Duration::from_secs(6 * 3600);
/// How often an interrupt is checked for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Timed {
    running: Running,
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Timed {
    /// Runs a command to its end. A file descriptor of the process signals the end at once.
    pub(crate) fn run(name: &'static str, command: &mut Command, interrupt: &Interrupt) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let start = Instant::now();
        let mut running = Running::start(name, command)?;
        let cannot = |error| Error::io("cannot wait for", name, error);
        let ended = pidfd_open(Pid::from_child(&running.child), PidfdFlags::empty()).map_err(cannot)?;
        loop {
            let mut ready = [PollFd::new(&ended, PollFlags::IN)];
            let _ = poll(&mut ready, Some(&LOOK));
            if !ready[0].revents().is_empty() {
                break;
            }
            interrupt.check()?;
            if start.elapsed() > LIMIT {
                let (what, seconds) = (name.to_owned(), LIMIT.as_secs());
                return Err(foreseek_rig::Error::TooSlow { what, seconds }.into());
            }
        }
        let took = start.elapsed();
        let status = running
            .poll()?
            .ok_or_else(|| Error::Option { what: format!("{name}: a program that had ended is running") })?;
        Ok(Self { running, status, took })
    }

    /// What it wrote to standard error and was not quoted yet.
    pub(crate) fn said(&mut self) -> String {
        self.running.said()
    }

    /// Returns an error, with the program's standard error, if it ended with another status.
    pub(crate) fn expect(&mut self, task: &str, status: i32) -> Result<()> {
        if self.status.code() == Some(status) {
            return Ok(());
        }
        self.running.judge(task, self.status)?;
        Err(Error::Option { what: format!("{task}: it ended with {}", self.status) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_end_is_quoted_and_another_expected_one_is_none() {
        let run = |line: &str| {
            Timed::run("sh", Command::new("sh").args(["-c", line]), &Interrupt::default()).expect("it runs")
        };
        assert!(run("exit 1").expect("searching", 1).is_ok());
        let error = run("echo no such table >&2; exit 3").expect("asking", 0).expect_err("it failed");
        assert!(
            error.to_string().contains("asking") && error.to_string().contains("no such table"),
            "{error}"
        );
        let error = run("true").expect("searching", 1).expect_err("something was found").to_string();
        assert!(error.contains("searching"), "{error}");
        assert!(run("sleep 0.1").took >= Duration::from_millis(100));
    }
}
