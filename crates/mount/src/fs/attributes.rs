//! Attributes in the format of FUSE, and back.

use fuser::{FileAttr, FileType as FuseType, INodeNo, TimeOrNow};
use rustix::fs::{FileType, Stat, Timespec, UTIME_NOW, UTIME_OMIT};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The permission bits of a mode.
pub(crate) const PERMISSIONS: u32 = 0o7777;

/// A file's attributes, under the number by which the kernel knows it.
pub(crate) fn attributes(id: u64, stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(id),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & PERMISSIONS) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        // For numbers that fit, the kernel's 32-bit encoding is the low half of this one.
        rdev: stat.st_rdev as u32,
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: 0,
    }
}

/// Attributes with only the number and the type.
pub(crate) fn bare_attributes(number: u64, kind: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: kind_of(kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The type in FUSE's terms.
pub(crate) fn kind_of(kind: FileType) -> FuseType {
    match kind {
        FileType::Directory => FuseType::Directory,
        FileType::Symlink => FuseType::Symlink,
        FileType::Fifo => FuseType::NamedPipe,
        FileType::CharacterDevice => FuseType::CharDevice,
        FileType::BlockDevice => FuseType::BlockDevice,
        FileType::Socket => FuseType::Socket,
        FileType::RegularFile | FileType::Unknown => FuseType::RegularFile,
    }
}

/// A time after or before 1970; 1970 where a broken inode holds an invalid one.
fn time(seconds: i64, nanoseconds: impl TryInto<u32>) -> SystemTime {
    let fraction = Duration::from_nanos(nanoseconds.try_into().unwrap_or(0).into());
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base.and_then(|base| base.checked_add(fraction)).unwrap_or(UNIX_EPOCH)
}

/// A time to be set, as `utimensat` takes it.
pub(crate) fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => {
                Timespec { tv_sec: since.as_secs().cast_signed(), tv_nsec: since.subsec_nanos().into() }
            }
            // fuser counts both parts of such a time backward (request -1.5 s arrives as -2.5). Read the same
            // way, they are the requested time.
            Err(before) => {
                let before = before.duration();
                let nanoseconds = before.subsec_nanos().into();
                Timespec { tv_sec: -before.as_secs().cast_signed(), tv_nsec: nanoseconds }
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_converted() {
        assert_eq!(time(-2, 500_000_000u32), UNIX_EPOCH - Duration::from_millis(1500));
        assert_eq!(time(2, 500_000_000u32), UNIX_EPOCH + Duration::from_millis(2500));
        let set = |time| timespec(Some(TimeOrNow::SpecificTime(time)));
        let later = set(UNIX_EPOCH + Duration::from_millis(2500));
        assert_eq!((later.tv_sec, later.tv_nsec), (2, 500_000_000));
        // What fuser makes of (-2 s, +0.5 s).
        let earlier = set(UNIX_EPOCH - Duration::new(2, 500_000_000));
        assert_eq!((earlier.tv_sec, earlier.tv_nsec), (-2, 500_000_000));
    }
}
