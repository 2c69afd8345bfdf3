//! Replay: a trace's requests are made again, to a modelled device.
//!
//! *Through the block layer* ([`through_block`]): each request is submitted as a file system would submit it,
//! in one of two ways. An *open* loop makes it at its recorded time, whatever the device does. A *closed* loop
//! makes it when the process's request before is complete and the process has thought as long as in the trace
//! ([`chains`]).
//!
//! *Through the page cache* ([`Accesses`]): each request is a read or a write of a file by a process of a
//! [machine](crate::machine), with read-ahead and page replacement. There is only a closed loop, since a
//! process continues when its read is complete.
//!
//! The devices (or files) of a trace are laid one behind the other on the device in order of their numbers,
//! each as long as its requests reach. If that exceeds the device, the caller may have addresses wrapped around
//! the end.

mod addresses;
mod block;
mod cache;
mod chains;

pub use addresses::Addresses;
pub use block::{Loop, Outcome, Times, WAITING_LIMIT, through_block};
pub use cache::{Accesses, PROCESSES_LIMIT, REQUESTS_LIMIT};
pub use chains::{Chained, Chains, WINDOW_LIMIT};
