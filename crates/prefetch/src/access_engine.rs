//! Application-directed prefetching as an [`Engine`] (ATC'09 section 4).

use crate::engine::{Command, Commands, Engine, Event, HintMode};
use crate::{Settings, Stats};
use foreseek_units::Instant;

/// The engine behind the fadvise door that fetches what an application said it will read.
#[derive(Debug)]
pub struct AccessListEngine {
    settings: Settings,
    stats: Stats,
}

impl AccessListEngine {
    /// An engine with an empty list.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings: settings.bounded(), stats: Stats::default() }
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How many more accesses a hint of this mode may hold.
    #[must_use]
    pub fn room(&self, _mode: HintMode) -> usize {
        self.settings.list_limit
    }
}

impl Engine for AccessListEngine {
    fn on(&mut self, _now: Instant, event: Event<'_>, out: &mut Commands) {
        if let Event::Read { request, .. } | Event::Answered { request } = event {
            self.stats.reads += 1;
            out.push(Command::Pass { request });
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
