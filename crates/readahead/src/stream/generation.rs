//! The window machines for depth rules, by name.

use super::behind::Behind;
use super::demand::Demand;
use super::machine::Streams;
use super::on_demand::OnDemand;
use super::prefetcher::Prefetcher;
use crate::depth::{Depth, Ramp};
use foreseek_units::Pages;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt;

/// A window machine without its depth rule: it decides when and where to read. The papers' kernels are such
/// machines as well.
pub trait Windows: Sync {
    /// Its name, as settings have it.
    fn name(&self) -> &'static str;

    /// The machine with this depth and ramp. `window` is the largest window of a stock kernel, also for page
    /// faults.
    fn with(&self, depth: Box<dyn Depth>, ramp: Ramp, window: Pages) -> Box<dyn Prefetcher>;
}

/// The window machine into which a depth rule is put, identified by its name.
#[derive(Clone, Copy)]
pub struct Generation(&'static dyn Windows);

impl Generation {
    /// Today's Linux, with a marker page.
    pub const ON_DEMAND: Self = Self(&Own::OnDemand);
    /// Only when a page is missing: the model of the papers' analysis.
    pub const DEMAND: Self = Self(&Own::Demand);
    /// Behind another cache, of which it gets only the misses (a FUSE server).
    pub const BEHIND: Self = Self(&Own::Behind);
    /// The machines of this crate.
    pub const ALL: [Self; 3] = [Self::ON_DEMAND, Self::DEMAND, Self::BEHIND];

    /// A machine of another crate.
    #[must_use]
    pub const fn of(windows: &'static dyn Windows) -> Self {
        Self(windows)
    }

    /// Its name, as settings have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Its machine with this depth and ramp, and this [largest stock window](Windows::with): the base of
    /// every policy.
    #[must_use]
    pub fn with(self, depth: Box<dyn Depth>, ramp: Ramp, window: Pages) -> Box<dyn Prefetcher> {
        self.0.with(depth, ramp, window)
    }
}

impl PartialEq for Generation {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Generation {}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Generation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let found = Self::ALL.into_iter().find(|generation| generation.name() == name);
        found.ok_or_else(|| D::Error::custom(format!("there are no windows called '{name}'")))
    }
}

/// The window machines of this crate.
enum Own {
    OnDemand,
    Demand,
    Behind,
}

impl Windows for Own {
    fn name(&self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Demand => "demand",
            Self::Behind => "behind",
        }
    }

    fn with(&self, depth: Box<dyn Depth>, ramp: Ramp, window: Pages) -> Box<dyn Prefetcher> {
        match self {
            Self::OnDemand => Box::new(Streams::new(OnDemand { depth, ramp, around: window })),
            Self::Behind => Box::new(Streams::new(Behind { depth, ramp })),
            Self::Demand => Box::new(Streams::new(Demand { depth, ramp })),
        }
    }
}
