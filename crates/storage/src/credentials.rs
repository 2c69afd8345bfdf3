//! Access checks with another process's credentials, done by the kernel.
//!
//! A daemon that runs as root and reacts to other processes must not read for them what they may not read. It
//! takes the process's file system user, groups and capabilities from `/proc/PID/status`, gives them to *its
//! own thread* for the time of a check, and asks the kernel (`faccessat2` with `AT_EACCESS`). Mode bits,
//! access control lists and whatever else the file system checks are thus checked by the kernel itself. knfsd
//! does the same for its clients (`nfsd_setuser`).
//!
//! An `O_PATH` descriptor pins the file while it is checked, and the file is opened through that descriptor:
//! it cannot be replaced in between.
//!
//! A process may have several identities, and what is checked must be permitted to each. Its threads may differ: the
//! first [`THREADS`] are looked at. If a user started a program that has other rights (set-user-ID, set-group-ID), it
//! may have opened something before: the user's own identity counts as well, without capabilities.
//!
//! Capabilities count only for a process of this process's own user namespace: those of another namespace do
//! not apply to files here.
//!
//! Limits: security modules use the label of this process, not of the other one. On a mount with mapped ids,
//! the mapping of the mount that this process uses counts. Of the other process's capabilities, only
//! CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH count. A thread that takes over a user's ids for a single request (the NFS
//! server nfs-ganesha) may have its own again when it is looked at. Ids do not show that a program has capabilities of its
//! file, without which its user may have opened something before ([`Credentials::without_capabilities`]).
#![allow(unsafe_code)]

use crate::advice::last_error;
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::Gid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups};
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The capabilities that override file permissions.
const FILE_CAPABILITIES: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// Threads of a process that are looked at, some 15 us each. Archivers and search programs have fewer.
const THREADS: usize = 32;
/// The most identities of a process, the groups of all of them together, and the longest text of one. Where there is more,
/// they are not known. Directory services give a user some 1,000 groups at most (Active Directory: 1,015). The kernel
/// allows 65,536, and who has a range of group ids could make thousands of such credentials. So they take 32 KiB at most.
const IDENTITIES: usize = 8;
const GROUPS: usize = IDENTITIES * 1024;
const TEXT: u64 = 32 * 1024;

/// The identities with which a process accesses files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// The user (`fsuid`).
    pub user: u32,
    identities: Vec<Identity>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    user: u32,
    group: u32,
    groups: Box<[u32]>,
    /// Those of [`FILE_CAPABILITIES`] that it has.
    capabilities: CapabilitySet,
}

impl Credentials {
    /// The credentials of a process now; `None` where it has ended or `/proc` cannot be read. The process id
    /// may have been reused: a caller that must be sure holds a pidfd and checks *afterwards* that the
    /// process is alive.
    #[must_use]
    pub fn of(process: u32) -> Option<Self> {
        // A program's name in it may be cut in the middle of a character.
        let read = |path: String| {
            let mut text = Vec::new();
            std::fs::File::open(path).ok()?.take(TEXT).read_to_end(&mut text).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        };
        let status = read(format!("/proc/{process}/status"))?;
        let own = std::fs::read_link("/proc/self/ns/user").ok();
        let its = std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
        let own_namespace = own.is_some() && own == its;
        let mut credentials = Self::parse(&status, own_namespace)?;
        if field(&status, "Threads") != Some("1") {
            let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
            for thread in threads.take(THREADS).flatten() {
                // It may have ended.
                let Some(status) = read(format!("{}/status", thread.path().display())) else { continue };
                let thread = Self::parse(&status, own_namespace)?;
                thread.identities.into_iter().for_each(|it| credentials.add(it));
            }
        }
        Some(credentials).filter(Self::is_bounded)
    }

    fn is_bounded(&self) -> bool {
        let groups: usize = self.identities.iter().map(|identity| identity.groups.len()).sum();
        self.identities.len() <= IDENTITIES && groups <= GROUPS
    }

    /// From the text of `/proc/PID/status`.
    #[must_use]
    pub fn parse(status: &str, own_namespace: bool) -> Option<Self> {
        if status.len() as u64 >= TEXT {
            return None;
        }
        // Real, effective, saved, file system.
        let numbers = |name| -> Option<Vec<u32>> {
            field(status, name)?.split_ascii_whitespace().map(|it| it.parse().ok()).collect()
        };
        let [real, _, _, user] = numbers("Uid")?.try_into().ok()?;
        let [real_group, _, _, group] = numbers("Gid")?.try_into().ok()?;
        let groups = numbers("Groups")?.into_boxed_slice();
        let bits = u64::from_str_radix(field(status, "CapEff")?, 16).ok()?;
        let bits = if own_namespace { bits } else { 0 };
        let capabilities = CapabilitySet::from_bits_retain(bits).intersection(FILE_CAPABILITIES);
        let mut all =
            Self { user, identities: vec![Identity { user, group, groups: groups.clone(), capabilities }] };
        // Root that acts for a user has no fewer rights itself.
        if real != 0 && (real, real_group) != (user, group) {
            let capabilities = CapabilitySet::empty();
            all.add(Identity { user: real, group: real_group, groups, capabilities });
        }
        Some(all)
    }

    fn add(&mut self, identity: Identity) {
        if !self.identities.contains(&identity) {
            self.identities.push(identity);
        }
    }

    /// Whether a user other than root has capabilities that override file permissions.
    #[must_use]
    pub fn have_capabilities_of_a_user(&self) -> bool {
        self.identities.iter().any(Identity::is_capable_user)
    }

    /// The same where users other than root have none of these.
    #[must_use]
    pub fn without_capabilities(mut self) -> Self {
        for identity in self.identities.iter_mut().filter(|identity| identity.is_capable_user()) {
            identity.capabilities = CapabilitySet::empty();
        }
        self
    }

    /// Whether `check` returns `true` with each of its identities. While it runs, this thread accesses files as the other
    /// process. Only checks belong there: an `open` would be that user's, too. The user may lack the right to `O_NOATIME`.
    ///
    /// # Errors
    /// The error of `check`, or the kernel's where this thread may not change its credentials (it needs CAP_SETUID,
    /// CAP_SETGID and CAP_SETPCAP) or cannot restore them. In the second case its other calls are denied.
    pub fn permit(&self, mut check: impl FnMut() -> Result<bool, Errno>) -> Result<bool, Errno> {
        for identity in &self.identities {
            if !identity.acting(&mut check)?? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A field of `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

impl Identity {
    fn is_capable_user(&self) -> bool {
        self.user != 0 && !self.capabilities.is_empty()
    }

    fn acting<R>(&self, work: impl FnOnce() -> R) -> Result<R, Errno> {
        let own = Own::now()?;
        let entered = self.enter(&own);
        let result = entered.map(|()| work());
        own.restore()?;
        result
    }

    fn enter(&self, own: &Own) -> Result<(), Errno> {
        let groups: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        set_thread_groups(&groups)?;
        set_file_ids(self.user, self.group)?;
        // Setting the user has removed or added the file capabilities.
        let sets = capabilities(None)?;
        let effective = sets
            .effective
            .difference(FILE_CAPABILITIES)
            .union(self.capabilities.intersection(own.sets.permitted));
        set_capabilities(None, CapabilitySets { effective, ..sets })
    }
}

/// The credentials of this thread.
struct Own {
    user: u32,
    group: u32,
    groups: Vec<Gid>,
    sets: CapabilitySets,
}

impl Own {
    fn now() -> Result<Self, Errno> {
        Ok(Self {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            groups: rustix::process::getgroups()?,
            sets: capabilities(None)?,
        })
    }

    fn restore(self) -> Result<(), Errno> {
        // All of them, whichever fails.
        let ids = set_file_ids(self.user, self.group);
        let groups = set_thread_groups(&self.groups);
        let sets = set_capabilities(None, self.sets);
        ids.and(groups).and(sets)
    }
}

/// Sets the file system user and group of this thread. The calls return the previous value, so that only a
/// second call shows whether the first one worked.
fn set_file_ids(user: u32, group: u32) -> Result<(), Errno> {
    // SAFETY: no memory is passed; both concern the calling thread alone.
    let done = unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
        libc::setfsgid(u32::MAX).cast_unsigned() == group && libc::setfsuid(u32::MAX).cast_unsigned() == user
    };
    if done { Ok(()) } else { Err(Errno::PERM) }
}

/// Whether this thread, with its current credentials, has this access to an open file or directory (`O_PATH`
/// suffices).
///
/// # Errors
/// The kernel's error, other than that access is denied.
pub fn may(fd: BorrowedFd<'_>, access: Access) -> Result<bool, Errno> {
    let flags = libc::AT_EACCESS | libc::AT_EMPTY_PATH;
    let mode = access.bits();
    // SAFETY: the path is an empty string; the kernel checks the rest.
    let result = unsafe { libc::syscall(libc::SYS_faccessat2, fd.as_raw_fd(), c"".as_ptr(), mode, flags) };
    match if result == 0 { Ok(()) } else { Err(last_error()) } {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{PermissionsExt, chown};

    const STATUS: &str = "Name:\tgrep\nUid:\t1003\t1001\t1002\t1003\nGid:\t8\t6\t7\t8\nThreads:\t1\n\
                          Groups:\t4 24 27 \nCapPrm:\tffff\nCapEff:\t0000000000000006\n";

    #[test]
    fn the_file_system_ids_and_the_capabilities_count() {
        let identity = |credentials: &Credentials| {
            let [only] = &credentials.identities[..] else { panic!("{credentials:?}") };
            (only.user, only.group, only.groups.to_vec(), only.capabilities)
        };
        let other = Credentials::parse(STATUS, true).unwrap();
        assert_eq!(identity(&other), (1003, 8, vec![4, 24, 27], FILE_CAPABILITIES));
        let foreign = Credentials::parse(STATUS, false).unwrap();
        assert_eq!(identity(&foreign).3, CapabilitySet::empty());
        assert!(other.have_capabilities_of_a_user() && !foreign.have_capabilities_of_a_user());
        assert_eq!(other.clone().without_capabilities(), foreign);
        let root = Credentials::parse(&STATUS.replace("1003", "0"), true).unwrap();
        assert!(!root.have_capabilities_of_a_user());
        assert_eq!(root.clone().without_capabilities(), root);
        // Root acts for a user.
        let server = STATUS.replace("Uid:\t1003", "Uid:\t0").replace("Gid:\t8", "Gid:\t0");
        assert_eq!(Credentials::parse(&server, true), Some(other));
        for cut in 0..STATUS.len() - 20 {
            let _ = Credentials::parse(&STATUS[..cut], true);
        }
        assert!(Credentials::parse("Uid: 1 2 3\n", true).is_none());
        let long = format!("{STATUS}Groups:\t{}\n", "1 ".repeat(TEXT as usize / 2));
        assert!(Credentials::parse(&long, true).is_none());
    }

    #[test]
    fn what_is_stored_of_a_process_is_bounded() {
        let of = |user: u32, groups: usize| {
            let status = STATUS.replace("1003", &user.to_string()).replace("4 24 27 ", &"7 ".repeat(groups));
            Credentials::parse(&status, true).unwrap()
        };
        let together = |number: u32, groups: usize| {
            let mut all = of(0, groups);
            (1..number).for_each(|user| all.add(of(user, groups).identities.remove(0)));
            all.is_bounded()
        };
        assert!(together(1, GROUPS) && !together(1, GROUPS + 1));
        assert!(together(8, GROUPS / 8) && !together(8, GROUPS / 8 + 1));
        assert!(!together(9, 0));
    }

    /// The program that opened something may have been another one, without these rights.
    #[test]
    fn who_started_a_program_with_other_rights_must_be_permitted_as_well() {
        for (status, [user, group]) in [
            (STATUS.replace("Uid:\t1003", "Uid:\t1000"), [1000, 8]),
            (STATUS.replace("Gid:\t8", "Gid:\t5"), [1003, 5]),
        ] {
            let both = Credentials::parse(&status, true).unwrap();
            let [acts, real] = &both.identities[..] else { panic!("{both:?}") };
            assert_eq!((both.user, acts.user, acts.group), (1003, 1003, 8));
            assert_eq!((real.user, real.group, real.capabilities), (user, group, CapabilitySet::empty()));
            assert_eq!(real.groups, acts.groups);
        }
    }

    /// The kernel cuts names of programs after 15 bytes.
    #[test]
    fn a_name_that_ends_within_a_character_hides_nothing() {
        let (sleep, place) = (which("sleep"), tempfile::tempdir().unwrap());
        let program = place.path().join("\u{43f}\u{440}\u{43e}\u{433}\u{440}\u{430}\u{43c}\u{43c}\u{430}");
        std::os::unix::fs::symlink(sleep, &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("1000").spawn().unwrap();
        let comm = || std::fs::read(format!("/proc/{}/comm", child.id())).unwrap();
        let begun = std::time::Instant::now();
        // A new program runs a moment before it has its name.
        while String::from_utf8(comm()).is_ok() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(10), "it does not run");
            std::thread::yield_now();
        }
        let found = Credentials::of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.map(|it| it.user), Some(rustix::process::geteuid().as_raw()));
    }

    fn which(program: &str) -> std::path::PathBuf {
        let path = std::env::var_os("PATH").expect("set");
        std::env::split_paths(&path).map(|it| it.join(program)).find(|it| it.exists()).expect("installed")
    }

    #[test]
    fn a_check_is_the_kernels_own_and_this_thread_stays_itself() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: acting as another user needs root");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32, user: u32, group: u32| {
            let path = place.path().join(name);
            std::fs::write(&path, "text").unwrap();
            chown(&path, Some(user), Some(group)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            rustix::fs::open(&path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap()
        };
        let (private, shared) = (file("private", 0o600, 0, 0), file("shared", 0o640, 0, 27));
        let own = file("own", 0o400, 1003, 0);
        let plain = Credentials::parse(STATUS, false).unwrap();
        let reads = |credentials: &Credentials, fd: &rustix::fd::OwnedFd| {
            credentials.permit(|| may(fd.as_fd(), Access::READ_OK)).unwrap()
        };
        assert_eq!([&private, &shared, &own].map(|fd| reads(&plain, fd)), [false, true, true]);
        // A process with the capability reads everything; a root without it reads its own alone.
        let capable = Credentials::parse(STATUS, true).unwrap();
        assert!(reads(&capable, &private));
        let bare = STATUS.replace("1003", "0").replace("0000000000000006", "0000000000000000");
        let bare = Credentials::parse(&bare, true).unwrap();
        assert_eq!([&private, &own].map(|fd| reads(&bare, fd)), [true, false]);
        let own_process = || Credentials::of(std::process::id()).unwrap();
        let full = own_process();
        assert_eq!([&private, &shared, &own].map(|fd| reads(&full, fd)), [true; 3]);
        // Its own credentials are back.
        assert!(may(private.as_fd(), Access::READ_OK).unwrap());
        assert_eq!(own_process(), full);
        // One of its threads acts for another user, and what is permitted must be so to both.
        let seen = std::thread::spawn(move || {
            set_file_ids(1003, 8).unwrap();
            Credentials::of(std::process::id()).unwrap()
        });
        let seen = seen.join().unwrap();
        assert_eq!([&private, &own].map(|fd| reads(&seen, fd)), [false, true]);
        assert_eq!(seen.user, full.user);
    }
}
