//! The policies that the papers compare, each a window machine with a depth rule.

use super::generation::machine;
use super::ramp::Ramp;
use super::{Generation, Prefetcher, Settings};
use crate::depth::{Competitive, DeviceCosts, Fixed, SwitchCost, Told, Zero};
use std::sync::Arc;

/// What a policy is made of.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) costs: &'a Arc<dyn DeviceCosts>,
}

/// No read-ahead: what a call asks for and no more.
pub(super) fn none(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    machine(Generation::Demand, Box::new(Zero), Ramp::Full, parts.settings)
}

/// A kernel's own read-ahead, without a change; no costs of a device enter it.
#[must_use]
pub fn stock(generation: Generation, settings: &Settings) -> Box<dyn Prefetcher> {
    machine(generation, Box::new(Fixed(settings.window)), Ramp::Stock, settings)
}

/// Linux 2.6.3.
pub(super) fn linux_2_6_3(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    stock(Generation::Linux2_6_3, parts.settings)
}

/// Linux 2.6.10.
pub(super) fn linux_2_6_10(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    stock(Generation::Linux2_6_10, parts.settings)
}

/// Linux 2.6.18.
pub(super) fn linux_2_6_18(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    stock(Generation::Linux2_6_18, parts.settings)
}

/// Today's Linux.
pub(super) fn on_demand(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    stock(Generation::OnDemand, parts.settings)
}

/// A large constant depth with slow start (TR-840 section 5.2, EuroSys'07 section 6.2): "the
/// slow-start phase used in all kernels".
pub(super) fn aggressive(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    let Settings { generation, aggressive, slow_start, .. } = *parts.settings;
    machine(generation, Box::new(Fixed(aggressive)), Ramp::SlowStart(slow_start), parts.settings)
}

/// The competitive depth with slow start (TR-840 section 3, EuroSys'07 section 4.3).
pub(super) fn competitive(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    competitive_with(Ramp::SlowStart(parts.settings.slow_start), parts)
}

/// The competitive depth from the first fetch on (EuroSys'07 section 4.1).
pub(super) fn competitive_without_slow_start(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    competitive_with(Ramp::Full, parts)
}

fn competitive_with(ramp: Ramp, parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    let Settings { generation, averaging, switch_weight, page_measure, .. } = *parts.settings;
    let switch = SwitchCost::new(Arc::clone(parts.costs), averaging, switch_weight);
    machine(generation, Box::new(Competitive::new(switch, page_measure)), ramp, parts.settings)
}

/// The oracle (EuroSys'07 section 6.2): told how much a stream will read, it reads that at once.
pub(super) fn oracle(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    machine(Generation::Demand, Box::new(Told), Ramp::Full, parts.settings)
}

#[cfg(test)]
mod tests {
    use crate::stream::testing::World;
    use crate::stream::{Generation, Settings};

    const ALL: [Generation; 5] = [
        Generation::Linux2_6_3,
        Generation::Linux2_6_10,
        Generation::Linux2_6_18,
        Generation::OnDemand,
        Generation::Demand,
    ];

    fn sizes(policy: &str, settings: &Settings) -> Vec<u64> {
        let windows = World::new(policy, settings, 4000).pages(0..1000);
        assert!(windows.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{windows:?}");
        windows.iter().map(|window| window.1).collect()
    }

    /// EuroSys'07 section 4.3: a competitive depth of 98 pages is reached in 16, 32, 64.
    #[test]
    fn golden_slow_start_of_the_393_kb_drive_in_every_machine() {
        for generation in ALL {
            let settings = Settings { generation, ..Settings::eurosys() };
            let sizes = sizes("competitive", &settings);
            assert_eq!(sizes[..6], [16, 32, 64, 98, 98, 98], "{generation:?}");
        }
    }

    #[test]
    fn without_slow_start_every_fetch_is_as_deep_as_competition_allows() {
        for generation in ALL {
            let settings = Settings { generation, ..Settings::eurosys() };
            let sizes = sizes("competitive-without-slow-start", &settings);
            assert!(sizes.iter().all(|size| *size == 98), "{generation:?}: {sizes:?}");
        }
    }

    #[test]
    fn golden_aggressive_prefetching_of_both_papers() {
        assert_eq!(sizes("aggressive", &Settings::tr840())[..7], [16, 32, 64, 128, 256, 256, 256]);
        assert_eq!(sizes("aggressive", &Settings::eurosys())[..6], [16, 32, 64, 128, 200, 200]);
    }

    #[test]
    fn without_read_ahead_a_call_gets_what_it_asks_for() {
        let mut world = World::new("none", &Settings::default(), 100);
        assert_eq!(world.call(0, 16), [(0, 16)]);
        assert_eq!(world.call(16, 1), [(16, 1)]);
        assert_eq!(world.faults([90]), [(90, 1)]);
        assert_eq!(world.call(95, 10), [(95, 5), (100, 1), (101, 1), (102, 1), (103, 1), (104, 1)]);
    }

    #[test]
    fn the_oracle_reads_what_it_was_told_at_once() {
        let mut world = World::told("oracle", &Settings::default(), 1000, Some(300));
        assert_eq!(world.call(100, 16), [(100, 300)]);
        assert_eq!(world.pages(116..400), []);
        assert_eq!(world.call(400, 2), [(400, 2)], "past what it was told, nothing is read ahead");
        let mut untold = World::new("oracle", &Settings::default(), 1000);
        assert_eq!(untold.call(0, 4), [(0, 4)]);
    }

    #[test]
    fn memory_bounds_every_policy() {
        use foreseek_units::Pages;
        for policy in crate::stream::names() {
            let mut world = World::told(policy, &Settings::default(), 1000, Some(1000));
            world.memory.bound = Some(Pages(8));
            let windows = world.pages(0..300);
            assert!(windows.iter().all(|window| window.1 <= 8), "{policy}: {windows:?}");
            assert!(windows.len() >= 37, "{policy}");
        }
    }

    /// What the device serves reaches the depth rule through every machine.
    #[test]
    fn the_depth_follows_the_seeks() {
        use crate::stream::Served;
        use foreseek_units::{Lba, SectorSpan, Sectors};
        for generation in ALL {
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
}
