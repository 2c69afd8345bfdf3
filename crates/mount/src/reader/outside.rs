//! The environment of a reader beside its reads: the time, and the current version of a file.

use crate::read_path::Version;
use foreseek_storage::reads::ReadFile;
use foreseek_units::{Instant, Nanos};

/// See the module's documentation.
pub(super) enum Outside {
    /// The machine; the time counts from this instant.
    Real(std::time::Instant),
    /// A [simulation](super::simulation).
    #[cfg(test)]
    Simulated(std::sync::Arc<super::simulation::Simulated>),
}

impl Outside {
    pub(super) fn now(&self) -> Instant {
        match self {
            Self::Real(origin) => Instant(Nanos::from(origin.elapsed()).get()),
            #[cfg(test)]
            Self::Simulated(simulated) => simulated.now(),
        }
    }

    /// The current version of a file.
    pub(super) fn version(&self, file: &ReadFile) -> Option<Version> {
        match self {
            Self::Real(_) => Some(Version::of(&rustix::fs::fstat(file.any()?).ok()?)),
            #[cfg(test)]
            Self::Simulated(simulated) => simulated.version(file),
        }
    }
}
