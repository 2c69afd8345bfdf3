//! What is said between starter, server and clients: one JSON object a line.
//!
//! *On the control socket*: one request a connection. Every server understands `Ping` and `End`; the rest
//! is its own ([`ServerRequest`]). The answer is one line, and as many after it as that one says.
//!
//! *Between starter and server*, on the server's standard input and output: the settings; any number of
//! questions of the server's, each with its answer; in the end whether it is ready.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The requests that a kind of servers understands.
pub trait ServerRequest: Serialize + DeserializeOwned {
    /// What answers them.
    type Reply: Serialize + DeserializeOwned;
    /// What follows some answers, line by line; `()` where nothing does.
    type Line: Serialize + DeserializeOwned;
}

/// A request to any server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Envelope<A> {
    /// Are you there?
    Ping,
    /// Give up what you serve, and end.
    End,
    /// One of its own.
    Own(A),
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply<R> {
    /// Yes, or done, or it will be.
    Done,
    /// One of its own, and how many lines follow.
    Own { reply: R, lines: usize },
    /// It could not be done, or was not understood.
    Refused(String),
}

/// What a server tells whoever started it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Started<Q, R> {
    /// Something that the starter is to do, or to say.
    Wanted(Q),
    /// It serves.
    Ready(R),
    /// It could not start; nothing is left behind.
    Failed(String),
}
