//! Starting a server, from both ends.
//!
//! The starter runs the server's program with its standard input and output as pipes, and writes the
//! settings. The server leaves the starter's session, starts, may have the starter do what it cannot do itself,
//! and says how it went; from then on the pipes are closed and it writes to its log. It is the starter's
//! child, which a thread waits for, and init's once the starter has ended.

use crate::protocol::Started;
use crate::serve::{Control, Daemon, Ending, run_server};
use crate::wire::{read_message, write_message};
use crate::{CallError, Context, Error, daemon};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Longest wait for a word from a server that starts: the slowest takes half a second to measure its
/// path, and a busy machine may make it ten times that.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The starter, in messages.
const STARTER: &str = "the program that starts the server";

/// A server's program and the arguments with which it calls [`run_detached`].
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Path,
    /// The arguments.
    pub arguments: &'a [&'a str],
}

impl Launch<'_> {
    /// Starts a server, which outlives the caller; what it says when it is ready.
    ///
    /// # Errors
    /// [`Error::Refused`] with the server's own reason, and nothing is left behind then; [`Error::NoWord`],
    /// [`Error::Died`], [`Error::Call`].
    pub fn start<R: DeserializeOwned>(self, settings: &impl Serialize) -> Result<R, Error> {
        self.start_with(settings, |()| ())
    }

    /// The same for a server that has the starter do something: `answer` does it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with<Q: DeserializeOwned, A: Serialize, R: DeserializeOwned>(
        self,
        settings: &impl Serialize,
        answer: impl FnMut(Q) -> A,
    ) -> Result<R, Error> {
        let Self { program, arguments } = self;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("run", program)?;
        let ready = attend(&mut child, settings, answer);
        if matches!(&ready, Err(Error::NoWord(_))) {
            let _ = child.kill();
        }
        // Whoever has ended without being waited for stays in the table of processes.
        let _ = std::thread::Builder::new().spawn(move || child.wait());
        ready
    }
}

/// Speaks with a server until it is ready or has failed.
fn attend<Q: DeserializeOwned, A: Serialize, R: DeserializeOwned>(
    child: &mut Child,
    settings: &impl Serialize,
    mut answer: impl FnMut(Q) -> A,
) -> Result<R, Error> {
    let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::Died(io::Error::other("it has no standard input or output")));
    };
    write_message(&mut to, settings).map_err(Error::Died)?;
    let mut from = BufReader::new(from);
    loop {
        match read_within_limit(&mut from)? {
            Started::Ready(ready) => return Ok(ready),
            Started::Failed(why) => return Err(Error::Refused(why)),
            Started::Wanted(wanted) => write_message(&mut to, &answer(wanted)).map_err(Error::Died)?,
        }
    }
}

fn read_within_limit<T: DeserializeOwned>(from: &mut BufReader<ChildStdout>) -> Result<T, Error> {
    let limit = Timespec::try_from(START_LIMIT).ok();
    let ready = poll(&mut [PollFd::new(from.get_ref(), PollFlags::IN)], limit.as_ref());
    if from.buffer().is_empty() && ready.context("wait for", "the server")? == 0 {
        return Err(Error::NoWord(START_LIMIT));
    }
    read_message(from).map_err(Error::Died)
}

/// Whoever started this process, as it starts.
#[derive(Debug)]
pub struct Starter {
    from: BufReader<File>,
    to: File,
}

impl Starter {
    /// Leaves the starter's session. Standard input and output are soon given up; the starter is still spoken
    /// with.
    fn leave() -> Result<Self, CallError> {
        daemon::become_daemon().context("become", "a daemon")?;
        let copy = |of: BorrowedFd<'_>| of.try_clone_to_owned().map(File::from).context("keep", "a pipe");
        Ok(Self { from: BufReader::new(copy(io::stdin().as_fd())?), to: copy(io::stdout().as_fd())? })
    }

    /// Has the starter do something that this process cannot do itself.
    ///
    /// # Errors
    /// It is gone.
    pub fn ask<A: DeserializeOwned>(&mut self, what: &impl Serialize) -> Result<A, CallError> {
        self.notify(&Started::<_, ()>::Wanted(what))?;
        read_message(&mut self.from).context("hear from", STARTER)
    }

    fn notify<Q: Serialize, R: Serialize>(&mut self, what: &Started<Q, R>) -> Result<(), CallError> {
        write_message(&mut self.to, what).context("speak to", STARTER)
    }
}

/// The whole life of a server that was started by [`Launch`]: it reads its settings, starts, reports, and
/// serves until it ends.
///
/// # Errors
/// What kept it from starting, which the starter was told as well, or from ending.
pub fn run_detached<S: DeserializeOwned, D: Daemon>(
    start: impl FnOnce(S, &mut Starter) -> Result<(D, Control), D::Error>,
) -> Result<(), D::Error> {
    let mut starter = Starter::leave()?;
    let settings = read_message(&mut starter.from).context("read", "the settings")?;
    let (daemon, control) = match start(settings, &mut starter) {
        Ok(started) => started,
        Err(error) => {
            let _ = starter.notify(&Started::<(), ()>::Failed(error.to_string()));
            return Err(error);
        }
    };
    if let Err(error) = starter.notify(&Started::<(), _>::Ready(daemon.ready())) {
        daemon.end(Ending::Orphaned)?;
        return Err(error.into());
    }
    // The starter waits for the end of these.
    drop(starter);
    run_server(daemon, &control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Result<u32, Error> {
        let launch = Launch { program: Path::new("sh"), arguments: &["-c", script] };
        launch.start_with(&"settings", |wanted: u32| wanted + 1)
    }

    #[test]
    fn a_server_says_how_its_start_went() {
        assert_eq!(start("read settings; echo '{\"ready\":7}'; sleep 0.1").expect("ready"), 7);
        let failed = start("read settings; echo '{\"failed\":\"no such disk\"}'").expect_err("it failed");
        assert!(matches!(failed, Error::Refused(why) if why == "no such disk"));
        let died = start("read settings; echo '{\"rea'").expect_err("it ended");
        assert!(matches!(died, Error::Died(_)));
        let missing = Launch { program: Path::new("/no/such"), arguments: &[] }.start::<()>(&());
        assert!(missing.expect_err("none").to_string().starts_with("cannot run /no/such: "));
    }

    #[test]
    fn a_server_can_have_its_starter_do_something() {
        let script = "read settings; echo '{\"wanted\":4}'; read answer; echo \"{\\\"ready\\\":$answer}\"";
        assert_eq!(start(script).expect("ready"), 5);
    }
}
