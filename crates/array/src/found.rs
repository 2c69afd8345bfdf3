//! The layout of an array's strips, as the kernel reports it.
//!
//! Linux md reports level, chunk, members and layout in `md/` of its device. Other arrays may announce a
//! strip as the smallest and a stripe as the optimal request in `queue/`; they do not report how many members
//! of a stripe are parity.

use foreseek_units::{Bytes, Level, PAGE_SIZE};
use std::fs;
use std::path::Path;

/// md's number for the left-symmetric layouts of RAID-5 and RAID-6, its default.
const LEFT_SYMMETRIC: u64 = 2;
const REMEDY: &str = "give --strip, --members and --level, or --profile";

/// An array's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) strip: Bytes,
    /// The members over which strips are distributed: for RAID-10 with two copies side by side half of its
    /// disks.
    pub(crate) members: u64,
    pub(crate) level: Level,
    /// The copies of each strip: more than one for RAID-10.
    pub(crate) copies: u64,
}

impl Found {
    /// This shape, if its strips can be served; `source` reported it.
    pub(crate) fn checked(self, source: &str) -> Result<Self, String> {
        if self.strip.is_zero() || !self.strip.get().is_multiple_of(PAGE_SIZE) {
            return Err(format!(
                "{source} reports a chunk of {}: it must be a multiple of 4 KiB",
                self.strip
            ));
        }
        if self.members < self.level.parities() + 2 {
            return Err(format!(
                "{source} distributes its strips over {} members less {} of parity: there is nothing to stripe",
                self.members,
                self.level.parities()
            ));
        }
        Ok(self)
    }
}

/// The shape of the array with this directory in sysfs; `given` is the level that the user gave. The error is
/// the reason, and what to do.
pub(crate) fn geometry(array: &Path, given: Option<Level>) -> Result<Found, String> {
    let md = array.join("md");
    if md.exists() { of_md(&md, given) } else { announced(&array.join("queue"), given) }
}

fn of_md(md: &Path, given: Option<Level>) -> Result<Found, String> {
    let text =
        |name: &str| fs::read_to_string(md.join(name)).map(|text| text.trim().to_owned()).unwrap_or_default();
    let number = |name: &str| {
        text(name).parse::<u64>().map_err(|_| format!("md reports '{}' as its {name}: {REMEDY}", text(name)))
    };
    let name = text("level");
    let is_raid10 = name == "raid10";
    let Some(level) = Level::named(&name).or(is_raid10.then_some(Level::Raid0)) else {
        let why = if name == "raid1" {
            "whose members are copies and have no strips"
        } else {
            "and raid0, raid5, raid6 and raid10 are served"
        };
        return Err(format!("md reports a {name}, {why}"));
    };
    if given.is_some_and(|given| given != level) {
        return Err(format!("md reports a {name}: leave --level out"));
    }
    if !matches!(text("reshape_position").as_str(), "" | "none") {
        return Err("md is reshaping it: wait for the end ('mdadm --wait')".to_owned());
    }
    if level != Level::Raid0 && number("layout")? != LEFT_SYMMETRIC {
        return Err(format!("md reports the layout {}: left-symmetric (2) is supported", text("layout")));
    }
    let (strip, disks) = (Bytes(number("chunk_size")?), number("raid_disks")?);
    let (members, copies) = if is_raid10 { of_raid10(disks, number("layout")?)? } else { (disks, 1) };
    Found { strip, members, level, copies }.checked("md")
}

/// The members over which a RAID-10 of md distributes its strips, and the copies of each. Bits 0 to 7 of its
/// layout are the copies side by side (`near`). Bits 8 to 15 are the copies farther in (`far`, `offset`),
/// which md reads only where it must. Source: `setup_geo` in Linux's `drivers/md/raid10.c`.
fn of_raid10(disks: u64, layout: u64) -> Result<(u64, u64), String> {
    let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
    if near == 0 || far == 0 || !disks.is_multiple_of(near) {
        return Err(format!(
            "md keeps {near} copies side by side on {disks} disks, which do not go into pairs: not served"
        ));
    }
    if disks == near {
        return Err("all members of the md array are copies, which have no strips".to_owned());
    }
    Ok((disks / near, near * far))
}

/// A number in the queue's directory of a device in sysfs.
pub(crate) fn number(queue: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(queue.join(name)).ok()?.trim().parse().ok()
}

fn announced(queue: &Path, given: Option<Level>) -> Result<Found, String> {
    let number = |name: &str| number(queue, name).unwrap_or_default();
    let (strip, stripe) = (number("minimum_io_size"), number("optimal_io_size"));
    let is_strip = strip > 0 && strip.is_multiple_of(PAGE_SIZE);
    if !is_strip || stripe <= strip || !stripe.is_multiple_of(strip) {
        return Err(format!("the kernel knows no strips of it: {REMEDY}"));
    }
    let (strip, data) = (Bytes(strip), stripe / strip);
    match given {
        Some(level) => Ok(Found { strip, members: data + level.parities(), level, copies: 1 }),
        None => Err(format!(
            "it announces {data} strips of {strip} in a stripe, and not its level: give --level raid0, raid5 or raid6"
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
    fn an_array_of_md_reports_its_shape() {
        let raid5 = Found { strip: Bytes::kib(512), members: 5, level: Level::Raid5, copies: 1 };
        assert_eq!(md(&[]), Ok(raid5));
        // The layout of a raid0 has another meaning.
        let raid0 = Found { level: Level::Raid0, ..raid5 };
        assert_eq!(md(&[("md/level", "raid0"), ("md/layout", "-1")]), Ok(raid0));
        let raid6 = Found { level: Level::Raid6, ..raid5 };
        assert_eq!(md(&[("md/level", "raid6")]), Ok(raid6));
    }

    /// Layouts as `mdadm --layout` n2, n3, f2, o2 writes them.
    #[test]
    fn a_raid10_distributes_strips_as_a_raid0_of_its_pairs() {
        let shape = |disks, layout| {
            let found = md(&[("md/level", "raid10"), ("md/raid_disks", disks), ("md/layout", layout)])?;
            Ok::<_, String>((found.level, found.members, found.copies))
        };
        assert_eq!(shape("4", "258"), Ok((Level::Raid0, 2, 2)));
        assert_eq!(shape("6", "259"), Ok((Level::Raid0, 2, 3)));
        assert_eq!(shape("4", "513"), Ok((Level::Raid0, 4, 2)));
        assert_eq!(shape("3", "66049"), Ok((Level::Raid0, 3, 2)));
        assert!(shape("3", "258").expect_err("no pairs").contains("3 disks"));
        assert!(shape("2", "258").expect_err("a mirror").contains("copies, which have no strips"));
        assert!(shape("4", "2").expect_err("no such layout").contains("not served"));
    }

    #[test]
    fn unsupported_arrays_are_refused_with_the_report_of_md() {
        let refused = |name, text, words: &str| {
            let error = md(&[(name, text)]).expect_err(words);
            assert!(error.contains(words), "{error}");
        };
        refused("md/level", "raid1", "copies and have no strips");
        refused("md/level", "raid4", "a raid4, and raid0");
        refused("md/level", "linear", "a linear, and raid0");
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
        assert_eq!(found(Level::Raid6), Ok((Bytes::kib(64), 6)));
        assert!(geometry(array.path(), None).expect_err("a guess").contains("give --level"));
        for (least, best) in [("512", "0"), ("4096", "4096"), ("65536", "100000"), ("512", "1024")] {
            let disk = queue(least, best);
            assert!(geometry(disk.path(), Some(Level::Raid5)).expect_err("a disk").contains("--members"));
        }
    }
}
