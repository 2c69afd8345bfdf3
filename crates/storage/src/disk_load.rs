//! What a whole disk reads, for all programs together, as sysfs counts it.
//!
//! `stat` has the sectors of completed reads, and `inflight` how many reads the driver has at present
//! (Documentation/ABI/stable/sysfs-block). The descriptors stay open: a look is a read of some hundred bytes.
//!
//! Limits: a request that waits in an I/O scheduler is not in `inflight`, unless the driver is idle: then the
//! scheduler has passed it on. Disks that do not count (`queue/iostats` 0) cannot be observed.

use crate::detect::DeviceNumber;
use foreseek_units::{Bytes, Nanos, Sectors};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::path::Path;

/// The longest of both files has 17 numbers.
const LONGEST: usize = 512;

/// Since the system was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskWork {
    /// Reads that are over.
    pub reads: u64,
    /// What they have read.
    pub bytes: Bytes,
    /// The time in which anything was in flight.
    pub busy: Nanos,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct DiskLoad {
    stat: OwnedFd,
    in_flight: OwnedFd,
    /// Whether it counts: that can be changed at any time.
    counts: OwnedFd,
}

impl DiskLoad {
    /// The load of a whole disk; `None` where the kernel does not count it.
    #[must_use]
    pub fn of(disk: DeviceNumber) -> Option<Self> {
        Self::at(&Path::new("/sys/dev/block").join(disk.to_string()))
    }

    /// The same for the folder of a disk in sysfs.
    #[must_use]
    pub fn at(folder: &Path) -> Option<Self> {
        let open = |name: &str| {
            rustix::fs::open(folder.join(name), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
        };
        let load = Self { stat: open("stat")?, in_flight: open("inflight")?, counts: open("queue/iostats")? };
        let is_zram = folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"zram"));
        // Compressed memory counts though it says that it does not (6.18).
        (is_zram || load.counts()).then_some(load)
    }

    fn counts(&self) -> bool {
        field(&self.counts, 0).is_some_and(|counts| counts != 0)
    }

    /// What it has read since the system was started, by requests that are over.
    #[must_use]
    pub fn read(&self) -> Option<Bytes> {
        field(&self.stat, 2).map(|sectors| Sectors(sectors).bytes())
    }

    /// What it has done since the system was started; `None` if it does not count any more.
    #[must_use]
    pub fn work(&self) -> Option<DiskWork> {
        let [reads, sectors, busy] = fields(&self.stat, [0, 2, 9]).filter(|_| self.counts())?;
        Some(DiskWork { reads, bytes: Sectors(sectors).bytes(), busy: Nanos::from_millis(busy) })
    }

    /// How many reads are in flight.
    #[must_use]
    pub fn reads_in_flight(&self) -> Option<u64> {
        field(&self.in_flight, 0)
    }
}

/// A number of a file, counted from 0; `None` for a disk that is gone.
fn field(file: &OwnedFd, which: usize) -> Option<u64> {
    fields(file, [which]).map(|[number]| number)
}

fn fields<const COUNT: usize>(file: &OwnedFd, which: [usize; COUNT]) -> Option<[u64; COUNT]> {
    let mut text = [0; LONGEST];
    let length = rustix::io::pread(file, &mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    let mut numbers = [0; COUNT];
    for (number, which) in numbers.iter_mut().zip(which) {
        *number = text.split_ascii_whitespace().nth(which)?.parse().ok()?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_disk_that_counts_is_observed_and_one_that_does_not_is_not() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        fs::create_dir(folder.join("queue")).unwrap();
        let load = || DiskLoad::at(folder);
        assert!(load().is_none(), "nothing is known of it");
        fs::write(folder.join("stat"), "      10  2   3000 4 5 6 7 8 9 10 11\n").unwrap();
        fs::write(folder.join("inflight"), "       7        1\n").unwrap();
        fs::write(folder.join("queue/iostats"), "1\n").unwrap();
        let observed = load().unwrap();
        assert_eq!((observed.read(), observed.reads_in_flight()), (Some(Bytes(3000 * 512)), Some(7)));
        let work = DiskWork { reads: 10, bytes: Bytes(3000 * 512), busy: Nanos::from_millis(10) };
        assert_eq!(observed.work(), Some(work));
        fs::write(folder.join("stat"), "1 2 3008 4\n").unwrap();
        assert_eq!(observed.work(), None, "it does not tell how long it was busy");
        assert_eq!(observed.read(), Some(Bytes(3008 * 512)), "it is read anew");
        fs::write(folder.join("inflight"), "").unwrap();
        assert_eq!(observed.reads_in_flight(), None);
        fs::write(folder.join("stat"), "1 2 3008 4 5 6 7 8 9 10\n").unwrap();
        assert!(observed.work().is_some());
        fs::write(folder.join("queue/iostats"), "0\n").unwrap();
        assert!(load().is_none());
        assert_eq!(observed.work(), None, "it does not count any more");
    }
}
