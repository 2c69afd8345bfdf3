//! The requests on the control socket of a mount's server, and the report of its start.

use crate::MountStatus;
use serde::{Deserialize, Serialize};

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerRequest {
    /// The status of the mount.
    Status,
}

impl foreseek_server::ServerRequest for ServerRequest {
    type Reply = MountStatus;
    type Line = ();
}

/// The server has mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Warnings.
    pub(crate) warnings: Vec<String>,
}
