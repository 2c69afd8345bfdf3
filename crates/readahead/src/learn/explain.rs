//! Reports of what was learnt and of the plans that follow from it.

use super::class::Common;
use super::classes::{Class, Classes};
use crate::depth::{self, Depths, Plan, RatioBound, Survival};
use foreseek_units::Pages;

/// Fetches of a stream that are listed: later depths hardly change.
const EXPLAINED: usize = 8;
/// The first fetch of slow start (TR-840 section 3).
const SLOW_START: f64 = depth::SLOW_START.0 as f64;

/// One class.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Explained {
    /// What its streams have in common.
    pub class: String,
    /// How many were followed.
    pub streams: u64,
    /// How often their behaviour has changed.
    pub changes: u64,
    /// The median length, in pages.
    pub median_pages: u64,
    /// The length that nine in ten do not exceed, in pages.
    pub nine_in_ten_pages: u64,
    /// The first depths of the next stream of a large file, in pages.
    pub depths_pages: Vec<u64>,
    /// The expected device time of its streams under competitive prefetching with slow start, divided by that
    /// under the plan. 1.3 is three tenths more throughput.
    pub gain: f64,
}

impl<K: Default> Classes<K> {
    /// The classes of which most was read, at most `limit`, with their plans under a bound. `end` is the
    /// assumed file length if a class was loaded, not seen since, and has no size. `continuing` is the cost
    /// of a fetch that continues a stream.
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
        // First the class that holds all; then by octaves of pages read. The sort is stable: a class with
        // nearly all streams of a coarser one follows it.
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

/// The mean cost, in positioning costs, of streams that are fetched in these depths.
fn expected(
    depths: impl Iterator<Item = f64>,
    survival: &Survival,
    ratio_bound: RatioBound,
    end: Pages,
    continuing: f64,
) -> f64 {
    /// Streams that reach so far hardly count.
    const NEGLIGIBLE: f64 = 1e-6;
    let (mut at, mut cost) = (0.0, 0.0);
    for (made, depth) in depths.enumerate() {
        let left = end.get() as f64 - at;
        let reached = survival.beyond(Pages(at as u64));
        if left <= 0.0 || reached < NEGLIGIBLE {
            break;
        }
        let positioning = if made == 0 { 1.0 } else { continuing };
        cost += reached * (positioning + depth.min(left) / ratio_bound.unit());
        at += depth;
    }
    cost
}
