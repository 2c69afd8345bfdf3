//! What must hold in an engine, checked in every build.
//!
//! An engine is notified by a driver, and keeps books of its own. Where the two, or its books among themselves, contradict
//! each other there is an error in one of them. Prefetching must not change what a program reads, nor end it, for
//! that: the engine counts it, leaves its books so that nothing is used twice, and lets the reads concerned go their
//! ordinary way ([`Command::Pass`](crate::Command::Pass)).

/// Counts what cannot be and was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    internal_errors: u64,
}

impl Checks {
    /// Answers whether what must hold does; counts it where it does not.
    #[must_use]
    pub fn holds(&mut self, holds: bool) -> bool {
        self.internal_errors += u64::from(!holds);
        holds
    }

    /// Something was found that cannot be.
    pub fn broken(&mut self) {
        self.internal_errors += 1;
    }

    /// What must be there; counted where it is not.
    #[must_use]
    pub fn some<T>(&mut self, found: Option<T>) -> Option<T> {
        self.internal_errors += u64::from(found.is_none());
        found
    }

    /// How often.
    #[must_use]
    pub fn internal_errors(self) -> u64 {
        self.internal_errors
    }
}
