//! A server's device over NBD, on a Unix socket or a TCP port.
//!
//! A few threads serve all clients. The server's own threads send replies, as far as a client's socket
//! accepts them. A client that does not accept its replies is not read any further, so that none holds more
//! than [`HELD_MOST`] and one request.

mod address;
mod client;
mod serve;
#[cfg(test)]
mod tests;

pub use address::NbdAddress;
pub use serve::NbdExport;

use foreseek_units::Bytes;

/// Clients at a time; each may hold an incomplete part of a write, 1 MiB.
const CLIENTS_MOST: usize = 1024;
/// Unanswered requests of a client: as many as the loop driver allows.
const REQUESTS_MOST: usize = 128;
/// Bytes of a client's requests and replies.
const HELD_MOST: Bytes = Bytes::mib(32);
