//! Listings of directories.

use super::{Answer, IDLE, InodePlace, Look, Looks, Metadata, Worker, has_reader};
use crate::directories::Listing;
use crate::file_system::FileSystem;
use crate::processes;
use crate::reach::OpenedDirectory;
use crate::room::Taken;
use foreseek_places::{Entries, entries_while};
use foreseek_seam::ProcessId;
use foreseek_storage::fanotify::Marker;
use foreseek_storage::{thread_reads, user_of, xfs_directory};
use foreseek_units::{ByteOffset, Bytes, Pages};
use foreseek_walks::{InDirectory, ListCondition, Node, OPENED_LIMIT};
use rustc_hash::FxHashMap;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The most entries of one listing that are kept: as many as the engine keeps for a user.
const ENTRIES: usize = 1 << 20;

impl Worker {
    pub(super) fn look(&self, jobs: &Looks, tables: &Mutex<Metadata>, marker: Option<&Marker>) {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(IDLE);
            self.close_left(&mut tables.lock().unwrap_or_else(PoisonError::into_inner));
            match job {
                Ok(Look::List(directory, condition)) => self.list(directory, condition, tables),
                Ok(Look::Place(files)) => self.place(&files, tables),
                Ok(Look::Leave(directories, since)) => self.leave(&directories, since, marker),
                Ok(Look::CloseLeft) => {}
                Err(RecvTimeoutError::Timeout) => {
                    *tables.lock().unwrap_or_else(PoisonError::into_inner) = Metadata::default();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Ends reports of directories that a walk has finished, and drops their listings. Marks vanish together
    /// with their inodes.
    fn leave(&self, directories: &[Node], since: Instant, marker: Option<&Marker>) {
        for node in directories {
            if !self.shared.directories.forget(*node, since) {
                continue;
            }
            let Some(marker) = marker else { continue };
            let open = || {
                let known = self.shared.directories.get(*node).ok_or(Errno::STALE)?;
                let file_system = self.shared.file_system(node.device).ok_or(Errno::STALE)?;
                file_system.view()?.open(&known.handle, OFlags::PATH | OFlags::DIRECTORY)
            };
            let _ = open().and_then(|fd| marker.remove(fd.as_fd()));
        }
    }

    /// Lists a directory if the condition holds.
    pub(super) fn list(&self, which: InDirectory, condition: ListCondition, tables: &Mutex<Metadata>) {
        let counters = &self.shared.counters;
        let listed = self.shared.file_system(which.node.device).and_then(|file_system| {
            if !self.may_list(&file_system, which, condition, tables) {
                return None;
            }
            // An xfs reads the first block of a directory when it is opened.
            let before = file_system.inodes.and_then(|_| thread_reads());
            let opened = self.shared.reach(&file_system).directory(which).ok()?;
            let OpenedDirectory { directory, fd, rights } = opened;
            let users = rights.iter().map(|opener| opener.user);
            let mut room = Taken::nothing_of(&self.shared.room, users);
            let goes_on = |all: &Entries| !file_system.is_left() && room.grow(all.memory_after_next());
            let mut entries = entries_while(fd.as_fd(), ENTRIES, goes_on).ok()?;
            if let Some(before) = before {
                self.report_blocks(which.node, &file_system, fd.as_fd(), before);
            }
            drop(fd);
            entries.names.shrink_to_fit();
            entries.list.shrink_to_fit();
            let listing = Arc::new(Listing::new(entries, &file_system.covered()).keeping(room));
            let places = places_of_inodes(&file_system, &listing, tables);
            self.shared.directories.listed(&directory, listing.clone()).then_some((listing, places))
        });
        match listed {
            Some((listing, places)) => {
                counters.listed.add(1);
                self.notify(Answer::Listed(which.node, listing, places));
            }
            None => {
                counters.unlistable.add(1);
                self.notify(Answer::Unlistable(which.node));
            }
        }
    }

    /// Whether a condition for listing a directory holds.
    fn may_list(
        &self,
        file_system: &FileSystem,
        which: InDirectory,
        condition: ListCondition,
        tables: &Mutex<Metadata>,
    ) -> bool {
        let in_memory = || self.is_in_memory(file_system, which, tables);
        let (device, inode) = (file_system.volume.device, which.node.inode);
        let has_begun = |ProcessId(process)| {
            let work = move || processes::has_begun(process, device, inode);
            self.shared.aside.run(|| user_of(process), work).flatten()
        };
        let is_small = || {
            let stat = self.shared.reach(file_system).stat_directory(which.node);
            // Where it cannot be examined, it cannot be listed either.
            stat.is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|it| it <= OPENED_LIMIT.get()))
        };
        match condition {
            ListCondition::Always => true,
            ListCondition::InMemory => in_memory(),
            ListCondition::Opened(process) => is_small() || has_begun(process) == Some(true) || in_memory(),
            ListCondition::UnlessPassedBy(process) => match has_begun(process) {
                Some(begun) => begun,
                None => is_small() || in_memory(),
            },
        }
    }

    /// Reports which blocks of a directory of xfs were read since this thread had read `before`.
    fn report_blocks(&self, node: Node, file_system: &FileSystem, directory: BorrowedFd<'_>, before: Bytes) {
        let read = thread_reads().is_some_and(|now| now > before);
        let Ok(mut blocks) = (if read { xfs_directory(directory) } else { Ok(Vec::new()) }) else {
            return self.shared.counters.failed.add(1);
        };
        let start = file_system.volume.backing.start;
        blocks.iter_mut().for_each(|block| block.lba += start);
        let bytes = blocks.iter().map(|block| block.pages).sum::<Pages>().bytes();
        self.shared.counters.metadata_bytes.add(bytes.get());
        // Where a block was read and none has an address, the charge falls to an average positioning.
        if !(read && blocks.is_empty()) {
            self.notify(Answer::BlocksRead(node, blocks));
        }
    }
}

/// Where a listing's inodes are: the address on ext4 and xfs, on ext4 also whether it is in memory.
fn places_of_inodes(
    file_system: &FileSystem,
    listing: &Listing,
    tables: &Mutex<Metadata>,
) -> Vec<InodePlace> {
    let number = file_system.number;
    let start = file_system.volume.backing.start;
    let inodes = listing.iter().map(|(_, _, inode)| inode);
    if let Some(geometry) = &file_system.inodes {
        let place = |inode| Some(geometry.cluster_of(inode)?.start.lba() + start);
        return inodes.map(|inode| InodePlace { at: place(inode), in_memory: false }).collect();
    }
    let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
    if !has_reader(&mut tables, file_system) {
        return vec![InodePlace::default(); listing.len()];
    }
    // Most of a directory lie in a few blocks.
    let mut held: FxHashMap<ByteOffset, bool> = FxHashMap::default();
    let mut place = |inode| {
        let block = tables.address_of(number, inode)?;
        let in_memory = *held.entry(block.start).or_insert_with(|| tables.holds(number, block));
        Some(InodePlace { at: Some(block.start.lba() + start), in_memory })
    };
    inodes.map(|inode| place(inode).unwrap_or_default()).collect()
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use crate::mounts::{mounts, one_each};
    use foreseek_storage::{Credentials, DeviceNumber, FileHandle};
    use foreseek_walks::DeviceNo;
    use std::fs::{self, File};
    use std::path::Path;
    use std::sync::mpsc::{Receiver, channel};

    /// A worker, its answers, and the file system of a directory; `None`, with a message, if it cannot work here.
    fn worker(place: &Path) -> Option<(Worker, Receiver<Answer>, Arc<FileSystem>)> {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: opening by handle needs root");
            return None;
        }
        let device = DeviceNumber::from_raw(rustix::fs::stat(place).unwrap().st_dev);
        let all = mounts(&fs::read("/proc/self/mountinfo").unwrap());
        let Some(mount) = one_each(&all).into_iter().find(|mount| mount.device == device) else {
            println!("SKIPPED: /var/tmp is on no mount of its own device");
            return None;
        };
        let file_system = FileSystem::at(&mount.point, DeviceNo(0), foreseek_places::Volume::of).unwrap();
        let file_system = Arc::new(file_system);
        let (answer, answers) = channel();
        Some((Worker::for_tests(&[&file_system], answer), answers, file_system))
    }

    #[test]
    fn a_directory_is_listed_where_there_is_room_for_its_entries() {
        /// What a single user gets.
        const MOST: usize = 128 << 20;
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::write(place.path().join("file"), "text").unwrap();
        let Some((worker, answers, file_system)) = worker(place.path()) else { return };
        let directory = file_system.node(rustix::fs::stat(place.path()).unwrap().st_ino);
        let handle = FileHandle::of(File::open(place.path()).unwrap().as_fd()).unwrap();
        let own = Arc::new(Credentials::of(std::process::id()).unwrap());
        worker.shared.directories.opened(directory, handle, None, own.clone(), Instant::now());
        let which = InDirectory { node: directory, directory };
        let list = || {
            worker.list(which, ListCondition::Always, &Mutex::default());
            answers.try_iter().find(|answer| !matches!(answer, Answer::BlocksRead(..))).unwrap()
        };
        let mut others = Taken::nothing_of(&worker.shared.room, [own.user].into_iter());
        assert!(others.grow(MOST));
        assert!(matches!(list(), Answer::Unlistable(_)));
        others.shrink(MOST / 2);
        let Answer::Listed(_, listing, _) = list() else { panic!("there is room") };
        assert_eq!(listing.len(), 1);
        // A small listing keeps little, for as long as there is one.
        assert!(others.grow(MOST - 256) && !others.grow(MOST));
        drop(listing);
        worker.shared.directories.retain(|_| false);
        assert!(others.grow(MOST));
        // One of a file system that is left is given up.
        drop(others);
        file_system.leave();
        assert!(matches!(list(), Answer::Unlistable(_)));
    }
}
