//! A FUSE file system with one file, `disk`, under its root.

use crate::server::{DataReply, DoneReply, Failure, Request, Server};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, PAGE_SIZE, SECTOR_SIZE};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// The largest request: the loop driver's 1280 KiB, and 64 KiB more so that a request whose memory is not
/// aligned to pages is not split.
pub const REQUEST_LIMIT: Bytes = Bytes::kib(1280 + 64);
/// The file's name.
pub(crate) const FILE: &str = "disk";
const FILE_NODE: INodeNo = INodeNo(2);
/// The file's attributes never change.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);
/// Requests that the kernel may have in flight: more than the loop driver's 128 tags, so that this limit is
/// never reached. fuser's default of 16 would cap the whole device.
const MAX_BACKGROUND: u16 = 1024;

/// Passes the requests for the file to a server.
pub(crate) struct FuseFile {
    pub(crate) server: Arc<dyn Server>,
    pub(crate) size: Bytes,
}

impl FuseFile {
    fn attributes(&self, node: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match node {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            FILE_NODE => (FileType::RegularFile, 0o600, self.size.get()),
            _ => return None,
        };
        Some(FileAttr {
            ino: node,
            size,
            blocks: size / SECTOR_SIZE,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: PAGE_SIZE as u32,
            flags: 0,
        })
    }

    /// The requested bytes, if the file has them all.
    fn range(&self, node: INodeNo, offset: u64, length: u64) -> Option<ByteSpan> {
        let end = offset.checked_add(length)?;
        let fits = node == FILE_NODE && length > 0 && end <= self.size.get();
        fits.then_some(ByteSpan::new(ByteOffset(offset), ByteOffset(end)))
    }
}

impl Filesystem for FuseFile {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without this flag the file gets one direct request at a time.
        let wanted = InitFlags::FUSE_ASYNC_DIO;
        config
            .add_capabilities(wanted)
            .map_err(|_| io::Error::other("the kernel's FUSE has no asynchronous direct I/O"))?;
        let refused = |what: &str| io::Error::other(format!("FUSE refuses {what}"));
        config.set_max_write(REQUEST_LIMIT.get() as u32).map_err(|_| refused("the request size"))?;
        config.set_max_background(MAX_BACKGROUND).map_err(|_| refused("the number of requests"))?;
        config.set_congestion_threshold(MAX_BACKGROUND).map_err(|_| refused("the congestion threshold"))?;
        Ok(())
    }

    fn lookup(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE_NODE) {
            Some(file) if parent == INodeNo::ROOT && name == FILE => {
                reply.entry(&FOR_EVER, &file, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &fuser::Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(node) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// For programs that traverse `/run`.
    fn readdir(
        &self,
        _: &fuser::Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if node != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let (folder, file) = (FileType::Directory, FileType::RegularFile);
        let entries = [(node, folder, "."), (node, folder, ".."), (FILE_NODE, file, FILE)];
        for (at, (node, kind, name)) in (0u64..).zip(entries).skip(offset.min(3) as usize) {
            if reply.add(node, at + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &fuser::Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if node == FILE_NODE {
            // Not cached, and several writers at a time: the loop device orders what needs order.
            let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
            reply.opened(FileHandle(0), flags);
        } else {
            reply.error(Errno::EISDIR);
        }
    }

    fn statfs(&self, _: &fuser::Request, _: INodeNo, reply: ReplyStatfs) {
        // The loop driver uses the block size as the unit of discards.
        let blocks = self.size.get() / PAGE_SIZE;
        reply.statfs(blocks, 0, 0, 1, 0, PAGE_SIZE as u32, 255, PAGE_SIZE as u32);
    }

    /// The kernel asks once for security labels and, after this error, not again.
    fn getxattr(&self, _: &fuser::Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &fuser::Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.size.get().saturating_sub(offset);
        match self.range(node, offset, left.min(size.into())) {
            Some(range) => self.server.serve(Request::Read { range, reply: DataReply::fuse(reply) }),
            None => reply.data(&[]),
        }
    }

    fn write(
        &self,
        _: &fuser::Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.range(node, offset, data.len() as u64) {
            Some(range) => {
                let reply = DoneReply::written(reply, data.len() as u32);
                self.server.serve(Request::Write { range, data, reply });
            }
            None => reply.error(Errno::EFBIG),
        }
    }

    fn fsync(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.server.serve(Request::Flush { reply: DoneReply::empty(reply) });
    }

    /// Called at every close of the file; there is nothing to write back.
    fn flush(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &fuser::Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        match self.range(node, offset, length) {
            // Zeroing that keeps the space is left to the kernel, which then writes zeros, as it would to a
            // disk.
            _ if mode != punch => reply.error(Failure::Unsupported.into()),
            Some(range) => {
                self.server.serve(Request::Discard { range, reply: DoneReply::empty(reply) });
            }
            None => reply.error(Errno::EINVAL),
        }
    }
}
