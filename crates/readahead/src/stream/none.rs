//! No read-ahead: only the pages of a call.

use super::generation::Generation;
use super::parts::Parts;
use super::prefetcher::Prefetcher;
use crate::depth::{Ramp, Zero};

/// Builds the policy.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    Generation::DEMAND.with(Box::new(Zero), Ramp::Full, parts.settings.window)
}

#[cfg(test)]
mod tests {
    use crate::stream::Settings;
    use crate::stream::testing::World;

    #[test]
    fn golden_a_call_gets_only_its_pages() {
        let mut world = World::new("none", &Settings::default(), 100);
        assert_eq!(world.call(0, 16), [(0, 16)]);
        assert_eq!(world.call(16, 1), [(16, 1)]);
        assert_eq!(world.faults([90]), [(90, 1)]);
        assert_eq!(world.call(95, 5), [(95, 5)]);
    }
}
