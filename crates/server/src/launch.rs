//! Starts a server: the starter's side and the server's.
//!
//! The starter runs the server's program with pipes as standard input and output, and writes the settings.
//! The server leaves the starter's session, starts, may send requests for what it cannot do itself, and
//! reports its result. After that the pipes are closed, and it writes to its log. It is a child of the
//! starter, where a thread waits for it, and a child of init once the starter has ended.

use crate::protocol::Started;
use crate::serve::{Control, Daemon, Ending, run_server};
use crate::wire::{line_of, read_message, write_message};
use crate::{CallError, Context, Death, Error, Kind, ServerFolder, ServerProcess, daemon};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Longest wait for a message of a starting server: the slowest takes half a second to measure its path, and
/// a busy machine may take ten times that.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a server that sends nothing more may take to end by itself: the kernel may have to write its core file.
const END_LIMIT: Duration = Duration::from_secs(2);
/// This program, even where its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The first argument of a server that is this program, as `ps` shows it.
const OWN_NAME: &str = "foreseek";
/// The starter's name in messages.
const STARTER: &str = "the program that starts the server";

/// How to start a server.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its program; by default this one.
    pub program: Option<&'a Path>,
    /// The arguments with which that calls [`run_detached`].
    pub arguments: &'a [&'a str],
    /// Frees what a server of this folder left that ended before it was ready, the folder included. An error is the
    /// reason why not.
    pub free: fn(&ServerFolder) -> Result<(), String>,
}

impl Launch<'_> {
    /// Starts a server, which outlives the caller. Returns its report once it is ready.
    ///
    /// # Errors
    /// [`Error::Refused`] with the server's own reason, [`Error::Died`], [`Error::Call`]. Nothing is left behind then,
    /// unless [`Error::Died`] says so.
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
        let settings = line_of(settings).context("send", "the settings of a server")?;
        let mut child = self.spawn()?;
        let process = ServerProcess::of(child.id());
        let mut ready = wait_until_ready(&mut child, &settings, answer);
        if let (Err(Error::Died(death)), Some(process)) = (&mut ready, process) {
            end(&mut child, process, death);
            self.clear_up(process, death);
        }
        // Waited for, so that it does not remain a zombie.
        let _ = std::thread::Builder::new().spawn(move || child.wait());
        ready
    }

    fn spawn(self) -> Result<Child, CallError> {
        let program = self.program.unwrap_or(Path::new(OWN_PROGRAM));
        let mut command = Command::new(program);
        if self.program.is_none() {
            command.arg0(OWN_NAME);
        }
        command.args(self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().context("run", program)
    }

    /// Frees what an ended server left, but for its log.
    fn clear_up(self, process: ServerProcess, death: &mut Death) {
        let Some(folder) = ServerFolder::of_process(self.kind, process) else { return };
        death.log = folder.keep_log();
        death.last_line = death.log.as_deref().and_then(last_line);
        death.left = (self.free)(&folder).err();
    }
}

/// Waits until a server that has failed has ended, and kills it if it does not.
fn end(child: &mut Child, process: ServerProcess, death: &mut Death) {
    if !process.wait_for_end(END_LIMIT) {
        if death.how.is_empty() {
            death.how = "it closed its output without a report, and was killed".to_owned();
        }
        if let Err(error) = process.kill() {
            tracing::warn!("{error}");
        }
    }
    if death.how.is_empty()
        && let Ok(Some(status)) = child.try_wait()
    {
        death.how = status.to_string();
    }
}

/// The last line of a log but for notes on how to get more. `None` if the server only logged how it started.
fn last_line(log: &Path) -> Option<String> {
    let text = fs::read(log).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty() && !line.starts_with("note: "))?;
    let of_the_start = [" INFO ", " WARN "].iter().any(|level| line.contains(level));
    (!of_the_start).then(|| line.to_owned())
}

/// Exchanges messages with a server until it is ready or has failed.
fn wait_until_ready<Q: DeserializeOwned, A: Serialize, R: DeserializeOwned>(
    child: &mut Child,
    settings: &[u8],
    mut answer: impl FnMut(Q) -> A,
) -> Result<R, Error> {
    let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(died(io::Error::other("it has no standard input or output")));
    };
    to.write_all(settings).map_err(died)?;
    let mut from = BufReader::new(from);
    loop {
        match read_within_limit(&mut from)? {
            Started::Ready(ready) => return Ok(ready),
            Started::Failed(why) => return Err(Error::Refused(why)),
            Started::Request(request) => write_message(&mut to, &answer(request)).map_err(died)?,
        }
    }
}

fn read_within_limit<T: DeserializeOwned>(from: &mut BufReader<ChildStdout>) -> Result<T, Error> {
    let limit = Timespec::try_from(START_LIMIT).ok();
    let ready = poll(&mut [PollFd::new(from.get_ref(), PollFlags::IN)], limit.as_ref());
    if from.buffer().is_empty() && ready.context("wait for", "the server")? == 0 {
        let late = format!("it reported nothing within {} s, and was killed", START_LIMIT.as_secs());
        return Err(died(io::Error::other(late)));
    }
    read_message(from).map_err(died)
}

/// The error of an exchange with a server that is being started. If the server has hung up, its exit status tells
/// more than that.
fn died(cause: io::Error) -> Error {
    let hung_up = matches!(cause.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe);
    let how = if hung_up { String::new() } else { cause.to_string() };
    Error::Died(Death { how, ..Death::default() })
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

/// The main function of a server of this kind that was started by [`Launch`]: it reads its settings, starts,
/// reports, and serves until it ends.
///
/// # Errors
/// Why it could not start, which was also reported to the starter, or could not end.
pub fn run_detached<S: DeserializeOwned, D: Daemon>(
    kind: Kind,
    start: impl FnOnce(S, &mut Starter) -> Result<(D, Control), D::Error>,
) -> Result<(), D::Error> {
    // Its file's name would be 'exe'.
    let _ = fs::write("/proc/self/comm", kind.process_name());
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

    fn launch<'a>(program: &'a Path, arguments: &'a [&'a str]) -> Launch<'a> {
        let free = |folder: &ServerFolder| folder.remove().map_err(|error| error.to_string());
        Launch { kind: Kind::Disk, program: Some(program), arguments, free }
    }

    fn start(script: &str) -> Result<u32, Error> {
        launch(Path::new("sh"), &["-c", script]).start_with(&"settings", |wanted: u32| wanted + 1)
    }

    #[test]
    fn a_server_reports_how_its_start_went() {
        assert_eq!(start("read settings; echo '{\"ready\":7}'; sleep 0.1").expect("ready"), 7);
        let failed = start("read settings; echo '{\"failed\":\"no such disk\"}'").expect_err("it failed");
        assert!(matches!(failed, Error::Refused(why) if why == "no such disk"));
        let died = start("read settings; printf '{\"rea'").expect_err("it ended");
        assert_eq!(died.to_string(), "the server ended before it was ready (exit status: 0)");
        let garbled = start("read settings; echo '{\"rea'").expect_err("no JSON").to_string();
        assert!(
            garbled.starts_with("the server ended before it was ready (") && garbled.contains("pars"),
            "{garbled}"
        );
        let killed = start("read settings; kill -9 $$").expect_err("it was killed").to_string();
        assert_eq!(killed, "the server ended before it was ready (signal: 9 (SIGKILL))");
        let missing = launch(Path::new("/no/such"), &[]).start::<()>(&());
        assert!(missing.expect_err("none").to_string().starts_with("cannot run /no/such: "));
    }

    #[test]
    fn what_a_dead_server_left_is_freed_but_for_its_log() {
        let place = tempfile::tempdir().expect("a directory");
        let folder = ServerFolder::at(&place.path().join("disks/a"));
        folder.make().expect("made");
        fs::write(folder.log(), "started\nno memory of 7 bytes\nnote: set RUST_BACKTRACE\n")
            .expect("written");
        let log = folder.keep_log().expect("something was logged");
        assert_eq!(log, place.path().join("failed/disks-a.log"));
        assert_eq!(last_line(&log).as_deref(), Some("no memory of 7 bytes"));
        assert_eq!(folder.keep_log(), None);
        fs::write(folder.log(), "T  WARN foreseek: no lock\n").expect("written");
        assert_eq!(last_line(&folder.log()), None);
        let death =
            Death { how: "exit status: 1".to_owned(), last_line: last_line(&log), ..Death::default() };
        let said = Error::Died(Death { log: Some("/l".into()), left: Some("busy".to_owned()), ..death });
        assert_eq!(
            said.to_string(),
            "the server ended before it was ready (exit status: 1): no memory of 7 bytes; its log is /l; what it left \
             behind is not freed: busy"
        );
    }

    #[test]
    fn settings_that_cannot_be_sent_start_no_server() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"\xff"));
        let said = launch(Path::new("/no/such"), &[]).start::<()>(&path).expect_err("no UTF-8").to_string();
        assert!(said.starts_with("cannot send the settings of a server: "), "{said}");
    }

    #[test]
    fn a_server_can_send_its_starter_a_request() {
        let script = "read settings; echo '{\"request\":4}'; read answer; echo \"{\\\"ready\\\":$answer}\"";
        assert_eq!(start(script).expect("ready"), 5);
    }
}
