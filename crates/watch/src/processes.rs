//! The processes that open directories and files: their rights, and whether they count.
//!
//! Credentials are read when a process opens something, and again at an open [`FRESH`] later. The event
//! has a descriptor of the process. The credentials count only if the descriptor shows *afterwards* that the
//! process is still alive: its number cannot have been reused in between.
//!
//! Processes of this program are ignored: this daemon, another one, `foreseek warm`, the server of a `foreseek
//! mount`. Otherwise a daemon's fetches would look like a walk. The kernel's own threads are ignored as well: its
//! servers (NFS, SMB) act for clients, and have the rights of root only to look at.
//!
//! Each event has a new descriptor of the process, which is closed at once. The kernel makes an inode for the first
//! descriptor of a process, and drops it with the last: some microseconds for each event. Hence one descriptor of
//! each process that was looked up lately stays open.
//!
//! Bounds: [`PROCESSES`] are remembered; with more, all are forgotten and looked up again. [`HELD`] descriptors stay
//! open.

use foreseek_storage::{Credentials, DeviceNumber};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, OFlags, StatxFlags, statx};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long credentials count: a process that drops rights keeps them here for this time.
const FRESH: Duration = Duration::from_millis(100);
/// Processes that are remembered, some 200 bytes each: as many as open directories at a time on a busy machine.
const PROCESSES: usize = 4096;
/// Processes of which a descriptor stays open: more than walk at a time on a busy machine.
const HELD: usize = 64;
/// Different credentials that are remembered, so that equal ones are stored once.
const SETS: usize = 256;
/// Descriptors of a process that are searched for a directory. The first ones are searched, since the top of a
/// walk is opened early.
const DESCRIPTORS: usize = 1024;
/// The name of this program.
const PROGRAM: &str = "foreseek";
/// What the kernel adds to the name of a program file that is gone.
const REPLACED: &[u8] = b" (deleted)";

#[derive(Clone, Debug)]
enum Known {
    /// It counts.
    Counts(Counting),
    /// It is a process of this program or of the kernel, until this time.
    Ignored(Instant),
}

#[derive(Clone, Debug)]
struct Counting {
    credentials: Arc<Credentials>,
    /// When these were read.
    read: Instant,
    /// Its name has been given to the caller.
    is_named: bool,
}

/// A process that opened a directory.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    /// The credentials with which it acts on files.
    pub(crate) credentials: Arc<Credentials>,
    /// Its name, if that was just looked up.
    pub(crate) name: Option<Vec<u8>>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Processes {
    own: u32,
    program: Option<PathBuf>,
    known: FxHashMap<u32, Known>,
    sets: Vec<Arc<Credentials>>,
    /// The processes that were looked up last, each with a descriptor.
    held: VecDeque<(u32, OwnedFd)>,
    /// One of this process: its own opens are reported, too.
    _own_held: Option<OwnedFd>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            own: std::process::id(),
            program: std::fs::read_link("/proc/self/exe").ok(),
            known: FxHashMap::default(),
            sets: Vec::new(),
            held: VecDeque::new(),
            _own_held: pidfd_open(getpid(), PidfdFlags::empty()).ok(),
        }
    }
}

impl Processes {
    /// The process that opened a directory; `None` for one that is ignored, and for one that has ended or cannot be
    /// examined.
    pub(crate) fn opener(&mut self, process: u32, fd: Option<OwnedFd>, now: Instant) -> Option<Opener> {
        let credentials = self.rights(process, fd, now)?;
        Some(self.named(process, credentials))
    }

    /// The same for a process that waits for an answer of this one, and is therefore alive.
    pub(crate) fn waiting(&mut self, process: u32, now: Instant) -> Option<Opener> {
        let credentials = self.waiting_rights(process, now)?;
        Some(self.named(process, credentials))
    }

    /// The credentials of the process that opened a file, as [`Self::opener`] has them.
    pub(crate) fn rights(
        &mut self,
        process: u32,
        fd: Option<OwnedFd>,
        now: Instant,
    ) -> Option<Arc<Credentials>> {
        let is_new = !self.is_fresh(process, now);
        let found = self.look(process, now, || fd.as_ref().is_some_and(is_alive));
        // It was just looked up, and is alive.
        let is_new = is_new && (found.is_some() || !self.counts(process, now));
        if let Some(fd) = fd.filter(|_| is_new) {
            self.hold(process, fd);
        }
        found
    }

    /// The same for a process that waits for an answer of this one.
    pub(crate) fn waiting_rights(&mut self, process: u32, now: Instant) -> Option<Arc<Credentials>> {
        self.look(process, now, || true)
    }

    /// Keeps a descriptor of a process that was just looked up.
    fn hold(&mut self, process: u32, fd: OwnedFd) {
        self.held.retain(|(held, _)| *held != process);
        if self.held.len() >= HELD {
            self.held.pop_front();
        }
        self.held.push_back((process, fd));
    }

    fn is_fresh(&self, process: u32, now: Instant) -> bool {
        match self.known.get(&process) {
            Some(Known::Ignored(until)) => now < *until,
            Some(Known::Counts(known)) => now.duration_since(known.read) < FRESH,
            None => false,
        }
    }

    fn look(
        &mut self,
        process: u32,
        now: Instant,
        is_there: impl FnOnce() -> bool,
    ) -> Option<Arc<Credentials>> {
        if !self.counts(process, now) {
            return None;
        }
        if let Some(Known::Counts(known)) = self.known.get(&process).filter(|_| self.is_fresh(process, now)) {
            return Some(known.credentials.clone());
        }
        let credentials = Credentials::of(process)?;
        let is_ignored = self.is_ignored(process);
        if !is_there() {
            return None;
        }
        if self.known.len() >= PROCESSES {
            self.known.clear();
        }
        if is_ignored {
            self.known.insert(process, Known::Ignored(now + FRESH));
            return None;
        }
        let credentials = self.shared(credentials);
        let known = Counting { credentials: credentials.clone(), read: now, is_named: false };
        self.known.insert(process, Known::Counts(known));
        Some(credentials)
    }

    /// Adds the name, once for each look-up.
    fn named(&mut self, process: u32, credentials: Arc<Credentials>) -> Opener {
        let is_named = match self.known.get_mut(&process) {
            Some(Known::Counts(known)) => std::mem::replace(&mut known.is_named, true),
            _ => true,
        };
        let name = || std::fs::read(format!("/proc/{process}/comm")).ok();
        let name = if is_named { None } else { name() };
        Opener { credentials, name: name.map(|name| name.trim_ascii_end().to_vec()) }
    }

    /// Whether the events of a process count: an open by this program is no use of a file.
    pub(crate) fn counts(&self, process: u32, now: Instant) -> bool {
        let is_ignored = matches!(self.known.get(&process), Some(Known::Ignored(until)) if now < *until);
        process != self.own && !is_ignored
    }

    /// Whether a process is of this program or of the kernel, which has no program file.
    fn is_ignored(&self, process: u32) -> bool {
        match std::fs::read_link(format!("/proc/{process}/exe")) {
            Ok(program) => self.is_own_program(program.as_os_str().as_bytes()),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }

    /// Whether a program file is this program, or was until it was replaced.
    fn is_own_program(&self, program: &[u8]) -> bool {
        let program = Path::new(OsStr::from_bytes(program.strip_suffix(REPLACED).unwrap_or(program)));
        self.program.as_deref() == Some(program) || program.file_name().is_some_and(|name| name == PROGRAM)
    }

    /// Stores equal credentials once.
    fn shared(&mut self, credentials: Credentials) -> Arc<Credentials> {
        if let Some(known) = self.sets.iter().find(|known| ***known == credentials) {
            return known.clone();
        }
        if self.sets.len() >= SETS {
            self.sets.clear();
        }
        let new = Arc::new(credentials);
        self.sets.push(new.clone());
        new
    }
}

/// Whether a process that has this directory open has listed any of it: not if each descriptor is at its beginning. `None` if
/// it does not have it open, or cannot be examined. A descriptor with `O_PATH` does not count.
pub(crate) fn has_begun(process: u32, device: DeviceNumber, inode: u64) -> Option<bool> {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let mut found = None;
    for descriptor in descriptors.take(DESCRIPTORS).flatten() {
        let name = descriptor.file_name();
        let Ok(info) = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{}", name.to_string_lossy()))
        else {
            continue;
        };
        let field = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        if field("ino:").is_none_or(|it| it.parse() != Ok(inode))
            || device_of(&descriptor.path()) != Some(device)
        {
            continue;
        }
        let flags = field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
        if flags.is_some_and(|flags| flags & OFlags::PATH.bits() != 0) {
            continue;
        }
        if field("pos:") != Some("0") {
            return Some(true);
        }
        found = Some(false);
    }
    found
}

/// The device of a file. Does not ask a server for it, which may not answer.
fn device_of(path: &Path) -> Option<DeviceNumber> {
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    Some(DeviceNumber { major: found.stx_dev_major, minor: found.stx_dev_minor })
}

/// A process's descriptor becomes readable when the process has ended.
fn is_alive(fd: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&at_once)) == Ok(0)
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    use rustix::process::Pid;
    use std::ffi::CString;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStringExt;
    use std::process::Command;

    fn fd_of(process: u32) -> OwnedFd {
        pidfd_open(Pid::from_raw(process.cast_signed()).unwrap(), PidfdFlags::empty()).unwrap()
    }

    #[test]
    fn a_process_counts_while_it_is_alive_and_this_program_never_does() {
        let (mut processes, now) = (Processes::default(), Instant::now());
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        // A new program runs a moment before it has its name.
        while std::fs::read(format!("/proc/{}/comm", child.id())).unwrap() != b"sleep\n" {
            assert!(now.elapsed() < Duration::from_secs(10), "it does not run");
            std::thread::yield_now();
        }
        let found = processes.opener(child.id(), Some(fd_of(child.id())), now).expect("it is there");
        assert_eq!(found.name.as_deref(), Some(&b"sleep"[..]));
        assert_eq!(found.credentials.user, rustix::process::geteuid().as_raw());
        // For a while it is known without another look-up.
        assert!(processes.opener(child.id(), None, now).is_some_and(|found| found.name.is_none()));
        assert!(processes.opener(child.id(), None, now + FRESH).is_none(), "it is not known for ever");
        let fd = fd_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(processes.opener(child.id(), Some(fd), now + FRESH).is_none());
        let own = std::process::id();
        assert!(processes.opener(own, Some(fd_of(own)), now).is_none());
        assert!(!processes.counts(own, now) && processes.counts(1, now));
    }

    #[test]
    fn a_directory_is_unread_until_a_part_of_it_was_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let stat = rustix::fs::stat(folder.path()).expect("there");
        let has_begun = || has_begun(std::process::id(), DeviceNumber::from_raw(stat.st_dev), stat.st_ino);
        assert_eq!(has_begun(), None, "it is not open");
        let named = rustix::fs::open(folder.path(), OFlags::PATH, rustix::fs::Mode::empty()).expect("opened");
        assert_eq!(has_begun(), None, "a descriptor with O_PATH");
        let file = std::fs::File::open(folder.path()).expect("opened");
        assert_eq!(has_begun(), Some(false));
        let mut all = rustix::fs::Dir::read_from(&file).expect("a directory");
        assert!(all.by_ref().count() >= 2, "at least . and ..");
        drop((named, file));
        assert_eq!(has_begun(), Some(true), "the listing is past its beginning");
        let other = DeviceNumber { major: 0, minor: 0 };
        assert_eq!(super::has_begun(std::process::id(), other, stat.st_ino), None);
    }

    /// A program that holds such a descriptor may be examined all the same.
    #[test]
    fn a_server_that_does_not_answer_is_not_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let fuse = std::fs::File::options().read(true).write(true).open("/dev/fuse");
        let mounted = fuse.map_err(|error| error.to_string()).and_then(|fuse| {
            let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
            let options = CString::new(options).expect("plain");
            mount("silent", folder.path(), "fuse.silent", MountFlags::empty(), Some(options.as_c_str()))
                .map_err(|error| error.to_string())?;
            Ok(fuse)
        });
        let fuse = match mounted {
            Ok(fuse) => fuse,
            Err(error) => return println!("SKIPPED: no FUSE file system can be mounted here: {error}"),
        };
        let held = rustix::fs::open(folder.path(), OFlags::PATH, rustix::fs::Mode::empty()).expect("opened");
        let (to, answer) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let device = DeviceNumber { major: 0, minor: 0 };
            // The inode of a root below FUSE, and another one.
            let _ = to.send([1, 2].map(|inode| has_begun(std::process::id(), device, inode)));
        });
        let answer = answer.recv_timeout(Duration::from_secs(10));
        // Requests that wait for it end with it.
        drop((fuse, held));
        unmount(folder.path(), UnmountFlags::DETACH).expect("unmounted");
        assert_eq!(answer, Ok([None; 2]), "it waits");
    }

    #[test]
    fn a_descriptor_of_each_process_looked_up_last_stays_open() {
        let (mut processes, now) = (Processes::default(), Instant::now());
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        for lookup in 0..3 {
            let at = now + FRESH * lookup;
            assert!(processes.opener(child.id(), Some(fd_of(child.id())), at).is_some());
            assert!(processes.opener(child.id(), Some(fd_of(child.id())), at).is_some());
        }
        assert_eq!(processes.held.iter().map(|(held, _)| *held).collect::<Vec<_>>(), [child.id()]);
        for other in 0..HELD as u32 {
            processes.hold(1_000_000 + other, fd_of(child.id()));
        }
        assert_eq!(processes.held.len(), HELD);
        assert!(processes.held.iter().all(|(held, _)| *held != child.id()), "the oldest one is closed");
        let fd = fd_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(processes.opener(child.id(), Some(fd), now + FRESH * 3).is_none());
        assert!(processes.held.iter().all(|(held, _)| *held != child.id()), "it has ended");
    }

    #[test]
    fn another_process_of_this_program_is_own_program() {
        let (mut processes, now) = (Processes::default(), Instant::now());
        processes.own = 0;
        let own = std::process::id();
        assert!(processes.opener(own, Some(fd_of(own)), now).is_none());
        assert!(!processes.counts(own, now));
        // Its number may be another program's later.
        processes.program = None;
        assert!(processes.counts(own, now + FRESH));
        assert!(processes.opener(own, Some(fd_of(own)), now + FRESH).is_some());
        assert!(processes.counts(own, now + FRESH));
    }

    #[test]
    fn a_program_file_that_was_replaced_is_this_program_still() {
        let mut processes = Processes::default();
        let own = processes.program.clone().expect("it has one").into_os_string().into_vec();
        for (program, is_own) in [
            (&own[..], true),
            (&[&own[..], b" (deleted)"].concat(), true),
            (b"/usr/bin/foreseek", true),
            (b"/usr/bin/foreseek (deleted)", true),
            (b"/usr/bin/foreseek-not (deleted)", false),
            (b"/foreseek/tar", false),
        ] {
            assert_eq!(processes.is_own_program(program), is_own, "{}", program.escape_ascii());
        }
        processes.program = None;
        assert!(!processes.is_own_program(&own));
    }

    #[test]
    fn threads_of_the_kernel_are_ignored() {
        let is_kernel = |process: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            status.contains("\nState:\t") && !status.contains("\nVmSize:") && !status.contains("\nState:\tZ")
        };
        let all =
            std::fs::read_dir("/proc").unwrap().filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
        let Some(thread) = all.filter(is_kernel).min() else {
            println!("SKIPPED: the kernel's threads are not to be seen here");
            return;
        };
        let (mut processes, now) = (Processes::default(), Instant::now());
        assert!(processes.rights(thread, Some(fd_of(thread)), now).is_none(), "{thread}");
        assert!(!processes.counts(thread, now));
    }

    /// A file is often opened by a process that is then seen to open a directory.
    #[test]
    fn the_name_is_given_with_the_first_directory() {
        let (mut processes, now) =
            (Processes { own: 0, program: None, ..Processes::default() }, Instant::now());
        let own = std::process::id();
        let rights = processes.rights(own, Some(fd_of(own)), now).expect("it is there");
        let opener = processes.opener(own, None, now).expect("it is known");
        assert!(Arc::ptr_eq(&rights, &opener.credentials) && opener.name.is_some());
        assert!(processes.opener(own, None, now).expect("it is known").name.is_none());
    }
}
