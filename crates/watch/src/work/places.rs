//! Where files lie, and the blocks of directories.

use super::{Answer, Metadata, PlacedFile, Worker, has_reader, without_place};
use crate::file_system::FileSystem;
use crate::reach::{Opened, TOGETHER};
use foreseek_places::{Map, OrderBy, blocks_of, extents_of_directory, placed};
use foreseek_seam::Extent;
use foreseek_storage::HostFd;
use foreseek_units::{Bytes, Pages};
use foreseek_walks::{InDirectory, Node};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};

impl Worker {
    pub(super) fn place(&self, which: &[InDirectory], tables: &Mutex<Metadata>) {
        let mut answers = Vec::with_capacity(which.len());
        let same = |a: &InDirectory, b: &InDirectory| a.directory == b.directory;
        for part in which.chunk_by(same).flat_map(|part| part.chunks(TOGETHER)) {
            let directory = part[0].directory;
            let Some(file_system) = self.shared.file_system(directory.device) else {
                answers.extend(part.iter().map(|which| without_place(which.node)));
                continue;
            };
            let (directories, files): (Vec<InDirectory>, Vec<InDirectory>) =
                part.iter().copied().partition(|it| self.is_directory(*it));
            let nodes: Vec<Node> = files.iter().map(|file| file.node).collect();
            let opened = self.shared.reach(&file_system).files(directory, &nodes);
            answers.extend(nodes.iter().zip(opened).map(|(file, opened)| match opened {
                Ok(opened) => map(&file_system, *file, &opened, self.most),
                Err(error) => {
                    self.count(error);
                    without_place(*file)
                }
            }));
            // The blocks of ext4's directories are looked up with a check of their own.
            let is_checked = directories.is_empty() || file_system.inodes.is_none();
            let may_search = is_checked || self.shared.reach(&file_system).may_search(directory);
            answers.extend(directories.into_iter().map(|which| {
                if may_search {
                    self.place_directory(&file_system, which, tables)
                } else {
                    without_place(which.node)
                }
            }));
        }
        self.shared.counters.placed.add(answers.len() as u64);
        self.notify(Answer::Placed(answers));
    }

    /// The addresses of a directory's blocks that are not in memory, if they can be read through the device. A
    /// directory of xfs without blocks is kept in its inode, and costs nothing to list. Where the blocks of others
    /// lie is known once they are open, which reads the first.
    fn place_directory(
        &self,
        file_system: &FileSystem,
        which: InDirectory,
        tables: &Mutex<Metadata>,
    ) -> PlacedFile {
        let mut placed = without_place(which.node);
        if file_system.inodes.is_some() {
            placed.residency_known = false;
            let Ok(stat) = self.shared.reach(file_system).look_up(which) else { return placed };
            placed.resident = Pages(u64::from(stat.st_blocks == 0));
            // A directory's blocks of names end with its size; those of its index come in addition.
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            placed.length = Bytes(blocks.max(u64::try_from(stat.st_size).unwrap_or(0)));
            return placed;
        }
        for (extent, held) in self.blocks_of(file_system, which, tables).unwrap_or_default() {
            placed.length += extent.pages.bytes();
            if held {
                placed.resident += extent.pages;
            } else {
                placed.missing.push(Extent { lba: extent.lba + file_system.volume.backing.start, ..extent });
            }
        }
        placed
    }

    /// The blocks of a directory of ext4, and whether each extent is in memory; `None` if the device or the directory cannot
    /// be read.
    pub(super) fn blocks_of(
        &self,
        file_system: &FileSystem,
        which: InDirectory,
        tables: &Mutex<Metadata>,
    ) -> Option<Vec<(Extent, bool)>> {
        let tables = || tables.lock().unwrap_or_else(PoisonError::into_inner);
        if !has_reader(&mut tables(), file_system) {
            return None;
        }
        let fd = self.shared.reach(file_system).directory(which).ok()?.fd;
        let extents = extents_of_directory(fd.as_fd());
        let tables = tables();
        Some(extents.into_iter().map(|it| (it, tables.holds(file_system.number, blocks_of(&it)))).collect())
    }

    /// Whether to list a directory reads nothing from the device. Elsewhere than on ext4 that is visible only of one that
    /// is kept in its inode.
    pub(super) fn is_in_memory(
        &self,
        file_system: &FileSystem,
        which: InDirectory,
        tables: &Mutex<Metadata>,
    ) -> bool {
        let blocks = file_system.inodes.is_none().then(|| self.blocks_of(file_system, which, tables));
        if let Some(blocks) = blocks.flatten().filter(|blocks| !blocks.is_empty()) {
            return blocks.iter().all(|(_, held)| *held);
        }
        let stat = self.shared.reach(file_system).stat_directory(which.node);
        stat.is_ok_and(|stat| stat.st_blocks == 0)
    }
}

/// Where a file lies, as far as it is fetched: `most` from its start.
fn map(file_system: &FileSystem, file: Node, opened: &Opened, most: Bytes) -> PlacedFile {
    let length = Bytes(u64::try_from(opened.stat.st_size).unwrap_or(0));
    let Some(fd) = HostFd::new(opened.fd.as_raw_fd()) else { return without_place(file) };
    let map = Map::of_first(fd, length, most, file_system.volume.by == OrderBy::Address);
    let runs = map.layout.as_ref().map_or_else(
        |_| Vec::new(),
        |layout| placed(layout, &map.missing, file_system.volume.backing.start, length),
    );
    let missing =
        runs.iter().map(|run| Extent { page: run.pages.start, pages: run.pages.len(), lba: run.lba });
    PlacedFile { file, length, resident: map.resident, residency_known: true, missing: missing.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_disk::TestDisk;
    use foreseek_storage::{Credentials, FileHandle};
    use foreseek_units::PageIndex;
    use foreseek_walks::ListCondition;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn of_a_long_file_only_what_may_be_fetched_is_looked_at() {
        const PAGES: u64 = 64;
        let Some(disk) = TestDisk::new(true) else { return };
        let (tree, path) = (disk.point.join("tree"), disk.point.join("tree/file"));
        fs::create_dir(&tree).unwrap();
        fs::write(&path, vec![7; PAGES as usize * 4096]).unwrap();
        disk.cold();
        let file_system = disk.file_system(0);
        let (answer, answers) = channel();
        let worker = Worker { most: Pages(16).bytes(), ..Worker::for_tests(&[&file_system], answer) };
        let node = |path| file_system.node(rustix::fs::stat(path).unwrap().st_ino);
        let (directory, file) = (node(&tree), node(&path));
        let handle = FileHandle::of(File::open(&tree).unwrap().as_fd()).unwrap();
        let own = Arc::new(Credentials::of(std::process::id()).unwrap());
        worker.shared.directories.opened(directory, handle, None, own, Instant::now());
        let tables = Mutex::default();
        worker.list(InDirectory { node: directory, directory }, ListCondition::Always, &tables);
        let opened = File::open(&path).unwrap();
        rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::Random).unwrap();
        for page in [3, 40] {
            opened.read_at(&mut [0], page * 4096).unwrap();
        }
        worker.place(&[InDirectory { node: file, directory }], &tables);
        let found = answers.try_iter().find_map(|answer| match answer {
            Answer::Placed(files) => files.into_iter().next(),
            _ => None,
        });
        let PlacedFile { length, resident, missing, .. } = found.unwrap();
        assert_eq!((length, resident), (Pages(PAGES).bytes(), Pages(2)));
        // What is in memory of the rest counts as its beginning.
        let pages: Vec<PageIndex> =
            missing.iter().flat_map(|it| (0..it.pages.get()).map(|n| it.page + Pages(n))).collect();
        let expected = (0..3).chain(4..16).chain(17..PAGES).map(PageIndex);
        assert_eq!(pages, expected.collect::<Vec<_>>());
    }
}
