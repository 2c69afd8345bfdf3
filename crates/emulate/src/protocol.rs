//! What is said on a disk's control socket: one JSON object a line, one request a connection.
//!
//! A [`Reply::Log`] is followed by that many lines, each a [`LogEntry`].

use crate::{Error, Set, Stats};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Are you there?
    Ping,
    /// What have you done?
    Stats {
        /// Start counting anew afterwards.
        reset: bool,
    },
    /// Change this.
    Set(Set),
    /// Log requests from now on, at most so many; what was logged before is dropped.
    LogStart {
        /// How many.
        capacity: usize,
    },
    /// Stop logging and hand the log over.
    LogStop,
    /// Give up the device and end, when it is free.
    Detach,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// Yes, or done.
    Done,
    /// To [`Ask::Stats`].
    Stats(Box<Stats>),
    /// To [`Ask::LogStop`]; the entries follow.
    Log {
        /// Entries that follow.
        entries: usize,
        /// Requests that found the log full.
        missed: u64,
    },
    /// It could not be done.
    Refused(String),
}

/// What the server tells whoever started it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Started {
    /// Lay a loop device over this file, time reads of it, and answer with [`Laid`].
    Lay {
        /// The FUSE file.
        file: PathBuf,
        /// Its size.
        size_bytes: u64,
    },
    /// The disk is ready.
    Ready {
        /// Its name.
        name: String,
        /// The block device.
        device: PathBuf,
        /// What could not be had and shows in how the disk behaves.
        remarks: Vec<String>,
        /// Precautions that could not be taken.
        precautions: Vec<String>,
    },
    /// It could not be attached; nothing is left behind.
    Failed(String),
}

/// The loop device that was laid over the disk's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Laid {
    /// Or why there is none.
    pub(crate) device: Result<PathBuf, String>,
    /// What reads of it took, from call to return.
    pub(crate) measured: Measured,
}

/// Times of a small and of a large read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) small_bytes: u64,
    pub(crate) small_ns: u64,
    pub(crate) large_bytes: u64,
    pub(crate) large_ns: u64,
}

/// A request as the modelled device saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// When it reached the server, in nanoseconds since the log was started.
    pub arrival_ns: u64,
    /// When it was answered.
    pub completion_ns: u64,
    /// What it asked for.
    pub op: LoggedOp,
    /// Its first sector.
    pub lba: u64,
    /// How many sectors.
    pub sectors: u64,
    /// Sectors from the end of the request completed before it to its start; negative is backward.
    pub seek_sectors: i64,
    /// Whether it failed.
    pub failed: bool,
}

/// What a logged request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedOp {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Discard.
    Discard,
}

impl Reply {
    /// An error's text, all of it.
    pub(crate) fn refused(error: &Error) -> Self {
        Self::Refused(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_export::wire::{hear, say};
    use std::io;

    #[test]
    fn what_is_said_is_heard() {
        let mut wire = Vec::new();
        let asked = [
            Ask::Ping,
            Ask::Stats { reset: true },
            Ask::Set(Set { delays: Some(false), ..Set::default() }),
            Ask::LogStart { capacity: 7 },
            Ask::LogStop,
            Ask::Detach,
        ];
        for ask in &asked {
            say(&mut wire, ask).expect("a vector takes everything");
        }
        let mut from = wire.as_slice();
        for ask in &asked {
            assert_eq!(&hear::<Ask>(&mut from).expect("a line"), ask);
        }
        assert_eq!(hear::<Ask>(&mut from).expect_err("the end").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for line in ["{}\n", "\n", "{\"set\":{\"speed\":1}}\n", "\"explode\"\n"] {
            assert_eq!(
                hear::<Ask>(&mut line.as_bytes()).expect_err(line).kind(),
                if line == "\n" { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData },
                "{line}"
            );
        }
    }
}
