//! Signals that end a program, turned into an error that unwinds through every guard.
//!
//! A signal only leaves its number. Every wait checks it at least ten times a second, so that whatever was attached,
//! mounted or created is undone in the usual way and in order.

use crate::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How often a wait checks for it: at once for a person, and no load for a processor.
pub const POLL: Duration = Duration::from_millis(50);

/// Whether the user wants to end the program.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    /// The signal that asked for it; zero while none has.
    asked: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens to SIGINT, SIGTERM and SIGHUP from now on, for the rest of the process.
    ///
    /// # Errors
    /// The system's, where a handler cannot be installed.
    pub fn listen() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, Arc::clone(&interrupt.asked), number)
                .map_err(|source| Error::io("cannot listen to signal", signal, source))?;
        }
        Ok(interrupt)
    }

    /// Asks for the end, as Ctrl-C does.
    pub fn ask(&self) {
        self.asked.store(SIGINT as usize, Ordering::Relaxed);
    }

    /// # Errors
    /// [`Error::Interrupted`] once it was asked for.
    pub fn check(&self) -> Result<()> {
        match i32::try_from(self.asked.load(Ordering::Relaxed)) {
            Ok(0) | Err(_) => Ok(()),
            Ok(signal) => Err(Error::Interrupted { signal }),
        }
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
        assert_eq!(interrupt.check().expect_err("asked").signal(), Some(SIGINT));
    }

    #[test]
    fn a_signal_is_known_by_its_number() {
        let interrupt = Interrupt::listen().expect("handlers");
        signal_hook::low_level::raise(SIGTERM).expect("raised");
        assert_eq!(interrupt.check().expect_err("asked").signal(), Some(SIGTERM));
    }
}
