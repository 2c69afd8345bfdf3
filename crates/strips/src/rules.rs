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
}

/// The parts of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// When a miss reads the whole strip.
    pub strips: Strips,
    /// Whether massive stripe prefetching is on (sections 1.2.4, 2.5).
    pub massive: bool,
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
