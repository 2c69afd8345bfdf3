//! Signals that end a program, turned into an error that unwinds through every guard.
//!
//! A signal only sets a flag. Every wait checks it at least ten times a second, so that whatever was attached,
//! mounted or created is undone in the usual way and in order.

use crate::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a wait checks the flag: at once for a person, and no load for a processor.
pub const POLL: Duration = Duration::from_millis(50);

/// Whether the user wants to end the program.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens to SIGINT, SIGTERM and SIGHUP from now on, for the rest of the process.
    ///
    /// # Errors
    /// The system's, where a handler cannot be installed.
    pub fn listen() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&interrupt.asked))
                .map_err(|source| Error::io("cannot listen to signal", signal, source))?;
        }
        Ok(interrupt)
    }

    /// Asks for the end, as Ctrl-C does.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// [`Error::Interrupted`] once it was asked for.
    pub fn check(&self) -> Result<()> {
        if self.asked.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_one_clone_interrupts_all() {
        let interrupt = Interrupt::default();
        assert!(interrupt.check().is_ok());
        interrupt.clone().ask();
        assert!(matches!(interrupt.check(), Err(Error::Interrupted)));
    }
}
