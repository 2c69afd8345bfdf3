//! System tests of `foreseek order` and `foreseek warm` on emulated disks. They check counts, not times.
//!
//! They need root, FUSE and loop devices; without them they print a message.
#![allow(clippy::print_stdout, reason = "skipped tests print a message")]

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "disk/lab.rs"]
mod lab;

use foreseek_storage::{DeviceNumber, DiskLoad, HostFd, Layout, cachestat};
use foreseek_units::{Bytes, PageIndex, Pages, Sectors, Span};
use lab::{Ended, KilledOnDrop, LIMIT, Lab, until, wait};
use rustix::fs::{FallocateFlags, fallocate};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A user that owns no file.
const NOBODY: u32 = 65_534;

/// A disk without delays and a file system on it.
struct Setup {
    lab: Lab,
    device: PathBuf,
    tree: PathBuf,
}

impl Setup {
    fn new(kind: &str, options: &[&str]) -> Option<Self> {
        let lab = Lab::new()?;
        fs::set_permissions(&lab.directory, fs::Permissions::from_mode(0o755)).expect("ours");
        let mkfs = format!("mkfs.{kind}");
        if Command::new(&mkfs).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            println!("SKIPPED: {mkfs} is not installed");
            return None;
        }
        let device =
            lab.attach(&["--profile", "barracuda-500g", "--size", "1G", "--name", "walk", "--no-delays"]);
        let node = device.to_str().expect("plain").to_owned();
        lab.tool(&mkfs, &[options, &[node.as_str()]].concat());
        let setup = Self { tree: lab.mount_point().join("tree"), lab, device };
        setup.mount();
        fs::create_dir(&setup.tree).expect("made");
        Some(setup)
    }

    fn ext4() -> Option<Self> {
        Self::new("ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
    }

    fn mount(&self) {
        let point = self.lab.mount_point();
        let (node, point) = (self.device.to_str().expect("plain"), point.to_str().expect("plain"));
        self.lab.tool("mount", &["-o", "noatime", node, point]);
    }

    fn unmount(&self) {
        self.lab.unmount(&self.lab.mount_point());
    }

    /// Mounts the file system again: nothing of it is in memory afterwards.
    fn cold(&self) {
        self.unmount();
        self.lab.tool("blockdev", &["--flushbufs", self.device.to_str().expect("plain")]);
        self.mount();
        self.lab.must(&["stats", "walk", "--reset"]);
    }

    fn delays(&self, on: bool) {
        self.lab.must(&["set", "walk", "--delays", if on { "on" } else { "off" }]);
    }

    fn reads(&self) -> u64 {
        self.lab.stats("walk")["reads"].as_u64().expect("a number")
    }

    /// Whether reads are under way.
    fn is_read(&self) -> bool {
        let number = DeviceNumber::from_raw(fs::metadata(&self.device).expect("there").rdev());
        let load = DiskLoad::of(number).expect("it has counts");
        load.reads_in_flight().expect("it has counts") > 0
    }

    fn foreseek(&self, arguments: &[&OsStr]) -> Ended {
        self.lab.run(Command::new(env!("CARGO_BIN_EXE_foreseek")).args(arguments))
    }

    fn warm(&self, arguments: &[&str]) -> Ended {
        let all: Vec<&OsStr> = ["warm"].iter().chain(arguments).map(OsStr::new).collect();
        self.foreseek(&all)
    }

    fn end(self) {
        self.unmount();
        self.lab.must(&["detach", "walk"]);
        self.lab.assert_clean();
    }
}

/// Makes files in directories, in an order that is not that of their names.
fn fill(tree: &Path, files: u64) -> Vec<PathBuf> {
    let folders = 20;
    for folder in 0..folders {
        fs::create_dir(tree.join(format!("d{folder}"))).expect("made");
    }
    let paths: Vec<PathBuf> = (0..files)
        .map(|n| n * 7919 % files)
        .map(|n| tree.join(format!("d{}", n * 31 % folders)).join(format!("f{n}")))
        .collect();
    for (number, path) in paths.iter().enumerate() {
        fs::write(path, vec![b'a' + (number % 26) as u8; 3000 + number * 977 % 40_000]).expect("written");
    }
    paths
}

/// The first sector of a file.
fn first_sector(path: &Path) -> Option<u64> {
    let file = File::open(path).expect("there");
    let layout = Layout::exactly(HostFd::new(file.as_raw_fd())?, Sectors::ZERO, 8).expect("FIEMAP");
    layout.extents.first().map(|extent| extent.lba.get())
}

fn is_in_memory(path: &Path) -> bool {
    let file = File::open(path).expect("there");
    let fd = HostFd::new(file.as_raw_fd()).expect("open");
    cachestat(fd, Span::new(PageIndex(0), PageIndex(1 << 20))).expect("Linux 6.5") > Pages::ZERO
}

fn ordered(arguments: &[&OsStr]) -> Vec<PathBuf> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    let output = command.args(["order", "-0", "--quiet"]).args(arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let paths = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsString::from_vec(path.to_owned()))).collect()
}

#[test]
fn order_prints_every_file_once_by_ascending_address() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = &setup.tree;
    let mut all = fill(tree, 300);
    for name in [&b"of two\nlines"[..], b"\xff\xfe not text", b"-n", b"quote\"'"] {
        let path = tree.join(OsStr::from_bytes(name));
        fs::write(&path, [7; 9000]).expect("written");
        all.push(path);
    }
    fs::hard_link(&all[0], tree.join("another link")).expect("linked");
    all.push(tree.join("another link"));
    fs::write(tree.join("empty"), "").expect("written");
    all.push(tree.join("empty"));
    let sparse = tree.join("sparse");
    File::create(&sparse).and_then(|file| file.set_len(1 << 30)).expect("sparse");
    all.push(sparse);
    // None of these is a regular file, and no link is followed.
    symlink("..", tree.join("loop")).expect("linked");
    symlink(&all[1], tree.join("link")).expect("linked");
    symlink("/", tree.join("d0/root")).expect("linked");
    setup.lab.tool("mkfifo", &[tree.join("pipe").to_str().expect("plain")]);
    setup.cold();
    let order = ordered(&[tree.as_os_str()]);
    let sorted = |paths: &[PathBuf]| {
        let mut paths = paths.to_vec();
        paths.sort();
        paths
    };
    assert_eq!(sorted(&order), sorted(&all));
    let sectors: Vec<u64> = order.iter().filter_map(|path| first_sector(path)).collect();
    assert!(sectors.len() >= 305 && sectors.is_sorted(), "{sectors:?}");
    // The files without an address come last.
    assert!(order[sectors.len()..].iter().all(|path| first_sector(path).is_none()));
    // A list gives the same order as the tree.
    let list = setup.lab.path("list");
    let mut file = File::create(&list).expect("made");
    for path in all.iter().rev() {
        file.write_all(path.as_os_str().as_bytes()).and_then(|()| file.write_all(b"\0")).expect("written");
    }
    assert_eq!(ordered(&[OsStr::new("--list"), list.as_os_str()]), order);
    // Without -0 a directory of names without line feeds causes no message.
    let lines = setup.foreseek(&[OsStr::new("order"), tree.join("d1").as_os_str()]);
    assert_eq!((lines.status, lines.err.as_str()), (Some(0), ""));
    setup.end();
}

/// A directory that appears below itself is reported and skipped.
#[test]
fn a_tree_with_a_bind_mount_of_itself_ends() {
    let Some(setup) = Setup::ext4() else { return };
    let files = fill(&setup.tree, 100);
    let tree = setup.tree.to_str().expect("plain").to_owned();
    let inside = setup.tree.join("d1/inside");
    fs::create_dir(&inside).expect("made");
    setup.cold();
    let point = inside.to_str().expect("plain");
    setup.lab.tool("mount", &["--bind", &tree, point]);
    let order = setup.foreseek(&[OsStr::new("order"), OsStr::new("--quiet"), setup.tree.as_os_str()]);
    let warmed = setup.warm(&[&tree, "--format", "json"]);
    setup.lab.tool("umount", &[point]);
    for ended in [&order, &warmed] {
        assert_eq!(ended.status, Some(1), "{ended:?}");
        assert!(ended.err.contains(point), "{ended:?}");
    }
    assert_eq!(order.out.lines().count(), files.len(), "each once");
    let report: Value = warmed.json();
    assert_eq!((&report["files"], &report["unreadable"]), (&Value::from(files.len()), &Value::from(1)));
    // What appears twice is read once.
    let wanted = || {
        setup.cold();
        let report = setup.warm(&[&tree, "--format", "json"]);
        report.json()["wanted_bytes"].clone()
    };
    let once = wanted();
    setup.cold();
    setup.lab.tool("mount", &["--bind", setup.tree.join("d2").to_str().expect("plain"), point]);
    let warmed = setup.warm(&[&tree, "--format", "json"]);
    setup.lab.tool("umount", &[point]);
    let report: Value = warmed.json();
    assert!(report["files"].as_u64() > Some(files.len() as u64), "{report}");
    assert_eq!(report["wanted_bytes"], once, "{report}");
    setup.end();
}

/// What is mounted on a directory has addresses of another disk.
#[test]
fn directories_of_another_disk_are_not_read_from_the_one_above() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    fill(&setup.tree, 100);
    let (inside, image) = (setup.tree.join("inside"), setup.lab.path("other"));
    fs::create_dir(&inside).expect("made");
    File::create(&image).and_then(|file| file.set_len(256 << 20)).expect("made");
    let (point, image) = (inside.to_str().expect("plain"), image.to_str().expect("plain"));
    setup.lab.tool("mkfs.ext4", &["-q", "-F", image]);
    setup.lab.tool("mount", &["-o", "loop", image, point]);
    // A large directory.
    for number in 0..4000 {
        File::create(inside.join(format!("{number:0200}"))).expect("made");
    }
    setup.lab.tool("umount", &[point]);
    let [alone, below] = [false, true].map(|is_mounted| {
        setup.cold();
        if is_mounted {
            setup.lab.tool("mount", &["-o", "loop", image, point]);
        }
        let warmed = setup.warm(&[&tree, "-x", "--metadata"]);
        let read = setup.lab.stats("walk")["read_bytes"].as_u64().expect("a number");
        if is_mounted {
            setup.lab.tool("umount", &[point]);
        }
        assert_eq!(warmed.status, Some(0), "{warmed:?}");
        read
    });
    assert!(below < alone + (256 << 10), "{alone} and {below} bytes were read");
    setup.end();
}

/// Ways to say what is read, and how much of it.
#[test]
fn lists_from_standard_input_other_file_systems_and_shares() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    let files = fill(&setup.tree, 1500);
    let inside = setup.tree.join("d3/inside");
    fs::create_dir(&inside).expect("made");
    setup.cold();
    setup.lab.tool("mount", &["-t", "tmpfs", "tmpfs", inside.to_str().expect("plain")]);
    fs::write(inside.join("other"), "text").expect("written");
    let all = ordered(&[setup.tree.as_os_str()]);
    let one = ordered(&[OsStr::new("-x"), setup.tree.as_os_str()]);
    let warmed = setup.warm(&[&tree, "-x", "--metadata", "--format", "json"]);
    setup.lab.tool("umount", &[inside.to_str().expect("plain")]);
    assert_eq!((all.len(), one.len()), (files.len() + 1, files.len()));
    let report: Value = warmed.json();
    assert_eq!(report["files"], files.len());

    setup.cold();
    let list = setup.lab.path("list");
    let some = &files[..100];
    fs::write(
        &list,
        some.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect::<Vec<u8>>(),
    )
    .expect("written");
    for refused in [&["order", "-x"][..], &["warm", "-x"], &["warm", "--reading", "name"]] {
        let list = [OsStr::new("--list"), list.as_os_str()];
        let arguments: Vec<&OsStr> = refused.iter().map(OsStr::new).chain(list).collect();
        let ended = setup.foreseek(&arguments);
        assert!(ended.status == Some(2) && ended.err.contains("cannot be used with"), "{ended:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.args(["warm", "-0", "--list", "-", "--format", "json"]).stdin(File::open(&list).expect("there"));
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["files"], some.len());
    assert_eq!(report["fetched_bytes"], report["wanted_bytes"], "{report}");

    // Beyond the limit, what is read first is fetched.
    setup.cold();
    let report = |options: &[&str]| -> Value {
        let warmed = setup.warm(&[&[tree.as_str(), "--format", "json"], options].concat());
        warmed.json()
    };
    let little = report(&["--memory", "8M", "--reading", "name"]);
    let bytes = |name: &str| little[name].as_u64().expect("a number");
    assert!(bytes("fetched_bytes") <= 8 << 20 && bytes("fetched_bytes") > 7 << 20, "{little}");
    assert_eq!(bytes("fetched_bytes") + bytes("skipped_bytes"), bytes("wanted_bytes"), "{little}");
    let mut by_name = files.clone();
    by_name.sort();
    setup.lab.must(&["stats", "walk", "--reset"]);
    by_name[..200].iter().for_each(|path| drop(fs::read(path).expect("there")));
    assert!(setup.reads() <= 10, "{} reads after warming", setup.reads());
    let [less, more] = ["0.01", "0.5"].map(|share| report(&["--share", share])["window_bytes"].as_f64());
    let ratio = more.expect("a number") / less.expect("a number");
    assert!((25.0..100.0).contains(&ratio), "{ratio}");
    setup.end();
}

/// A terminal belongs to the command once it runs.
#[test]
fn the_bar_is_gone_when_the_command_starts() {
    let Some(setup) = Setup::ext4() else { return };
    fill(&setup.tree, 500);
    setup.cold();
    setup.lab.must(&["set", "walk", "--delays", "on", "--time-scale", "30"]);
    let words = [env!("CARGO_BIN_EXE_foreseek"), "warm", setup.tree.to_str().expect("plain")].join(" ");
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{words} --then -- echo begun"), "/dev/null"]).env("TERM", "xterm");
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        println!("SKIPPED: script is not installed");
        setup.lab.must(&["set", "walk", "--delays", "off"]);
        return setup.end();
    };
    setup.lab.must(&["set", "walk", "--delays", "off"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let (before, after) = text.split_once("begun").expect("it ran");
    let (_, behind) = before.rsplit_once('%').expect("a bar");
    assert!(behind.contains("MB/s") && behind.contains("\u{1b}[2K"), "{text:?}");
    assert!(!after.contains('%'), "{text:?}");
    setup.end();
}

#[test]
fn warmed_files_are_not_read_again() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    let files = fill(&setup.tree, 600).len() as u64;
    let sparse = File::create(setup.tree.join("sparse")).expect("made");
    sparse.set_len(8 << 30).expect("sparse");
    drop(sparse);
    setup.cold();
    setup.lab.run(Command::new("grep").args(["-r", "--exclude=sparse", "no such text", &tree]));
    let stock = setup.reads();
    assert!(stock >= files, "{stock} reads of {files} files");

    setup.cold();
    let warmed = setup.warm(&[&tree, "--format", "json"]);
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    let report: Value = warmed.json();
    assert_eq!(report["files"], files + 1);
    assert_eq!(report["unreadable"], 0);
    // The hole is not read: its eight GiB would be visible here.
    assert!(report["fetched_bytes"].as_u64() < Some(64 << 20), "{report}");
    assert!(report["metadata_extents"].as_u64() > Some(0), "{report}");
    // Other costs are reported as well.
    assert!(report["fiemap_calls"].as_u64() >= Some(files), "{report}");
    assert!(report["processor_seconds"].as_f64() > Some(0.0), "{report}");
    assert!(report["reclaimed_bytes"].as_u64() <= report["fetched_bytes"].as_u64(), "{report}");
    setup.lab.must(&["stats", "walk", "--reset"]);
    let found = setup.lab.run(Command::new("grep").args(["-r", "--exclude=sparse", "no such text", &tree]));
    assert_eq!(found.status, Some(1), "{found:?}");
    let after = setup.reads();
    // A kernel with DAMON may reclaim some of it meanwhile.
    assert!(after * 20 <= stock, "{after} reads after warming, {stock} without");

    // All is in memory: nothing is fetched again.
    let again = setup.warm(&[&tree, "--format", "json"]);
    let report: Value = again.json();
    assert!(report["fetched_bytes"].as_u64() < Some(1 << 20), "{report}");
    // No more is in memory than the files are long, though the last page of each is whole.
    let [resident, size] =
        ["resident_bytes", "size_bytes"].map(|name| report[name].as_u64().expect("a number"));
    assert!(resident <= size - (8 << 30) && resident > 1 << 20, "{report}");
    let little = setup.warm(&[&tree, "--memory", "1"]);
    assert!(little.status == Some(2) && little.err.contains("4 MiB or more"), "{little:?}");
    setup.end();
}

#[test]
fn metadata_alone_serves_programs_that_open_nothing() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    fill(&setup.tree, 2000);
    let find = || setup.lab.tool("find", &[&tree, "-size", "+1G"]);
    setup.cold();
    find();
    let stock = setup.reads();
    setup.cold();
    let warmed = setup.warm(&[&tree, "--metadata", "--format", "json"]);
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    let report: Value = warmed.json();
    assert_eq!(report["fetched_bytes"], 0);
    setup.lab.must(&["stats", "walk", "--reset"]);
    find();
    let after = setup.reads();
    assert!(stock >= 20 && after * 5 <= stock, "{after} reads after warming, {stock} without");
    setup.end();

    // Where the block device does not help, all are looked up.
    let Some(setup) = Setup::new("xfs", &["-q"]) else { return };
    fill(&setup.tree, 2000);
    let tree = setup.tree.to_str().expect("plain").to_owned();
    let find = || setup.lab.tool("find", &[&tree, "-size", "+1G"]);
    setup.cold();
    find();
    let stock = setup.reads();
    setup.cold();
    let warmed = setup.warm(&[&tree, "--metadata", "--format", "json"]);
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    setup.lab.must(&["stats", "walk", "--reset"]);
    find();
    let after = setup.reads();
    assert!(stock >= 20 && after * 5 <= stock, "xfs: {after} reads after warming, {stock} without");
    setup.end();
}

/// Through the block device only blocks of inodes and directories are read that the listing named.
#[test]
fn metadata_of_other_trees_is_not_read() {
    // Each inode is a block, and those of both trees lie among each other.
    let inodes = ["-q", "-F", "-I", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let Some(setup) = Setup::new("ext4", &inodes) else { return };
    let other = setup.lab.mount_point().join("other");
    fs::create_dir(&other).expect("made");
    for n in 0..600 {
        for tree in [&setup.tree, &other] {
            fs::write(tree.join(format!("f{n}")), [1; 100]).expect("written");
        }
    }
    let tree = setup.tree.to_str().expect("plain").to_owned();
    setup.cold();
    let warmed = setup.warm(&[&tree, "--metadata", "--format", "json"]);
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    let report: Value = warmed.json();
    let metadata = report["metadata_bytes"].as_u64().expect("a number");
    // The kernel itself reads a few blocks beside those that it needs.
    assert!((550 * 4096..650 * 4096).contains(&metadata), "{report}");
    let read = setup.lab.stats("walk")["read_bytes"].as_u64().expect("a number");
    assert!(read < metadata + (1 << 20), "{read} bytes were read for {report}");
    setup.end();
}

#[test]
fn dirty_pages_stay_dirty_and_lists_are_warmed() {
    let Some(setup) = Setup::ext4() else { return };
    let files = fill(&setup.tree, 100);
    setup.cold();
    let dirty = setup.tree.join("dirty");
    fs::write(&dirty, vec![1; 300_000]).expect("written");
    let delayed = |path: &Path| {
        let extents = setup.lab.run(Command::new("filefrag").arg("-v").arg(path));
        extents.out.contains("delalloc")
    };
    assert!(delayed(&dirty), "the test's own setup: delayed allocation");
    // Pages in memory have no need of an address, but an order asks for it.
    assert_eq!(ordered(&[setup.tree.as_os_str()]).len(), 101);
    assert!(delayed(&dirty), "it was written back for an order");
    let list = setup.lab.path("list");
    let mut text: Vec<u8> = Vec::new();
    for path in files.iter().chain([&dirty, &setup.tree.join("gone")]) {
        text.extend(path.as_os_str().as_bytes());
        text.push(b'\n');
    }
    fs::write(&list, text).expect("written");
    let warmed = setup.warm(&["--list", list.to_str().expect("plain"), "--format", "json"]);
    assert_eq!(warmed.status, Some(1), "one file is gone: {warmed:?}");
    assert!(warmed.err.contains("gone"), "{warmed:?}");
    assert!(delayed(&dirty), "it was written back");
    let report: Value = warmed.json();
    assert_eq!((&report["files"], &report["unreadable"]), (&Value::from(101), &Value::from(1)));
    setup.lab.must(&["stats", "walk", "--reset"]);
    files.iter().for_each(|path| drop(fs::read(path).expect("there")));
    assert!(setup.reads() <= 10, "{}", setup.reads());
    setup.end();
}

#[test]
fn a_command_reads_a_tree_that_does_not_fit_into_the_window() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    fill(&setup.tree, 1500);
    for user in [None, Some(NOBODY)] {
        setup.cold();
        setup.delays(true);
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.args(["warm", &tree, "--memory", "8M", "--format", "json", "--then", "--"]);
        command.args(["grep", "-rc", "no such text", &tree]);
        if let Some(user) = user {
            command.uid(user);
        }
        let ended = setup.lab.run(&mut command);
        setup.delays(false);
        assert_eq!(ended.status, Some(1), "grep finds nothing: {ended:?}");
        assert_eq!(ended.out.lines().count(), 1500);
        // Nothing else is there: its notes are in it.
        let report: Value = serde_json::from_str(&ended.err).expect("JSON");
        assert!(report["batches"].as_u64() > Some(4), "{report}");
        assert_eq!(report["window_bytes"], 8 << 20);
        assert!(report["used_files"].as_u64() > Some(750), "{report}");
        // Without its progress only what fits would be fetched.
        assert!(report["fetched_bytes"].as_u64() > Some(2 * (8 << 20)), "{report}");
        // A kernel with DAMON may page some out.
        assert!(report["evicted_bytes"].as_u64() < Some(1 << 20), "{report}");
        let fanotify = ended.err.contains("fanotify");
        assert_eq!(fanotify, user.is_some(), "only without root it cannot watch: {ended:?}");
    }
    setup.end();
}

/// What a watcher reads ahead is no progress of the command.
#[test]
fn other_processes_of_this_program_are_not_the_command() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    fill(&setup.tree, 1000);
    setup.cold();
    // So that it is seen before it ends.
    setup.delays(true);
    let program = env!("CARGO_BIN_EXE_foreseek");
    // The second one has the name of a daemon.
    let script = r#""$0" warm --quiet "$1" > /dev/null && cat "$1"/d1/* > /dev/null
        printf foreseek-watch > /proc/$$/comm
        for file in "$1"/d[2-6]/*; do : < "$file"; done
        sleep 0.2"#;
    let mut command = Command::new(program);
    command.args(["warm", &tree, "--memory", "8M", "--format", "json", "--then", "--"]);
    let warmed = setup.lab.run(command.args(["sh", "-c", script, program, &tree]));
    setup.delays(false);
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    let report: Value = serde_json::from_str(&warmed.err).expect("JSON");
    assert!(report["batches"].as_u64() > Some(2), "{report}");
    let of_one_directory = fs::read_dir(setup.tree.join("d1")).expect("there").count();
    // A file that is open when a program starts may be closed there last: as many as are open at a time.
    let used = usize::try_from(report["used_files"].as_u64().expect("a number")).expect("small");
    assert!((of_one_directory..=of_one_directory + 64).contains(&used), "{report}");
    setup.end();
}

#[test]
fn few_descriptors_are_enough() {
    let Some(setup) = Setup::ext4() else { return };
    fill(&setup.tree, 500);
    setup.cold();
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n 64 && exec "$0" "$@""#, env!("CARGO_BIN_EXE_foreseek")]);
    let warmed = setup.lab.run(command.arg("warm").arg(&setup.tree).args(["--format", "json"]));
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    let report: Value = warmed.json();
    assert_eq!(report["fetched_bytes"], report["wanted_bytes"], "{report}");
    setup.end();
}

#[test]
fn the_exit_status_is_the_commands_and_signals_are_passed_on() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("file"), "text").expect("written");
    let tree = directory.path().to_str().expect("plain");
    let command = |script: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.args(["warm", "--quiet", tree, "--then", "--", "sh", "-c", script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)] {
        let output = command(script).output().expect("it runs");
        assert_eq!(output.status.code(), Some(status), "{script}: {output:?}");
    }
    let missing = Command::new(env!("CARGO_BIN_EXE_foreseek"))
        .args(["warm", "--quiet", tree, "--then", "--", "/no/such/program"])
        .output();
    let missing = missing.expect("it runs");
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/no/such/program"), "{missing:?}");

    // A signal sent to foreseek alone reaches the command, even a stopped one.
    let ready = directory.path().join("ready");
    let script = format!("trap 'exit 9' TERM; echo $$ > {}; while :; do sleep 0.05; done", ready.display());
    for stop in [false, true] {
        let _ = fs::remove_file(&ready);
        let mut child = command(&script).spawn().expect("it runs");
        let shell = || fs::read_to_string(&ready).ok().and_then(|text| text.trim().parse::<i32>().ok());
        assert!(until(LIMIT, || shell().is_some()), "it starts");
        let signal = |process: i32, signal| {
            let process = rustix::process::Pid::from_raw(process).expect("a process");
            rustix::process::kill_process(process, signal).expect("sent");
        };
        if stop {
            signal(shell().expect("a number"), rustix::process::Signal::STOP);
        }
        signal(child.id().cast_signed(), rustix::process::Signal::TERM);
        let status = wait(&mut child, LIMIT).expect("it ends");
        assert_eq!(status.code(), Some(9), "stopped: {stop}");
    }
}

#[test]
fn a_command_starts_at_half_of_the_batch_and_what_is_left_at_its_end_is_not_read() {
    let Some(setup) = Setup::ext4() else { return };
    fill(&setup.tree, 1500);
    setup.cold();
    // The queue of the disk is full all the time.
    setup.lab.must(&["set", "walk", "--delays", "on", "--time-scale", "30"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.args(["warm", "--format", "json"]).arg(&setup.tree).args(["--then", "--", "true"]);
    let ended = setup.lab.run(&mut command);
    setup.lab.must(&["set", "walk", "--delays", "off"]);
    assert_eq!(ended.status, Some(0), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.err).expect("JSON");
    let bytes = |name: &str| report[name].as_u64().expect("a number");
    let [wanted, fetched, skipped] = ["wanted_bytes", "fetched_bytes", "skipped_bytes"].map(bytes);
    assert_eq!(report["batches"], 1, "{report}");
    assert!(fetched >= wanted / 2 && skipped > wanted / 8, "{report}");
    assert_eq!(fetched + skipped, wanted, "{report}");
    setup.end();
}

/// A shell sees by the exit status that a signal ended it.
#[test]
fn a_signal_that_ends_the_reading_is_the_exit_status() {
    let Some(setup) = Setup::ext4() else { return };
    fill(&setup.tree, 500);
    for (signal, status) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)] {
        setup.cold();
        // A seek takes a third of a second: there is time for the signal.
        setup.lab.must(&["set", "walk", "--delays", "on", "--time-scale", "30"]);
        // A test in the background of a shell ignores INT, and so does what it starts.
        let mut warm = Command::new("env");
        warm.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_foreseek"), "warm", "--quiet"]);
        warm.arg(&setup.tree).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = warm.spawn().expect("it runs");
        assert!(until(LIMIT, || setup.reads() > 2), "it reads");
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, signal).expect("sent");
        let ended = wait(&mut child, LIMIT).expect("it ends");
        setup.lab.must(&["set", "walk", "--delays", "off"]);
        assert_eq!(ended.code(), Some(status), "{ended:?}");
    }
    // While contents are read ahead of a command, it is not started.
    setup.cold();
    let marker = setup.lab.path("marker");
    let begun = || {
        let mut warm = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        warm.args(["warm", "--quiet"]).arg(&setup.tree).args(["--then", "--", "touch"]).arg(&marker);
        warm.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
    };
    // With these in memory, all reads are of contents.
    setup.warm(&[setup.tree.to_str().expect("plain"), "--metadata"]);
    setup.lab.must(&["stats", "walk", "--reset"]);
    // The first one takes a second, and others that lie behind it hardly any time.
    setup.lab.must(&["set", "walk", "--delays", "on", "--time-scale", "100"]);
    let mut child = begun();
    assert!(until(LIMIT, || setup.is_read()), "it reads");
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("sent");
    let ended = wait(&mut child, LIMIT).expect("it ends");
    setup.lab.must(&["set", "walk", "--delays", "off"]);
    assert_eq!((ended.code(), marker.exists()), (Some(143), false), "{ended:?}");
    // One that is ignored, as by nohup, stays so.
    setup.cold();
    setup.lab.must(&["set", "walk", "--delays", "on", "--time-scale", "30"]);
    let script = "trap '' HUP; exec \"$0\" warm --quiet \"$1\"";
    let mut warm = Command::new("sh");
    warm.args(["-c", script, env!("CARGO_BIN_EXE_foreseek")]).arg(&setup.tree).stdout(Stdio::null());
    let mut child = warm.spawn().expect("it runs");
    assert!(until(LIMIT, || setup.reads() > 2), "it reads");
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::HUP).expect("sent");
    setup.lab.must(&["set", "walk", "--delays", "off"]);
    let ended = wait(&mut child, LIMIT).expect("it ends");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    setup.end();
}

#[test]
fn files_that_a_user_may_not_read_are_reported_and_skipped() {
    let Some(setup) = Setup::ext4() else { return };
    fill(&setup.tree, 50);
    let secret = setup.tree.join("d1");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).expect("ours");
    let hidden = fs::read_dir(&secret).expect("there").count() as u64;
    fs::set_permissions(setup.tree.join("d2"), fs::Permissions::from_mode(0o755)).expect("ours");
    setup.cold();
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    let ended = setup.lab.run(command.arg("warm").arg(&setup.tree).args(["--format", "json"]).uid(NOBODY));
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.err.contains("cannot list") && ended.err.contains("d1"), "{ended:?}");
    assert!(ended.err.contains("cannot open /dev/"), "it reports why inodes are slower: {ended:?}");
    let report: Value = ended.json();
    assert_eq!((&report["files"], &report["unreadable"]), (&Value::from(50 - hidden), &Value::from(1)));
    let none = setup.warm(&["/no/such/tree"]);
    assert_eq!(none.status, Some(2), "{none:?}");
    // Of what is given, the rest is read, and the command runs.
    let [locked, pipe, open, link] =
        ["locked", "pipe", "open", "link-into-d1"].map(|name| setup.tree.join(name));
    fs::write(&locked, [1; 5000]).expect("written");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o600)).expect("ours");
    fs::write(&open, [1; 5000]).expect("written");
    setup.lab.tool("mkfifo", &[pipe.to_str().expect("plain")]);
    let given = |paths: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.args(["warm", "--quiet"]).args(paths).args(["--then", "--", "echo", "begun"]).uid(NOBODY);
        setup.lab.run(&mut command)
    };
    let some = given(&[&secret, &locked, &pipe, &open]);
    assert_eq!((some.status, some.out.as_str()), (Some(0), "begun\n"), "{some:?}");
    for text in ["cannot open", "d1", "locked", "pipe is a FIFO"] {
        assert!(some.err.contains(text), "{text}: {some:?}");
    }
    // Where a link leads that cannot be followed is not known.
    symlink("d1/anything", &link).expect("linked");
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    let ended = setup.lab.run(command.arg("warm").args([&link, &open]).uid(NOBODY));
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.err.contains("link-into-d1") && !ended.err.contains("nowhere"), "{ended:?}");
    let none = given(&[&secret, &locked, &pipe]);
    assert_eq!((none.status, none.out.as_str()), (Some(2), ""), "{none:?}");
    setup.end();
}

/// A file that is larger than the memory limit is read ahead in part, whatever its extents are.
#[test]
fn large_files_stay_within_the_memory_limit() {
    for kind in ["ext4", "btrfs"] {
        let Some(setup) = Setup::new(kind, &["-q"]) else { continue };
        let tree = setup.tree.to_str().expect("plain").to_owned();
        let most = 8 << 20;
        fill(&setup.tree, 200);
        fs::write(setup.tree.join("large"), vec![1; 100 << 20]).expect("written");
        for command in [&[][..], &["--then", "--", "true"]] {
            setup.cold();
            let warmed =
                setup.warm(&[&[tree.as_str(), "--memory", "8M", "--format", "json"][..], command].concat());
            assert_eq!(warmed.status, Some(i32::from(command.is_empty())), "{kind}: {warmed:?}");
            let text = if command.is_empty() { &warmed.out } else { &warmed.err };
            let report: Value = serde_json::from_str(text).expect("JSON");
            assert!(report["wanted_bytes"].as_u64() >= Some(100 << 20), "{kind}: {report}");
            let fetched = report["fetched_bytes"].as_u64().expect("a number");
            assert!(fetched > 1 << 20 && fetched <= most, "{kind}: {report}");
            let read = Bytes(setup.lab.stats("walk")["read_bytes"].as_u64().expect("a number"));
            assert!(read < Bytes::mib(32), "{kind}: {read}");
        }
        setup.end();
    }
}

/// Of a file in many pieces the first are read by their addresses, the rest in file order.
#[test]
fn a_file_in_many_pieces_is_read_whole_and_noted() {
    let Some(setup) = Setup::ext4() else { return };
    let path = setup.tree.join("pieces");
    let pieces = 4200;
    fs::write(&path, vec![1; 2 * 4096 * pieces as usize]).expect("written");
    let file = File::options().write(true).open(&path).expect("ours");
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    (0..pieces).for_each(|n| fallocate(&file, hole, (2 * n + 1) * 4096, 4096).expect("a hole"));
    drop(file);
    setup.cold();
    let warmed = setup.warm(&[path.to_str().expect("plain"), "--format", "json"]);
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    assert!(warmed.err.contains("1 files have more than 4096 extents"), "{warmed:?}");
    let report: Value = warmed.json();
    // The holes of the rest are read as zeros.
    let pages = 4096 + (pieces - 4096) * 2 + 1;
    assert_eq!(report["fetched_bytes"], pages * 4096, "{report}");
    setup.lab.must(&["stats", "walk", "--reset"]);
    assert_eq!(fs::read(&path).expect("there").len() as u64, 2 * 4096 * pieces);
    assert!(setup.reads() <= 10, "{} reads after warming", setup.reads());
    setup.end();
}

#[test]
fn inodes_and_directories_stay_within_the_memory_limit() {
    let inodes = ["-q", "-F", "-I", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let Some(setup) = Setup::new("ext4", &inodes) else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    fill(&setup.tree, 1500);
    setup.cold();
    let warmed = setup.warm(&[&tree, "--metadata", "--memory", "4M", "--format", "json"]);
    assert_eq!(warmed.status, Some(1), "{warmed:?}");
    assert!(warmed.err.contains("inodes and directories are beyond the memory limit"), "{warmed:?}");
    let report: Value = warmed.json();
    assert!(report["metadata_bytes"].as_u64() <= Some(4 << 20), "{report}");
    assert!(report["skipped_bytes"].as_u64() > Some(1 << 20), "{report}");
    // All of the contents that fit are fetched nevertheless.
    setup.cold();
    let warmed = setup.warm(&[&tree, "--format", "json"]);
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    setup.end();
}

#[test]
fn files_that_vanish_or_are_replaced_meanwhile_cause_no_failure() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    let files = fill(&setup.tree, 3000);
    let content = |number: usize| vec![b'a' + (number % 26) as u8; 3000 + number * 977 % 40_000];
    let is_kept = |number: usize| number % 5 == 4;
    setup.cold();
    setup.lab.must(&["set", "walk", "--delays", "on", "--time-scale", "5"]);
    let report = File::create(setup.lab.path("report")).expect("a file");
    let mut warm = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    warm.args(["warm", "--quiet", &tree, "--format", "json"]).stdout(report).stderr(Stdio::null());
    let mut child = KilledOnDrop(warm.spawn().expect("it runs"));
    // It reads contents as soon as some of the files that stay are in memory.
    let begins = || files.iter().skip(4).step_by(500).any(|path| is_in_memory(path));
    assert!(until(LIMIT, begins), "nothing is fetched");
    let mut meanwhile = 0;
    // The other way round, so that some go before their turn.
    for (number, path) in files.iter().enumerate().rev().filter(|(number, _)| !is_kept(*number)) {
        if number % 5 == 1 {
            fs::write(path, "short").expect("ours");
        } else {
            fs::remove_file(path).expect("ours");
        }
        match number % 5 {
            2 => symlink("/etc/passwd", path).expect("ours"),
            3 => fs::create_dir(path).expect("ours"),
            _ => {}
        }
        meanwhile += usize::from(child.0.try_wait().expect("ours").is_none());
    }
    let status = wait(&mut child.0, LIMIT).expect("it ends");
    setup.delays(false);
    let report = fs::read_to_string(setup.lab.path("report")).expect("text");
    println!("{meanwhile} changes meanwhile: {report}");
    assert!(matches!(status.code(), Some(0 | 1)), "{status:?}: {report}");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    // A file whose pages are being read goes when they are there.
    assert!(meanwhile > 100, "the test's own setup: {meanwhile} changes meanwhile");
    let [wanted, fetched] =
        ["wanted_bytes", "fetched_bytes"].map(|name| report[name].as_u64().expect("a number"));
    assert!(fetched > 1 << 20 && fetched + (1 << 20) < wanted, "some had gone before: {report}");
    for _ in 0..2 {
        for (number, path) in files.iter().enumerate() {
            match number % 5 {
                0 => assert!(!path.exists(), "{}", path.display()),
                1 => assert_eq!(fs::read(path).expect("there"), b"short", "{}", path.display()),
                2 => assert_eq!(fs::read_link(path).expect("a link"), Path::new("/etc/passwd")),
                3 => assert_eq!(fs::read_dir(path).expect("a directory").count(), 0, "{}", path.display()),
                _ => assert!(fs::read(path).expect("untouched") == content(number), "{}", path.display()),
            }
        }
        // On the disk as well.
        setup.cold();
    }
    setup.end();
}

#[test]
fn a_bad_sector_is_reported_and_the_rest_is_fetched() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    let files = fill(&setup.tree, 200);
    setup.cold();
    let bad = first_sector(&files[17]).expect("a sector");
    setup.lab.must(&["set", "walk", "--fail-lba", &format!("{bad}..{}", bad + 8)]);
    let warmed = setup.warm(&[&tree, "--format", "json"]);
    assert_eq!(warmed.status, Some(1), "{warmed:?}");
    let name = files[17].file_name().and_then(OsStr::to_str).expect("plain");
    assert!(warmed.err.contains("cannot read") && warmed.err.contains(name), "{warmed:?}");
    let report: Value = warmed.json();
    assert_eq!(report["unreadable"], 1, "{report}");
    setup.lab.must(&["set", "walk", "--fail-none"]);
    setup.lab.must(&["stats", "walk", "--reset"]);
    setup.lab.run(Command::new("grep").args(["-r", "no such text", &tree]));
    assert!(setup.reads() <= 10, "{}", setup.reads());
    setup.end();
}

/// It is not found by a listing, which looks no file up.
#[test]
fn an_inode_that_cannot_be_read_is_reported() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = setup.tree.to_str().expect("plain").to_owned();
    let files = fill(&setup.tree, 1000);
    // When the file system is mounted, the kernel reads the 32 blocks of inodes around that of its root.
    let inode = fs::metadata(&files[900]).expect("there").ino();
    setup.cold();
    let block = setup.lab.block_of_inode(&setup.device, inode);
    setup.cold();
    setup.lab.must(&["set", "walk", "--fail-lba", &format!("{}..{}", block * 8, block * 8 + 8)]);
    let warmed = setup.warm(&[&tree, "--metadata", "--format", "json"]);
    setup.lab.must(&["set", "walk", "--fail-none"]);
    assert_eq!(warmed.status, Some(1), "{warmed:?}");
    let expected = format!("cannot read {} at offset {}: ", setup.device.display(), block * 4096);
    assert!(warmed.err.contains(&expected), "{expected}: {warmed:?}");
    let report: Value = warmed.json();
    assert_eq!(
        (&report["unreadable"], &report["evicted_bytes"]),
        (&Value::from(1), &Value::from(0)),
        "{report}"
    );
    setup.end();
}

#[test]
fn other_file_systems_are_warmed_by_address_or_by_inode() {
    for (kind, options, by_inode) in [("xfs", &["-q"][..], false), ("btrfs", &["-q"][..], true)] {
        let Some(setup) = Setup::new(kind, options) else { continue };
        let tree = setup.tree.to_str().expect("plain").to_owned();
        let files = fill(&setup.tree, 300);
        let sparse = File::create(setup.tree.join("sparse")).expect("made");
        sparse.write_all_at(&[1; 4096], 1 << 30).and_then(|()| sparse.set_len(8 << 30)).expect("sparse");
        drop(sparse);
        setup.cold();
        let order = ordered(&[setup.tree.as_os_str()]);
        assert_eq!(order.len(), files.len() + 1);
        if by_inode {
            let inodes = order.iter().map(|path| fs::metadata(path).expect("there").ino());
            assert!(inodes.is_sorted(), "{kind}");
        } else {
            assert!(order.iter().filter_map(|path| first_sector(path)).is_sorted(), "{kind}");
        }
        setup.cold();
        let warmed = setup.warm(&[&tree, "--format", "json"]);
        assert_eq!(warmed.status, Some(0), "{kind}: {warmed:?}");
        // Holes are not read.
        let report: Value = warmed.json();
        assert!(report["fetched_bytes"].as_u64() < Some(16 << 20), "{kind}: {report}");
        assert!(report["unmapped_bytes"].as_u64() > Some(7 << 30), "{kind}: {report}");
        assert_eq!(warmed.err.contains("order of their inode numbers"), by_inode, "{kind}: {warmed:?}");
        setup.lab.must(&["stats", "walk", "--reset"]);
        setup.lab.run(Command::new("grep").args(["-r", "--exclude=sparse", "no such text", &tree]));
        assert!(setup.reads() <= 20, "{kind}: {} reads after warming", setup.reads());
        // To ask for holes writes nothing back.
        let dirty = setup.tree.join("dirty");
        let file = File::create(&dirty).expect("made");
        file.set_len(2 << 20).and_then(|()| file.write_all_at(&[1; 4096], 1 << 20)).expect("written");
        drop(file);
        assert_eq!(first_sector(&dirty), None, "the test's own setup: delayed allocation");
        let warmed = setup.warm(&[&tree]);
        assert_eq!((warmed.status, first_sector(&dirty)), (Some(0), None), "{kind}: {warmed:?}");
        setup.end();
    }
}

/// Reading ahead lowers its own I/O priority, and not that of the command.
#[test]
fn a_command_has_the_priority_that_it_has_alone() {
    let says = |command: &mut Command| {
        command.output().ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let alone = || Command::new("ionice");
    let Some(usual) = says(&mut alone()) else {
        println!("SKIPPED: ionice is not installed");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("file"), "text").expect("written");
    let foreseek = [env!("CARGO_BIN_EXE_foreseek"), "warm", "--quiet"];
    let after = |command: &mut Command| {
        command.arg(directory.path()).args(["--then", "--", "ionice"]);
        says(command)
    };
    let warm = after(Command::new(foreseek[0]).args(&foreseek[1..]));
    assert_eq!(warm, Some(usual));
    let chosen = ["-c", "2", "-n", "3"];
    let warm = after(alone().args(chosen).args(foreseek));
    assert_eq!(warm, says(alone().args(chosen).arg("ionice")));
}

#[test]
fn nothing_is_fetched_of_a_tree_in_memory() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        println!("SKIPPED: no tmpfs at /dev/shm");
        return;
    };
    fs::write(directory.path().join("file"), [1; 100_000]).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    let output = command.arg("warm").arg(directory.path()).args(["--format", "json"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is in memory"), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["files"], &report["fetched_bytes"]), (&Value::from(1), &Value::from(0)));
}

/// Entries of the large tree, its directories, and files with places of their own: the other entries are links to them.
const MANY: usize = 1_000_000;
const FOLDERS: usize = 1000;
const TARGETS: usize = 20_000;
/// The memory that a million entries may take: 300 bytes for each, as docs/use/walks.md says, and 64 MiB for the rest.
const MEMORY_MOST: Bytes = Bytes(300 * MANY as u64 + (64 << 20));
/// Longest wait for a command on so many.
const MANY_LIMIT: Duration = Duration::from_secs(600);

/// The entry of a link: its name shows its target.
fn entry(tree: &Path, target: usize, link: usize) -> PathBuf {
    tree.join(format!("d{}", (target * 7 + link * 131) % FOLDERS)).join(format!("{target}-{link}"))
}

/// Runs Foreseek to its end; returns its output and its peak memory.
fn measured(setup: &Setup, arguments: &[&OsStr]) -> (Vec<u8>, Bytes) {
    let begun = Instant::now();
    let [out, err] = ["many-out", "many-err"].map(|name| setup.lab.path(name));
    let file = |path: &Path| File::create(path).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.args(arguments).stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
    let mut child = command.spawn().expect("it runs");
    let (about, mut peak, mut status) = (format!("/proc/{}/status", child.id()), 0, None);
    until(MANY_LIMIT, || {
        let text = fs::read_to_string(&about).unwrap_or_default();
        let held = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak = peak.max(held.and_then(|held| held.parse().ok()).unwrap_or(0));
        status = child.try_wait().expect("ours");
        status.is_some()
    });
    let errors = fs::read_to_string(&err).expect("text");
    let Some(status) = status else {
        child.kill().expect("ours");
        panic!("{arguments:?} does not end; {errors}");
    };
    assert_eq!(status.code(), Some(0), "{arguments:?}: {errors}");
    let peak = Bytes::kib(peak);
    println!("{:?}: {:.1} s, {} MiB", arguments[0], begun.elapsed().as_secs_f64(), peak.get() >> 20);
    (fs::read(&out).expect("there"), peak)
}

#[test]
#[ignore = "takes minutes; make soak runs it"]
fn a_million_entries_are_ordered_and_warmed_in_bounded_memory() {
    let Some(setup) = Setup::ext4() else { return };
    let tree = &setup.tree;
    for folder in 0..FOLDERS {
        fs::create_dir(tree.join(format!("d{folder}"))).expect("made");
    }
    let begun = Instant::now();
    for target in (0..TARGETS).map(|n| n * 7919 % TARGETS) {
        let path = entry(tree, target, 0);
        fs::write(&path, vec![b'a' + (target % 26) as u8; 2000 + target * 977 % 6000]).expect("written");
        for link in 1..MANY / TARGETS {
            fs::hard_link(&path, entry(tree, target, link)).expect("linked");
        }
    }
    println!("{MANY} entries were made in {:.1} s", begun.elapsed().as_secs_f64());
    setup.cold();
    let options = ["order", "-0", "--quiet"].map(OsStr::new);
    let (order, memory) = measured(&setup, &[&options[..], &[tree.as_os_str()]].concat());
    assert!(memory <= MEMORY_MOST, "order held {memory}");
    let sectors: Vec<u64> =
        (0..TARGETS).map(|target| first_sector(&entry(tree, target, 0)).expect("a sector")).collect();
    let mut seen = vec![false; MANY];
    let mut last = 0;
    for path in order.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = Path::new(OsStr::from_bytes(path));
        let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.split_once('-'));
        let (target, link) = name.expect("ours");
        let [target, link] = [target, link].map(|part| part.parse().expect("ours"));
        assert_eq!(entry(tree, target, link), path);
        assert!(
            !std::mem::replace(&mut seen[target * (MANY / TARGETS) + link], true),
            "{} twice",
            path.display()
        );
        assert!(last <= sectors[target], "{} comes too late", path.display());
        last = sectors[target];
    }
    assert!(seen.iter().all(|seen| *seen), "some are missing");
    drop(order);

    setup.cold();
    let options = ["warm", "--format", "json"].map(OsStr::new);
    let (report, memory) = measured(&setup, &[&options[..], &[tree.as_os_str()]].concat());
    assert!(memory <= MEMORY_MOST, "warm held {memory}");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    println!("{report}");
    assert_eq!((&report["files"], &report["unreadable"]), (&Value::from(MANY), &Value::from(0)));
    // Each file once, however many links it has.
    let pages: u64 =
        (0..TARGETS as u64).map(|target| Bytes(2000 + target * 977 % 6000).pages_ceil().bytes().get()).sum();
    assert!(report["fetched_bytes"].as_u64() <= Some(pages), "{report}");
    setup.lab.must(&["stats", "walk", "--reset"]);
    (0..TARGETS).for_each(|target| drop(fs::read(entry(tree, target, 1)).expect("there")));
    // A kernel with DAMON may page some of it out meanwhile.
    assert!(setup.reads() * 20 <= TARGETS as u64, "{} reads after warming", setup.reads());
    setup.end();
}
