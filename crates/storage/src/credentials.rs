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
//! Capabilities count only for a process of this process's own user namespace: those of another namespace do
//! not apply to files here.
//!
//! Limits: security modules use the label of this process, not of the other one. On a mount with mapped ids,
//! the mapping of the mount that this process uses counts. Of the other process's capabilities, only
//! CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH count.
#![allow(unsafe_code)]

use crate::advice::last_error;
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::Gid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The capabilities that override file permissions.
const FILE_CAPABILITIES: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// The identity with which a process accesses files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// The user (`fsuid`).
    pub user: u32,
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
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let own = std::fs::read_link("/proc/self/ns/user").ok();
        let its = std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
        Self::parse(&status, own.is_some() && own == its)
    }

    /// From the text of `/proc/PID/status`.
    #[must_use]
    pub fn parse(status: &str, own_namespace: bool) -> Option<Self> {
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        // Real, effective, saved, file system.
        let fourth = |text: &str| text.split_ascii_whitespace().nth(3)?.parse::<u32>().ok();
        let groups = field("Groups")?.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>();
        let bits = u64::from_str_radix(field("CapEff")?, 16).ok()?;
        let bits = if own_namespace { bits } else { 0 };
        Some(Self {
            user: fourth(field("Uid")?)?,
            group: fourth(field("Gid")?)?,
            groups: groups.ok()?,
            capabilities: CapabilitySet::from_bits_retain(bits).intersection(FILE_CAPABILITIES),
        })
    }

    /// Runs `work` while this thread accesses files as the other process. Only checks belong there: an `open`
    /// would be that user's, too. The user may lack the right to `O_NOATIME`.
    ///
    /// # Errors
    /// The kernel's error where this thread may not change its credentials (it needs CAP_SETUID, CAP_SETGID
    /// and CAP_SETPCAP) or cannot restore them. In the second case the thread is of no further use.
    pub fn acting<R>(&self, work: impl FnOnce() -> R) -> Result<R, Errno> {
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
        set_file_ids(self.user, self.group)?;
        set_thread_groups(&self.groups)?;
        set_capabilities(None, self.sets)
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

    const STATUS: &str = "Name:\tgrep\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t8\nGroups:\t4 24 27 \n\
                          CapPrm:\tffff\nCapEff:\t0000000000000006\n";

    #[test]
    fn the_file_system_ids_and_the_capabilities_count() {
        let other = Credentials::parse(STATUS, true).unwrap();
        assert_eq!((other.user, other.group, &*other.groups), (1003, 8, &[4, 24, 27][..]));
        assert_eq!(other.capabilities, FILE_CAPABILITIES);
        let foreign = Credentials::parse(STATUS, false).unwrap();
        assert_eq!(foreign.capabilities, CapabilitySet::empty());
        for cut in 0..STATUS.len() - 20 {
            let _ = Credentials::parse(&STATUS[..cut], true);
        }
        assert!(Credentials::parse("Uid: 1 2 3\n", true).is_none());
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
            credentials.acting(|| may(fd.as_fd(), Access::READ_OK).unwrap()).unwrap()
        };
        assert_eq!([&private, &shared, &own].map(|fd| reads(&plain, fd)), [false, true, true]);
        // A process with the capability reads everything; a root without it reads its own alone.
        let capable = Credentials::parse(STATUS, true).unwrap();
        assert!(reads(&capable, &private));
        let bare = STATUS.replace("1003", "0").replace("0000000000000006", "0000000000000000");
        let bare = Credentials::parse(&bare, true).unwrap();
        assert_eq!([&private, &own].map(|fd| reads(&bare, fd)), [true, false]);
        let full = Credentials::of(std::process::id()).unwrap();
        assert_eq!([&private, &shared, &own].map(|fd| reads(&full, fd)), [true; 3]);
        // Its own credentials are back.
        assert!(may(private.as_fd(), Access::READ_OK).unwrap());
        assert_eq!(Credentials::of(std::process::id()).unwrap(), full);
    }
}
