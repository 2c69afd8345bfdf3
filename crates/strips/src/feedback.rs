//! Differential feedback: the limit of strips in the upstream (section 2.3).
//!
//! The total hit rate `P + C` (prefetch hits and cache hits) is a hill over the upstream's limit `N`. Its
//! slope is `dP/dN + dC/dN`. One more strip at the end of the upstream brings about as many prefetch hits as
//! a strip of the *upstream bottom* has (equation 3). It takes memory from the downstream: `alpha` strips of
//! the *global bottom*, with their cache hits (equation 4). `N` therefore rises with each prefetch hit in the
//! upstream bottom. It falls by `alpha` with each cache hit in the global bottom (equations 1 and 5, and the
//! process at the end of the section).
//!
//! - Both bottoms have 20 % of the strips that the cache holds when all blocks of each are present.
//! - `N` starts with all of those, and stays so until the cache is full; until then strips are always
//!   prefetched.
//! - `N` does not fall below the upstream bottom. There strip prefetching is switched off, until `N` is twice
//!   that.
//!
//! Inferred, since the paper's text lacks it:
//!
//! - *The coefficient* (equation 6): "the occupancy ratio of the non-empty blocks in both the expanded
//!   portion of the upstream and the shrunk portion of the downstream", and the upstream's growth by `dN`
//!   shrinks the downstream by `alpha dN`. Hence `alpha` = non-empty blocks per strip of the upstream bottom
//!   / those per strip of the global bottom.
//! - *The interval* in which hits are counted: each hit by itself. Hits add up, so that any interval gives
//!   the same sum; `alpha` is the current one.
//! - *The gain* of equation 1: one strip for each hit.
//! - *A hit* is a request that finds such blocks of the strip, however many of them.
//! - *The maximum* of `N` is its initial value.
//! - *Past cached blocks* (section 2.2) are not culled, at any `N`. The first hit of one counts as a cache
//!   hit here, and as a prefetch hit in the statistics.
//!
//! A limit of these rules: when strip prefetching is off and no prefetched block is left in the upstream
//! bottom, only prefetches of MSP can switch it on again.

/// The bottoms' share of the strips that the cache holds (section 2.3: "predetermined as 20%").
pub(crate) const BOTTOM_PERCENT: u64 = 20;
/// Parts of a strip in the arithmetic: `alpha` is a fraction, and sums must not depend on rounding of floats.
const PARTS: u64 = 1 << 16;

/// Strips and non-empty blocks of a bottom.
pub(crate) type Occupancy = (u64, u64);

/// The controller.
#[derive(Clone, Debug)]
pub(crate) struct Feedback {
    /// In parts of a strip.
    limit: u64,
    floor: u64,
    most: u64,
    frozen: bool,
    on: bool,
}

impl Feedback {
    /// For a cache of this many whole strips.
    pub(crate) fn new(strips: u64) -> Self {
        let most = strips * PARTS;
        Self { limit: most, floor: Self::bottom(strips) * PARTS, most, frozen: true, on: true }
    }

    /// The number of strips in a bottom, for a cache of this many whole strips.
    pub(crate) fn bottom(strips: u64) -> u64 {
        (strips * BOTTOM_PERCENT / 100).max(1)
    }

    /// The most strips in the upstream.
    pub(crate) fn limit(&self) -> u64 {
        self.limit / PARTS
    }

    /// Whether the upstream's size permits strip prefetching.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether the cache has never been full.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// The cache is full: from now on hits move the limit.
    pub(crate) fn thaw(&mut self) {
        self.frozen = false;
    }

    /// A prefetch hit in the upstream bottom.
    pub(crate) fn prefetch_hit(&mut self) {
        self.move_to(self.limit + PARTS);
    }

    /// A cache hit in the global bottom.
    pub(crate) fn cache_hit(&mut self, upstream: Occupancy, global: Occupancy) {
        self.move_to(self.limit.saturating_sub(alpha(upstream, global)));
    }

    fn move_to(&mut self, limit: u64) {
        if self.frozen {
            return;
        }
        self.limit = limit.clamp(self.floor, self.most);
        if self.limit == self.floor {
            self.on = false;
        } else if self.limit >= 2 * self.floor {
            self.on = true;
        }
    }
}

/// The occupancy coefficient in parts; zero if a bottom has no blocks.
fn alpha((up_strips, up_blocks): Occupancy, (all_strips, all_blocks): Occupancy) -> u64 {
    (PARTS * up_blocks * all_strips).checked_div(up_strips * all_blocks).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn thawed(strips: u64) -> Feedback {
        let mut feedback = Feedback::new(strips);
        feedback.thaw();
        feedback
    }

    #[test]
    fn it_starts_with_the_whole_cache_and_waits_until_that_is_full() {
        let mut feedback = Feedback::new(100);
        assert_eq!((feedback.limit(), Feedback::bottom(100)), (100, 20));
        feedback.cache_hit((20, 640), (20, 640));
        assert_eq!((feedback.limit(), feedback.is_on(), feedback.is_frozen()), (100, true, true));
        feedback.thaw();
        feedback.cache_hit((20, 640), (20, 640));
        assert_eq!((feedback.limit(), feedback.is_on(), feedback.is_frozen()), (99, true, false));
    }

    /// By hand: bottoms of 20 strips; full strips of 32 blocks above, a quarter of that below: alpha is 4.
    #[test]
    fn a_hit_counts_by_the_occupancy_of_the_bottoms() {
        let mut feedback = thawed(100);
        feedback.cache_hit((20, 640), (20, 160));
        assert_eq!(feedback.limit(), 96);
        feedback.prefetch_hit();
        assert_eq!(feedback.limit(), 97);
        // 3 blocks per strip above, 2 below: one and a half, and halves add up.
        feedback.cache_hit((2, 6), (2, 4));
        assert_eq!(feedback.limit(), 95);
        feedback.cache_hit((2, 6), (2, 4));
        assert_eq!(feedback.limit(), 94);
    }

    #[test]
    fn at_the_floor_strips_are_off_until_the_upstream_is_twice_that() {
        let mut feedback = thawed(100);
        for _ in 0..200 {
            feedback.cache_hit((20, 640), (20, 640));
        }
        assert_eq!((feedback.limit(), feedback.is_on()), (20, false));
        for limit in 21..40 {
            feedback.prefetch_hit();
            assert_eq!((feedback.limit(), feedback.is_on()), (limit, false));
        }
        feedback.prefetch_hit();
        assert_eq!((feedback.limit(), feedback.is_on()), (40, true));
        feedback.cache_hit((20, 640), (20, 640));
        assert_eq!((feedback.limit(), feedback.is_on()), (39, true));
    }

    #[test]
    fn bottoms_without_blocks_weigh_nothing() {
        let mut feedback = thawed(10);
        feedback.cache_hit((0, 0), (2, 4));
        feedback.cache_hit((2, 4), (0, 0));
        feedback.cache_hit((2, 4), (2, 0));
        assert_eq!(feedback.limit(), 10);
    }

    /// The hill of figure 4: prefetch hits become rarer as the upstream grows, cache hits more frequent. It
    /// settles where both are equally frequent.
    #[test]
    fn it_climbs_to_the_top_of_a_hill_from_either_side() {
        for start_low in [false, true] {
            let mut feedback = thawed(1000);
            if start_low {
                for _ in 0..650 {
                    feedback.cache_hit((1, 1), (1, 1));
                }
            }
            // In each interval (1000 - N) / 10 prefetch hits and N / 15 cache hits: equal at N = 600.
            for _ in 0..400 {
                let limit = feedback.limit();
                (0..(1000 - limit) / 10).for_each(|_| feedback.prefetch_hit());
                (0..limit / 15).for_each(|_| feedback.cache_hit((1, 1), (1, 1)));
            }
            assert!((590..=610).contains(&feedback.limit()), "{}", feedback.limit());
        }
    }

    proptest! {
        /// Compared with the formula in floating point.
        #[test]
        fn it_is_the_formula(
            strips in 5..500u64,
            hits in proptest::collection::vec((any::<bool>(), 1..9u64, 1..99u64, 1..9u64, 1..99u64), 0..300),
        ) {
            let mut feedback = thawed(strips);
            let floor = (strips / 5) as f64;
            let (mut limit, mut on) = (strips as f64, true);
            for (prefetch, up_strips, up_blocks, all_strips, all_blocks) in hits {
                let (up, all) = ((up_strips, up_blocks), (all_strips, all_blocks));
                if prefetch {
                    feedback.prefetch_hit();
                    limit += 1.0;
                } else {
                    feedback.cache_hit(up, all);
                    limit -= (up_blocks as f64 / up_strips as f64) / (all_blocks as f64 / all_strips as f64);
                }
                limit = limit.clamp(floor, strips as f64);
                on = if limit <= floor { false } else { on || limit >= 2.0 * floor };
                let exact = feedback.limit as f64 / PARTS as f64;
                prop_assert!((exact - limit).abs() < 0.05, "{exact} for {limit}");
                // Rounding may put the limit on either side of a threshold.
                if (limit - floor).abs() > 0.05 && (limit - 2.0 * floor).abs() > 0.05 {
                    prop_assert_eq!(feedback.is_on(), on);
                } else {
                    on = feedback.is_on();
                }
            }
        }
    }
}
