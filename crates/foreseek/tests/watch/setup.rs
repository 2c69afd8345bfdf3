//! An emulated disk with a file system on it, and a watcher as users run it.

use super::lab::{Ended, Lab};
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An emulated disk with a file system on it; a watcher may run for it.
pub(crate) struct Setup {
    pub(crate) lab: Lab,
    pub(crate) device: PathBuf,
}

/// The output and the reads of a program that walked a tree.
#[derive(Debug)]
pub(crate) struct Walked {
    /// The first line that it printed.
    pub(crate) printed: String,
    /// The bytes that it read from the disk itself.
    pub(crate) read: u64,
}

impl Setup {
    pub(crate) fn new() -> Option<Self> {
        Self::of("ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
    }

    /// With a file system of this kind; `None`, with a message, if it cannot be made.
    pub(crate) fn of(kind: &str, options: &[&str]) -> Option<Self> {
        let lab = Lab::new()?;
        let mkfs = format!("mkfs.{kind}");
        if Command::new(&mkfs).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            println!("SKIPPED: {mkfs} is not installed");
            return None;
        }
        fs::set_permissions(&lab.directory, Permissions::from_mode(0o755)).expect("ours");
        let device =
            lab.attach(&["--profile", "barracuda-500g", "--size", "8G", "--name", "watch", "--no-delays"]);
        let setup = Self { lab, device };
        let node = setup.node().to_owned();
        setup.lab.tool(&mkfs, &[options, &[&node]].concat());
        let point = setup.lab.mount_point();
        let mut mount = Command::new("mount");
        mount.args(["-o", "noatime", &node]).arg(&point);
        let mounted = setup.lab.run(&mut mount);
        if mounted.status != Some(0) {
            println!("SKIPPED: {kind} cannot be mounted: {}", mounted.err.trim());
            setup.lab.must(&["detach", "watch"]);
            return None;
        }
        Some(setup)
    }

    pub(crate) fn node(&self) -> &str {
        self.device.to_str().expect("plain")
    }

    pub(crate) fn mount(&self) {
        let point = self.lab.mount_point();
        self.lab.tool("mount", &["-o", "noatime", self.node(), point.to_str().expect("plain")]);
    }

    pub(crate) fn unmount(&self) {
        self.lab.unmount(&self.lab.mount_point());
    }

    /// Mounts the file system again: nothing of it is in memory afterwards.
    pub(crate) fn cold(&self) {
        self.unmount();
        self.lab.tool("blockdev", &["--flushbufs", self.node()]);
        self.mount();
        self.lab.must(&["stats", "watch", "--reset"]);
    }

    pub(crate) fn watch(&self, arguments: &[&str]) -> Ended {
        self.watch_with(arguments, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn watch_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.arg("watch").args(arguments).env("FORESEEK_RUN", self.lab.path("run"));
        command.envs(environment.iter().copied());
        self.lab.run(command.current_dir(&self.lab.directory))
    }

    pub(crate) fn start(&self) {
        let started = self.watch(&["mnt"]);
        assert_eq!(started.status, Some(0), "{started:?}");
    }

    pub(crate) fn status(&self) -> Value {
        let shown = self.watch(&["--status", "--format", "json"]);
        assert_eq!(shown.status, Some(0), "{shown:?}");
        shown.json()
    }

    /// Runs `grep -r`; returns the bytes that it reads from the disk itself.
    pub(crate) fn grep(&self, tree: &Path) -> u64 {
        self.walk("grep -r 'no such text' \"$1\" > /dev/null", tree, None).read
    }

    /// Packs a tree with `tar`, in a control group if its `cgroup.procs` is given.
    pub(crate) fn tar(&self, tree: &Path, group: Option<&Path>) -> Walked {
        self.walk("tar cf - -C \"$1\" . | cksum", tree, group)
    }

    /// Runs a line of shell with the tree as `$1`.
    pub(crate) fn walk(&self, line: &str, tree: &Path, group: Option<&Path>) -> Walked {
        // The shell's own I/O account includes that of its ended children.
        let script = format!("[ -z \"$2\" ] || echo $$ > \"$2\"; {line}; cat /proc/$$/io");
        let mut walk = Command::new("sh");
        walk.args(["-c", &script, "sh"]).arg(tree).arg(group.unwrap_or(Path::new("")));
        let walked = self.lab.run(&mut walk);
        let read = walked.out.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<u64>().ok());
        let printed = walked.out.lines().next().unwrap_or_default().to_owned();
        Walked { printed, read: read.expect("an account") }
    }

    pub(crate) fn delays(&self, on: bool) {
        self.lab.must(&["set", "watch", "--delays", if on { "on" } else { "off" }]);
    }

    pub(crate) fn end(self) {
        self.unmount();
        self.lab.must(&["detach", "watch"]);
        self.lab.assert_clean();
        let left: Vec<_> = fs::read_dir(self.lab.path("run/watch")).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "left: {left:?}");
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        if self.lab.path("run/watch/watch").exists() {
            // The watcher still runs if a test failed before its end.
            self.watch(&["--stop"]);
        }
    }
}

/// Makes small files in directories, in an order that is not that of their names; returns the sum of their
/// lengths in bytes.
pub(crate) fn fill(tree: &Path, files: u64, folders: u64) -> u64 {
    for folder in 0..folders {
        fs::create_dir_all(tree.join(format!("d{folder}"))).expect("made");
    }
    let mut total = 0;
    for n in (0..files).map(|n| n * 7919 % files) {
        let length = 3000 + n * 977 % 20_000;
        total += length;
        let path = tree.join(format!("d{}", n * 31 % folders)).join(format!("f{n}"));
        fs::write(path, vec![b'a' + (n % 26) as u8; length as usize]).expect("written");
    }
    total
}

/// A small generator, so that each tree is the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Small files in folders, created in random order; then in each generation a third is removed and created anew, in
/// another order and with other lengths. All that they hold, in bytes.
pub(crate) fn fill_aged(tree: &Path, files: u64, folders: u64, generations: u64) -> u64 {
    let mut random = Random(14);
    for folder in 0..folders {
        fs::create_dir_all(tree.join(format!("d{folder}"))).expect("made");
    }
    let root = File::open(tree).expect("there");
    let path = |n: u64| tree.join(format!("d{}", n * 31 % folders)).join(format!("f{n}"));
    let write = |n: u64, random: &mut Random| {
        let bytes = vec![b'a' + (n % 26) as u8; 3000 + random.below(20_000) as usize];
        File::create(path(n)).and_then(|mut file| file.write_all(&bytes)).expect("written");
    };
    let mut all: Vec<u64> = (0..files).collect();
    random.shuffle(&mut all);
    all.iter().for_each(|n| write(*n, &mut random));
    for _ in 0..generations {
        rustix::fs::syncfs(&root).expect("written back");
        random.shuffle(&mut all);
        let third = &all[..all.len() / 3];
        third.iter().for_each(|n| fs::remove_file(path(*n)).expect("there"));
        rustix::fs::syncfs(&root).expect("written back");
        third.iter().rev().for_each(|n| write(*n, &mut random));
    }
    rustix::fs::syncfs(&root).expect("written back");
    all.iter().map(|n| fs::metadata(path(*n)).expect("there").len()).sum()
}
