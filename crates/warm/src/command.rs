//! The program that reads what was brought: started, passed signals on to, waited for.
//!
//! It runs in the same process group, with the same standard streams. A signal that was sent to this
//! process alone (`kill`) is passed on; one that a terminal sent has reached the program already.
//! SIGCONT follows each that was passed on, so that a stopped program can act on it. It is never
//! stopped by us, and goes on if we are killed.

use crate::error::{Error, Result};
use foreseek_storage::SignalQueue;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// Signals that end a program or that it may have asked for.
pub const SIGNALS: [i32; 6] = [
    Signal::INT.as_raw(),
    Signal::TERM.as_raw(),
    Signal::HUP.as_raw(),
    Signal::QUIT.as_raw(),
    Signal::USR1.as_raw(),
    Signal::USR2.as_raw(),
];

/// How often the program, its signals and its progress are looked at. A disk brings some 2 MB in
/// that time.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    handle: OwnedFd,
}

impl Running {
    /// Starts a program: its name and its arguments.
    ///
    /// # Errors
    /// [`Error::Start`], [`Error::System`].
    pub(crate) fn start(words: &[OsString], signals: &SignalQueue) -> Result<Self> {
        let (program, arguments) = words.split_first().ok_or_else(|| Error::Start {
            program: "".into(),
            cause: std::io::ErrorKind::InvalidInput.into(),
        })?;
        let mut command = Command::new(program);
        command.args(arguments);
        Self::spawn(command, signals)
    }

    fn spawn(mut command: Command, signals: &SignalQueue) -> Result<Self> {
        let child = signals
            .spawn(&mut command)
            .map_err(|cause| Error::Start { program: command.get_program().into(), cause })?;
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(|cause| Error::System { operation: "cannot watch the command", cause })?;
        Ok(Self { child, handle })
    }

    /// Its number.
    #[must_use]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Passes a signal on.
    pub(crate) fn pass_on(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // Where it has ended meanwhile there is nobody to tell.
            let _ = pidfd_send_signal(&self.handle, signal);
            let _ = pidfd_send_signal(&self.handle, Signal::CONT);
        }
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|error| Error::System {
            operation: "cannot wait for the command",
            cause: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
        })
    }
}

/// Waits for the program, passes signals on, and does `meanwhile` in between.
pub(crate) fn attend(
    running: &mut Running,
    signals: &SignalQueue,
    meanwhile: &mut dyn FnMut(),
) -> Result<ExitStatus> {
    // A short program is noticed soon: the pause grows from 1 ms.
    let mut pause = Duration::from_millis(1);
    loop {
        while let Some(signal) = signals.next() {
            if !signal.by_kernel {
                running.pass_on(signal.number);
            }
        }
        if let Some(status) = running.ended()? {
            return Ok(status);
        }
        meanwhile();
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK);
    }
}

/// Runs a program to its end, with signals passed on to it. `signals` has [`SIGNALS`]. Answers its exit status as
/// a shell would.
///
/// # Errors
/// [`Error::Start`], [`Error::System`].
pub fn run_command(command: Command, signals: &SignalQueue) -> Result<u8> {
    let mut running = Running::spawn(command, signals)?;
    attend(&mut running, signals, &mut || {}).map(status_of)
}

/// The exit status that a shell would report: 128 and the signal's number for a program that a signal
/// ended.
#[must_use]
pub fn status_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    u8::try_from(code).unwrap_or(255)
}
