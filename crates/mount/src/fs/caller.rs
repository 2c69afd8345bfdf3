//! Doing something for the caller of an operation: what is created belongs to the caller, and what is
//! written is written with no more rights to space than the caller's.
//!
//! The kernel has checked all permissions already (`default_permissions`), with the caller's
//! groups and capabilities, so that the server needs none of the caller's rights and keeps its own:
//! only the file-system user and group of the thread change, its capabilities are set back at once.
//! Three things depend on what the caller may *not*, so that it is laid down meanwhile: who has
//! `CAP_SYS_RESOURCE`, or is the user that a file system reserves blocks for, fills a file system and
//! exceeds quotas, which no user's call does (quotas themselves are those of the file's owner, whoever
//! writes); a write takes the set-user-ID and set-group-ID bits away unless the writer has `CAP_FSETID`,
//! where the kernel asks for it.
//!
//! Limits: that a user has been given `CAP_SYS_RESOURCE`, or that root has not, no request tells.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// What this thread may, once it has a file mode mask of its own, which is empty, and no groups but
    /// one; `CAP_SYS_RESOURCE` is then laid down but while it acts for root.
    static PREPARED: Cell<Option<CapabilitySets>> = const { Cell::new(None) };
}

/// Who asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
}

/// While it lives, this thread acts for the caller.
#[derive(Debug)]
pub(crate) struct AsCaller {
    ids: (u32, u32),
    /// What the thread may otherwise, where that is to be set back.
    otherwise: Option<CapabilitySets>,
    // It must be dropped by the thread that it changed.
    _thread: PhantomData<*const ()>,
}

impl AsCaller {
    /// Takes on the caller's file-system user and group; the mode given to a creating call is taken
    /// as it is.
    pub(crate) fn new(uid: u32, gid: u32) -> Self {
        let without = if uid == 0 { CapabilitySet::empty() } else { CapabilitySet::SYS_RESOURCE };
        Self::with(uid, gid, Some(without))
    }

    /// The same, and set-user-ID and set-group-ID bits go of what is written.
    pub(crate) fn without_fsetid(uid: u32, gid: u32) -> Self {
        Self::with(uid, gid, Some(CapabilitySet::SYS_RESOURCE | CapabilitySet::FSETID))
    }

    /// Makes a call that writes into an open file, for this user and group; set-user-ID and set-group-ID
    /// bits go if `kill`. Each change of what a thread may costs about as much as the call itself: of a
    /// user's there are as few as can be, and root's are made once its call has failed for want of space.
    pub(crate) fn write<T>(
        uid: u32,
        gid: u32,
        kill: bool,
        mut call: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let made = {
            let _caller = match (uid, kill) {
                (0, false) => None,
                // The kernel takes CAP_FSETID with the user.
                (1.., true) => Some(Self::with(uid, gid, None)),
                (1.., false) => Some(Self::new(uid, gid)),
                (0, true) => Some(Self::without_fsetid(uid, gid)),
            };
            call()
        };
        if uid == 0 && matches!(made, Err(Errno::NOSPC | Errno::DQUOT)) {
            let _root =
                Self::with(0, gid, Some(if kill { CapabilitySet::FSETID } else { CapabilitySet::empty() }));
            return call();
        }
        made
    }

    /// As this user, and with all that the thread has but these; or as the kernel leaves it to such a user.
    fn with(uid: u32, gid: u32, without: Option<CapabilitySet>) -> Self {
        let own = prepare();
        // SAFETY: these calls change the calling thread's credentials alone and take numbers.
        unsafe {
            if gid != 0 {
                libc::setfsgid(gid);
            }
            if uid != 0 {
                libc::setfsuid(uid);
            }
        }
        let otherwise = own.zip(without).map(|(own, without)| {
            // The kernel took the file capabilities away with the user.
            set(CapabilitySets { effective: own.effective - without, ..own });
            otherwise(own)
        });
        Self { ids: (uid, gid), otherwise, _thread: PhantomData }
    }
}

impl Drop for AsCaller {
    fn drop(&mut self) {
        let (uid, gid) = self.ids;
        // SAFETY: as in `with`.
        unsafe {
            if uid != 0 {
                // It gives the file capabilities back.
                libc::setfsuid(0);
            }
            if gid != 0 {
                libc::setfsgid(0);
            }
        }
        self.otherwise.into_iter().for_each(set);
    }
}

/// What a thread has while it acts for nobody.
fn otherwise(own: CapabilitySets) -> CapabilitySets {
    CapabilitySets { effective: own.effective - CapabilitySet::SYS_RESOURCE, ..own }
}

fn set(sets: CapabilitySets) {
    if let Err(error) = set_capabilities(None, sets) {
        // Only reached if this process was denied what it had a moment ago. What follows fails with
        // EACCES where the caller's own rights do not suffice.
        tracing::warn!("cannot set capabilities: {error}");
    }
}

/// Makes the mode mask of this thread its own, and empty, since the mask to use comes with each
/// request; and takes away the groups that the server was started with, which are no caller's. What it
/// may, if that can be told.
fn prepare() -> Option<CapabilitySets> {
    if let Some(own) = PREPARED.get() {
        return Some(own);
    }
    let own = capabilities(None).ok();
    // SAFETY: both take plain numbers. Afterwards only this thread has this working directory, root
    // and mask, and it uses no path that is relative to the first; the system call sets the groups
    // of this thread alone.
    unsafe {
        if libc::unshare(libc::CLONE_FS) == 0 {
            rustix::process::umask(rustix::fs::Mode::empty());
            PREPARED.set(own);
        }
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
    }
    own.map(otherwise).into_iter().for_each(set);
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn what_is_created_is_the_callers_and_only_while_asked() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: taking on another user needs root");
        }
        let place = tempfile::tempdir().expect("a directory, mode 0700, root's");
        let make = |name: &str| {
            fs::write(place.path().join(name), "").expect("the server's own rights suffice");
            let made = fs::metadata(place.path().join(name)).expect("there");
            (made.uid(), made.gid())
        };
        let caller = AsCaller::new(1234, 4321);
        assert_eq!(make("a"), (1234, 4321));
        drop(caller);
        assert_eq!(make("b"), (0, 0));
    }

    #[test]
    fn a_write_takes_the_bits_away_only_without_the_capability() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: it needs CAP_FSETID");
        }
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a");
        for (uid, kill, left) in
            [(0, false, 0o6755), (0, true, 0o755), (1234, false, 0o6755), (1234, true, 0o755)]
        {
            fs::write(&path, "x").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).expect("set");
            let file = fs::File::options().write(true).open(&path).expect("opened");
            let written = AsCaller::write(uid, 7, kill, || rustix::io::write(&file, b"y"));
            assert_eq!(written, Ok(1));
            assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, left, "{uid} {kill}");
        }
        let own = capabilities(None).expect("told").effective;
        assert!(own.contains(CapabilitySet::FSETID | CapabilitySet::CHOWN), "they are there again: {own:?}");
        assert!(!own.contains(CapabilitySet::SYS_RESOURCE), "that is not: {own:?}");
    }
}
