//! The invariants of an engine, checked in every build.
//!
//! An engine gets events from a driver, and keeps state of its own. If these contradict each other, one of
//! them has an error. Such an error must not change what a program reads, nor end the program. The engine
//! counts it, leaves its state such that nothing is used twice, and passes the reads concerned
//! ([`Command::Pass`](crate::Command::Pass)).

/// Counts failed checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    internal_errors: u64,
}

impl Checks {
    /// Returns whether an invariant holds; counts it if it does not.
    #[must_use]
    pub fn holds(&mut self, holds: bool) -> bool {
        self.internal_errors += u64::from(!holds);
        holds
    }

    /// Counts a failed check.
    pub fn broken(&mut self) {
        self.internal_errors += 1;
    }

    /// Passes a value through; counts it if it is missing.
    #[must_use]
    pub fn some<T>(&mut self, found: Option<T>) -> Option<T> {
        self.internal_errors += u64::from(found.is_none());
        found
    }

    /// The number of failed checks.
    #[must_use]
    pub fn internal_errors(self) -> u64 {
        self.internal_errors
    }
}
