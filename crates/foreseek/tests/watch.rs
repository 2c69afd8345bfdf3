//! System tests of `foreseek watch` as users run it: its start, status, end, and what a killed watcher leaves.
//! On an emulated disk they check by counts whether the files of a walk are in memory when a program reads
//! them.
//!
//! They need root, FUSE and loop devices; without them they print a message.
#![allow(clippy::print_stdout, reason = "skipped tests print a message")]

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "disk/lab.rs"]
mod lab;

#[path = "watch/recording.rs"]
mod recording;

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "watch/setup.rs"]
mod setup;

use foreseek_storage::{DeviceNumber, DiskLoad};
use lab::{KilledOnDrop, LIMIT, until};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use setup::{Setup, fill, fill_aged};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A user that owns no file.
const NOBODY: u32 = 65_534;

fn group_of(status: &Value) -> Option<PathBuf> {
    Some(PathBuf::from(status["group"].as_str()?))
}

#[test]
fn a_watcher_is_started_queried_killed_and_restarted_and_leaves_nothing() {
    let Some(setup) = Setup::new() else { return };
    let none = setup.watch(&["--status"]);
    assert_eq!(none.status, Some(2), "{none:?}");
    assert!(none.err.contains("no watcher runs"), "{none:?}");
    setup.start();
    let status = setup.status();
    let watched = status["watched"].as_array().expect("a list");
    assert_eq!(watched.len(), 1, "{status}");
    assert_eq!(watched[0]["mount"].as_str(), setup.lab.mount_point().to_str(), "{status}");
    assert!(setup.watch(&["--status"]).out.contains("ext4"));
    let second = setup.watch(&["mnt"]);
    assert_eq!(second.status, Some(2), "{second:?}");
    assert!(second.err.contains("runs already"), "{second:?}");
    // Other users cannot query the watcher: its status is about other users' programs too.
    let folder = fs::metadata(setup.lab.path("run/watch/watch")).expect("there");
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    let mut other_user = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    other_user.args(["watch", "--status"]).env("FORESEEK_RUN", setup.lab.path("run")).uid(NOBODY);
    assert_eq!(setup.lab.run(other_user.current_dir("/")).status, Some(2));

    let pid = i32::try_from(status["pid"].as_u64().expect("a number")).expect("a process");
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("ours");
    assert!(until(LIMIT, || !Path::new(&format!("/proc/{pid}")).exists()));
    let dead = setup.watch(&["--status"]);
    assert!(dead.status == Some(2) && dead.err.contains("dead"), "{dead:?}");
    // The fanotify marks of the killed watcher are gone, and it keeps no file open.
    setup.cold();
    let group = group_of(&status);
    setup.start();
    assert!(group.is_none_or(|group| !group.exists()), "the killed watcher's control group remains");
    let group = group_of(&setup.status());
    if let Some(group) = &group {
        let procs = fs::read_to_string(group.join("cgroup.procs")).expect("a control group");
        assert_eq!(procs.trim(), setup.status()["pid"].to_string());
        let limit = ["memory.high", "memory.limit_in_bytes"]
            .iter()
            .find_map(|name| fs::read_to_string(group.join(name)).ok())
            .expect("a limit");
        // The group's limit is about twice the window: it does not reduce the window.
        let window = setup.status()["window_bytes"].as_u64().expect("a number");
        assert!(
            limit
                .trim()
                .parse::<u64>()
                .is_ok_and(|limit| limit > window && limit < window / 2 * 5 + (512 << 20)),
            "{limit}"
        );
    } else {
        println!("SKIPPED in part: no control group can limit memory here");
    }
    let stopped = setup.watch(&["--stop"]);
    assert_eq!((stopped.status, stopped.err.as_str()), (Some(0), ""), "{stopped:?}");
    assert!(group.is_none_or(|group| !group.exists()));
    assert!(setup.watch(&["--stop"]).err.contains("no watcher runs"));
    setup.end();
}

/// A watcher in the foreground, of another run directory; it is killed when this is dropped.
struct Second(KilledOnDrop, PathBuf);

impl Second {
    fn start(setup: &Setup, name: &str, before: &[&str]) -> Self {
        let run = setup.lab.path(name);
        let program = env!("CARGO_BIN_EXE_foreseek");
        let line = [before, &[program, "watch", "--foreground", "--memory", "64M", "mnt"]].concat();
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).env("FORESEEK_RUN", &run).current_dir(&setup.lab.directory);
        let mut second = Self(KilledOnDrop(command.spawn().expect("it starts")), run);
        let answers = until(LIMIT, || second.status(setup).is_some() || second.has_ended());
        assert!(answers && !second.has_ended(), "{line:?}");
        second
    }

    fn has_ended(&mut self) -> bool {
        self.0.0.try_wait().expect("it is a child").is_some()
    }

    fn status(&self, setup: &Setup) -> Option<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.args(["watch", "--status", "--format", "json"]).env("FORESEEK_RUN", &self.1);
        serde_json::from_str(&setup.lab.run(&mut command).out).ok()
    }

    /// Ends it in order.
    fn end(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.0.id()).expect("a process")).expect("a process");
        kill_process(pid, Signal::TERM).expect("ours");
        assert!(until(LIMIT, || self.has_ended()));
        assert!(self.0.0.wait().expect("it is a child").success());
        let left: Vec<_> = fs::read_dir(self.1.join("watch")).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "left: {left:?}");
    }
}

/// Each is another process of the same program: it takes no open of the other one for that of a walker.
#[test]
fn two_watchers_of_a_disk_do_not_follow_each_other() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    let (files, folders) = (1500, 100);
    fill(&tree, files, folders);
    setup.cold();
    setup.start();
    let second = Second::start(&setup, "run2", &[]);
    setup.delays(true);
    setup.grep(&tree);
    setup.delays(false);
    let both = || [setup.status(), second.status(&setup).expect("it answers")];
    let number = |status: &Value, name: &str| status["counted"][name].as_u64().expect("a number");
    let found = || both().iter().all(|status| number(status, "files_opened") > files / 2);
    assert!(until(LIMIT, found), "{:?}", both());
    for status in both() {
        assert!(number(&status, "passed_over") > 0, "{status}");
        // One walker opened each once, and looks at the first to find out what it is.
        assert!(number(&status, "directories_opened") < 2 * folders, "{status}");
        assert_eq!(number(&status, "failed"), 0, "{status}");
    }
    second.end();
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    setup.end();
}

#[test]
fn a_watcher_that_is_killed_changes_nothing_that_a_program_reads() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    let files = 1500;
    fill(&tree, files, 100);
    let expected = setup.tar(&tree, None).printed;
    setup.cold();
    setup.start();
    let status = setup.status();
    let pid = i32::try_from(status["pid"].as_u64().expect("a number")).expect("a process");
    setup.delays(true);
    let walked = std::thread::scope(|scope| {
        let walker = scope.spawn(|| setup.tar(&tree, None).printed);
        let in_it = || setup.status()["counted"]["files_found_read"].as_u64() > Some(50);
        assert!(until(LIMIT, in_it), "{}", setup.status());
        kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("ours");
        assert!(!walker.is_finished(), "the test's own setup: it was killed after the walk");
        walker.join().expect("it ends")
    });
    setup.delays(false);
    assert_eq!(walked, expected);
    assert!(until(LIMIT, || !Path::new(&format!("/proc/{pid}")).exists()));
    // It kept no file open, and the next one begins where it stopped.
    setup.cold();
    setup.start();
    assert_eq!(setup.tar(&tree, None).printed, expected);
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    setup.end();
}

/// A disk that seeks still has requests in flight when its file system is unmounted.
#[test]
fn unmounts_find_nothing_busy_while_a_slow_disk_is_read_ahead() {
    const UNMOUNTS: usize = 6;
    let Some(setup) = Setup::new() else { return };
    let (point, files) = (setup.lab.mount_point(), 3000);
    let tree = point.join("tree");
    fill(&tree, files, 100);
    setup.cold();
    setup.start();
    let content = || setup.status()["counted"]["content_bytes"].as_u64();
    let number = DeviceNumber::from_raw(fs::metadata(&setup.device).expect("there").rdev());
    let load = DiskLoad::of(number).expect("it has counts");
    let in_flight = || load.reads_in_flight().expect("it has counts");
    let watched = || setup.status()["watched"].as_array().map(Vec::len);
    // Nobody else has it: it is not mounted anywhere, nor does the watcher keep it.
    let exclusively = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let is_free = || rustix::fs::open(&setup.device, exclusively, Mode::empty()).is_ok();
    let (mut under_way, mut longest) = (0, Duration::ZERO);
    for round in 0..UNMOUNTS {
        assert!(until(LIMIT, || watched() == Some(1)), "round {round}: {}", setup.status());
        setup.delays(true);
        let before = content();
        let mut grep = Command::new("grep");
        grep.args(["-r", "no such text"]).arg(&tree).stdout(Stdio::null());
        let walker = KilledOnDrop(grep.spawn().expect("it runs"));
        // Sometimes the first requests, mostly for inodes, and sometimes those for contents.
        let begun = || content() > before;
        assert!(round % 2 == 0 || until(LIMIT, begun), "round {round}: {}", setup.status());
        // More than `grep` reads at a time. Its end leaves what is read ahead.
        assert!(until(LIMIT, || in_flight() > 4), "round {round}: {}", setup.status());
        drop(walker);
        under_way += usize::from(in_flight() > 0);
        let begun = Instant::now();
        assert_eq!(unmount(&point, UnmountFlags::empty()), Ok(()), "round {round}: {}", setup.status());
        assert!(until(LIMIT, is_free), "round {round}: its device stays in use: {}", setup.status());
        longest = longest.max(begun.elapsed());
        setup.delays(false);
        assert!(until(LIMIT, || watched() == Some(0)), "round {round}: {}", setup.status());
        setup.mount();
    }
    println!("{under_way} of {UNMOUNTS} met requests; the device was free after {longest:?} at the latest");
    assert!(under_way > 0, "the test's own setup");
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    setup.end();
}

/// The capabilities that the unit leaves to the daemon are enough for it.
#[test]
fn a_watcher_with_the_capabilities_of_its_unit_reads_ahead() {
    if Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_err() {
        return println!("SKIPPED: setpriv is not installed");
    }
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/foreseek-watch.service");
    let unit = fs::read_to_string(unit).expect("there");
    let kept = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("a set");
    let kept: Vec<String> = kept.split(' ').map(|name| name.replace("CAP_", "+").to_lowercase()).collect();
    let bounds = format!("--bounding-set=-all,{}", kept.join(","));
    let Some(setup) = Setup::new() else { return };
    let mut with_less = Command::new("setpriv");
    with_less.args(["--no-new-privs", &bounds.replace(",+sys_ptrace", ""), env!("CARGO_BIN_EXE_foreseek")]);
    // In the foreground: one that is not refused ends with the test.
    with_less.args(["watch", "--foreground"]).arg(setup.lab.mount_point());
    with_less.env("FORESEEK_RUN", setup.lab.path("run3"));
    let refused = setup.lab.run(&mut with_less);
    assert!(refused.status == Some(2) && refused.err.contains("CAP_SYS_PTRACE"), "{refused:?}");
    let tree = setup.lab.mount_point().join("tree");
    let files = 1500;
    fill(&tree, files, 100);
    // A user's own files, which others may not read.
    let walk = "chown -R 65534 \"$1\" && chmod -R go= \"$1\"";
    setup.lab.tool("sh", &["-c", walk, "sh", tree.to_str().expect("plain")]);
    setup.cold();
    let second = Second::start(&setup, "run2", &["setpriv", "--no-new-privs", &bounds]);
    setup.delays(true);
    let line = "grep -r 'no such text' \"$1\" > /dev/null; true";
    let mut grep = Command::new("sh");
    grep.args(["-c", line, "sh"]).arg(&tree).uid(NOBODY).gid(NOBODY).current_dir("/");
    assert_eq!(setup.lab.run(&mut grep).status, Some(0));
    setup.delays(false);
    let status = || second.status(&setup).expect("it answers");
    let found = || status()["counted"]["files_found_read"].as_u64() > Some(files / 3);
    assert!(until(LIMIT, found), "{}", status());
    assert_eq!(status()["counted"]["failed"], 0, "{}", status());
    second.end();
    setup.end();
}

#[test]
fn unsuitable_paths_and_arguments_are_refused_with_the_reason() {
    let Some(setup) = Setup::new() else { return };
    let name = setup.device.file_name().expect("a device").to_str().expect("plain");
    let queue = PathBuf::from(format!("/sys/block/{name}/queue/rotational"));
    fs::write(&queue, "0").expect("set");
    for (path, reason) in [
        ("mnt", "does not seek (queue/rotational is 0)"),
        ("/proc", "made up by the kernel"),
        ("gone", "No such file"),
    ] {
        let refused = setup.watch(&[path]);
        assert_eq!(refused.status, Some(2), "{path}: {refused:?}");
        assert!(refused.err.contains(reason), "{path}: {refused:?}");
    }
    fs::write(&queue, "1").expect("set");
    // The copy lies where another user may run it.
    let copy = setup.lab.path("copy");
    setup.lab.copy_of_the_program(&copy);
    let mut other_user = Command::new(&copy);
    other_user.args(["watch", "/"]).env("FORESEEK_RUN", "/nowhere").uid(NOBODY).current_dir("/");
    let refused = setup.lab.run(&mut other_user);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    let refused = setup.watch_with(&["mnt"], &[("FORESEEK_RECORD", "gone/file")]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.err.contains("cannot record to") && refused.err.contains("/gone/file"), "{refused:?}");
    for wrong in [&["--share", "0.9", "mnt"][..], &["--memory", "1K", "mnt"], &["--all", "mnt"], &[]] {
        let refused = setup.watch(wrong);
        assert_eq!(refused.status, Some(2), "{wrong:?}: {refused:?}");
    }
    setup.end();
}

#[test]
fn a_program_that_walks_finds_its_files_in_memory() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    let files = 2500;
    let total = fill(&tree, files, 200);
    setup.cold();
    setup.delays(true);
    setup.start();
    let read = setup.grep(&tree);
    let mut status = Value::Null;
    // The last events may still be in the queue.
    until(LIMIT, || {
        status = setup.status();
        status["counted"]["files_found_read"].as_u64() > Some(files / 2)
    });
    let counted = &status["counted"];
    println!("the walker read {read} of {total} bytes itself; {counted}");
    assert!(read < total / 2, "the walker read {read} of {total} bytes itself: {status}");
    assert!(counted["files_found_read"].as_u64() > Some(files / 2), "{status}");
    assert!(counted["content_bytes"].as_u64() < Some(2 * total), "{status}");
    assert_eq!(counted["failed"], 0, "{status}");
    // Other costs are reported as well.
    assert!(status["fiemap_calls"].as_u64() > Some(files / 2), "{status}");
    assert!(status["processor_seconds"].as_f64() > Some(0.0), "{status}");
    assert!(counted["reclaimed_bytes"].as_u64() <= counted["content_bytes"].as_u64(), "{status}");
    assert!(setup.watch(&["--status"]).out.contains("FIEMAP calls"));
    assert_eq!(status["disks"][0]["walks"][0]["path"].as_str(), tree.to_str(), "{status}");
    setup.delays(false);
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    setup.end();
}

/// What the engine answered to a real program it answers in virtual time: it depends on nothing but its events.
#[test]
fn a_recorded_watcher_replays_exactly_in_the_pure_engine() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    let files = 600;
    fill(&tree, files, 50);
    setup.cold();
    setup.delays(true);
    let options = ["--profile", "barracuda-500g", "mnt"];
    let started = setup.watch_with(&options, &[("FORESEEK_RECORD", "recording")]);
    assert_eq!(started.status, Some(0), "{started:?}");
    setup.grep(&tree);
    let fetched = until(LIMIT, || setup.status()["counted"]["files_found_read"].as_u64() > Some(files / 2));
    assert!(fetched, "{}", setup.status());
    setup.delays(false);
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    let replayed = recording::replay(&setup.lab.path("recording"), "barracuda-500g");
    println!("{replayed:?}");
    assert!(replayed.events > files as usize / 2 && replayed.commands > 10 && !replayed.cut, "{replayed:?}");
    setup.end();
}

/// Most of these processes have ended before their opens are examined. Some have not, since they wait for the disk.
#[test]
fn programs_with_a_process_for_each_file_find_them_in_memory() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    let files = 1500;
    let total = fill(&tree, files, 50);
    for line in [
        "find \"$1\" -type f -exec cat {} \\; > /dev/null",
        "find \"$1\" -type f | xargs -n 1 -P 2 cat > /dev/null",
    ] {
        setup.cold();
        setup.start();
        setup.delays(true);
        let read = setup.walk(line, &tree, None).read;
        setup.delays(false);
        let mut status = Value::Null;
        // The last events may still be in the queue.
        until(LIMIT, || {
            status = setup.status();
            status["counted"]["files_found_read"].as_u64() > Some(files / 2)
        });
        assert_eq!(setup.watch(&["--stop"]).status, Some(0));
        println!("{line}: {read} of {total} bytes itself; {}", status["counted"]);
        assert!(read < total / 2, "{line}: {read} of {total} bytes itself: {status}");
        assert_eq!(status["counted"]["denied"], 0, "{line}: {status}");
    }
    setup.end();
}

/// Directories of twelve files are kept in their inodes, those of fifty in blocks of their own.
#[test]
fn a_walk_over_xfs_finds_its_files_in_memory() {
    let Some(setup) = Setup::of("xfs", &["-q", "-f"]) else { return };
    let [fresh, aged] = ["fresh", "aged"].map(|name| setup.lab.mount_point().join(name));
    let files = 2500;
    let totals = [fill(&fresh, files, 200), fill_aged(&aged, files, 50, 4)];
    let mut measured = Vec::new();
    for (tree, total) in [fresh, aged].iter().zip(totals) {
        let expected = setup.tar(tree, None).printed;
        setup.cold();
        setup.start();
        setup.delays(true);
        let walked = setup.tar(tree, None);
        setup.delays(false);
        let mut status = Value::Null;
        // The last events may still be in the queue.
        until(LIMIT, || {
            let before = std::mem::replace(&mut status, setup.status());
            let found = status["counted"]["files_found_read"].as_u64();
            before["counted"] == status["counted"] && found > Some(files / 2)
        });
        assert_eq!(setup.watch(&["--stop"]).status, Some(0));
        assert_eq!(walked.printed, expected, "{}", tree.display());
        assert_eq!(status["counted"]["failed"], 0, "{status}");
        println!("{}: the walker read {} of {total} bytes itself; {status}", tree.display(), walked.read);
        measured.push((walked.read, total, status));
    }
    for (read, total, status) in measured {
        let counted = &status["counted"];
        assert!(read < total / 2, "the walker read {read} of {total} bytes itself: {status}");
        assert!(counted["files_found_read"].as_u64() > Some(files / 2), "{status}");
        // Inodes are brought as well: 2,500 of 512 bytes, in clusters of 16 KiB.
        let metadata = counted["metadata_bytes"].as_u64().expect("a number");
        assert!((128 << 10..files * 2048).contains(&metadata), "{status}");
    }
    setup.end();
}
