//! The entries of a directory.

use rustix::fs::{AtFlags, FileType, RawDir};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The buffer for directory entries, for each directory being read: as large as glibc's.
const BUFFER: usize = 32 * 1024;
/// The least length of an entry in it: a head of 19 bytes and a name, in units of 8.
const LEAST: usize = 24;

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

impl Entries {
    /// The most memory that they take once another buffer of entries was added: a list that grows may have room for as
    /// many again.
    #[must_use]
    pub fn memory_after_next(&self) -> usize {
        2 * ((self.list.len() + BUFFER / LEAST) * size_of::<Entry>() + self.names.len() + BUFFER)
    }
}

/// Lists an open directory: at most `most` entries.
///
/// # Errors
/// The kernel's error.
pub fn entries_of(directory: BorrowedFd<'_>, most: usize) -> Result<Entries, Errno> {
    entries_while(directory, most, |_| true)
}

/// The same while `goes_on` says so: it is asked before each buffer is read, with the entries so far.
///
/// # Errors
/// ECANCELED if it does not go on; otherwise the kernel's error.
pub fn entries_while(
    directory: BorrowedFd<'_>,
    most: usize,
    mut goes_on: impl FnMut(&Entries) -> bool,
) -> Result<Entries, Errno> {
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut listing = RawDir::new(directory, &mut buffer);
    let mut all = Entries::default();
    loop {
        if listing.is_buffer_empty() && !goes_on(&all) {
            return Err(Errno::CANCELED);
        }
        let Some(entry) = listing.next() else { break };
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

    #[test]
    fn a_listing_is_given_up_before_its_next_buffer() {
        let place = tempfile::tempdir().unwrap();
        let files = 3 * BUFFER / 256;
        (0..files).for_each(|n| std::fs::write(place.path().join(format!("{n:0200}")), "").unwrap());
        let directory = std::fs::File::open(place.path()).unwrap();
        let mut asked = Vec::new();
        let given_up = entries_while(directory.as_fd(), files, |all| {
            asked.push((all.list.len(), all.memory_after_next()));
            asked.len() < 3
        });
        assert_eq!(given_up, Err(Errno::CANCELED));
        assert!(asked[0].0 == 0 && asked[1].0 < asked[2].0 && asked[2].0 < files, "{asked:?}");
        let directory = std::fs::File::open(place.path()).unwrap();
        let mut expected = Vec::new();
        let all = entries_while(directory.as_fd(), files, |all| {
            let taken = all.names.capacity() + all.list.capacity() * size_of::<Entry>();
            expected.push((taken, all.memory_after_next()));
            true
        });
        let all = all.unwrap();
        let taken = all.names.capacity() + all.list.capacity() * size_of::<Entry>();
        assert_eq!(all.list.len(), files);
        let after = expected.iter().skip(1).map(|(taken, _)| *taken).chain([taken]);
        assert!(after.zip(&expected).all(|(taken, (_, most))| taken <= *most), "{expected:?}");
    }
}
