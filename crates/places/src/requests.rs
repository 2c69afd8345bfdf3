//! The requests of one thread to a disk. Pieces of small files that continue one another on the disk go out
//! [together](Together), and the device gets one request for them.
//!
//! A device takes as long for one request of 128 KiB as for ten of small files in a row. The machine does not: each
//! costs it some processor time.

use crate::SharedDisk;
use foreseek_storage::{HostFd, Together};
use foreseek_units::{ByteSpan, Bytes, Lba, Position};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The most that goes out together. A program's own read waits for what is in the device's queue: with 32 requests of
/// this length 40 ms at 100 MB/s.
const MOST: Bytes = Bytes::kib(128);

/// The kernel has no such advice: requests go out one by one.
static UNAVAILABLE: AtomicBool = AtomicBool::new(false);

/// See the module's documentation. What was collected goes out when this value is dropped.
#[derive(Debug)]
pub struct Requests {
    disk: Arc<SharedDisk>,
    /// `None` if nothing can go out together.
    together: Option<Together>,
    /// What is collected: its beginning and its end on the disk.
    collected: Option<(Lba, Lba)>,
}

impl Requests {
    /// Requests to a disk.
    #[must_use]
    pub fn new(disk: Arc<SharedDisk>) -> Self {
        let together = if UNAVAILABLE.load(Relaxed) { None } else { Together::new(MOST).ok() };
        Self { disk, together, collected: None }
    }

    /// Requests a range of a file as [`SharedDisk::will_need`] does, at once or together with the next ones. Returns how
    /// much of it was requested, or will be. The descriptor may be closed then.
    ///
    /// # Errors
    /// The error of the first call, if it goes out at once.
    pub fn will_need(
        &mut self,
        fd: HostFd,
        range: ByteSpan,
        call: Bytes,
        place: Option<Lba>,
    ) -> Result<Bytes, Errno> {
        let length = range.len();
        let continues = self.collected.is_some_and(|(_, end)| place == Some(end));
        if !continues || self.room(call) < length {
            self.send();
        }
        if let Some(start) = place.filter(|_| length <= self.room(call))
            && self.add(fd, range)
        {
            let end = start + length.sectors_ceil();
            self.collected = Some((self.collected.map_or(start, |(first, _)| first), end));
            return Ok(length);
        }
        self.send();
        self.disk.will_need(fd, range, call, place)
    }

    fn add(&mut self, fd: HostFd, range: ByteSpan) -> bool {
        let added = self.together.as_mut().map(|together| together.add(fd, range));
        if let Some(Err(error)) = added
            && !matches!(error, Errno::PERM | Errno::INVAL)
        {
            // The file system has failed, or its files cannot be mapped.
            self.send();
            self.together = None;
        }
        added == Some(Ok(()))
    }

    /// How much more goes out together.
    fn room(&self, call: Bytes) -> Bytes {
        let collected = self.collected.map_or(Bytes::ZERO, |(start, end)| end.since(start).bytes());
        let left = self.together.as_ref().map_or(Bytes::ZERO, Together::left);
        call.saturating_sub(collected).min(left)
    }

    /// Requests what is collected.
    pub fn send(&mut self) {
        if let Some(((start, end), together)) = self.collected.take().zip(self.together.as_mut()) {
            let result = self.disk.in_one_call(start, end.since(start).bytes(), || together.request());
            if result.is_err() {
                // Programs read this themselves.
                UNAVAILABLE.store(true, Relaxed);
                self.together = None;
            }
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.send();
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use foreseek_storage::{Residency, dont_need};
    use foreseek_units::{ByteOffset, PageIndex, PageSpan, Pages};
    use std::fs::{self, File};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    const PAGES: Pages = Pages(4);
    const O_NOATIME: i32 = 0o1_000_000;

    fn files(place: &Path, count: u32) -> Vec<File> {
        let opened = |number: u32| {
            let path = place.join(number.to_string());
            fs::write(&path, vec![7; 4 * 4096]).unwrap();
            let file = File::options().read(true).custom_flags(O_NOATIME).open(path).unwrap();
            file.sync_all().unwrap();
            dont_need(fd(&file), all()).unwrap();
            file
        };
        (0..count).map(opened).collect()
    }

    /// Some files of which nothing is in memory; none, with a message, where that is not to be seen: on tmpfs, and before
    /// Linux 6.5.
    fn cold_files(place: &Path, count: u32) -> Option<Vec<File>> {
        let files = files(place, count);
        let is_cold = |file| {
            let (shows, mut runs) = (Residency::of(fd(file)), Vec::new());
            shows == Residency::Cachestat && shows.runs(fd(file), all(), &mut runs) && runs.is_empty()
        };
        let are_cold = files.iter().all(is_cold);
        if !are_cold {
            println!("SKIPPED: what is in memory of /var/tmp is not to be seen");
        }
        are_cold.then_some(files)
    }

    fn fd(file: &File) -> HostFd {
        HostFd::new(file.as_raw_fd()).unwrap()
    }

    fn all() -> PageSpan {
        PageSpan::at(PageIndex(0), PAGES)
    }

    fn are_in_memory(files: &[File]) -> Vec<bool> {
        let is_in_memory = |file| {
            let mut runs = Vec::new();
            assert!(Residency::of(fd(file)).runs(fd(file), all(), &mut runs));
            runs == [all()]
        };
        files.iter().map(is_in_memory).collect()
    }

    /// Requests files that lie at these pages of the disk; returns which of them are in memory after each.
    fn after_each(files: &[File], places: &[u64], call: Bytes) -> Vec<Vec<bool>> {
        let mut requests = Requests::new(Arc::new(SharedDisk::unobserved()));
        let request = |(file, place): (&File, &u64)| {
            let place = Some(Lba(place * 8));
            assert_eq!(requests.will_need(fd(file), all().bytes(), call, place), Ok(PAGES.bytes()));
            are_in_memory(files)
        };
        let mut states: Vec<Vec<bool>> = files.iter().zip(places).map(request).collect();
        drop(requests);
        states.push(are_in_memory(files));
        states
    }

    #[test]
    fn files_in_a_row_go_out_together_and_others_at_once() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let Some(files) = cold_files(place.path(), 4) else { return };
        let states = after_each(&files, &[100, 104, 300, 304], Bytes::mib(1));
        let expected =
            [[false; 4], [false; 4], [true, true, false, false], [true, true, false, false], [true; 4]];
        assert_eq!(states, expected);
    }

    #[test]
    fn no_more_goes_out_together_than_in_one_call_or_than_the_most() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let places: Vec<u64> = (0..12).map(|number| 100 + number * 4).collect();
        for (call, together) in [(MOST * 2, 8), (PAGES.bytes() * 3, 3), (PAGES.bytes(), 1)] {
            let Some(files) = cold_files(place.path(), 12) else { return };
            let states = after_each(&files, &places, call);
            for (number, state) in states.iter().take(12).enumerate() {
                let gone_out = number / together * together;
                assert!(
                    state.iter().enumerate().all(|(at, it)| *it == (at < gone_out)),
                    "{number} {state:?}"
                );
            }
            assert!(states[12].iter().all(|it| *it));
        }
    }

    #[test]
    fn what_has_no_place_or_cannot_be_mapped_goes_out_at_once_after_the_others() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let Some(files) = cold_files(place.path(), 3) else { return };
        let mut requests = Requests::new(Arc::new(SharedDisk::unobserved()));
        let mut request = |file: &File, place: Option<Lba>| {
            assert_eq!(requests.will_need(fd(file), all().bytes(), MOST, place), Ok(PAGES.bytes()));
            are_in_memory(&files)
        };
        assert_eq!(request(&files[0], Some(Lba(800))), [false; 3]);
        assert_eq!(request(&files[1], None), [true, true, false]);
        // Its access time would change.
        let plain = File::open(place.path().join("2")).unwrap();
        assert_eq!(request(&plain, Some(Lba(900))), [true; 3]);
    }

    /// The kernel takes two pieces of one file in a row for one.
    #[test]
    fn pieces_of_one_file_in_a_row_are_read_whole() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let Some(files) = cold_files(place.path(), 1) else { return };
        let page = PAGES.bytes() / 4;
        for call in [page * 2, page * 4] {
            dont_need(fd(&files[0]), all()).unwrap();
            let mut requests = Requests::new(Arc::new(SharedDisk::unobserved()));
            for at in 0..4 {
                let range = ByteSpan::at(ByteOffset(page.get() * at), page);
                requests.will_need(fd(&files[0]), range, call, Some(Lba(800 + 8 * at))).unwrap();
            }
            drop(requests);
            assert_eq!(are_in_memory(&files), [true]);
        }
    }
}
