//! Sources on other file systems: each is made, and this test program is run again with its directories on it
//! ([`SOURCE`]).
//!
//! A file system that the kernel does not have, or that cannot be made here, is skipped with a message.

use super::{LIMIT, SOURCE, spawn, without_forks};
use foreseek_rig::{Interrupt, Program};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// If set: all tests of the program on each file system, not only the core.
const ALL: &str = "FORESEEK_FILE_SYSTEMS";
/// Longest run of a program's tests on one of them.
const RUN_LIMIT: Duration = Duration::from_secs(300);

/// A file system for a source.
struct Kind {
    name: &'static str,
    /// Its type in `/proc/filesystems`.
    kind: &'static str,
    /// The program that makes it in a file, the program's package, and its options.
    make: Option<(&'static str, &'static str, &'static [&'static str])>,
    options: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "ext4-1k",
        kind: "ext4",
        make: Some(("mkfs.ext4", "e2fsprogs", &["-q", "-F", "-b", "1024"])),
        options: "loop",
    },
    Kind { name: "xfs", kind: "xfs", make: Some(("mkfs.xfs", "xfsprogs", &["-q"])), options: "loop" },
    Kind {
        name: "btrfs",
        kind: "btrfs",
        make: Some(("mkfs.btrfs", "btrfs-progs", &["-q"])),
        options: "loop",
    },
    Kind {
        name: "overlay",
        kind: "overlay",
        make: None,
        options: "lowerdir=lower,upperdir=upper,workdir=work",
    },
    Kind { name: "tmpfs", kind: "tmpfs", make: None, options: "size=512m" },
];
/// Sparse: twice the least size of xfs.
const SIZE: u64 = 640 << 20;

/// A mounted file system; it is unmounted when dropped.
struct Made {
    point: PathBuf,
    _place: tempfile::TempDir,
}

impl Made {
    /// `None`, with a message, if it is unavailable.
    fn new(kind: &Kind) -> Option<Self> {
        let known = fs::read_to_string("/proc/filesystems").expect("Linux has it");
        if !known.lines().any(|line| line.trim_start_matches("nodev").trim() == kind.kind) {
            println!("SKIPPED: this kernel has no {}", kind.kind);
            return None;
        }
        let place = tempfile::tempdir_in("/var/tmp").expect("a place");
        for name in ["point", "lower", "upper", "work"] {
            fs::create_dir(place.path().join(name)).expect("made");
        }
        let mut device = "none".to_owned();
        if let Some((program, package, arguments)) = kind.make {
            let program = match Program::find(program, package) {
                Ok(program) => program,
                Err(error) => {
                    println!("SKIPPED: {error}");
                    return None;
                }
            };
            let image = place.path().join("image");
            File::create(&image).and_then(|file| file.set_len(SIZE)).expect("a sparse file");
            image.to_str().expect("plain").clone_into(&mut device);
            let arguments = [arguments, &[device.as_str()]].concat();
            // mkfs.btrfs examines all mounts, and fails if one source cannot be examined.
            let forks = without_forks();
            let made = program.run("making a file system", &arguments, LIMIT, &Interrupt::default());
            drop(forks);
            if let Err(error) = made {
                println!("SKIPPED: no {} can be made on this machine: {error}", kind.name);
                return None;
            }
        }
        let point = place.path().join("point");
        let mut mount = Command::new("mount");
        mount.current_dir(place.path()).args(["-t", kind.kind, "-o", kind.options, &device]).arg(&point);
        let output = output(&mut mount);
        assert!(output.status.success(), "{}: {}", kind.name, String::from_utf8_lossy(&output.stderr));
        Some(Self { point, _place: place })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = output(Command::new("umount").arg("-l").arg(&self.point));
    }
}

/// Runs a program to its end.
fn output(command: &mut Command) -> Output {
    let child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    child.wait_with_output().expect("waited for")
}

/// Whether this process was started for another file system.
pub(crate) fn is_other() -> bool {
    std::env::var_os(SOURCE).is_some()
}

/// Runs tests of this program with a source on each file system: those of `core`, or with [`ALL`] all except
/// `itself`.
pub(crate) fn on_each(itself: &str, core: &[&str]) {
    if is_other() {
        return;
    }
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return println!("SKIPPED: other file systems need root, and a mount /dev/fuse");
    }
    for kind in &KINDS {
        let Some(made) = Made::new(kind) else { continue };
        let output = made.point.parent().expect("in a place").join("output");
        let out = File::create(&output).expect("made");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--test-threads", "2", "--exact"]);
        if std::env::var_os(ALL).is_some() {
            command.args(["--skip", itself]);
        } else {
            command.args(core);
        }
        // A million exercises would exceed the limit five times over.
        command
            .env(SOURCE, &made.point)
            .env_remove("FORESEEK_EXERCISES")
            .stdin(Stdio::null())
            .stderr(out.try_clone().expect("a copy"));
        let mut child = spawn(command.stdout(out));
        let mut status = None;
        let begun = std::time::Instant::now();
        while status.is_none() && begun.elapsed() < RUN_LIMIT {
            status = child.try_wait().expect("it is ours");
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        child.wait().expect("it ended");
        let output = fs::read_to_string(output).expect("text");
        let result = output.lines().find(|line| line.starts_with("test result")).unwrap_or("no result");
        println!("{}: {result}", kind.name);
        let ran = core.len().min(output.matches("... ok").count());
        assert!(status.is_some_and(|status| status.success()) && ran > 0, "on {}: {output}", kind.name);
    }
}
