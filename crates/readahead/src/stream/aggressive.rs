//! Aggressive prefetching (TR-840 section 5.2, EuroSys'07 section 6.2): a large constant depth, about
//! twice the competitive one, included "purely for the purpose of comparison".
//!
//! It starts slowly: both papers find that it does not hurt random reads, "because the slow-start
//! phase used in all kernels quickly identifies the non-sequential access pattern".

use super::registry::Parts;
use super::{Prefetcher, Ramp, Settings, window_machine};
use crate::depth::Fixed;

/// Makes it.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    let Settings { generation, aggressive, slow_start, .. } = *parts.settings;
    window_machine(generation, Box::new(Fixed(aggressive)), Ramp::SlowStart(slow_start), parts.settings)
}

#[cfg(test)]
mod tests {
    use crate::stream::Settings;
    use crate::stream::testing::World;

    fn sizes(settings: &Settings) -> Vec<u64> {
        World::new("aggressive", settings, 4000).pages(0..1500).iter().map(|window| window.1).collect()
    }

    #[test]
    fn golden_depths_of_both_papers() {
        assert_eq!(sizes(&Settings::tr840())[..7], [16, 32, 64, 128, 256, 256, 256]);
        assert_eq!(sizes(&Settings::eurosys())[..6], [16, 32, 64, 128, 200, 200]);
    }
}
