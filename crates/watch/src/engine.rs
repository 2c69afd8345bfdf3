//! The engine of a disk, as the driver calls it, and the costs that it gets.

use foreseek_device::Profile;
use foreseek_storage::read_text;
use foreseek_units::{Bytes, DeviceCosts, Instant};
use foreseek_walks::{Command, Commands, Event, Settings, Status, Walks};
use std::fmt::Debug;
use std::sync::Arc;

/// A disk without a profile gets that of a large disk from this capacity on.
const LARGE: Bytes = Bytes::gib(2048);
const SMALL_DISK: &str = "barracuda-500g";
const LARGE_DISK: &str = "exos-18t";

/// Decides what is fetched for walks. [`Walks`] is the default.
pub trait Engine: Send + Debug {
    /// Handles an event; returns the commands that follow.
    fn on(&mut self, now: Instant, event: Event<'_>) -> Vec<Command>;
    /// When it wants [`Event::Tick`].
    fn deadline(&self) -> Option<Instant>;
    /// Its status.
    fn status(&self) -> Status;
}

impl Engine for Walks {
    fn on(&mut self, now: Instant, event: Event<'_>) -> Vec<Command> {
        let mut commands = Commands::new();
        Walks::on(self, now, event, &mut commands);
        commands.drain().collect()
    }

    fn deadline(&self) -> Option<Instant> {
        Walks::deadline(self)
    }

    fn status(&self) -> Status {
        Walks::status(self)
    }
}

/// Makes the engine of a disk.
pub type MakeEngine = dyn Fn(Settings, Arc<dyn DeviceCosts>) -> Box<dyn Engine> + Send;

/// The access costs of a disk: by its profile, or by that of a similar disk.
pub(crate) fn costs_of(
    profile: Option<&str>,
    capacity: Option<Bytes>,
) -> Result<Arc<dyn DeviceCosts>, foreseek_device::ProfileError> {
    let like = if capacity.is_some_and(|capacity| capacity >= LARGE) { LARGE_DISK } else { SMALL_DISK };
    Ok(Arc::new(Profile::load(profile.unwrap_or(like), read_text)?))
}
