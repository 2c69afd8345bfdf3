//! Aggressive prefetching (TR-840 section 5.2, EuroSys'07 section 6.2): a large constant depth, about
//! twice the competitive one, included "purely for the purpose of comparison".
//!
//! It starts slowly: both papers find that it does not hurt random reads, "because the slow-start
//! phase used in all kernels quickly identifies the non-sequential access pattern".

use super::parts::Parts;
use super::prefetcher::Prefetcher;
use super::settings::Settings;
use crate::depth::{Fixed, Ramp};

/// Builds the policy.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    let Settings { generation, aggressive, slow_start, .. } = *parts.settings;
    generation.with(Box::new(Fixed(aggressive)), Ramp::SlowStart(slow_start), parts.settings.window)
}
