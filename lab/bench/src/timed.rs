//! A program that is timed to its end.

use crate::{Error, Result};
use foreseek_rig::{Interrupt, Running};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::Read;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long one run of a program may take.
const LIMIT: Duration = Duration::from_secs(6 * 3600);
/// How often an interrupt is checked for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// How much of a program's standard error is kept: its end, which has the reason of a failure or a report.
const SAID_LIMIT: usize = 64 << 10;
/// How much of that is quoted.
const QUOTED_LIMIT: usize = 4096;

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Timed {
    name: &'static str,
    said: Said,
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Timed {
    /// Runs a command to its end. A file descriptor of the process signals the end at once. What it writes to standard error is read
    /// meanwhile, since a program waits for a pipe that is full.
    pub(crate) fn run(name: &'static str, command: &mut Command, interrupt: &Interrupt) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let start = Instant::now();
        let mut running = Running::start(name, command)?;
        let cannot = |error| Error::io("cannot wait for", name, error);
        let ended = pidfd_open(Pid::from_child(&running.child), PidfdFlags::empty()).map_err(cannot)?;
        let mut said = Said::of(running.child.stderr.take()).map_err(cannot)?;
        loop {
            let mut ready = vec![PollFd::new(&ended, PollFlags::IN)];
            ready.extend(said.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            let _ = poll(&mut ready, Some(&LOOK));
            let is_over = !ready[0].revents().is_empty();
            drop(ready);
            if is_over {
                break;
            }
            said.read();
            interrupt.check()?;
            if start.elapsed() > LIMIT {
                let (what, seconds) = (name.to_owned(), LIMIT.as_secs());
                return Err(foreseek_rig::Error::TooSlow { what, seconds }.into());
            }
        }
        let took = start.elapsed();
        said.read();
        let status = running
            .poll()?
            .ok_or_else(|| Error::Option { what: format!("{name}: a program that had ended is running") })?;
        Ok(Self { name, said, status, took })
    }

    /// The end of what it wrote to standard error.
    pub(crate) fn said(&self) -> String {
        self.said.end(SAID_LIMIT)
    }

    /// Returns an error, with the program's standard error, if it ended with another status.
    pub(crate) fn expect(&self, task: &str, status: i32) -> Result<()> {
        if self.status.code() == Some(status) {
            return Ok(());
        }
        let said = self.said.end(QUOTED_LIMIT).trim().replace('\n', "; ");
        let stderr = if said.is_empty() { "it said nothing".to_owned() } else { said };
        let (task, status) = (task.to_owned(), self.status.to_string());
        Err(foreseek_rig::Error::Program { task, program: self.name, status, stderr }.into())
    }
}

/// What a program writes to standard error.
#[derive(Debug)]
struct Said {
    /// Until everybody has closed it.
    pipe: Option<ChildStderr>,
    text: Vec<u8>,
}

impl Said {
    fn of(pipe: Option<ChildStderr>) -> rustix::io::Result<Self> {
        pipe.as_ref().map_or(Ok(()), |pipe| fcntl_setfl(pipe, OFlags::NONBLOCK))?;
        Ok(Self { pipe, text: Vec::new() })
    }

    /// Reads what is there. Does not wait for more.
    fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        // It ends with an error where somebody may still write: what was read by then stays.
        if pipe.take(SAID_LIMIT as u64).read_to_end(&mut self.text).is_ok_and(|read| read == 0) {
            self.pipe = None;
        }
        let surplus = self.text.len().saturating_sub(SAID_LIMIT);
        self.text.drain(..surplus);
    }

    fn end(&self, most: usize) -> String {
        String::from_utf8_lossy(&self.text[self.text.len().saturating_sub(most)..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

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

    #[test]
    fn a_program_that_says_more_than_a_pipe_holds_ends_and_its_last_words_are_kept() {
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let line = "yes word | head -c 1000000 >&2; echo last words >&2; exit 3";
            let timed = Timed::run("sh", Command::new("sh").args(["-c", line]), &Interrupt::default());
            // Nobody listens after the limit.
            let _ = sender.send(timed);
        });
        let timed = ended.recv_timeout(Duration::from_secs(60)).expect("it ends").expect("it runs");
        assert!(timed.said().len() <= SAID_LIMIT && timed.said().ends_with("last words\n"));
        let error = timed.expect("talking", 0).expect_err("it failed").to_string();
        assert!(error.contains("last words") && error.len() < 2 * QUOTED_LIMIT, "{error}");
    }

    #[test]
    fn a_program_that_closes_its_standard_error_is_waited_for() {
        let run =
            Timed::run("sh", Command::new("sh").args(["-c", "exec 2>&-; sleep 0.1"]), &Interrupt::default());
        assert!(run.expect("it runs").took >= Duration::from_millis(100));
    }
}
