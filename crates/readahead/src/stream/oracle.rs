//! The oracle (EuroSys'07 section 6.2): told at `open` how much a stream will read, it reads just that
//! at once. The bound of the others, and no online rule.
//!
//! Where memory bounds a fetch ([`View::bound`](super::View::bound)) it reads the rest when that is
//! used up. What it was not told of it does not read ahead.

use super::generation::Generation;
use super::parts::Parts;
use super::prefetcher::Prefetcher;
use crate::depth::{Announced, Ramp};

/// Makes it.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    Generation::DEMAND.with(Box::new(Announced), Ramp::Full, parts.settings.window)
}

#[cfg(test)]
mod tests {
    use crate::stream::Settings;
    use crate::stream::testing::World;
    use foreseek_units::Pages;

    #[test]
    fn golden_what_it_was_told_is_read_at_once() {
        let mut world = World::announced("oracle", &Settings::default(), 1000, Some(300));
        assert_eq!(world.call(100, 16), [(100, 300)]);
        assert_eq!(world.pages(116..400), []);
        assert_eq!(world.call(400, 2), [(400, 2)], "past what it was told, nothing is read ahead");
    }

    #[test]
    fn untold_it_reads_what_is_asked_for() {
        assert_eq!(World::new("oracle", &Settings::default(), 1000).call(0, 4), [(0, 4)]);
    }

    #[test]
    fn memory_cuts_it_into_pieces() {
        let mut world = World::announced("oracle", &Settings::default(), 1000, Some(300));
        world.memory.bound = Some(Pages(128));
        assert_eq!(world.pages(0..300), [(0, 128), (128, 128), (256, 44)]);
    }
}
