//! Starts a server: the starter's side and the server's.
//!
//! The starter runs the server's program with pipes as standard input and output, and writes the settings.
//! The server leaves the starter's session, starts, may send requests for what it cannot do itself, and
//! reports its result. After that the pipes are closed, and it writes to its log. It is a child of the
//! starter, where a thread waits for it, and a child of init once the starter has ended.

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

/// Longest wait for a message of a starting server: the slowest takes half a second to measure its path, and
/// a busy machine may take ten times that.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The starter's name in messages.
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
    /// Starts a server, which outlives the caller. Returns its report once it is ready.
    ///
    /// # Errors
    /// [`Error::Refused`] with the server's own reason, and nothing is left behind then; [`Error::NoReport`],
    /// [`Error::Died`], [`Error::Call`].
    pub fn start<R: DeserializeOwned>(self, settings: &impl Serialize) -> Result<R, Error> {
        self.start_with(settings, |()| ())
    }

    /// The same for a server that sends requests to the starter: `answer` carries them out.
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
        let ready = wait_until_ready(&mut child, settings, answer);
        if matches!(&ready, Err(Error::NoReport(_))) {
            let _ = child.kill();
        }
        // Waited for, so that it does not remain a zombie.
        let _ = std::thread::Builder::new().spawn(move || child.wait());
        ready
    }
}

/// Exchanges messages with a server until it is ready or has failed.
fn wait_until_ready<Q: DeserializeOwned, A: Serialize, R: DeserializeOwned>(
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
            Started::Request(request) => write_message(&mut to, &answer(request)).map_err(Error::Died)?,
        }
    }
}

fn read_within_limit<T: DeserializeOwned>(from: &mut BufReader<ChildStdout>) -> Result<T, Error> {
    let limit = Timespec::try_from(START_LIMIT).ok();
    let ready = poll(&mut [PollFd::new(from.get_ref(), PollFlags::IN)], limit.as_ref());
    if from.buffer().is_empty() && ready.context("wait for", "the server")? == 0 {
        return Err(Error::NoReport(START_LIMIT));
    }
    read_message(from).map_err(Error::Died)
}

/// The program that started this process, while it starts.
#[derive(Debug)]
pub struct Starter {
    from: BufReader<File>,
    to: File,
}

impl Starter {
    /// Leaves the starter's session. Standard input and output are redirected soon; copies of them still
    /// connect to the starter.
    fn leave() -> Result<Self, CallError> {
        daemon::become_daemon().context("become", "a daemon")?;
        let copy = |of: BorrowedFd<'_>| of.try_clone_to_owned().map(File::from).context("keep", "a pipe");
        Ok(Self { from: BufReader::new(copy(io::stdin().as_fd())?), to: copy(io::stdout().as_fd())? })
    }

    /// Sends a request to the starter, for what this process cannot do itself.
    ///
    /// # Errors
    /// The starter has ended.
    pub fn ask<A: DeserializeOwned>(&mut self, what: &impl Serialize) -> Result<A, CallError> {
        self.notify(&Started::<_, ()>::Request(what))?;
        read_message(&mut self.from).context("read from", STARTER)
    }

    fn notify<Q: Serialize, R: Serialize>(&mut self, what: &Started<Q, R>) -> Result<(), CallError> {
        write_message(&mut self.to, what).context("write to", STARTER)
    }
}

/// The main function of a server that was started by [`Launch`]: it reads its settings, starts, reports, and
/// serves until it ends.
///
/// # Errors
/// Why it could not start, which was also reported to the starter, or could not end.
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
    // The starter waits for the end of these pipes.
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
    fn a_server_reports_how_its_start_went() {
        assert_eq!(start("read settings; echo '{\"ready\":7}'; sleep 0.1").expect("ready"), 7);
        let failed = start("read settings; echo '{\"failed\":\"no such disk\"}'").expect_err("it failed");
        assert!(matches!(failed, Error::Refused(why) if why == "no such disk"));
        let died = start("read settings; echo '{\"rea'").expect_err("it ended");
        assert!(matches!(died, Error::Died(_)));
        let missing = Launch { program: Path::new("/no/such"), arguments: &[] }.start::<()>(&());
        assert!(missing.expect_err("none").to_string().starts_with("cannot run /no/such: "));
    }

    #[test]
    fn a_server_can_send_its_starter_a_request() {
        let script = "read settings; echo '{\"request\":4}'; read answer; echo \"{\\\"ready\\\":$answer}\"";
        assert_eq!(start(script).expect("ready"), 5);
    }
}
