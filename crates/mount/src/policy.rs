//! The policy that decides what a mount prefetches: one of the prefetchers that [the
//! registry](foreseek_readahead::stream::offered) offers, by their names there except for one, or
//! [`Policy::PLAIN`], which prefetches nothing.

use foreseek_readahead::stream;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A prefetcher with another name for users than in the registry: for a mount, "on demand" would be unclear.
const ALIAS: (&str, &str) = ("linux", "on-demand");

/// A policy, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy(&'static str);

impl Policy {
    /// Sized by the lengths of past streams, with a bound on the cost as a multiple of that with a known
    /// length. The default by measurement (`docs/lab/bench-mount.md`), and the policy that keeps its state
    /// over a restart.
    pub const ADAPTIVE: Self = Self("adaptive");
    /// As much at a time as could be transferred during a positioning: the papers' rule.
    pub const COMPETITIVE: Self = Self("competitive");
    /// As Linux does: up to 128 KiB.
    pub const LINUX: Self = Self(ALIAS.0);
    /// A large constant depth.
    pub const AGGRESSIVE: Self = Self("aggressive");
    /// Nothing is prefetched or cached: each read is a read of the backing file.
    pub const PLAIN: Self = Self("plain");

    /// All policies.
    pub fn all() -> impl Iterator<Item = Self> {
        let named = |name| if name == ALIAS.1 { Self::LINUX } else { Self(name) };
        stream::offered().map(named).chain([Self::PLAIN])
    }

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// One line about it.
    #[must_use]
    pub fn about(self) -> &'static str {
        let known = self.prefetcher().and_then(stream::about);
        known.unwrap_or("pass reads through, without prefetching or caching (baseline)")
    }

    /// The name of its prefetcher in the registry; `None` for [`Policy::PLAIN`].
    pub(crate) fn prefetcher(self) -> Option<&'static str> {
        match self {
            Self::PLAIN => None,
            Self::LINUX => Some(ALIAS.1),
            Self(name) => Some(name),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::ADAPTIVE
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::all().find(|policy| policy.0 == stream::of_today(name)).ok_or_else(|| {
            let known: Vec<&str> = Self::all().map(Self::name).collect();
            format!("a mount has no policy '{name}', it has {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_has_what_the_registry_offers_and_plain() {
        let prefetchers: Vec<&str> = Policy::all().filter_map(Policy::prefetcher).collect();
        assert_eq!(prefetchers, stream::offered().collect::<Vec<_>>());
        assert_eq!(Policy::all().filter(|policy| policy.prefetcher().is_none()).count(), 1);
        assert!(
            Policy::all().all(|policy| policy.name().parse() == Ok(policy) && !policy.about().is_empty())
        );
    }

    #[test]
    fn the_old_name_of_the_default_is_understood() {
        assert_eq!("learnt".parse(), Ok(Policy::ADAPTIVE));
        assert_eq!(Policy::default().name(), "adaptive");
    }

    #[test]
    fn the_named_policies_are_offered() {
        let named = [
            Policy::ADAPTIVE,
            Policy::COMPETITIVE,
            Policy::LINUX,
            Policy::AGGRESSIVE,
            Policy::PLAIN,
            Policy::default(),
        ];
        assert!(named.into_iter().all(|policy| Policy::all().any(|offered| offered == policy)));
    }

    #[test]
    fn policies_for_the_simulator_only_are_refused() {
        for name in ["oracle", "adaptive-known-lengths", "linux-2.6.3", "on-demand", ""] {
            let refused = name.parse::<Policy>().expect_err(name);
            assert!(
                refused.starts_with(&format!("a mount has no policy '{name}', it has none, linux, ")),
                "{refused}"
            );
        }
    }
}
