//! The engine: events and the time in, bounded commands out.
//!
//! There is one engine for each device. Its driver turns operations into [`Event`]s, passes them on with the
//! time, and carries out the resulting [`Command`]s. The events of an engine depend on its driver. A mount
//! sees the misses of the kernel's page cache and its read-ahead. A driver that gives advice sees every read
//! of a watched range and does not see when pages arrive.
//!
//! Rules that every engine and driver keep:
//!
//! - *In flight is a state of a page.* A read of a page in flight joins it. A write overtakes it: the
//!   object's [`Epoch`](crate::Epoch) rises, and a completion with an older one is dropped.
//! - *A fetch may come short, be refused or fail.* That is a counter, never an error of the reader, with one
//!   exception. If the very pages that a read requested fail when they are fetched for it alone, that read,
//!   and no other, gets the error ([`ServingCommand::Fail`](crate::ServingCommand::Fail)).
//! - *The engine owns frame numbers, the driver owns the memory.* A frame stays pinned until its I/O and its
//!   reply are over. [`Event::Done`](crate::Event::Done) ends the former,
//!   [`ServingEvent::Unpinned`](crate::ServingEvent::Unpinned) the latter.
//! - *Commands are bounded.* An engine with more commands sets its [`deadline`](Engine::deadline) to now. The
//!   driver sends [`Event::Tick`](crate::Event::Tick) when it has carried out the earlier ones.

#[cfg(doc)]
use crate::Command;
use crate::{Commands, Event};
use foreseek_units::Instant;

/// A prefetching policy: events and the time in, bounded commands out.
///
/// It does no I/O, reads no clock, takes no lock and starts no thread. Two engines that get the same events
/// emit the same commands.
pub trait Engine: Send {
    /// Handles an event. The resulting commands are added to `out`, which is empty at the call.
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Commands);

    /// When the engine wants [`Event::Tick`]; a time in the past means at once.
    fn deadline(&self) -> Option<Instant>;
}
