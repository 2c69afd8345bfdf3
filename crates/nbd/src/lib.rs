//! The server's side of the NBD protocol, without I/O: bytes of a client in, requests out; answers in, bytes for the client out.
//!
//! A [`Reader`] takes the bytes of a client, in pieces of any length. It answers the handshake (fixed
//! newstyle) itself and returns the requests to the device. Large requests have parts of at most [`PART`];
//! the parts of a write are returned while it is still arriving. A [`Book`] keeps the unanswered requests,
//! and makes their replies. They are separate, so that one thread can read a connection while others answer.
//!
//! Source: the NBD project's `doc/proto.md`. Served are `EXPORT_NAME`, `ABORT`, `LIST`, `INFO`, `GO` and `STRUCTURED_REPLY`; `READ`,
//! `WRITE`, `DISC`, `FLUSH`, `TRIM`, `CACHE` and `WRITE_ZEROES`. All other options and commands are refused, as the protocol provides.
//! `STARTTLS` is among the refused ones, and a client is told why: by default an export listens only on this machine; for
//! other uses there are tunnels.
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
