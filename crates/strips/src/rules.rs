//! The rules of a strip cache: the parts that the paper compares, and the settings that it leaves open.

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
    /// As `Adaptive` with both, and not in the paper: the cost test applies from the first miss on, over the
    /// strips that a cache of whole strips could keep. What strips cost beyond what they have saved is bounded by
    /// a credit. If the size of the upstream refuses strips, one miss in [`TRIAL_EVERY`] that the costs allow
    /// reads its strip.
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

/// Under [`Strips::Careful`]: one in this many misses that only the upstream's size refuses reads its strip.
/// Without it, nothing would switch strips on again after random reads: the limit rises only with prefetch
/// hits (section 2.3). It is a prime: the trials of a sequential reader then fall on another block of a strip
/// each time.
pub const TRIAL_EVERY: u64 = 61;

/// How many stripes massive stripe prefetching fetches at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Massive {
    /// None.
    Never,
    /// One, and twice as many each time (sections 1.2.4, 2.5).
    Doubling,
    /// As many as the lengths of past runs make worth while, within a competitive bound. Not in the paper.
    Learnt,
}

/// The parts of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// When a miss reads the whole strip.
    pub strips: Strips,
    /// Massive stripe prefetching.
    pub massive: Massive,
    /// Whether the cost test adds the time of reads of each member beyond its profile. Not in the paper.
    pub measured: bool,
}

/// Settings of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The most pages in the cache.
    pub cache: Pages,
    /// The cost of the block behind the last one.
    pub following: Following,
}

/// The least number of strips in a cache: the bottoms of the lists are 20 % of them and at least one.
pub const CACHE_STRIPS_LEAST: u64 = 5;
