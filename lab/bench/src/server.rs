//! A server that is started for a run: a child process that shows a file system, or answers requests.

use crate::{Error, Result};
use foreseek_rig::{Interrupt, POLL, Running};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it is ready.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a server may take to end, and a loop device to become free.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(20);

/// A server, and where it shows a file system. Ended when dropped; prefer [`Server::end`], which returns
/// errors.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) running: Running,
    shown: Option<PathBuf>,
}

impl Server {
    /// Starts it and waits until `ready` says that it is ready.
    pub(crate) fn start(
        policy: &str,
        name: &'static str,
        mut command: Command,
        shown: Option<&Path>,
        interrupt: &Interrupt,
        ready: impl Fn() -> bool,
    ) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let running = Running::start(name, &mut command)?;
        let mut server = Self { running, shown: shown.map(Path::to_owned) };
        let start = Instant::now();
        while !ready() {
            interrupt.check()?;
            server.check(policy, "ended at once")?;
            if start.elapsed() > START_LIMIT {
                let what = format!("was not ready within {} s", START_LIMIT.as_secs());
                return Err(Error::Server { policy: policy.to_owned(), what });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(server)
    }

    /// One that shows a file system at a place.
    pub(crate) fn showing(
        policy: &str,
        name: &'static str,
        command: Command,
        shown: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        Self::start(policy, name, command, Some(shown), interrupt, || is_mounted(shown))
    }

    /// An error if the server has ended: its readers would wait for ever.
    pub(crate) fn check(&mut self, policy: &str, ended: &str) -> Result<()> {
        if let Some(status) = self.running.poll()? {
            self.running.judge(&format!("serving {policy}"), status)?;
            return Err(Error::Server { policy: policy.to_owned(), what: ended.to_owned() });
        }
        Ok(())
    }

    /// Asks it to end and waits for that.
    pub(crate) fn end(mut self) -> Result<()> {
        self.ask();
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        let start = Instant::now();
        while self.running.poll()?.is_none() {
            if start.elapsed() > END_LIMIT {
                let seconds = END_LIMIT.as_secs();
                return Err(foreseek_rig::Error::TooSlow { what: "a server".to_owned(), seconds }.into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Unmounts what it shows, which ends nbdfuse, and sends the signal that ends the others.
    fn ask(&mut self) {
        if let Some(shown) = &self.shown
            && is_mounted(shown)
        {
            let start = Instant::now();
            // A program that looks at it is done soon; otherwise it is detached and goes when it is free.
            while unmount(shown, UnmountFlags::empty()).is_err() {
                if start.elapsed() > END_LIMIT / 4 {
                    let _ = unmount(shown, UnmountFlags::DETACH);
                    break;
                }
                std::thread::sleep(POLL);
            }
        }
        if let Ok(None) = self.running.poll() {
            let _ = kill_process(Pid::from_child(&self.running.child), Signal::TERM);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Also where it was still starting when the user interrupted: killed, it would leave its mount and its
        // record. A server that does not react is killed after this.
        self.ask();
        let _ = self.wait();
    }
}

/// Whether something is mounted there. The path is the benchmark's own and has no characters that would be
/// escaped.
pub(crate) fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_known_by_the_kernel() {
        assert!(is_mounted(Path::new("/")) && is_mounted(Path::new("/proc")));
        assert!(!is_mounted(Path::new("/nowhere")));
    }
}
