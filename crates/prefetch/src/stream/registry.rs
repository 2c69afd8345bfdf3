//! The prefetchers of streams by name.

use super::policies::{self, Parts};
use super::{Prefetcher, Settings};
use crate::depth::DeviceCosts;
use std::sync::Arc;

/// Makes a policy.
type Build = fn(&Parts<'_>) -> Box<dyn Prefetcher>;

/// Every policy: its name, one line for people, and how it is made.
const POLICIES: [(&str, &str, Build); 9] = [
    ("none", "what is asked for and no more", policies::none),
    ("linux-2.6.3", "Linux 2.6.3: two windows, up to 128 KiB", policies::linux_2_6_3),
    ("linux-2.6.10", "Linux 2.6.10: two windows and an average of hits", policies::linux_2_6_10),
    ("linux-2.6.18", "Linux 2.6.18: two windows, once a call", policies::linux_2_6_18),
    ("on-demand", "today's Linux: on a miss and at a marker", policies::on_demand),
    ("aggressive", "a large constant depth with slow start", policies::aggressive),
    ("competitive", "switch time x transfer rate with slow start", policies::competitive),
    (
        "competitive-without-slow-start",
        "switch time x transfer rate from the first fetch on",
        policies::competitive_without_slow_start,
    ),
    ("oracle", "told how much each stream will read", policies::oracle),
];

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no prefetcher is called '{name}': there are {}", names().collect::<Vec<_>>().join(", "))]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
}

/// The names of all policies.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(name, ..)| *name)
}

/// One line about a policy, if there is one of this name.
#[must_use]
pub fn about(name: &str) -> Option<&'static str> {
    POLICIES.iter().find(|(known, ..)| *known == name).map(|(_, about, _)| *about)
}

/// Makes the prefetcher of this name for a device.
///
/// # Errors
/// No policy is called so; the message names those that there are.
pub fn by_name(
    name: &str,
    settings: &Settings,
    costs: &Arc<dyn DeviceCosts>,
) -> Result<Box<dyn Prefetcher>, UnknownPolicy> {
    let found = POLICIES.iter().find(|(known, ..)| *known == name);
    let (.., build) = found.ok_or_else(|| UnknownPolicy { name: name.to_owned() })?;
    Ok(build(&Parts { settings, costs }))
}
