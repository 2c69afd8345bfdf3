//! Requests on the control socket of a disk's server, and the server's request to the program that starts it.

use crate::{Set, Stats};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerRequest {
    /// Report the counters.
    Stats {
        /// Reset the counters afterwards.
        reset: bool,
    },
    /// Change these settings.
    Set(Set),
    /// Log requests from now on; an earlier log is dropped.
    LogStart {
        /// The most requests.
        capacity: usize,
    },
    /// Stop logging and return the log.
    LogStop,
    /// Accept no more NBD clients, and close all connections.
    Dismiss,
}

impl foreseek_server::ServerRequest for ServerRequest {
    type Reply = Reply;
    type Line = LogEntry;
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// To [`ServerRequest::Stats`].
    Stats(Box<Stats>),
    /// To [`ServerRequest::LogStop`]; the entries follow.
    Log {
        /// Requests that were not logged because the log was full.
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
    /// The URI of the NBD export, if there is one.
    pub nbd: Option<String>,
    /// Warnings about what this machine lacks and what affects the disk's behaviour, one line each.
    pub warnings: Vec<String>,
    /// Precautions against memory shortage and similar emergencies that could not be taken, one line each;
    /// the disk works the same without them.
    pub precautions: Vec<String>,
}

/// Attach a loop device to this file, time reads of it, and answer with [`LoopAttached`]: a server that did
/// so itself would wait for its own answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachLoop {
    /// The FUSE file.
    pub(crate) file: PathBuf,
    /// Its size.
    pub(crate) size_bytes: u64,
}

/// The loop device that was attached to the disk's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoopAttached {
    /// The device, or the reason why there is none.
    pub(crate) device: Result<PathBuf, String>,
    /// The times of reads of it, from call to return.
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
    /// Its kind.
    pub op: LoggedOp,
    /// Its first sector.
    pub lba: u64,
    /// Its length in sectors.
    pub sectors: u64,
    /// Sectors from the end of the previously completed request to its start; negative is backward.
    pub seek_sectors: i64,
    /// Whether it failed.
    pub failed: bool,
}

/// The kind of a logged request.
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
