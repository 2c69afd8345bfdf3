//! The FUSE file system: receives the kernel's requests, passes them to the [`Source`], replies.
//!
//! The kernel itself does:
//!
//! - permissions, with the caller's groups, capabilities and access lists (`default_permissions`);
//! - locks of both kinds between users of the mount, which it can interrupt and whose deadlocks it finds;
//! - appending, by offset;
//! - special files.
//!
//! It caches pages, for as long as it likes; names and attributes, for [`KEEP`].

use crate::fs::attributes::{attributes, bare_attributes, kind_of, timespec};
use crate::fs::caller::Caller;
use crate::fs::crew::Crew;
use crate::fs::directory::{self, DirectoryEntry};
use crate::fs::nodes::{ROOT, unseen};
use crate::fs::passthrough::{Means, STACK_DEPTH, STACKED};
use crate::fs::source::{FoundNode, New, SetAttributes, Source, Write, fuse, sync};
use crate::read_path::Answer;
use foreseek_seam::ProcessId;
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::AtFlags;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long the kernel may cache names and attributes: changes in the source itself may stay unseen as long.
/// Changes through the mount are seen at once.
pub(crate) const KEEP: Duration = Duration::from_secs(1);
/// Background requests that the kernel may have in flight: as many readers can read ahead at once. fuser's
/// default of 16 would cap the whole mount.
const MAX_BACKGROUND: u16 = 1024;
/// The kernel's own read-ahead. Without it, every request would be one page; with more, the kernel would
/// prefetch in our place.
const READ_AHEAD: Bytes = Bytes::kib(128);
/// The largest write: the kernel's default limit (256 pages).
const MAX_WRITE: Bytes = Bytes::mib(1);
/// The largest value of an extended attribute (`XATTR_SIZE_MAX`).
const XATTR_LIMIT: u32 = 64 << 10;
/// A number is never reused for another file while the kernel knows it.
const GENERATION: Generation = Generation(0);
/// Features requested from the kernel, where it has them.
const WISHES: [InitFlags; 7] = [
    // Several requests of one O_DIRECT read or write in parallel.
    InitFlags::FUSE_ASYNC_DIO,
    // Look-ups and creations in one directory in parallel.
    InitFlags::FUSE_PARALLEL_DIROPS,
    // Attributes along with names, where they are wanted.
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    // The server names the pages to drop: the kernel would otherwise drop all pages after a write through the
    // mount.
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    // Without it each write would be preceded by a request for the file's capabilities.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // Access lists; the server then applies the mask.
    InitFlags::FUSE_POSIX_ACL,
];

/// Passes the kernel's requests to a source.
pub(crate) struct FileSystem {
    pub(crate) source: Arc<Source>,
    /// Whether files in memory are passed through to the kernel.
    pub(crate) passes: bool,
    /// The threads that receive requests.
    pub(crate) crew: Arc<Crew>,
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

impl FileSystem {
    /// Replies with a file that was looked up. If another program has changed it, the reply waits until the
    /// kernel has dropped its pages.
    fn reply_entry(&self, found: Result<FoundNode, rustix::io::Errno>, reply: ReplyEntry) {
        let found = match found {
            Ok(found) => found,
            Err(errno) => return reply.error(fuse(errno)),
        };
        let attributes = attributes(found.node.id, &found.stat);
        let answer = move || reply.entry(&KEEP, &attributes, GENERATION);
        self.after_forgetting(&found, answer);
    }

    fn reply_attributes(&self, id: u64, found: Result<FoundNode, rustix::io::Errno>, reply: ReplyAttr) {
        let found = match found {
            Ok(found) => found,
            Err(errno) => return reply.error(fuse(errno)),
        };
        // The root reports its own number too, although the kernel knows it by another.
        let number = if id == ROOT { found.stat.st_ino } else { found.node.id };
        let attributes = attributes(number, &found.stat);
        self.after_forgetting(&found, move || reply.attr(&KEEP, &attributes));
    }

    /// Answers when the kernel has dropped the pages of a file that another program has changed.
    fn after_forgetting(&self, found: &FoundNode, answer: impl FnOnce() + Send + 'static) {
        if found.changed {
            self.source.kernel.forget_pages(found.node.id, Some(Box::new(answer)));
        } else {
            answer();
        }
    }

    /// Answers an open when the kernel has dropped the pages that the handle must not find: those of before a change,
    /// whoever has noticed it, and those of before the file was passed through.
    fn opens(&self, found: &FoundNode, answer: impl FnOnce() + Send + 'static) {
        if found.changed {
            self.after_forgetting(found, answer);
        } else {
            self.source.kernel.when_forgotten(found.node.id, answer);
        }
    }
}

fn reply_empty(result: Result<(), rustix::io::Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(fuse(errno)),
    }
}

fn reply_written(result: Result<u32, rustix::io::Errno>, reply: ReplyWrite) {
    match result {
        Ok(written) => reply.written(written),
        Err(errno) => reply.error(fuse(errno)),
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let refused = |what: &str| io::Error::other(format!("FUSE refuses {what}"));
        for wish in WISHES {
            if config.add_capabilities(wish).is_err() {
                tracing::info!("the kernel's FUSE does not know {wish:?}");
            }
        }
        // Required: modes are computed without the kernel's help.
        config.add_capabilities(InitFlags::FUSE_DONT_MASK).map_err(|_| refused("to leave the mask to us"))?;
        if self.passes {
            let stacked = self.source.nodes.is_stacked();
            let able = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
                && config.set_max_stack_depth(STACK_DEPTH).is_ok();
            if stacked {
                self.source.passthrough.turn_off(STACKED.to_owned());
            } else if able {
                self.source.passthrough.turn_on();
            } else {
                self.source.passthrough.turn_off("the kernel's FUSE cannot: Linux 6.9 can".to_owned());
            }
        }
        // On an error it returns the nearest value that it accepts.
        let read_ahead = READ_AHEAD.get() as u32;
        config.set_max_readahead(read_ahead).or_else(|most| config.set_max_readahead(most)).ok();
        config.set_max_write(MAX_WRITE.get() as u32).map_err(|_| refused("the size of writes"))?;
        config.set_max_background(MAX_BACKGROUND).map_err(|_| refused("the number of requests"))?;
        config.set_congestion_threshold(MAX_BACKGROUND).map_err(|_| refused("the congestion threshold"))?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _guard = self.crew.request();
        self.reply_entry(self.source.look_up(parent.0, name), reply);
    }

    fn forget(&self, _: &Request, node: INodeNo, lookups: u64) {
        let _guard = self.crew.one_of_several_requests();
        self.source.nodes.forget(node.0, lookups);
    }

    fn getattr(&self, _: &Request, node: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let _guard = self.crew.request();
        let found = self.source.attributes(node.0, handle.map(|handle| handle.0));
        self.reply_attributes(node.0, found, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        access: Option<TimeOrNow>,
        modification: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _guard = self.crew.request();
        let (access, modification) = (timespec(access), timespec(modification));
        let set = SetAttributes { mode, uid, gid, size, access, modification };
        let handle = handle.map(|handle| handle.0);
        let found = self.source.set_attributes(node.0, handle, set, caller(request));
        self.reply_attributes(node.0, found, reply);
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        let _guard = self.crew.request();
        match self.source.read_link(node.0) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(fuse(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let _guard = self.crew.request();
        let new = New::Node { mode, mask, device };
        self.reply_entry(self.source.make(parent.0, name, new, caller(request)), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        reply: ReplyEntry,
    ) {
        let _guard = self.crew.request();
        let new = New::Directory { mode, mask };
        self.reply_entry(self.source.make(parent.0, name, new, caller(request)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _guard = self.crew.request();
        let new = New::Symlink { target };
        self.reply_entry(self.source.make(parent.0, name, new, caller(request)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _guard = self.crew.request();
        reply_empty(self.source.unlink(parent.0, name, AtFlags::empty()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _guard = self.crew.request();
        reply_empty(self.source.unlink(parent.0, name, AtFlags::REMOVEDIR), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _guard = self.crew.request();
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        reply_empty(self.source.rename(from, to, flags.bits(), caller(request)), reply);
    }

    fn link(&self, request: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _guard = self.crew.request();
        self.reply_entry(self.source.link(node.0, parent.0, name, caller(request)), reply);
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _guard = self.crew.request();
        let flags = flags.0.cast_unsigned();
        let opened = self.source.open(node.0, flags, caller(request), |file| reply.open_backing(file));
        match opened {
            // The kernel then caches the file, including its length, as it was when it was opened.
            Ok((found, handle, means)) => {
                self.opens(&found, move || reply_opened(FileHandle(handle), flags, &means, reply));
            }
            Err(errno) => reply.error(fuse(errno)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let _guard = self.crew.request();
        let flags = flags.cast_unsigned();
        match self.source.create(parent.0, name, (mode, mask), flags, caller(request)) {
            Ok((found, handle)) => {
                let attributes = attributes(found.node.id, &found.stat);
                let flags = opened_flags(flags) | FopenFlags::FOPEN_KEEP_CACHE;
                let answer = move || reply.created(&KEEP, &attributes, GENERATION, FileHandle(handle), flags);
                self.opens(&found, answer);
            }
            Err(errno) => reply.error(fuse(errno)),
        }
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _guard = self.crew.request();
        let range = ByteSpan::at(ByteOffset(offset), Bytes(size.into()));
        self.source.read(handle.0, range, ProcessId(request.pid()), Answer::from(reply));
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _guard = self.crew.request();
        // Write-back of a shared mapping is at its offset, whichever program wrote it.
        let mapped = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let write = Write {
            offset,
            data,
            append: flags.0 & libc::O_APPEND != 0 && !mapped,
            by: (!mapped).then(|| caller(request)),
            kill_privileges: how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            flags: flags.0.cast_unsigned(),
        };
        reply_written(self.source.write(handle.0, write), reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let _guard = self.crew.request();
        reply_empty(self.source.flush(handle.0), reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let _guard = self.crew.request();
        self.source.release(handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _guard = self.crew.request();
        let source = Arc::clone(&self.source);
        self.source.slow_operations.run(move || reply_empty(source.sync(handle.0, data_only), reply));
    }

    fn opendir(&self, request: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _guard = self.crew.request();
        match directory::open(&self.source, node.0, ProcessId(request.pid())) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(errno) => reply.error(fuse(errno)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let _guard = self.crew.request();
        let read = directory::read(&self.source, handle.0, offset, |entry, _| {
            let DirectoryEntry { node, name, number, kind, next, .. } = entry;
            reply.add(INodeNo(node.number_of(number)), next, kind_of(kind), name)
        });
        match read {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(fuse(errno)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _guard = self.crew.request();
        let source = &self.source;
        let mut ahead = source.look_ahead.reply();
        let read = directory::read(source, handle.0, offset, |entry, following| {
            let DirectoryEntry { node, directory, name, number, kind, next } = entry;
            if name == "." || name == ".." {
                let unknown = bare_attributes(node.number_of(number), kind);
                return reply.add(unknown.ino, next, name, &Duration::ZERO, &unknown, GENERATION);
            }
            let begun = Instant::now();
            let found = source.look_up_in(&directory, node.id, name);
            ahead.looked_up(begun.elapsed(), following.names(), |name| Source::look_at(directory, name));
            let found = match found {
                Ok(found) => found,
                // It was removed since its name was read.
                Err(rustix::io::Errno::NOENT) => return false,
                // Its name is returned all the same; a request for more than the name gets the error. One
                // such entry is enough for a reply: a failing disk may take seconds for each.
                Err(_) => {
                    let unknown = bare_attributes(unseen(number), kind);
                    reply.add(unknown.ino, next, name, &Duration::ZERO, &unknown, GENERATION);
                    return true;
                }
            };
            if found.changed {
                source.kernel.forget_pages(found.node.id, None);
            }
            let (id, attributes) = (found.node.id, attributes(found.node.id, &found.stat));
            let full = reply.add(INodeNo(id), next, name, &KEEP, &attributes, GENERATION);
            ahead.took(name, full);
            if full {
                source.nodes.forget(id, 1);
            }
            full
        });
        match read {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(fuse(errno)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        let _guard = self.crew.request();
        self.source.directories.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _guard = self.crew.request();
        let source = Arc::clone(&self.source);
        self.source.slow_operations.run(move || {
            let synced = source.directories.get(handle.0).and_then(|opened| {
                sync(&*opened.fd.lock().unwrap_or_else(PoisonError::into_inner), data_only)
            });
            reply_empty(synced, reply);
        });
    }

    fn statfs(&self, _: &Request, node: INodeNo, reply: ReplyStatfs) {
        let _guard = self.crew.request();
        let found = self.source.nodes.get(node.0).and_then(|node| node.reach());
        match found.and_then(rustix::fs::fstatvfs) {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(errno) => reply.error(fuse(errno)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let _guard = self.crew.request();
        let set = self.source.set_xattr(node.0, name, value, flags.cast_unsigned(), caller(request));
        reply_empty(set, reply);
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _guard = self.crew.request();
        reply_xattr(size, reply, |value| self.source.get_xattr(node.0, name, value));
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let _guard = self.crew.request();
        reply_xattr(size, reply, |names| self.source.list_xattrs(node.0, names));
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _guard = self.crew.request();
        reply_empty(self.source.remove_xattr(node.0, name), reply);
    }

    /// Never called: the kernel checks permissions itself.
    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        let _guard = self.crew.request();
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let _guard = self.crew.request();
        reply.error(Errno::ENOTTY);
    }

    /// The kernel then assumes that files are always ready, as regular files are, and sends no more of these
    /// requests.
    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        let _guard = self.crew.request();
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _guard = self.crew.request();
        let (source, by) = (Arc::clone(&self.source), caller(request));
        self.source.slow_operations.run(move || {
            reply_empty(source.allocate(handle.0, (offset, length), mode.cast_unsigned(), by), reply);
        });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _guard = self.crew.request();
        match self.source.seek(handle.0, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(errno) => reply.error(fuse(errno)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _guard = self.crew.request();
        let (source, by) = (Arc::clone(&self.source), caller(request));
        self.source.slow_operations.run(move || {
            reply_written(source.copy((from.0, from_offset), (to.0, to_offset), length, by), reply);
        });
    }
}

fn reply_opened(handle: FileHandle, flags: u32, means: &Means, reply: ReplyOpen) {
    let opened = opened_flags(flags);
    match means {
        Means::Cached => reply.opened(handle, opened | FopenFlags::FOPEN_KEEP_CACHE),
        Means::Passed(backing) => reply.opened_passthrough(handle, opened, backing),
        Means::Direct(backing) => {
            reply.opened_passthrough(handle, opened | FopenFlags::FOPEN_DIRECT_IO, backing);
        }
    }
}

/// What the kernel can omit for an opened file.
fn opened_flags(flags: u32) -> FopenFlags {
    let mut opened = FopenFlags::empty();
    // A file that is open for reading only has no failed writes to report.
    opened.set(FopenFlags::FOPEN_NOFLUSH, flags & libc::O_ACCMODE as u32 == libc::O_RDONLY as u32);
    opened
}

/// Replies with a value, or with its length where `size` is 0.
fn reply_xattr(
    size: u32,
    reply: ReplyXattr,
    get: impl FnOnce(&mut [u8]) -> Result<usize, rustix::io::Errno>,
) {
    let mut value = vec![0; size.min(XATTR_LIMIT) as usize];
    match get(&mut value) {
        Ok(length) if size == 0 => reply.size(length as u32),
        Ok(length) => reply.data(&value[..length]),
        Err(errno) => reply.error(fuse(errno)),
    }
}
