//! Where strips of a real partition lie, and arrays that the kernel knows by what they announce alone.
//!
//! The partition needs partx; where the kernel reads tables by itself that is no other. A disk that announces strips is
//! in the virtual machine of `scripts/guest-md`.

use crate::lab::{Lab, read_direct};
use crate::{Arrays, GEOMETRY, Laid, aligned, direct, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of a strip, in sectors.
const STRIP: u64 = 128;
/// Where the partition begins: a page behind a strip's start.
const START: u64 = 8 * STRIP + 8;
/// Its length: it ends within a strip.
const LENGTH: u64 = 100 * STRIP + 64;

/// The first sector of a disk with one partition.
fn table() -> Vec<u8> {
    let mut table = vec![0; 512];
    // Of any kind of Linux.
    table[450] = 0x83;
    table[454..458].copy_from_slice(&(START as u32).to_le_bytes());
    table[458..462].copy_from_slice(&(LENGTH as u32).to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    table
}

fn sysfs(device: &Path) -> PathBuf {
    Path::new("/sys/class/block").join(device.file_name().expect("a node"))
}

/// The content of a page of the partition.
fn page(number: u64) -> Vec<u8> {
    (0..4096_u64).map(|byte| (number.wrapping_mul(37) ^ byte.wrapping_mul(number | 1) >> 3) as u8).collect()
}

fn fill(partition: &Path) {
    let (open, mut memory) = (direct(partition), aligned());
    for number in 0..LENGTH / 8 {
        memory.0[..4096].copy_from_slice(&page(number));
        open.write_all_at(&memory.0[..4096], number * 4096).expect("it writes");
    }
}

/// The sectors of the disk that lie in one strip with a page of its partition: strips are counted from the disk's start.
fn strip_of(number: u64) -> (u64, u64) {
    let strip = (START + number * 8) / STRIP;
    ((strip * STRIP).max(START), ((strip + 1) * STRIP).min(START + LENGTH))
}

/// A page in each third strip but at the ends.
fn pages() -> impl Iterator<Item = u64> {
    (48..LENGTH / 8 - 48).step_by(48).map(|number| number + 5)
}

/// 128 KiB, in sectors.
const READ_AHEAD: u64 = 256;

/// The first page and the last. What looks for file systems and tables reads them, at any time.
const ENDS: [u64; 2] = [0, LENGTH / 8 - 1];

#[test]
fn strips_of_a_partition_are_counted_from_the_arrays_start() {
    let Some(lab) = Lab::new() else { return };
    if Command::new("partx").arg("--version").output().is_err() {
        println!("SKIPPED: a partition needs partx (util-linux)");
        return;
    }
    let arrays = Arrays(&lab);
    let disk = lab.attach(&["--profile", "none", "--size", "16M", "--name", "whole"]);
    let open = direct(&disk);
    let mut memory = aligned();
    memory.0[..512].copy_from_slice(&table());
    open.write_all_at(&memory.0[..512], 0).expect("it writes");
    drop(open);
    // The emulated disk's own device shows no partitions. This one is a layer without a cache above it.
    let above = lab.tool("losetup", &["--partscan", "--direct-io=on", "--find", "--show", text(&disk)]);
    let above = Laid(&lab, above.trim().into());
    // It adds what the kernel has not found by itself.
    lab.run(Command::new("partx").args(["--add", text(&above.1)]));
    let partition = PathBuf::from(format!("{}p1", text(&above.1)));
    let start = fs::read_to_string(sysfs(&partition).join("start")).expect("a partition");
    assert_eq!(start.trim(), START.to_string());
    fill(&partition);
    lab.must(&["log", "whole", "--start"]);
    let device = arrays.attach(&partition, &[&GEOMETRY[..], &["--policy", "sp", "--name", "part"]].concat());
    // Reads pages. Returns what the disk has read since its log was started.
    let read = |numbers: &[u64]| {
        for number in numbers {
            assert!(read_direct(&device, number * 4096).expect("it reads") == page(*number), "page {number}");
        }
        let log = lab.path("log.csv");
        lab.must(&["log", "whole", "--save", text(&log)]);
        let read = read_sectors(&fs::read_to_string(&log).expect("it is there"));
        let is_border =
            |sector: u64| sector.is_multiple_of(STRIP) || [START, START + LENGTH].contains(&sector);
        // A program that looks for a file system may ask the partition itself, with the kernel's read-ahead.
        let is_of_others = |(from, to): (u64, u64)| from == START && to == START + READ_AHEAD;
        let is_whole =
            |&(from, to): &(u64, u64)| is_border(from) && is_border(to) || is_of_others((from, to));
        assert!(read.iter().all(is_whole), "{numbers:?}: {read:?}");
        read
    };
    // Strips that lie side by side are one range: others may read meanwhile.
    let covers = |read: &[(u64, u64)], number| {
        let strip = strip_of(number);
        read.iter().any(|(from, to)| *from <= strip.0 && strip.1 <= *to)
    };
    // Since it was attached.
    let all = read(&ENDS);
    assert!(ENDS.iter().all(|number| covers(&all, *number)), "{all:?}");
    for number in pages() {
        lab.must(&["log", "whole", "--start"]);
        let read = read(&[number]);
        assert!(covers(&read, number), "page {number}: {read:?}");
    }
    for number in 0..LENGTH / 8 {
        assert!(read_direct(&device, number * 4096).expect("it reads") == page(number), "page {number}");
    }
    arrays.must(&["detach", "part"]);
    lab.run(Command::new("partx").args(["--delete", text(&above.1)]));
    drop(above);
    lab.must(&["detach", "whole"]);
    arrays.assert_clean();
}

/// The sectors that were read by a log, as ranges that do not touch.
fn read_sectors(log: &str) -> Vec<(u64, u64)> {
    let mut lines = log.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().expect("a line of names").split(',').collect();
    let column = |name: &str| {
        names.iter().position(|one| *one == name).unwrap_or_else(|| panic!("{name} of {names:?}"))
    };
    let (op, lba, sectors) = (column("op"), column("lba"), column("sectors"));
    let reads = lines.map(|line| line.split(',').collect::<Vec<_>>()).filter(|line| line[op] == "read");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let mut reads: Vec<(u64, u64)> =
        reads.map(|line| (number(line[lba]), number(line[lba]) + number(line[sectors]))).collect();
    reads.sort_unstable();
    reads.dedup_by(|next, one| {
        let touches = next.0 <= one.1;
        if touches {
            one.1 = one.1.max(next.1);
        }
        touches
    });
    reads
}

/// A disk that announces these strips and stripes, in bytes.
fn announced(strip: u64, stripe: u64) -> Option<PathBuf> {
    let devices = fs::read_dir("/sys/block").expect("sysfs").flatten();
    let says = |device: &Path, name: &str| {
        fs::read_to_string(device.join("queue").join(name)).unwrap_or_default().trim().parse::<u64>().ok()
    };
    let is_it = |device: &PathBuf| {
        says(device, "minimum_io_size") == Some(strip) && says(device, "optimal_io_size") == Some(stripe)
    };
    let found = devices.map(|device| device.path()).find(is_it);
    found.map(|device| Path::new("/dev").join(device.file_name().expect("a name")))
}

/// Sectors that a device has read.
fn has_read(device: &Path) -> u64 {
    let stat = fs::read_to_string(sysfs(device).join("stat")).expect("sysfs");
    stat.split_whitespace().nth(2).and_then(|sectors| sectors.parse().ok()).expect("a number")
}

#[test]
fn an_announced_array_and_its_partition_are_served_by_the_announced_strips() {
    let Some(lab) = Lab::new() else { return };
    let Some(disk) = announced(STRIP * 512, 3 * STRIP * 512) else {
        println!("SKIPPED: no disk announces strips of 64 KiB; scripts/guest-md has one");
        return;
    };
    let arrays = Arrays(&lab);
    let why = arrays.refused(&["attach", text(&disk)]);
    assert!(why.contains("announces 3 strips") && why.contains("give --level"), "{why}");
    let shape = |status: &Value| {
        (
            status["strip_bytes"].as_u64(),
            status["members"].as_u64(),
            status["level"].as_str().map(str::to_owned),
        )
    };
    for (level, members) in [("raid0", 3), ("raid5", 4), ("raid6", 5)] {
        let device = arrays.attach(&disk, &["--level", level, "--name", "announced"]);
        let expected = (Some(STRIP * 512), Some(members), Some(level.to_owned()));
        assert_eq!(shape(&arrays.status(&device)), expected);
        arrays.must(&["detach", "announced"]);
    }
    fs::write(&disk, table()).expect("it writes");
    lab.tool("blockdev", &["--rereadpt", text(&disk)]);
    let partition = PathBuf::from(format!("{}1", text(&disk)));
    fill(&partition);
    let length = |number: u64| strip_of(number).1 - strip_of(number).0;
    let first = has_read(&disk);
    let device = arrays.attach(&partition, &["--level", "raid5", "--policy", "sp", "--name", "announced"]);
    assert_eq!(shape(&arrays.status(&device)).0, Some(STRIP * 512));
    for number in pages() {
        let before = has_read(&disk);
        assert!(read_direct(&device, number * 4096).expect("it reads") == page(number), "page {number}");
        assert_eq!(has_read(&disk) - before, length(number), "page {number}");
    }
    for number in ENDS {
        assert!(read_direct(&device, number * 4096).expect("it reads") == page(number), "page {number}");
    }
    // All strips, each once; and a page to look for a label of LVM when it is attached.
    let strips: u64 = pages().chain(ENDS).map(length).sum();
    assert_eq!(has_read(&disk) - first, strips + 8);
    arrays.must(&["detach", "announced"]);
    fs::write(&disk, vec![0; 512]).expect("it writes");
    lab.tool("blockdev", &["--rereadpt", text(&disk)]);
    arrays.assert_clean();
}
