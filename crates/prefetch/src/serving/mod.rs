//! Reads answered out of prefetched pages: the engine behind a mount, one for each device.
//!
//! In front of it stands a cache that keeps what it was given, the kernel's page cache before a FUSE
//! server; the engine is told only of what misses there ([`Saw::Misses`]). The two divide the labour as
//! the prefetch cache and the LRU lists of TR-840 section 4.1 do: pages that were prefetched and not
//! yet read lie in frames of ours, and a page that is read is handed over and leaves them.
//!
//! # What a driver does
//!
//! - It tells [`Opened`] (and [`Placed`]), [`Closed`], and each [`Read`]. Every read is answered by one
//!   of [`Serve`], [`Fail`] and [`Pass`], at once or at a later event. A passed read is the driver's to
//!   make; it is one that is longer than [`READ_LIMIT`], or of a stream that is not open.
//! - It carries out [`Fetch`], into the named frames, and answers each with one [`Done`] or [`Refused`].
//!   Fetches of one call that lie together on the device are best handed on together and in order, so that
//!   a block layer makes one request of them. `got` counts whole pages from the start, the one that
//!   the end of the object cuts among them; `Arrived` with less than was asked for means that the object
//!   ends there, so a driver goes on after a short read until it gets nothing.
//! - When the reply made of a `Serve` is out, it tells [`Unpinned`] with the same frames.
//! - It tells [`Changed`] and [`Resized`] when the object has its new bytes and before who changed
//!   them hears of it. Reads that are told after that never get older ones.
//! - It tells [`Budget`] when there is more or less memory; [`Drop`] names the frames whose memory may go.
//! - It tells [`Ran`] and [`Exited`] of readers, as often as it knows; and [`Tick`] at the deadline.
//!
//! [`Saw::Misses`]: crate::engine::Saw::Misses
//! [`Opened`]: Event::Opened
//! [`Placed`]: Event::Placed
//! [`Closed`]: Event::Closed
//! [`Read`]: Event::Read
//! [`Serve`]: Command::Serve
//! [`Fail`]: Command::Fail
//! [`Pass`]: Command::Pass
//! [`Fetch`]: Command::Fetch
//! [`Done`]: Event::Done
//! [`Refused`]: Event::Refused
//! [`Unpinned`]: Event::Unpinned
//! [`Changed`]: Event::Changed
//! [`Resized`]: Event::Resized
//! [`Budget`]: Event::Budget
//! [`Drop`]: Command::Drop
//! [`Ran`]: Event::Ran
//! [`Exited`]: Event::Exited
//! [`Tick`]: Event::Tick

mod settings;
mod stats;

pub use settings::{IN_FLIGHT_LIMIT, MEMORY_LEAST, MEMORY_LIMIT, READ_LIMIT, Settings};
pub use stats::Stats;

use crate::depth::DeviceCosts;
use crate::engine::{Command, Commands, Engine, Event};
use crate::stream::{self, Prefetcher, UnknownPolicy};
use foreseek_units::Instant;
use std::sync::Arc;

/// The engine that serves reads.
pub struct ServingEngine {
    settings: Settings,
    prefetcher: Box<dyn Prefetcher>,
    stats: Stats,
}

impl ServingEngine {
    /// An engine without a stream. `costs` are those of the device's profile, or of one like it: a
    /// guess, which what is learnt from completed fetches soon outweighs.
    ///
    /// # Errors
    /// No prefetcher has the name that the settings give.
    pub fn new(settings: Settings, costs: &Arc<dyn DeviceCosts>) -> Result<Self, UnknownPolicy> {
        let settings = settings.bounded();
        let prefetcher = stream::by_name(&settings.policy, &settings.stream, costs)?;
        Ok(Self { prefetcher, stats: Stats::default(), settings })
    }

    /// Its settings, every value within its bounds.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What happened so far, and how it stands.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl Engine for ServingEngine {
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Commands) {
        match event {
            Event::Read { request, .. } => out.push(Command::Pass { request }),
            Event::Closed { stream } => self.prefetcher.closed(now, stream),
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
