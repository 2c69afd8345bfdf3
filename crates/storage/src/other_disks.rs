//! What the other disks of the machine have read, for all programs together.
//!
//! Of stacked devices (RAID, LVM, encryption) the lowest ones count. Disks come and go, so that they are listed anew at each
//! look: it takes some 50 us for each.
//!
//! Limits: it is known only while none of them has a read in flight, if each counts its reads ([`DiskLoad`]), and if
//! there are no more than [`MOST`]. A read that waits in an I/O scheduler or for a cgroup's limit is not in flight. What
//! disks read by themselves (RAID) counts as well.

use crate::detect::{DeviceNumber, devices_below};
use crate::disk_load::DiskLoad;
use crate::small_file;
use foreseek_units::Bytes;
use std::path::{Path, PathBuf};

/// The most disks that are looked at.
const MOST: usize = 64;

/// See the module's documentation.
#[derive(Debug)]
pub struct OtherDisks {
    /// `/sys/block`.
    folder: PathBuf,
    /// The disk, and what lies below it (paths of a multipath device).
    own: Vec<DeviceNumber>,
}

impl OtherDisks {
    /// All but this one.
    #[must_use]
    pub fn than(disk: DeviceNumber) -> Self {
        Self::within(Path::new("/sys"), disk)
    }

    /// The same under another root of sysfs.
    #[must_use]
    pub fn within(sys: &Path, disk: DeviceNumber) -> Self {
        let own = devices_below(sys, disk, |_| false);
        Self { folder: sys.join("block"), own: own.into_iter().map(|device| device.number).collect() }
    }

    /// What they have read up to now, since any time in the past. `None` if it is not known.
    #[must_use]
    pub fn read(&self) -> Option<Bytes> {
        let mut total = Bytes::ZERO;
        for (at, entry) in std::fs::read_dir(&self.folder).ok()?.flatten().enumerate() {
            total += if at < MOST { self.read_by(&entry.path())? } else { return None };
        }
        Some(total)
    }

    fn read_by(&self, folder: &Path) -> Option<Bytes> {
        let is_own = || DeviceNumber::at(folder).is_some_and(|number| self.own.contains(&number));
        let is_empty = small_file::read_number(&folder.join("size")) == Some(0);
        if is_empty || is_own() || lies_over_others(folder) {
            return Some(Bytes::ZERO);
        }
        let load = DiskLoad::at(folder)?;
        // In this order: what was in flight is counted when it is over.
        if load.reads_in_flight()? == 0 { load.read() } else { None }
    }
}

fn lies_over_others(folder: &Path) -> bool {
    std::fs::read_dir(folder.join("slaves")).is_ok_and(|mut below| below.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    /// A disk of 100 sectors that has read one sector, in a sysfs.
    fn add(sys: &Path, name: &str, dev: &str) -> PathBuf {
        let folder = sys.join("block").join(name);
        fs::create_dir_all(folder.join("queue")).unwrap();
        fs::write(folder.join("dev"), format!("{dev}\n")).unwrap();
        fs::write(folder.join("size"), "100\n").unwrap();
        fs::write(folder.join("queue/iostats"), "1\n").unwrap();
        has_read(&folder, 1, 0);
        folder
    }

    fn has_read(folder: &Path, sectors: u64, in_flight: u64) {
        fs::write(folder.join("stat"), format!("1 0 {sectors} 0 0 0 0 0 0 0 0\n")).unwrap();
        fs::write(folder.join("inflight"), format!("{in_flight} 5\n")).unwrap();
    }

    #[test]
    fn what_all_others_have_read_is_known_while_they_are_idle() {
        let place = tempfile::tempdir().unwrap();
        let sectors = |number: u64| Some(Bytes(512 * number));
        add(place.path(), "sda", "8:0");
        let others = OtherDisks::within(place.path(), DISK);
        assert_eq!(others.read(), sectors(0), "there are no others");
        let other = add(place.path(), "sdb", "8:16");
        assert_eq!(others.read(), sectors(1), "one has come");
        let third = add(place.path(), "sdc", "8:32");
        has_read(&third, 40, 1);
        assert_eq!(others.read(), None, "a read is in flight");
        has_read(&third, 41, 0);
        assert_eq!(others.read(), sectors(42));
        let above = add(place.path(), "dm-0", "253:0");
        fs::create_dir_all(above.join("slaves/sdb")).unwrap();
        assert_eq!(others.read(), sectors(42), "its reads are those of the disk below");
        fs::remove_dir_all(&other).unwrap();
        assert_eq!(others.read(), sectors(41), "one has gone");
    }

    #[test]
    fn a_disk_that_does_not_count_hides_what_it_reads() {
        let place = tempfile::tempdir().unwrap();
        let other = add(place.path(), "pmem0", "252:0");
        let counts = |flag: &str| fs::write(other.join("queue/iostats"), flag).unwrap();
        counts("0");
        let others = OtherDisks::within(place.path(), DISK);
        assert_eq!(others.read(), None);
        fs::write(other.join("size"), "0\n").unwrap();
        assert_eq!(others.read(), Some(Bytes::ZERO), "there is nothing to read");
        fs::write(other.join("size"), "100\n").unwrap();
        assert_eq!(others.read(), None);
        counts("1");
        assert_eq!(others.read(), Some(Bytes(512)));
        counts("0");
        assert_eq!(others.read(), None, "it does not count any more");
        counts("1");
        assert_eq!(others.read(), Some(Bytes(512)));
        // It counts whatever it says.
        let zram = add(place.path(), "zram0", "251:0");
        fs::write(zram.join("queue/iostats"), "0").unwrap();
        assert_eq!(others.read(), Some(Bytes(1024)));
    }

    #[test]
    fn what_lies_below_the_disk_is_part_of_it_and_what_lies_over_others_need_not_count() {
        let place = tempfile::tempdir().unwrap();
        let multipath = add(place.path(), "dm-0", "8:0");
        let path = add(place.path(), "sdb", "8:16");
        for (link, to) in [("8:0", &multipath), ("8:16", &path)] {
            fs::create_dir_all(place.path().join("dev/block")).unwrap();
            std::os::unix::fs::symlink(to, place.path().join("dev/block").join(link)).unwrap();
        }
        fs::create_dir_all(multipath.join("slaves")).unwrap();
        std::os::unix::fs::symlink(&path, multipath.join("slaves/sdb")).unwrap();
        let above = add(place.path(), "dm-1", "253:1");
        fs::create_dir_all(above.join("slaves/dm-0")).unwrap();
        fs::write(above.join("queue/iostats"), "0").unwrap();
        assert_eq!(OtherDisks::within(place.path(), DISK).read(), Some(Bytes::ZERO));
        add(place.path(), "sdc", "8:32");
        assert_eq!(OtherDisks::within(place.path(), DISK).read(), Some(Bytes(512)));
    }

    #[test]
    fn of_too_many_disks_nothing_is_known() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..MOST as u32 {
            add(place.path(), &format!("sd{number}"), &format!("65:{number}"));
        }
        let others = OtherDisks::within(place.path(), DISK);
        assert_eq!(others.read(), Some(Bytes(512 * MOST as u64)));
        add(place.path(), "sdz", "66:0");
        assert_eq!(others.read(), None);
    }
}
