//! Competitive prefetching (TR-840 section 3, EuroSys'07 section 4): the window machine of a kernel
//! whose depth is the switch time times the transfer rate.
//!
//! With slow start (the default of both papers) a stream begins with 16 pages, and each fetch doubles
//! that up to the competitive depth; without, each fetch is that deep. Nothing else of the kernel is
//! changed: "we have not modified other aspects of the prefetching algorithm" (EuroSys'07 section 5).

use super::registry::Parts;
use super::{Prefetcher, Ramp, Settings, window_machine};
use crate::depth::{self, SwitchCost};
use std::sync::Arc;

/// With slow start.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    with(Ramp::SlowStart(parts.settings.slow_start), parts)
}

/// Without.
pub(super) fn without_slow_start(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    with(Ramp::Full, parts)
}

fn with(ramp: Ramp, parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    let Settings { generation, averaging, switch_weight, page_measure, .. } = *parts.settings;
    let switch = SwitchCost::new(Arc::clone(parts.costs), averaging, switch_weight);
    let depth = Box::new(depth::Competitive::new(switch, page_measure));
    window_machine(generation, depth, ramp, parts.settings)
}

#[cfg(test)]
mod tests {
    use crate::stream::testing::World;
    use crate::stream::{Generation, Served, Settings};
    use foreseek_units::{Lba, SectorSpan, Sectors};

    fn sizes(policy: &str, settings: &Settings) -> Vec<u64> {
        let windows = World::new(policy, settings, 4000).pages(0..1000);
        assert!(windows.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{windows:?}");
        windows.iter().map(|window| window.1).collect()
    }

    /// EuroSys'07 section 4.3: a competitive depth of 98 pages is reached in 16, 32, 64.
    #[test]
    fn golden_slow_start_of_the_393_kb_drive_in_every_machine() {
        for generation in Generation::ALL {
            let settings = Settings { generation, ..Settings::eurosys() };
            let sizes = sizes("competitive", &settings);
            assert_eq!(sizes[..6], [16, 32, 64, 98, 98, 98], "{generation:?}");
        }
    }

    #[test]
    fn golden_without_slow_start_every_fetch_is_98_pages() {
        for generation in Generation::ALL {
            let settings = Settings { generation, ..Settings::eurosys() };
            let sizes = sizes("competitive-without-slow-start", &settings);
            assert!(sizes.iter().all(|size| *size == 98), "{generation:?}: {sizes:?}");
        }
    }

    /// What the device serves reaches the depth rule through every machine.
    #[test]
    fn the_depth_follows_the_seeks() {
        for generation in Generation::ALL {
            let settings = Settings { generation, ..Settings::eurosys() };
            let mut world = World::new("competitive", &settings, 4000);
            for _ in 0..100 {
                world.served(Served { from: Lba(0), range: SectorSpan::at(Lba(8), Sectors(8)) });
            }
            // 0.6 ms for the shortest seek and 3 ms of rotation, at 37.3 MB/s: 134 KB.
            let largest = world.pages(0..1000).iter().map(|window| window.1).max();
            assert_eq!(largest, Some(33), "{generation:?}");
        }
    }

    /// TR-840's kernel: a stream that is left and found elsewhere starts from what was used.
    #[test]
    fn golden_a_stream_that_moves_in_the_kernel_of_tr840() {
        let mut world = World::new("competitive", &Settings::tr840(), 9000);
        world.memory.place = Some(Lba(0));
        assert_eq!(world.pages(0..18), [(0, 16), (16, 32), (48, 64)]);
        assert_eq!(world.pages([4000]), [(4000, 2)], "two pages of the current window were used");
        assert_eq!(world.pages(4001..4016), [(4002, 4), (4006, 8), (4014, 16), (4030, 32)]);
    }
}
