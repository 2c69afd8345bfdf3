//! The files of trees and lists, without their contents.
//!
//! *Trees* are listed breadth first, level by level: the directories of a level in the order of their inodes,
//! by several threads. A directory lists name, kind and inode number, which is enough: no file is looked up.
//! Where the blocks of inodes and directories can be read beforehand ([`Metadata`]), they are, level by level.
//! The files of *lists* are looked up in the order of their paths.
//!
//! Only regular files count. Symbolic links are not followed, except for given paths; paths below a
//! root are opened without following any link at any step (`openat2`). A directory that is its own ancestor (a
//! damaged file system) is skipped. A path that is given twice, or lies below another given one, is taken once; bind
//! mounts of a directory are the same path. Hard links are kept. Of what is given, only regular files and directories
//! are opened. What cannot be opened is skipped. File systems mounted below a root are walked as well,
//! except those made up by the kernel (`/proc`).
//!
//! Memory: 32 bytes a file and its name, 48 a directory and its name.
//!
//! Limits: at most 2^32 - 2 files, directories and bytes of names; paths below a root of at most
//! 4,095 bytes.

use crate::error::{Error, Result};
use crate::given::{MADE_UP, Skipped, name_of, separator_note};
use crate::trouble::ReadErrors;
use crate::{Step, Work, parallel};
use foreseek_places::{Entries, HoldBack, Metadata, OrderBy, Volume, Volumes, entries_of};
use foreseek_storage::DeviceNumber;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How many entries of a file system are tried until one can be opened.
const TRIED: usize = 16;

/// The longest path that the kernel takes.
const PATH_MOST: usize = 4095;

/// How much of a longer one a message shows.
const SHOWN: usize = 100;

/// No directory: the name is a given path.
const NONE: u32 = u32::MAX;

/// Limits of the listing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Stay on the file system of each root.
    pub one_file_system: bool,
}

/// The order in which a program reads the entries of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As the directory lists them: grep -r, find, tar, du.
    #[default]
    Listing,
    /// By inode number: cp, borg.
    Inode,
    /// By name: rsync, git.
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    start: u32,
    length: u16,
}

/// A regular file.
#[derive(Clone, Copy, Debug)]
pub struct File {
    directory: u32,
    name: Name,
    /// Its file system.
    pub volume: u16,
    /// How many entries its directory lists before it.
    at: u32,
    /// Its inode number.
    pub inode: u64,
}

#[derive(Clone, Debug)]
struct Directory {
    /// The directory above; `NONE` for a root.
    parent: u32,
    root: u32,
    name: Name,
    volume: u16,
    at: u32,
    inode: u64,
    files: Range<u32>,
    directories: Range<u32>,
}

/// The most roots that are kept open.
const ROOTS_OPEN: usize = 16;

#[derive(Debug)]
struct Root {
    path: Vec<u8>,
    inode: Inode,
    /// Kept open for the first [`ROOTS_OPEN`] alone: there may be more of them than a process may have open.
    fd: Option<OwnedFd>,
}

/// An inode of a machine: its file system and its number.
type Inode = (DeviceNumber, u64);

/// The files of trees and lists.
#[derive(Debug, Default)]
pub struct Tree {
    names: Vec<u8>,
    roots: Vec<Root>,
    directories: Vec<Directory>,
    files: Vec<File>,
    /// The given files and roots, in the given order.
    given: Vec<Given>,
    /// The directories that are roots.
    root_inodes: FxHashSet<Inode>,
    /// The entries that are given files: their directory and their name.
    given_entries: FxHashSet<(Inode, Vec<u8>)>,
    /// Whether given files may be symbolic links.
    follows_given: bool,
    /// Given paths that are neither files nor, unless they come from a list, directories.
    skipped: Skipped,
    /// The note about the separator of the list.
    separator_note: Option<String>,
    /// Their file systems.
    pub volumes: Volumes,
    /// Directories that could not be listed.
    pub errors: ReadErrors,
    /// Entries that are neither files nor directories: links, devices, pipes.
    pub others: u64,
    /// Skipped directories of file systems made up by the kernel.
    pub made_up: u64,
}

#[derive(Clone, Copy, Debug)]
enum Given {
    File(u32),
    Directory(u32),
}

/// The listing of one directory.
struct Listed {
    inode: u64,
    /// Set if the directory is on another file system than its parent.
    volume: Option<Box<Volume>>,
    entries: Entries,
}

enum Outcome {
    Listed(Listed),
    Failed(Errno),
    /// Skipped: made up by the kernel.
    MadeUp,
    /// Skipped: on another file system than its root, or a root itself.
    Elsewhere,
}

impl Tree {
    /// Lists trees, and takes given files as they are.
    ///
    /// # Errors
    /// [`Error::Open`] if a given path does not exist, [`Error::Nothing`] if none of them can be taken,
    /// [`Error::Interrupted`].
    pub fn list(paths: &[PathBuf], limits: Limits, metadata: &mut Metadata, work: &Work<'_>) -> Result<Self> {
        let mut tree = Self { follows_given: true, ..Self::default() };
        for path in paths {
            tree.add_root(path)?;
        }
        if tree.given.is_empty()
            && let Some(reason) = tree.errors.first.first().cloned().or_else(|| tree.skipped.note())
        {
            return Err(Error::Nothing { reason });
        }
        let mut level = 0..tree.directories.len() as u32;
        while !level.is_empty() {
            let next = tree.list_level(level, limits, metadata, work)?;
            work.check()?;
            work.report(
                Step::Listing,
                0.0,
                &format!("listing, {} files in {} directories", tree.files.len(), next.start),
            );
            level = next;
        }
        Ok(tree)
    }

    fn add_root(&mut self, path: &Path) -> Result<()> {
        let name = path.as_os_str().as_bytes();
        // Not opened before it is known what it is: an open wakes a FIFO's writer, and acts on a device.
        match rustix::fs::stat(path).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::RegularFile | FileType::Directory) => {}
            Ok(kind) => {
                self.skipped.add(name, name_of(kind));
                return Ok(());
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if is_link(path) => {
                self.skipped.add(name, "a symbolic link that leads nowhere");
                return Ok(());
            }
            Err(cause @ (Errno::NOENT | Errno::NOTDIR)) => {
                return Err(Error::Open { path: path.to_owned(), cause });
            }
            // The next call has the same reason.
            Err(_) => {}
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = open_quietly(|extra| rustix::fs::open(path, flags | extra, Mode::empty()))
            .and_then(|fd| rustix::fs::fstat(&fd).map(|stat| (fd, stat)));
        let (fd, stat) = match opened {
            Ok(opened) => opened,
            Err(cause) => {
                self.errors.add("open", name, cause);
                return Ok(());
            }
        };
        let mut volume = || self.volumes.index_of(fd.as_fd(), DeviceNumber::from_raw(stat.st_dev));
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                if entry_at(path).is_some_and(|entry| !self.given_entries.insert(entry)) {
                    return Ok(());
                }
                let volume = volume();
                if self.volumes.get(volume).by == OrderBy::None {
                    self.skipped.add(name, MADE_UP);
                    return Ok(());
                }
                let name = self.keep_name(name)?;
                let at = 0;
                self.given.push(Given::File(self.files.len() as u32));
                self.files.push(File { directory: NONE, name, volume, at, inode: stat.st_ino });
            }
            FileType::Directory => {
                if !self.root_inodes.insert(inode_of(&stat)) {
                    return Ok(());
                }
                let volume = volume();
                let root = self.roots.len() as u32;
                self.given.push(Given::Directory(self.directories.len() as u32));
                let fd = (self.roots.len() < ROOTS_OPEN).then_some(fd);
                self.roots.push(Root { path: name.to_owned(), inode: inode_of(&stat), fd });
                self.directories.push(Directory {
                    parent: NONE,
                    root,
                    name: Name { start: 0, length: 0 },
                    volume,
                    at: 0,
                    inode: stat.st_ino,
                    files: 0..0,
                    directories: 0..0,
                });
            }
            kind => self.skipped.add(name, name_of(kind)),
        }
        Ok(())
    }

    /// Lists the directories of one level; returns those of the next.
    fn list_level(
        &mut self,
        level: Range<u32>,
        limits: Limits,
        metadata: &mut Metadata,
        work: &Work<'_>,
    ) -> Result<Range<u32>> {
        let mut order: Vec<u32> = level.clone().collect();
        order.sort_unstable_by_key(|index| {
            let directory = &self.directories[*index as usize];
            (directory.volume, directory.inode)
        });
        self.prefetch_directories(&order, metadata, work);
        let outcomes = parallel::map(&order, work.stop, |index| self.read(*index, limits));
        work.check()?;
        let mut outcomes: Vec<(u32, Outcome)> = order.into_iter().zip(outcomes).collect();
        outcomes.sort_unstable_by_key(|(index, _)| *index);
        for (index, outcome) in outcomes {
            match outcome {
                Outcome::Listed(listed) => self.merge(index, listed)?,
                Outcome::Failed(cause) => {
                    let path = self.directory_path(index);
                    self.errors.add("list", &path, cause);
                }
                Outcome::MadeUp => self.made_up += 1,
                Outcome::Elsewhere => {}
            }
        }
        Ok(level.end..self.directories.len() as u32)
    }

    /// Requests the blocks of these directories and of their inodes, in order, where possible.
    fn prefetch_directories(&self, order: &[u32], metadata: &mut Metadata, work: &Work<'_>) {
        for (volume, about) in self.volumes.iter() {
            if !metadata.reads(volume, about) {
                continue;
            }
            let of_volume: Vec<u32> = order
                .iter()
                .copied()
                .filter(|index| self.directories[*index as usize].volume == volume)
                .collect();
            metadata.prefetch_inodes(
                volume,
                of_volume.iter().map(|index| self.directories[*index as usize].inode),
            );
            let blocks = parallel::map(&of_volume, work.stop, |index| {
                let directory = self.open_directory(*index).ok()?;
                // Another file system may be mounted there: its addresses are of another disk.
                let stat = rustix::fs::fstat(&directory).ok()?;
                let is_of_volume = DeviceNumber::from_raw(stat.st_dev) == about.device;
                is_of_volume.then(|| foreseek_places::blocks_of_directory(directory.as_fd()))
            });
            metadata.prefetch(volume, blocks.into_iter().flatten().flatten().collect());
        }
    }

    /// Reads a directory; runs in several threads.
    fn read(&self, index: u32, limits: Limits) -> Outcome {
        let known = &self.directories[index as usize];
        let result = (|| {
            let directory = self.open_directory(index)?;
            let stat = rustix::fs::fstat(&directory)?;
            let device = DeviceNumber::from_raw(stat.st_dev);
            let mut volume = None;
            let about = if device == self.volumes.get(known.volume).device {
                self.volumes.get(known.volume)
            } else {
                volume.insert(Box::new(Volume::that_holds_back(directory.as_fd(), device, HoldBack::Likely)))
            };
            if about.by == OrderBy::None {
                return Ok(Outcome::MadeUp);
            }
            if limits.one_file_system && volume.is_some() && known.parent != NONE {
                return Ok(Outcome::Elsewhere);
            }
            if self.is_own_ancestor(index, device, stat.st_ino) {
                return Err(Errno::LOOP);
            }
            if known.parent != NONE && self.root_inodes.contains(&(device, stat.st_ino)) {
                return Ok(Outcome::Elsewhere);
            }
            let entries = entries_of(directory.as_fd(), NONE as usize)?;
            Ok(Outcome::Listed(Listed { inode: stat.st_ino, volume, entries }))
        })();
        result.unwrap_or_else(Outcome::Failed)
    }

    fn is_own_ancestor(&self, index: u32, device: DeviceNumber, inode: u64) -> bool {
        let mut above = self.directories[index as usize].parent;
        while above != NONE {
            let directory = &self.directories[above as usize];
            if directory.inode == inode && self.volumes.get(directory.volume).device == device {
                return true;
            }
            above = directory.parent;
        }
        false
    }

    fn merge(&mut self, index: u32, listed: Listed) -> Result<()> {
        let volume = match listed.volume {
            None => self.directories[index as usize].volume,
            Some(volume) => self.volumes.index_as(*volume),
        };
        let (files, directories) = (self.files.len() as u32, self.directories.len() as u32);
        let root = self.directories[index as usize].root;
        let here = (self.volumes.get(volume).device, listed.inode);
        for (at, entry) in (0..).zip(&listed.entries.list) {
            match entry.kind {
                FileType::RegularFile => {
                    let name = &listed.entries.names[entry.name.clone()];
                    if self.is_given(here, name) {
                        continue;
                    }
                    let name = self.keep_name(name)?;
                    self.files.push(File { directory: index, name, volume, at, inode: entry.inode });
                }
                FileType::Directory => {
                    let name = self.keep_name(&listed.entries.names[entry.name.clone()])?;
                    self.directories.push(Directory {
                        parent: index,
                        root,
                        name,
                        volume,
                        at,
                        inode: entry.inode,
                        files: 0..0,
                        directories: 0..0,
                    });
                }
                _ => self.others += 1,
            }
        }
        check_number("files", self.files.len())?;
        check_number("directories", self.directories.len())?;
        let ends = (self.files.len() as u32, self.directories.len() as u32);
        let known = &mut self.directories[index as usize];
        (known.volume, known.inode) = (volume, listed.inode);
        (known.files, known.directories) = (files..ends.0, directories..ends.1);
        Ok(())
    }

    /// Whether an entry of a directory is a given file.
    fn is_given(&self, directory: Inode, name: &[u8]) -> bool {
        !self.given_entries.is_empty() && self.given_entries.contains(&(directory, name.to_owned()))
    }

    /// Notes for the user about the given paths.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.skipped.note().into_iter().chain(self.separator_note.clone()).collect()
    }

    fn keep_name(&mut self, name: &[u8]) -> Result<Name> {
        let start = self.names.len();
        check_number("bytes of names", start + name.len())?;
        self.names.extend(name);
        let length = u16::try_from(name.len());
        let length =
            length.map_err(|_| Error::TooMany { what: "bytes in a path", limit: u16::MAX.into() })?;
        Ok(Name { start: start as u32, length })
    }

    /// Takes the files of a list, one path an entry, in the order in which they will be read; of the same path the
    /// first one.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::Interrupted`].
    pub fn of_list(list: &[u8], separator: u8, work: &Work<'_>) -> Result<Self> {
        let mut tree = Self::default();
        let mut names = Vec::new();
        for path in list.split(|byte| *byte == separator).filter(|path| !path.is_empty()) {
            if path.len() > PATH_MOST {
                let shown = [&path[..SHOWN], b"..."].concat();
                tree.errors.add("look at", &shown, Errno::NAMETOOLONG);
            } else {
                names.push(tree.keep_name(path)?);
            }
        }
        check_number("files", names.len())?;
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        order.sort_unstable_by_key(|index| tree.name(names[*index as usize]));
        let looks = parallel::map(&order, work.stop, |index| look_at(tree.name(names[*index as usize])));
        work.check()?;
        let mut looks: Vec<(u32, Look)> = order.into_iter().zip(looks).collect();
        looks.sort_unstable_by_key(|(index, _)| *index);
        let mut is_repeated: FxHashMap<Inode, bool> = FxHashMap::default();
        for (_, inode) in looks.iter().filter_map(|(_, look)| look.as_ref().ok()) {
            is_repeated.entry(*inode).and_modify(|repeated| *repeated = true).or_insert(false);
        }
        for (index, look) in looks {
            let name = names[index as usize];
            match look {
                Ok((FileType::RegularFile, (device, inode))) => {
                    let path = Path::new(OsStr::from_bytes(tree.name(name)));
                    // Only paths of one inode can be the same.
                    let entry = is_repeated[&(device, inode)].then(|| entry_at(path)).flatten();
                    if entry.is_some_and(|entry| !tree.given_entries.insert(entry)) {
                        continue;
                    }
                    let volume = match tree.volumes.find(device) {
                        Some(volume) => volume,
                        // The first of its file system; if it is gone meanwhile, it is skipped.
                        None => match open_for_path(tree.name(name)) {
                            Ok(fd) => tree.volumes.index_of(fd.as_fd(), device),
                            Err(_) => continue,
                        },
                    };
                    if tree.volumes.get(volume).by == OrderBy::None {
                        let path = tree.name(name).to_owned();
                        tree.skipped.add(&path, MADE_UP);
                        continue;
                    }
                    tree.given.push(Given::File(tree.files.len() as u32));
                    tree.files.push(File { directory: NONE, name, volume, at: index, inode });
                }
                Ok((kind, _)) => {
                    let path = tree.name(name).to_owned();
                    tree.skipped.add(&path, name_of(kind));
                }
                Err(cause) => {
                    let path = tree.name(name).to_owned();
                    tree.errors.add("look at", &path, cause);
                }
            }
        }
        if tree.errors.count > 0 {
            tree.separator_note = separator_note(list, separator);
        }
        Ok(tree)
    }

    /// All files.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// How many directories were listed.
    #[must_use]
    pub fn directories(&self) -> usize {
        self.directories.len()
    }

    fn name(&self, name: Name) -> &[u8] {
        &self.names[name.start as usize..][..usize::from(name.length)]
    }

    /// A file's path, as a walk from the given path names it.
    #[must_use]
    pub fn path(&self, file: &File) -> Vec<u8> {
        if file.directory == NONE {
            return self.name(file.name).to_owned();
        }
        let mut path = self.directory_path(file.directory);
        push(&mut path, self.name(file.name));
        path
    }

    fn directory_path(&self, index: u32) -> Vec<u8> {
        let root = &self.roots[self.directories[index as usize].root as usize];
        let mut path = root.path.clone();
        self.push_below(index, &mut path);
        path
    }

    /// Appends the names from below the root down to a directory.
    fn push_below(&self, index: u32, path: &mut Vec<u8>) {
        let mut names = Vec::new();
        let mut at = index;
        while self.directories[at as usize].parent != NONE {
            names.push(self.directories[at as usize].name);
            at = self.directories[at as usize].parent;
        }
        for name in names.into_iter().rev() {
            push(path, self.name(name));
        }
    }

    fn open_directory(&self, index: u32) -> Result<OwnedFd, Errno> {
        let mut path = Vec::new();
        self.push_below(index, &mut path);
        if path.is_empty() {
            path.push(b'.');
        }
        self.in_root(index, |root| open_below(root, &path, OFlags::DIRECTORY))
    }

    /// Does something with the root of a directory: the one that was given, or none.
    fn in_root<T>(
        &self,
        index: u32,
        act: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let root = &self.roots[self.directories[index as usize].root as usize];
        if let Some(fd) = &root.fd {
            return act(fd.as_fd());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&*root.path, flags, Mode::empty())?;
        if inode_of(&rustix::fs::fstat(&fd)?) == root.inode { act(fd.as_fd()) } else { Err(Errno::STALE) }
    }

    /// Opens a file for reading: a regular file, no link at any step below its root and none of a list, without a
    /// new access time where permitted.
    ///
    /// # Errors
    /// The kernel's error; ENXIO if it is no regular file any more.
    pub fn open(&self, file: &File) -> Result<(OwnedFd, Stat), Errno> {
        let fd = if file.directory == NONE {
            let links = if self.follows_given { OFlags::empty() } else { OFlags::NOFOLLOW };
            let flags = OFlags::RDONLY | links | OFlags::NONBLOCK | OFlags::NOCTTY;
            open_quietly(|extra| rustix::fs::open(self.name(file.name), flags | extra, Mode::empty()))?
        } else {
            let mut path = Vec::new();
            self.push_below(file.directory, &mut path);
            push(&mut path, self.name(file.name));
            self.in_root(file.directory, |root| open_below(root, &path, OFlags::empty()))?
        };
        let stat = rustix::fs::fstat(&fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((fd, stat)),
            _ => Err(Errno::NXIO),
        }
    }

    /// Looks a file up without opening it, which reads its inode into memory.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn look(&self, file: &File) -> Result<(), Errno> {
        if file.directory == NONE {
            // It was looked up when the list was read.
            return Ok(());
        }
        let mut path = Vec::new();
        self.push_below(file.directory, &mut path);
        push(&mut path, self.name(file.name));
        self.in_root(file.directory, |root| rustix::fs::statat(root, &path, AtFlags::SYMLINK_NOFOLLOW))
            .map(drop)
    }

    /// A descriptor of a directory on a file system, to watch it.
    pub(crate) fn somewhere_on(&self, volume: u16) -> Option<OwnedFd> {
        let directories = (0u32..).zip(&self.directories).filter(|(_, known)| known.volume == volume);
        directories.take(TRIED).find_map(|(index, _)| self.open_directory(index).ok()).or_else(|| {
            let files = self.files.iter().filter(|file| file.volume == volume).take(TRIED);
            files.filter_map(|file| self.directory_of(file)).next()
        })
    }

    /// The directory of a file of a list.
    fn directory_of(&self, file: &File) -> Option<OwnedFd> {
        let path = path_of(self.path(file));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(directory_above(&path), flags, Mode::empty()).ok()
    }

    /// The files in the order in which a program reads them: given paths in their order, trees depth first, the
    /// entries of each directory by `reading`.
    #[must_use]
    pub fn in_order_of(&self, reading: Reading) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.files.len());
        let mut waiting: Vec<Given> = self.given.iter().rev().copied().collect();
        while let Some(given) = waiting.pop() {
            let index = match given {
                Given::File(file) => {
                    order.push(file);
                    continue;
                }
                Given::Directory(index) => index,
            };
            let directory = &self.directories[index as usize];
            let begin = waiting.len();
            waiting.extend(directory.files.clone().map(Given::File));
            waiting.extend(directory.directories.clone().map(Given::Directory));
            let entries = &mut waiting[begin..];
            match reading {
                Reading::Listing => entries.sort_unstable_by_key(|entry| self.about(*entry).0),
                Reading::Inode => entries.sort_unstable_by_key(|entry| self.about(*entry).1),
                Reading::Name => {
                    entries.sort_unstable_by(|a, b| {
                        self.name(self.about(*a).2).cmp(self.name(self.about(*b).2))
                    });
                }
            }
            entries.reverse();
        }
        order
    }

    fn about(&self, given: Given) -> (u32, u64, Name) {
        match given {
            Given::File(index) => {
                let file = &self.files[index as usize];
                (file.at, file.inode, file.name)
            }
            Given::Directory(index) => {
                let directory = &self.directories[index as usize];
                (directory.at, directory.inode, directory.name)
            }
        }
    }
}

fn check_number(what: &'static str, number: usize) -> Result<()> {
    if number < NONE as usize { Ok(()) } else { Err(Error::TooMany { what, limit: NONE - 1 }) }
}

fn push(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend(name);
}

/// Opens without changing the access time, where permitted (for the owner and root).
fn open_quietly(open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    match open(OFlags::CLOEXEC | OFlags::NOATIME) {
        Err(Errno::PERM) => open(OFlags::CLOEXEC),
        other => other,
    }
}

/// Opens something below a root without following any link.
fn open_below(root: BorrowedFd<'_>, path: &[u8], extra: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | extra;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    open_quietly(|extra| match rustix::fs::openat2(root, path, flags | extra, Mode::empty(), resolve) {
        // With a system-call filter that forbids it, at least the last step follows no link.
        Err(Errno::NOSYS) => rustix::fs::openat(root, path, flags | extra, Mode::empty()),
        other => other,
    })
}

/// The kind of what a path names, and its inode.
type Look = Result<(FileType, Inode), Errno>;

fn look_at(path: &[u8]) -> Look {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((FileType::from_raw_mode(stat.st_mode), inode_of(&stat)))
}

fn is_link(path: &Path) -> bool {
    let stat = rustix::fs::lstat(path);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

fn inode_of(stat: &Stat) -> Inode {
    (DeviceNumber::from_raw(stat.st_dev), stat.st_ino)
}

/// The directory of a path, and its name there. Nothing where the directory cannot be looked up.
fn entry_at(path: &Path) -> Option<(Inode, Vec<u8>)> {
    let name = path.file_name()?.as_bytes().to_owned();
    let stat = rustix::fs::stat(directory_above(path)).ok()?;
    Some((inode_of(&stat), name))
}

/// The path of the directory that holds a file.
fn directory_above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open_for_path(path: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// A path of these bytes.
#[must_use]
pub fn path_of(bytes: Vec<u8>) -> PathBuf {
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Halt, Progress};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    /// The paths that are taken of given ones below a folder, sorted, and the notes.
    fn taken(folder: &Path, given: &[&str]) -> (Vec<String>, Vec<String>) {
        let paths: Vec<PathBuf> = given.iter().map(|path| folder.join(path)).collect();
        let tree = tree_of(&paths).expect("listed");
        (names(&tree, folder), tree.notes())
    }

    fn tree_of(paths: &[PathBuf]) -> Result<Tree> {
        let (stop, progress) = (Halt::default(), |_: Progress<'_>| ());
        let work = Work { stop: &stop, progress: &progress };
        Tree::list(paths, Limits::default(), &mut Metadata::default(), &work)
    }

    fn of_list(folder: &Path, list: &str, separator: u8) -> (Vec<String>, Vec<String>) {
        let list = list.replace('@', folder.to_str().expect("text"));
        let (stop, progress) = (Halt::default(), |_: Progress<'_>| ());
        let work = Work { stop: &stop, progress: &progress };
        let tree = Tree::of_list(list.as_bytes(), separator, &work).expect("taken");
        (names(&tree, folder), tree.notes())
    }

    /// More given directories than are kept open, one of them replaced after it was listed.
    #[test]
    fn any_number_of_directories_can_be_given() {
        let place = tempfile::tempdir().expect("a place");
        let paths: Vec<PathBuf> = (0..3 * ROOTS_OPEN).map(|n| place.path().join(format!("d{n}"))).collect();
        for path in &paths {
            fs::create_dir_all(path.join("below")).expect("made");
            fs::write(path.join("below/file"), "x").expect("written");
        }
        let open = || {
            fs::read_dir("/proc/self/fd")
                .expect("Linux has it")
                .flatten()
                .filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(place.path())))
        };
        let tree = tree_of(&paths).expect("listed");
        assert_eq!((tree.files.len(), open().count()), (paths.len(), ROOTS_OPEN));
        let last = tree.files.iter().max_by_key(|file| file.directory).expect("a file");
        assert!(tree.files.iter().all(|file| tree.open(file).is_ok()));
        let replaced = paths.last().expect("one");
        fs::rename(replaced, place.path().join("moved")).expect("renamed");
        fs::create_dir_all(replaced.join("below")).expect("made");
        fs::write(replaced.join("below/file"), "another").expect("written");
        assert_eq!(tree.open(last).map(|_| ()), Err(Errno::STALE));
    }

    fn names(tree: &Tree, folder: &Path) -> Vec<String> {
        let paths = tree.files().iter().map(|file| {
            tree.open(file).expect("opens");
            path_of(tree.path(file))
        });
        let below = paths.map(|path| path.strip_prefix(folder).expect("below").display().to_string());
        let mut below: Vec<String> = below.collect();
        below.sort();
        below
    }

    /// Files `tr/a` and `tr/sub/b`, links to both kinds, and a FIFO.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("tr/sub")).expect("made");
        fs::write(at("tr/a"), "a").expect("written");
        fs::write(at("tr/sub/b"), "b").expect("written");
        symlink("tr/a", at("to-file")).expect("linked");
        symlink("tr", at("to-directory")).expect("linked");
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        folder
    }

    #[test]
    fn a_given_link_is_followed_and_a_link_of_a_list_is_not() {
        let folder = folder();
        assert_eq!(taken(folder.path(), &["to-file"]).0, ["to-file"]);
        assert_eq!(taken(folder.path(), &["to-directory"]).0, ["to-directory/a", "to-directory/sub/b"]);
        let (files, notes) = of_list(folder.path(), "@/to-file\n@/tr/a\n", b'\n');
        assert_eq!(files, ["tr/a"]);
        assert!(notes[0].ends_with("to-file is a symbolic link: skipped"), "{notes:?}");
    }

    #[test]
    fn what_is_given_twice_is_taken_once() {
        let folder = folder();
        let whole = ["tr/a", "tr/sub/b"];
        for given in [
            &["tr", "tr"][..],
            &["tr", "to-directory"],
            &["tr", "tr/sub"],
            &["tr/sub", "tr"],
            &["tr", "tr/a", "tr/a"],
            &["tr/sub/b", "tr"],
            &["tr/./a", "tr/sub/../sub/b", "tr/a"],
        ] {
            assert_eq!(taken(folder.path(), given).0.len(), whole.len(), "{given:?}");
        }
        assert_eq!(taken(folder.path(), &["tr", "tr/sub"]).0, whole);
        // Links are names of their own.
        fs::hard_link(folder.path().join("tr/a"), folder.path().join("a")).expect("linked");
        assert_eq!(taken(folder.path(), &["a", "tr"]).0, ["a", "tr/a", "tr/sub/b"]);
        assert_eq!(taken(folder.path(), &["to-file", "tr"]).0, ["to-file", "tr/a", "tr/sub/b"]);
        // In a list as well; the first is kept.
        let (files, _) =
            of_list(folder.path(), "@/tr/sub/b\n@/tr/a\n@/a\n@/tr/./a\n@/tr/a\n@/tr/sub/b\n", b'\n');
        assert_eq!(files, ["a", "tr/a", "tr/sub/b"]);
    }

    #[test]
    fn given_paths_that_are_skipped_have_a_note() {
        let folder = folder();
        let _socket = UnixListener::bind(folder.path().join("socket")).expect("bound");
        symlink("nothing", folder.path().join("dangling")).expect("linked");
        symlink("circle", folder.path().join("circle")).expect("linked");
        // An open would wake a program that waits to write into the pipe.
        let opens = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("a watch");
        inotify::add_watch(&opens, folder.path().join("pipe"), WatchFlags::OPEN).expect("watched");
        let (files, notes) =
            taken(folder.path(), &["pipe", "/dev/null", "socket", "dangling", "circle", "tr/a"]);
        assert_eq!(files, ["tr/a"]);
        assert!(notes[0].contains("pipe is a FIFO: skipped, and 4 more"), "{notes:?}");
        assert_eq!(rustix::io::read(&opens, &mut [0; 256][..]), Err(Errno::AGAIN), "the pipe was opened");
        for (given, what) in [
            ("socket", "is a socket"),
            ("dangling", "is a symbolic link that leads nowhere"),
            ("circle", "is a symbolic link that leads nowhere"),
        ] {
            assert!(taken(folder.path(), &["tr", given]).1[0].contains(what), "{given}");
        }
        // What is not there is no such thing: a mistake is said before anything is read.
        let missing = tree_of(&[folder.path().join("tr"), folder.path().join("missing")]);
        assert!(matches!(missing, Err(Error::Open { .. })), "{missing:?}");
        let nothing = tree_of(&[folder.path().join("pipe"), folder.path().join("socket")]);
        let error = nothing.map(drop).expect_err("nothing is left").to_string();
        assert!(error.contains("pipe is a FIFO"), "{error}");
        let (files, notes) = of_list(folder.path(), "@/tr\n@/tr/a\n", b'\n');
        assert_eq!(files, ["tr/a"]);
        assert!(notes[0].ends_with("tr is a directory: skipped"), "{notes:?}");
        // In a tree they are left out without a note.
        assert_eq!(taken(folder.path(), &["."]).1, Vec::<String>::new());
    }

    #[test]
    fn a_given_link_that_cannot_be_followed_is_an_error() {
        let folder = folder();
        symlink("n".repeat(300), folder.path().join("to-long-name")).expect("linked");
        let tree = tree_of(&["to-long-name", "tr"].map(|path| folder.path().join(path))).expect("listed");
        assert_eq!((tree.errors.count, tree.notes()), (1, Vec::new()), "{:?}", tree.errors);
        assert!(tree.errors.first[0].contains("to-long-name"), "{:?}", tree.errors);
    }

    #[test]
    fn given_files_that_the_kernel_makes_up_are_skipped() {
        let place = tempfile::tempdir().expect("a place");
        fs::write(place.path().join("file"), "x").expect("written");
        let of_paths = taken(place.path(), &["/proc/self/status", "file"]);
        let of_list = of_list(place.path(), "/proc/self/status\n@/file\n", b'\n');
        for (names, notes) in [of_paths, of_list] {
            assert_eq!(names, ["file"]);
            assert_eq!(notes, ["/proc/self/status is a file made up by the kernel: skipped"]);
        }
    }

    #[test]
    fn a_list_with_the_other_separator_has_a_hint() {
        let folder = folder();
        let (_, notes) = of_list(folder.path(), "@/tr/a\0@/tr/sub/b\0", b'\n');
        assert!(notes[0].contains("give -0"), "{notes:?}");
        let (_, notes) = of_list(folder.path(), "@/tr/a\n@/tr/sub/b\n", b'\0');
        assert!(notes[0].contains("leave out -0"), "{notes:?}");
        // A long list of the other kind is one path that no file can have.
        let (_, notes) = of_list(folder.path(), &"@/tr/a\0".repeat(5000), b'\n');
        assert!(notes[0].contains("give -0"), "{notes:?}");
        let (_, notes) = of_list(folder.path(), &"@/tr/a\n".repeat(5000), b'\0');
        assert!(notes[0].contains("leave out -0"), "{notes:?}");
    }
}
