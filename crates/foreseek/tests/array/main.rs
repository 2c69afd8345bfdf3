//! System tests of `foreseek array`: real FUSE, loop devices, file systems, failing sectors and crashes.
//!
//! They need root and are skipped with a message without it.
#![allow(clippy::print_stdout, reason = "tests that are skipped say so")]

mod boot;
#[allow(dead_code, reason = "it is shared with the tests of emulated disks")]
#[path = "../disk/lab.rs"]
mod lab;
mod layers;
mod md;
mod nbd;

use foreseek_rig::{CgroupParent, MemoryGroup};
use foreseek_units::{Bytes, Level};
use lab::{Ended, LIMIT, Lab, read_direct, until, wait};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const GEOMETRY: [&str; 6] = ["--strip", "64K", "--members", "4", "--level", "raid5"];

/// Arrays of a lab; their leftovers are removed before the disks below them.
struct Arrays<'a>(&'a Lab);

impl Arrays<'_> {
    fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command
            .arg("array")
            .args(arguments)
            .env("FORESEEK_RUN", self.0.path("run"))
            .env("FORESEEK_FUSE_TIMEOUT", "120");
        self.0.run(command.current_dir(&self.0.directory))
    }

    fn must(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.status, Some(0), "{arguments:?}: {ended:?}");
        ended.out
    }

    /// The reason of a refusal; nothing is left then.
    fn refused(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.status, Some(2), "{arguments:?}: {ended:?}");
        assert_eq!(ended.err.trim_end().lines().count(), 1, "{ended:?}");
        ended.err
    }

    fn attach(&self, device: &Path, options: &[&str]) -> PathBuf {
        let mut arguments = vec!["attach", text(device), "--memory", "112M", "--format", "json"];
        arguments.extend(options);
        let attached: Value = serde_json::from_str(&self.must(&arguments)).expect("JSON");
        attached["device"].as_str().expect("a device").into()
    }

    fn list(&self) -> Vec<Value> {
        serde_json::from_str(&self.must(&["list", "--format", "json"])).expect("JSON")
    }

    fn status(&self, target: &Path) -> Value {
        serde_json::from_str(&self.must(&["status", text(target), "--format", "json"])).expect("JSON")
    }

    fn assert_clean(&self) {
        assert!(self.list().is_empty());
        self.0.assert_clean();
    }
}

impl Drop for Arrays<'_> {
    fn drop(&mut self) {
        let left = fs::read_dir(self.0.path("run/arrays")).into_iter().flatten().flatten();
        for folder in left {
            let _ = self.run(&["detach", "--force", &folder.file_name().to_string_lossy()]);
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

fn direct(path: &Path) -> File {
    let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    File::options().read(true).write(true).custom_flags(flags).open(path).expect("it opens")
}

/// Memory for direct I/O of up to 256 KiB.
#[repr(align(4096))]
struct Aligned([u8; 256 << 10]);

fn aligned() -> Box<Aligned> {
    Box::new(Aligned([0; 256 << 10]))
}

/// A small generator, so that tests are repeatable.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn a_file_system_on_an_array_is_on_the_disk_below() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let disk = lab.attach(&["--profile", "raid5-5x-15k", "--size", "128M", "--no-delays", "--name", "below"]);
    // A file of its name does not hide a built-in profile.
    fs::write(lab.path("raid5-5x-15k"), "nonsense = 1\n").expect("written");
    let device = arrays.attach(&disk, &["--profile", "raid5-5x-15k", "--name", "fs"]);
    let mount_point = lab.mount_point();
    lab.tool("mkfs.ext4", &["-q", text(&device)]);
    lab.tool("mount", &[text(&device), text(&mount_point)]);
    let content: Vec<u8> =
        (0..20_000_000u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(mount_point.join("file"), &content).expect("written");
    lab.tool("sync", &[]);

    let held = arrays.refused(&["detach", "fs"]);
    assert!(held.contains("busy") && held.contains(text(&mount_point)), "{held}");
    let twice = arrays.refused(&["attach", text(&disk), "--profile", "raid5-5x-15k"]);
    assert!(twice.contains("attached as array 'fs'"), "{twice}");
    let below = lab.disk(&["detach", "below"]).err;
    assert!(below.contains("busy: attached as array 'fs'"), "{below}");
    let pid = arrays.list()[0]["pid"].as_u64().expect("a process");
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs"), "foreseek-array\n");
    let line = fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    assert!(line.starts_with(b"foreseek\0array\0serve\0"), "{line:?}");
    let raw = lab.run(Command::new("mount").args([text(&disk), "/mnt"]));
    assert_ne!(raw.status, Some(0), "the device below cannot be mounted meanwhile");

    lab.unmount(&mount_point);
    lab.tool("mount", &["-o", "ro", text(&device), text(&mount_point)]);
    assert!(fs::read(mount_point.join("file")).expect("read") == content);
    let status = arrays.status(&device);
    assert!(status["prefetch_hits"].as_u64() > Some(0), "{status}");
    assert!(status["hit_rate"].as_f64() > Some(0.0), "{status}");
    assert!(arrays.must(&["status", "fs"]).contains("upstream"));
    assert_eq!(arrays.list()[0]["health"], "ready");
    lab.unmount(&mount_point);

    let sum = |path: &Path| lab.tool("sha256sum", &[text(path)]).split(' ').next().map(str::to_owned);
    let above = sum(&device);
    arrays.must(&["detach", "fs"]);
    assert_eq!(sum(&disk), above);
    lab.tool("e2fsck", &["-fn", text(&disk)]);
    lab.must(&["detach", "below"]);
    arrays.assert_clean();
}

#[test]
fn random_requests_of_several_threads_equal_a_shadow() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    // It ends within a page and within a strip.
    const THREADS: u64 = 4;
    const SECTORS: u64 = 10_000;
    let file = lab.path("array.img");
    let size = THREADS * SECTORS * 512 + 1536;
    File::create(&file).and_then(|file| file.set_len(size)).expect("room");
    let mut options = GEOMETRY.to_vec();
    options.extend(["--policy", "asp+msp"]);
    let device = arrays.attach(&file, &options);
    let work = |thread: u64| {
        let (open, mut memory, mut random) = (direct(&device), aligned(), Random(thread + 1));
        let base = thread * SECTORS * 512;
        let mut shadow = vec![0u8; (SECTORS * 512) as usize];
        for round in 0..1500 {
            let start = random.below(SECTORS);
            let sectors = (1 + random.below(if round % 8 == 0 { 512 } else { 24 })).min(SECTORS - start);
            let (from, length) = ((start * 512) as usize, (sectors * 512) as usize);
            let memory = &mut memory.0[..length];
            if random.below(3) == 0 {
                memory.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
                open.write_all_at(memory, base + from as u64).expect("it writes");
                shadow[from..from + length].copy_from_slice(memory);
            } else {
                open.read_exact_at(memory, base + from as u64).expect("it reads");
                assert!(
                    memory == &shadow[from..from + length],
                    "thread {thread}, round {round}: {start}+{sectors}"
                );
            }
        }
        shadow
    };
    let shadows: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("as on its shadow")).collect()
    });
    // The last page has three sectors.
    let (open, mut memory) = (direct(&device), aligned());
    memory.0[..1536].fill(7);
    open.write_all_at(&memory.0[..1536], size - 1536).expect("it writes");
    open.read_exact_at(&mut memory.0[..512], size - 512).expect("it reads");
    assert!(memory.0[..1536].iter().all(|byte| *byte == 7));
    drop(open);
    lab.tool("blkdiscard", &["-o", "0", "-l", "1048576", text(&device)]);
    let found = read_direct(&device, 65_536).expect("it reads");
    assert!(found.iter().all(|byte| *byte == 0), "it reads as zero");

    let status = arrays.status(&device);
    assert!(status["prefetch_hits"].as_u64() > Some(100), "{status}");
    arrays.must(&["detach", text(&device)]);
    let mut expected = shadows.concat();
    expected[..1 << 20].fill(0);
    expected.extend([7; 1536]);
    assert!(fs::read(&file).expect("it is there") == expected, "the file below is what was written");
    arrays.assert_clean();
}

#[test]
fn a_failing_sector_fails_only_its_page() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let disk = lab.attach(&["--profile", "wd-500g", "--size", "64M", "--no-delays", "--name", "bad"]);
    let marks = |page: u64| page as u8 ^ 0x5a;
    let (open, mut memory) = (direct(&disk), aligned());
    for page in 0..64 {
        memory.0[page as usize * 4096..][..4096].fill(marks(page));
    }
    open.write_all_at(&memory.0, 0).expect("it writes");
    drop(open);
    let device = arrays.attach(&disk, &GEOMETRY);
    lab.must(&["set", "bad", "--fail-lba", "163..164"]);
    for round in 0..2 {
        for page in (0..64).rev() {
            match read_direct(&device, page * 4096) {
                Ok(data) => {
                    assert_ne!(page, 20, "round {round}");
                    assert!(data.iter().all(|byte| *byte == marks(page)), "page {page}");
                }
                Err(error) => {
                    assert_eq!((page, error.raw_os_error()), (20, Some(5)), "round {round}: {error}");
                }
            }
        }
    }
    lab.must(&["set", "bad", "--fail-none"]);
    let data = read_direct(&device, 20 * 4096).expect("it can be read again");
    assert!(data.iter().all(|byte| *byte == marks(20)));
    arrays.must(&["detach", text(&device)]);
    lab.must(&["detach", "bad"]);
    arrays.assert_clean();
}

/// Four writes that lie behind one another within a stripe are joined below. A sector that fails is an error of the
/// one that has it.
#[test]
fn a_failing_sector_fails_only_its_write() {
    const LENGTH: usize = 256 << 10;
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let disk = lab.attach(&["--profile", "wd-500g", "--size", "64M", "--no-delays", "--name", "bad"]);
    let device = arrays.attach(&disk, &["--strip", "512K", "--members", "5", "--level", "raid5"]);
    // In the third.
    let sector = (2 * LENGTH as u64 + 40960) / 512;
    lab.must(&["set", "bad", "--fail-lba", &format!("{sector}..{}", sector + 1)]);
    let open = direct(&device);
    for round in 0..16_u64 {
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for number in 0..4_u64 {
                let (open, together) = (&open, &together);
                scope.spawn(move || {
                    let mut memory = aligned();
                    memory.0.fill((16 * number + round) as u8);
                    together.wait();
                    let written = open.write_all_at(&memory.0, number * LENGTH as u64);
                    let error = written.err().and_then(|error| error.raw_os_error());
                    assert_eq!(error, (number == 2).then_some(5), "write {number} of round {round}");
                });
            }
        });
        for number in [0, 1, 3_u64] {
            let data = read_direct(&device, number * LENGTH as u64 + 8192).expect("it reads");
            assert!(data.iter().all(|byte| *byte == (16 * number + round) as u8), "write {number}");
        }
    }
    drop(open);
    lab.must(&["set", "bad", "--fail-none"]);
    arrays.must(&["detach", text(&device)]);
    lab.must(&["detach", "bad"]);
    arrays.assert_clean();
}

/// One of four members fails: strips on the others are read meanwhile, by several readers, whatever is
/// prefetched.
#[test]
fn a_failing_member_fails_only_its_strips() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let disk = lab.attach(&["--profile", "wd-500g", "--size", "64M", "--no-delays", "--name", "bad"]);
    const STRIP: u64 = 64 << 10;
    const STRIPS: u64 = 36;
    let holder = md::holder(Level::Raid5, 4);
    let fails = |strip: u64| holder(strip) == [1];
    let (open, mut memory) = (direct(&disk), aligned());
    for strip in 0..STRIPS {
        memory.0[..STRIP as usize].fill(strip as u8 + 1);
        open.write_all_at(&memory.0[..STRIP as usize], strip * STRIP).expect("it writes");
    }
    drop(open);
    let sectors = |strip: u64| format!("{}..{}", strip * STRIP / 512, (strip + 1) * STRIP / 512);
    let failing: Vec<String> = (0..STRIPS).filter(|strip| fails(*strip)).map(sectors).collect();
    assert_eq!(failing.len() as u64, STRIPS / 4);
    let mut set = vec!["set", "bad"];
    failing.iter().for_each(|range| set.extend(["--fail-lba", range]));
    for policy in ["adaptive", "asp+msp"] {
        let device = arrays.attach(&disk, &[&GEOMETRY[..], &["--policy", policy]].concat());
        lab.must(&set);
        let read = |strip: u64, page: u64, expected: bool| {
            let read = read_direct(&device, strip * STRIP + page * 4096);
            let is_well = read.as_ref().is_ok_and(|data| data.iter().all(|byte| *byte == strip as u8 + 1));
            assert!(if expected { is_well } else { read.is_err() }, "{policy}: strip {strip}, page {page}");
        };
        std::thread::scope(|scope| {
            // In sequence, so that stripes are prefetched, and one reader in each direction.
            scope.spawn(|| (0..STRIPS).for_each(|at| (0..16).for_each(|page| read(at, page, !fails(at)))));
            scope.spawn(|| {
                (0..STRIPS).rev().for_each(|at| (0..16).rev().for_each(|page| read(at, page, !fails(at))));
            });
        });
        lab.must(&["set", "bad", "--fail-none"]);
        (0..STRIPS).for_each(|strip| read(strip, 5, true));
        arrays.must(&["detach", text(&device)]);
    }
    lab.must(&["detach", "bad"]);
    arrays.assert_clean();
}

/// Ends an array whose disk has lost power: nothing that the array still holds reaches it.
fn end_without_power(lab: &Lab, arrays: &Arrays<'_>, name: &str) {
    lab.must(&["set", "cached", "--power", "off"]);
    let pid = arrays.list()[0]["pid"].as_u64().expect("a process").to_string();
    lab.tool("kill", &["-9", &pid]);
    let freed = arrays.run(&["detach", "--force", name]);
    assert_eq!(freed.status, Some(0), "{freed:?}");
    assert!(arrays.list().is_empty());
    lab.must(&["set", "cached", "--power", "on"]);
}

/// The disk below has a volatile cache and loses power: blocks that were flushed through the array are there,
/// each one.
#[test]
fn flushed_blocks_outlive_a_power_failure_of_the_disk_below() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let attached = ["--profile", "none", "--size", "64M", "--volatile-cache", "64M", "--name", "cached"];
    let disk = lab.attach(&attached);
    let mut random = Random(7);
    for round in 0..4u64 {
        let device = arrays.attach(&disk, &[&GEOMETRY[..], &["--name", "power"]].concat());
        let (open, mut memory) = (direct(&device), aligned());
        // The certain contents of each page, and the possible ones.
        let mut sure: Vec<u8> =
            (0..256).map(|page| read_direct(&device, page * 4096).expect("it reads")[0]).collect();
        let mut now = sure.clone();
        let mut lost = 0;
        for step in 0..200u64 {
            let page = random.below(256);
            let mark = (round * 60 + step % 59 + 1) as u8;
            memory.0[..4096].fill(mark);
            open.write_all_at(&memory.0[..4096], page * 4096).expect("it writes");
            now[page as usize] = mark;
            if step % 23 == 0 {
                open.sync_data().expect("flushed");
                sure.clone_from(&now);
            }
        }
        drop(open);
        end_without_power(&lab, &arrays, "power");
        for (page, sure) in (0u64..).zip(&sure) {
            let found = read_direct(&disk, page * 4096).expect("it reads");
            assert!(
                found.iter().all(|byte| byte == sure),
                "round {round}, page {page}: {} of {sure}",
                found[0]
            );
            lost += u64::from(now[page as usize] != *sure);
        }
        assert!(lost > 0, "the last writes were not flushed: the disk must have lost them");
    }
    lab.must(&["detach", "cached"]);
    arrays.assert_clean();
}

/// The same through a file system: data acknowledged by fsync are in the files after a replay of the journal.
#[test]
fn data_acknowledged_by_fsync_outlive_a_power_failure_of_the_disk_below() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let attached = ["--profile", "none", "--size", "128M", "--volatile-cache", "128M", "--name", "cached"];
    let disk = lab.attach(&attached);
    let device = arrays.attach(&disk, &[&GEOMETRY[..], &["--name", "fsync"]].concat());
    let point = lab.mount_point();
    lab.tool("mkfs.ext4", &["-q", text(&device)]);
    lab.tool("mount", &[text(&device), text(&point)]);
    let content = |number: u64| vec![(number * 37 + 11) as u8 | 1; 20_000 + number as usize * 1111];
    let path = |number: u64| point.join(format!("file-{number}"));
    for number in 0..60 {
        fs::write(path(number), content(number)).expect("written");
        if number % 3 == 0 {
            File::open(path(number)).and_then(|file| file.sync_all()).expect("fsync");
        }
    }
    end_without_power(&lab, &arrays, "fsync");
    let device = arrays.attach(&disk, &[&GEOMETRY[..], &["--name", "fsync"]].concat());
    lab.tool("mount", &[text(&device), text(&point)]);
    let held = |number: u64| fs::read(path(number)).is_ok_and(|found| found == content(number));
    for number in (0..60).step_by(3) {
        assert!(held(number), "file {number} was acknowledged");
    }
    assert!(!held(59), "the last file was not flushed: the disk must have lost it");
    lab.unmount(&point);
    lab.tool("e2fsck", &["-fn", text(&device)]);
    arrays.must(&["detach", "fsync"]);
    lab.must(&["detach", "cached"]);
    arrays.assert_clean();
}

/// A device below grows, and one is removed: both are reported, and the array can be detached.
#[test]
fn a_device_below_that_grows_or_goes_is_reported() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let file = lab.path("array.img");
    File::create(&file).and_then(|file| file.set_len(16 << 20)).expect("room");
    let device = arrays.attach(&file, &[&GEOMETRY[..], &["--name", "grows"]].concat());
    assert_eq!(arrays.status(&device)["backing_bytes"], Value::Null);
    File::options().write(true).open(&file).and_then(|file| file.set_len(32 << 20)).expect("it grows");
    let longer = |length: u64| until(LIMIT, || arrays.status(&device)["backing_bytes"] == length);
    assert!(longer(32 << 20));
    assert!(arrays.must(&["status", "grows"]).contains("has 32 MiB now: detach the array"));
    File::options().write(true).open(&file).and_then(|file| file.set_len(1 << 20)).expect("it shrinks");
    assert!(longer(1 << 20));
    assert!(read_direct(&device, 8 << 20).is_err(), "past its end");
    read_direct(&device, 0).expect("what is there is read");
    arrays.must(&["detach", "grows"]);

    let disk = lab.attach(&["--profile", "none", "--size", "16M", "--name", "gone"]);
    let device = arrays.attach(&disk, &[&GEOMETRY[..], &["--name", "over"]].concat());
    lab.must(&["set", "gone", "--power", "off"]);
    let error = read_direct(&device, 4 << 20).expect_err("it is gone");
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    lab.must(&["set", "gone", "--power", "on"]);
    read_direct(&device, 4 << 20).expect("it is back");
    // Taken away for good: the array holds the device, which is dead.
    let taken = lab.disk(&["detach", "gone", "--force"]);
    assert!(taken.status == Some(2) && taken.err.contains("still in use"), "{taken:?}");
    let error = read_direct(&device, 8 << 20).expect_err("it is gone");
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    arrays.must(&["detach", "over"]);
    lab.must(&["detach", "gone"]);
    arrays.assert_clean();
}

/// The way of writes to an array.
#[derive(Clone, Copy)]
enum Way {
    Loop,
    Nbd,
}

/// Requests in flight while a server is killed.
const WRITERS: u64 = 32;

/// Writes to an array in this file page by page, each writer to pages of its own, until the server is killed after this
/// many writes; the acknowledged ones are in the file.
fn kill(lab: &Lab, arrays: &Arrays<'_>, file: &Path, after: u64, way: Way) {
    let socket = lab.path("killed.socket");
    let address = format!("nbd:unix:{}", text(&socket));
    let options = ["--name", "killed", "--export", "loop", "--export", &address];
    let device = arrays.attach(file, &[&GEOMETRY[..], &options].concat());
    let pid = arrays.list()[0]["pid"].as_u64().expect("a process").to_string();
    /// Of each writer.
    const PAGES: u64 = 64;
    let mark = |writer: u64, number: u64| (number / PAGES + number + writer * 5 + after) as u8 | 1;
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let writes = |writer: u64, acknowledged: &AtomicU64, open: File, mut client: UnixStream| {
        let mut memory = aligned();
        for number in 0.. {
            let (page, mark) = (writer * PAGES + number % PAGES, mark(writer, number));
            memory.0[..4096].fill(mark);
            let written = match way {
                Way::Loop => open.write_all_at(&memory.0[..4096], page * 4096),
                Way::Nbd => nbd::try_write_page(&mut client, page, mark, false),
            };
            if written.is_err() {
                return;
            }
            acknowledged.store(number + 1, Ordering::SeqCst);
        }
    };
    std::thread::scope(|scope| {
        // All are connected when the first of them writes.
        let connected = || (direct(&device), nbd::connect(text(&socket)));
        let connections: Vec<_> = (0..WRITERS).map(|_| connected()).collect();
        let mut writers = Vec::new();
        for ((writer, acknowledged), (open, client)) in (0..).zip(&acknowledged).zip(connections) {
            writers.push(scope.spawn(move || writes(writer, acknowledged, open, client)));
        }
        let sum = || acknowledged.iter().map(|it| it.load(Ordering::SeqCst)).sum::<u64>();
        let some = until(LIMIT, || sum() > after);
        lab.tool("kill", &["-9", &pid]);
        assert!(some, "they write");
        writers.into_iter().for_each(|writer| writer.join().expect("it ended with an error"));
    });
    let dead = arrays.refused(&["status", "killed"]);
    let listed = arrays.run(&["list"]).err;
    // Refused under its name and under another: a file system may still be mounted on the dead one.
    let again = |name| {
        let mut arguments = vec!["attach", text(file), "--memory", "112M", "--name", name];
        arguments.extend(GEOMETRY);
        arrays.refused(&arguments)
    };
    for message in [dead, listed, again("killed"), again("other")] {
        assert!(message.contains("killed is dead") && message.contains("attach the array anew"), "{message}");
    }
    let freed = arrays.run(&["detach", "killed"]);
    assert_eq!(freed.status, Some(0), "{freed:?}");
    assert!(freed.err.contains("attach the array anew"), "{freed:?}");
    arrays.assert_clean();
    let content = fs::read(file).expect("it is there");
    for (writer, acknowledged) in (0..).zip(acknowledged) {
        let acknowledged = acknowledged.into_inner();
        // The write after the last acknowledged one may or may not have been made.
        for number in (0..acknowledged).rev().take(PAGES as usize - 1) {
            let page = &content[((writer * PAGES + number % PAGES) * 4096) as usize..][..4096];
            let is_there = page.iter().all(|byte| *byte == mark(writer, number));
            assert!(is_there, "write {number} of {acknowledged} of writer {writer}");
        }
    }
}

#[test]
fn acknowledged_writes_outlive_a_killed_server() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let file = lab.path("array.img");
    File::create(&file).and_then(|file| file.set_len(32 << 20)).expect("room");
    [Way::Loop, Way::Nbd].into_iter().for_each(|way| kill(&lab, &arrays, &file, 3000, way));
    // It can be attached again.
    let device = arrays.attach(&file, &GEOMETRY);
    read_direct(&device, 0).expect("it reads");
    arrays.must(&["detach", text(&device)]);
    arrays.assert_clean();
}

#[test]
#[ignore = "a hundred kills take minutes: make soak"]
fn what_was_acknowledged_outlives_a_hundred_kills() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let file = lab.path("array.img");
    File::create(&file).and_then(|file| file.set_len(32 << 20)).expect("room");
    let mut random = Random(1);
    for round in 0..100 {
        let way = if round % 2 == 0 { Way::Loop } else { Way::Nbd };
        kill(&lab, &arrays, &file, random.below(5000), way);
    }
}

/// A server that does not answer, with a file system mounted on its device and dirty data.
#[test]
fn a_silent_server_is_freed_by_force() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let file = lab.path("array.img");
    File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("room");
    let device = arrays.attach(&file, &[&GEOMETRY[..], &["--name", "silent"]].concat());
    let point = lab.mount_point();
    lab.tool("mkfs.ext4", &["-q", text(&device)]);
    lab.tool("mount", &[text(&device), text(&point)]);
    fs::write(point.join("file"), vec![5; 5_000_000]).expect("written");
    let pid = arrays.list()[0]["pid"].as_u64().expect("a process").to_string();
    lab.stop(&pid);
    let mute = arrays.refused(&["status", "silent"]);
    assert!(mute.contains("nothing came within") && mute.contains("detach --force silent"), "{mute}");
    let held = arrays.refused(&["detach", "silent"]);
    assert!(held.contains(text(&point)), "{held}");
    arrays.must(&["detach", "--force", "silent"]);
    assert!(fs::read_dir(&point).expect("it is there").next().is_none(), "it is unmounted");
    arrays.assert_clean();
}

/// A stopped process; continued when dropped.
struct Stopped<'a>(&'a Lab, String);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let _ = self.0.run(Command::new("kill").args(["-CONT", &self.1]));
    }
}

/// The disk below does not answer, so that threads of the server cannot be ended: whatever the server made is freed all
/// the same. What remains is the process, which is named.
#[test]
fn a_server_that_waits_for_a_silent_disk_is_freed_but_for_its_process() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let disk = lab.attach(&["--profile", "none", "--size", "64M", "--name", "below"]);
    let socket = lab.path("socket");
    let address = format!("nbd:unix:{}", text(&socket));
    let options = ["--name", "waits", "--export", "loop", "--export", &address];
    let device = arrays.attach(&disk, &[&GEOMETRY[..], &options].concat());
    let pid = arrays.list()[0]["pid"].as_u64().expect("a process");
    let below = lab.list()[0]["pid"].as_u64().expect("a process").to_string();
    let stopped = Stopped(&lab, below.clone());
    lab.stop(&below);
    let mut writer = Command::new("dd")
        .args(["if=/dev/zero", "bs=4096", "count=1", "oflag=direct"])
        .arg(format!("of={}", device.display()))
        .stderr(Stdio::null())
        .spawn()
        .expect("dd exists");
    let waits = || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let state = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        threads.map(state).any(|stat| stat.contains("(changes) D"))
    };
    let waiting = until(LIMIT, waits);
    let ended = arrays.run(&["detach", "--force", "waits"]);
    let written = wait(&mut writer, LIMIT);
    assert!(waiting, "a thread writes below");
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.err.contains(&format!("process {pid} was killed but does not end")), "{ended:?}");
    assert_eq!(written.map(|status| status.success()), Some(false), "the write failed");
    let run = lab.path("run/arrays");
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("text");
    assert!(!mounts.contains(text(&run)), "{mounts}");
    let file =
        Path::new("/sys/class/block").join(device.file_name().expect("a node")).join("loop/backing_file");
    let file = fs::read_to_string(file).unwrap_or_default();
    assert!(!file.contains(text(&run)), "{file}");
    assert!(!socket.exists());
    drop(stopped);
    arrays.must(&["detach", "--force", "waits"]);
    read_direct(&disk, 0).expect("it answers, and can be used");
    lab.must(&["detach", "below"]);
    arrays.assert_clean();
}

#[test]
fn unsupported_options_are_refused_in_a_line() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let file = lab.path("array.img");
    File::create(&file).and_then(|file| file.set_len(16 << 20)).expect("room");
    let path = text(&file);
    let refusal = |level: &'static str, members: &'static str, more: &[&'static str]| {
        let mut arguments = vec!["attach", path, "--strip", "64K", "--members", members, "--level", level];
        arguments.extend(more);
        arrays.refused(&arguments)
    };
    assert!(refusal("raid10", "6", &[]).contains("give raid0 and half of its disks"));
    assert!(refusal("raid6", "3", &[]).contains("an array of 3 members"));
    assert!(refusal("raid5", "2", &[]).contains("an array of 2 members"));
    assert!(refusal("raid5", "5", &["--memory", "10M"]).contains("--memory 10 MiB"));
    assert!(refusal("raid5", "5", &["--memory", "999T"]).contains("999 TiB: this machine has"));
    assert!(refusal("raid5", "5", &["--policy", "best"]).contains("no array policy is called 'best'"));
    assert!(refusal("raid5", "5", &["--policy", "asp+seqp128"]).contains("blockdev --setra"));
    assert!(refusal("raid5", "5", &["--name", "x/"]).contains("--name"));
    let refused = |device: &str| arrays.refused(&["attach", device, "--profile", "raid5-5x-15k"]);
    assert!(refused("/no/such").contains("/no/such"));
    assert!(refused("/dev/null").contains("neither a block device nor a file"));
    assert!(arrays.refused(&["attach", path]).contains("a file has no strips: give --strip"));
    let disk = arrays.refused(&["attach", path, "--profile", "barracuda-500g"]);
    assert!(disk.contains("no array's"), "{disk}");

    let mounted = lab.attach(&["--profile", "none", "--size", "64M", "--name", "mounted"]);
    let unknown = arrays.refused(&["attach", text(&mounted), "--level", "raid5"]);
    assert!(unknown.contains("the kernel knows no strips of it: give --strip"), "{unknown}");
    lab.tool("mkfs.ext4", &["-q", text(&mounted)]);
    lab.tool("mount", &[text(&mounted), text(&lab.mount_point())]);
    let busy = refused(text(&mounted));
    assert!(busy.contains("busy: mounted on") && busy.contains("unmount it"), "{busy}");
    lab.unmount(&lab.mount_point());
    lab.must(&["detach", "mounted"]);
    arrays.assert_clean();
}

/// A loop device of the test; freed when dropped.
struct Laid<'a>(&'a Lab, PathBuf);

impl<'a> Laid<'a> {
    fn over(lab: &'a Lab, file: &Path, block: &str) -> Self {
        let device = lab.tool("losetup", &["--find", "--show", "--sector-size", block, text(file)]);
        Self(lab, device.trim().into())
    }
}

impl Drop for Laid<'_> {
    fn drop(&mut self) {
        let _ = self.0.run(Command::new("losetup").args(["--detach", text(&self.1)]));
    }
}

#[test]
fn a_device_has_the_blocks_and_the_read_ahead_of_the_one_below() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let file = lab.path("array.img");
    File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("room");
    let below = Laid::over(&lab, &file, "4096");
    let queue =
        |device: &Path| Path::new("/sys/class/block").join(device.file_name().expect("a node")).join("queue");
    fs::write(queue(&below.1).join("read_ahead_kb"), "512").expect("it is set");
    let socket = format!("nbd:unix:{}", text(&lab.path("nbd")));
    let mut options = GEOMETRY.to_vec();
    options.extend(["--name", "large", "--export", "loop", "--export", &socket]);
    let device = arrays.attach(&below.1, &options);
    let setting =
        |name: &str| fs::read_to_string(queue(&device).join(name)).expect("sysfs").trim().to_owned();
    assert_eq!(setting("logical_block_size"), "4096");
    assert_eq!(setting("read_ahead_kb"), "512");
    let mut memory = aligned();
    let open = direct(&device);
    assert!(open.read_exact_at(&mut memory.0[..512], 512).is_err(), "a part of a block");
    memory.0[..8192].fill(7);
    open.write_all_at(&memory.0[..8192], 4096).expect("whole blocks");
    drop(open);
    let printed = lab.tool("nbdinfo", &[arrays.list()[0]["nbd"].as_str().expect("a URI")]);
    assert!(printed.contains("block_size_minimum: 4096"), "{printed}");

    lab.tool("mkfs.ext4", &["-q", text(&device)]);
    lab.tool("mount", &[text(&device), text(&lab.mount_point())]);
    fs::write(lab.mount_point().join("file"), vec![9; 3_000_001]).expect("written");
    lab.unmount(&lab.mount_point());
    arrays.must(&["detach", "large"]);
    lab.tool("e2fsck", &["-fn", text(&below.1)]);
    arrays.assert_clean();
}

/// Memory is short for the server's users and runs out for one of them: the server, which was attached from
/// among them, continues.
#[test]
fn memory_that_runs_out_ends_a_user_and_not_the_server() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let name = format!("foreseek-array-test-{}", std::process::id());
    let group = CgroupParent::find().and_then(|parent| MemoryGroup::create(&parent, &name, Bytes::mib(64)));
    let Ok(group) = group else {
        println!("SKIPPED: no memory cgroup can be made here");
        return;
    };
    let file = lab.path("array.img");
    File::create(&file).and_then(|file| file.set_len(512 << 20)).expect("room");
    let mut attach = group.command(Path::new(env!("CARGO_BIN_EXE_foreseek")));
    attach.args(["array", "attach", text(&file), "--memory", "112M", "--name", "spared"]).args(GEOMETRY);
    attach.env("FORESEEK_RUN", lab.path("run")).env("FORESEEK_FUSE_TIMEOUT", "120");
    let attached = lab.run(&mut attach);
    assert_eq!(attached.status, Some(0), "{attached:?}");
    let pid = arrays.list()[0]["pid"].as_u64().expect("a process");
    let of_server = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).expect("it runs");
    let notes = arrays.status(Path::new("spared"))["precautions"].to_string();
    // If that is not permitted there is a message.
    assert!(
        of_server("oom_score_adj").trim() == "-1000" || notes.contains("killed when memory runs out"),
        "{notes}"
    );
    assert!(!of_server("cgroup").contains(&name), "it shares no limit with its users");
    // All but the books of `--memory`: a page that the kernel gives later might have to wait for the device.
    let status = of_server("status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    assert!(resident.expect("a size").parse::<u64>().expect("KiB") > 100 << 10, "{status}");
    if !notes.contains("memory cannot be locked") {
        assert_the_program_is_in_memory(&of_server("smaps"));
    }

    let device: PathBuf = arrays.list()[0]["device"].as_str().expect("a device").into();
    let point = lab.mount_point();
    lab.tool("mkfs.ext4", &["-q", text(&device)]);
    lab.tool("mount", &[text(&device), text(&point)]);
    let write = |number: u64| {
        let mut dd = group.command(Path::new("/bin/dd"));
        dd.args([
            "if=/dev/zero",
            &format!("of={}/file-{number}", text(&point)),
            "bs=64k",
            "count=1600",
            "conv=fsync",
        ]);
        lab.run(&mut dd)
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3).map(|number| scope.spawn(move || write(number))).collect();
        // It keeps everything that it reads, endlessly.
        let hog = lab.run(group.command(Path::new("/usr/bin/tail")).arg("/dev/zero"));
        assert_ne!(hog.status, Some(0), "{hog:?}");
        drop(writers.into_iter().map(|writer| writer.join().expect("no panic")).collect::<Vec<_>>());
    });
    assert!(group.usage().kills > 0, "memory has run out: {:?}", group.usage());
    assert!(write(3).status == Some(0), "it serves");
    assert_eq!(arrays.list()[0]["health"], "ready");
    assert_eq!(arrays.list()[0]["pid"], pid);
    lab.unmount(&point);
    lab.tool("e2fsck", &["-fn", text(&device)]);
    arrays.must(&["detach", "spared"]);
    arrays.assert_clean();
}

/// By the text of a process's `smaps`: a page of code that is read when it is first needed waits for memory.
fn assert_the_program_is_in_memory(maps: &str) {
    let mut lines = maps.lines();
    let mut found = 0;
    while let Some(mapping) = lines.find(|line| line.contains(" r-xp ") && line.contains(" /")) {
        let mut kib = |name: &str| lines.find_map(|line| line.strip_prefix(name)).map(str::trim);
        assert_eq!(kib("Size:"), kib("Rss:"), "{mapping}");
        found += 1;
    }
    assert!(found > 0, "{maps}");
}

/// udev looks at a device whose file system was unmounted.
#[test]
fn a_detach_waits_for_a_program_that_has_the_device_open_for_a_moment() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let file = lab.path("array.img");
    File::create(&file).and_then(|file| file.set_len(16 << 20)).expect("room");
    let device = arrays.attach(&file, &[&GEOMETRY[..], &["--name", "looked-at"]].concat());
    let looking = File::open(&device).expect("it opens");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            drop(looking);
        });
        arrays.must(&["detach", "looked-at"]);
    });
    arrays.assert_clean();
}

/// btrfs looks for its devices by UUID, and knows both once they were scanned.
#[test]
fn btrfs_mounts_the_array_and_never_the_device_below() {
    let Some(lab) = Lab::new() else { return };
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.contains("btrfs") || !nbd::has(&["mkfs.btrfs", "btrfs"]) {
        println!("SKIPPED: no btrfs");
        return;
    }
    let arrays = Arrays(&lab);
    let disk = lab.attach(&["--profile", "none", "--size", "256M", "--name", "twin"]);
    let device = arrays.attach(&disk, &[&GEOMETRY[..], &["--name", "btrfs"]].concat());
    // It examines the sources of all mounts, and fails while another test is killing the server of one.
    let mut message = String::new();
    let mut make = |on: &Path| {
        let ended = lab.run(Command::new("mkfs.btrfs").args(["-q", "-f", text(on)]));
        message = format!("{ended:?}");
        ended.status == Some(0)
    };
    if !until(LIMIT, || make(&device)) {
        let plain = lab.path("plain");
        File::create(&plain).and_then(|file| file.set_len(256 << 20)).expect("room");
        assert!(!make(&plain), "what can be made on a file can be made on the array");
        println!("SKIPPED: no btrfs can be made on this machine: {message}");
        return;
    }
    let point = lab.mount_point();
    let mount = |what: &Path| lab.run(Command::new("mount").args([text(what), text(&point)])).status;
    for scanned in [&device, &disk] {
        lab.tool("btrfs", &["device", "scan", text(scanned)]);
    }
    assert_ne!(mount(&disk), Some(0), "it is held");
    assert_eq!(mount(&device), Some(0));
    assert_eq!(lab.tool("findmnt", &["-n", "-o", "SOURCE", text(&point)]).trim(), text(&device));
    assert_ne!(mount(&disk), Some(0), "not beside it either");
    fs::write(point.join("file"), vec![9; 3_000_001]).expect("written");
    lab.unmount(&point);
    arrays.must(&["detach", "btrfs"]);
    assert_eq!(mount(&disk), Some(0));
    assert!(fs::read(point.join("file")).expect("read") == vec![9; 3_000_001]);
    lab.unmount(&point);
    lab.must(&["detach", "twin"]);
    arrays.assert_clean();
}

/// LVM sees a physical volume twice, and prefers the one that it saw first; the filter of docs/use/array.md
/// decides.
#[test]
fn lvm_takes_the_array_where_the_device_below_is_filtered() {
    let Some(lab) = Lab::new() else { return };
    if !nbd::has(&["pvs", "pvcreate", "vgcreate", "vgchange"]) {
        return;
    }
    let arrays = Arrays(&lab);
    let disk = lab.attach(&["--profile", "none", "--size", "64M", "--name", "twin"]);
    let device = arrays.attach(&disk, &[&GEOMETRY[..], &["--name", "lvm"]].concat());
    let filter = format!("devices {{ filter = [ \"r|^{}$|\" ] }}", text(&disk));
    let lvm = |program: &str, arguments: &[&str]| {
        lab.run(Command::new(program).args(["--config", &filter]).args(arguments))
    };
    for (program, arguments) in
        [("pvcreate", &["-y", text(&device)][..]), ("vgcreate", &["foreseek_test", text(&device)])]
    {
        let done = lvm(program, arguments);
        assert_eq!(done.status, Some(0), "{done:?}");
    }
    let names = ["--noheadings", "-o", "pv_name,vg_name"];
    let found = lvm("pvs", &names).out;
    assert!(found.contains(text(&device)) && found.contains("foreseek_test"), "{found}");
    assert!(!found.contains(text(&disk)), "{found}");
    // Without the filter LVM itself refuses to use either for more than reading.
    let twice = lab.run(Command::new("vgchange").args(["--addtag", "x", "foreseek_test"]));
    assert_ne!(twice.status, Some(0), "{twice:?}");
    arrays.must(&["detach", "lvm"]);
    lab.must(&["detach", "twin"]);
    arrays.assert_clean();
}

/// Both devices have one UUID: meanwhile the one below cannot be mounted by it.
#[test]
fn the_device_below_is_not_mounted_by_the_uuid_that_both_show() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let disk = lab.attach(&["--profile", "none", "--size", "64M", "--name", "twin"]);
    let uuid = "5eedc0de-0000-4000-8000-000000000001";
    lab.tool("mkfs.ext4", &["-q", "-U", uuid, text(&disk)]);
    let mut options = GEOMETRY.to_vec();
    options.extend(["--name", "above"]);
    let device = arrays.attach(&disk, &options);
    for shows in [&disk, &device] {
        let shown = lab.tool("blkid", &["-p", "-s", "UUID", "-o", "value", text(shows)]);
        assert_eq!(shown.trim(), uuid);
    }
    let point = lab.mount_point();
    let mount = |what: &str| lab.run(Command::new("mount").args([what, text(&point)]));
    assert_ne!(mount(text(&disk)).status, Some(0), "the device below is held");
    assert_eq!(mount(text(&device)).status, Some(0));
    let source = lab.tool("findmnt", &["-n", "-o", "SOURCE", text(&point)]);
    assert_eq!(source.trim(), text(&device));
    lab.unmount(&point);
    arrays.must(&["detach", "above"]);
    lab.must(&["detach", "twin"]);
    arrays.assert_clean();
}
