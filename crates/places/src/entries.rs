//! The entries of a directory.

use rustix::fs::{AtFlags, FileType, RawDir};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The buffer for directory entries, for each directory being read: as large as glibc's.
const BUFFER: usize = 32 * 1024;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The range of its name in [`Entries::names`].
    pub name: Range<usize>,
    /// Its type.
    pub kind: FileType,
    /// Its inode number.
    pub inode: u64,
}

/// All entries of a directory, except itself and its parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// The names, one after the other.
    pub names: Vec<u8>,
    /// The entries, in the order in which the directory lists them.
    pub list: Vec<Entry>,
    /// Whether there were more entries than the limit.
    pub cut_short: bool,
}

/// Lists an open directory: at most `most` entries.
///
/// # Errors
/// The kernel's error.
pub fn entries_of(directory: BorrowedFd<'_>, most: usize) -> Result<Entries, Errno> {
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut listing = RawDir::new(directory, &mut buffer);
    let mut all = Entries::default();
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if all.list.len() >= most {
            all.cut_short = true;
            break;
        }
        let kind = match entry.file_type() {
            // Some file systems do not report the type.
            FileType::Unknown => match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(_) => FileType::Unknown,
            },
            kind => kind,
        };
        let start = all.names.len();
        all.names.extend(name.to_bytes());
        all.list.push(Entry { name: start..all.names.len(), kind, inode: entry.ino() });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_listing_has_names_types_and_inodes_and_at_most_the_limit() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file\n"), "").unwrap();
        std::fs::create_dir(place.path().join("directory")).unwrap();
        std::os::unix::fs::symlink("file", place.path().join("link")).unwrap();
        let open = || std::fs::File::open(place.path()).unwrap();
        let all = entries_of(open().as_fd(), 100).unwrap();
        let find =
            |name: &[u8]| all.list.iter().find(|entry| &all.names[entry.name.clone()] == name).unwrap();
        assert_eq!((all.list.len(), all.cut_short), (3, false));
        assert_eq!(find(b"file\n").kind, FileType::RegularFile);
        assert_eq!(find(b"link").kind, FileType::Symlink);
        let stat = rustix::fs::stat(place.path().join("directory")).unwrap();
        assert_eq!((find(b"directory").kind, find(b"directory").inode), (FileType::Directory, stat.st_ino));
        let some = entries_of(open().as_fd(), 2).unwrap();
        assert_eq!((some.list.len(), some.cut_short), (2, true));
        assert!(!entries_of(open().as_fd(), 3).unwrap().cut_short);
    }
}
