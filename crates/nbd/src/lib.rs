//! The server's side of the NBD protocol, without I/O: bytes of a client in, requests out; answers in, bytes for the client out.
//!
//! A [`Reader`] takes what a client sends, in pieces of any length. It answers the handshake (fixed newstyle) by itself and hands out
//! what is asked of the device. Large requests come in parts of at most [`PART`]: a write's parts while it still arrives. A [`Book`]
//! keeps the requests that are not answered, and makes their replies. The two are apart, so that a connection can be read while others answer.
//!
//! Source: the NBD project's `doc/proto.md`. Served are `EXPORT_NAME`, `ABORT`, `LIST`, `INFO`, `GO` and `STRUCTURED_REPLY`; `READ`,
//! `WRITE`, `DISC`, `FLUSH`, `TRIM`, `CACHE` and `WRITE_ZEROES`. All other options and commands are refused, as the protocol provides.
//! `STARTTLS` is among them: an export listens on this machine alone unless it is told otherwise, and a tunnel serves the rest.
#![forbid(unsafe_code)]

mod book;
mod offer;
mod reader;
#[cfg(test)]
mod tests;
mod wire;

pub use book::{Answered, Book, Part, PartId};
pub use offer::Offer;
pub use reader::{Broken, LENGTH_MOST, PART, Reader, Step};
pub use wire::{Command, Fault};
