//! Requests of pages of several files in one call.
//!
//! The block layer joins requests that continue one another on the disk. It does so only within one system call, at the
//! end of which they go to the device. A call of `posix_fadvise` with `WILLNEED` names one file. Small files cost the
//! device a request each then. A call of `madvise` with `MADV_WILLNEED` names addresses. It does the same for each file
//! that is mapped there. So the files are mapped one behind the other, without access: no page is ever touched.
//!
//! The kernel reads as much of each range as by [`will_need`](crate::will_need) in one call. Ranges of one file that
//! continue one another are one range to it.
//!
//! Limits: a mapping is more than advice to those who watch opens. A server of offline files that gets an event for
//! each access to contents (`FAN_PRE_ACCESS`) is asked for the range.
#![allow(unsafe_code)]

use crate::advice::last_error;
use crate::fd::HostFd;
use foreseek_units::{ByteSpan, Bytes, PAGE_SIZE};
use libc::c_void;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ptr::{NonNull, null_mut};

/// Ranges of files that are requested together.
#[derive(Debug)]
pub struct Together {
    /// Addresses of this value's own, without access. The first ones are mapped to ranges, the others to nothing.
    addresses: NonNull<c_void>,
    room: usize,
    mapped: usize,
}

// SAFETY: the addresses belong to this value alone, and nothing is ever read or written there.
unsafe impl Send for Together {}

impl Together {
    /// Room for ranges of so many bytes, in whole pages.
    ///
    /// # Errors
    /// The kernel's error if it has no addresses.
    pub fn new(room: Bytes) -> Result<Self, Errno> {
        let room = usize::try_from(room.pages_ceil().bytes().get()).map_err(|_| Errno::INVAL)?;
        let addresses = map_nothing(null_mut(), room, 0)?;
        Ok(Self { addresses, room, mapped: 0 })
    }

    /// The bytes that still have room.
    #[must_use]
    pub fn left(&self) -> Bytes {
        Bytes((self.room - self.mapped) as u64)
    }

    /// Adds a range of a file, in whole pages. The descriptor may be closed then.
    ///
    /// # Errors
    /// EINVAL if the range does not begin at a page or has no room, EPERM if the file was opened without `O_NOATIME`, as
    /// the kernel takes a mapping for an access. Otherwise the kernel's error if the file cannot be mapped: there is no
    /// room then any more, and what was added before can still be requested.
    pub fn add(&mut self, fd: HostFd, range: ByteSpan) -> Result<(), Errno> {
        let length = range.len().pages_ceil().bytes();
        if !range.start.get().is_multiple_of(PAGE_SIZE) || length.is_zero() || length > self.left() {
            return Err(Errno::INVAL);
        }
        if !rustix::fs::fcntl_getfl(fd.borrow())?.contains(OFlags::NOATIME) {
            return Err(Errno::PERM);
        }
        let length = usize::try_from(length.get()).map_err(|_| Errno::INVAL)?;
        let offset = i64::try_from(range.start.get()).map_err(|_| Errno::INVAL)?;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let address = self.at(self.mapped);
        // SAFETY: the addresses are this value's own, and nobody holds a reference there.
        let mapped = unsafe { libc::mmap64(address, length, libc::PROT_NONE, flags, fd.raw(), offset) };
        if mapped == libc::MAP_FAILED {
            let error = last_error();
            self.lose(self.mapped, length);
            return Err(error);
        }
        self.mapped += length;
        Ok(())
    }

    /// Requests all ranges, and forgets them. It waits while the device's queue is full.
    ///
    /// # Errors
    /// The kernel's error: nothing or a part was requested.
    pub fn request(&mut self) -> Result<(), Errno> {
        // SAFETY: the addresses are this value's own, and the advice changes no memory.
        let advise = |length| unsafe { libc::madvise(self.at(0), length, libc::MADV_WILLNEED) };
        let result = if self.mapped == 0 || advise(self.mapped) == 0 { Ok(()) } else { Err(last_error()) };
        self.forget();
        result
    }

    /// Forgets all ranges.
    fn forget(&mut self) {
        let mapped = std::mem::take(&mut self.mapped);
        if mapped > 0 && map_nothing(self.at(0), mapped, libc::MAP_FIXED).is_err() {
            self.lose(0, mapped);
        }
    }

    /// The kernel may have left these addresses unmapped when a call failed, and another thread may have them by now:
    /// they are not this value's any more. Nor are those behind them.
    fn lose(&mut self, from: usize, length: usize) {
        let behind = from + length;
        if behind < self.room {
            // SAFETY: these are still this value's own, and nobody holds a reference there.
            unsafe { libc::munmap(self.at(behind), self.room - behind) };
        }
        self.room = from;
    }

    fn at(&self, offset: usize) -> *mut c_void {
        self.addresses.as_ptr().wrapping_byte_add(offset)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if self.room > 0 {
            // SAFETY: the addresses are this value's own, and nobody holds a reference there.
            unsafe { libc::munmap(self.at(0), self.room) };
        }
    }
}

/// Maps addresses to nothing, without access: free ones, or with MAP_FIXED those at `at`, which are the caller's.
fn map_nothing(at: *mut c_void, length: usize, flag: i32) -> Result<NonNull<c_void>, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flag;
    // SAFETY: the kernel chooses free addresses, or they are those of a value of this module.
    let addresses = unsafe { libc::mmap(at, length, libc::PROT_NONE, flags, -1, 0) };
    if addresses == libc::MAP_FAILED {
        return Err(last_error());
    }
    NonNull::new(addresses).ok_or(Errno::NOMEM)
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use crate::Residency;
    use foreseek_units::{ByteOffset, PageIndex, PageSpan, Pages};
    use std::fs::{self, File};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    use std::path::Path;

    fn opened(place: &Path, number: u32, flags: i32) -> File {
        let path = place.join(number.to_string());
        fs::write(&path, vec![7; 10 * 4096 - 100]).unwrap();
        let file = File::options().read(true).custom_flags(flags).open(path).unwrap();
        file.sync_all().unwrap();
        file
    }

    fn fd(file: &impl AsRawFd) -> HostFd {
        HostFd::new(file.as_raw_fd()).unwrap()
    }

    fn pages(from: u64, count: u64) -> ByteSpan {
        ByteSpan::at(ByteOffset(from * 4096), Bytes(count * 4096))
    }

    /// Whether pages that were dropped are seen to be gone: not on tmpfs, nor before Linux 6.5.
    fn is_measurable(file: &File) -> bool {
        let mut runs = Vec::new();
        let all = PageSpan::at(PageIndex(0), Pages(10));
        crate::dont_need(fd(file), all).unwrap();
        let shows = Residency::of(fd(file));
        let gone = shows == Residency::Cachestat && shows.runs(fd(file), all, &mut runs) && runs.is_empty();
        if !gone {
            println!("SKIPPED: what is in memory of /var/tmp is not to be seen");
        }
        gone
    }

    #[test]
    fn parts_of_several_files_come_into_memory_and_nothing_else() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let files: Vec<File> = (0..5).map(|number| opened(place.path(), number, libc::O_NOATIME)).collect();
        let all = PageSpan::at(PageIndex(0), Pages(10));
        let mut together = Together::new(Bytes(4096 * 12)).unwrap();
        for _ in 0..2 {
            for file in &files {
                crate::dont_need(fd(file), all).unwrap();
            }
            // The last one ends behind the end of its file.
            for (file, from) in files.iter().zip([0, 2, 4, 6, 9]) {
                assert_eq!(together.add(fd(file), pages(from, 2)), Ok(()));
            }
            assert_eq!(together.left(), Bytes(2 * 4096));
            together.request().unwrap();
            assert_eq!(together.left(), Bytes(12 * 4096));
            for (file, (from, count)) in files.iter().zip([(0, 2), (2, 2), (4, 2), (6, 2), (9, 1)]) {
                let mut runs = Vec::new();
                assert!(Residency::of(fd(file)).runs(fd(file), all, &mut runs));
                assert_eq!(runs, [PageSpan::at(PageIndex(from), Pages(count))]);
            }
        }
    }

    #[test]
    fn what_is_forgotten_is_not_read() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = opened(place.path(), 0, libc::O_NOATIME);
        if !is_measurable(&file) {
            return;
        }
        let mut together = Together::new(Bytes(8192)).unwrap();
        together.add(fd(&file), pages(0, 2)).unwrap();
        together.forget();
        assert_eq!((together.left(), together.request()), (Bytes(8192), Ok(())));
        let mut runs = Vec::new();
        assert!(Residency::of(fd(&file)).runs(fd(&file), PageSpan::at(PageIndex(0), Pages(10)), &mut runs));
        assert!(runs.is_empty());
    }

    #[test]
    fn after_what_cannot_be_mapped_there_is_no_room_and_the_others_are_requested() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = opened(place.path(), 0, libc::O_NOATIME);
        let mut together = Together::new(Bytes(3 * 4096)).unwrap();
        assert_eq!(together.request(), Ok(()), "nothing");
        assert_eq!(together.add(fd(&file), pages(0, 1)), Ok(()));
        let unaligned = ByteSpan::at(ByteOffset(100), Bytes(4096));
        for refused in [unaligned, pages(0, 3), pages(0, 0)] {
            assert_eq!(together.add(fd(&file), refused), Err(Errno::INVAL));
        }
        assert_eq!(together.left(), Bytes(2 * 4096));
        // A directory has no pages.
        let folder = File::options().read(true).custom_flags(libc::O_NOATIME).open(place.path()).unwrap();
        assert_eq!(together.add(fd(&folder), pages(0, 1)), Err(Errno::NODEV));
        assert_eq!(together.left(), Bytes(0));
        // A file that has become shorter is no error.
        File::options().write(true).open(place.path().join("0")).unwrap().set_len(0).unwrap();
        assert_eq!(together.request(), Ok(()));
        assert_eq!(together.left(), Bytes(4096));
    }

    #[test]
    fn no_access_time_changes() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut together = Together::new(Bytes(8192)).unwrap();
        let plain = opened(place.path(), 0, 0);
        assert_eq!(together.add(fd(&plain), pages(0, 1)), Err(Errno::PERM));
        let file = opened(place.path(), 1, libc::O_NOATIME);
        // Older than the last change, so that an access would count.
        let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        file.set_times(fs::FileTimes::new().set_accessed(past)).unwrap();
        together.add(fd(&file), pages(0, 1)).unwrap();
        together.request().unwrap();
        assert_eq!(file.metadata().unwrap().atime(), 1000);
    }
}
