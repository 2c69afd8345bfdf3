//! The oracle (EuroSys'07 section 6.2): a stream announces its length at `open`, and the oracle reads exactly
//! that at once. It is the bound of the other policies, and not an online rule.
//!
//! Where memory bounds a fetch ([`View::bound`](super::View::bound)) it reads the rest when that is used up.
//! Beyond the announced length it does not read ahead.

use super::generation::Generation;
use super::parts::Parts;
use super::prefetcher::Prefetcher;
use crate::depth::{Announced, Ramp};

/// Builds the policy.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    Generation::DEMAND.with(Box::new(Announced), Ramp::Full, parts.settings.window)
}

#[cfg(test)]
mod tests {
    use crate::stream::Settings;
    use crate::stream::testing::World;
    use foreseek_units::Pages;

    #[test]
    fn golden_the_announced_length_is_read_at_once() {
        let mut world = World::announced("oracle", &Settings::default(), 1000, Some(300));
        assert_eq!(world.call(100, 16), [(100, 300)]);
        assert_eq!(world.pages(116..400), []);
        assert_eq!(world.call(400, 2), [(400, 2)], "past the announced length nothing is read ahead");
    }

    #[test]
    fn without_an_announcement_it_reads_the_call() {
        assert_eq!(World::new("oracle", &Settings::default(), 1000).call(0, 4), [(0, 4)]);
    }

    #[test]
    fn memory_cuts_it_into_pieces() {
        let mut world = World::announced("oracle", &Settings::default(), 1000, Some(300));
        world.memory.bound = Some(Pages(128));
        assert_eq!(world.pages(0..300), [(0, 128), (128, 128), (256, 44)]);
    }
}
