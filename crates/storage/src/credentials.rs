//! What another process could open itself: its credentials, and the kernel's own check with them.
//!
//! A daemon that runs as root and acts on what others do must not read for them what they could not
//! read. It takes the acting process's file system user, groups and capabilities from
//! `/proc/PID/status`, gives them to *its own thread* for the time of a check, and asks the kernel
//! (`faccessat2` with `AT_EACCESS`). So mode bits, access control lists and whatever else the file
//! system checks are the kernel's own judgement. knfsd does the same for its clients (`nfsd_setuser`).
//!
//! The file is pinned by an `O_PATH` descriptor while it is checked, and opened through that
//! descriptor afterwards: nothing can be put in its place in between.
//!
//! Capabilities count only for a process of this process's own user namespace: in another one they
//! say nothing about files here.
//!
//! Limits: security modules judge by the label of this process, not of the other one; a mount with
//! mapped ids is checked by the ids of the mount that this process uses. Capabilities of the
//! other process count for access alone (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH).
#![allow(unsafe_code)]

use crate::advice::last_error;
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::Gid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The capabilities by which permissions of files are passed over.
const OF_FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// As whom a process acts on files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// The user (`fsuid`).
    pub user: u32,
    group: u32,
    groups: Box<[u32]>,
    /// Which of [`OF_FILES`] it has.
    capabilities: CapabilitySet,
}

impl Credentials {
    /// Those of a process now; `None` where it has ended or cannot be looked at. The number may have
    /// gone to another process: whoever needs to be sure holds a descriptor of the process and looks
    /// whether it is alive *afterwards*.
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
        let told = u64::from_str_radix(field("CapEff")?, 16).ok()?;
        let told = if own_namespace { told } else { 0 };
        Some(Self {
            user: fourth(field("Uid")?)?,
            group: fourth(field("Gid")?)?,
            groups: groups.ok()?,
            capabilities: CapabilitySet::from_bits_retain(told).intersection(OF_FILES),
        })
    }

    /// Does `work` with this thread acting on files as the other process. Only checks belong there: an
    /// `open` would be this user's as well, for the time of last access.
    ///
    /// # Errors
    /// What the kernel said where this thread may not act as another (it needs CAP_SETUID, CAP_SETGID
    /// and CAP_SETPCAP), or cannot become itself again: it is of no use then.
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
        // A change of the user took those of files away, or gave them back.
        let sets = capabilities(None)?;
        let effective =
            sets.effective.difference(OF_FILES).union(self.capabilities.intersection(own.sets.permitted));
        set_capabilities(None, CapabilitySets { effective, ..sets })
    }
}

/// As whom this thread acts.
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

/// Sets the file system user and group of this thread. The calls answer what was before, so that only a
/// second call tells whether the first one worked.
fn set_file_ids(user: u32, group: u32) -> Result<(), Errno> {
    // SAFETY: no memory is passed; both concern the calling thread alone.
    let done = unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
        libc::setfsgid(u32::MAX).cast_unsigned() == group && libc::setfsuid(u32::MAX).cast_unsigned() == user
    };
    if done { Ok(()) } else { Err(Errno::PERM) }
}

/// Whether this thread, as it acts now, has this access to an open file or directory (`O_PATH` suffices).
///
/// # Errors
/// What the kernel said, other than that it may not.
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
        let told = Credentials::parse(STATUS, true).unwrap();
        assert_eq!((told.user, told.group, &*told.groups), (1003, 8, &[4, 24, 27][..]));
        assert_eq!(told.capabilities, OF_FILES);
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
        let reads = |who: &Credentials, fd: &rustix::fd::OwnedFd| {
            who.acting(|| may(fd.as_fd(), Access::READ_OK).unwrap()).unwrap()
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
        // It is itself again.
        assert!(may(private.as_fd(), Access::READ_OK).unwrap());
        assert_eq!(Credentials::of(std::process::id()).unwrap(), full);
    }
}
