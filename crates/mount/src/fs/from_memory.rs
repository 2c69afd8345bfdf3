//! Reads answered out of the source's page cache.
//!
//! Files prefetched for walks lie there, and so do small files that were just written or that other programs
//! read: such a read costs a copy and no fetch. If not all of its bytes are there, the read path answers it;
//! this costs one system call.
//!
//! That call is `cachestat`. A read that does not wait (`RWF_NOWAIT`) starts the kernel's read-ahead where it
//! finds nothing, and the read path would then read the same once more. Where `cachestat` is refused, only files
//! that were read ahead for walks are looked up.
//!
//! Pages of a file that was read ahead may still be in flight: then a read waits for them, as it would wait
//! for a fetch. At most [`WAITING`] reads wait at a time, so that threads remain for files in memory.

use crate::plain::fill;
use foreseek_storage::{HostFd, cachestat};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Pages};
use rustix::io::ReadWriteFlags;
use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files up to this length are looked up whole: it is the largest request of the kernel's read-ahead for a
/// FUSE server.
pub(crate) const SMALL: Bytes = Bytes::kib(128);
/// The longest read that is looked up here: twice a request of the kernel's read-ahead.
const LONGEST: Bytes = Bytes::kib(256);
/// Threads that wait for pages in flight: half of those that receive requests.
const WAITING: usize = 8;

thread_local! {
    /// The bytes read; it grows to [`LONGEST`] in each thread.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct FromMemory {
    waiting: AtomicUsize,
}

impl FromMemory {
    /// Calls `take` with the bytes of a range, fewer only where the file ends, and returns its result. `None`
    /// where they are not all in memory. With `comes`, they may be in flight, and the read may wait for them.
    pub(crate) fn read<T>(
        &self,
        file: &File,
        range: ByteSpan,
        comes: bool,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        if range.len() > LONGEST {
            return None;
        }
        BUFFER.with_borrow_mut(|buffer| {
            let length = range.len().get() as usize;
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            let buffer = &mut buffer[..length];
            let read = |buffer: &mut [u8], flags| fill(file, buffer, range.start.get(), flags).ok();
            let there = comes || is_in_memory(file, range);
            let got = there
                .then(|| read(buffer, ReadWriteFlags::NOWAIT))
                .flatten()
                .or_else(|| self.in_turn(comes, || read(buffer, ReadWriteFlags::empty())))?;
            Some(take(&buffer[..got]))
        })
    }

    /// Waits if pages may be in flight and not too many threads wait.
    fn in_turn<T>(&self, comes: bool, wait: impl FnOnce() -> Option<T>) -> Option<T> {
        if !comes {
            return None;
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let got = if before < WAITING { wait() } else { None };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        got
    }
}

/// Whether the source's page cache has all pages of a range that the file has, or they are in flight, if the kernel
/// tells.
pub(crate) fn is_in_memory(file: &File, range: ByteSpan) -> bool {
    let Some(fd) = HostFd::new(file.as_raw_fd()) else { return false };
    let there = cachestat(fd, range.pages()).unwrap_or(Pages::ZERO);
    if there.is_zero() || there == range.pages().len() {
        return !there.is_zero();
    }
    let end = file.metadata().map_or(range.end, |file| range.end.min(ByteOffset(file.len())));
    there == ByteSpan::new(range.start, end).pages().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Advice;
    use std::io::Write;

    #[test]
    fn only_pages_in_memory_are_read() {
        let mut file = tempfile::tempfile_in("/var/tmp").expect("a file");
        file.write_all(&[7; 10_000]).expect("written");
        file.sync_all().expect("written back");
        let memory = FromMemory::default();
        let read = |start, length, comes| {
            let range = ByteSpan::at(ByteOffset(start), Bytes(length));
            memory.read(&file, range, comes, <[u8]>::to_vec)
        };
        assert_eq!(read(100, 50, false), Some(vec![7; 50]));
        assert_eq!(read(4096, 8192, false), Some(vec![7; 5904]), "the file ends");
        assert_eq!(read(20_000, 10, false), None, "no page is there");
        assert_eq!(read(0, LONGEST.get() + 1, false), None);
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("dropped");
        if read(0, 4096, false).is_some() {
            return println!("SKIPPED: this file system keeps its pages");
        }
        let pages = ByteSpan::at(ByteOffset(0), Bytes(10_000)).pages();
        let there = HostFd::new(file.as_raw_fd()).map(|fd| cachestat(fd, pages));
        assert_eq!(there, Some(Ok(Pages::ZERO)), "looking starts no read");
        assert_eq!(read(0, 4096, true), Some(vec![7; 4096]), "it waits for what may come");
    }
}
