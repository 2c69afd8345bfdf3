//! A server's device over NBD: on a Unix socket or a TCP port.
//!
//! A few threads wait for all clients; the server's own threads send replies, as far as a client's socket takes them. A client that
//! does not take its replies is not read any further, so that none holds more than [`HELD_MOST`] and one request.

mod address;
mod client;
mod serve;

pub use address::NbdAddress;
pub use serve::NbdExport;

use foreseek_units::Bytes;

/// Clients at a time; each may hold a part of a write, 1 MiB, that has not come to its end.
const CLIENTS_MOST: usize = 1024;
/// Requests of a client that are not answered: as many as the loop driver lets through.
const REQUESTS_MOST: usize = 128;
/// Bytes of a client's requests and replies.
const HELD_MOST: Bytes = Bytes::mib(32);
