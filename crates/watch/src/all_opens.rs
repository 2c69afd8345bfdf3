//! Opens of all files, while they are observed on a disk that seeks ([`crate::attention`]): those of programs that have
//! a list of files, and list no directory.

use crate::driver::{Driver, FileOpened, take};
use crate::file_system::FileSystem;
use crate::handles::{EnteredFile, entered_file};
use crate::processes::Opener;
use foreseek_seam::ProcessId;
use foreseek_storage::fanotify::OpenEvent;
use foreseek_walks::{Event, Opened};
use std::sync::Arc;
use std::time::Instant as Clock;

/// Files after which the reads of a program that has a list of them are no reason to hold back: from then on it is read
/// ahead of. A database opens few files.
const HELPED_FROM: u64 = 8;

/// A program opened a file in a directory that is not followed.
struct FileEntered {
    file_system: Arc<FileSystem>,
    entered: EnteredFile,
    process: u32,
    opener: Opener,
}

impl Driver {
    /// Starts and ends the observation of all opens on a disk.
    pub(crate) fn attend(&mut self) {
        let now = self.now();
        let mut changed = false;
        for disk in &mut self.disks.list {
            changed |= disk.attend(now);
        }
        if changed {
            self.mark_all_files();
        }
    }

    /// Has opens of all files reported on the disks on which they are observed, and on no others.
    pub(crate) fn mark_all_files(&self) {
        self.all_files.forget_file_systems();
        let on = self.disks.list.iter().filter(|disk| disk.observes_all());
        for file_system in on.flat_map(|disk| self.watching.iter().filter(|it| disk.holds(it.number))) {
            // It may be unmounted by now.
            let _ = file_system.view().and_then(|view| self.all_files.watch_files(view.root()));
        }
    }

    /// Opens were lost. Programs that list are seen without these.
    pub(crate) fn handle_lost_opens(&mut self) {
        let overflows = self.all_files.overflows();
        if overflows > self.lost_opens {
            self.shared.counters.overflows.add(overflows - self.lost_opens);
            self.lost_opens = overflows;
            self.disks.attend_no_more(self.now());
            self.mark_all_files();
        }
    }

    /// Reads opens of all files, and passes those on that are not reported otherwise. Returns whether there may be more.
    pub(crate) fn take_entered(&mut self) -> bool {
        let mut all = Vec::new();
        let (processes, watching, shared) = (&mut self.processes, &self.watching, &self.shared);
        let disks = &mut self.disks;
        let mut any = false;
        let more = take(&mut self.all_files, |seen| {
            any = true;
            if !processes.counts(seen.process, Clock::now()) {
                return shared.counters.passed_over.add(1);
            }
            let OpenEvent { process, process_fd, file_system, directory, name, .. } = seen;
            let (Some(name), Some(file_system)) = (name, watching.by_id(file_system)) else { return };
            disks.attended(file_system.number);
            let node = directory.inode().map(|inode| file_system.node(inode));
            let known = node.and_then(|node| shared.directories.get(node));
            if known.is_some_and(|known| known.is_followed(Clock::now())) {
                return;
            }
            let Some(opener) = processes.opener(process, process_fd, Clock::now()) else {
                return shared.counters.gone.add(1);
            };
            if let Some(entered) = entered_file(file_system, &directory, name) {
                all.push(FileEntered { file_system: file_system.clone(), entered, process, opener });
            }
        });
        if any {
            self.last_read = Clock::now();
        }
        all.into_iter().for_each(|opened| self.file_entered(opened));
        more
    }

    fn file_entered(&mut self, opened: FileEntered) {
        let FileEntered { file_system, entered: EnteredFile { file, directories }, process, opener } = opened;
        let (pid, now, at) = (ProcessId(process), self.now(), Clock::now());
        let user = opener.credentials.user;
        let chain = self.shared.directories.all_reached(directories, user, at);
        let Some(directory) = chain.first().copied() else { return };
        let Opened { visited, files } = self.entered.opened(pid, &chain);
        if files >= HELPED_FROM {
            file_system.volume.disk.helps(process);
        }
        if let Some(name) = opener.name {
            self.disks.notify_all(now, Event::Program { pid, user, name: &name });
        }
        let by = Some(opener.credentials);
        for (directory, parent) in visited {
            self.shared.directories.visited(directory, at);
            self.disks.notify(file_system.number, now, Event::DirectoryEntered { pid, directory, parent });
        }
        self.file_opened(FileOpened { process, by, directory, file });
    }
}
