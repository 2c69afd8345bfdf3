//! The engine: it is given events and the time, and returns a bounded number of commands.

use crate::state::{State, WALKS_LIMIT};
use crate::tree::Visit;
use crate::walk::Walk;
use crate::{Commands, Event, Settings, Status};
use foreseek_units::{Bytes, DeviceCosts, Instant, Nanos};
use std::fmt;
use std::sync::Arc;

/// The walks on one physical device.
#[derive(Clone)]
pub struct Walks {
    state: State,
}

impl Walks {
    /// An engine without walks. `costs`: the profile of the device.
    #[must_use]
    pub fn new(settings: Settings, costs: Arc<dyn DeviceCosts>) -> Self {
        Self { state: State::new(settings, costs) }
    }

    /// Handles an event. Adds the resulting commands to `out`, which the driver passes empty. Commands that do
    /// not fit follow at the next event, and until then [`deadline`](Self::deadline) is the present time.
    pub fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Commands) {
        let state = &mut self.state;
        let now = state.now.max(now);
        state.now = now;
        match event {
            Event::DirectoryOpened { pid, directory, parent } => {
                state.directory_opened(now, pid, directory, parent);
            }
            Event::DirectoryEntered { pid, directory, parent } => {
                state.directory_passed(now, pid, directory, parent, Visit::Entered);
            }
            Event::OpenedBelow { pid, directory, parent } => {
                state.directory_passed(now, pid, directory, parent, Visit::FromBelow);
            }
            Event::FileOpened { pid, directory, file } => state.file_opened(now, pid, directory, file),
            Event::LookedUp { pid, directory, node } => state.looked_up(now, pid, directory, node),
            Event::Listed { directory, entries, inodes } => state.listed(directory, entries, inodes),
            Event::BlocksRead { directory, blocks } => state.blocks_read(directory, blocks),
            Event::Unlistable { directory } => state.unlistable(directory),
            Event::Placed { files } => state.placed(files),
            Event::Done { fetch, fetched_bytes, outcome } => state.done(now, fetch, fetched_bytes, outcome),
            Event::Changed { directory } => state.changed(directory),
            Event::Budget { bytes } => state.set_budget(bytes),
            Event::Program { pid, user, name } => state.classes.runs(pid, user, name),
            Event::Exited { pid } => state.classes.exited(pid),
            Event::Overflow => (0..WALKS_LIMIT).for_each(|at| state.end(at)),
            Event::Tick => self.end_idle(),
        }
        while out.room() > 0 {
            let Some(command) = self.state.outbox.pop_front() else { break };
            out.push(command);
        }
    }

    /// When the engine wants [`Event::Tick`]; a time in the past means at once.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.state.outbox.is_empty() { self.state.deadline() } else { Some(self.state.now) }
    }

    /// Whether programs walk whose files are all in memory, and no others within this time before the last event: events
    /// may wait.
    #[must_use]
    pub fn is_quiet(&self, within: Nanos) -> bool {
        let mut walks =
            self.state.live().filter(|walk| walk.last + within >= self.state.now || walk.is_fetching());
        walks.next().is_some_and(|walk| walk.quiet.is_some()) && walks.all(|walk| walk.quiet.is_some())
    }

    /// Whether opens may wait while the device reads nothing: no program that opened something within this time has
    /// anything to use of what was fetched.
    #[must_use]
    pub fn is_at_rest(&self, now: Instant, within: Nanos) -> bool {
        let uses = |walk: &Walk| walk.last + within >= now && !walk.has_used_all();
        self.state.outbox.is_empty() && self.state.live().all(|walk| !walk.is_fetching() && !uses(walk))
    }

    /// The bytes that are held at present.
    #[must_use]
    pub fn held(&self) -> Bytes {
        self.state.held
    }

    /// The present status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.state.status()
    }

    fn end_idle(&mut self) {
        for at in 0..WALKS_LIMIT {
            let idle = self.state.settings.idle;
            if self.state.walks[at].as_ref().is_some_and(|walk| walk.last + idle <= self.state.now) {
                self.state.end(at);
            }
        }
    }
}

impl fmt::Debug for Walks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walks")
            .field("settings", &self.state.settings)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
