//! The files that the kernel knows through the mount, and the known states of their contents.
//!
//! A file keeps its own inode number, so that programs that compare numbers (`tar`, `rsync`, `git`) see the
//! same as in the source. For file systems mounted within the source, the upper bits hold the index of the
//! file system. A number that does not fit is replaced by a counter.

use crate::Version;
use crate::fs::anchor::{Anchor, Volume, stat_of};
use crate::fs::passthrough::IoMode;
use foreseek_seam::ObjectId;
use rustc_hash::FxHashMap;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of the root, given by FUSE.
pub(crate) const ROOT: u64 = 1;
/// Bits of an inode number; the volume lies above.
const NUMBER_BITS: u32 = 48;
/// The most file systems within the source: as many as fit between a file's number and the topmost bit.
const VOLUMES_LIMIT: usize = 1 << 15;
/// A change is old after this many whole seconds: some file systems have timestamps in steps of milliseconds,
/// and some of a second or two.
const SETTLED: i64 = 3;
/// `f_type` of file systems that are stacked on others.
const OVERLAYFS: i64 = 0x794c_7630;
const ECRYPTFS: i64 = 0xf15f;
/// The topmost bit marks numbers from the counter.
const COUNTED: u64 = 1 << 63;
/// This bit next to it marks numbers of files that could not be looked up.
const UNSEEN: u64 = COUNTED | 1 << 62;

/// A file that the kernel knows.
#[derive(Debug)]
pub(crate) struct Node {
    /// The number by which the kernel knows it.
    pub(crate) id: u64,
    /// Whether it is a regular file: others have no contents.
    pub(crate) is_file: bool,
    /// How its open handles read and write it.
    pub(crate) io: IoMode,
    inode: (u64, u64),
    volume: Arc<Volume>,
    anchor: RwLock<Anchor>,
    known: Mutex<Known>,
    /// The inode of the directory through which it was found last; 0 for none.
    directory: AtomicU64,
}

/// The state of a file's contents that the kernel and the read path know.
#[derive(Debug, Default)]
pub(crate) struct Known {
    version: Option<Version>,
    /// Whether no later file of the same inode number can have this version: its last change was old when it
    /// was seen.
    settled: bool,
}

impl Known {
    /// The file itself was examined and is in this state.
    pub(crate) fn settle(&mut self, stat: &Stat, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed();
        self.settled = self.version == Some(Version::of(stat)) && stat.st_ctime + SETTLED < now;
    }

    /// Whether a file of its number in this state is the one that was examined.
    fn is_settled_as(&self, stat: &Stat) -> bool {
        self.settled && self.version == Some(Version::of(stat))
    }

    /// It may be another file.
    pub(crate) fn unsettle(&mut self) {
        self.settled = false;
    }

    /// Records the current state. Returns whether another program has changed the file.
    pub(crate) fn observe(&mut self, stat: &Stat) -> bool {
        let version = Version::of(stat);
        let changed = self.version.replace(version).is_some_and(|before| before != version);
        self.settled &= !changed;
        changed
    }

    /// Records the state after a change through the mount.
    pub(crate) fn set(&mut self, version: Version) {
        *self = Self { version: Some(version), settled: false };
    }

    /// Records a change through the mount that leaves the contents alone (names, owner, attributes): `before`
    /// and `after` are the states around it. If anything else happened as well, nothing is recorded, and the
    /// next check finds a change.
    pub(crate) fn touched(&mut self, before: &Stat, after: &Stat) {
        let (before, after) = (Version::of(before), Version::of(after));
        let same = (before.modified, before.length) == (after.modified, after.length);
        if same && self.version == Some(before) {
            self.set(after);
        }
    }
}

impl Node {
    /// Its object on the read path.
    pub(crate) fn object(&self) -> ObjectId {
        ObjectId(self.id)
    }

    /// The file as an `O_PATH` descriptor.
    pub(crate) fn reach(&self) -> Result<Arc<OwnedFd>, Errno> {
        self.volume.reach(&self.anchor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens the file.
    pub(crate) fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.volume.open(&self.anchor.read().unwrap_or_else(PoisonError::into_inner), flags)
    }

    /// Holds the file by a descriptor: its last name is about to be removed.
    pub(crate) fn hold(&self, fd: Arc<OwnedFd>) {
        *self.anchor.write().unwrap_or_else(PoisonError::into_inner) = Anchor::Fd(fd);
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode.1
    }

    /// The inode number of the directory through which it was found last.
    pub(crate) fn directory(&self) -> Option<u64> {
        Some(self.directory.load(Relaxed)).filter(|inode| *inode > 0)
    }

    /// The known state of its contents; held while they are changed.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same; `None` while they are being changed.
    pub(crate) fn known_if_quiet(&self) -> Option<MutexGuard<'_, Known>> {
        match self.known.try_lock() {
            Ok(known) => Some(known),
            Err(TryLockError::Poisoned(known)) => Some(known.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The number of another file in the same directory.
    pub(crate) fn number_of(&self, inode: u64) -> u64 {
        number(self.volume.index, inode).unwrap_or(inode)
    }
}

/// A file that was looked up.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) node: Arc<Node>,
    /// Whether it was unknown before.
    pub(crate) is_new: bool,
    /// Whether its number belonged to another file, which is gone: the kernel's caches of that are invalid.
    pub(crate) replaced: bool,
    /// A name that the kernel is asked to forget, so that its descriptor can be closed.
    pub(crate) expire: Option<(u64, OsString)>,
}

/// All files that the kernel knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    use_handles: bool,
    /// The most files held by descriptors; beyond it the kernel is asked to forget some.
    descriptors_limit: usize,
    root: Arc<Node>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: FxHashMap<u64, NodeEntry>,
    counted: FxHashMap<(u64, u64), u64>,
    counter: u64,
    volumes: Vec<Arc<Volume>>,
    /// Names of files held by descriptors, the oldest first.
    held: VecDeque<(u64, OsString, u64)>,
}

#[derive(Debug)]
struct NodeEntry {
    node: Arc<Node>,
    lookups: u64,
}

impl Nodes {
    /// Contains only the root, an open directory.
    pub(crate) fn new(root: OwnedFd, use_handles: bool, descriptors_limit: usize) -> Result<Self, Errno> {
        let stat = stat_of(&root)?;
        let volume = Arc::new(Volume::new(&root, &stat, 0, use_handles));
        let root = Arc::new(Node {
            id: ROOT,
            is_file: false,
            io: IoMode::default(),
            inode: (stat.st_dev, stat.st_ino),
            volume: Arc::clone(&volume),
            anchor: RwLock::new(Anchor::Fd(Arc::new(root))),
            known: Mutex::default(),
            directory: AtomicU64::new(0),
        });
        let table = Table { volumes: vec![volume], ..Table::default() };
        Ok(Self { use_handles, descriptors_limit, root, table: Mutex::new(table) })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the source's file system has file handles.
    pub(crate) fn has_handles(&self) -> bool {
        self.root.volume.has_handles()
    }

    /// Whether the source's file system is known to be stacked on another.
    pub(crate) fn is_stacked(&self) -> bool {
        let kind = self.root.reach().and_then(rustix::fs::fstatfs).map(|stat| stat.f_type);
        kind.is_ok_and(|kind| [OVERLAYFS, ECRYPTFS].contains(&kind))
    }

    /// How many files the kernel knows, without the root.
    pub(crate) fn len(&self) -> usize {
        self.table().entries.len()
    }

    /// The file of this number.
    pub(crate) fn get(&self, id: u64) -> Result<Arc<Node>, Errno> {
        if id == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        self.table().entries.get(&id).map(|entry| Arc::clone(&entry.node)).ok_or(Errno::STALE)
    }

    /// The file with these attributes, if the kernel knows it.
    pub(crate) fn find(&self, stat: &Stat) -> Option<Arc<Node>> {
        let table = self.table();
        let volume = table.volumes.iter().find(|volume| volume.device == stat.st_dev)?;
        let counted = || table.counted.get(&(stat.st_dev, stat.st_ino)).copied();
        let id = number(volume.index, stat.st_ino).or_else(counted)?;
        let node = &table.entries.get(&id)?.node;
        (node.inode == (stat.st_dev, stat.st_ino)).then(|| Arc::clone(node))
    }

    /// The kernel is about to get the regular file with these attributes, found in `parent`. Counts one
    /// look-up of it, if two points are certain without examining the file itself: which file it is, and that
    /// no other program has changed it.
    pub(crate) fn know_again(&self, stat: &Stat, parent: u64) -> Option<Arc<Node>> {
        let node = self.find(stat).filter(|node| node.is_file)?;
        if !node.known_if_quiet()?.is_settled_as(stat) {
            return None;
        }
        let mut table = self.table();
        let above = self.above(&table, parent, node.inode.0);
        let entry = table.entries.get_mut(&node.id).filter(|entry| Arc::ptr_eq(&entry.node, &node))?;
        entry.lookups += 1;
        node.directory.store(above, Relaxed);
        Some(node)
    }

    /// The inode number of a directory if it is on this device; 0 otherwise.
    fn above(&self, table: &Table, parent: u64, device: u64) -> u64 {
        let above = if parent == ROOT {
            Some(&self.root)
        } else {
            table.entries.get(&parent).map(|entry| &entry.node)
        };
        above.filter(|above| above.inode.0 == device).map_or(0, |above| above.inode())
    }

    /// The kernel is about to get the file that is open here with `O_PATH`, found under `name` in `parent`:
    /// counts one look-up of it.
    pub(crate) fn learn(
        &self,
        fd: &Arc<OwnedFd>,
        stat: &Stat,
        parent: u64,
        name: &OsStr,
    ) -> Result<Learned, Errno> {
        let volume = self.volume(&**fd, stat)?;
        let anchor = volume.anchor(fd);
        let is_held = matches!(anchor, Anchor::Fd(_));
        let inode = (stat.st_dev, stat.st_ino);
        let mut table = self.table();
        let id = table.number(&volume, inode);
        let known = table.entries.get(&id).map(|entry| (Arc::clone(&entry.node), entry.lookups));
        let same = known.as_ref().is_some_and(|(node, _)| node.is(&anchor));
        let (node, lookups) = match known {
            Some((node, lookups)) if same => (node, lookups + 1),
            other => {
                let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                let (anchor, known, directory) = (RwLock::new(anchor), Mutex::default(), AtomicU64::new(0));
                let io = IoMode::default();
                let node = Node { id, is_file, io, inode, volume, anchor, known, directory };
                (Arc::new(node), other.map_or(0, |(_, lookups)| lookups) + 1)
            }
        };
        let replaced = !same && lookups > 1;
        node.directory.store(self.above(&table, parent, inode.0), Relaxed);
        table.entries.insert(id, NodeEntry { node: Arc::clone(&node), lookups });
        if is_held && !same {
            table.held.push_back((parent, name.to_owned(), id));
        }
        let expire = table.expire(self.descriptors_limit);
        Ok(Learned { node, is_new: !same, replaced, expire })
    }

    /// Whether files hold more descriptors than the limit, so that the kernel was asked to forget some.
    pub(crate) fn are_asked_back(&self) -> bool {
        let table = self.table();
        let held = table.held.iter().filter(|(_, _, id)| table.entries.contains_key(id));
        held.count() > self.descriptors_limit
    }

    /// The kernel forgets this many look-ups of a file.
    pub(crate) fn forget(&self, id: u64, lookups: u64) {
        let mut table = self.table();
        let Some(entry) = table.entries.get_mut(&id) else { return };
        entry.lookups = entry.lookups.saturating_sub(lookups);
        if entry.lookups == 0 {
            let inode = entry.node.inode;
            let gone = table.entries.remove(&id);
            if id & COUNTED != 0 {
                table.counted.remove(&inode);
            }
            drop(table);
            // Closes descriptors, which may take long (the last one of an unlinked file).
            drop(gone);
        }
    }

    /// The volume of an open file.
    fn volume(&self, fd: &impl AsFd, stat: &Stat) -> Result<Arc<Volume>, Errno> {
        let found = |table: &Table| table.volumes.iter().find(|known| known.device == stat.st_dev).cloned();
        loop {
            let volumes = {
                let table = self.table();
                if let Some(volume) = found(&table) {
                    return Ok(volume);
                }
                table.volumes.len()
            };
            if volumes >= VOLUMES_LIMIT {
                return Err(Errno::NFILE);
            }
            // Without the lock, since it opens files.
            let volume = Arc::new(Volume::new(fd, stat, volumes as u64, self.use_handles));
            let mut table = self.table();
            // Otherwise another thread has added a volume, and this index is taken: retry.
            if table.volumes.len() == volumes {
                table.volumes.push(Arc::clone(&volume));
                return Ok(volume);
            }
        }
    }
}

impl Node {
    /// Whether a file of the same inode number is this one.
    fn is(&self, other: &Anchor) -> bool {
        match (&*self.anchor.read().unwrap_or_else(PoisonError::into_inner), other) {
            (Anchor::Handle(mine), Anchor::Handle(theirs)) => mine == theirs,
            // While a descriptor holds it, no other file has its number.
            _ => true,
        }
    }
}

impl Table {
    fn number(&mut self, volume: &Volume, inode: (u64, u64)) -> u64 {
        number(volume.index, inode.1).unwrap_or_else(|| {
            *self.counted.entry(inode).or_insert_with(|| {
                self.counter += 1;
                COUNTED | self.counter
            })
        })
    }

    /// The name of a file that holds a descriptor, if there are more than the limit.
    fn expire(&mut self, limit: usize) -> Option<(u64, OsString)> {
        // Each call may add one, therefore checking two is enough. Files in use go to the back.
        for _ in 0..2 {
            if self.held.len() <= limit {
                return None;
            }
            let (parent, name, id) = self.held.pop_front()?;
            if self.entries.contains_key(&id) {
                self.held.push_back((parent, name.clone(), id));
                return Some((parent, name));
            }
        }
        None
    }
}

/// The number under which the kernel knows a file, if it can be made from the file's own. 1 is the root's,
/// and a number longer than [`NUMBER_BITS`] would reach into the volume's index.
fn number(volume: u64, inode: u64) -> Option<u64> {
    (inode > ROOT && inode >> NUMBER_BITS == 0).then_some(volume << NUMBER_BITS | inode)
}

/// A number for a file of which only the name is known. No file has it: a program that uses the name looks it
/// up first.
pub(crate) const fn unseen(inode: u64) -> u64 {
    UNSEEN | inode
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode};
    use std::path::Path;
    use std::time::Duration;

    fn open(path: &Path) -> OwnedFd {
        rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .expect("opened")
    }

    fn nodes(path: &Path, use_handles: bool, limit: usize) -> Nodes {
        Nodes::new(open(path), use_handles, limit).expect("a root")
    }

    fn learn(nodes: &Nodes, path: &Path) -> Learned {
        let fd = open(path);
        let stat = stat_of(&fd).expect("attributes");
        nodes.learn(&Arc::new(fd), &stat, ROOT, path.file_name().expect("a name")).expect("learned")
    }

    #[test]
    fn a_file_keeps_its_number_and_is_forgotten_when_all_lookups_are() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a");
        std::fs::write(&path, "").expect("written");
        std::fs::hard_link(&path, place.path().join("b")).expect("linked");
        let nodes = nodes(place.path(), true, 10);
        let first = learn(&nodes, &path);
        let stat = stat_of(&open(&path)).expect("attributes");
        assert_eq!(first.node.id, stat.st_ino);
        assert!(
            Arc::ptr_eq(&learn(&nodes, &place.path().join("b")).node, &first.node),
            "one file, two names"
        );
        nodes.forget(first.node.id, 1);
        assert!(Arc::ptr_eq(&nodes.find(&stat).expect("still known"), &first.node));
        nodes.forget(first.node.id, 1);
        assert_eq!(nodes.get(first.node.id).err(), Some(Errno::STALE));
        assert_eq!(nodes.len(), 0);
    }

    #[test]
    fn a_reused_number_is_another_file() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a");
        let nodes = nodes(place.path(), true, 10);
        if !nodes.has_handles() {
            return println!("SKIPPED: no file handles here (not root, or the file system has none)");
        }
        std::fs::write(&path, "one").expect("written");
        let first = learn(&nodes, &path);
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, "two").expect("written");
        if stat_of(&open(&path)).expect("attributes").st_ino != first.node.id {
            return println!("SKIPPED: this file system gave another number");
        }
        let second = learn(&nodes, &path);
        assert!(second.replaced && !Arc::ptr_eq(&first.node, &second.node));
        assert!(!learn(&nodes, &path).replaced);
        nodes.forget(first.node.id, 3);
        assert_eq!(nodes.len(), 0, "lookups of both are counted together");
    }

    #[test]
    fn descriptors_beyond_the_limit_are_asked_back() {
        let place = tempfile::tempdir().expect("a directory");
        let nodes = nodes(place.path(), false, 2);
        let mut asked = Vec::new();
        for name in ["a", "b", "c", "d"] {
            std::fs::write(place.path().join(name), "").expect("written");
            let learned = learn(&nodes, &place.path().join(name));
            assert_eq!(nodes.are_asked_back(), learned.expire.is_some());
            asked.extend(learned.expire.map(|(_, name)| name));
        }
        assert_eq!(asked, ["a", "b"]);
    }

    #[test]
    fn a_change_of_names_hides_no_change_of_contents() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a");
        let stat = || stat_of(&open(&path)).expect("attributes");
        std::fs::write(&path, "one").expect("written");
        let mut known = Known::default();
        assert!(!known.observe(&stat()), "nothing was known");
        assert!(!known.observe(&stat()), "nothing changed");
        let mut before = stat();
        let mut after = before;
        after.st_ctime += 1;
        known.touched(&before, &after);
        assert!(!known.observe(&after), "our own");
        before = after;
        after.st_size += 1;
        known.touched(&before, &after);
        assert!(known.observe(&after), "another program's");
    }

    #[test]
    fn numbers_do_not_collide() {
        assert_eq!(number(0, 12), Some(12));
        assert_eq!(number(1, 12), Some(1 << 48 | 12));
        assert_eq!(number(0, 0), None);
        assert_eq!(number(0, ROOT), None);
        assert_eq!(number(0, 1 << 48), None);
        assert!(unseen(12) > COUNTED | 1 << 61, "more are not counted up");
    }

    #[test]
    fn a_file_is_recognised_once_no_other_can_look_like_it() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a");
        let nodes = nodes(place.path(), true, 10);
        std::fs::write(&path, "one").expect("written");
        let node = learn(&nodes, &path).node;
        let stat = stat_of(&open(&path)).expect("attributes");
        node.known().observe(&stat);
        let changed = UNIX_EPOCH + Duration::from_secs(stat.st_ctime.cast_unsigned());
        let know_again = || nodes.know_again(&stat, ROOT).is_some();
        for (seconds, known) in [(0, false), (3, false), (4, true)] {
            node.known().settle(&stat, changed + Duration::from_secs(seconds));
            assert_eq!(know_again(), known, "{seconds} s after it was changed");
        }
        nodes.forget(node.id, 2);
        assert_eq!((nodes.len(), know_again()), (0, false), "both lookups were counted");
        learn(&nodes, &path);
        assert!(!know_again(), "it is another node");
        node.known().unsettle();
        node.known().settle(&stat, changed + Duration::from_secs(9));
        let mut later = stat;
        later.st_ctime += 1;
        assert!(nodes.know_again(&later, ROOT).is_none(), "in another state");
        node.known().observe(&later);
        node.known().observe(&stat);
        assert!(!node.known().is_settled_as(&stat), "it has changed since it was looked at");
    }
}
