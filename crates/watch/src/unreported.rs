//! Opens of directories that are not reported, while programs find everything in memory ([`crate::silence`]).

use crate::driver::Driver;
use crate::file_system::FileSystem;
use crate::handles::DirectoryOpened;
use crate::silence::MANY;
use foreseek_seam::ProcessId;
use foreseek_walks::Event;
use std::sync::Arc;
use std::time::Duration;

/// The first event waits so long while no disk reads, in parts. The length of the queue is looked at after each.
const PARTS: [Duration; 3] = [Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(7)];

impl Driver {
    /// While no disk reads: waits for the program that caused an event to end, which is then not looked up.
    pub(crate) fn wait_for_more(&mut self) {
        for part in PARTS {
            std::thread::sleep(part);
            if self.directories.queued() >= MANY {
                self.end_reports();
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
        self.shared.counters.silences.add(1);
        self.silence.begin(self.now());
    }

    /// Begins reports again when it is time to.
    pub(crate) fn look_at_silence(&mut self) {
        let (now, rest) = (self.now(), self.disks.all_rest());
        if self.silence.is_over(now, rest) {
            self.begin_reports();
            self.silence.end(now);
        }
        if self.silence.misses_reads(now, rest) {
            self.disks.attend_at_once(now);
            self.mark_all_files();
        }
    }

    fn begin_reports(&mut self) {
        let watch = |file_system: &Arc<FileSystem>| {
            file_system.view().and_then(|view| self.directories.watch_directories(view.root())).is_ok()
        };
        // Each of them, also after one that failed.
        let failed = self.watching.iter().filter(|it| !watch(it)).count();
        if failed > 0 {
            // Unmounted, or out of memory: the next look at the mounts marks what is still there.
            self.pace.changed();
        }
    }

    /// Passes those directories on in which a program has opened at least two, and whose own open may not have been reported.
    pub(crate) fn pass_above(&mut self, opened: &DirectoryOpened) {
        let Some(chain) = opened.chain() else { return };
        let nodes = self.reached(chain, opened.opener.credentials.user, opened.at);
        let (pid, now, number) = (ProcessId(opened.process), self.now(), opened.file_system.number);
        let visited = self.passed.opened(pid, &nodes).visited;
        for (directory, parent) in visited.into_iter().filter(|it| nodes.first() != Some(&it.0)) {
            // Whose rights count there is decided as if it had only been entered.
            self.shared.directories.visited(directory, opened.at);
            self.disks.notify(number, now, Event::OpenedBelow { pid, directory, parent });
        }
    }
}
