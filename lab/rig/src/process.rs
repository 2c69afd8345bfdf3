//! Programs that are run: found beforehand, waited for with a time limit, never left behind.

use crate::interrupt::{Interrupt, POLL};
use crate::{Error, Result};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Where administrators' programs live; an ordinary user's PATH lacks these.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// How much of a failed program's standard error is kept: enough for the reason.
const STDERR_LIMIT: u64 = 4096;

/// How long to wait for a killed process: as long as a full queue of the slowest modelled requests takes.
const REAP_LIMIT: Duration = Duration::from_secs(5);

/// A program on this machine.
#[derive(Clone, Debug)]
pub struct Program {
    name: &'static str,
    path: PathBuf,
}

impl Program {
    /// Finds a program in PATH and in the administrators' folders.
    ///
    /// # Errors
    /// [`Error::MissingProgram`] with the package that holds it.
    pub fn find(name: &'static str, package: &'static str) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
            .map(|folder| folder.join(name))
            .find(|path| is_executable(path))
            .map(|path| Self { name, path })
            .ok_or(Error::MissingProgram { program: name, package })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs it to its end and returns what it printed.
    ///
    /// # Errors
    /// When it cannot be started, fails, takes longer than `limit`, or the user interrupts.
    pub fn run(
        &self,
        task: &str,
        arguments: &[&str],
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<String> {
        let mut running = Running::start(
            self.name,
            Command::new(&self.path).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()),
        )?;
        let mut printed = String::new();
        running.wait(task, limit, interrupt, &mut || ())?;
        if let Some(mut stdout) = running.child.stdout.take() {
            // These programs print less than a pipe holds, so that reading at their end is enough.
            let _ = stdout.read_to_string(&mut printed);
        }
        Ok(printed)
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// A child process that is ended and reaped when it is dropped.
#[derive(Debug)]
pub struct Running {
    name: &'static str,
    /// The process.
    pub child: Child,
}

impl Running {
    /// Starts a command; its standard error is kept for the report of a failure.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let child =
            command.stderr(Stdio::piped()).spawn().map_err(|error| Error::io("cannot start", name, error))?;
        Ok(Self { name, child })
    }

    /// Waits for its end and calls `meanwhile` at every check.
    ///
    /// # Errors
    /// When it fails, takes longer than `limit`, or the user interrupts.
    pub fn wait(
        &mut self,
        task: &str,
        limit: Duration,
        interrupt: &Interrupt,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<()> {
        let start = Instant::now();
        // So that a quick end is noticed quickly: the pause between checks grows from 1 ms to that of `POLL`.
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.poll()? {
                if !status.success() {
                    // A Ctrl-C reaches the child as well: then the user has ended it.
                    interrupt.check()?;
                }
                return self.judge(task, status);
            }
            interrupt.check()?;
            if start.elapsed() > limit {
                return Err(Error::TooSlow { what: task.to_owned(), seconds: limit.as_secs() });
            }
            meanwhile();
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL);
        }
    }

    /// Whether it has ended, and how.
    ///
    /// # Errors
    /// The system's.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|error| Error::io("cannot wait for", self.name, error))
    }

    /// Turns a failure into an error that quotes the program's standard error.
    ///
    /// # Errors
    /// [`Error::Program`].
    pub fn judge(&mut self, task: &str, status: ExitStatus) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        Err(Error::Program {
            task: task.to_owned(),
            program: self.name,
            status: status.to_string(),
            stderr: self.stderr(),
        })
    }

    fn stderr(&mut self) -> String {
        let mut said = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(STDERR_LIMIT).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        if said.is_empty() { "it said nothing".to_owned() } else { said }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Running {
    /// Kills it if it has not ended by itself.
    pub fn end(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
        }
        // A killed process ends at once unless it waits for a device that does not answer. Then it is left to
        // init: cleaning up goes on and frees that device.
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < REAP_LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_missing_program_names_its_package() {
        let error = Program::find("no-such-program", "some-package").expect_err("it is not there");
        assert!(error.to_string().contains("some-package"), "{error}");
    }

    #[test]
    fn a_failing_program_is_quoted() {
        let sh = Program::find("sh", "dash").expect("sh is everywhere");
        let error = sh
            .run("trying", &["-c", "echo first >&2; echo second >&2; exit 3"], LIMIT, &Interrupt::default())
            .expect_err("it fails")
            .to_string();
        assert!(
            error.contains("trying") && error.contains("first; second") && error.contains('3'),
            "{error}"
        );
    }

    #[test]
    fn what_it_prints_comes_back() {
        let sh = Program::find("sh", "dash").expect("sh is everywhere");
        let printed = sh.run("trying", &["-c", "echo hello"], LIMIT, &Interrupt::default());
        assert_eq!(printed.expect("it works"), "hello\n");
    }

    #[test]
    fn an_interrupted_program_is_ended() {
        let interrupt = Interrupt::default();
        interrupt.ask();
        let mut running =
            Running::start("sleep", Command::new("sleep").arg("60")).expect("sleep is everywhere");
        let pid = running.child.id();
        assert!(matches!(
            running.wait("sleeping", LIMIT, &interrupt, &mut || ()),
            Err(Error::Interrupted { .. })
        ));
        drop(running);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_program_that_takes_too_long_is_given_up() {
        let sleep = Program::find("sleep", "coreutils").expect("sleep is everywhere");
        let error = sleep
            .run("sleeping", &["60"], Duration::from_millis(20), &Interrupt::default())
            .expect_err("it sleeps longer");
        assert!(matches!(error, Error::TooSlow { .. }), "{error}");
    }
}
