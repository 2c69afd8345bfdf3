//! What was learnt and what would be done about it: for people.

use super::class::Common;
use super::classes::{Class, Classes};
use crate::depth::{self, Depths, Plan, RatioBound, Survival};
use foreseek_units::Pages;

/// Fetches of a stream that are listed: by then depths hardly change any more.
const EXPLAINED: usize = 8;
/// Where the first fetches of slow start begin (TR-840 section 3).
const SLOW_START: f64 = depth::SLOW_START.0 as f64;

/// One class.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Explained {
    /// What its streams have in common.
    pub class: String,
    /// How many were followed.
    pub streams: u64,
    /// How often their behaviour has changed since.
    pub changes: u64,
    /// Half of them are no longer, in pages.
    pub median_pages: u64,
    /// Nine in ten are no longer, in pages.
    pub nine_in_ten_pages: u64,
    /// How deep the next stream of a large file will be fetched, in pages.
    pub depths_pages: Vec<u64>,
    /// By how much less time of the device its streams are expected to take than under competitive
    /// prefetching with slow start, as a factor: 1.3 is three tenths more throughput.
    pub gain: f64,
}

impl<K: Default> Classes<K> {
    /// The classes of which most was read, at most `limit`, with what the plan of a bound would do. `end` is
    /// how long files are taken to be of a class that was loaded and not met since and says nothing of it,
    /// `continuing` what a fetch that continues a stream costs.
    #[must_use]
    pub fn explain(
        &self,
        ratio_bound: RatioBound,
        end: Pages,
        continuing: f64,
        limit: usize,
    ) -> Vec<Explained> {
        let length = |class: &Class<K>| match class.longest {
            Pages::ZERO => class.common.longest().unwrap_or(end),
            longest => longest,
        };
        let mut all: Vec<_> = self
            .met()
            .map(|class| {
                let (survival, end) = (self.survival_of(class), length(class));
                let read = class.lengths.seen() as f64 * survival.mean(end);
                (read.max(1.0).log2().round() as u32, class, survival, end)
            })
            .collect();
        // First the one that holds all; then by octaves, and stable: a class that is about all that a coarser
        // one holds comes after it.
        all.sort_by_key(|(read, class, ..)| (class.common != Common::default(), std::cmp::Reverse(*read)));
        all.truncate(limit);
        let explained = all.into_iter().map(|(_, class, survival, end)| {
            let (median, most) = (survival.quantile(0.5), survival.quantile(0.9));
            let plan = Plan::solve(survival, ratio_bound, end, continuing);
            let depths = plan.sequence(EXPLAINED, end);
            let slow = Depths::slow_start(SLOW_START, ratio_bound.unit());
            let gain =
                expected(slow.iter(), plan.survival(), ratio_bound, end, continuing) / plan.expected_cost();
            Explained {
                class: class.common.to_string(),
                streams: class.lengths.seen(),
                changes: class.lengths.changes(),
                median_pages: median.min(end).get(),
                nine_in_ten_pages: most.min(end).get(),
                depths_pages: depths.iter().map(|depth| depth.get()).collect(),
                gain,
            }
        });
        explained.collect()
    }
}

/// What streams cost on average that are fetched in depths of so many pages, in switch costs.
fn expected(
    depths: impl Iterator<Item = f64>,
    survival: &Survival,
    ratio_bound: RatioBound,
    end: Pages,
    continuing: f64,
) -> f64 {
    /// Whoever comes so far hardly counts.
    const NEGLIGIBLE: f64 = 1e-6;
    let (mut at, mut cost) = (0.0, 0.0);
    for (made, depth) in depths.enumerate() {
        let left = end.get() as f64 - at;
        let reached = survival.beyond(Pages(at as u64));
        if left <= 0.0 || reached < NEGLIGIBLE {
            break;
        }
        let switch = if made == 0 { 1.0 } else { continuing };
        cost += reached * (switch + depth.min(left) / ratio_bound.unit());
        at += depth;
    }
    cost
}
