//! A place to test emulated disks in: a run directory of its own, limits on every wait, and
//! nothing left behind whatever happens.

use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for a command: none takes a tenth of it on a machine that does nothing else.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(5);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// See the module's documentation.
pub(crate) struct Lab {
    pub(crate) directory: PathBuf,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// What it printed, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect("JSON")
    }
}

/// A child process that is killed when this is dropped.
pub(crate) struct KilledOnDrop(pub(crate) Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Lab {
    /// `None`, said loudly, where emulated disks cannot be had.
    pub(crate) fn new() -> Option<Self> {
        let root = rustix::process::geteuid().is_root();
        let missing = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|path| !Path::new(path).exists());
        if !root || missing.is_some() {
            println!("SKIPPED: emulated disks need root, /dev/fuse and /dev/loop-control");
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Short: the control socket's path has to fit.
        let directory = PathBuf::from(format!("/tmp/fs-lab-{}-{number}", std::process::id()));
        fs::create_dir(&directory).expect("a directory of its own");
        fs::create_dir(directory.join("mnt")).expect("a mount point");
        Some(Self { directory })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// `foreseek disk` with these arguments.
    pub(crate) fn disk(&self, arguments: &[&str]) -> Ended {
        self.run(self.command().args(arguments))
    }

    /// `foreseek disk`, yet without arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.arg("disk").env("FORESEEK_RUN", self.path("run")).env("FORESEEK_FUSE_TIMEOUT", "120");
        command.current_dir(&self.directory);
        command
    }

    /// The same, which must succeed; what it printed.
    pub(crate) fn must(&self, arguments: &[&str]) -> String {
        let ended = self.disk(arguments);
        assert_eq!(ended.status, Some(0), "{arguments:?}: {ended:?}");
        ended.out
    }

    /// Attaches a disk with these options besides; its device.
    pub(crate) fn attach(&self, options: &[&str]) -> PathBuf {
        let mut arguments = vec!["attach", "--thin", "--format", "json"];
        if !options.contains(&"--backing") {
            arguments.extend(["--dir", self.directory.to_str().expect("plain")]);
        }
        arguments.extend(options);
        let attached: Value = serde_json::from_str(&self.must(&arguments)).expect("JSON");
        attached["device"].as_str().expect("a device").into()
    }

    pub(crate) fn list(&self) -> Vec<Value> {
        serde_json::from_str(&self.must(&["list", "--format", "json"])).expect("JSON")
    }

    pub(crate) fn stats(&self, target: &str) -> Value {
        serde_json::from_str(&self.must(&["stats", target, "--format", "json"])).expect("JSON")
    }

    /// Runs any program, which must end in time.
    pub(crate) fn run(&self, command: &mut Command) -> Ended {
        // Into files: a server that inherited a pipe would keep it open.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let names = [self.path(&format!("out-{number}")), self.path(&format!("err-{number}"))];
        let [out, err] = names.each_ref().map(|name| File::create(name).expect("a file"));
        let mut child =
            command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().expect("the program exists");
        let status = wait(&mut child, LIMIT);
        let [out, err] = names.map(|name| fs::read_to_string(name).expect("text"));
        let Some(status) = status else {
            child.kill().expect("it is ours");
            panic!("{command:?} does not end; it said {out} {err}");
        };
        Ended { status: status.code(), out, err }
    }

    /// Runs a program that must succeed.
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> String {
        let ended = self.run(Command::new(program).args(arguments));
        assert_eq!(ended.status, Some(0), "{program} {arguments:?}: {ended:?}");
        ended.out
    }

    /// The block of an ext4 that holds an inode.
    #[allow(dead_code)] // not every test file needs it
    pub(crate) fn block_of_inode(&self, device: &Path, inode: u64) -> u64 {
        let device = device.to_str().expect("plain");
        let printed = self.tool("debugfs", &["-R", &format!("imap <{inode}>"), device]);
        let block = printed.split("located at block ").nth(1).and_then(|rest| rest.split(',').next());
        block.and_then(|block| block.trim().parse().ok()).expect(&printed)
    }

    /// Kills a process; it has ended, with all that it had open, when this returns. A process that is killed closes one
    /// file after the other.
    #[allow(dead_code)] // not every test file kills
    pub(crate) fn end(&self, pid: &str) {
        self.tool("kill", &["-KILL", pid]);
        assert!(until(LIMIT, || threads_of(pid).all(|state| state == 'Z')), "process {pid} does not end");
    }

    /// Stops a process; each of its threads has stopped when this returns. One that the signal has not reached would
    /// still answer.
    #[allow(dead_code)] // not every test file stops
    pub(crate) fn stop(&self, pid: &str) {
        self.tool("kill", &["-STOP", pid]);
        assert!(until(LIMIT, || threads_of(pid).all(|state| state == 'T')), "process {pid} does not stop");
    }

    /// Unmounts. A child that a test beside this one has just forked may hold a file that this test has closed, until
    /// it runs its program: while the mount is busy that is waited for, a few seconds at most.
    #[allow(dead_code)] // not every test file mounts
    pub(crate) fn unmount(&self, point: &Path) {
        self.once_it_is_not_busy("umount", &[point.to_str().expect("plain")]);
    }

    /// Runs a program that must succeed, again while it finds something busy.
    #[allow(dead_code)] // as above
    pub(crate) fn once_it_is_not_busy(&self, program: &str, arguments: &[&str]) {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            let ended = self.run(Command::new(program).args(arguments));
            if ended.status == Some(0) {
                return;
            }
            let passes = ended.err.contains("busy") && Instant::now() < end;
            assert!(passes, "{program} {arguments:?}: {ended:?}");
            sleep(Duration::from_millis(20));
        }
    }

    /// A copy of the program, made by another process: a descriptor of ours that writes it could be in a child that a
    /// test beside this one has just forked, and what is open for writing cannot be run.
    pub(crate) fn copy_of_the_program(&self, to: &Path) {
        self.tool("cp", &[env!("CARGO_BIN_EXE_foreseek"), to.to_str().expect("a name in UTF-8")]);
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.path("mnt")
    }

    /// Nothing of any disk is left: no loop device, mount, process or file.
    pub(crate) fn assert_clean(&self) {
        let run = self.path("run");
        let disks: Vec<_> = fs::read_dir(run.join("disks")).into_iter().flatten().flatten().collect();
        assert!(disks.is_empty(), "left: {disks:?}");
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("text");
        assert!(!mounts.contains(run.to_str().expect("plain")), "{mounts}");
        for entry in fs::read_dir("/sys/block").expect("sysfs").flatten() {
            let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            assert!(!file.contains(run.to_str().expect("plain")), "{entry:?} {file}");
        }
        let temporary = fs::read_dir(&self.directory).expect("there").flatten();
        let temporary: Vec<_> =
            temporary.filter(|entry| entry.path().extension().is_some_and(|end| end == "disk")).collect();
        assert!(temporary.is_empty(), "left: {temporary:?}");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let quiet = |command: &mut Command| {
            if let Ok(mut child) = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
                && wait(&mut child, LIMIT).is_none()
            {
                let _ = child.kill();
            }
        };
        let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if mounted.contains(self.mount_point().to_str().unwrap_or_default()) {
            quiet(Command::new("umount").arg("-l").arg(self.mount_point()));
        }
        quiet(self.command().args(["detach", "--all", "--force"]));
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The state of each thread of a process, as `ps` names it; none where it is gone.
fn threads_of(pid: &str) -> impl Iterator<Item = char> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    // The name, in brackets, may contain anything; the state follows it.
    tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok()).filter_map(|stat| {
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.chars().next()
    })
}

/// Waits for a child, no longer than `limit`.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let mut status = None;
    until(limit, || {
        status = child.try_wait().expect("it is ours");
        status.is_some()
    });
    status
}

/// Waits until it is so, no longer than `limit`; whether it came so.
pub(crate) fn until(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !so() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL);
    }
    true
}

/// Reads 4 KiB of a device, past the page cache.
pub(crate) fn read_direct(device: &Path, offset: u64) -> std::io::Result<Vec<u8>> {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let mut file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(device)?;
    let mut page = Page([0; 4096]);
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut page.0)?;
    Ok(page.0.to_vec())
}
