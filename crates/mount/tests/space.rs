//! Limits of space: blocks that ext4 reserves for root, and quotas. A user that writes through the mount gets
//! no more than one that writes outside, whatever rights the server has; root gets the same as root.
//!
//! A process of the user runs each part, in the mount and in a plain directory beside its source; the results
//! must be the same. Quotas need a kernel with their format (`CONFIG_QFMT_V2`); without it they are skipped
//! with a message.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot run says so; a child reports"
)]
#![allow(unsafe_code, reason = "quotactl, mappings")]

mod common;

use common::{LIMIT, TestMount, mounted_with, set_mode, wait_for};
use foreseek_mount::{Policy, client};
use foreseek_rig::{Interrupt, Program};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The part that a child runs, and its directory.
const PART: &str = "FORESEEK_TEST_PART";
const DIRECTORY: &str = "FORESEEK_TEST_DIRECTORY";
/// The size of the file system; a quarter of it is reserved for root.
const SIZE: u64 = 64 << 20;
/// A user's quota, where there are quotas.
const QUOTA: u64 = 4 << 20;
const FILES: u64 = 20;
/// More than any test has.
const FAR_TOO_MUCH: u64 = 2 * SIZE;
const STEP: usize = 64 << 10;
/// The space of directories that were larger for a while.
const DIRECTORIES: u64 = 256 << 10;
const PAGE: usize = 4096;

/// A loop-mounted ext4, with the directories `source` and `plain`; it is removed when dropped, after the
/// mount.
struct Disk {
    point: PathBuf,
    device: String,
    /// Free bytes while there are no files.
    empty: u64,
}

impl Disk {
    /// `Err` has the reason why there is none.
    fn new(point: &Path, features: &[&str], options: &str) -> Result<Self, String> {
        let make = Program::find("mkfs.ext4", "e2fsprogs").map_err(|error| error.to_string())?;
        let image = point.with_extension("image");
        File::create(&image).and_then(|file| file.set_len(SIZE)).expect("a sparse file");
        let now = "lazy_itable_init=0,lazy_journal_init=0";
        let fixed = ["-q", "-F", "-m", "25", "-E", now];
        let arguments = [&fixed, features, &[image.to_str().expect("plain")]].concat();
        make.run("making a file system", &arguments, LIMIT, &Interrupt::default()).expect("made");
        let output =
            Command::new("mount").args(["-o", options]).args([&image, point]).output().expect("mount");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let point = point.to_owned();
        let mut disk = Self { point, device: String::new(), empty: 0 };
        let mounts = fs::read_to_string("/proc/self/mounts").expect("Linux has it");
        let of = |line: &str| line.split(' ').nth(1) == disk.point.to_str();
        let line = mounts.lines().rfind(|line| of(line)).expect("it is mounted");
        disk.device = line.split(' ').next().expect("a device").to_owned();
        for name in ["source", "plain"] {
            let path = disk.point.join(name);
            fs::create_dir(&path).expect("made");
            set_mode(&path, 0o777);
        }
        disk.flush();
        disk.empty = disk.free();
        Ok(disk)
    }

    fn free(&self) -> u64 {
        let reported = statvfs(&self.point).expect("mounted");
        reported.f_bfree * reported.f_frsize
    }

    fn clean(&self) {
        for name in ["source", "plain"] {
            for entry in fs::read_dir(self.point.join(name)).expect("there").flatten() {
                let path = entry.path();
                if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) }.expect("gone");
            }
        }
        // A server closes a file some time after its program has; until then its space is in use.
        wait_for("the space of the files that were removed", || {
            self.flush();
            self.free() + DIRECTORIES >= self.empty
        });
    }

    fn flush(&self) {
        rustix::fs::syncfs(File::open(&self.point).expect("opened")).expect("flushed");
    }

    /// Limits a user, in bytes and files.
    fn limit(&self, user: u32) {
        // SAFETY: the structure is plain numbers.
        let mut quota: libc::dqblk = unsafe { std::mem::zeroed() };
        (quota.dqb_bhardlimit, quota.dqb_ihardlimit, quota.dqb_valid) = (QUOTA / 1024, FILES, 1 | 4);
        self.quota(libc::Q_SETQUOTA, user, &mut quota).expect("a quota");
    }

    /// Bytes that a user occupies.
    fn used(&self, user: u32) -> u64 {
        // SAFETY: as above.
        let mut quota: libc::dqblk = unsafe { std::mem::zeroed() };
        self.quota(libc::Q_GETQUOTA, user, &mut quota).expect("read");
        quota.dqb_curspace
    }

    fn quota(&self, what: libc::c_int, user: u32, quota: &mut libc::dqblk) -> io::Result<()> {
        let device = CString::new(self.device.as_str()).expect("a name");
        let command = libc::QCMD(what, libc::USRQUOTA);
        // SAFETY: the name and the structure live until the call returns.
        let done = unsafe {
            libc::quotactl(command, device.as_ptr(), user.cast_signed(), std::ptr::from_mut(quota).cast())
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.point).stderr(Stdio::null()).status();
    }
}

/// The mount is removed before the disk below it.
struct Space {
    mount: TestMount,
    disk: Disk,
}

/// `None`, with a message, if it is not possible.
fn space(policy: Policy, features: &[&str], options: &str) -> Option<Space> {
    let mut disk = None;
    let mount = mounted_with(policy, |mount| {
        disk = Some(Disk::new(&mount.source, features, options));
        if let Some(Ok(_)) = disk {
            mount.source = mount.source.join("source");
        }
    })?;
    match disk? {
        Ok(disk) => Some(Space { mount, disk }),
        Err(why) => {
            println!("SKIPPED: no such ext4 here: {why}");
            None
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // Before the directory of both is removed.
        if let Err(error) = client::unmount(&self.mount.point) {
            println!("unmount: {error}");
        }
        let _ = Command::new("umount").arg("-l").arg(&self.disk.point).status();
    }
}

impl Space {
    fn plain(&self) -> PathBuf {
        self.disk.point.join("plain")
    }
}

/// Runs a part as a user; returns the results of its calls.
fn as_user(part: &str, directory: &Path, user: u32) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["child", "--exact", "--nocapture"]).env(PART, part).env(DIRECTORY, directory);
    command.uid(user).gid(user).stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.output().expect("a child");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{part}: {text}");
    text.lines().map(str::to_owned).collect()
}

/// Runs the part that the environment names; otherwise no test.
#[test]
fn child() {
    let (Ok(part), Some(directory)) = (std::env::var(PART), std::env::var_os(DIRECTORY)) else { return };
    let directory = Path::new(&directory);
    match part.as_str() {
        "fill" => fill(directory),
        "map" => map(directory),
        "others" => others(directory),
        "files" => files(directory),
        _ => panic!("no such part: {part}"),
    }
}

fn report(what: &str, result: io::Result<()>) {
    eprintln!("{what}: {:?}", result.map_err(|error| error.raw_os_error().expect("the system's")));
}

/// Fills all the space, in one way after another.
fn fill(directory: &Path) {
    let open = |name: &str| {
        let path = directory.join(name);
        File::options().read(true).write(true).create(true).truncate(true).open(path).expect("made")
    };
    let file = open("filled");
    let allocated = fallocate(&file, FallocateFlags::empty(), 0, FAR_TOO_MUCH);
    report("allocate too much", allocated.map_err(Into::into));
    file.set_len(0).expect("emptied");
    let (from, step) = (open("from"), vec![7; STEP]);
    from.write_all_at(&step, 0).expect("there is room yet");
    let mut at = 0;
    let full = loop {
        match file.write_at(&step, at) {
            Ok(written) if at + (written as u64) < FAR_TOO_MUCH => at += written as u64,
            Ok(_) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    report("write", full);
    report("write again", file.write_at(&step, at + 1).map(drop));
    report("fsync", file.sync_all());
    let other = File::options().write(true).create(true).truncate(false).open(directory.join("other"));
    // There may be no room for a name; here the directory's own block has room.
    let other = other.expect("a name");
    report("write to another", other.write_at(&step, 0).map(drop));
    let copied = rustix::fs::copy_file_range(&from, Some(&mut 0), &other, Some(&mut 0), STEP);
    report("copy", copied.map(drop).map_err(Into::into));
}

/// Stores into a hole until a flush reports that there is no room.
fn map(directory: &Path) {
    let path = directory.join("mapped");
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("made");
    file.set_len(FAR_TOO_MUCH).expect("a hole");
    let mut flushed = Ok(());
    for at in (0..FAR_TOO_MUCH).step_by(1 << 20) {
        // SAFETY: a new mapping within the file, which no process shortens; it is unmapped at the end.
        flushed = unsafe {
            let (length, protection) = (1 << 20, ProtFlags::READ | ProtFlags::WRITE);
            let mapped = mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &file, at);
            let mapped = mapped.expect("mapped");
            for page in (0..length).step_by(PAGE) {
                mapped.cast::<u8>().add(page).write_volatile(1);
            }
            let flushed = msync(mapped, length, MsyncFlags::SYNC);
            munmap(mapped, length).expect("unmapped");
            flushed
        };
        if flushed.is_err() {
            break;
        }
    }
    report("msync", flushed.map_err(Into::into));
}

/// Writes into a file of root's, to whichever quota it counts.
fn others(directory: &Path) {
    let file = File::options().write(true).open(directory.join("of root")).expect("opened");
    let written = (0..2 * QUOTA).step_by(STEP).try_for_each(|at| file.write_all_at(&[9; STEP], at));
    report("write to a file of root's", written);
}

/// Makes directories, links and files up to the limit.
fn files(directory: &Path) {
    let first = (0..2 * FILES).find_map(|number| fs::create_dir(directory.join(number.to_string())).err());
    report("mkdir", first.map_or(Ok(()), Err));
    report("create", File::create(directory.join("file")).map(drop));
    report("symlink", std::os::unix::fs::symlink("a", directory.join("symlink")));
    report("rmdir", fs::remove_dir(directory.join("1")));
    report("create", File::create(directory.join("file")).map(drop));
    report("link", fs::hard_link(directory.join("file"), directory.join("link")));
}

const POLICIES: [Policy; 2] = [Policy::ADAPTIVE, Policy::PLAIN];
const ENOSPC: &str = "write: Err(28)";
const EDQUOT: &str = "write: Err(122)";

#[test]
fn reserved_blocks_are_left_by_users_and_used_by_root() {
    for policy in POLICIES {
        let Some(space) = space(policy, &[], "loop") else { return };
        let reserved = SIZE / 5;
        let run = |directory: &Path| {
            let mut lines = as_user("fill", directory, 12_345);
            assert!(space.disk.free() > reserved, "{policy:?}: {} bytes are left", space.disk.free());
            lines.extend(as_user("fill", directory, 0));
            assert!(space.disk.free() < reserved, "{policy:?}: {} bytes are left", space.disk.free());
            space.disk.clean();
            lines
        };
        let expected = run(&space.plain());
        assert_eq!(expected.iter().filter(|line| *line == ENOSPC).count(), 2, "{expected:?}");
        assert_eq!(run(&space.mount.point), expected, "{policy:?}");
        // Outside the mount this is a SIGBUS.
        assert_eq!(as_user("map", &space.mount.point, 12_345), ["msync: Err(28)"], "{policy:?}");
        assert!(space.disk.free() > reserved, "{policy:?}, mapped: {} bytes are left", space.disk.free());
    }
}

#[test]
fn a_quota_holds_for_writes_through_the_mount() {
    for policy in POLICIES {
        let quotas = ["-O", "quota", "-E", "quotatype=usrquota"];
        let Some(space) = space(policy, &quotas, "loop,usrquota") else { return };
        let run = |directory: &Path, user: u32| {
            space.disk.limit(user);
            let mut lines = as_user("fill", directory, user);
            let used = space.disk.used(user);
            assert!((QUOTA / 2..=QUOTA).contains(&used), "{policy:?}: {used} of {QUOTA}");
            // Root exceeds the quota of the file's owner.
            let file = File::options().append(true).open(directory.join("filled")).expect("opened");
            let grown = file.write_all_at(&[3; 1 << 20], QUOTA).and_then(|()| file.sync_all());
            lines.push(format!("root: {:?}", grown.map_err(|error| error.raw_os_error())));
            assert!(space.disk.used(user) > QUOTA, "{policy:?}: {}", space.disk.used(user));
            space.disk.clean();
            let of_root = directory.join("of root");
            fs::write(&of_root, "").expect("made");
            set_mode(&of_root, 0o666);
            lines.extend(as_user("others", directory, user));
            lines.extend(as_user("files", directory, user));
            space.disk.clean();
            lines
        };
        let expected = run(&space.plain(), 12_345);
        assert!(expected.iter().any(|line| line == EDQUOT), "{expected:?}");
        assert!(expected.iter().any(|line| line == "mkdir: Err(122)"), "{expected:?}");
        assert_eq!(run(&space.mount.point, 23_456), expected, "{policy:?}");
        assert_eq!(as_user("map", &space.mount.point, 23_456), ["msync: Err(122)"], "{policy:?}");
        assert!(space.disk.used(23_456) <= QUOTA, "{policy:?}, mapped: {}", space.disk.used(23_456));
    }
}
