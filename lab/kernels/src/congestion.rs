//! What a congested queue does to the windows of Linux 2.6.3 and 2.6.10.
//!
//! Up to 2.6.10 one test stood before every window (`do_page_cache_readahead`): where the queue is congested,
//! nothing is read, and the caller takes the window for one that is wholly in memory. The descriptors then
//! describe pages that were never read; these are read one by one when they are touched. TR-840 (section 6)
//! calls this an anomaly that its kernels have corrected, and does not say how. Linux corrected it in 2.6.11.
//! `docs/internals/simulator.md` compares the ways.

use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// The rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// As published: every window is cancelled, and its descriptors advance as if it had been read.
    Stock,
    /// TR-840 section 6 to the letter: every window is cancelled, and its descriptors record that. A current
    /// window becomes the page that its reader demands; an ahead window is tried again at the next page.
    CancelsAll,
    /// As Linux 2.6.11: only the ahead window is cancelled and is tried again at the next page. The current
    /// window is read, since its reader waits for a part of it in any case.
    #[default]
    CancelsAhead,
    /// No window is cancelled.
    Ignored,
}

impl Congestion {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Stock, Self::CancelsAll, Self::CancelsAhead, Self::Ignored];

    /// Whether it cancels the window that its reader waits for.
    pub(crate) fn cancels_current(self) -> bool {
        matches!(self, Self::Stock | Self::CancelsAll)
    }

    /// Whether it cancels anything: the ahead window, and what a page fault reads beside its page.
    pub(crate) fn cancels_ahead(self) -> bool {
        self != Self::Ignored
    }

    /// Whether the descriptors distinguish what was cancelled from what was read.
    pub(crate) fn is_noted(self) -> bool {
        self != Self::Stock
    }

    fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::CancelsAll => "cancels-all",
            Self::CancelsAhead => "cancels-ahead",
            Self::Ignored => "ignored",
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Congestion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|rule| rule.name() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("there is no rule '{text}'; known are {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_one_name_in_files_and_elsewhere() {
        #[derive(Deserialize)]
        struct File {
            congestion: Congestion,
        }
        for rule in Congestion::ALL {
            assert_eq!(rule.to_string().parse(), Ok(rule));
            let file: File = toml::from_str(&format!("congestion = \"{rule}\"")).expect("its name");
            assert_eq!(file.congestion, rule);
        }
        let error = "never".parse::<Congestion>().expect_err("no rule");
        assert_eq!(error, "there is no rule 'never'; known are stock, cancels-all, cancels-ahead, ignored");
    }
}
