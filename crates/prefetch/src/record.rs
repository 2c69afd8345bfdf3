//! Recording what an engine is told and says, and holding another run of it to that.

use crate::Settings;
use crate::engine::{Command, Event};
use foreseek_units::Instant;
use std::io::Write;

/// Writes a recording.
pub struct Recorder {
    _sink: Box<dyn Write + Send>,
}

impl Recorder {
    /// A recorder that writes to `sink`, which should buffer.
    #[must_use]
    pub fn new(sink: Box<dyn Write + Send>) -> Self {
        Self { _sink: sink }
    }

    pub(crate) fn begin(&mut self, _settings: &Settings) {}
    pub(crate) fn event(&mut self, _now: Instant, _event: &Event<'_>) {}
    pub(crate) fn commands(&mut self, _commands: &[Command]) {}
}
