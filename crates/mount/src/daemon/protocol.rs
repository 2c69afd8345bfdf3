//! What a mount's server is asked on its control socket, and what it says when it has started.

use crate::MountStatus;
use serde::{Deserialize, Serialize};

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerRequest {
    /// How are you?
    Status,
}

impl foreseek_server::ServerRequest for ServerRequest {
    type Reply = MountStatus;
    type Line = ();
}

/// It is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// What works less well than it might.
    pub(crate) warnings: Vec<String>,
}
