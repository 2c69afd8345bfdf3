//! The program that reads the fetched files: it is started, gets signals passed on, and is waited for.
//!
//! It runs in the same process group, with the same standard streams. A signal sent to this process alone
//! (`kill`) is passed on; one from a terminal has reached the program already. SIGCONT follows each signal that
//! is passed on, so that a stopped program can act on it. This process never stops the program, and the program
//! goes on if this process is killed.

use crate::error::{Error, Result};
use foreseek_storage::SignalQueue;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// Signals that end a program or that the program may handle.
pub const SIGNALS: [i32; 6] = [
    Signal::INT.as_raw(),
    Signal::TERM.as_raw(),
    Signal::HUP.as_raw(),
    Signal::QUIT.as_raw(),
    Signal::USR1.as_raw(),
    Signal::USR2.as_raw(),
];

/// How often the program, its signals and its progress are checked. A disk reads some 2 MB in that time.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// A running program.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    handle: OwnedFd,
}

impl Running {
    /// Starts a program, given by its name and its arguments.
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
        let mut child = signals
            .spawn(&mut command)
            .map_err(|cause| Error::Start { program: command.get_program().into(), cause })?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(handle) => Ok(Self { child, handle }),
            Err(cause) => {
                // It must not go on alone after an error.
                let _ = child.kill();
                let _ = child.wait();
                Err(Error::System { operation: "cannot watch the command", cause })
            }
        }
    }

    /// Its process id.
    #[must_use]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Passes a signal on.
    pub(crate) fn pass_on(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // The program may have ended meanwhile.
            let _ = pidfd_send_signal(&self.handle, signal);
            let _ = pidfd_send_signal(&self.handle, Signal::CONT);
        }
    }

    /// Its exit status, if it has ended.
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

/// Waits for the program, passes signals on, and calls `meanwhile` in between.
pub(crate) fn wait_for_end(
    running: &mut Running,
    signals: &SignalQueue,
    meanwhile: &mut dyn FnMut(),
) -> Result<ExitStatus> {
    // The pause grows from 1 ms, so that the end of a short program is noticed soon.
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

/// Runs a program to its end and passes signals on to it. `signals` must include [`SIGNALS`]. Returns its exit
/// status as a shell would report it.
///
/// # Errors
/// [`Error::Start`], [`Error::System`].
pub fn run_command(command: Command, signals: &SignalQueue) -> Result<u8> {
    let mut running = Running::spawn(command, signals)?;
    wait_for_end(&mut running, signals, &mut || {}).map(status_of)
}

/// The exit status that a shell would report: for a program that a signal ended, 128 and the signal's number.
#[must_use]
pub fn status_of(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => status_of_signal(signal),
        (None, None) => u8::MAX,
    }
}

/// The exit status that a shell reports for a program that this signal ended.
#[must_use]
pub fn status_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
