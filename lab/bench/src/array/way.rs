//! The ways in which an array is read.

use crate::{Error, Result};
use foreseek_array::DEFAULT_POLICY;
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The kernel's default read-ahead.
const DEFAULT: Bytes = Bytes::kib(128);

/// The raw device, or the one that `foreseek array` makes of it with a policy; and the kernel's read-ahead
/// above it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Way {
    /// None: the raw device.
    pub(super) policy: Option<String>,
    pub(super) read_ahead: Bytes,
}

/// The name of the raw device.
const RAW: &str = "raw";

impl Way {
    /// The raw device with its defaults, with which the others are compared.
    #[must_use]
    pub fn stock() -> Self {
        Self { policy: None, read_ahead: DEFAULT }
    }

    /// The ways that are measured by default.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let raw = |read_ahead| Self { policy: None, read_ahead };
        let array = |policy: &str, read_ahead| Self { policy: Some(policy.to_owned()), read_ahead };
        let mut all = vec![Self::stock(), raw(Bytes::kib(32)), raw(Bytes::kib(512)), raw(Bytes::mib(1))];
        all.extend(["none", "asp", "msp", "asp+msp", DEFAULT_POLICY].map(|policy| array(policy, DEFAULT)));
        all.push(array(DEFAULT_POLICY, Bytes::ZERO));
        all
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.policy.as_deref().unwrap_or(RAW);
        f.pad(&format!("{name}@{}K", self.read_ahead.get() >> 10))
    }
}

impl FromStr for Way {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, read_ahead) = match text.split_once('@') {
            Some((name, size)) => (name, size.parse::<Bytes>().ok()),
            None => (text, Some(DEFAULT)),
        };
        let policy = (name != RAW).then(|| name.to_owned());
        let known = policy.as_ref().is_none_or(|policy| foreseek_array::is_policy(policy));
        match read_ahead {
            Some(read_ahead) if known => Ok(Self { policy, read_ahead }),
            _ => Err(Error::Option {
                what: format!(
                    "'{text}' is no way to read an array: give raw, adaptive, none, sp, asp, msp or asp+msp, and the kernel's \
                     read-ahead after '@' where it is not 128K, such as adaptive@0K"
                ),
            }),
        }
    }
}

impl From<Way> for String {
    fn from(way: Way) -> Self {
        way.to_string()
    }
}

impl TryFrom<String> for Way {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_read_as_written() {
        for way in Way::all() {
            assert_eq!(way.to_string().parse::<Way>().expect("its own name"), way);
        }
        assert_eq!("raw".parse::<Way>().expect("a way"), Way::stock());
        for text in ["", "raw@x", "best", "asp+seqp128"] {
            assert!(text.parse::<Way>().expect_err(text).to_string().contains("adaptive@0K"));
        }
    }
}
