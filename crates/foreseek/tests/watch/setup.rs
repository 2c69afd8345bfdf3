//! An emulated disk with an ext4 on it, and a watcher as users run it.

use super::lab::{Ended, Lab};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An emulated disk with an ext4 on it, and whatever watches it.
pub(crate) struct Setup {
    pub(crate) lab: Lab,
    pub(crate) device: PathBuf,
}

impl Setup {
    pub(crate) fn new() -> Option<Self> {
        let lab = Lab::new()?;
        fs::set_permissions(&lab.directory, Permissions::from_mode(0o755)).expect("ours");
        let device =
            lab.attach(&["--profile", "barracuda-500g", "--size", "8G", "--name", "watch", "--no-delays"]);
        let setup = Self { lab, device };
        let node = setup.node().to_owned();
        let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &node];
        setup.lab.tool("mkfs.ext4", &options);
        setup.mount();
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

    /// Nothing of the file system is in memory afterwards.
    pub(crate) fn cold(&self) {
        self.unmount();
        self.lab.tool("blockdev", &["--flushbufs", self.node()]);
        self.mount();
        self.lab.must(&["stats", "watch", "--reset"]);
    }

    pub(crate) fn watch(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.arg("watch").args(arguments).env("FORESEEK_RUN", self.lab.path("run"));
        self.lab.run(command.current_dir(&self.lab.directory))
    }

    pub(crate) fn start(&self) {
        let started = self.watch(&["mnt"]);
        assert_eq!(started.status, Some(0), "{started:?}");
    }

    pub(crate) fn status(&self) -> Value {
        let told = self.watch(&["--status", "--format", "json"]);
        assert_eq!(told.status, Some(0), "{told:?}");
        serde_json::from_str(&told.out).expect("JSON")
    }

    /// What `grep -r` reads of the disk itself, in bytes.
    pub(crate) fn grep(&self, tree: &Path) -> u64 {
        // What the shell's account has of itself is that of its children.
        let script = "grep -r 'no such text' \"$1\" > /dev/null; cat /proc/$$/io";
        let walked = self.lab.run(Command::new("sh").args(["-c", script, "sh"]).arg(tree));
        let read = walked.out.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<u64>().ok());
        read.expect("an account")
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
            // Where a test failed halfway.
            self.watch(&["--stop"]);
        }
    }
}

/// Small files in folders, created in an order that is not theirs; all that they hold, in bytes.
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
