//! What a strip cache does: the parts that the paper compares, and the settings that it leaves open.

use crate::costs::Following;
use foreseek_units::Pages;

/// When a miss reads the whole strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strips {
    /// Never.
    Never,
    /// Always: strip prefetching alone (section 2.1).
    Always,
    /// With culling, by the size of the upstream (sections 2.2, 2.3).
    Adaptive {
        /// And by the cost of a strip on its member (section 2.4).
        cost_test: bool,
        /// And evicted strips become ghosts (section 2.2).
        ghosts: bool,
    },
    /// As `Adaptive` with both, and not in the paper: the cost test holds from the first miss on, and where the size of the
    /// upstream refuses strips, one miss in [`TRIAL_EVERY`] that the costs allow reads its strip.
    Careful,
}

impl Strips {
    /// Whether prefetched blocks are culled.
    #[must_use]
    pub const fn culls(self) -> bool {
        matches!(self, Self::Adaptive { .. } | Self::Careful)
    }

    /// Whether the virtual costs are compared.
    #[must_use]
    pub const fn tests_costs(self) -> bool {
        matches!(self, Self::Adaptive { cost_test: true, .. } | Self::Careful)
    }

    /// Whether evicted strips become ghosts.
    #[must_use]
    pub const fn keeps_ghosts(self) -> bool {
        matches!(self, Self::Adaptive { ghosts: true, .. } | Self::Careful)
    }
}

/// Under [`Strips::Careful`]: of so many misses that the upstream's size alone refuses, one reads its strip. Without it, nothing
/// would turn strips on again after random reads: the limit rises with prefetch hits alone (section 2.3). A prime: the trials of a
/// sequential reader fall on another block of a strip each time.
pub const TRIAL_EVERY: u64 = 61;

/// The parts of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// When a miss reads the whole strip.
    pub strips: Strips,
    /// Whether massive stripe prefetching is on (sections 1.2.4, 2.5).
    pub massive: bool,
    /// Whether the cost test adds what reads of each member take beyond its profile. Not in the paper.
    pub measured: bool,
}

/// Settings of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// What the cache holds at most.
    pub cache: Pages,
    /// What the block behind the last one costs.
    pub following: Following,
}

/// How many strips a cache must hold at least: the bottoms of the lists are 20 % of them and at least one.
pub const CACHE_STRIPS_LEAST: u64 = 5;
