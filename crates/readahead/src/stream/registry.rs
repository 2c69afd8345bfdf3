//! The prefetchers of streams by name.

#[cfg(test)]
use super::as_long_as_read;
use super::{Prefetcher, Settings, aggressive, competitive, learnt, none, oracle, stock};
use foreseek_units::DeviceCosts;
use std::sync::Arc;

/// What a policy is made of.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) costs: &'a Arc<dyn DeviceCosts>,
}

/// Makes a policy.
type Build = fn(&Parts<'_>) -> Box<dyn Prefetcher>;

/// Every policy: its name, one line for people, and how it is made.
#[rustfmt::skip]
const POLICIES: &[(&str, &str, Build)] = &[
    ("none", "what is asked for and no more", none::build),
    ("linux-2.6.3", "Linux 2.6.3: two windows, up to 128 KiB", stock::linux_2_6_3),
    ("linux-2.6.10", "Linux 2.6.10: two windows and an average of hits", stock::linux_2_6_10),
    ("linux-2.6.18", "Linux 2.6.18: two windows, once a call", stock::linux_2_6_18),
    ("on-demand", "today's Linux: on a miss and at a marker", stock::on_demand),
    ("aggressive", "a large constant depth with slow start", aggressive::build),
    ("competitive", "switch time x transfer rate, with slow start", competitive::build),
    ("competitive-without-slow-start", "the same from the first fetch on", competitive::without_slow_start),
    ("learnt", "by the lengths of past streams, within rho times the optimum", learnt::build),
    (TOLD, "the same with lengths that it was told, learning nothing", learnt::told),
    ("oracle", "told how much each stream will read", oracle::build),
    // The example of docs/adding-a-policy.md, in tests only.
    #[cfg(test)]
    ("as-long-as-read", "as deep as the stream was read so far", as_long_as_read::build),
];

/// The policy that is to be told how long streams are, by [`Learning::load`](crate::learn::Learning::load).
pub const TOLD: &str = "learnt-told";

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::testing::costs;

    #[test]
    fn every_policy_is_made_by_its_name() {
        for name in names() {
            assert!(by_name(name, &Settings::default(), &costs("exos-18t")).is_ok(), "{name}");
            assert!(about(name).is_some_and(|about| !about.is_empty()));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_are_known() {
        let unknown =
            by_name("linux-2.4", &Settings::default(), &costs("exos-18t")).err().expect("no policy");
        let message = unknown.to_string();
        assert!(
            message.starts_with("no prefetcher is called 'linux-2.4': there are none, linux-2.6.3,"),
            "{message}"
        );
    }
}
