//! The processes that open directories and files: their rights, and whether they count.
//!
//! Credentials are read when a process opens something, and again at an open [`FRESH`] later. The event
//! has a descriptor of the process. The credentials count only if the descriptor shows *afterwards* that the
//! process is still alive: its number cannot have been reused in between.
//!
//! They are those of some milliseconds after the open. Meanwhile the process may have begun a program whose file gives
//! it other rights (set-user-ID, set-group-ID). Such a program may set all of its ids, so that they do not show who
//! began it. So nothing is known of the rights of a process with such a file, whatever its ids. If the file gives it
//! capabilities, these do not count. Limit: that program may begin another one within those milliseconds.
//!
//! The kernel may not show a process for as long as its user likes: it is looked at [aside](crate::aside). Nothing is
//! known of one that is not shown in time.
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
//! open. [`SETS`] different credentials are stored at a time, shared among users. While there is no room for those of a
//! process, nothing is known of them either.

use crate::aside::Aside;
use foreseek_storage::{Credentials, DeviceNumber, name_of, user_of};
use foreseek_walks::share_left;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, getxattr_query, statx};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
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
/// Different credentials that are stored at a time: more than are busy within a minute on a large server. Each takes
/// 32 KiB at most, all of them 32 MiB.
const SETS: usize = 1024;
/// Descriptors of a process that are searched for a directory. The first ones are searched, since the top of a
/// walk is opened early.
const DESCRIPTORS: usize = 1024;
/// How long they are searched: so many take some 5 ms. A search that ends then is not [late](crate::aside).
const SEARCH: Duration = Duration::from_millis(20);
/// How much of the description of a descriptor is read: position and flags come first, and locks may follow.
const DESCRIPTION: usize = 4096;
/// The name of this program.
const PROGRAM: &str = "foreseek";
/// The attribute with the capabilities of a program file.
const FILE_CAPABILITIES: &str = "security.capability";
/// What the kernel adds to the name of a program file that is gone.
const REPLACED: &[u8] = b" (deleted)";

#[derive(Clone, Debug)]
enum Known {
    /// It counts.
    Counts(Counting),
    /// It is a process of this program or of the kernel, until this time.
    Ignored(Instant),
    /// It counts, and its rights are not known, until this time.
    Unknown(Instant),
}

impl Known {
    fn is_fresh(&self, now: Instant) -> bool {
        match self {
            Self::Ignored(until) | Self::Unknown(until) => now < *until,
            Self::Counts(known) => now.duration_since(known.read) < FRESH,
        }
    }
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
    /// All credentials that are stored anywhere, equal ones once.
    sets: FxHashSet<Arc<Credentials>>,
    /// There was no room for some.
    is_short: bool,
    aside: Aside,
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
            sets: FxHashSet::default(),
            is_short: false,
            aside: Aside::default(),
            held: VecDeque::new(),
            _own_held: pidfd_open(getpid(), PidfdFlags::empty()).ok(),
        }
    }
}

impl Processes {
    /// The process that opened a directory; `None` for one that is ignored, and for one that has ended or whose rights
    /// are not known.
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
        let found = self.look(process, now, false, || fd.as_ref().is_some_and(is_alive));
        // It was just looked up, and is alive.
        let is_new = is_new && self.is_fresh(process, now);
        if let Some(fd) = fd.filter(|_| is_new) {
            self.hold(process, fd);
        }
        found
    }

    /// The same for a process that waits for an answer of this one.
    pub(crate) fn waiting_rights(&mut self, process: u32, now: Instant) -> Option<Arc<Credentials>> {
        self.look(process, now, true, || true)
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
        self.known.get(&process).is_some_and(|known| known.is_fresh(now))
    }

    fn look(
        &mut self,
        process: u32,
        now: Instant,
        waits: bool,
        is_there: impl FnOnce() -> bool,
    ) -> Option<Arc<Credentials>> {
        if !self.counts(process, now) {
            return None;
        }
        match self.known.get(&process).filter(|known| known.is_fresh(now)) {
            Some(Known::Counts(known)) => return Some(known.credentials.clone()),
            Some(_) => return None,
            None => {}
        }
        // In this order: where the rights of a new program were seen, its file is.
        let look = move || {
            let credentials = Credentials::of(process);
            let program = std::fs::read_link(format!("/proc/{process}/exe"));
            let credentials = credentials.filter(|_| !has_set_ids(process, waits));
            (credentials.map(|it| without_those_of_its_file(it, process)), program)
        };
        let (credentials, is_ignored) = match self.aside.run(|| user_of(process), look) {
            Some((credentials, program)) => (credentials, self.is_ignored(program)),
            None => (None, false),
        };
        if !is_there() {
            return None;
        }
        if self.known.len() >= PROCESSES {
            self.known.clear();
        }
        let credentials = credentials.filter(|_| !is_ignored);
        let credentials = credentials.and_then(|credentials| self.shared(credentials, now));
        let known = match &credentials {
            Some(it) => Known::Counts(Counting { credentials: it.clone(), read: now, is_named: false }),
            None if is_ignored => Known::Ignored(now + FRESH),
            None => Known::Unknown(now + FRESH),
        };
        self.known.insert(process, known);
        credentials
    }

    /// Adds the name, once for each look-up.
    fn named(&mut self, process: u32, credentials: Arc<Credentials>) -> Opener {
        let is_named = match self.known.get_mut(&process) {
            Some(Known::Counts(known)) => std::mem::replace(&mut known.is_named, true),
            _ => true,
        };
        Opener { credentials, name: if is_named { None } else { name_of(process) } }
    }

    /// Whether the events of a process count: an open by this program is no use of a file.
    pub(crate) fn counts(&self, process: u32, now: Instant) -> bool {
        let is_ignored = matches!(self.known.get(&process), Some(Known::Ignored(until)) if now < *until);
        process != self.own && !is_ignored
    }

    /// Whether a process that was not found counts, and had ended. Otherwise it goes on, and its rights are not known.
    pub(crate) fn has_ended(&self, process: u32, now: Instant) -> bool {
        self.counts(process, now) && !self.is_fresh(process, now)
    }

    /// Whether there was no room for some credentials since the last call.
    pub(crate) fn is_short(&mut self) -> bool {
        std::mem::take(&mut self.is_short)
    }

    /// Whether a process with this program file is of this program or of the kernel, which has none.
    fn is_ignored(&self, program: std::io::Result<PathBuf>) -> bool {
        match program {
            Ok(program) => self.is_own_program(program.as_os_str().as_bytes()),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }

    /// Whether a program file is this program, or was until it was replaced.
    fn is_own_program(&self, program: &[u8]) -> bool {
        let program = Path::new(OsStr::from_bytes(program.strip_suffix(REPLACED).unwrap_or(program)));
        self.program.as_deref() == Some(program) || program.file_name().is_some_and(|name| name == PROGRAM)
    }

    /// Stores equal credentials once; `None` if there is no room for others.
    fn shared(&mut self, credentials: Credentials, now: Instant) -> Option<Arc<Credentials>> {
        if let Some(known) = self.sets.get(&credentials) {
            return Some(known.clone());
        }
        if !self.has_room_for(credentials.user) {
            // Those that nobody uses make room. What is still to be known of processes needs theirs.
            self.known.retain(|_, known| known.is_fresh(now));
            self.sets.retain(|set| Arc::strong_count(set) > 1);
            if !self.has_room_for(credentials.user) {
                self.is_short = true;
                return None;
            }
        }
        let new = Arc::new(credentials);
        self.sets.insert(new.clone());
        Some(new)
    }

    fn has_room_for(&self, user: u32) -> bool {
        let own = self.sets.iter().filter(|set| set.user == user).count();
        share_left(own as u64, self.sets.len() as u64, SETS as u64) > 0
    }
}

/// Whether a process runs a program whose file gives it other rights than its user's. `waits`: whether it waits for this
/// process, and cannot have begun the program meanwhile.
fn has_set_ids(process: u32, waits: bool) -> bool {
    match look_at(Path::new(&format!("/proc/{process}/exe")), StatxFlags::MODE) {
        Ok(found) => sets_ids(found.stx_mode),
        // The server of a mount may lack the rights to look.
        Err(error) => !(waits && matches!(error, Errno::ACCESS | Errno::PERM)),
    }
}

/// The credentials of a process without the capabilities that the file of its program gives it. A service that was given
/// them otherwise keeps them.
fn without_those_of_its_file(credentials: Credentials, process: u32) -> Credentials {
    if !credentials.have_capabilities_of_a_user() {
        return credentials;
    }
    match getxattr_query(format!("/proc/{process}/exe"), FILE_CAPABILITIES) {
        // It has none, or is on a file system that knows none.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => credentials,
        _ => credentials.without_capabilities(),
    }
}

/// Whether a file of this mode sets ids. On a mount that forbids it, it does not, and a program there loses nothing but
/// reading ahead.
fn sets_ids(mode: u16) -> bool {
    Mode::from_raw_mode(mode.into()).intersects(Mode::SUID | Mode::SGID)
}

/// Looks at a file, and asks no server, which may not answer.
fn look_at(path: &Path, what: StatxFlags) -> Result<Statx, Errno> {
    statx(CWD, path, AtFlags::STATX_DONT_SYNC, what)
}

/// Whether a process that has this directory open has listed any of it: not if each descriptor is at its beginning. `None` if
/// it does not have it open, or cannot be examined. A descriptor with `O_PATH` does not count.
pub(crate) fn has_begun(process: u32, device: DeviceNumber, inode: u64) -> Option<bool> {
    let until = Instant::now() + SEARCH;
    let goes_on = || Instant::now() < until;
    has_begun_within(&Path::new("/proc").join(process.to_string()), device, inode, goes_on)
}

/// The same by the folder of a process, while the search goes on.
///
/// A description (`fdinfo`) may have any length, as that of inotify with a line for each watched directory, or wait for
/// another process, as that of epoll. Only that of the directory is read. Its name and its inode are asked for first,
/// which waits for nobody.
fn has_begun_within(
    process: &Path,
    device: DeviceNumber,
    inode: u64,
    goes_on: impl Fn() -> bool,
) -> Option<bool> {
    let descriptors = std::fs::read_dir(process.join("fd")).ok()?;
    let mut found = None;
    for descriptor in descriptors.take(DESCRIPTORS).flatten().take_while(|_| goes_on()) {
        let path = descriptor.path();
        let has_path = std::fs::read_link(&path).is_ok_and(|name| name.is_absolute());
        if !has_path || !is_directory(&path, device, inode) {
            continue;
        }
        let info = process.join("fdinfo").join(descriptor.file_name());
        let Some(info) = beginning(&info) else { continue };
        let field = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let Some(position) = field("pos:") else { continue };
        let flags = field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
        if flags.is_some_and(|flags| flags & OFlags::PATH.bits() != 0) {
            continue;
        }
        if position != "0" {
            return Some(true);
        }
        found = Some(false);
    }
    found
}

/// Whether a file is this directory.
fn is_directory(path: &Path, device: DeviceNumber, inode: u64) -> bool {
    look_at(path, StatxFlags::TYPE | StatxFlags::INO).is_ok_and(|found| {
        let on = DeviceNumber { major: found.stx_dev_major, minor: found.stx_dev_minor };
        let is_directory = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
        is_directory && found.stx_ino == inode && on == device
    })
}

/// The beginning of a description.
fn beginning(path: &Path) -> Option<String> {
    let mut text = [0; DESCRIPTION];
    let length = File::open(path).ok()?.read(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text[..length]).into_owned())
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
    use rustix::fs::{StatVfsMountFlags, XattrFlags, setxattr};
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

    #[test]
    fn of_all_descriptors_only_that_of_the_directory_is_described() {
        use rustix::event::epoll;
        use rustix::fs::inotify;
        let folder = tempfile::tempdir().expect("a folder");
        let stat = rustix::fs::stat(folder.path()).expect("there");
        let device = DeviceNumber::from_raw(stat.st_dev);
        // They have descriptions of any length, no path or another inode.
        let polled = epoll::create(epoll::CreateFlags::CLOEXEC).expect("made");
        let watched = inotify::init(inotify::CreateFlags::CLOEXEC).expect("made");
        inotify::add_watch(&watched, folder.path(), inotify::WatchFlags::CREATE).expect("watched");
        let others = (
            polled,
            watched,
            std::os::unix::net::UnixStream::pair().expect("made"),
            File::open("/").expect("opened"),
        );
        let begun = || has_begun(std::process::id(), device, stat.st_ino);
        assert_eq!(begun(), None);
        let opened = File::open(folder.path()).expect("opened");
        assert_eq!(begun(), Some(false));
        drop((others, opened));
        // A process of files: what is read of it is known exactly.
        let place = tempfile::tempdir().expect("a folder");
        for part in ["fd", "fdinfo"] {
            std::fs::create_dir(place.path().join(part)).expect("made");
        }
        let has = |number: &str, target: &Path, description: &str| {
            let fd = place.path().join("fd").join(number);
            let _ = std::fs::remove_file(&fd);
            std::os::unix::fs::symlink(target, fd).expect("made");
            std::fs::write(place.path().join("fdinfo").join(number), description).expect("written");
        };
        let begun = || has_begun_within(place.path(), device, stat.st_ino, || true);
        let past = "pos:\t7\nflags:\t0100000\nino:\t1\n";
        let other = tempfile::tempdir().expect("a folder");
        has("3", other.path(), past);
        has("4", Path::new("pipe:[1]"), past);
        std::os::unix::fs::symlink(folder.path(), place.path().join("without a path")).expect("made");
        has("5", Path::new("../without a path"), past);
        assert_eq!(begun(), None);
        // Of a long description the beginning is read.
        has("6", folder.path(), &format!("{}\n{past}", "lock:\n".repeat(DESCRIPTION / 6)));
        assert_eq!(begun(), None);
        has("6", folder.path(), &format!("pos:\t0\nflags:\t0100000\n{}", "lock:\n".repeat(DESCRIPTION)));
        assert_eq!(begun(), Some(false));
        has("7", folder.path(), past);
        assert_eq!(begun(), Some(true));
        assert_eq!(has_begun_within(place.path(), device, stat.st_ino, || false), None, "the time is over");
        assert_eq!(has_begun_within(place.path(), device, stat.st_ino + 1, || true), None);
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

    /// With these supplementary groups.
    fn credentials(user: u32, groups: usize) -> Credentials {
        let status = format!("Uid:\t{user}\t0\t0\t{user}\nGid:\t0\t0\t0\t0\nGroups:\t{groups}\nCapEff:\t0\n");
        Credentials::parse(&status, true).unwrap()
    }

    #[test]
    fn no_user_has_more_credentials_stored_than_there_is_room_for() {
        let (mut processes, now) = (Processes::default(), Instant::now());
        // Each takes what there is room for.
        let fill = |processes: &mut Processes, user: u32| -> Vec<Arc<Credentials>> {
            (0..2 * SETS).map_while(|which| processes.shared(credentials(user, which), now)).collect()
        };
        let mut of_one = fill(&mut processes, 1000);
        assert!(of_one.len() <= SETS * 4 / 5 && of_one.len() > SETS / 2, "{}", of_one.len());
        assert!(processes.is_short() && !processes.is_short());
        let of_another = fill(&mut processes, 1001);
        assert!(of_another.len() > SETS / 10, "{}", of_another.len());
        assert_eq!(processes.sets.len(), of_one.len() + of_another.len());
        // Equal ones are stored once.
        let equal = processes.shared(credentials(1000, 0), now).unwrap();
        assert!(Arc::ptr_eq(&equal, &of_one[0]));
        drop(equal);
        // Those that nobody uses any more make room, but for processes that are known to have them at present.
        let credentials_of_a_process = of_one.remove(0);
        let known = Counting { credentials: credentials_of_a_process, read: now, is_named: false };
        processes.known.insert(7, Known::Counts(known));
        let last = of_another.len();
        assert!(processes.shared(credentials(1001, last), now).is_none());
        assert!(processes.sets.contains(&credentials(1000, 0)));
        let _ = processes.shared(credentials(1001, last), now + FRESH);
        assert!(processes.known.is_empty() && !processes.sets.contains(&credentials(1000, 0)));
        of_one.clear();
        assert!(processes.shared(credentials(1001, last), now).is_some());
        assert_eq!(processes.sets.len(), of_another.len() + 1);
    }

    /// A copy of a program that waits.
    fn copy_of_sleep(place: &Path) -> PathBuf {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let program = place.join("sleep");
        std::fs::copy(format!("/proc/{}/exe", child.id()), &program).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        program
    }

    fn set_mode(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Runs a command that becomes that copy, and waits until it has.
    fn run(program: impl AsRef<OsStr>, arguments: &[&OsStr]) -> std::process::Child {
        let begun = Instant::now();
        let mut child = None;
        loop {
            assert!(begun.elapsed() < Duration::from_secs(10), "it does not run");
            let now: &mut std::process::Child = match &mut child {
                Some(child) => child,
                None => match Command::new(&program).args(arguments).arg("1000").spawn() {
                    Ok(new) => child.insert(new),
                    // Another test begins a program meanwhile, and has the copy open in it for a moment.
                    Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => continue,
                    Err(error) => panic!("{error}"),
                },
            };
            if std::fs::read(format!("/proc/{}/comm", now.id())).unwrap() == b"sleep\n" {
                return child.unwrap();
            }
            // The first program may have found it open.
            if now.try_wait().unwrap().is_some() {
                child = None;
            }
            std::thread::yield_now();
        }
    }

    /// Its user may have opened something before it began, and its ids may not show that.
    #[test]
    fn nothing_is_known_of_a_program_whose_file_sets_ids() {
        assert!([0o4755, 0o2755, 0o6711, 0o104_755].into_iter().all(sets_ids));
        assert!(![0o755, 0o1777, 0o100_755, 0].into_iter().any(sets_ids));
        for (mode, is_known) in [(0o4755, false), (0o2755, false), (0o755, true)] {
            let place = tempfile::tempdir().unwrap();
            let (mut processes, now) = (Processes::default(), Instant::now());
            let program = copy_of_sleep(place.path());
            set_mode(&program, mode);
            let mut child = run(&program, &[]);
            let fd = || Some(fd_of(child.id()));
            assert_eq!(processes.rights(child.id(), fd(), now).is_some(), is_known, "{mode:o}");
            assert!(processes.counts(child.id(), now) && !processes.has_ended(child.id(), now), "{mode:o}");
            // For a while it is not looked at again.
            assert_eq!(processes.rights(child.id(), None, now).is_some(), is_known, "{mode:o}");
            assert!(!processes.has_ended(child.id(), now), "{mode:o}");
            assert!(processes.rights(child.id(), None, now + FRESH).is_none());
            assert!(processes.has_ended(child.id(), now + FRESH));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn capabilities_count_unless_the_program_file_gives_them() {
        let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
        if !rustix::process::geteuid().is_root() || !has_setpriv {
            return println!("SKIPPED: programs with capabilities need root and setpriv (util-linux)");
        }
        // The second revision, effective, with CAP_DAC_READ_SEARCH.
        let of_file: Vec<u8> =
            [0x0200_0001_u32, 1 << 2, 0, 0, 0].iter().flat_map(|it| it.to_le_bytes()).collect();
        let of_service = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"];
        for (is_of_file, more) in [(true, &[][..]), (false, &of_service[..])] {
            let place = tempfile::tempdir().unwrap();
            set_mode(place.path(), 0o755);
            let program = copy_of_sleep(place.path());
            set_mode(&program, 0o755);
            let mount = rustix::fs::statvfs(&program).unwrap().f_flag;
            if is_of_file && mount.contains(StatVfsMountFlags::NOSUID) {
                println!("SKIPPED: files in {} give no capabilities", place.path().display());
                continue;
            }
            if is_of_file {
                setxattr(&program, FILE_CAPABILITIES, &of_file, XattrFlags::empty()).unwrap();
            }
            let arguments = [&["--reuid=65534", "--clear-groups"], more].concat();
            let mut arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
            arguments.push(program.as_os_str());
            let mut child = run("setpriv", &arguments);
            let (mut processes, now) = (Processes::default(), Instant::now());
            let mut seen = Credentials::of(child.id()).unwrap();
            // It has its name a moment earlier.
            while !seen.have_capabilities_of_a_user() {
                assert!(now.elapsed() < Duration::from_secs(10), "{seen:?}");
                seen = Credentials::of(child.id()).unwrap();
            }
            let rights = processes.rights(child.id(), Some(fd_of(child.id())), now);
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(seen.user, 65534);
            let count = if is_of_file { seen.without_capabilities() } else { seen };
            assert_eq!(rights.as_deref(), Some(&count));
        }
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
