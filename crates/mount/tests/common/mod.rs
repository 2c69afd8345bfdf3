//! A mount served by another process, for tests: a process that maps files of its own mount can wait for
//! itself.
//!
//! The server is this test program, started with an environment that makes it run only [`server`].
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(unsafe_code, reason = "the signals of a child, mappings")]

pub(crate) mod file_systems;
pub(crate) mod one_file;

use foreseek_mount::{MountOptions, Policy, Settings, WalkOptions, client, serve};
use foreseek_rig::{CgroupParent, MemoryGroup};
use foreseek_units::Bytes;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The settings of the server to run.
const SERVER: &str = "FORESEEK_TEST_MOUNT";
/// A directory for the data of tests, to have them on another file system.
const SOURCE: &str = "FORESEEK_TEST_SOURCE";
/// The default for it: a real file system; `/tmp` is often in memory.
const DATA: &str = "/var/tmp";
/// Longest wait for the start or end of a server.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The kernel aborts a mount that does not answer, so that no test hangs for ever.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves a mount if this program was started for it; otherwise no test.
#[test]
fn server() {
    let Ok(settings) = std::env::var(SERVER) else { return };
    let settings: Settings = serde_json::from_str(&settings).expect("settings");
    serve::run(&settings, |_| {}).expect("served");
}

/// The server's default memory for prefetched data.
const MEMORY: Bytes = Bytes::mib(64);

/// A source, a plain directory beside it, and the mount of the source. All are removed when dropped.
pub(crate) struct TestMount {
    pub(crate) source: PathBuf,
    pub(crate) plain: PathBuf,
    pub(crate) point: PathBuf,
    server: Option<Child>,
    settings: Settings,
    /// Whether the server may use io_uring.
    io_uring: bool,
    /// The group that limits the server's memory, if there is one; dropped after the server, which is in it.
    group: Option<MemoryGroup>,
    _place: tempfile::TempDir,
}

/// A mount, unless this machine cannot have one.
pub(crate) fn mounted(policy: Policy) -> Option<TestMount> {
    mounted_with(policy, |_| {})
}

/// The same with other options.
pub(crate) fn mounted_with(policy: Policy, change: impl FnOnce(&mut MountOptions)) -> Option<TestMount> {
    let mut mount = prepared(policy, change)?;
    mount.start();
    Some(mount)
}

/// The same, possibly without io_uring, as in a container that forbids it.
pub(crate) fn mounted_as(
    policy: Policy,
    io_uring: bool,
    change: impl FnOnce(&mut MountOptions),
) -> Option<TestMount> {
    let mut mount = prepared(policy, change)?;
    mount.io_uring = io_uring;
    mount.start();
    Some(mount)
}

/// The same with this `--memory`, in a control group that limits the server's memory to `limit`. The source
/// is filled before it is mounted.
pub(crate) fn mounted_within(
    policy: Policy,
    memory: Bytes,
    limit: Bytes,
    fill: impl FnOnce(&Path),
) -> Option<TestMount> {
    let mut mount = prepared(policy, |options| fill(&options.source))?;
    let name = mount.settings.mount.mount_point.display().to_string().replace('/', "-");
    match CgroupParent::find().and_then(|place| MemoryGroup::create(&place, &name, limit)) {
        Ok(group) => mount.group = Some(group),
        Err(error) => {
            println!("SKIPPED: {error}");
            return None;
        }
    }
    mount.settings.memory_bytes = memory.get();
    mount.start();
    Some(mount)
}

/// A directory with a source, and the settings of its mount, which is not made yet.
fn prepared(policy: Policy, change: impl FnOnce(&mut MountOptions)) -> Option<TestMount> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("SKIPPED: a mount needs root and /dev/fuse");
        return None;
    }
    let data = std::env::var_os(SOURCE).unwrap_or_else(|| DATA.into());
    let place = tempfile::tempdir_in(data).expect("a place");
    // Other users must be able to reach its files.
    set_mode(place.path(), 0o755);
    let [source, plain, point] = ["source", "plain", "mount"].map(|name| {
        let path = place.path().join(name);
        std::fs::create_dir(&path).expect("made");
        path
    });
    let mut options = MountOptions::new(&source, &point);
    options.request_timeout = Some(REQUEST_TIMEOUT);
    options.walks = WalkOptions::for_policy(policy, MEMORY, None);
    change(&mut options);
    let settings = Settings {
        mount: options,
        policy,
        rho: foreseek_readahead::stream::RHO,
        memory_bytes: MEMORY.get(),
        is_bounded: true,
        profile: None,
        state: Some(place.path().join("state")),
        forget: false,
        record: None,
    };
    let point = settings.mount.mount_point.clone();
    Some(TestMount {
        source,
        plain,
        point,
        server: None,
        settings,
        io_uring: true,
        group: None,
        _place: place,
    })
}

impl TestMount {
    /// Starts the server and waits until it serves.
    pub(crate) fn start(&mut self) {
        let settings = serde_json::to_string(&self.settings).expect("text");
        let program = std::env::current_exe().expect("this program");
        let mut command = match &self.group {
            Some(group) => group.command(&program),
            None => Command::new(program),
        };
        command
            .args(["common::server", "--exact", "--nocapture"])
            .env(SERVER, settings)
            .stdout(Stdio::null());
        // SAFETY: only system calls are made between fork and exec.
        unsafe { command.pre_exec(block_end_signals) };
        if !self.io_uring {
            // SAFETY: as above.
            unsafe { command.pre_exec(forbid_io_uring) };
        }
        self.server = Some(spawn(&mut command));
        wait_for("the server", || client::status(&self.point).is_ok());
    }

    /// The control group that limits its memory.
    pub(crate) fn group(&self) -> &MemoryGroup {
        self.group.as_ref().expect("it is in a group")
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.server.as_ref().expect("it runs").id()
    }

    /// Ends the server with a signal and waits for its end; returns whether it ended by itself.
    pub(crate) fn signal(&mut self, signal: rustix::process::Signal) -> bool {
        self.send(signal);
        self.wait()
    }

    /// Sends the server a signal.
    pub(crate) fn send(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).expect("a process");
        rustix::process::kill_process(pid, signal).expect("sent");
    }

    /// Stops the server; all its threads are stopped when this returns.
    pub(crate) fn hang(&self) {
        self.send(rustix::process::Signal::STOP);
        // A thread that the signal has not reached may still answer a request.
        wait_for("all of its threads to stop", || self.threads().all(|state| state == 'T'));
    }

    /// The state of each thread of the server, as `ps` names it.
    fn threads(&self) -> impl Iterator<Item = char> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs");
        // The name, in brackets, may contain anything; the state follows it.
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok()).map(|stat| {
            let (_, rest) = stat.rsplit_once(") ").expect("a line of a thread");
            rest.chars().next().expect("a state")
        })
    }

    /// Waits for the server's end; returns whether it ended by itself, with success.
    pub(crate) fn wait(&mut self) -> bool {
        let mut server = self.server.take().expect("it runs");
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = server.try_wait().expect("waited for") {
                return status.success();
            }
            if Instant::now() > deadline {
                server.kill().expect("killed");
                server.wait().expect("waited for");
                panic!("the server does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for TestMount {
    fn drop(&mut self) {
        // Also frees the leftovers of a killed server.
        if let Err(error) = client::unmount(&self.point) {
            println!("unmount: {error}");
        }
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// While this is held no other process has the files of this one open: a child that a test beside this one starts has
/// them until it runs its program. Tests whose results that would change hold it, and all start children by [`spawn`].
pub(crate) fn without_forks() -> MutexGuard<'static, ()> {
    static FORKS: Mutex<()> = Mutex::new(());
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child, which runs its program when this returns.
pub(crate) fn spawn(command: &mut Command) -> Child {
    let _forks = without_forks();
    command.spawn().expect("the program exists")
}

/// The server waits for these signals in one thread; here they would end the threads of the test harness.
fn block_end_signals() -> std::io::Result<()> {
    // SAFETY: a signal set is plain memory, which sigemptyset initialises before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
    Ok(())
}

/// Forbids io_uring to this process, with EPERM.
fn forbid_io_uring() -> std::io::Result<()> {
    const NUMBER_AT: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const SKIP_UNLESS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    let mut filter = [
        step(LOAD, NUMBER_AT, 0),
        step(SKIP_UNLESS, libc::SYS_io_uring_setup as u32, 1),
        step(ANSWER, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its steps live until the call returns, which copies them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Waits until a condition holds; fails if it does not.
pub(crate) fn wait_for(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "no sign of {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sets a file's permissions.
pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}

/// Raises the limit of open files to the most that this process may have.
pub(crate) fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// One byte of a file.
pub(crate) fn byte(file: &File, at: u64) -> u8 {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    byte[0]
}

/// A sequence of numbers from a seed (splitmix64), the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `limit`, or 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }
}

/// A mapping of a file's first bytes.
pub(crate) struct Mapped(*mut std::ffi::c_void, usize);

impl Mapped {
    /// For reading.
    pub(crate) fn new(file: &File, length: usize) -> Self {
        Self::with(file, length, ProtFlags::READ)
    }

    /// For reading and storing, of a file that is open for both.
    pub(crate) fn writable(file: &File, length: usize) -> Self {
        Self::with(file, length, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn with(file: &File, length: usize, may: ProtFlags) -> Self {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let at = unsafe { mmap(std::ptr::null_mut(), length, may, MapFlags::SHARED, file, 0) };
        Self(at.expect("mapped"), length)
    }

    pub(crate) fn byte(&self, at: usize) -> u8 {
        assert!(at < self.1);
        // SAFETY: it lies within the mapping, and the tests keep the file longer than that. It is read again
        // each time.
        unsafe { self.0.cast::<u8>().add(at).read_volatile() }
    }

    /// Stores into a writable mapping.
    pub(crate) fn store(&self, at: usize, byte: u8) {
        assert!(at < self.1);
        // SAFETY: as above; nothing of this program refers to the memory.
        unsafe { self.0.cast::<u8>().add(at).write_volatile(byte) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is ours and not used any more.
        unsafe { munmap(self.0, self.1).expect("unmapped") };
    }
}
