//! What the other disks of the machine have read, for all programs together.
//!
//! Of stacked devices (RAID, LVM, encryption) the lowest ones count. They are listed anew at each look, since disks
//! come and go.
//!
//! Limits: it is known only while none of them has a read in flight, and if each counts its reads
//! ([`DiskLoad`]).

use crate::detect::DeviceNumber;
use crate::disk_load::DiskLoad;
use crate::small_file;
use foreseek_units::Bytes;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// See the module's documentation.
#[derive(Debug)]
pub struct OtherDisks {
    /// `/sys/block`.
    folder: PathBuf,
    disk: DeviceNumber,
    /// By name; `None` for those whose reads do not count.
    known: FxHashMap<OsString, Option<DiskLoad>>,
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
        Self { folder: sys.join("block"), disk, known: FxHashMap::default() }
    }

    /// What they have read up to now, since any time in the past. `None` if one may have a read in flight, or does not
    /// count its reads. A read that was requested before this call is part of it.
    pub fn read(&mut self) -> Option<Bytes> {
        let entries = std::fs::read_dir(&self.folder).ok()?;
        let names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        self.known.retain(|name, _| names.contains(name));
        names.into_iter().map(|name| self.read_by(name)).sum()
    }

    fn read_by(&mut self, name: OsString) -> Option<Bytes> {
        let folder = self.folder.join(&name);
        let load = match self.known.entry(name) {
            Occupied(known) => known.into_mut(),
            Vacant(new) => match DiskLoad::at(&folder) {
                Some(_) if is_this(&folder, self.disk) || lies_over_others(&folder) => new.insert(None),
                Some(load) => new.insert(Some(load)),
                // It counts nothing, and has nothing to be read.
                None if small_file::read_number(&folder.join("size")) == Some(0) => return Some(Bytes::ZERO),
                None => return None,
            },
        };
        let Some(load) = load else { return Some(Bytes::ZERO) };
        // In this order: what was in flight is counted when it is over.
        match (load.reads_in_flight(), load.work()) {
            (Some(0), Some(work)) => Some(work.bytes),
            (Some(_), Some(_)) => None,
            // Another disk may have its name by now.
            _ => {
                self.known.remove(folder.file_name()?);
                None
            }
        }
    }
}

fn is_this(folder: &Path, disk: DeviceNumber) -> bool {
    small_file::read(&folder.join("dev")).is_some_and(|dev| DeviceNumber::parse(&dev) == Some(disk))
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
        let mut others = OtherDisks::within(place.path(), DISK);
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
        let other = add(place.path(), "zram0", "252:0");
        let counts = |flag: &str| fs::write(other.join("queue/iostats"), flag).unwrap();
        counts("0");
        let mut others = OtherDisks::within(place.path(), DISK);
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
    }

    #[test]
    fn a_disk_that_takes_the_name_of_another_one_is_read_anew() {
        let place = tempfile::tempdir().unwrap();
        let other = add(place.path(), "sdb", "8:16");
        let mut others = OtherDisks::within(place.path(), DISK);
        assert_eq!(others.read(), Some(Bytes(512)));
        // What reading a file of a disk that is gone comes to.
        fs::write(other.join("stat"), "").unwrap();
        fs::remove_file(other.join("stat")).unwrap();
        has_read(&other, 3, 0);
        assert_eq!(others.read(), None);
        assert_eq!(others.read(), Some(Bytes(3 * 512)));
    }

    #[test]
    fn the_disks_of_this_machine_can_be_read() {
        // What they tell depends on the machine.
        OtherDisks::than(DISK).read();
    }
}
