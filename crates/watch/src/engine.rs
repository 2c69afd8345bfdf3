//! The engine of a disk, as its driver sees it, and the costs that it is given.

use foreseek_device::Profile;
use foreseek_storage::read_text;
use foreseek_units::{Bytes, DeviceCosts, Instant};
use foreseek_walks::{Command, Commands, Event, Settings, Status, Walks};
use std::fmt::Debug;
use std::sync::Arc;

/// From what capacity on a disk without a profile is taken for one of the large kind.
const LARGE: Bytes = Bytes::gib(2048);
const SMALL_DISK: &str = "barracuda-500g";
const LARGE_DISK: &str = "exos-18t";

/// Decides what is done for walks. [`Walks`] is the one that ships.
pub trait Engine: Send + Debug {
    /// Something happened; what follows from it.
    fn on(&mut self, now: Instant, event: Event<'_>) -> Vec<Command>;
    /// When it wants [`Event::Tick`].
    fn deadline(&self) -> Option<Instant>;
    /// What is going on.
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

/// What a disk's accesses cost: by its profile, or by that of a disk like it.
pub(crate) fn costs_of(
    profile: Option<&str>,
    capacity: Option<Bytes>,
) -> Result<Arc<dyn DeviceCosts>, foreseek_device::ProfileError> {
    let like = if capacity.is_some_and(|capacity| capacity >= LARGE) { LARGE_DISK } else { SMALL_DISK };
    Ok(Arc::new(Profile::load(profile.unwrap_or(like), read_text)?))
}
