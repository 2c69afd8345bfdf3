//! What every driver of a [`ServingEngine`](crate::ServingEngine) does, once: the mount's in real time, the
//! simulator's and the tests' in virtual time.
//!
//! A [`ServingDriver`] turns what happens into events for its engine, and the engine's commands into calls of its
//! [`Backing`], which has the memory, the files and the readers. It keeps
//!
//! - the files: their [versions](Version), their epochs, the streams that read them;
//! - the reads that are not answered, and how each answer gets to its reader;
//! - the fetches under way, with the epoch in which each was issued, and the errors of the last ones that failed;
//! - time: after each event it ticks until the engine has no more to say, and then has a
//!   [deadline](ServingDriver::deadline).
//!
//! It does no I/O, reads no clock, takes no lock and starts no thread. A backing may carry out a call at once, or queue
//! it and do so when its lock is released; a call of the driver never waits.
//!
//! # What a backing cannot do
//!
//! A fetch that it does not take is refused. A reply that it cannot make out of the frames that the engine named is an
//! error of the engine: it is counted ([`Counts::internal_errors`]) and the read is passed, as after a
//! contradiction that the engine finds itself. A fetch that ends before its file does puts the file's version in
//! [doubt](Revalidation): another process may have truncated it. The backing looks at the file and
//! [settles](ServingDriver::revalidate) the doubt before it tells the driver how the fetch ended, so that no reader gets
//! bytes from beyond the new end.
//!
//! # Limits
//!
//! One engine, one device. Closed files are remembered up to a number ([`ServingDriver::open`]); of one that
//! was forgotten nothing is taken for granted.

mod backing;
mod counts;
mod files;
mod serving;

pub use backing::{Backing, Fetch, Reply, Version, WaitingRead};
pub use counts::Counts;
pub use serving::{Opening, Revalidation, ServingDriver};
