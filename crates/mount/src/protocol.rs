//! What is said on a mount's control socket, one request a connection, and when it starts.

use crate::MountStatus;
use serde::{Deserialize, Serialize};

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// How are you?
    Status,
    /// Unmount and end.
    Unmount,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// It will be done.
    Done,
    /// To [`Ask::Status`].
    Status(Box<MountStatus>),
    /// It was not understood.
    Refused(String),
}

/// What the server tells whoever started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Started {
    /// It is mounted.
    Ready {
        /// What works less well than it might.
        remarks: Vec<String>,
    },
    /// It could not be mounted; nothing is left behind.
    Failed(String),
}
