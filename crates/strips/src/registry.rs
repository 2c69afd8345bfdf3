//! The policies of an array by name: the only list of them.
//!
//! A name is that of a policy of the array. If the host reads ahead sequentially itself (the paper's SEQP),
//! its largest window follows: `asp+msp+seqp128`. "SEQP is performed by the virtual file system that is
//! independent of the LORE driver" (section 3.1). The engine does the same with it or without. Blocks that it
//! requests count as requested by the host (section 3.3). The code that makes the host sets its window.
//! `seqp128` alone is no prefetching in the array.

use crate::StripsError;
use crate::rules::Massive::{Doubling, Learnt, Never};
use crate::rules::{Rules, Strips};
use foreseek_units::Bytes;

const ASP: Strips = Strips::Adaptive { cost_test: true, ghosts: true };

/// Every policy of an array: its name, a line for help texts, and its parts.
#[rustfmt::skip]
const POLICIES: &[(&str, &str, Rules)] = &[
    ("none", "a cache, and no prefetching", Rules { strips: Strips::Never, massive: Never, measured: false }),
    ("sp", "the whole strip at each miss", Rules { strips: Strips::Always, massive: Never, measured: false }),
    ("asp", "strips, with culling and where they pay", Rules { strips: ASP, massive: Never, measured: false }),
    ("asp-without-ghosts", "the same without past request states", Rules { strips: Strips::Adaptive { cost_test: true, ghosts: false }, massive: Never, measured: false }),
    ("asp-without-cost-test", "the same with strips refused by size alone", Rules { strips: Strips::Adaptive { cost_test: false, ghosts: true }, massive: Never, measured: false }),
    ("msp", "whole stripes for few sequential readers", Rules { strips: Strips::Never, massive: Doubling, measured: false }),
    ("asp+msp", "strips, and whole stripes for few sequential readers", Rules { strips: ASP, massive: Doubling, measured: false }),
    ("msp-adaptive", "as many stripes as the lengths of past runs make worth while", Rules { strips: Strips::Never, massive: Learnt, measured: false }),
    ("asp+msp-adaptive", "strips, and such stripes", Rules { strips: ASP, massive: Learnt, measured: false }),
    ("adaptive-by-profile", "asp+msp with costs that decide from the first miss on", Rules { strips: Strips::Careful, massive: Doubling, measured: false }),
    ("adaptive", "the same with costs measured on each member", Rules { strips: Strips::Careful, massive: Doubling, measured: true }),
];

/// The default policy.
pub const DEFAULT: &str = "adaptive";

/// The largest windows of the host's own read-ahead in the paper, in KiB (section 3.1).
const WINDOWS_KIB: [u64; 3] = [32, 128, 512];

/// A policy of the array, and the host's own read-ahead above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Combination {
    /// The policy of the array.
    pub rules: Rules,
    /// The largest window of the host's own read-ahead; `None` where it is off.
    pub host_window: Option<Bytes>,
}

/// The names of the array's policies.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(name, ..)| *name)
}

/// The names of all combinations.
pub fn combinations() -> impl Iterator<Item = String> {
    let windows = || WINDOWS_KIB.iter().map(|kib| format!("seqp{kib}"));
    let with = |name: &str, window: String| if name == "none" { window } else { format!("{name}+{window}") };
    names().flat_map(move |name| {
        std::iter::once(name.to_owned()).chain(windows().map(move |window| with(name, window)))
    })
}

/// One line about a policy of the array, if there is one of this name.
#[must_use]
pub fn about(name: &str) -> Option<&'static str> {
    POLICIES.iter().find(|(known, ..)| *known == name).map(|(_, about, _)| *about)
}

/// The combination of this name.
///
/// # Errors
/// No combination has this name; the message lists the existing ones.
pub fn by_name(name: &str) -> Result<Combination, StripsError> {
    let unknown = || StripsError::UnknownPolicy { name: name.to_owned(), known: combinations().collect() };
    let (policy, window) = match name.rsplit_once('+') {
        Some((policy, window)) if window.starts_with("seqp") && policy != "none" => (policy, Some(window)),
        None if name.starts_with("seqp") => ("none", Some(name)),
        _ => (name, None),
    };
    let found = POLICIES.iter().find(|(known, ..)| *known == policy).ok_or_else(unknown)?;
    let window = window.map(|window| {
        let known = WINDOWS_KIB.into_iter().find(|kib| window == format!("seqp{kib}"));
        known.map(Bytes::kib).ok_or_else(unknown)
    });
    Ok(Combination { rules: found.2, host_window: window.transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_different_combination() {
        let all: Vec<String> = combinations().collect();
        assert_eq!(all.len(), POLICIES.len() * (1 + WINDOWS_KIB.len()));
        let made: std::collections::HashSet<Combination> =
            all.iter().map(|name| by_name(name).unwrap_or_else(|error| panic!("{error}"))).collect();
        assert_eq!(made.len(), all.len());
        assert!(names().all(|name| about(name).is_some_and(|about| !about.is_empty())));
    }

    /// Section 3.1.
    #[test]
    fn the_papers_seven_combinations_are_there() {
        for name in ["asp", "msp", "seqp128", "asp+msp", "asp+seqp128", "msp+seqp128", "asp+msp+seqp128"] {
            let made = by_name(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(made.rules.massive == Doubling, name.contains("msp"), "{name}");
            assert_eq!(made.rules.strips == ASP, name.contains("asp"), "{name}");
            assert_eq!(made.host_window, name.contains("seqp").then(|| Bytes::kib(128)), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for name in ["", "asp+", "seqp", "seqp64", "asp+seqp64", "none+seqp128", "sp+msp"] {
            let message = by_name(name).expect_err(name).to_string();
            assert!(
                message
                    .starts_with(&format!("no array policy is called '{name}': give one of none, seqp32, "))
            );
        }
    }
}
