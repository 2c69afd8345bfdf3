//! Setup for system tests: an ext4 on a loop device that reports that it seeks, and programs that walk on it.
//! The engine fetches everything that it is notified of, so that each test checks the watcher without a policy.

#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use foreseek_seam::FetchId;
use foreseek_storage::loop_device::{LoopDevice, LoopOptions};
use foreseek_storage::{HostFd, cachestat};
use foreseek_units::{Instant, PageIndex, Pages, Span};
use foreseek_walks::{
    Command as Wanted, Event, InDirectory, InodeFetch, Kind, ListCondition, Node, Part, Status,
};
use foreseek_watch::{Engine, Options, Watcher};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant as Clock};

/// Longest wait.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// A user without files.
pub(crate) const NOBODY: u32 = 65_534;
/// The length of its device.
pub(crate) const SIZE: u64 = 512 << 20;

/// Waits until a condition holds; returns whether it did within the limit.
pub(crate) fn until(mut holds: impl FnMut() -> bool) -> bool {
    let begun = Clock::now();
    while begun.elapsed() < LIMIT {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    holds()
}

/// A file system for one test, removed when dropped.
pub(crate) struct Setup {
    kind: &'static str,
    device: LoopDevice,
    pub(crate) point: PathBuf,
    pub(crate) image: PathBuf,
    _place: tempfile::TempDir,
}

impl Setup {
    /// `None`, with a message, if the machine does not allow it.
    pub(crate) fn new() -> Option<Self> {
        Self::of("ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
    }

    /// The same with a file system of this kind, made with these options.
    pub(crate) fn of(kind: &'static str, options: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: watching needs root");
            return None;
        }
        let mkfs = format!("mkfs.{kind}");
        for program in [&mkfs, "python3"] {
            let asked = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if asked.is_err() {
                println!("SKIPPED: {program} is not installed");
                return None;
            }
        }
        let place = tempfile::tempdir_in("/var/tmp").expect("a place");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let (image, point) = (place.path().join("image"), place.path().join("point"));
        fs::create_dir(&point).expect("made");
        let file = File::options().create_new(true).read(true).write(true).open(&image).expect("made");
        file.set_len(SIZE).expect("sparse");
        let made = Command::new(&mkfs).args(options).arg(&image).status();
        assert!(made.expect("it runs").success());
        let device = match LoopDevice::attach(&file, &image, LoopOptions::DISK) {
            Ok(device) => device,
            Err(error) => {
                println!("SKIPPED: {error}");
                return None;
            }
        };
        let setup = Self { kind, device, point, image, _place: place };
        setup.mount();
        Some(setup)
    }

    pub(crate) fn device(&self) -> PathBuf {
        self.device.path()
    }

    pub(crate) fn mount(&self) {
        // Otherwise the kernel reads bitmaps some seconds later.
        let options = (self.kind == "ext4").then_some(c"no_prefetch_block_bitmaps");
        mount(self.device.path(), &self.point, self.kind, MountFlags::empty(), options).expect("mounted");
    }

    /// The result of `umount`, without waiting.
    pub(crate) fn try_unmount(&self) -> Result<(), rustix::io::Errno> {
        unmount(&self.point, UnmountFlags::empty())
    }

    pub(crate) fn unmount(&self) {
        assert!(until(|| self.try_unmount().is_ok()), "it stays busy");
    }

    /// Whether the device has no users: nothing holds it, and this process, in which the watcher is, has not opened it.
    pub(crate) fn is_free(&self) -> bool {
        if is_open(&self.device.path()) {
            return false;
        }
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL | rustix::fs::OFlags::CLOEXEC;
        rustix::fs::open(self.device.path(), flags, rustix::fs::Mode::empty()).is_ok()
    }

    /// Evicts all of it from memory.
    pub(crate) fn cold(&self) {
        self.unmount();
        assert!(until(|| self.is_free()), "its device stays in use");
        let flushed = Command::new("blockdev").arg("--flushbufs").arg(self.device.path()).status();
        assert!(flushed.expect("it runs").success());
        self.mount();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    pub(crate) fn watch(&self) -> Watcher {
        self.watch_with(Options::default())
    }

    /// The same with these options.
    pub(crate) fn watch_with(&self, options: Options) -> Watcher {
        self.start(options, false)
    }

    /// The same with the product's engine.
    pub(crate) fn watch_as_users_do(&self) -> Watcher {
        let options = Options { paths: vec![self.point.clone()], ..Options::default() };
        Watcher::start(&options).expect("it starts")
    }

    /// The same with an engine that needs to know of nothing while its disk reads nothing.
    pub(crate) fn watch_at_rest(&self) -> Watcher {
        self.start(Options::default(), true)
    }

    /// The same with an engine that lists the first opened directory once a file is opened in one.
    pub(crate) fn watch_files(&self) -> Watcher {
        self.start_with(Options::default(), || Eager { late: true, ..Eager::default() })
    }

    fn start(&self, options: Options, at_rest: bool) -> Watcher {
        self.start_with(options, move || Eager { at_rest, ..Eager::default() })
    }

    fn start_with(&self, options: Options, engine: impl Fn() -> Eager + Send + 'static) -> Watcher {
        let options = Options { paths: vec![self.point.clone()], ..options };
        let make = move |_, _| -> Box<dyn Engine> { Box::new(engine()) };
        Watcher::start_with(&options, Box::new(make)).expect("it starts")
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let begun = Clock::now();
        while self.try_unmount() == Err(rustix::io::Errno::BUSY) && begun.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = unmount(&self.point, UnmountFlags::DETACH);
        let _ = self.device.clear(LIMIT);
    }
}

/// Whether this process has a block device open.
pub(crate) fn is_open(device: &Path) -> bool {
    let number = fs::metadata(device).expect("a device").rdev();
    let own = fs::read_dir("/proc/self/fd").expect("Linux has it").flatten();
    own.filter_map(|fd| fs::metadata(fd.path()).ok())
        .any(|stat| stat.file_type().is_block_device() && stat.rdev() == number)
}

/// The counts of a block device, as sysfs has them: reads that are over come first.
pub(crate) fn stat(device: &Path) -> String {
    let name = device.file_name().expect("a device").to_string_lossy().into_owned();
    fs::read_to_string(format!("/sys/block/{name}/stat")).expect("it has counts")
}

/// Waits until nobody has read from a block device for a while: programs that examine new devices do.
pub(crate) fn wait_for_rest(device: &Path) {
    let mut last = (stat(device), Clock::now());
    let rested = || {
        let now = stat(device);
        if now != last.0 {
            last = (now, Clock::now());
        }
        last.1.elapsed() > Duration::from_millis(500)
    };
    assert!(until(rested), "its disk is read all the time");
}

/// Writes a file of some length. After [`Setup::cold`] it is on the disk and not in memory.
pub(crate) fn write(path: &Path, length: usize) {
    fs::write(path, vec![b'x'; length]).expect("written");
}

/// Writes a file of this length whose contents follow from its name, so that a program can check what it reads.
pub(crate) fn write_named(path: &Path, length: usize) {
    let name = path.file_name().expect("it has one").as_bytes();
    fs::write(path, name.iter().copied().cycle().take(length).collect::<Vec<u8>>()).expect("written");
}

/// Pages of a file that are in memory.
pub(crate) fn resident(path: &Path) -> Pages {
    let file = File::open(path).expect("there");
    let whole = Span::new(PageIndex(0), PageIndex(1 << 30));
    cachestat(HostFd::new(file.as_raw_fd()).expect("open"), whole).expect("Linux 6.5 and root")
}

/// A program of another name, run by some user, that carries out orders.
pub(crate) struct Actor {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

const SCRIPT: &str = r#"
import fcntl, itertools, mmap, os, sys, threading, time
kept = []
signal_count = 0
def beside(file):
    page = mmap.mmap(-1, 4096)
    while True:
        os.preadv(file, [page], 0)
        time.sleep(0.01)
def follows(name, length):
    return (name * (length // len(name) + 1))[:length]
for line in sys.stdin.buffer:
    verb, _, path = line[:-1].partition(b" ")
    path = bytes.fromhex(path.decode())
    try:
        if verb == b"list":
            result = str(len(os.listdir(path)))
        elif verb == b"tree":
            result = str(sum(len(files) for _, _, files in os.walk(path)))
        elif verb == b"later":
            files = [os.path.join(above, name) for above, _, names in os.walk(path) for name in names]
            for name in files:
                with open(name, "rb") as file:
                    file.read()
            result = str(len(files))
        elif verb == b"read":
            with open(path, "rb") as file:
                result = str(len(file.read()))
        elif verb == b"enter":
            os.chroot(path)
            os.chdir("/")
            result = "ok"
        elif verb == b"hold":
            kept.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
            result = str(len(os.listdir(kept[-1])))
        elif verb == b"slowly":
            right = some = 0
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            # Others may give it another name meanwhile.
            for name in sorted(os.fsencode(name) for name in os.listdir(directory)):
                time.sleep(0.004)
                try:
                    with open(os.open(name, os.O_RDONLY, dir_fd=directory), "rb") as file:
                        found = file.read()
                except FileNotFoundError:
                    continue
                if name.startswith(b"still"):
                    some += 1
                    right += found == follows(name, len(found)) and len(found) > 0
            os.close(directory)
            result = "%d of %d" % (right, some)
        elif verb == b"map":
            with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
                for at in range(0, len(mapped), 3000):
                    mapped[at] = at % 251
                result = "mapped %d" % len(mapped)
        elif verb == b"walk":
            some = 0
            with os.scandir(path) as names:
                for name in itertools.islice(names, 200):
                    with open(name.path, "rb") as file:
                        file.read()
                    some += 1
            result = str(some)
        elif verb == b"pass":
            kept.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
            result = "ok"
        elif verb == b"lease":
            kept.append(os.open(path, os.O_RDWR))
            fcntl.fcntl(kept[-1], fcntl.F_SETLEASE, fcntl.F_WRLCK)
            result = "ok"
        elif verb == b"leased":
            result = str(fcntl.fcntl(kept[-1], fcntl.F_GETLEASE) == fcntl.F_WRLCK)
        elif verb == b"beside":
            file = os.open(path, os.O_RDONLY | os.O_DIRECT)
            threading.Thread(target=beside, args=(file,), daemon=True).start()
            result = "ok"
        elif verb == b"flood":
            for name in os.listdir(path):
                os.close(os.open(os.path.join(path, name), os.O_RDONLY))
            result = "ok"
        elif verb == b"spin":
            for _ in range(200000):
                os.close(os.open(path, os.O_RDONLY))
            result = "ok"
    except ValueError:
        result = "empty"
    except OSError as error:
        result = "error %d" % error.errno
    print(result, flush=True)
"#;

impl Actor {
    pub(crate) fn new(user: u32) -> Self {
        let mut command = Command::new("python3");
        command.args(["-S", "-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        Self::begun(command.uid(user).gid(user))
    }

    /// One that a shell begins within `unshare` after some commands. `None` if they fail.
    pub(crate) fn contained(unshare: &mut Command, commands: &str) -> Option<Self> {
        let script = format!("{{ {commands}; }} && echo ready && exec python3 -S -c \"$0\"");
        unshare.args(["sh", "-c", &script, SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut actor = Self::begun(unshare.current_dir("/"));
        (actor.answer() == "ready").then_some(actor)
    }

    fn begun(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("it runs");
        let (to, from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Self { child, to, from: BufReader::new(from) }
    }

    pub(crate) fn does(&mut self, verb: &str, path: &Path) -> String {
        let hex: String = path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.to, "{verb} {hex}").expect("it reads");
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut result = String::new();
        self.from.read_line(&mut result).expect("it answers");
        result.trim_end().to_owned()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that keeps a disk busy with small reads.
pub(crate) struct Busy(Child);

impl Busy {
    pub(crate) fn on(disk: &Path) -> Self {
        let reads = "while dd if=\"$0\" of=/dev/null bs=4k iflag=direct; do :; done";
        let child = Command::new("sh")
            .args(["-c", reads])
            .arg(disk)
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("it starts"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Fetches everything below each directory that it is notified of. Only for tests: it has no bound.
#[derive(Debug, Default)]
pub(crate) struct Eager {
    known: BTreeSet<Node>,
    fetches: u64,
    waiting: BTreeMap<Node, InDirectory>,
    at_rest: bool,
    /// Opens of directories alone lead to nothing.
    late: bool,
    first: Option<Node>,
}

impl Eager {
    fn next(&mut self) -> FetchId {
        self.fetches += 1;
        FetchId(self.fetches)
    }
}

impl Engine for Eager {
    fn on(&mut self, _: Instant, event: Event<'_>) -> Vec<Wanted> {
        match event {
            Event::DirectoryOpened { directory, .. } if self.late => {
                self.first = self.first.or(Some(directory));
                vec![Wanted::WatchOpens { directory, on: true }]
            }
            Event::FileOpened { .. } if self.late => {
                let first = self.first.take().map(|node| InDirectory { node, directory: node });
                let condition = ListCondition::Always;
                first.into_iter().map(|directory| Wanted::List { directory, condition }).collect()
            }
            Event::DirectoryOpened { directory, .. } => {
                self.known = BTreeSet::from([directory]);
                vec![
                    Wanted::WatchOpens { directory, on: true },
                    Wanted::List {
                        directory: InDirectory { node: directory, directory },
                        condition: ListCondition::Always,
                    },
                ]
            }
            Event::DirectoryEntered { directory, .. } if self.known.insert(directory) => {
                let condition = ListCondition::InMemory;
                vec![Wanted::List { directory: InDirectory { node: directory, directory }, condition }]
            }
            Event::Listed { directory, entries, .. } => {
                let of = |kind| {
                    let mut nodes: Vec<InDirectory> = entries
                        .iter()
                        .filter(|entry| entry.kind == kind)
                        .map(|entry| InDirectory { node: entry.node, directory })
                        .collect();
                    nodes.sort();
                    nodes
                };
                let (files, directories) = (of(Kind::File), of(Kind::Directory));
                let all = files.iter().chain(&directories);
                let mut nodes: Vec<InodeFetch> =
                    all.map(|which| InodeFetch { which: *which, together: true }).collect();
                nodes.sort();
                let mut commands = vec![
                    Wanted::WatchOpens { directory, on: true },
                    Wanted::FetchMetadata { fetch: self.next(), nodes },
                ];
                commands.extend(
                    directories
                        .into_iter()
                        .filter(|it| self.known.insert(it.node))
                        .map(|directory| Wanted::List { directory, condition: ListCondition::Always }),
                );
                self.waiting.extend(files.iter().map(|file| (file.node, *file)));
                commands.push(Wanted::Place { files });
                commands
            }
            Event::Placed { files } => {
                let mut parts: Vec<Part> = Vec::new();
                for placed in files {
                    let Some(file) = self.waiting.get(&placed.file).copied() else { continue };
                    parts.extend(placed.missing.iter().map(|extent| Part {
                        file,
                        pages: Span::new(extent.page, extent.page + extent.pages),
                        lba: extent.lba,
                    }));
                }
                parts.sort_by_key(|part| part.lba);
                vec![Wanted::Fetch { fetch: self.next(), parts }]
            }
            Event::Overflow => {
                self.known.clear();
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn is_at_rest(&self, _: Instant) -> bool {
        self.at_rest
    }

    fn status(&self) -> Status {
        Status::default()
    }
}
