//! The part that all drivers of a [`ServingEngine`](crate::ServingEngine) share: the mount's in real time,
//! the simulator's and the tests' in virtual time.
//!
//! A [`ServingDriver`] turns operations into events for its engine, and the engine's commands into calls of
//! its [`Backing`], which has the memory, the files and the readers. It keeps
//!
//! - the files: their [versions](Version), their epochs, the streams that read them;
//! - the reads that are not answered, and the way of each answer to its reader;
//! - the fetches in flight, with the epoch in which each was issued, and the errors of the last ones that
//!   failed;
//! - time: after each event it ticks until the engine has no more commands, and then has a
//!   [deadline](ServingDriver::deadline).
//!
//! It does no I/O, reads no clock, takes no lock and starts no thread. A backing may carry out a call at
//! once, or queue it until its lock is released; a call of the driver never waits.
//!
//! # Failures of a backing
//!
//! - A fetch that it does not accept is refused.
//! - A reply that it cannot make out of the frames that the engine named is an error of the engine. The error
//!   is counted ([`Counts::internal_errors`]) and the read is passed, as after a check that failed in the
//!   engine itself.
//! - A fetch that ends before its file does puts the file's version in [doubt](Revalidation): another process
//!   may have truncated it. The backing examines the file and [settles](ServingDriver::revalidate) the doubt
//!   before it reports the end of the fetch. No reader then gets bytes from beyond the new end.
//!
//! # Limits
//!
//! One engine, one device. The number of closed files that are remembered is bounded; a forgotten file starts
//! anew.

mod backing;
mod counts;
mod files;
mod serving;

pub use backing::{Backing, FrameFetch, Reply, Version, WaitingRead};
pub use counts::Counts;
pub use serving::{FetchEnd, Opening, Revalidation, ServingDriver};
