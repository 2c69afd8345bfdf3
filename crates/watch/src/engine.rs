//! The engine of a disk, as the driver calls it.

use foreseek_units::{Bytes, DeviceCosts, Instant, Nanos};
use foreseek_walks::{Command, Commands, Event, Settings, Status, Walks};
use std::fmt::Debug;
use std::sync::Arc;

/// Decides what is fetched for walks. [`Walks`] is the default.
pub trait Engine: Send + Debug {
    /// Handles an event; returns the commands that follow.
    fn on(&mut self, now: Instant, event: Event<'_>) -> Vec<Command>;
    /// When it wants [`Event::Tick`].
    fn deadline(&self) -> Option<Instant>;
    /// Whether events may wait, as the programs of the last ones find everything in memory.
    fn is_quiet(&self) -> bool {
        false
    }
    /// Whether it needs to know of no opens while its disk reads nothing.
    fn is_at_rest(&self, _now: Instant) -> bool {
        false
    }
    /// The bytes that were fetched and not used yet.
    fn held(&self) -> Bytes {
        self.status().held
    }
    /// Its status.
    fn status(&self) -> Status;
}

/// The time in which a program that reads from a disk opens something.
const LATELY: Nanos = Nanos::from_millis(100);
/// Most programs that read go on within this time after a pause of their own.
const PAUSES: Nanos = Nanos::from_secs(1);

impl Engine for Walks {
    fn on(&mut self, now: Instant, event: Event<'_>) -> Vec<Command> {
        let mut commands = Commands::new();
        Walks::on(self, now, event, &mut commands);
        commands.drain().collect()
    }

    fn deadline(&self) -> Option<Instant> {
        Walks::deadline(self)
    }

    fn is_quiet(&self) -> bool {
        Walks::is_quiet(self, LATELY)
    }

    fn is_at_rest(&self, now: Instant) -> bool {
        Walks::is_at_rest(self, now, PAUSES)
    }

    fn held(&self) -> Bytes {
        Walks::held(self)
    }

    fn status(&self) -> Status {
        Walks::status(self)
    }
}

/// Makes the engine of a disk.
pub type MakeEngine = dyn Fn(Settings, Arc<dyn DeviceCosts>) -> Box<dyn Engine> + Send;
