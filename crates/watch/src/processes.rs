//! The processes that open directories: with whose rights, and whether they count.
//!
//! Credentials are read when a process opens a directory, and again when it opens one [`FRESH`] later. The
//! event brings a descriptor of the process, and only if that says *afterwards* that the process is
//! still there do the credentials count: its number cannot have gone to another one in between.
//!
//! Processes of this program are passed over: this daemon, another one, `foreseek warm`, the server of a `foreseek mount`. What
//! a daemon fetches must not be taken for a walk.
//!
//! Bounds: [`PROCESSES`] are remembered; where there are more, all are forgotten and looked at anew.

use foreseek_storage::{Credentials, DeviceNumber};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long credentials count: a process that gives up rights keeps them here for so long.
const FRESH: Duration = Duration::from_millis(100);
/// Processes that are remembered, some 200 bytes each: as many as open directories at a time on a busy
/// machine.
const PROCESSES: usize = 4096;
/// Different credentials that are remembered, so that equal ones are one.
const SETS: usize = 256;
/// Descriptors of a process that are looked at for a directory: those that it opened first, as the top of a walk is.
const DESCRIPTORS: usize = 1024;
/// The name of this program.
const PROGRAM: &str = "foreseek";

#[derive(Clone, Debug)]
enum Known {
    /// It counts, with these rights; found at that time.
    Counts(Arc<Credentials>, Instant),
    /// It is one of ours, until that time.
    Ours(Instant),
}

/// What a process that opened a directory is.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    /// As whom it acts on files.
    pub(crate) credentials: Arc<Credentials>,
    /// Its name, where it was looked at anew.
    pub(crate) name: Option<Vec<u8>>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Processes {
    own: u32,
    program: Option<PathBuf>,
    known: FxHashMap<u32, Known>,
    sets: Vec<Arc<Credentials>>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            own: std::process::id(),
            program: std::fs::read_link("/proc/self/exe").ok(),
            known: FxHashMap::default(),
            sets: Vec::new(),
        }
    }
}

impl Processes {
    /// Who opened a directory; nothing for one of ours, and for one that is gone or cannot be looked at.
    pub(crate) fn opener(&mut self, process: u32, fd: Option<OwnedFd>, now: Instant) -> Option<Opener> {
        self.opener_if(process, now, || fd.is_some_and(|fd| is_alive(&fd)))
    }

    /// The same of a process that waits for an answer of this one, and so is there.
    pub(crate) fn waiting(&mut self, process: u32, now: Instant) -> Option<Opener> {
        self.opener_if(process, now, || true)
    }

    fn opener_if(&mut self, process: u32, now: Instant, is_there: impl FnOnce() -> bool) -> Option<Opener> {
        if process == self.own {
            return None;
        }
        match self.known.get(&process) {
            Some(Known::Ours(until)) if now < *until => return None,
            Some(Known::Counts(credentials, at)) if now.duration_since(*at) < FRESH => {
                return Some(Opener { credentials: credentials.clone(), name: None });
            }
            _ => {}
        }
        let credentials = Credentials::of(process)?;
        let ours = self.is_ours(process);
        let name = std::fs::read(format!("/proc/{process}/comm")).ok();
        if !is_there() {
            return None;
        }
        if self.known.len() >= PROCESSES {
            self.known.clear();
        }
        if ours {
            self.known.insert(process, Known::Ours(now + FRESH));
            return None;
        }
        let credentials = self.shared(credentials);
        self.known.insert(process, Known::Counts(credentials.clone(), now));
        Some(Opener { credentials, name: name.map(|name| name.trim_ascii_end().to_vec()) })
    }

    /// Whether the events of a process count: files that ours open are no use of them.
    pub(crate) fn counts(&mut self, process: u32) -> bool {
        let known_ours = matches!(self.known.get(&process), Some(Known::Ours(_)));
        process != self.own && !known_ours
    }

    fn is_ours(&self, process: u32) -> bool {
        let Ok(program) = std::fs::read_link(format!("/proc/{process}/exe")) else { return false };
        self.program.as_ref() == Some(&program) || program.file_name().is_some_and(|name| name == PROGRAM)
    }

    /// Equal credentials are kept once.
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

/// Whether a process has this directory open and has listed nothing of it: it stands at its beginning in each
/// descriptor. A descriptor that only names it (`O_PATH`) says nothing. Where a process cannot be looked at it has not.
pub(crate) fn has_unread(process: u32, device: DeviceNumber, inode: u64) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let mut unread = false;
    for descriptor in descriptors.take(DESCRIPTORS).flatten() {
        let is_it = rustix::fs::stat(descriptor.path())
            .is_ok_and(|stat| stat.st_ino == inode && DeviceNumber::from_raw(stat.st_dev) == device);
        if !is_it {
            continue;
        }
        let name = descriptor.file_name();
        let Ok(info) = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{}", name.to_string_lossy()))
        else {
            continue;
        };
        let field = |key: &str| info.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let flags = field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
        if flags.is_some_and(|flags| flags & OFlags::PATH.bits() != 0) {
            continue;
        }
        if field("pos:") != Some("0") {
            return false;
        }
        unread = true;
    }
    unread
}

/// A descriptor of a process becomes readable when the process has ended.
fn is_alive(fd: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&at_once)) == Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::process::Command;

    fn fd_of(process: u32) -> OwnedFd {
        pidfd_open(Pid::from_raw(process.cast_signed()).unwrap(), PidfdFlags::empty()).unwrap()
    }

    #[test]
    fn a_process_counts_as_long_as_it_is_there_and_ours_never_do() {
        let (mut processes, now) = (Processes::default(), Instant::now());
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let told = processes.opener(child.id(), Some(fd_of(child.id())), now).expect("it is there");
        assert_eq!(told.name.as_deref(), Some(&b"sleep"[..]));
        assert_eq!(told.credentials.user, rustix::process::geteuid().as_raw());
        // Within a while it is known without another look.
        assert!(processes.opener(child.id(), None, now).is_some_and(|told| told.name.is_none()));
        assert!(processes.opener(child.id(), None, now + FRESH).is_none(), "nothing names it for good");
        let fd = fd_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(processes.opener(child.id(), Some(fd), now + FRESH).is_none());
        let own = std::process::id();
        assert!(processes.opener(own, Some(fd_of(own)), now).is_none());
        assert!(!processes.counts(own) && processes.counts(1));
    }

    #[test]
    fn a_directory_is_unread_until_something_of_it_was_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let stat = rustix::fs::stat(folder.path()).expect("there");
        let has_unread = || has_unread(std::process::id(), DeviceNumber::from_raw(stat.st_dev), stat.st_ino);
        assert!(!has_unread(), "nobody has it open");
        let named = rustix::fs::open(folder.path(), OFlags::PATH, rustix::fs::Mode::empty()).expect("opened");
        assert!(!has_unread(), "a descriptor that only names it");
        let file = std::fs::File::open(folder.path()).expect("opened");
        assert!(has_unread());
        let mut all = rustix::fs::Dir::read_from(&file).expect("a directory");
        assert!(all.by_ref().count() >= 2, "at least . and ..");
        drop((named, file));
        assert!(!has_unread(), "the listing has come past its beginning");
        let other = DeviceNumber { major: 0, minor: 0 };
        assert!(!super::has_unread(std::process::id(), other, stat.st_ino));
    }

    #[test]
    fn another_process_of_this_program_is_ours() {
        let (mut processes, now) = (Processes::default(), Instant::now());
        processes.own = 0;
        let own = std::process::id();
        assert!(processes.opener(own, Some(fd_of(own)), now).is_none());
        assert!(!processes.counts(own));
    }
}
