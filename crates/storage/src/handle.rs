//! File handles (`name_to_handle_at`): they name a file without a path and without holding it open.
//!
//! A handle outlives renames and names nothing once the file is deleted (ESTALE). Opening one needs
//! CAP_DAC_READ_SEARCH, and a descriptor on some mount of the file system.
#![allow(unsafe_code)]

use crate::advice::last_error;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The longest handle of any file system (`MAX_HANDLE_SZ`).
const LONGEST: usize = 128;

/// `FILEID_INO32_GEN` and, with the parent, `FILEID_INO32_GEN_PARENT`: ext2 to ext4, f2fs, jfs.
const INODE_32: [i32; 2] = [1, 2];
/// `FILEID_INO32_GEN | XFS_FILEID_TYPE_64FLAG` and the same with the parent.
const INODE_64: [i32; 2] = [0x81, 0x82];

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileHandle {
    kind: i32,
    bytes: Box<[u8]>,
}

#[repr(C)]
struct Raw {
    length: libc::c_uint,
    kind: libc::c_int,
    bytes: [u8; LONGEST],
}

impl FileHandle {
    /// From its type and its bytes; `None` where there are too many.
    #[must_use]
    pub fn from_parts(kind: i32, bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= LONGEST).then(|| Self { kind, bytes: bytes.into() })
    }

    /// The handle of an open file or directory.
    ///
    /// # Errors
    /// EOPNOTSUPP where the file system has none.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let mut raw = Raw { length: LONGEST as libc::c_uint, kind: 0, bytes: [0; LONGEST] };
        let mut mount = 0;
        // SAFETY: the structure is laid out as `struct file_handle` with space for as many bytes as its
        // `length` says; the path is an empty string; the kernel checks the descriptor.
        let result = unsafe {
            libc::name_to_handle_at(
                fd.as_raw_fd(),
                c"".as_ptr(),
                (&raw mut raw).cast(),
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        if result != 0 {
            return Err(last_error());
        }
        Self::from_parts(raw.kind, raw.bytes.get(..raw.length as usize).ok_or(Errno::OVERFLOW)?)
            .ok_or(Errno::OVERFLOW)
    }

    /// Opens the file through a mount of its file system.
    ///
    /// # Errors
    /// ESTALE where the file is gone, EPERM without CAP_DAC_READ_SEARCH, or another error of the kernel.
    pub fn open(&self, mount: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut raw = Raw { length: self.bytes.len() as libc::c_uint, kind: self.kind, bytes: [0; LONGEST] };
        raw.bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
        let flags = (flags | OFlags::CLOEXEC).bits().cast_signed();
        // SAFETY: the structure is laid out as `struct file_handle` and has as many bytes as it says.
        let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut raw).cast(), flags) };
        if fd < 0 {
            return Err(last_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// The inode number, for types of handles whose layout is known.
    #[must_use]
    pub fn inode(&self) -> Option<u64> {
        if INODE_32.contains(&self.kind) {
            Some(u32::from_ne_bytes(self.bytes.get(..4)?.try_into().ok()?).into())
        } else if INODE_64.contains(&self.kind) {
            Some(u64::from_ne_bytes(self.bytes.get(..8)?.try_into().ok()?))
        } else {
            None
        }
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_handle_names_its_file_after_a_rename_and_nothing_after_its_deletion() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let (path, other) = (place.path().join("a"), place.path().join("b"));
        std::fs::create_dir(&path).unwrap();
        let mount = std::fs::File::open(place.path()).unwrap();
        let fd = std::fs::File::open(&path).unwrap();
        let handle = match FileHandle::of(fd.as_fd()) {
            Ok(handle) => handle,
            Err(error) => {
                println!("SKIPPED: {} has no file handles: {error}", place.path().display());
                return;
            }
        };
        drop(fd);
        let inode = rustix::fs::stat(&path).unwrap().st_ino;
        if let Some(number) = handle.inode() {
            assert_eq!(number, inode);
        }
        std::fs::rename(&path, &other).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match handle.open(mount.as_fd(), flags) {
            Err(Errno::PERM) => println!("SKIPPED: opening by handle needs root"),
            opened => {
                assert_eq!(rustix::fs::fstat(opened.unwrap()).unwrap().st_ino, inode);
                std::fs::remove_dir(&other).unwrap();
                assert_eq!(handle.open(mount.as_fd(), flags).unwrap_err(), Errno::STALE);
            }
        }
    }

    #[test]
    fn a_handle_that_is_too_long_is_none() {
        assert!(FileHandle::from_parts(1, &[0; LONGEST]).is_some());
        assert!(FileHandle::from_parts(1, &[0; LONGEST + 1]).is_none());
        assert_eq!(FileHandle::from_parts(1, &[0; 3]).unwrap().inode(), None);
        assert_eq!(FileHandle::from_parts(0x4d, &[1; 20]).unwrap().inode(), None);
    }
}
