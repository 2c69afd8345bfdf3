//! The files that a client watches, and the parts of them. Each read of a watched file searches them.

use crate::descriptors::FileNo;
use foreseek_storage::Identity;
use foreseek_units::ByteSpan;

#[derive(Debug)]
pub(crate) struct WatchedFile {
    pub(crate) number: FileNo,
    pub(crate) identity: Identity,
    /// The numbers of its regions, and their ranges; at least one.
    regions: Vec<(u64, ByteSpan)>,
}

impl WatchedFile {
    /// Whether a part of this range is watched.
    pub(crate) fn watches(&self, range: ByteSpan) -> bool {
        self.regions.iter().any(|(_, watched)| watched.overlaps(range))
    }
}

#[derive(Debug, Default)]
pub(crate) struct WatchedFiles {
    /// In the order of their numbers.
    files: Vec<WatchedFile>,
    next: u32,
}

impl WatchedFiles {
    pub(crate) fn add(&mut self, region: u64, identity: Identity, range: ByteSpan) {
        if let Some(file) = self.files.iter_mut().find(|file| file.identity == identity) {
            file.regions.push((region, range));
            return;
        }
        // The last number is that of all further files: those are checked at each read.
        self.files.push(WatchedFile { number: FileNo(self.next), identity, regions: vec![(region, range)] });
        self.next = self.next.saturating_add(1);
    }

    /// Removes a region, and its file with the last one. Returns what was watched.
    pub(crate) fn remove(&mut self, region: u64) -> Option<(Identity, ByteSpan)> {
        for (at, file) in self.files.iter_mut().enumerate() {
            if let Some(of_file) = file.regions.iter().position(|(known, _)| *known == region) {
                let (_, range) = file.regions.swap_remove(of_file);
                let identity = file.identity;
                if file.regions.is_empty() {
                    self.files.remove(at);
                }
                return Some((identity, range));
            }
        }
        None
    }

    pub(crate) fn of(&self, identity: &Identity) -> Option<&WatchedFile> {
        self.files.iter().find(|file| file.identity == *identity)
    }

    /// The file of a number, unless it is no longer watched.
    pub(crate) fn by_number(&self, number: FileNo) -> Option<&WatchedFile> {
        let at = self.files.binary_search_by_key(&number, |file| file.number).ok()?;
        self.files.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_storage::{DeviceNumber, FileKind};
    use foreseek_units::{ByteOffset, Bytes};

    fn file(inode: u64) -> Identity {
        Identity { device: DeviceNumber::from_raw(1), inode, kind: FileKind::File }
    }

    fn range(start: u64) -> ByteSpan {
        ByteSpan::at(ByteOffset(start), Bytes(10))
    }

    #[test]
    fn a_file_keeps_its_number_and_no_other_file_gets_it() {
        let mut watched = WatchedFiles::default();
        for (region, inode) in [(1, 7), (2, 8), (3, 7), (4, 9)] {
            watched.add(region, file(inode), range(region * 100));
        }
        let number = |watched: &WatchedFiles, inode| watched.of(&file(inode)).map(|file| file.number);
        assert_eq!([7, 8, 9].map(|inode| number(&watched, inode)), [0, 1, 2].map(|n| Some(FileNo(n))));
        assert!(
            watched.of(&file(7)).is_some_and(|file| file.watches(range(105)) && file.watches(range(300)))
        );
        assert!(
            watched.of(&file(8)).is_some_and(|file| file.watches(range(209)) && !file.watches(range(210)))
        );
        assert_eq!(watched.remove(1), Some((file(7), range(100))));
        assert!(watched.by_number(FileNo(0)).is_some_and(|file| !file.watches(range(100))));
        assert_eq!(watched.remove(3), Some((file(7), range(300))));
        assert_eq!(watched.remove(3), None);
        assert!(watched.by_number(FileNo(0)).is_none());
        watched.add(5, file(7), range(0));
        assert_eq!(number(&watched, 7), Some(FileNo(3)));
        for (number, inode) in [(1, 8), (2, 9), (3, 7)] {
            assert_eq!(watched.by_number(FileNo(number)).map(|file| file.identity), Some(file(inode)));
        }
    }
}
