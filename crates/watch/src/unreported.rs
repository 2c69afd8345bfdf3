//! Opens of directories that are not reported, while programs find everything in memory ([`crate::silence`]).

use crate::driver::{Driver, QUIET_PAUSE};
use crate::file_system::FileSystem;
use crate::handles::DirectoryOpened;
use crate::silence::MANY;
use foreseek_seam::ProcessId;
use foreseek_walks::{Entered, Event, Node};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

/// While the first event waits, the length of the queue is looked at after these times.
const LOOKS: [Duration; 3] = [Duration::from_millis(1), Duration::from_millis(3), QUIET_PAUSE];

impl Driver {
    /// While no disk reads: waits for the program that caused an event to end, which is then not looked up.
    pub(crate) fn wait_for_more(&mut self) {
        let begun = Clock::now();
        for look in LOOKS {
            std::thread::sleep(look.saturating_sub(begun.elapsed()));
            if self.directories.queued() >= MANY {
                return self.end_reports();
            }
        }
    }

    /// So many opens of directories were read.
    pub(crate) fn count_directories(&mut self, count: usize) {
        if count > 0 && self.disks.all_rest() && self.silence.opened(self.now(), count) {
            self.end_reports();
        }
    }

    fn end_reports(&mut self) {
        if self.silence.is_on() {
            return;
        }
        for file_system in self.watching.iter() {
            if let Ok(view) = file_system.view() {
                self.directories.leave_directories(view.root());
            }
        }
        let now = self.now();
        if !self.silence.is_unsure(now) {
            self.after_silence = Entered::default();
        }
        self.shared.counters.silences.add(1);
        self.silence.begin(now);
    }

    /// Begins reports again when it is time to.
    pub(crate) fn look_at_silence(&mut self) {
        let now = self.now();
        if self.silence.is_over(now, self.disks.all_rest()) {
            self.begin_reports();
        }
        if self.silence.misses_reads(now, self.disks.is_any_reading()) && self.disks.attend_at_once(now) {
            self.mark_all_files();
        }
    }

    /// Begins reports on all file systems. Where that fails it is tried again every second: a file system may be unmounted by
    /// now, or memory short.
    pub(crate) fn begin_reports(&mut self) {
        let watch = |file_system: &Arc<FileSystem>| {
            file_system.view().and_then(|view| self.directories.watch_directories(view.root())).is_ok()
        };
        let failed = self.watching.iter().filter(|it| !watch(it)).count();
        self.unmarked = failed > 0;
        self.silence.end(self.now());
    }

    /// A program opened a directory after a silence. It may have opened those above in the silence. Passes those on below
    /// which it opened another directory as well.
    pub(crate) fn found_below(&mut self, opened: &DirectoryOpened, parent: Option<Node>) {
        let directories = &self.shared.directories;
        if parent.and_then(|parent| directories.get(parent)).is_some_and(|it| it.is_followed(opened.at)) {
            return;
        }
        let Some(chain) = opened.chain() else { return };
        let nodes = directories.all_reached(chain, opened.opener.credentials.user, opened.at);
        let (pid, now, number) = (ProcessId(opened.process), self.now(), opened.file_system.number);
        let visited = self.after_silence.opened(pid, &nodes).visited;
        for (directory, parent) in visited.into_iter().filter(|it| nodes.first() != Some(&it.0)) {
            // Whose rights count there is decided as if it had only been entered.
            self.shared.directories.visited(directory, opened.at);
            self.disks.notify(number, now, Event::OpenedBelow { pid, directory, parent });
        }
    }
}
