//! System tests of `foreseek watch` and `foreseek warm` where a control group leaves little memory: what is read is
//! right, little is read twice, and all of it ends.
//!
//! They need root, FUSE, loop devices and a memory controller, and skip loudly without them.
#![allow(clippy::print_stdout, reason = "tests that are skipped say so")]

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "disk/lab.rs"]
mod lab;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "watch/setup.rs"]
mod setup;

use foreseek_rig::{CgroupParent, MemoryGroup, command_in};
use foreseek_units::Bytes;
use lab::{KilledOnDrop, LIMIT, until};
use serde_json::Value;
use setup::Setup;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the group holds: programs, the daemon and the pages that they read.
const LITTLE: Bytes = Bytes::mib(48);
/// Files of the tree, which is twice as large as the group.
const FILES: u64 = 1500;

/// A group of little memory, and one below it by the name of the daemon's unit: a daemon that starts there stays there, as under
/// systemd.
struct Little {
    group: MemoryGroup,
    unit: PathBuf,
}

impl Little {
    /// `None`, with a message, if it cannot be made.
    fn new(name: &str) -> Option<Self> {
        Self::of(name, LITTLE)
    }

    /// The same with so much memory.
    fn of(name: &str, memory: Bytes) -> Option<Self> {
        let made = CgroupParent::find().and_then(|parent| MemoryGroup::create(&parent, name, memory));
        let group = match made {
            Ok(group) => group,
            Err(error) => {
                println!("SKIPPED: {error}");
                return None;
            }
        };
        let unit = group.path().join("foreseek-watch");
        fs::create_dir(&unit).expect("made");
        Some(Self { group, unit })
    }

    fn procs(&self) -> PathBuf {
        self.group.path().join("cgroup.procs")
    }

    /// Foreseek in a group.
    fn foreseek(setup: &Setup, group: &Path) -> Command {
        let mut command = command_in(group, Path::new(env!("CARGO_BIN_EXE_foreseek")));
        command.env("FORESEEK_RUN", setup.lab.path("run")).current_dir(&setup.lab.directory);
        command
    }

    /// The kernel ended none of its processes.
    fn assert_alive(&self) {
        let usage = self.group.usage();
        assert_eq!(usage.kills, 0, "{usage:?}");
    }
}

impl Drop for Little {
    fn drop(&mut self) {
        // Its processes may be ending.
        until(LIMIT, || fs::remove_dir(&self.unit).is_ok() || !self.unit.exists());
    }
}

/// Files of some 40 to 120 KB, created in an order that is not theirs; all that they hold, in bytes.
fn fill(tree: &Path) -> u64 {
    let mut total = 0;
    for n in (0..FILES).map(|n| n * 7919 % FILES) {
        let folder = tree.join(format!("d{}", n * 31 % 75));
        fs::create_dir_all(&folder).expect("made");
        let length = 40_000 + n * 977 % 80_000;
        total += length;
        fs::write(folder.join(format!("f{n}")), vec![b'a' + (n % 26) as u8; length as usize])
            .expect("written");
    }
    total
}

#[test]
fn a_walker_and_a_watcher_with_little_memory_read_all_and_little_twice() {
    let Some(little) = Little::new("little") else { return };
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    let total = fill(&tree);
    let expected = setup.tar(&tree, None).printed;
    // The walker alone has little memory; then both of them share it.
    for shared in [false, true] {
        setup.cold();
        if shared {
            let started = setup.lab.run(Little::foreseek(&setup, &little.unit).args(["watch", "mnt"]));
            assert_eq!(started.status, Some(0), "{started:?}");
        } else {
            setup.start();
        }
        let begun = setup.status();
        setup.lab.must(&["stats", "watch", "--reset"]);
        setup.delays(true);
        let walked = setup.tar(&tree, Some(&little.procs()));
        setup.delays(false);
        let found = || setup.status()["counted"]["files_found_read"].as_u64() > Some(FILES / 4);
        assert!(until(LIMIT, found), "{}", setup.status());
        let (status, stats) = (setup.status(), setup.lab.stats("watch"));
        let counted = &status["counted"];
        let device = stats["read_bytes"].as_u64().expect("a number");
        let window = status["window_bytes"].as_u64().expect("a number");
        println!(
            "shared {shared}: the disk read {device} bytes for {total}, the walker {} of them; window {window}; {counted}; {:?}",
            walked.read,
            little.group.usage()
        );
        assert_eq!(walked.printed, expected, "shared {shared}");
        assert_eq!(status["pid"], begun["pid"], "the daemon lives");
        assert_eq!(counted["failed"], 0, "{status}");
        little.assert_alive();
        // Inodes and directories besides; an eighth may have been pushed out before it was used.
        let metadata = counted["metadata_bytes"].as_u64().expect("a number") + (8 << 20);
        assert!(device < total + total / 8 + metadata, "the disk read {device} bytes for {total}: {status}");
        if shared {
            assert!(window <= LITTLE.get() / 2, "{status}");
            assert!(little.group.usage().limit_hits > 0, "the test's own setup: the group was never full");
        }
        assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    }
    setup.end();
    drop(little);
}

/// A process that takes memory of a group until it is dropped.
fn balloon_in(group: &Path, memory: Bytes) -> KilledOnDrop {
    let take =
        format!("import sys; taken = b'x' * {}; print('ok', flush=True); sys.stdin.read()", memory.get());
    let mut command = command_in(group, Path::new("python3"));
    command.args(["-S", "-c", &take]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut balloon = KilledOnDrop(command.spawn().expect("it starts"));
    let mut answer = String::new();
    let out = balloon.0.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut answer).expect("it answers");
    assert_eq!(answer, "ok\n");
    balloon
}

#[test]
fn a_watcher_reads_less_ahead_while_others_need_the_memory() {
    let Some(little) = Little::of("pressure", Bytes::mib(512)) else { return };
    if Command::new("python3").arg("-V").stdout(Stdio::null()).status().is_err() {
        return println!("SKIPPED: python3 is not installed");
    }
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    fill(&tree);
    let expected = setup.tar(&tree, None).printed;
    setup.cold();
    let started = setup.lab.run(Little::foreseek(&setup, &little.unit).args(["watch", "mnt"]));
    assert_eq!(started.status, Some(0), "{started:?}");
    let begun = setup.status();
    let window = || setup.status()["window_bytes"].as_u64().expect("a number");
    let first = window();
    let balloon = balloon_in(little.group.path(), Bytes::mib(300));
    assert!(until(LIMIT, || window() < first / 4 * 3), "{first}, {}", setup.status());
    setup.delays(true);
    let walked = setup.tar(&tree, Some(&little.procs()));
    setup.delays(false);
    assert_eq!(walked.printed, expected);
    drop(balloon);
    assert!(until(LIMIT, || window() > first / 4 * 3), "{first}, {}", setup.status());
    assert_eq!(setup.status()["pid"], begun["pid"], "the daemon lives");
    little.assert_alive();
    assert_eq!(setup.watch(&["--stop"]).status, Some(0));
    setup.end();
    drop(little);
}

#[test]
fn a_command_after_warm_with_little_memory_reads_all_and_little_twice() {
    let Some(little) = Little::new("little-warm") else { return };
    let Some(setup) = Setup::new() else { return };
    let tree = setup.lab.mount_point().join("tree");
    let total = fill(&tree);
    let expected = setup.tar(&tree, None).printed;
    setup.cold();
    setup.delays(true);
    let mut warm = Little::foreseek(&setup, little.group.path());
    warm.arg("warm").arg(&tree).args(["--format", "json", "--then", "--"]);
    warm.args(["sh", "-c", "tar cf - -C \"$1\" . | cksum", "sh"]).arg(&tree);
    let warmed = setup.lab.run(&mut warm);
    setup.delays(false);
    assert_eq!(warmed.status, Some(0), "{warmed:?}");
    assert_eq!(warmed.out.lines().next(), Some(expected.as_str()), "{warmed:?}");
    let report = warmed.err.lines().find(|line| line.starts_with('{')).expect("a report");
    let report: Value = serde_json::from_str(report).expect("JSON");
    let device = setup.lab.stats("watch")["read_bytes"].as_u64().expect("a number");
    println!("the disk read {device} bytes for {total}; {report}; {:?}", little.group.usage());
    little.assert_alive();
    assert!(little.group.usage().limit_hits > 0, "the test's own setup: the group was never full");
    assert!(report["window_bytes"].as_u64() <= Some(LITTLE.get() / 2), "{report}");
    assert!(report["batches"].as_u64() > Some(4), "{report}");
    assert!(report["used_files"].as_u64() > Some(FILES / 2), "{report}");
    assert!(report["fetched_bytes"].as_u64() > Some(total / 4), "{report}");
    assert!(device < total + total / 8 + (8 << 20), "the disk read {device} bytes for {total}: {report}");
    setup.end();
    drop(little);
}
