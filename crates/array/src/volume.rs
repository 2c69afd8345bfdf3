//! The location of a partition or a logical volume on its array.
//!
//! The start of a partition is in sysfs. That of a device-mapper volume is not: `dmsetup` prints its table. A
//! volume in one piece (target `linear`) begins at a sector of the device below it. A volume that
//! device-mapper itself stripes (target `striped`) is an array of RAID-0. Such layers may be stacked: a
//! partition of md, a physical volume on it, a logical volume.
//!
//! Limits: volumes in several pieces, thin, encrypted, cached and mirrored ones, and those of device-mapper's
//! own RAID are refused: no single origin gives the location of their strips.

use crate::found::Found;
use foreseek_units::{Bytes, Lba, Level, Sectors};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most layers: a partition, LVM and a partition again, and room.
const LAYERS: usize = 8;

/// The location of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The array's directory in sysfs.
    pub(crate) array: PathBuf,
    /// Its start on the array.
    pub(crate) origin: Lba,
    /// The array's shape, if device-mapper itself stripes it.
    pub(crate) striped: Option<Found>,
}

/// The source of device information.
pub(crate) trait System {
    /// The directory in sysfs of a device of this number, `MAJOR:MINOR`.
    fn sysfs(&self, number: &str) -> Result<PathBuf, String>;
    /// The table of device-mapper's device of this number, a line for each piece.
    fn table(&self, number: &str) -> Result<String, String>;
}

/// This machine.
pub(crate) struct Machine;

impl System for Machine {
    fn sysfs(&self, number: &str) -> Result<PathBuf, String> {
        let link = Path::new("/sys/dev/block").join(number);
        fs::canonicalize(&link).map_err(|error| format!("cannot look at {}: {error}", link.display()))
    }

    fn table(&self, number: &str) -> Result<String, String> {
        let (major, minor) = number.split_once(':').unwrap_or_default();
        let asked = Command::new("dmsetup").args(["table", "--major", major, "--minor", minor]).output();
        let remedy =
            "where it lies on its array is asked of 'dmsetup': install that, or attach the array itself";
        match asked {
            Ok(asked) if asked.status.success() => Ok(String::from_utf8_lossy(&asked.stdout).into_owned()),
            Ok(asked) => Err(format!("dmsetup reports: {}", String::from_utf8_lossy(&asked.stderr).trim())),
            Err(error) => Err(format!("{remedy} ({error})")),
        }
    }
}

/// The location of the device with this directory in sysfs; the error is the reason why it is unknown.
pub(crate) fn locate(device: &Path, system: &impl System) -> Result<Location, String> {
    let mut location = Location { array: device.to_owned(), origin: Lba::ZERO, striped: None };
    for _ in 0..LAYERS {
        if location.array.join("partition").exists() {
            let start: u64 = text(&location.array.join("start"))?
                .parse()
                .map_err(|_| "the kernel does not say where it begins".to_owned())?;
            location.origin += Sectors(start);
            location.array = location.array.parent().unwrap_or(device).to_owned();
        } else if location.array.join("dm").exists() {
            let table = system.table(&text(&location.array.join("dev"))?)?;
            match piece(&table)? {
                Piece::Linear(below, start) => {
                    location.origin += start;
                    location.array = system.sysfs(below)?;
                }
                Piece::Striped(shape) => {
                    location.striped = Some(shape);
                    return Ok(location);
                }
            }
        } else {
            return Ok(location);
        }
    }
    Err(format!("more than {LAYERS} partitions and volumes lie on one another"))
}

fn text(file: &Path) -> Result<String, String> {
    let read =
        fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    Ok(read.trim().to_owned())
}

/// A volume in one piece.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// On the device of this number, from this sector on.
    Linear(&'a str, Sectors),
    /// Striped over several devices.
    Striped(Found),
}

/// A table's only line: `START LENGTH linear MAJOR:MINOR OFFSET`, or `START LENGTH striped COUNT CHUNK (MAJOR:MINOR OFFSET)...`.
/// Source: `admin-guide/device-mapper/{linear,striped}.rst` of the Linux kernel.
fn piece(table: &str) -> Result<Piece<'_>, String> {
    let lines: Vec<&str> = table.lines().filter(|line| !line.trim().is_empty()).collect();
    let [line] = lines.as_slice() else {
        return Err(format!(
            "it lies in {} pieces: attach the array itself, or move it into one piece ('pvmove')",
            lines.len()
        ));
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    let unknown = || format!("device-mapper reports '{line}': attach the array itself");
    match words.as_slice() {
        [_, _, "linear", below, offset] => {
            Ok(Piece::Linear(below, Sectors(offset.parse().map_err(|_| unknown())?)))
        }
        [_, _, "striped", members, chunk, ..] => {
            let members = members.parse().map_err(|_| unknown())?;
            let strip = Sectors(chunk.parse().map_err(|_| unknown())?).bytes();
            Ok(Piece::Striped(striped(members, strip)?))
        }
        [_, _, target, ..] => Err(format!(
            "it is a volume of device-mapper's kind '{target}', and 'linear' and 'striped' are served: attach the array itself"
        )),
        _ => Err(unknown()),
    }
}

fn striped(members: u64, strip: Bytes) -> Result<Found, String> {
    Found { strip, members, level: Level::Raid0, copies: 1 }.checked("device-mapper")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Devices in a directory, by number, and tables of device-mapper.
    struct Copies {
        root: tempfile::TempDir,
        devices: HashMap<&'static str, &'static str>,
        tables: HashMap<&'static str, &'static str>,
    }

    impl Copies {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = tempfile::tempdir().expect("a directory");
            for (name, text) in files {
                let file = root.path().join(name);
                fs::create_dir_all(file.parent().expect("it has one")).expect("a directory");
                fs::write(file, format!("{text}\n")).expect("a file");
            }
            Self { root, devices: HashMap::new(), tables: HashMap::new() }
        }

        fn locate(&self, device: &str) -> Result<(String, u64), String> {
            let location = locate(&self.root.path().join(device), self)?;
            let array = location.array.strip_prefix(self.root.path()).expect("one of them");
            Ok((array.display().to_string(), location.origin.get()))
        }
    }

    impl System for Copies {
        fn sysfs(&self, number: &str) -> Result<PathBuf, String> {
            let device = self.devices.get(number).ok_or_else(|| format!("no device {number}"))?;
            Ok(self.root.path().join(device))
        }

        fn table(&self, number: &str) -> Result<String, String> {
            self.tables.get(number).map(|table| (*table).to_owned()).ok_or_else(|| "no table".to_owned())
        }
    }

    /// A volume of LVM on a partition of md.
    fn machine() -> Copies {
        let mut copies = Copies::new(&[
            ("md0/md/level", "raid5"),
            ("md0/md0p1/partition", "1"),
            ("md0/md0p1/start", "2048"),
            ("dm-0/dm/name", "vg-data"),
            ("dm-0/dev", "253:0"),
        ]);
        copies.devices.insert("259:1", "md0/md0p1");
        copies.tables.insert("253:0", "0 8192 linear 259:1 4096\n");
        copies
    }

    #[test]
    fn a_partition_and_a_volume_begin_where_their_layers_begin() {
        let machine = machine();
        assert_eq!(machine.locate("md0"), Ok(("md0".to_owned(), 0)));
        assert_eq!(machine.locate("md0/md0p1"), Ok(("md0".to_owned(), 2048)));
        assert_eq!(machine.locate("dm-0"), Ok(("md0".to_owned(), 2048 + 4096)));
    }

    #[test]
    fn a_striped_volume_is_an_array_itself() {
        let mut machine = machine();
        machine.tables.insert("253:0", "0 8192 striped 3 128 8:16 2048 8:32 2048 8:48 2048\n");
        let location = locate(&machine.root.path().join("dm-0"), &machine).expect("served");
        let shape = Found { strip: Bytes::kib(64), members: 3, level: Level::Raid0, copies: 1 };
        assert_eq!((location.striped, location.origin), (Some(shape), Lba::ZERO));
        assert!(location.array.ends_with("dm-0"));
    }

    #[test]
    fn volumes_without_one_origin_are_refused_with_their_kind() {
        let refused = |table, words: &str| {
            let mut machine = machine();
            machine.tables.insert("253:0", table);
            let error = machine.locate("dm-0").expect_err(words);
            assert!(error.contains(words) && error.lines().count() == 1, "{error}");
        };
        refused("0 8192 linear 259:1 4096\n8192 8192 linear 259:1 65536\n", "2 pieces");
        refused("0 8192 crypt aes-xts-plain64 - 0 259:1 4096\n", "'crypt'");
        refused("0 8192 thin 253:2 1\n", "'thin'");
        refused("0 8192 raid raid5_ls 3 128 region_size 1024 3 - -\n", "'raid'");
        refused("0 8192 linear 259:1 x\n", "'0 8192 linear 259:1 x'");
        refused("0 8192 striped 1 128 8:16 0\n", "1 member");
        refused("0 8192 striped 2 3 8:16 0 8:32 0\n", "multiple of 4 KiB");
        refused("", "0 pieces");
        refused("0 8192 linear 9:9 0\n", "no device 9:9");
    }

    #[test]
    fn cyclic_layers_end() {
        let mut machine = machine();
        machine.devices.insert("259:1", "dm-0");
        assert!(machine.locate("dm-0").expect_err("for ever").contains("on one another"));
    }
}
