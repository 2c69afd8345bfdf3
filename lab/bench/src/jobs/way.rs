//! The ways in which a job is run: over stock Linux, at some static settings of `read_ahead_kb`, through a
//! mount that only passes reads on, and through the mount with its defaults.

use crate::named::by_name;
use crate::{Error, Result};
use foreseek_storage::loop_device::DEFAULT_READ_AHEAD;
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The kernel with its defaults.
    Stock,
    /// `read_ahead_kb` at 512.
    #[serde(rename = "stock-512k")]
    Stock512K,
    /// `read_ahead_kb` at 4096.
    #[serde(rename = "stock-4m")]
    Stock4M,
    /// `foreseek mount --policy plain`.
    Plain,
    /// `foreseek mount`.
    Mount,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Stock, Self::Stock512K, Self::Stock4M, Self::Plain, Self::Mount];

    const fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Stock512K => "stock-512k",
            Self::Stock4M => "stock-4m",
            Self::Plain => "plain",
            Self::Mount => "mount",
        }
    }

    /// The disk's `read_ahead_kb`.
    pub(crate) const fn read_ahead(self) -> Bytes {
        match self {
            Self::Stock512K => Bytes::kib(512),
            Self::Stock4M => Bytes::mib(4),
            Self::Stock | Self::Plain | Self::Mount => DEFAULT_READ_AHEAD,
        }
    }

    /// Whether it is a static setting of the kernel's read-ahead.
    pub(crate) const fn is_static(self) -> bool {
        matches!(self, Self::Stock | Self::Stock512K | Self::Stock4M)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Way {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        by_name(name, Self::ALL, Self::name, "a way to run a job")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_named() {
        for way in Way::ALL {
            assert_eq!(way.name().parse::<Way>().expect("known"), way);
            assert_eq!(serde_json::to_value(way).expect("JSON"), way.name());
        }
        assert!("fast".parse::<Way>().expect_err("unknown").to_string().contains("stock-4m"));
    }
}
