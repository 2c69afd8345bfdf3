//! Recordings of the engines of disks, for a replay ([`foreseek_walks`]): a file for each disk.
//!
//! They hold names of files, so that only their owner may read them.

use crate::engine::Engine;
use crate::error::{Error, Result};
use foreseek_seam::Recorder;
use foreseek_storage::{DeviceNumber, create_private};
use foreseek_units::{Bytes, Instant};
use foreseek_walks::{Command, Event, Settings, Status};
use rustix::fs::Access;
use std::fmt;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// An engine whose events and commands are recorded.
pub(crate) struct Recorded {
    engine: Box<dyn Engine>,
    recorder: Recorder,
    path: PathBuf,
    /// Whether the warning of its end was given.
    has_ended: bool,
    /// The time of the last event. An engine takes earlier times for this one.
    last: Instant,
}

impl Recorded {
    /// Records an engine without events from its first one on.
    ///
    /// # Errors
    /// [`Error::Record`].
    pub(crate) fn new(engine: Box<dyn Engine>, settings: &Settings, path: PathBuf) -> Result<Self> {
        let file = match create_private(&path) {
            Ok(file) => file,
            Err(cause) => return Err(Error::Record { path, cause }),
        };
        let mut recorder = Recorder::new(Box::new(BufWriter::new(file)));
        recorder.begin(settings);
        Ok(Self { engine, recorder, path, has_ended: false, last: Instant::ZERO })
    }
}

impl Engine for Recorded {
    fn on(&mut self, now: Instant, event: Event<'_>) -> Vec<Command> {
        self.last = self.last.max(now);
        self.recorder.event(self.last, &event);
        let commands = self.engine.on(self.last, event);
        self.recorder.commands(&commands);
        if self.recorder.has_ended() && !std::mem::replace(&mut self.has_ended, true) {
            tracing::warn!(
                "{} has reached its limit, or cannot be written: no more is recorded",
                self.path.display()
            );
        }
        commands
    }

    fn deadline(&self) -> Option<Instant> {
        self.engine.deadline()
    }

    fn is_quiet(&self) -> bool {
        self.engine.is_quiet()
    }

    fn is_at_rest(&self, now: Instant) -> bool {
        self.engine.is_at_rest(now)
    }

    fn held(&self) -> Bytes {
        self.engine.held()
    }

    fn status(&self) -> Status {
        self.engine.status()
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// The most recordings: a file system may be mounted again and again.
pub(crate) const RECORDINGS: usize = 64;

/// Checks at the start that recordings can be made there. Disks come later, too.
pub(crate) fn check(record: Option<&Path>) -> Result<()> {
    let Some(record) = record else { return Ok(()) };
    let folder = record.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|cause| Error::Record { path: record.to_owned(), cause: cause.into() })
}

/// The name for the recording of a disk's engine, which is the `nth` of the disk, from 0. A disk that is mounted again has
/// a new engine.
pub(crate) fn name(record: &Path, disk: DeviceNumber, nth: usize) -> PathBuf {
    let mut name = record.as_os_str().to_owned();
    name.push(".");
    match disk.node().as_deref().and_then(Path::file_name) {
        Some(node) => name.push(node),
        None => name.push(format!("{}-{}", disk.major, disk.minor)),
    }
    if nth > 0 {
        name.push(format!(".{}", nth + 1));
    }
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_of_a_disk_has_a_recording_of_its_own() {
        let none = DeviceNumber { major: 4095, minor: 7 };
        let names = [0, 1, 2].map(|nth| name(Path::new("/tmp/record"), none, nth));
        let expected = ["/tmp/record.4095-7", "/tmp/record.4095-7.2", "/tmp/record.4095-7.3"];
        assert_eq!(names, expected.map(PathBuf::from));
    }
}
