//! The device under a file, as sysfs describes it.
//!
//! A file's `st_dev` names a partition, a whole disk or an anonymous device (btrfs, overlay, NFS,
//! FUSE). Partitions are resolved to their disk and the sector where they start, since requests of all
//! partitions share the disk's head.

use crate::small_file;
use foreseek_units::{Bytes, Sectors};
use std::path::{Path, PathBuf};

/// The most devices visited below one: an array of 60 disks with partitions, under LVM and encryption.
const VISITED_MOST: usize = 256;

/// A device's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// The number of the driver.
    pub major: u32,
    /// The number of the device within the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From `st_dev` or `st_rdev`.
    #[must_use]
    pub fn from_raw(raw: rustix::fs::Dev) -> Self {
        Self { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
    }

    /// Of the device with this folder in sysfs.
    pub(crate) fn at(folder: &Path) -> Option<Self> {
        Self::parse(&small_file::read(&folder.join("dev"))?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl DeviceNumber {
    /// The block device's node in `/dev`, by its name in sysfs; `None` where there is none, or where the node
    /// is another device's.
    #[must_use]
    pub fn node(self) -> Option<PathBuf> {
        let uevent = small_file::read(&Path::new("/sys/dev/block").join(self.to_string()).join("uevent"))?;
        let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
        let path = Path::new("/dev").join(name);
        let stat = rustix::fs::stat(&path).ok()?;
        let is_block = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device();
        (is_block && Self::from_raw(stat.st_rdev) == self).then_some(path)
    }
}

impl std::fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// What sysfs reports of the device under a file. `None` where it reports nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingDevice {
    /// The whole disk, or the anonymous device where there is none.
    pub disk: DeviceNumber,
    /// The sector of the disk where the partition starts.
    pub start: Sectors,
    /// The length of the partition or disk.
    pub length: Option<Bytes>,
    /// Whether it is rotational (`queue/rotational`).
    pub rotational: Option<bool>,
    /// The longest request (`queue/max_sectors_kb`).
    pub max_request: Option<Bytes>,
    /// The kernel's read-ahead window (`queue/read_ahead_kb`, or that of the anonymous device).
    pub read_ahead: Option<Bytes>,
}

impl BackingDevice {
    /// The device with this number.
    #[must_use]
    pub fn of(number: DeviceNumber) -> Self {
        Self::within(Path::new("/sys"), number)
    }

    /// The same under another root of sysfs.
    fn within(sys: &Path, number: DeviceNumber) -> Self {
        let own = sys.join("dev/block").join(number.to_string());
        // For a partition, `..` of the symbolic link is the disk's directory; for a whole disk it is no
        // device.
        let parent = own.join("..");
        let is_partition = small_file::read(&own.join("partition")).is_some();
        let (disk, queue): (DeviceNumber, PathBuf) = match DeviceNumber::at(&parent).filter(|_| is_partition)
        {
            Some(disk) => (disk, parent.join("queue")),
            None => (number, own.join("queue")),
        };
        let kib = |path: PathBuf| small_file::read_number(&path).map(Bytes::kib);
        Self {
            disk,
            start: if is_partition {
                Sectors(small_file::read_number(&own.join("start")).unwrap_or(0))
            } else {
                Sectors::ZERO
            },
            length: small_file::read_number(&own.join("size")).map(|sectors| Sectors(sectors).bytes()),
            rotational: small_file::read_number(&queue.join("rotational")).map(|flag| flag != 0),
            max_request: kib(queue.join("max_sectors_kb")),
            read_ahead: kib(queue.join("read_ahead_kb"))
                .or_else(|| kib(sys.join("class/bdi").join(number.to_string()).join("read_ahead_kb"))),
        }
    }
}

/// The disks under a block device: several under RAID, under LVM over several disks, or under a disk with a
/// cache on another disk. A disk is its own. So is a multipath device (several paths to one disk), and a
/// device that sysfs does not list.
#[must_use]
pub fn disks_below(number: DeviceNumber) -> Vec<DeviceNumber> {
    disks_within(Path::new("/sys"), number)
}

fn disks_within(sys: &Path, number: DeviceNumber) -> Vec<DeviceNumber> {
    let all = devices_below(sys, number, |folder| {
        small_file::read(&folder.join("dm/uuid")).is_some_and(|uuid| uuid.starts_with("mpath-"))
    });
    let lowest = all.into_iter().filter(|device| device.is_lowest);
    let mut disks: Vec<DeviceNumber> = lowest.map(|device| device.number).collect();
    disks.sort();
    disks
}

/// A device below another one.
pub(crate) struct Below {
    pub(crate) number: DeviceNumber,
    /// Nothing lies below it, or is looked at.
    is_lowest: bool,
}

/// A device and all below it, whole disks in the place of partitions. `is_whole` says of a device, by its folder, that what
/// lies below it does not matter.
pub(crate) fn devices_below(
    sys: &Path,
    device: DeviceNumber,
    is_whole: impl Fn(&Path) -> bool,
) -> Vec<Below> {
    let (mut all, mut waiting): (Vec<Below>, _) = (Vec::new(), vec![device]);
    while let Some(next) = waiting.pop().filter(|_| all.len() < VISITED_MOST) {
        let number = BackingDevice::within(sys, next).disk;
        if all.iter().any(|seen| seen.number == number) {
            continue;
        }
        let folder = sys.join("dev/block").join(number.to_string());
        let entries = std::fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
        let below: Vec<DeviceNumber> = entries.filter_map(|entry| DeviceNumber::at(&entry.path())).collect();
        let is_lowest = below.is_empty() || is_whole(&folder);
        all.push(Below { number, is_lowest });
        if !is_lowest {
            waiting.extend(below);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A sysfs with disk 8:0, its partition 8:1 and an anonymous device 0:48.
    fn sysfs() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("devices/sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::create_dir_all(root.path().join("dev/block")).unwrap();
        fs::create_dir_all(root.path().join("class/bdi/0:48")).unwrap();
        for (file, text) in [
            ("dev", "8:0\n"),
            ("size", "2048\n"),
            ("queue/rotational", "1\n"),
            ("queue/max_sectors_kb", "1280\n"),
            ("queue/read_ahead_kb", "128\n"),
            ("sda1/dev", "8:1\n"),
            ("sda1/partition", "1\n"),
            ("sda1/start", "64\n"),
            ("sda1/size", "1024\n"),
        ] {
            fs::write(disk.join(file), text).unwrap();
        }
        fs::write(root.path().join("class/bdi/0:48/read_ahead_kb"), "256\n").unwrap();
        for (link, to) in [("8:0", "../../devices/sda"), ("8:1", "../../devices/sda/sda1")] {
            std::os::unix::fs::symlink(to, root.path().join("dev/block").join(link)).unwrap();
        }
        root
    }

    #[test]
    fn a_partition_is_a_piece_of_its_disk() {
        let sys = sysfs();
        let partition = BackingDevice::within(sys.path(), DeviceNumber { major: 8, minor: 1 });
        assert_eq!(
            partition,
            BackingDevice {
                disk: DeviceNumber { major: 8, minor: 0 },
                start: Sectors(64),
                length: Some(Bytes::kib(512)),
                rotational: Some(true),
                max_request: Some(Bytes::kib(1280)),
                read_ahead: Some(Bytes::kib(128)),
            }
        );
        let disk = BackingDevice::within(sys.path(), DeviceNumber { major: 8, minor: 0 });
        assert_eq!((disk.disk, disk.start), (partition.disk, Sectors::ZERO));
        assert_eq!(disk.length, Some(Bytes::mib(1)));
    }

    #[test]
    fn an_anonymous_device_has_a_window_and_no_queue() {
        let sys = sysfs();
        let number = DeviceNumber { major: 0, minor: 48 };
        let backing = BackingDevice::within(sys.path(), number);
        assert_eq!(backing.disk, number);
        assert_eq!((backing.rotational, backing.max_request), (None, None));
        assert_eq!(backing.read_ahead, Some(Bytes::kib(256)));
        let unknown = BackingDevice::within(sys.path(), DeviceNumber { major: 9, minor: 9 });
        assert_eq!((unknown.read_ahead, unknown.length), (None, None));
    }

    /// A device with the devices below it.
    fn stack(sys: &Path, name: &str, number: &str, below: &[&str]) {
        let own = sys.join("devices").join(name);
        fs::create_dir_all(own.join("slaves")).unwrap();
        fs::write(own.join("dev"), format!("{number}\n")).unwrap();
        std::os::unix::fs::symlink(&own, sys.join("dev/block").join(number)).unwrap();
        for name in below {
            let to = sys.join("devices").join(name);
            std::os::unix::fs::symlink(to, own.join("slaves").join(name.replace('/', "!"))).unwrap();
        }
    }

    #[test]
    fn the_disks_below_a_device_are_counted_whatever_lies_between() {
        let sys = sysfs();
        let of = |major, minor| disks_within(sys.path(), DeviceNumber { major, minor });
        let number = |major, minor| DeviceNumber { major, minor };
        stack(sys.path(), "sdb", "8:16", &[]);
        stack(sys.path(), "dm-0", "253:0", &["sda/sda1"]);
        assert_eq!(of(8, 1), [number(8, 0)], "a partition");
        assert_eq!(of(253, 0), [number(8, 0)], "a volume on one disk");
        stack(sys.path(), "dm-1", "253:1", &["dm-0"]);
        assert_eq!(of(253, 1), [number(8, 0)], "encryption on it");
        stack(sys.path(), "md0", "9:0", &["sda/sda1", "sdb"]);
        stack(sys.path(), "dm-2", "253:2", &["md0"]);
        assert_eq!(of(253, 2), [number(8, 0), number(8, 16)], "a volume on an array");
        stack(sys.path(), "dm-3", "253:3", &["sda", "sdb"]);
        fs::create_dir(sys.path().join("devices/dm-3/dm")).unwrap();
        fs::write(sys.path().join("devices/dm-3/dm/uuid"), "mpath-36001\n").unwrap();
        stack(sys.path(), "dm-4", "253:4", &["dm-3"]);
        assert_eq!(of(253, 4), [number(253, 3)], "two ways to one disk");
        assert_eq!(of(0, 48), [number(0, 48)]);
        // Damaged: a device below itself.
        stack(sys.path(), "dm-5", "253:5", &["dm-5"]);
        assert!(of(253, 5).is_empty());
    }
}
