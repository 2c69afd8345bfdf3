//! What the kernel says of where an array's strips lie.
//!
//! Linux md tells level, chunk, members and layout in `md/` of its device. Other arrays may announce a strip as the smallest and a stripe as
//! the optimal request in `queue/`; whether one member in a stripe is parity they do not say.

use foreseek_units::{Bytes, Level, PAGE_SIZE};
use std::fs;
use std::path::Path;

/// md's number for the left-symmetric layout of RAID-5, its default.
const LEFT_SYMMETRIC: u64 = 2;
const TELL: &str = "give --strip, --members and --level, or --profile";

/// An array's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) strip: Bytes,
    pub(crate) members: u64,
    pub(crate) level: Level,
}

/// The shape of the array of this device, whose directory in sysfs it is; `told` is its level where the user has said it. What is wrong
/// otherwise, and what to do.
pub(crate) fn geometry(device: &Path, told: Option<Level>) -> Result<Found, String> {
    let whole = whole(device);
    if whole.join("md").exists() {
        of_md(&whole.join("md"), told)
    } else {
        announced(&whole.join("queue"), told)
    }
}

/// A partition has what is said of it in its array's directory.
pub(crate) fn whole(device: &Path) -> &Path {
    if device.join("partition").exists() { device.parent().unwrap_or(device) } else { device }
}

fn of_md(md: &Path, told: Option<Level>) -> Result<Found, String> {
    let text =
        |name: &str| fs::read_to_string(md.join(name)).map(|text| text.trim().to_owned()).unwrap_or_default();
    let number = |name: &str| {
        text(name).parse::<u64>().map_err(|_| format!("md says '{}' of its {name}: {TELL}", text(name)))
    };
    let name = text("level");
    let Some(level) = Level::named(&name) else {
        let why = if name == "raid1" {
            "whose members are copies and have no strips"
        } else {
            "and raid0 and raid5 are served"
        };
        return Err(format!("md says that it is a {name}, {why}"));
    };
    if told.is_some_and(|told| told != level) {
        return Err(format!("md says that it is a {name}: leave --level out"));
    }
    if !matches!(text("reshape_position").as_str(), "" | "none") {
        return Err("md is reshaping it: wait for the end ('mdadm --wait')".to_owned());
    }
    if level == Level::Raid5 && number("layout")? != LEFT_SYMMETRIC {
        return Err(format!("md says that its layout is {}: left-symmetric (2) is served", text("layout")));
    }
    let (strip, members) = (Bytes(number("chunk_size")?), number("raid_disks")?);
    if strip.is_zero() || !strip.get().is_multiple_of(PAGE_SIZE) {
        return Err(format!("md says that its chunk is {strip}: it must be a multiple of 4 KiB"));
    }
    Ok(Found { strip, members, level })
}

fn announced(queue: &Path, told: Option<Level>) -> Result<Found, String> {
    let number = |name: &str| {
        let text = fs::read_to_string(queue.join(name)).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or_default()
    };
    let (strip, stripe) = (number("minimum_io_size"), number("optimal_io_size"));
    let is_strip = strip > 0 && strip.is_multiple_of(PAGE_SIZE);
    if !is_strip || stripe <= strip || !stripe.is_multiple_of(strip) {
        return Err(format!("the kernel knows no strips of it: {TELL}"));
    }
    let (strip, data) = (Bytes(strip), stripe / strip);
    match told {
        Some(Level::Raid0) => Ok(Found { strip, members: data, level: Level::Raid0 }),
        Some(Level::Raid5) => Ok(Found { strip, members: data + 1, level: Level::Raid5 }),
        None => Err(format!(
            "it announces {data} strips of {strip} in a stripe, and not its level: give --level raid0 or raid5"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device's directory with these files.
    fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let file = directory.path().join(name);
            fs::create_dir_all(file.parent().expect("it has one")).expect("a directory");
            fs::write(file, format!("{text}\n")).expect("a file");
        }
        directory
    }

    fn md(changes: &[(&'static str, &'static str)]) -> Result<Found, String> {
        let mut files = vec![
            ("md/level", "raid5"),
            ("md/chunk_size", "524288"),
            ("md/raid_disks", "5"),
            ("md/layout", "2"),
            ("md/reshape_position", "none"),
        ];
        for (name, text) in changes {
            files.iter_mut().filter(|file| file.0 == *name).for_each(|file| file.1 = text);
        }
        geometry(sysfs(&files).path(), None)
    }

    #[test]
    fn an_array_of_md_tells_its_shape() {
        let raid5 = Found { strip: Bytes::kib(512), members: 5, level: Level::Raid5 };
        assert_eq!(md(&[]), Ok(raid5));
        // The layout of a raid0 is of another kind.
        let raid0 = Found { level: Level::Raid0, ..raid5 };
        assert_eq!(md(&[("md/level", "raid0"), ("md/layout", "-1")]), Ok(raid0));
        let partition = sysfs(&[
            ("md/level", "raid0"),
            ("md/chunk_size", "65536"),
            ("md/raid_disks", "2"),
            ("md0p1/partition", "1"),
        ]);
        let found = geometry(&partition.path().join("md0p1"), None).expect("its array's");
        assert_eq!((found.strip, found.members), (Bytes::kib(64), 2));
    }

    #[test]
    fn what_is_not_served_is_refused_with_what_md_says() {
        let refused = |name, text, words: &str| {
            let error = md(&[(name, text)]).expect_err(words);
            assert!(error.contains(words), "{error}");
        };
        refused("md/level", "raid1", "copies and have no strips");
        refused("md/level", "raid6", "a raid6, and raid0");
        refused("md/layout", "0", "left-symmetric");
        refused("md/reshape_position", "4096", "mdadm --wait");
        refused("md/raid_disks", "5 (4)", "'5 (4)'");
        refused("md/chunk_size", "0", "chunk");
        let raid5 = sysfs(&[("md/level", "raid5")]);
        assert!(
            geometry(raid5.path(), Some(Level::Raid0)).expect_err("md knows").contains("leave --level out")
        );
    }

    #[test]
    fn other_arrays_announce_strips_and_stripes() {
        let queue = |least, best| sysfs(&[("queue/minimum_io_size", least), ("queue/optimal_io_size", best)]);
        let array = queue("65536", "262144");
        let found = |level| geometry(array.path(), Some(level)).map(|found| (found.strip, found.members));
        assert_eq!(found(Level::Raid0), Ok((Bytes::kib(64), 4)));
        assert_eq!(found(Level::Raid5), Ok((Bytes::kib(64), 5)));
        assert!(geometry(array.path(), None).expect_err("a guess").contains("give --level"));
        for (least, best) in [("512", "0"), ("4096", "4096"), ("65536", "100000"), ("512", "1024")] {
            let disk = queue(least, best);
            assert!(geometry(disk.path(), Some(Level::Raid5)).expect_err("a disk").contains("--members"));
        }
    }
}
