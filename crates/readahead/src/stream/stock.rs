//! The kernels' own read-ahead, unchanged.

use super::generation::Generation;
use super::parts::Parts;
use super::prefetcher::Prefetcher;
use super::settings::Settings;
use crate::depth::{Fixed, Ramp};

/// A kernel's own read-ahead; it uses no costs of a device.
#[must_use]
pub fn stock(generation: Generation, settings: &Settings) -> Box<dyn Prefetcher> {
    generation.with(Box::new(Fixed(settings.window)), Ramp::Stock, settings.window)
}

/// Today's Linux.
pub(super) fn on_demand(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    stock(Generation::ON_DEMAND, parts.settings)
}
