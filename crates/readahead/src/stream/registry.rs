//! The prefetchers of streams by name: the only list of them. The simulator, the mount, the benchmark of the
//! mount, their help and their completions use it.

use super::parts::Parts;
use super::prefetcher::Prefetcher;
use super::settings::Settings;
use foreseek_units::DeviceCosts;
use std::sync::Arc;

/// Builds a policy.
type Build = fn(&Parts<'_>) -> Box<dyn Prefetcher>;

/// Where a policy can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offered {
    /// Everywhere, also for a mount.
    Everywhere,
    /// In experiments only: it models a kernel, or needs what only a simulator knows.
    Simulated,
}
use Offered::{Everywhere, Simulated};

/// Every policy: its name, a line for help texts, where it can be chosen, and its builder.
#[rustfmt::skip]
const POLICIES: &[(&str, &str, Offered, Build)] = &[
    ("none", "no prefetching", Everywhere, super::none::build),
    ("on-demand", "today's Linux: on a miss and at a marker, up to 128 KiB", Everywhere, super::stock::on_demand),
    ("aggressive", "up to 1 MiB at a time with slow start, whatever the device", Everywhere, super::aggressive::build),
    ("competitive", "positioning time x transfer rate, with slow start", Everywhere, super::competitive::build),
    ("competitive-without-slow-start", "the same from the first fetch on", Simulated, super::competitive::without_slow_start),
    ("adaptive", "sized by past stream lengths; at most --rho times the optimum", Everywhere, super::adaptive::build),
    (KNOWN_LENGTHS, "the same with the lengths known, learning nothing", Simulated, super::adaptive::announced),
    ("oracle", "clairvoyant: knows how much each stream will read", Simulated, super::oracle::build),
];

/// Earlier names of policies and the current ones. This release accepts the earlier ones.
const OLD: [(&str, &str); 3] =
    [("learnt", "adaptive"), ("learnt-told", KNOWN_LENGTHS), ("adaptive-told", KNOWN_LENGTHS)];

/// The policy that is given the distribution of stream lengths, by [`Learning::load`](crate::learn::Learning::load).
pub const KNOWN_LENGTHS: &str = "adaptive-known-lengths";

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no prefetcher is called '{name}': there are {}", known.join(", "))]
pub struct UnknownPolicy {
    /// The name that was given.
    pub name: String,
    /// The existing names.
    pub known: Vec<&'static str>,
}

/// The current name of a policy that has an earlier one; any other name unchanged.
#[must_use]
pub fn of_today(name: &str) -> &str {
    OLD.iter().find(|(old, _)| *old == name).map_or(name, |(_, today)| *today)
}

/// The names of all policies.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(name, ..)| *name)
}

/// The names of those that a mount accepts.
pub fn offered() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().filter(|(_, _, offered, _)| *offered == Everywhere).map(|(name, ..)| *name)
}

/// One line about a policy, if there is one of this name.
#[must_use]
pub fn about(name: &str) -> Option<&'static str> {
    let name = of_today(name);
    POLICIES.iter().find(|(known, ..)| *known == name).map(|(_, about, ..)| *about)
}

/// Builds the prefetcher of this name for a device.
///
/// # Errors
/// No policy has this name; the message lists the existing ones.
pub fn by_name(
    name: &str,
    settings: &Settings,
    costs: &Arc<dyn DeviceCosts>,
) -> Result<Box<dyn Prefetcher>, UnknownPolicy> {
    let today = of_today(name);
    let found = POLICIES.iter().find(|(known, ..)| *known == today);
    let (.., build) =
        found.ok_or_else(|| UnknownPolicy { name: name.to_owned(), known: names().collect() })?;
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
    fn old_names_lead_to_the_current_policies() {
        for (old, today) in OLD {
            assert!(!names().any(|name| name == old) && names().any(|name| name == today));
            assert!(by_name(old, &Settings::default(), &costs("exos-18t")).is_ok(), "{old}");
            assert_eq!(about(old), about(today));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let unknown =
            by_name("linux-2.4", &Settings::default(), &costs("exos-18t")).err().expect("no policy");
        let message = unknown.to_string();
        assert!(
            message.starts_with("no prefetcher is called 'linux-2.4': there are none, on-demand,"),
            "{message}"
        );
    }
}
