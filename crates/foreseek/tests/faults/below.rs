//! A mount over an ext4 on an emulated disk, whose sectors and delays a test can change.

use crate::lab::{LIMIT, Lab, until};
use foreseek_rig::extents_of;
use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the disk in its lab.
const DISK: &str = "below";
/// The page size of the kernel and of this ext4.
pub(crate) const PAGE: usize = 4096;

/// The disk, its ext4 with the directories `source` and `plain`, and the mount of `source`. All of it is
/// removed when dropped, in any state.
pub(crate) struct Below {
    pub(crate) source: PathBuf,
    pub(crate) plain: PathBuf,
    pub(crate) point: PathBuf,
    device: PathBuf,
    disk_server: Pid,
    pub(crate) lab: Lab,
}

impl Below {
    /// `None`, with a message, if it is not possible. The disk answers without delay at first.
    pub(crate) fn new(policy: &str, size: &str, profile: &str) -> Option<Self> {
        let lab = Lab::new()?;
        let options = ["--profile", profile, "--size", size, "--fit", "--name", DISK, "--no-delays"];
        let device = lab.attach(&options);
        // No blocks are reserved for root: this test and the server are root.
        let now = "lazy_itable_init=0,lazy_journal_init=0";
        lab.tool("mkfs.ext4", &["-q", "-m", "0", "-E", now, device.to_str().expect("plain")]);
        mount_disk(&lab, &device);
        let [source, plain] = ["source", "plain"].map(|name| lab.mount_point().join(name));
        let point = lab.path("view");
        for path in [&source, &plain, &point] {
            fs::create_dir(path).expect("made");
        }
        let disk_server = lab.list()[0]["pid"].as_i64().and_then(|pid| Pid::from_raw(pid as i32));
        let disk_server = disk_server.expect("a server");
        let below = Self { source, plain, point, device, disk_server, lab };
        below.mount(policy, &mut below.command());
        Some(below)
    }

    /// Mounts both again: nothing of the disk is in memory then.
    pub(crate) fn cool(&self, policy: &str) {
        self.evict();
        self.mount(policy, &mut self.command());
    }

    /// The same with a profile of the disk; what the engines decide is recorded.
    pub(crate) fn cool_recorded(&self, policy: &str, profile: &str, record: &Path) {
        self.evict();
        self.mount(policy, self.command().args(["--profile", profile]).env("FORESEEK_RECORD", record));
    }

    fn evict(&self) {
        self.unmount();
        self.lab.unmount(&self.lab.mount_point());
        self.lab.tool("blockdev", &["--flushbufs", self.device.to_str().expect("plain")]);
        mount_disk(&self.lab, &self.device);
    }

    /// Unmounts the view. Its server has ended then.
    pub(crate) fn unmount(&self) {
        let ended = self.lab.run(self.command().arg("--unmount").arg(&self.point));
        assert_eq!(ended.status, Some(0), "{ended:?}");
    }

    fn mount(&self, policy: &str, command: &mut Command) {
        let [source, point] = [&self.source, &self.point].map(|path| path.to_str().expect("plain"));
        // The kernel aborts a hanging mount, so that a failing test ends.
        let options = ["--policy", policy, "--memory", "32M", "--request-timeout", "120"];
        let ended = self.lab.run(command.args(options).args([source, point]));
        assert_eq!(ended.status, Some(0), "{ended:?}");
    }

    /// `foreseek mount`.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.arg("mount").env("FORESEEK_RUN", self.lab.path("run")).env("FORESEEK_STATE", "");
        command
    }

    /// Writes a file into the source; it is not in memory then.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.source.join(name);
        fs::write(&path, bytes).expect("room");
        File::open(&path).and_then(|file| file.sync_all()).expect("written");
        forget(&path);
    }

    /// Changes the disk.
    pub(crate) fn set(&self, options: &[&str]) {
        self.lab.must(&[&["set", DISK], options].concat());
    }

    /// Makes the sector with a byte of a file of the source unreadable.
    pub(crate) fn spoil(&self, path: &Path, at: usize) {
        self.spoil_all(&[(path.to_owned(), at)]);
    }

    /// The same for several bytes, and for no others.
    pub(crate) fn spoil_all(&self, bytes: &[(PathBuf, usize)]) {
        let sectors = |bytes: usize| (bytes / 512) as u64;
        let sector = |(path, at): &(PathBuf, usize)| {
            let extents = extents_of(path).expect("ext4 reports them");
            let holding = extents.iter().find_map(|extent| {
                let start = extent.page.get() as usize * PAGE;
                let there = (start..start + extent.pages.get() as usize * PAGE).contains(at);
                there.then(|| extent.lba.get() + sectors(at - start))
            });
            holding.expect("it has a sector")
        };
        let ranges: Vec<String> =
            bytes.iter().map(sector).map(|sector| format!("{sector}..{}", sector + 1)).collect();
        if ranges.is_empty() {
            return self.set(&["--fail-none"]);
        }
        self.set(&ranges.iter().flat_map(|range| ["--fail-lba", range]).collect::<Vec<_>>());
    }

    /// Makes the block with the inode of a file of the source unreadable.
    pub(crate) fn spoil_inode(&self, path: &Path) {
        let inode = fs::metadata(path).expect("it is there").ino();
        let block = self.lab.block_of_inode(&self.device, inode);
        let sectors = rustix::fs::statvfs(path).expect("reported").f_bsize / 512;
        self.set(&["--fail-lba", &format!("{}..{}", block * sectors, (block + 1) * sectors)]);
    }

    /// Requests that failed on the disk so far.
    pub(crate) fn failed_requests(&self) -> u64 {
        self.lab.stats(DISK)["failed"].as_u64().expect("a number")
    }

    /// The mount's status of its reads.
    pub(crate) fn reads(&self) -> Value {
        self.status()["reads"].clone()
    }

    /// The mount's status.
    pub(crate) fn status(&self) -> Value {
        let point = self.point.to_str().expect("plain");
        let ended = self.lab.run(self.command().args(["--status", point, "--format", "json"]));
        assert_eq!(ended.status, Some(0), "{ended:?}");
        serde_json::from_str(&ended.out).expect("JSON")
    }

    /// The mount's server.
    fn server(&self) -> u64 {
        let ended = self.lab.run(self.command().args(["--list", "--format", "json"]));
        let list: Value = serde_json::from_str(&ended.out).expect("JSON");
        list[0]["pid"].as_u64().expect("a server")
    }

    /// Sends the mount's server signals; returns whether it has ended in time. The second one follows once the first has
    /// taken the mount out of the tree: signals that wait together are one.
    pub(crate) fn ends_on(&self, signals: &[Signal]) -> bool {
        let server = self.server();
        let pid = Pid::from_raw(server as i32).expect("a process");
        let is_mounted = || {
            let mounts = fs::read_to_string("/proc/self/mountinfo").expect("text");
            mounts.lines().any(|mount| mount.split(' ').nth(4) == self.point.to_str())
        };
        for signal in signals {
            kill_process(pid, *signal).expect("sent");
            assert!(until(LIMIT, || !is_mounted()), "it is not unmounted");
        }
        until(LIMIT, || !Path::new(&format!("/proc/{server}")).exists())
    }

    /// Kills the disk's server, and takes the disk away from its users.
    pub(crate) fn kill_disk(&self) {
        self.signal_disk(Signal::KILL).expect("sent");
    }

    /// Sends the disk's server a signal.
    pub(crate) fn signal_disk(&self, signal: Signal) -> rustix::io::Result<()> {
        kill_process(self.disk_server, signal)
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        let mut unmount = self.command();
        unmount.arg("--unmount").arg(&self.point).stdout(std::process::Stdio::null());
        if let Ok(mut child) = unmount.stderr(std::process::Stdio::null()).spawn()
            && crate::lab::wait(&mut child, LIMIT).is_none()
        {
            let _ = child.kill();
        }
    }
}

fn mount_disk(lab: &Lab, device: &Path) {
    let [device, point] = [device, &lab.mount_point()].map(|path| path.to_str().expect("plain").to_owned());
    lab.tool("mount", &["-o", "noatime", &device, &point]);
}

/// Bytes that depend on their offset; another file's differ.
pub(crate) fn contents(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32).map(|at| ((at ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Drops a file from the page cache.
pub(crate) fn forget(path: &Path) {
    let file = File::open(path).expect("it is there");
    fadvise(&file, 0, None, Advice::DontNeed).expect("forgotten");
}

/// Reads at an offset: the bytes, or the error's number.
pub(crate) fn read(file: &File, at: usize, length: usize) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; length];
    let read = file.read_at(&mut bytes, at as u64).map_err(|error| number(&error))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The number of an error.
pub(crate) fn number(error: &io::Error) -> i32 {
    error.raw_os_error().expect("the system's")
}
