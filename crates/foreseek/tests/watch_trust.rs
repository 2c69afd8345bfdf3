//! System tests of `foreseek watch`: the mounts that it chooses and those that it leaves alone, lost events,
//! programs that read little, full disks.
//!
//! They need root, FUSE and loop devices; without them they print a message.
#![allow(clippy::print_stdout, reason = "skipped tests print a message")]

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "disk/lab.rs"]
mod lab;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "watch/setup.rs"]
mod setup;

use foreseek_storage::loop_device::{LoopDevice, LoopOptions};
use lab::{KilledOnDrop, LIMIT, Lab, until, wait};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use setup::{Setup, fill};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// File systems on their own loop devices. A drop unmounts and detaches them.
struct Places {
    lab: Lab,
    mounted: Vec<PathBuf>,
    devices: Vec<LoopDevice>,
}

impl Places {
    /// Adds one on a device that seeks or does not; `None`, with a message, if it cannot be made here.
    fn add(&mut self, name: &str, kind: &str, rotational: bool) -> Option<PathBuf> {
        let (image, mkfs) = (self.lab.path(&format!("{name}.image")), format!("mkfs.{kind}"));
        let file = File::options().create_new(true).read(true).write(true).open(&image).expect("made");
        file.set_len(512 << 20).expect("sparse");
        let force = if kind == "ext4" { "-F" } else { "-f" };
        let mut make = Command::new(&mkfs);
        make.args(["-q", force]).arg(&image).stdout(Stdio::null()).stderr(Stdio::null());
        if !make.status().is_ok_and(|status| status.success()) {
            println!("SKIPPED in part: {mkfs} is not installed or fails");
            return None;
        }
        let device = LoopDevice::attach(&file, &image, LoopOptions { rotational, ..LoopOptions::DISK });
        let device = device.expect("a loop device");
        let point = self.point(name);
        self.devices.push(device.clone());
        match mount(device.path(), &point, kind, MountFlags::empty(), Some(c"")) {
            Ok(()) => self.mounted.push(point.clone()),
            Err(error) => {
                println!("SKIPPED in part: {kind} cannot be mounted: {error}");
                return None;
            }
        }
        Some(point)
    }

    fn point(&self, name: &str) -> PathBuf {
        let point = self.lab.path(name);
        fs::create_dir_all(&point).expect("made");
        point
    }

    /// A FUSE file system without an answering program; it exists as long as the file is open.
    fn add_silent(&mut self) -> Option<(PathBuf, File)> {
        let point = self.point("silent");
        let fuse = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
        let options = CString::new(options).expect("plain");
        mount("silent", &point, "fuse.silent", MountFlags::empty(), Some(options.as_c_str())).ok()?;
        self.mounted.push(point.clone());
        Some((point, fuse))
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for point in self.mounted.iter().rev() {
            // A watcher that was just killed may keep it busy for a moment.
            until(Duration::from_secs(10), || unmount(point, UnmountFlags::empty()) != Err(Errno::BUSY));
            let _ = unmount(point, UnmountFlags::DETACH);
        }
        self.devices.iter().for_each(|device| drop(device.clear(Duration::from_secs(10))));
    }
}

/// Unmounts the file systems of other tests, in its own mount namespace, and runs the remaining arguments.
const ALONE: &str = r#"
own=$1; shift
while read -r id parent device root point rest; do
    case $point in "$own"/*) ;; /tmp/*|/var/tmp/*) umount -l "$point" ;; esac
done < /proc/self/mountinfo
exec "$@"
"#;

#[test]
fn all_reports_the_watched_mounts_and_why_others_are_left_alone() {
    let Some(lab) = Lab::new() else { return };
    let mut places = Places { lab, mounted: Vec::new(), devices: Vec::new() };
    let seeks = places.add("seeks", "ext4", true).expect("ext4");
    let xfs = places.add("xfs", "xfs", true);
    let hidden = places.add("hidden", "ext4", true).expect("ext4");
    mount("none", &hidden, "tmpfs", MountFlags::empty(), Some(c"size=1m")).expect("mounted");
    places.mounted.push(hidden.clone());
    let left = [
        (places.add("solid", "ext4", false), "does not seek"),
        (places.add("btrfs", "btrfs", true), "may span several"),
        (Some(hidden), "another mount hides it"),
    ];
    let silent = places.add_silent();
    let later = places.add("later", "ext4", true).expect("ext4");
    unmount(&later, UnmountFlags::empty()).expect("unmounted");
    let device = places.devices.last().expect("attached").path();

    let run = places.lab.path("run");
    let log = File::create(places.lab.path("log")).expect("a file");
    let mut alone = Command::new("unshare");
    alone.args(["--mount", "sh", "-c", ALONE, "sh"]).arg(&places.lab.directory);
    alone.arg(env!("CARGO_BIN_EXE_foreseek")).args(["watch", "--all", "--memory", "16M", "--foreground"]);
    alone.env("FORESEEK_RUN", &run).stdin(Stdio::null()).stderr(log);
    let mut watcher = KilledOnDrop(alone.spawn().expect("util-linux has it"));
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        places.lab.run(command.arg("watch").args(arguments).env("FORESEEK_RUN", &run))
    };
    let status = || -> Option<Value> {
        let shown = ask(&["--status", "--format", "json"]);
        serde_json::from_str(&shown.out).ok()
    };
    let is_watched = |status: &Value, point: &Path| {
        let all = status["watched"].as_array().expect("a list");
        all.iter().any(|it| it["mount"].as_str() == point.to_str())
    };
    let mut latest = Value::Null;
    let logged = || fs::read_to_string(places.lab.path("log")).unwrap_or_default();
    // This works although the silent file system never answers.
    let begins = until(LIMIT, || {
        status().is_some_and(|status| {
            latest = status;
            is_watched(&latest, &seeks)
        })
    });
    assert!(begins, "{latest} {}", logged());
    for point in xfs.iter().chain([&seeks]) {
        assert!(is_watched(&latest, point), "{latest}");
        assert!(logged().contains(&format!("{} is watched", point.display())), "{}", logged());
    }
    let silent_point = silent.as_ref().map(|silent| silent.0.clone());
    if silent.is_none() {
        println!("SKIPPED in part: no FUSE file system can be mounted here");
    }
    let all =
        left.iter().map(|(point, reason)| (point.as_ref(), *reason)).chain([(silent_point.as_ref(), "FUSE")]);
    for (point, expected) in all.filter_map(|(point, reason)| Some((point?, reason))) {
        let alone = latest["left_alone"].as_array().expect("a list");
        let reason = alone.iter().find(|it| it["mount"].as_str() == point.to_str());
        let reason = reason.and_then(|it| it["reason"].as_str()).unwrap_or_default();
        assert!(reason.contains(expected), "{}: {latest}", point.display());
        assert!(!is_watched(&latest, point), "{latest}");
        let line = format!("{} is left alone: {reason}", point.display());
        assert!(logged().contains(&line), "{line}: {}", logged());
        assert!(ask(&["--status"]).out.contains(reason));
    }
    // No message is printed about file systems that the kernel makes up.
    assert!(!logged().contains("/proc is"), "{}", logged());

    // A file system that is mounted later is watched as well, and can be unmounted.
    let namespace = format!("--mount=/proc/{}/ns/mnt", watcher.0.id());
    let within = |program: &str, arguments: &[&Path]| {
        let ended = places.lab.run(Command::new("nsenter").arg(&namespace).arg(program).args(arguments));
        assert_eq!(ended.status, Some(0), "{ended:?}");
    };
    within("mount", &[&device, &later]);
    assert!(until(LIMIT, || status().is_some_and(|status| is_watched(&status, &later))), "{:?}", status());
    within("umount", &[&later]);
    assert!(until(LIMIT, || status().is_some_and(|status| !is_watched(&status, &later))), "{:?}", status());
    assert_eq!(ask(&["--stop"]).status, Some(0));
    assert!(wait(&mut watcher.0, LIMIT).is_some(), "it ends");
    drop(silent);
}

/// A process that is stopped until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(status: &Value) -> Self {
        let pid = i32::try_from(status["pid"].as_u64().expect("a number")).expect("a process");
        let pid = Pid::from_raw(pid).expect("a process");
        kill_process(pid, Signal::STOP).expect("ours");
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn an_overflow_of_the_queue_is_counted_and_walks_are_recognised_again() {
    const FOLDERS: u64 = 500;
    let limit = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap_or_default();
    let limit: u64 = limit.trim().parse().unwrap_or(16_384);
    if limit > 100 * FOLDERS {
        println!("SKIPPED: the queue holds {limit} events");
        return;
    }
    let Some(setup) = Setup::new() else { return };
    let [tree, many] = ["tree", "many"].map(|name| setup.lab.mount_point().join(name));
    let files = 1500;
    let total = fill(&tree, files, 100);
    for folder in 0..FOLDERS {
        fs::create_dir_all(many.join(format!("d{folder}"))).expect("made");
    }
    setup.cold();
    setup.start();
    let stopped = Stopped::new(&setup.status());
    // The kernel merges the events of one process for one directory: each run is another process.
    for _ in 0..limit / FOLDERS + 2 {
        setup.lab.tool("ls", &["-R", many.to_str().expect("plain")]);
    }
    drop(stopped);
    let overflows = || setup.status()["counted"]["overflows"].as_u64() >= Some(1);
    assert!(until(LIMIT, overflows), "{}", setup.status());
    assert!(setup.watch(&["--status"]).out.contains("events lost"));

    setup.delays(true);
    let read = setup.grep(&tree);
    let found = || setup.status()["counted"]["files_found_read"].as_u64() > Some(files / 3);
    assert!(until(LIMIT, found), "{}", setup.status());
    println!("the walker read {read} of {total} bytes itself after the overflow");
    setup.delays(false);
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    setup.end();
}

/// Reads a device all the time, in small parts.
struct Busy(Child);

impl Busy {
    fn on(device: &str) -> Self {
        let reads = "while dd if=\"$0\" of=/dev/null bs=4k iflag=direct count=64; do :; done";
        let mut command = Command::new("sh");
        command.args(["-c", reads, device]).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.process_group(0).spawn().expect("it starts"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn an_overflow_of_the_opens_of_all_files_is_counted() {
    const FILES: u64 = 1000;
    let limit = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap_or_default();
    let limit: u64 = limit.trim().parse().unwrap_or(16_384);
    if limit > 100 * FILES {
        println!("SKIPPED: the queue holds {limit} events");
        return;
    }
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    fill(&tree, FILES, 1);
    setup.start();
    setup.delays(true);
    let busy = Busy::on(setup.node());
    let observed = || setup.status()["disks"][0]["all_opens"] == true;
    assert!(until(LIMIT, observed), "{}", setup.status());
    let stopped = Stopped::new(&setup.status());
    // The kernel merges the events of one process for one file: each run is another process.
    for _ in 0..limit / FILES + 2 {
        setup.lab.tool("sh", &["-c", "cat \"$0\"/*/* > /dev/null", tree.to_str().expect("plain")]);
    }
    drop(stopped);
    let overflows = || setup.status()["counted"]["overflows"].as_u64() >= Some(1);
    assert!(until(LIMIT, overflows), "{}", setup.status());
    drop(busy);
    setup.delays(false);
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    setup.end();
}

/// The watcher's counters, once they no longer change.
fn settled(setup: &Setup) -> Value {
    let mut last = setup.status()["counted"].clone();
    let mut same = 0;
    until(LIMIT, || {
        std::thread::sleep(Duration::from_millis(150));
        let counted = setup.status()["counted"].clone();
        same = if counted == last { same + 1 } else { 0 };
        last = counted;
        same >= 4
    });
    last
}

#[test]
fn no_contents_are_fetched_for_programs_that_read_little() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    fill(&tree, 2000, 100);
    let plain = tree.to_str().expect("plain").to_owned();
    // A project that is up to date: `make` reads its Makefile and only looks up the other files.
    let project = setup.lab.mount_point().join("project");
    fs::create_dir(&project).expect("made");
    for n in 0..300 {
        fs::write(project.join(format!("f{n}.c")), vec![b'c'; 6000]).expect("written");
    }
    for n in 0..300 {
        fs::write(project.join(format!("f{n}.o")), vec![b'o'; 6000]).expect("written");
    }
    let objects: Vec<String> = (0..300).map(|n| format!("f{n}.o")).collect();
    let rules = format!("all: {}\n%.o: %.c\n\tfalse\n", objects.join(" "));
    fs::write(project.join("Makefile"), rules).expect("written");
    let project = project.to_str().expect("plain");
    let shell = |script: &str| setup.lab.tool("sh", &["-c", script, "sh", &plain, project]);
    let mut programs = vec![
        ("ls", "ls $1 > /dev/null"),
        ("ls -l", "ls -l $1/d1 $1/d2 $1/d3 > /dev/null"),
        ("find | head", "find $1 | head -n 50 > /dev/null"),
        (
            "head",
            "head -c 1 $1/d5/* 2> /dev/null | head -c 40 > /dev/null; cat $1/d6/* | head -c 1 > /dev/null",
        ),
        ("stat", "stat $1/d7/* > /dev/null"),
    ];
    if Command::new("make").arg("-v").stdout(Stdio::null()).status().is_ok() {
        programs.push(("make", "make -s -C $2"));
    } else {
        println!("SKIPPED in part: make is not installed");
    }
    setup.start();
    for (name, script) in programs {
        setup.cold();
        // The watcher has noticed the new mount: `watched` may still be of the one before.
        let seen = || {
            let counted = setup.status()["counted"].clone();
            ["directories_opened", "gone"].iter().filter_map(|key| counted[*key].as_u64()).sum::<u64>()
        };
        let before = seen();
        let sees = || {
            setup.lab.tool("ls", &[setup.lab.mount_point().to_str().expect("plain")]);
            seen() > before
        };
        assert!(until(LIMIT, sees), "{name}: {}", setup.status());
        // With delays the programs run long enough for the watcher to look at them.
        setup.delays(true);
        let before = settled(&setup);
        shell(script);
        let after = settled(&setup);
        setup.delays(false);
        let more = |key: &str| after[key].as_u64().unwrap_or(0) - before[key].as_u64().unwrap_or(0);
        println!(
            "{name}: {} directories opened, {} bytes of contents, {} of inodes and directories",
            more("directories_opened"),
            more("content_bytes"),
            more("metadata_bytes")
        );
        assert!(more("directories_opened") + more("gone") >= 1, "{name}: {after}");
        assert_eq!(more("content_bytes"), 0, "{name}: {after}");
        assert!(more("metadata_bytes") < 1 << 20, "{name}: {after}");
    }
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    setup.end();
}

/// Allocates all free space of a file system.
fn take_all(point: &Path) {
    let file = File::create(point.join("all of it")).expect("made");
    let mut length = 4u64 << 30;
    let mut end = 0;
    while length >= 4096 {
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), end, length) {
            Ok(()) => end += length,
            Err(_) => length /= 2,
        }
    }
    let mut last = File::create(point.join("the last of it")).expect("made");
    while last.write_all(&[1; 1024]).is_ok() {}
    let error = fs::write(point.join("more"), [1; 65_536]).expect_err("it is full");
    assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
}

#[test]
fn files_of_a_full_disk_are_read_ahead() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    let files = 1500;
    fill(&tree, files, 100);
    take_all(&setup.lab.mount_point());
    setup.cold();
    setup.start();
    setup.delays(true);
    setup.grep(&tree);
    let found = || setup.status()["counted"]["files_found_read"].as_u64() > Some(files / 3);
    assert!(until(LIMIT, found), "{}", setup.status());
    assert_eq!(setup.status()["counted"]["failed"], 0);
    setup.delays(false);
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));

    let mut foreseek = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    let ordered = setup.lab.run(foreseek.args(["order", "--quiet"]).arg(&tree));
    assert_eq!((ordered.status, ordered.out.lines().count() as u64), (Some(0), files), "{}", ordered.err);
    setup.cold();
    let mut foreseek = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    let warmed = setup.lab.run(foreseek.args(["warm", "--format", "json"]).arg(&tree));
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    setup.lab.must(&["stats", "watch", "--reset"]);
    setup.grep(&tree);
    let reads = setup.lab.stats("watch")["reads"].as_u64();
    assert!(reads < Some(20), "{reads:?} reads after warming");
    setup.end();
}

#[test]
fn a_full_run_directory_is_reported_and_does_not_end_a_watcher() {
    let Some(setup) = Setup::new() else { return };
    let full = setup.lab.path("full");
    fs::create_dir(&full).expect("made");
    mount("none", &full, "tmpfs", MountFlags::empty(), Some(c"size=64k")).expect("mounted");
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = unmount(&self.0, UnmountFlags::DETACH);
        }
    }
    let mounted = Mounted(full.clone());
    let watch = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.arg("watch").args(arguments).env("FORESEEK_RUN", &full);
        setup.lab.run(command.current_dir(&setup.lab.directory))
    };
    let ballast = full.join("ballast");
    let fill_up = || {
        let mut file = File::create(&ballast).expect("made");
        while file.write_all(&[1; 512]).is_ok() {}
    };
    fill_up();
    let refused = watch(&["mnt"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.err.contains("No space left"), "{refused:?}");
    assert!(!full.join("watch/watch").exists(), "the started directory is removed");
    fs::remove_file(&ballast).expect("there");
    let started = watch(&["mnt"]);
    assert_eq!(started.status, Some(0), "{started:?}");
    fill_up();
    let shown = watch(&["--status", "--format", "json"]);
    assert_eq!(shown.status, Some(0), "{shown:?}");
    let stopped = watch(&["--stop"]);
    assert_eq!((stopped.status, stopped.err.as_str()), (Some(0), ""), "{stopped:?}");
    assert!(!full.join("watch/watch").exists());
    drop(mounted);
    setup.end();
}
