//! File systems of the tests' own with one file, in threads of the test itself.

use fuser::{
    BackgroundSession, Config, FileAttr, FileType, Filesystem, Generation, INodeNo, MountOption, ReplyAttr,
    ReplyEntry, SessionACL,
};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// The file's name.
pub(crate) const FILE: &str = "file";
const NODE: INodeNo = INodeNo(2);
/// The kernel keeps no attributes: changes are visible at once.
const KEEP: Duration = Duration::ZERO;

/// The state of the file, from which its attributes follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) length: u64,
    /// How often it has changed.
    pub(crate) changes: u64,
}

impl Shape {
    fn attributes(self, node: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match node {
            INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            NODE => (FileType::RegularFile, 0o644, self.length),
            _ => return None,
        };
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000 + self.changes);
        Some(FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Answers a look-up.
    pub(crate) fn look_up(self, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(NODE) {
            Some(file) if parent == INodeNo::ROOT && name == FILE => reply.entry(&KEEP, &file, Generation(0)),
            _ => reply.error(fuser::Errno::ENOENT),
        }
    }

    /// Answers a request for attributes.
    pub(crate) fn stat(self, node: INodeNo, reply: ReplyAttr) {
        match self.attributes(node) {
            Some(attributes) => reply.attr(&KEEP, &attributes),
            None => reply.error(fuser::Errno::ENOENT),
        }
    }
}

/// A served file system; it is unmounted when dropped.
pub(crate) struct Served(Option<BackgroundSession>);

impl Served {
    pub(crate) fn mount(server: impl Filesystem, point: &Path, name: &str, options: &[MountOption]) -> Self {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName(name.to_owned())];
        config.mount_options.extend_from_slice(options);
        config.acl = SessionACL::All;
        config.n_threads = Some(4);
        Self(Some(fuser::spawn_mount(server, point, &config).expect("mounted")))
    }

    /// Unmounts it; dropping a session does not.
    pub(crate) fn end(&mut self) {
        if let Some(session) = self.0.take()
            && let Err(error) = session.umount_and_join()
        {
            println!("unmount: {error}");
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}
