//! The messages between starter, server and clients: one JSON object a line.
//!
//! *On the control socket*: one request for each connection. Every server understands `Ping` and `End`; the
//! rest depends on its kind ([`ServerRequest`]). The answer is one line, and as many more as that line says.
//!
//! *Between starter and server*, on the server's standard input and output: the settings; any number of
//! requests of the server, each with its answer; finally a report whether the server is ready.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The requests of a kind of server.
pub trait ServerRequest: Serialize + DeserializeOwned {
    /// The replies to them.
    type Reply: Serialize + DeserializeOwned;
    /// The lines after some replies; `()` where there are none.
    type Line: Serialize + DeserializeOwned;
}

/// A request to any server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Envelope<A> {
    /// Do you answer?
    Ping,
    /// Stop serving and end.
    End,
    /// A request of this kind of server.
    Own(A),
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply<R> {
    /// Done, or accepted.
    Done,
    /// A reply of this kind of server, and the number of lines that follow.
    Own { reply: R, lines: usize },
    /// It failed, or was not understood.
    Refused(String),
}

/// What a server sends to its starter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Started<Q, R> {
    /// A request to the starter.
    Request(Q),
    /// It serves.
    Ready(R),
    /// It could not start; nothing is left behind.
    Failed(String),
}
