//! Options of a caller: how to attach a disk and what to change while it runs.

use foreseek_export::NbdAddress;
use foreseek_units::{Bytes, Lba, SectorSpan, Span};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Stands for no model: requests are answered as fast as possible.
pub const NO_PROFILE: &str = "none";

/// The default length of the modelled device's own queue: that of SATA's native command queuing.
pub const DEFAULT_QUEUE_DEPTH: usize = 32;

/// How to attach a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachOptions {
    /// A built-in profile's name, a profile file's path, or [`NO_PROFILE`].
    pub profile: String,
    /// The device's size. If the backing file exists, its size is the default.
    #[serde(with = "optional_bytes")]
    pub size: Option<Bytes>,
    /// What holds the data.
    pub backing: Backing,
    /// Attach even if the backing's file system has less free space than the size: a write without space then
    /// fails with ENOSPC.
    pub thin: bool,
    /// Scale the device's full stroke to the size, so that a small disk seeks like the large one. Otherwise
    /// the size is the outer part of the device's geometry.
    pub fit: bool,
    /// How the device schedules the requests in its queue.
    pub queue: QueueOrder,
    /// The length of the device's queue; further requests wait in order of arrival.
    pub queue_depth: usize,
    /// The member of an array that has failed, counted from zero: RAID-5 reconstructs its data from the
    /// others; in RAID-0 its data are I/O errors.
    #[serde(default)]
    pub failed_member: Option<usize>,
    /// The factor on all modelled time: 0.1 makes the device ten times faster.
    pub time_scale: f64,
    /// Whether requests take the modelled time (can be changed later).
    pub delays: bool,
    /// Bytes of a volatile write cache: unflushed data in it are lost with the power. 0: no cache.
    #[serde(default)]
    pub volatile_bytes: u64,
    /// Sectors whose every request fails with EIO (can be changed later).
    pub fail_lba: Vec<LbaRange>,
    /// The address of an NBD export, in addition to the block device.
    #[serde(default)]
    pub nbd: Option<NbdAddress>,
    /// The disk's name; by default the first free `diskN`.
    pub name: Option<String>,
    /// The program to run as server, with the arguments `disk serve`; by default this program. It must call
    /// `serve::run` then.
    pub server: Option<PathBuf>,
}

impl AttachOptions {
    /// A disk of this profile with a temporary sparse file behind it.
    #[must_use]
    pub fn new(profile: &str, size: Bytes) -> Self {
        Self {
            profile: profile.to_owned(),
            size: Some(size),
            backing: Backing::Sparse { directory: None },
            thin: false,
            fit: false,
            queue: QueueOrder::Sptf,
            queue_depth: DEFAULT_QUEUE_DEPTH,
            failed_member: None,
            time_scale: 1.0,
            delays: true,
            volatile_bytes: 0,
            fail_lba: Vec::new(),
            nbd: None,
            name: None,
            server: None,
        }
    }
}

/// What holds a disk's data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// This file, which is kept; it is created if it does not exist.
    File(PathBuf),
    /// A sparse file that is removed at detach.
    Sparse {
        /// Its directory; `/var/tmp` by default.
        directory: Option<PathBuf>,
    },
}

/// How the device chooses the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueOrder {
    /// The one that it can reach soonest, including rotation.
    #[default]
    Sptf,
    /// The one that arrived first.
    Fifo,
}

/// Changes to a running disk; `None` changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Whether requests take the modelled time.
    pub delays: Option<bool>,
    /// The factor on all modelled time.
    pub time_scale: Option<f64>,
    /// The sectors that fail, replacing earlier ones; empty: none.
    pub fail_lba: Option<Vec<LbaRange>>,
    /// Whether it has power. Without power the content of its volatile cache is lost, and requests fail until
    /// the power is back.
    pub power: Option<bool>,
}

/// Sectors of a device, as written on a command line: `A..B`, half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LbaRange {
    /// The first sector.
    pub start_lba: u64,
    /// The first sector past the end.
    pub end_lba: u64,
}

impl LbaRange {
    /// As a span.
    #[must_use]
    pub const fn span(self) -> SectorSpan {
        Span { start: Lba(self.start_lba), end: Lba(self.end_lba) }
    }
}

impl FromStr for LbaRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once("..").and_then(|(start, end)| {
            Some(Self { start_lba: start.trim().parse().ok()?, end_lba: end.trim().parse().ok()? })
        });
        match parsed {
            Some(range) if range.start_lba < range.end_lba => Ok(range),
            _ => Err(format!(
                "'{text}' is not a range of sectors: give A..B with A below B (B is not part of it)"
            )),
        }
    }
}

impl fmt::Display for LbaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start_lba, self.end_lba)
    }
}

mod optional_bytes {
    use foreseek_units::Bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Option<Bytes>, to: S) -> Result<S::Ok, S::Error> {
        bytes.map(Bytes::get).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bytes>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_sectors_is_read_as_written() {
        assert_eq!("8..16".parse(), Ok(LbaRange { start_lba: 8, end_lba: 16 }));
        assert_eq!("8..16".parse::<LbaRange>().map(|range| range.to_string()), Ok("8..16".to_owned()));
    }

    #[test]
    fn what_is_no_range_is_refused_with_what_was_given() {
        for text in ["", "8", "8..", "..8", "8..8", "9..8", "-1..8", "a..b", "1..2..3"] {
            let error = text.parse::<LbaRange>().expect_err(text);
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn options_survive_the_way_to_the_server() {
        let mut options = AttachOptions::new("barracuda-500g", Bytes::gib(8));
        options.fail_lba.push(LbaRange { start_lba: 1, end_lba: 2 });
        options.backing = Backing::File("/some/file".into());
        let text = serde_json::to_string(&options).expect("options are plain data");
        assert_eq!(serde_json::from_str::<AttachOptions>(&text).expect("as written"), options);
    }
}
