//! What a disk's server is asked on its control socket, and what it asks whoever starts it.

use crate::{Set, Stats};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerRequest {
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
    /// Take no clients over NBD any more, and close the connections of all.
    Dismiss,
}

impl foreseek_server::ServerRequest for ServerRequest {
    type Reply = Reply;
    type Line = LogEntry;
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// To [`Ask::Stats`].
    Stats(Box<Stats>),
    /// To [`Ask::LogStop`]; the entries follow.
    Log {
        /// Requests that found the log full.
        missed: u64,
    },
}

/// An attached disk, as its server reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Its name.
    pub name: String,
    /// The block device, `/dev/loopN`.
    pub device: PathBuf,
    /// The URI of the NBD export, where one was asked for.
    pub nbd: Option<String>,
    /// What could not be had on this machine and shows in how the disk behaves, one line each.
    pub warnings: Vec<String>,
    /// Precautions against emergencies that could not be taken, one line each; the disk works as
    /// well without them.
    pub precautions: Vec<String>,
}

/// Lay a loop device over this file, time reads of it, and answer with [`Laid`]: a server that did so
/// itself would wait for its own answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lay {
    /// The FUSE file.
    pub(crate) file: PathBuf,
    /// Its size.
    pub(crate) size_bytes: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_is_refused() {
        for text in ["{}", "{\"set\":{\"speed\":1}}", "\"explode\"", "{\"log_start\":{\"capacity\":-1}}"] {
            assert!(serde_json::from_str::<ServerRequest>(text).is_err(), "{text}");
        }
        let set = ServerRequest::Set(Set { delays: Some(false), ..Set::default() });
        let text = serde_json::to_string(&set).expect("plain data");
        assert_eq!(serde_json::from_str::<ServerRequest>(&text).expect("as written"), set);
    }
}
