//! Disks that rest: opens of directories wait or are not reported until these read ([`crate::waiting`]).

use crate::driver::Driver;
use crate::handles::{DirectoryOpened, directories_above};
use foreseek_seam::ProcessId;
use foreseek_walks::{Event, Node};

/// Directories above one that are looked at: those of most trees.
const ABOVE: usize = 16;

impl Driver {
    /// Looks which disks read: passes on what has waited for that, and has opens reported again.
    pub(crate) fn look(&mut self) {
        let now = self.now();
        for opened in self.disks.look(now) {
            self.directory_opened(opened);
        }
        for disk in &mut self.disks.list {
            if disk.waiting.looks_back(now) {
                for file_system in self.watching.iter().filter(|it| disk.holds(it.number)) {
                    // It may be unmounted by now.
                    let _ =
                        file_system.view().and_then(|view| self.directories.watch_directories(view.root()));
                }
            }
        }
    }

    /// Ends reports of directories where they are of no use.
    pub(crate) fn look_away(&mut self) {
        let now = self.now();
        let mut any = false;
        for disk in &mut self.disks.list {
            if disk.waiting.looks_away(now) {
                any = true;
                for file_system in self.watching.iter().filter(|it| disk.holds(it.number)) {
                    let _ =
                        file_system.view().and_then(|view| self.directories.forget_directories(view.root()));
                }
            }
        }
        if any {
            self.disks.end_walks(now);
        }
    }

    /// A directory was opened, and opens were missed before: its program has come to it through those above. Those up to
    /// the nearest known one were opened as well, or the next one above if none is known.
    pub(crate) fn find_missed(&mut self, opened: &DirectoryOpened, parent: Option<Node>) {
        let is_known =
            |node: Node| self.shared.directories.get(node).is_some_and(|known| known.is_followed(opened.at));
        if parent.is_none_or(is_known) {
            return;
        }
        let Some(above) = directories_above(&opened.file_system, &opened.handle) else { return };
        let known = above.iter().take(ABOVE).position(|(node, _)| is_known(*node)).unwrap_or(1);
        let parents: Vec<Option<Node>> = (1..=known).map(|at| above.get(at).map(|it| it.0)).collect();
        let missed: Vec<_> = above.into_iter().zip(parents).take(known).collect();
        for ((node, handle), parent) in missed.into_iter().rev() {
            self.shared.directories.reached(node, handle, parent, opened.at);
            self.shared.directories.entered(node, opened.opener.credentials.clone(), opened.at);
            let (pid, now) = (ProcessId(opened.process), self.now());
            let event = Event::DirectoryOpened { pid, directory: node, parent };
            self.disks.notify(opened.file_system.number, now, event);
        }
    }
}
