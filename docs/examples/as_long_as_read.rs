//! As deep as the stream was read so far: an example of a policy, and no more.
//!
//! A stream that was followed for n pages is taken to go on for as many, from 4 pages up to 256. With
//! a window machine that fetches on demand a sequential stream is read in 4, 4, 8, 16, ... pages.

use super::registry::Parts;
use super::{Generation, Prefetcher, Ramp, window_machine};
use crate::depth::{Asked, Depth};
use foreseek_units::Pages;

/// The least: what Linux reads first of a stream of single pages.
const LEAST: Pages = Pages(4);
/// The most: what TR-840 calls aggressive.
const MOST: Pages = Pages(256);

/// The depth rule.
struct AsLongAsRead;

impl Depth for AsLongAsRead {
    fn most(&mut self, asked: &Asked) -> Pages {
        asked.consumed.clamp(LEAST, MOST)
    }
}

/// Makes it.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    window_machine(Generation::Demand, Box::new(AsLongAsRead), Ramp::Full, parts.settings)
}

#[cfg(test)]
mod tests {
    use crate::stream::Settings;
    use crate::stream::testing::World;

    #[test]
    fn golden_a_sequential_stream_doubles() {
        let mut world = World::new("as-long-as-read", &Settings::default(), 1000);
        assert_eq!(world.pages(0..40), [(0, 4), (4, 4), (8, 8), (16, 16), (32, 32)]);
    }
}
