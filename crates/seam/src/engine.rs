//! The engine: events and the time in, bounded commands out.
//!
//! An engine is one actor a device. Its driver turns what happens into [`Event`]s, hands them over
//! with the time, and carries out the [`Command`]s that come back. What an engine can see depends on its
//! driver: a mount sees the misses of the kernel's page cache and its read-ahead, a driver that gives
//! advice sees every read of a watched range and learns nothing of when pages arrive.
//!
//! Rules that every engine and driver keep:
//!
//! - *In flight is a state of a page.* A read of a page in flight joins it; a write overtakes it:
//!   the object's [`Epoch`](crate::Epoch) rises, and a completion that bears an older one is thrown away.
//! - *A fetch may come short, be refused or fail.* That is a counter, never an error of the reader,
//!   unless the very pages that it asked for fail when they are fetched for it alone: then it gets
//!   that error ([`ServingCommand::Fail`](crate::ServingCommand::Fail)), and nobody else.
//! - *The engine owns frame numbers, the driver owns the memory.* A frame stays pinned until its I/O
//!   and the reply that it feeds are over: [`Event::Done`](crate::Event::Done) ends the one, [`ServingEvent::Unpinned`](crate::ServingEvent::Unpinned) the other.
//! - *Commands are bounded.* An engine that has more to say sets its [`deadline`](Engine::deadline)
//!   to now, and the driver sends [`Event::Tick`](crate::Event::Tick) when it has carried out what it has.

#[cfg(doc)]
use crate::Command;
use crate::{Commands, Event};
use foreseek_units::Instant;

/// A prefetching policy: events and the time in, bounded commands out.
///
/// It does no I/O, reads no clock, takes no lock and starts no thread; two engines that are told the
/// same say the same.
pub trait Engine: Send {
    /// Something happened. The commands that follow from it are added to `out`, which the driver
    /// hands over empty.
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Commands);

    /// When the engine wants [`Event::Tick`]; a time that has come means at once.
    fn deadline(&self) -> Option<Instant>;
}
