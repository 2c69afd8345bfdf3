//! The kernels' own read-ahead, without a change.

use super::registry::Parts;
use super::{Generation, Prefetcher, Ramp, Settings, window_machine};
use crate::depth::Fixed;

/// A kernel's own read-ahead; no costs of a device enter it.
#[must_use]
pub fn stock(generation: Generation, settings: &Settings) -> Box<dyn Prefetcher> {
    window_machine(generation, Box::new(Fixed(settings.window)), Ramp::Stock, settings)
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
