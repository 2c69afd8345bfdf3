//! How a file of the source is found again: by a handle, or by a descriptor.
//!
//! The kernel may know millions of files through the mount. One descriptor for each would exceed the limit,
//! and would keep the space of files that other programs delete. If the file system gives file handles
//! (`name_to_handle_at`: ext4, xfs, btrfs, tmpfs and others), a file is remembered by its handle and opened
//! for each operation. If it does not (overlayfs, most FUSE), an `O_PATH` descriptor stays open. A file that
//! is unlinked while it is in use is held by a descriptor in any case.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// The longest handle of the kernel (`MAX_HANDLE_SZ`).
const HANDLE_LIMIT: usize = 128;
/// How often a handle is retried for which the kernel reports ENOMEM. It reports that, too, where the file is
/// gone and a file with the same inode number is just being made. Making it takes microseconds, or a commit
/// of the journal.
const TRIES: u32 = 20;
/// The pause between tries: all of them are some tens of milliseconds.
const PAUSE: Duration = Duration::from_millis(2);

/// A reference by which a file can be opened again.
#[derive(Clone, Debug)]
pub(crate) enum Anchor {
    /// A descriptor opened with `O_PATH`.
    Fd(Arc<OwnedFd>),
    /// A handle, valid on the volume of the file.
    Handle(Handle),
}

/// `struct file_handle` with room for any handle.
#[repr(C)]
#[derive(Clone)]
struct RawHandle {
    bytes: u32,
    kind: i32,
    data: [u8; HANDLE_LIMIT],
}

/// A file's handle: it names one file for ever, even when its inode number is reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    kind: i32,
    data: Box<[u8]>,
}

impl Handle {
    /// The handle of the file that is open here; `None` where its file system has no handles.
    fn of(fd: &impl AsFd) -> Option<Self> {
        let mut raw = RawHandle { bytes: HANDLE_LIMIT as u32, kind: 0, data: [0; HANDLE_LIMIT] };
        let mut mount_id: libc::c_int = 0;
        // SAFETY: the path is empty and ends in a nul; the handle states its true capacity; both outlive the
        // call.
        let done = unsafe {
            libc::name_to_handle_at(
                fd.as_fd().as_raw_fd(),
                c"".as_ptr(),
                (&raw mut raw).cast(),
                &raw mut mount_id,
                libc::AT_EMPTY_PATH,
            )
        };
        let data = raw.data.get(..raw.bytes as usize).filter(|_| done == 0)?;
        Some(Self { kind: raw.kind, data: data.into() })
    }

    /// Opens the file on its volume.
    fn open(&self, volume: &impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut raw = RawHandle { bytes: self.data.len() as u32, kind: self.kind, data: [0; HANDLE_LIMIT] };
        raw.data[..self.data.len()].copy_from_slice(&self.data);
        let flags = (flags | OFlags::CLOEXEC).bits().cast_signed();
        let mut left = TRIES;
        let fd = loop {
            // SAFETY: the handle states its true length and outlives the call.
            let fd =
                unsafe { libc::open_by_handle_at(volume.as_fd().as_raw_fd(), (&raw mut raw).cast(), flags) };
            if fd >= 0 {
                break fd;
            }
            let error = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
            left -= 1;
            if error != Errno::NOMEM || left == 0 {
                return Err(error);
            }
            std::thread::sleep(PAUSE);
        };
        // SAFETY: the kernel gave this descriptor to us alone.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// A file system within the source, by `st_dev`.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) device: u64,
    /// Its index in the list of volumes.
    pub(crate) index: u64,
    /// A descriptor at which handles are opened; `None` where the file system has no handles.
    root: Option<OwnedFd>,
}

impl Volume {
    /// The volume of an open directory or regular file. `use_handles` is false only in tests.
    pub(crate) fn new(fd: &impl AsFd, stat: &Stat, index: u64, use_handles: bool) -> Self {
        let root = use_handles.then(|| handle_root(fd, stat)).flatten();
        Self { device: stat.st_dev, index, root }
    }

    /// Whether files are remembered without descriptors.
    pub(crate) fn has_handles(&self) -> bool {
        self.root.is_some()
    }

    /// An anchor for the file that is open here with `O_PATH`.
    pub(crate) fn anchor(&self, fd: &Arc<OwnedFd>) -> Anchor {
        match self.root.as_ref().and_then(|_| Handle::of(&**fd)) {
            Some(handle) => Anchor::Handle(handle),
            None => Anchor::Fd(Arc::clone(fd)),
        }
    }

    /// The anchored file as an `O_PATH` descriptor.
    pub(crate) fn reach(&self, anchor: &Anchor) -> Result<Arc<OwnedFd>, Errno> {
        match (anchor, &self.root) {
            (Anchor::Fd(fd), _) => Ok(Arc::clone(fd)),
            (Anchor::Handle(handle), Some(root)) => handle.open(root, OFlags::PATH).map(Arc::new),
            (Anchor::Handle(_), None) => Err(Errno::STALE),
        }
    }

    /// Opens the anchored file with these flags.
    pub(crate) fn open(&self, anchor: &Anchor, flags: OFlags) -> Result<OwnedFd, Errno> {
        match (anchor, &self.root) {
            (Anchor::Handle(handle), Some(root)) => handle.open(root, flags),
            (Anchor::Fd(fd), _) => reopen(fd, flags),
            (Anchor::Handle(_), None) => Err(Errno::STALE),
        }
    }
}

/// A descriptor at which handles of the volume can be opened, if that works.
fn handle_root(fd: &impl AsFd, stat: &Stat) -> Option<OwnedFd> {
    // Only for these types an open is known to have no effect and not to wait.
    if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::Directory | FileType::RegularFile) {
        return None;
    }
    let root = reopen(fd, OFlags::RDONLY).ok()?;
    let again = Handle::of(fd)?.open(&root, OFlags::PATH).ok()?;
    let found = rustix::fs::fstat(&again).ok()?;
    ((found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino)).then_some(root)
}

/// Opens what an `O_PATH` descriptor names.
pub(crate) fn reopen(fd: &impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(proc_path(fd).as_str(), flags | OFlags::CLOEXEC, Mode::empty())
}

/// A path by which calls that take no descriptor reach an open file, whatever its name.
pub(crate) fn proc_path(fd: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// The attributes of an open file.
pub(crate) fn stat_of(fd: &impl AsFd) -> Result<Stat, Errno> {
    rustix::fs::statat(fd, "", AtFlags::EMPTY_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    fn path_fd(path: &Path) -> OwnedFd {
        rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .expect("opened")
    }

    fn volume(path: &Path, use_handles: bool) -> Volume {
        let fd = path_fd(path);
        let stat = stat_of(&fd).expect("attributes");
        Volume::new(&fd, &stat, 0, use_handles)
    }

    #[test]
    fn an_anchor_leads_back_to_its_file_with_and_without_handles() {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::write(place.path().join("a"), "text").expect("written");
        for use_handles in [false, true] {
            let volume = volume(place.path(), use_handles);
            if volume.has_handles() != use_handles {
                println!("SKIPPED: no file handles here (not root, or the file system has none)");
                continue;
            }
            let fd = path_fd(&place.path().join("a"));
            let stat = stat_of(&fd).expect("attributes");
            let anchor = volume.anchor(&Arc::new(fd));
            assert_eq!(matches!(anchor, Anchor::Handle(_)), use_handles);
            let reached = volume.reach(&anchor).expect("reached");
            assert_eq!(stat_of(&reached).expect("attributes").st_ino, stat.st_ino);
            let mut text = String::new();
            let opened = volume.open(&anchor, OFlags::RDONLY).expect("opened");
            std::io::Read::read_to_string(&mut std::fs::File::from(opened), &mut text).expect("read");
            assert_eq!(text, "text");
        }
    }

    #[test]
    fn a_handle_does_not_lead_to_a_later_file_of_the_same_number() {
        let place = tempfile::tempdir().expect("a directory");
        let volume = volume(place.path(), true);
        if !volume.has_handles() {
            return println!("SKIPPED: no file handles here (not root, or the file system has none)");
        }
        let path = place.path().join("a");
        std::fs::write(&path, "one").expect("written");
        let anchor = volume.anchor(&Arc::new(path_fd(&path)));
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, "two").expect("written");
        assert_eq!(volume.open(&anchor, OFlags::RDONLY).err(), Some(Errno::STALE));
    }

    /// While an inode number is being given to a new file, the kernel reports a lack of memory, and not that
    /// the old file is gone.
    #[test]
    fn a_file_that_is_gone_is_gone_while_others_are_made() {
        let place = tempfile::tempdir().expect("a directory");
        let volume = volume(place.path(), true);
        if !volume.has_handles() {
            return println!("SKIPPED: no file handles here (not root, or the file system has none)");
        }
        let (path, over) = (place.path().join("a"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for name in ["b", "c"] {
                let (path, over) = (place.path().join(name), &over);
                scope.spawn(move || {
                    // It ends after a minute even if the other thread has failed.
                    let end = Instant::now() + Duration::from_secs(60);
                    while !over.load(Ordering::Relaxed) && Instant::now() < end {
                        std::fs::write(&path, "more")
                            .and_then(|()| std::fs::remove_file(&path))
                            .expect("made");
                    }
                });
            }
            for _ in 0..500 {
                std::fs::write(&path, "one").expect("written");
                let anchor = volume.anchor(&Arc::new(path_fd(&path)));
                std::fs::remove_file(&path).expect("removed");
                for _ in 0..20 {
                    let error = volume.open(&anchor, OFlags::RDONLY).err();
                    over.store(error != Some(Errno::STALE), Ordering::Relaxed);
                    assert_eq!(error, Some(Errno::STALE));
                }
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
