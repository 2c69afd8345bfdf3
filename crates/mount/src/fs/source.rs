//! The source directory: carries out every operation on it, and keeps the two caches correct.
//!
//! *Changes through the mount* of a file's bytes are made one at a time for each file. The current state is
//! compared with the last one known, the change is made, then the read path is notified, and only then is it
//! acknowledged.
//!
//! *Changes by other programs* show as a state (`mtime`, `ctime`, length) that is not the last one known. It
//! is checked at each open, look-up and request for attributes, before each change through the mount, and
//! each second for every open file. The kernel and the read path then drop the file's pages.
//!
//! Limits: two kinds of changes by other programs stay unnoticed. One is a change during a write through the
//! mount to the same file. The other is a change that leaves length and times as they were (within one tick
//! of the file system's clock).
//!
//! A change by others and a write through the mount at the same time may leave old bytes in the kernel's cache. The
//! kernel drops the pages because of the change while the write is on its way here, and another program reads the
//! file before the write arrives. These bytes stay until the pages are dropped again.

use crate::fs::anchor::{proc_path, stat_of};
use crate::fs::caller::{AsCaller, Caller};
use crate::fs::from_memory::{FromMemory, SMALL};
use crate::fs::handles::{Handles, OpenDirectory, OpenFile, OpenReads, ReadRoute};
use crate::fs::kernel_cache::KernelCache;
use crate::fs::look_ahead::LookAhead;
use crate::fs::nodes::{Node, Nodes};
use crate::fs::passthrough::{Means, Passthrough};
use crate::fs::slow_operations::SlowOperations;
use crate::fs::windows::Windows;
use crate::plain::{Plain, answer_from};
use crate::read_path::{Answer, Change, OpenedFile, ReadPath, ReadRequest, Version};
use foreseek_readahead::serving::is_whole_window;
use foreseek_seam::{ProcessId, StreamId};
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use foreseek_watch::reported::{DESCRIPTORS, Reported};
use fuser::{BackingId, Errno as FuseErrno};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, SeekFrom, Stat, Timespec,
    Timestamps, UTIME_OMIT, Uid,
};
use rustix::io::{Errno, ReadWriteFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io::IoSlice;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// The most that one `copy_file_range` copies before it returns: a caller requests the rest, and an
/// interrupted caller does not wait for gigabytes.
const COPY_LIMIT: usize = 64 << 20;
/// Descriptors that open files of programs leave to everything else. Each thread that receives requests needs
/// some for a look-up and for the read path. Clients and the end need some as well. Those of the read-ahead
/// for walks are added.
pub(crate) const DESCRIPTORS_KEPT: u64 = 64;
/// How long a program that opens a file waits for names that the kernel was asked to forget: on a busy
/// machine the kernel may take some time.
const FORGETTING: Duration = Duration::from_secs(1);
const FORGETTING_STEP: Duration = Duration::from_millis(2);
/// With very few descriptors, the share that is kept, as a divisor.
pub(crate) const DESCRIPTORS_SHARE: u64 = 4;
/// Flags of an open that the kernel handles itself, or that would change the meaning of reading and writing
/// at an offset. (0x20 is the kernel's mark of an execution.)
const OPEN_IGNORED: u32 = (libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_SYNC
    | libc::O_DIRECT
    | libc::O_NOFOLLOW
    | libc::O_NONBLOCK
    | libc::O_ASYNC
    | 0x20) as u32;

/// The permissions to execute a file.
const EXECUTABLE: u32 = 0o111;

/// See the module's documentation.
pub(crate) struct Source {
    pub(crate) nodes: Nodes,
    pub(crate) files: Handles<OpenFile>,
    pub(crate) directories: Handles<OpenDirectory>,
    pub(crate) reads: Arc<dyn ReadPath>,
    /// The read path while prefetching does not pay.
    pub(crate) plain: Plain,
    pub(crate) kernel: KernelCache,
    pub(crate) slow_operations: SlowOperations,
    pub(crate) external_changes: AtomicU64,
    /// The read-ahead for programs that walk the source's trees, where it is worth it.
    pub(crate) walks: Option<Reported>,
    pub(crate) from_memory: FromMemory,
    pub(crate) look_ahead: LookAhead,
    pub(crate) windows: Windows,
    /// Whether files in memory are passed through to the kernel.
    pub(crate) passthrough: Passthrough,
    /// Reads that were answered out of the source's page cache.
    pub(crate) read_from_memory: AtomicU64,
    /// The most descriptors of this process.
    pub(crate) descriptors: u64,
}

/// A file that was found, and whether another program has changed it.
#[derive(Debug)]
pub(crate) struct FoundNode {
    pub(crate) node: Arc<Node>,
    pub(crate) stat: Stat,
    pub(crate) changed: bool,
}

/// What to create.
#[derive(Clone, Copy, Debug)]
pub(crate) enum New<'a> {
    Directory { mode: u32, mask: u32 },
    Node { mode: u32, mask: u32, device: u32 },
    Symlink { target: &'a Path },
}

/// The attributes to set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetAttributes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) access: Timespec,
    pub(crate) modification: Timespec,
}

/// A write as it was requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    /// At the file's end, whatever the kernel's offset is.
    pub(crate) append: bool,
    /// The user and group that write; unknown for write-back of a mapping.
    pub(crate) by: Option<Caller>,
    /// Whether set-user-ID and set-group-ID bits are cleared.
    pub(crate) kill_privileges: bool,
    /// The flags of the handle's open.
    pub(crate) flags: u32,
}

/// An error as FUSE has it.
pub(crate) fn fuse(errno: Errno) -> FuseErrno {
    FuseErrno::from_i32(errno.raw_os_error())
}

// Names.
impl Source {
    /// Looks a name up and counts the look-up.
    pub(crate) fn look_up(&self, parent: u64, name: &OsStr) -> Result<FoundNode, Errno> {
        let directory = self.nodes.get(parent)?.reach()?;
        self.look_up_in(&*directory, parent, name)
    }

    /// Has the file system load the inode of this name into memory, if it can.
    pub(crate) fn look_at(directory: BorrowedFd<'_>, name: &OsStr) {
        let _ = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    }

    /// The same in a directory that is open here.
    pub(crate) fn look_up_in(
        &self,
        directory: &impl AsFd,
        parent: u64,
        name: &OsStr,
    ) -> Result<FoundNode, Errno> {
        // One system call instead of five, for each name of a directory that is listed again.
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if let Some(node) = self.nodes.know_again(&stat, parent) {
            return Ok(FoundNode { node, stat, changed: false });
        }
        self.learn(open_path(directory, name)?, parent, name)
    }

    /// Registers the file that is open here with `O_PATH` for the kernel.
    fn learn(&self, fd: OwnedFd, parent: u64, name: &OsStr) -> Result<FoundNode, Errno> {
        let fd = Arc::new(fd);
        let stat = stat_of(&*fd)?;
        let learned = self.nodes.learn(&fd, &stat, parent, name)?;
        if let Some((parent, name)) = learned.expire {
            self.kernel.forget_name(parent, name);
        }
        let node = learned.node;
        let (stat, mut changed) = match node.is_file {
            // A file that was unknown cannot have changed.
            true if learned.is_new && !learned.replaced => (stat, node.known().observe(&stat)),
            true => self.look(&node, &*fd)?,
            false => (stat, false),
        };
        if node.is_file
            && let Some(mut known) = node.known_if_quiet()
        {
            known.settle(&stat, SystemTime::now());
        }
        if learned.replaced && !changed {
            changed = true;
            self.all_changed(&node, Version::of(&stat));
        }
        Ok(FoundNode { node, stat, changed })
    }

    /// Creates something without contents.
    pub(crate) fn make(
        &self,
        parent: u64,
        name: &OsStr,
        new: New<'_>,
        by: Caller,
    ) -> Result<FoundNode, Errno> {
        let directory = self.nodes.get(parent)?.reach()?;
        let made = {
            let mode = |mode, mask| effective_mode(&directory, mode, mask);
            let _caller = AsCaller::new(by.uid, by.gid);
            match new {
                New::Directory { mode: wanted, mask } => {
                    rustix::fs::mkdirat(&directory, name, mode(wanted, mask))
                }
                New::Node { mode: wanted, mask, device } => {
                    let kind = FileType::from_raw_mode(wanted);
                    rustix::fs::mknodat(&directory, name, kind, mode(wanted, mask), device.into())
                }
                New::Symlink { target } => rustix::fs::symlinkat(target, &directory, name),
            }
        };
        made?;
        self.learn(open_path(&directory, name)?, parent, name)
    }

    /// Creates a file and opens it.
    pub(crate) fn create(
        &self,
        parent: u64,
        name: &OsStr,
        (mode, mask): (u32, u32),
        flags: u32,
        by: Caller,
    ) -> Result<(FoundNode, u64), Errno> {
        let directory = self.nodes.get(parent)?.reach()?;
        let created = {
            let mode = effective_mode(&directory, mode, mask);
            let flags =
                open_flags(flags) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let _caller = AsCaller::new(by.uid, by.gid);
            rustix::fs::openat(&directory, name, flags, mode)
        };
        let fd = match created {
            // Another program has created it since the kernel's look-up. Whether the caller may open that
            // file is the kernel's decision: it repeats the look-up on this error.
            Err(Errno::EXIST) if flags & libc::O_EXCL as u32 == 0 => return Err(Errno::STALE),
            created => created?,
        };
        let fd = self.unless_last(fd).inspect_err(|_| {
            // The file is still unknown to any program.
            let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
        })?;
        let found = self.learn(crate::fs::anchor::reopen(&fd, OFlags::PATH)?, parent, name)?;
        match self.opened(&found, fd, flags, by, |_| Err(Errno::OPNOTSUPP.into())) {
            (handle, Means::Cached) => Ok((found, handle)),
            // Another handle was opened meanwhile, and passed through: the answer to a creation cannot report
            // that.
            (handle, _) => {
                self.release(handle);
                Err(Errno::IO)
            }
        }
    }

    /// Links another name to a file.
    pub(crate) fn link(&self, id: u64, parent: u64, name: &OsStr, by: Caller) -> Result<FoundNode, Errno> {
        let directory = self.nodes.get(parent)?.reach()?;
        let node = self.nodes.get(id)?;
        let fd = node.reach()?;
        touching(&node, &fd, || {
            let _caller = AsCaller::new(by.uid, by.gid);
            rustix::fs::linkat(&fd, "", &directory, name, AtFlags::EMPTY_PATH)
        })?;
        self.learn(open_path(&directory, name)?, parent, name)
    }

    /// Removes a name.
    pub(crate) fn unlink(&self, parent: u64, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        let directory = self.nodes.get(parent)?.reach()?;
        let named = self.known(&directory, name);
        rustix::fs::unlinkat(&directory, name, flags)?;
        named.into_iter().for_each(Named::keep);
        Ok(())
    }

    /// Renames.
    pub(crate) fn rename(
        &self,
        (from, name): (u64, &OsStr),
        (to, new_name): (u64, &OsStr),
        flags: u32,
        by: Caller,
    ) -> Result<(), Errno> {
        let from = self.nodes.get(from)?.reach()?;
        let to = self.nodes.get(to)?.reach()?;
        let named = [self.known(&from, name), self.known(&to, new_name)];
        {
            let _caller = AsCaller::new(by.uid, by.gid);
            rustix::fs::renameat_with(&from, name, &to, new_name, RenameFlags::from_bits_retain(flags))?;
        }
        named.into_iter().flatten().for_each(Named::keep);
        Ok(())
    }

    /// The file of this name, if the kernel knows it.
    fn known(&self, directory: &impl AsFd, name: &OsStr) -> Option<Named> {
        let fd = open_path(directory, name).ok()?;
        let before = stat_of(&fd).ok()?;
        let node = self.nodes.find(&before)?;
        Some(Named { node, fd, before })
    }

    pub(crate) fn read_link(&self, id: u64) -> Result<Vec<u8>, Errno> {
        let fd = self.nodes.get(id)?.reach()?;
        rustix::fs::readlinkat(&fd, "", Vec::new()).map(std::ffi::CString::into_bytes)
    }
}

/// A file whose name is about to change.
struct Named {
    node: Arc<Node>,
    fd: OwnedFd,
    before: Stat,
}

impl Named {
    /// The name has changed. Programs that have the file open, or are in the directory, can continue to use
    /// it even if that was its last name.
    fn keep(self) {
        let Ok(after) = stat_of(&self.fd) else { return };
        if let Some(mut known) = self.node.known_if_quiet() {
            known.touched(&self.before, &after);
        }
        let is_directory = FileType::from_raw_mode(after.st_mode) == FileType::Directory;
        // A directory without names has no links on most file systems and one on some.
        if after.st_nlink == 0 || (is_directory && after.st_nlink < 2) {
            self.node.hold(Arc::new(self.fd));
        }
    }
}

// Attributes.
impl Source {
    /// A file's attributes.
    pub(crate) fn attributes(&self, id: u64, handle: Option<u64>) -> Result<FoundNode, Errno> {
        if let Some(opened) = handle.and_then(|handle| self.files.get(handle).ok()) {
            let (stat, changed) = self.look(&opened.node, &*opened.file)?;
            return Ok(FoundNode { node: Arc::clone(&opened.node), stat, changed });
        }
        let node = self.nodes.get(id)?;
        let fd = node.reach()?;
        let (stat, changed) = if node.is_file { self.look(&node, &fd)? } else { (stat_of(&fd)?, false) };
        Ok(FoundNode { node, stat, changed })
    }

    /// Checks whether another program has changed a regular file since the last check.
    pub(crate) fn look(&self, node: &Node, fd: &impl AsFd) -> Result<(Stat, bool), Errno> {
        // During a change through the mount, the checks before and after it suffice.
        let Some(mut known) = node.known_if_quiet() else { return Ok((stat_of(fd)?, false)) };
        let stat = stat_of(fd)?;
        let changed = known.observe(&stat);
        if changed {
            self.all_changed(node, Version::of(&stat));
        }
        Ok((stat, changed))
    }

    /// Another program has changed a file: nothing known about it holds. The caller invalidates the kernel's
    /// cache.
    fn all_changed(&self, node: &Node, version: Version) {
        self.external_changes.fetch_add(1, Relaxed);
        self.reads.changed(Change { object: node.object(), range: None, version });
    }

    /// Checks every open file, and has the kernel drop the pages of those that another program has changed.
    pub(crate) fn look_at_open_files(&self) {
        for opened in self.files.all() {
            if let Ok((_, true)) = self.look(&opened.node, &*opened.file) {
                self.kernel.forget_pages(opened.node.id, None);
            }
        }
    }

    pub(crate) fn set_attributes(
        &self,
        id: u64,
        handle: Option<u64>,
        set: SetAttributes,
        by: Caller,
    ) -> Result<FoundNode, Errno> {
        let opened = handle.and_then(|handle| self.files.get(handle).ok());
        let node =
            opened.as_ref().map_or_else(|| self.nodes.get(id), |opened| Ok(Arc::clone(&opened.node)))?;
        let path;
        let fd = match &opened {
            Some(opened) => opened.file.as_fd(),
            None => {
                path = node.reach()?;
                path.as_fd()
            }
        };
        if node.is_file {
            self.change(&node, &fd, |before| {
                let writable = opened.as_deref().filter(|opened| opened.writes);
                let result = set_on(&node, fd, writable, set, by);
                let old = before.st_size.cast_unsigned();
                let new = if result.is_ok() { set.size.unwrap_or(old) } else { old };
                (result, span(old.min(new), old.max(new)))
            })?;
        } else {
            set_on(&node, fd, None, set, by)?;
        }
        Ok(FoundNode { stat: stat_of(&fd)?, node, changed: false })
    }

    /// Gets an attribute's value; only its length if there is no room for it.
    pub(crate) fn get_xattr(&self, id: u64, name: &OsStr, value: &mut [u8]) -> Result<usize, Errno> {
        let fd = self.nodes.get(id)?.reach()?;
        let path = proc_path(&fd);
        if value.is_empty() {
            return rustix::fs::getxattr_query(path.as_str(), name);
        }
        rustix::fs::getxattr(path.as_str(), name, value)
    }

    /// Gets the names of all attributes; only their length if there is no room for them.
    pub(crate) fn list_xattrs(&self, id: u64, names: &mut [u8]) -> Result<usize, Errno> {
        let fd = self.nodes.get(id)?.reach()?;
        let path = proc_path(&fd);
        if names.is_empty() {
            return rustix::fs::listxattr_query(path.as_str());
        }
        rustix::fs::listxattr(path.as_str(), names)
    }

    pub(crate) fn set_xattr(
        &self,
        id: u64,
        name: &OsStr,
        value: &[u8],
        flags: u32,
        by: Caller,
    ) -> Result<(), Errno> {
        let node = self.nodes.get(id)?;
        let fd = node.reach()?;
        let flags = rustix::fs::XattrFlags::from_bits_retain(flags);
        let path = proc_path(&fd);
        touching(&node, &fd, || {
            let _caller = AsCaller::new(by.uid, by.gid);
            rustix::fs::setxattr(path.as_str(), name, value, flags)
        })
    }

    pub(crate) fn remove_xattr(&self, id: u64, name: &OsStr) -> Result<(), Errno> {
        let node = self.nodes.get(id)?;
        let fd = node.reach()?;
        touching(&node, &fd, || rustix::fs::removexattr(proc_path(&fd).as_str(), name))
    }
}

// Contents.
impl Source {
    /// Opens a file; `register` registers it with the kernel if it is passed through.
    pub(crate) fn open(
        &self,
        id: u64,
        flags: u32,
        by: Caller,
        register: impl FnOnce(&File) -> std::io::Result<BackingId>,
    ) -> Result<(FoundNode, u64, Means), Errno> {
        let node = self.nodes.get(id)?;
        let fd = self.with_descriptors_awaited(|| node.open(open_flags(flags))).inspect_err(|errno| {
            if *errno == Errno::STALE {
                node.known().unsettle();
            }
        })?;
        let (stat, changed) = self.look(&node, &fd)?;
        let found = FoundNode { node, stat, changed };
        let (handle, means) = self.opened(&found, fd, flags, by, register);
        Ok((found, handle, means))
    }

    /// Opens a file for a program. If descriptors are short because the kernel has not yet forgotten the
    /// names that it was asked to forget, this waits for it.
    fn with_descriptors_awaited(&self, open: impl Fn() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
        let begun = Instant::now();
        loop {
            let opened = open().and_then(|fd| self.unless_last(fd));
            let is_short = matches!(opened, Err(Errno::NFILE | Errno::MFILE));
            if !is_short || begun.elapsed() > FORGETTING || !self.nodes.are_asked_back() {
                return opened;
            }
            std::thread::sleep(FORGETTING_STEP);
        }
    }

    /// Keeps a descriptor for an open of a program, unless it is one of the last. The kernel gives the lowest
    /// free number: a high one shows that nearly all are in use.
    pub(crate) fn unless_last(&self, fd: OwnedFd) -> Result<OwnedFd, Errno> {
        let walks = self.walks.as_ref().map_or(0, |_| DESCRIPTORS);
        let kept = (DESCRIPTORS_KEPT + walks).min(self.descriptors / DESCRIPTORS_SHARE);
        let is_last = fd.as_raw_fd() as u64 + kept >= self.descriptors;
        if is_last { Err(Errno::NFILE) } else { Ok(fd) }
    }

    fn opened(
        &self,
        found: &FoundNode,
        fd: OwnedFd,
        flags: u32,
        by: Caller,
        register: impl FnOnce(&File) -> std::io::Result<BackingId>,
    ) -> (u64, Means) {
        let FoundNode { node, stat, .. } = found;
        let access = flags & libc::O_ACCMODE as u32;
        let writes = access != libc::O_RDONLY as u32;
        let reads_only = !writes && flags & (libc::O_DIRECT | libc::O_TRUNC) as u32 == 0;
        let file = Arc::new(File::from(fd));
        let version = Version::of(stat);
        let brought =
            if access == libc::O_WRONLY as u32 { Bytes::ZERO } else { self.report_to_walks(node, stat, by) };
        let aside = access != libc::O_WRONLY as u32 && node.is_file && self.reads.steps_aside();
        let pass = || self.passthrough.pass(&file, version.length, aside, register);
        let means = node.io.open(reads_only, pass, || self.kernel.forget_pages(node.id, None));
        let (object, pid) = (node.object(), ProcessId(by.pid));
        let opened = OpenedFile { object, version, file: Arc::clone(&file), pid, writes };
        let reads = match &means {
            _ if access == libc::O_WRONLY as u32 => ReadRoute::None,
            Means::Cached if aside => ReadRoute::Plain(self.plain.opened(opened)),
            Means::Cached => ReadRoute::Path(self.open_reads(opened, brought)),
            Means::Passed(_) | Means::Direct(_) => ReadRoute::Below,
        };
        let cached = matches!(means, Means::Cached);
        if cached && access != libc::O_WRONLY as u32 {
            let others = self.files.len();
            let runs = stat.st_mode & EXECUTABLE != 0;
            self.windows.opened(by.pid, &file, version.length, runs, others);
        }
        if matches!(means, Means::Passed(_)) && !aside {
            self.passthrough.count();
        }
        (self.files.add(OpenFile { node: Arc::clone(node), file, reads, writes, cached, by }), means)
    }

    /// A file is opened for reading: reports that to the read-ahead for walks, and returns how much of it was
    /// read ahead.
    fn report_to_walks(&self, node: &Node, stat: &Stat, by: Caller) -> Bytes {
        let reported = self.walks.as_ref().zip(node.directory()).filter(|_| node.is_file);
        reported.map_or(Bytes::ZERO, |(walks, directory)| walks.file_opened(by.pid, directory, stat))
    }

    /// The reads of an opened file. A file that may be in memory is registered with the read path once it
    /// turns out not to be.
    fn open_reads(&self, opened: OpenedFile, brought: Bytes) -> OpenReads {
        let small = self.walks.is_some() && opened.version.length <= SMALL;
        let in_memory = if small { SMALL } else { brought };
        let stream = OnceLock::new();
        if in_memory.is_zero() {
            stream.get_or_init(|| self.reads.opened(opened));
        }
        OpenReads { stream, in_memory, brought }
    }

    /// Answers a read of an open file.
    pub(crate) fn read(&self, handle: u64, range: ByteSpan, pid: ProcessId, answer: Answer) {
        let opened = match self.files.get(handle) {
            Ok(opened) => opened,
            Err(errno) => return answer.fail(errno),
        };
        if range.is_empty() {
            return answer.data(&[]);
        }
        let reads = match &opened.reads {
            ReadRoute::None => return answer.fail(Errno::BADF),
            ReadRoute::Below => {
                // It has answered in either case.
                let _ = answer_from(&opened.file, range, answer);
                return;
            }
            ReadRoute::Plain(stream) => return self.read_by(&self.plain, *stream, range, pid, answer),
            ReadRoute::Path(reads) => reads,
        };
        let mut answer = Some(answer);
        if range.end <= ByteOffset::ZERO + reads.in_memory {
            let comes = range.end <= ByteOffset::ZERO + reads.brought;
            let take = |bytes: &[u8]| answer.take().into_iter().for_each(|answer| answer.data(bytes));
            if self.from_memory.read(&opened.file, range, comes, take).is_some() {
                self.read_from_memory.fetch_add(1, Relaxed);
                return;
            }
        }
        let Some(answer) = answer else { return };
        match self.stream(&opened, reads, pid) {
            Ok(stream) => self.read_by(&*self.reads, stream, range, pid, answer),
            Err(errno) => answer.fail(errno),
        }
    }

    /// Has a read path answer a read, with the call that it is a part of.
    fn read_by(&self, by: &dyn ReadPath, stream: StreamId, range: ByteSpan, pid: ProcessId, answer: Answer) {
        let asks = is_whole_window(range.pages()) && by.asks_for_call(stream, range);
        let call = if asks { self.windows.look(pid, range) } else { None };
        by.read(ReadRequest { stream, range, pid, call }, answer);
    }

    /// The stream of an open file's reads.
    fn stream(&self, opened: &OpenFile, reads: &OpenReads, pid: ProcessId) -> Result<StreamId, Errno> {
        if let Some(stream) = reads.stream.get() {
            return Ok(*stream);
        }
        // It may have changed since it was opened.
        let (stat, changed) = self.look(&opened.node, &*opened.file)?;
        if changed {
            self.kernel.forget_pages(opened.node.id, None);
        }
        let (object, version) = (opened.node.object(), Version::of(&stat));
        let (file, writes) = (Arc::clone(&opened.file), opened.writes);
        let opened = OpenedFile { object, version, file, pid, writes };
        Ok(*reads.stream.get_or_init(|| self.reads.opened(opened)))
    }

    pub(crate) fn release(&self, handle: u64) {
        let Ok(opened) = self.files.get(handle) else { return };
        opened.node.io.close();
        match &opened.reads {
            ReadRoute::None | ReadRoute::Below => {}
            ReadRoute::Plain(stream) => self.plain.closed(*stream),
            ReadRoute::Path(reads) => {
                reads.stream.get().into_iter().for_each(|stream| self.reads.closed(*stream))
            }
        }
        // Last, so that a file counts as open until its mode and its stream have ended.
        self.files.remove(handle);
    }

    /// Changes a file's bytes; `make` gets the state before the change and returns the bytes that changed.
    fn change<T>(
        &self,
        node: &Node,
        fd: &impl AsFd,
        make: impl FnOnce(&Stat) -> (Result<T, Errno>, Option<ByteSpan>),
    ) -> Result<T, Errno> {
        let mut known = node.known();
        let before = stat_of(fd)?;
        let foreign = known.observe(&before);
        let (result, range) = make(&before);
        let version = Version::of(&stat_of(fd)?);
        known.set(version);
        if foreign || range.is_none() {
            self.all_changed(node, version);
            self.kernel.forget_pages(node.id, None);
        } else {
            self.reads.changed(Change { object: node.object(), range, version });
        }
        result
    }

    pub(crate) fn write(&self, handle: u64, write: Write<'_>) -> Result<u32, Errno> {
        let opened = self.files.get(handle)?;
        let file = &*opened.file;
        let written = self.change(&opened.node, file, |before| {
            // For a store into a mapping, the opener of the file stands for the program that stored.
            let by = write.by.unwrap_or(opened.by);
            let old = before.st_size.cast_unsigned();
            let result = AsCaller::write(by.uid, by.gid, write.kill_privileges, || put(file, &write));
            let done = *result.as_ref().unwrap_or(&0) as u64;
            // Bytes between the old end and the write change as well: they read as zero.
            let range = span(old.min(write.offset), write.offset + done);
            let at_end = !write.append || old == write.offset;
            (result.map(|done| done as u32), range.filter(|_| at_end))
        })?;
        // The kernel syncs where the write goes through the page cache of the mount.
        if !opened.cached && write.flags & libc::O_DSYNC as u32 != 0 {
            sync(file, write.flags & libc::O_SYNC as u32 != libc::O_SYNC as u32)?;
        }
        Ok(written)
    }

    pub(crate) fn sync(&self, handle: u64, data_only: bool) -> Result<(), Errno> {
        let opened = self.files.get(handle)?;
        sync(&*opened.file, data_only)
    }

    /// A descriptor of an open file is closed. Some file systems (NFS) report a failed write only then.
    pub(crate) fn flush(&self, handle: u64) -> Result<(), Errno> {
        let opened = self.files.get(handle)?;
        if opened.writes { crate::fs::handles::close_copy(&*opened.file) } else { Ok(()) }
    }

    pub(crate) fn allocate(
        &self,
        handle: u64,
        (offset, length): (u64, u64),
        mode: u32,
        by: Caller,
    ) -> Result<(), Errno> {
        let opened = self.files.get(handle)?;
        let file = &*opened.file;
        self.change(&opened.node, file, |before| {
            let mode = FallocateFlags::from_bits_retain(mode);
            let allocate = || rustix::fs::fallocate(file, mode, offset, length);
            let result = AsCaller::write(by.uid, by.gid, by.uid != 0, allocate);
            let old = before.st_size.cast_unsigned();
            (result, span(old.min(offset), offset.saturating_add(length)))
        })
    }

    pub(crate) fn copy(
        &self,
        (from, from_offset): (u64, u64),
        (to, to_offset): (u64, u64),
        length: u64,
        by: Caller,
    ) -> Result<u32, Errno> {
        let from = self.files.get(from)?;
        let to = self.files.get(to)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(COPY_LIMIT);
        self.change(&to.node, &*to.file, |before| {
            let result = AsCaller::write(by.uid, by.gid, by.uid != 0, || {
                let (mut read, mut written) = (from_offset, to_offset);
                let (read, written) = (Some(&mut read), Some(&mut written));
                rustix::fs::copy_file_range(&*from.file, read, &*to.file, written, length)
            });
            let done = *result.as_ref().unwrap_or(&0) as u64;
            let old = before.st_size.cast_unsigned();
            (result.map(|done| done as u32), span(old.min(to_offset), to_offset + done))
        })
    }

    /// Finds the next data or hole.
    pub(crate) fn seek(&self, handle: u64, offset: i64, whence: i32) -> Result<i64, Errno> {
        let opened = self.files.get(handle)?;
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let to = match whence {
            libc::SEEK_DATA => SeekFrom::Data(offset),
            libc::SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        // The file's position is otherwise unused: all reads and writes are at an offset.
        rustix::fs::seek(&*opened.file, to).map(u64::cast_signed)
    }
}

/// Sets attributes of an open file, with `O_PATH` or otherwise.
fn set_on(
    node: &Node,
    fd: BorrowedFd<'_>,
    writable: Option<&OpenFile>,
    set: SetAttributes,
    by: Caller,
) -> Result<(), Errno> {
    if set.uid.is_some() || set.gid.is_some() {
        let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
        let _caller = AsCaller::new(by.uid, by.gid);
        rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)?;
    }
    if let Some(mode) = set.mode {
        rustix::fs::chmod(proc_path(&fd).as_str(), Mode::from_raw_mode(mode))?;
    }
    if let Some(size) = set.size {
        let _caller = (by.uid != 0).then(|| AsCaller::without_fsetid(by.uid, by.gid));
        match writable {
            Some(opened) => rustix::fs::ftruncate(&*opened.file, size)?,
            None => rustix::fs::ftruncate(node.open(OFlags::WRONLY)?, size)?,
        }
    }
    if set.access.tv_nsec != UTIME_OMIT || set.modification.tv_nsec != UTIME_OMIT {
        let times = Timestamps { last_access: set.access, last_modification: set.modification };
        rustix::fs::utimensat(CWD, proc_path(&fd).as_str(), &times, AtFlags::empty())?;
    }
    Ok(())
}

/// Does something that changes a file's `ctime` and leaves its contents alone.
fn touching<T>(node: &Node, fd: &impl AsFd, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let before = stat_of(fd)?;
    let result = act()?;
    if node.is_file
        && let (Ok(after), Some(mut known)) = (stat_of(fd), node.known_if_quiet())
    {
        known.touched(&before, &after);
    }
    Ok(result)
}

/// Writes all of it; less only where an error followed a part.
fn put(file: &File, write: &Write<'_>) -> Result<usize, Errno> {
    let mut done = 0;
    while done < write.data.len() {
        let rest = &write.data[done..];
        let offset = write.offset + done as u64;
        let put = if write.append {
            rustix::io::pwritev2(file, &[IoSlice::new(rest)], offset, ReadWriteFlags::APPEND)
        } else {
            rustix::io::pwrite(file, rest, offset)
        };
        match put {
            Ok(0) => break,
            Ok(put) => done += put,
            Err(Errno::INTR) => {}
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Writes back what the file system holds of a file.
pub(crate) fn sync(fd: &impl AsFd, data_only: bool) -> Result<(), Errno> {
    if data_only { rustix::fs::fdatasync(fd) } else { rustix::fs::fsync(fd) }
}

fn span(start: u64, end: u64) -> Option<ByteSpan> {
    Some(ByteSpan::new(ByteOffset(start), ByteOffset(end.max(start))))
}

fn open_path(directory: &impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn open_flags(flags: u32) -> OFlags {
    OFlags::from_bits_retain(flags & !OPEN_IGNORED)
}

/// The mode of a new file: a default access list of the directory replaces the mask.
fn effective_mode(directory: &impl AsFd, mode: u32, mask: u32) -> Mode {
    let path = proc_path(directory);
    let has_list = rustix::fs::getxattr_query(path.as_str(), "system.posix_acl_default").is_ok();
    Mode::from_raw_mode(if has_list { mode } else { mode & !mask } & crate::fs::attributes::PERMISSIONS)
}
