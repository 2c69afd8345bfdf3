//! The policies that are compared: the kernel's read-ahead at several settings, nbdkit, a plain pass-through,
//! the mount.

use crate::cell::Cell;
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Policy {
    /// Stock Linux with one setting of `read_ahead_kb`.
    Linux(ReadAhead),
    /// nbdkit's file plugin under its readahead filter, shown by nbdfuse as a file, with a loop device on it
    /// that is mounted as a read-only ext4.
    Nbdkit,
    /// A FUSE pass-through that keeps the kernel's cache and answers each read by a read of its own.
    Plain,
    /// The mount, with a policy of its own; [`mounted`] reads the name.
    Mount(String),
    /// The same machine in virtual time, with known lengths of streams.
    Oracle,
    /// The mount with this policy in virtual time: the simulator's prediction.
    Virtual(String),
}

/// A static setting of `read_ahead_kb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadAhead {
    /// The kernel's default, 128 KiB.
    Default,
    /// The disk's competitive depth.
    Depth,
    /// 4 MiB.
    Large,
}

impl ReadAhead {
    /// All static settings.
    pub const ALL: [Self; 3] = [Self::Default, Self::Depth, Self::Large];

    /// Its size on a disk of this competitive depth, which is rounded up to pages.
    #[must_use]
    pub const fn size(self, depth: Bytes) -> Bytes {
        match self {
            Self::Default => Bytes::kib(128),
            Self::Depth => depth.pages_ceil().bytes(),
            Self::Large => Bytes::mib(4),
        }
    }
}

/// The beginning of the name of a mount's policy.
const MOUNT: &str = "mount-";
/// The beginning of the name of its prediction.
const VIRTUAL: &str = "virtual-";
/// The end of the name of a mount without a bound on what is prefetched: without CPEM (TR-840 section 4).
const UNBOUNDED: &str = "-unbounded";

/// The policy in the name of a mount, and whether what is prefetched is bounded.
#[must_use]
pub fn mounted(name: &str) -> (&str, bool) {
    name.strip_suffix(UNBOUNDED).map_or((name, true), |policy| (policy, false))
}

impl Policy {
    /// Stock Linux with its defaults: the base of all gains.
    pub const DEFAULT: Self = Self::Linux(ReadAhead::Default);

    /// The policies that are compared by default.
    #[must_use]
    pub fn compared() -> Vec<Self> {
        let mut all: Vec<Self> = ReadAhead::ALL.map(Self::Linux).to_vec();
        let ours = ["adaptive", "competitive"].map(|policy| Self::Mount(policy.to_owned()));
        all.extend([Self::Nbdkit, Self::Plain].into_iter().chain(ours));
        all
    }

    /// Whether it is measured in a cell: overheads are compared with the plain pass-through and with stock
    /// Linux.
    #[must_use]
    pub fn is_in(&self, cell: Cell) -> bool {
        match (cell, self) {
            (_, Self::Oracle | Self::Virtual(_)) => false,
            (Cell::Micro(_), _) => true,
            (Cell::Hot | Cell::Cold, Self::Plain | Self::Mount(_)) => true,
            (Cell::Hot | Cell::Cold, policy) => *policy == Self::DEFAULT,
        }
    }

    /// Whether there are verdicts on it. There are none on a mount without its bound, which explains the others.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        matches!(self, Self::Mount(name) if mounted(name).1)
    }

    /// The same mount without a bound on what is prefetched, if this one has it.
    #[must_use]
    pub fn unbounded(&self) -> Option<Self> {
        match self {
            Self::Mount(name) if mounted(name).1 => Some(Self::Mount(format!("{name}{UNBOUNDED}"))),
            _ => None,
        }
    }

    /// Whether it runs in virtual time.
    #[must_use]
    pub const fn is_modelled(&self) -> bool {
        matches!(self, Self::Oracle | Self::Virtual(_))
    }

    /// Its prediction by the simulator, if there is one.
    #[must_use]
    pub fn predicted(&self) -> Option<Self> {
        match self {
            Self::Mount(policy) => Some(Self::Virtual(policy.clone())),
            _ => None,
        }
    }

    /// Whether it is a static setting.
    #[must_use]
    pub const fn is_static(&self) -> bool {
        matches!(self, Self::Linux(_))
    }

    /// Whether a server takes a part of the memory.
    #[must_use]
    pub const fn has_server(&self) -> bool {
        matches!(self, Self::Nbdkit | Self::Plain | Self::Mount(_))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linux(ReadAhead::Default) => f.pad("linux-128k"),
            Self::Linux(ReadAhead::Depth) => f.pad("linux-depth"),
            Self::Linux(ReadAhead::Large) => f.pad("linux-4m"),
            Self::Nbdkit => f.pad("nbdkit"),
            Self::Plain => f.pad("plain"),
            Self::Mount(policy) => f.pad(&format!("{MOUNT}{policy}")),
            Self::Oracle => f.pad("oracle"),
            Self::Virtual(policy) => f.pad(&format!("{VIRTUAL}{policy}")),
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut fixed = ReadAhead::ALL.map(Self::Linux).to_vec();
        fixed.extend([Self::Nbdkit, Self::Plain, Self::Oracle]);
        if let Some(policy) = fixed.into_iter().find(|policy| policy.to_string() == text) {
            return Ok(policy);
        }
        let after = |prefix| text.strip_prefix(prefix).filter(|policy| !policy.is_empty()).map(str::to_owned);
        match (after(MOUNT), after(VIRTUAL)) {
            (Some(policy), _) => Ok(Self::Mount(policy)),
            (_, Some(policy)) => Ok(Self::Virtual(policy)),
            _ => Err(format!(
                "'{text}' is no policy: give linux-128k, linux-depth, linux-4m, nbdkit, plain or mount-POLICY \
                 (such as mount-competitive)"
            )),
        }
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> Self {
        policy.to_string()
    }
}

impl TryFrom<String> for Policy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_and_read() {
        for policy in
            Policy::compared().into_iter().chain([Policy::Oracle, Policy::Virtual("adaptive".to_owned())])
        {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for text in ["", "mount-", "linux", "linux-5m"] {
            let error = text.parse::<Policy>().expect_err(text);
            assert!(error.contains("mount-competitive"), "{error}");
        }
    }

    #[test]
    fn a_mount_is_bounded_unless_its_name_says_otherwise() {
        assert_eq!(mounted("competitive"), ("competitive", true));
        assert_eq!(mounted("competitive-unbounded"), ("competitive", false));
        let policy: Policy = "mount-competitive-unbounded".parse().expect("a policy");
        let bounded = Policy::Mount("competitive".to_owned());
        assert_eq!((bounded.unbounded(), policy.unbounded()), (Some(policy.clone()), None));
        assert_eq!((bounded.is_judged(), policy.is_judged()), (true, false));
        assert_eq!(policy.to_string(), "mount-competitive-unbounded");
        assert_eq!(
            policy.predicted().map(|virtual_| virtual_.to_string()).as_deref(),
            Some("virtual-competitive-unbounded")
        );
    }

    #[test]
    fn overheads_are_compared_with_two() {
        let there = |policy: &str| policy.parse::<Policy>().expect("a policy").is_in(Cell::Hot);
        assert!(there("linux-128k") && there("plain") && there("mount-linux"));
        assert!(!there("linux-4m") && !there("nbdkit") && !there("oracle"));
    }

    #[test]
    fn a_depth_is_whole_pages() {
        assert_eq!(ReadAhead::Depth.size(Bytes(540_001)), Bytes(540_672));
    }
}
