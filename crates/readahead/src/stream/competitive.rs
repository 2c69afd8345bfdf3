//! Competitive prefetching (TR-840 section 3, EuroSys'07 section 4): the window machine of a kernel
//! whose depth is the positioning time times the transfer rate.
//!
//! With slow start (the default of both papers) a stream begins with 16 pages, and each fetch doubles that up
//! to the competitive depth. Without it, each fetch has that depth. Nothing else of the kernel is changed:
//! "we have not modified other aspects of the prefetching algorithm" (EuroSys'07 section 5).

use super::parts::Parts;
use super::prefetcher::Prefetcher;
use super::settings::Settings;
use crate::depth::{self, PositioningCost, Ramp};
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
    let Settings { generation, averaging, positioning_weight, page_measure, .. } = *parts.settings;
    let positioning = PositioningCost::new(Arc::clone(parts.costs), averaging, positioning_weight);
    let depth = Box::new(depth::Competitive::new(positioning, page_measure));
    generation.with(depth, ramp, parts.settings.window)
}
