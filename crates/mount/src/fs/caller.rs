//! Acts for the caller of an operation: created files belong to the caller, and a write has no more rights to
//! space than the caller's.
//!
//! The kernel has checked all permissions (`default_permissions`), with the caller's groups and capabilities.
//! The server therefore keeps its own rights: only the file-system user and group of the thread change, and
//! its capabilities are restored at once. But three privileges would have an effect that the caller may not
//! have, and are dropped meanwhile:
//!
//! - `CAP_SYS_RESOURCE`, and the user for which a file system reserves blocks: they fill a file system and
//!   exceed quotas, which no user's call does. (Quotas themselves are those of the file's owner, whichever
//!   user writes.)
//! - `CAP_FSETID`: without it a write clears the set-user-ID and set-group-ID bits. It is dropped where the
//!   kernel requests that.
//!
//! Limits: no request shows that a user has `CAP_SYS_RESOURCE`, or that root does not have it.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// The capabilities of this thread, once it has an empty file mode mask of its own, and no groups but
    /// one. `CAP_SYS_RESOURCE` is then dropped except while the thread acts for root.
    static PREPARED: Cell<Option<CapabilitySets>> = const { Cell::new(None) };
}

/// The user and group of a request.
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
    /// The thread's capabilities otherwise, if they are to be restored.
    otherwise: Option<CapabilitySets>,
    // The thread that it changed must drop it.
    _thread: PhantomData<*const ()>,
}

impl AsCaller {
    /// Takes the caller's file-system user and group; the mode of a creating call is used without a mask.
    pub(crate) fn new(uid: u32, gid: u32) -> Self {
        let without = if uid == 0 { CapabilitySet::empty() } else { CapabilitySet::SYS_RESOURCE };
        Self::with(uid, gid, Some(without))
    }

    /// The same, and a write clears set-user-ID and set-group-ID bits.
    pub(crate) fn without_fsetid(uid: u32, gid: u32) -> Self {
        Self::with(uid, gid, Some(CapabilitySet::SYS_RESOURCE | CapabilitySet::FSETID))
    }

    /// Makes a call that writes into an open file, for this user and group; with `kill`, set-user-ID and
    /// set-group-ID bits are cleared. Each change of a thread's capabilities costs about as much as the call
    /// itself: for a user there are as few as possible. For root they change only after the call has failed
    /// for lack of space.
    pub(crate) fn write<T>(
        uid: u32,
        gid: u32,
        kill: bool,
        mut call: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let made = {
            let _caller = match (uid, kill) {
                (0, false) => None,
                // The kernel drops CAP_FSETID with the user.
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

    /// As this user, with all capabilities of the thread except these; or with those that the kernel leaves
    /// to such a user.
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
            // The kernel dropped the capabilities for files with the user.
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
                // This restores the capabilities for files.
                libc::setfsuid(0);
            }
            if gid != 0 {
                libc::setfsgid(0);
            }
        }
        self.otherwise.into_iter().for_each(set);
    }
}

/// A thread's capabilities while it acts for no caller.
fn otherwise(own: CapabilitySets) -> CapabilitySets {
    CapabilitySets { effective: own.effective - CapabilitySet::SYS_RESOURCE, ..own }
}

fn set(sets: CapabilitySets) {
    if let Err(error) = set_capabilities(None, sets) {
        // Only reached if this process was denied a capability that it had a moment ago. The next calls fail
        // with EACCES where the caller's own rights do not suffice.
        tracing::warn!("cannot set capabilities: {error}");
    }
}

/// Gives this thread a mode mask of its own, which is empty, since each request has its mask. Removes the
/// groups with which the server was started, which are no caller's. Returns the thread's capabilities, if
/// they are known.
fn prepare() -> Option<CapabilitySets> {
    if let Some(own) = PREPARED.get() {
        return Some(own);
    }
    let own = capabilities(None).ok();
    // SAFETY: both take plain numbers. Afterwards only this thread has this working directory, root and mask,
    // and it uses no path that is relative to the working directory. The system call sets the groups of this
    // thread alone.
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
    fn created_files_are_the_callers_only_while_it_acts_for_it() {
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
        let own = capabilities(None).expect("reported").effective;
        assert!(own.contains(CapabilitySet::FSETID | CapabilitySet::CHOWN), "they are there again: {own:?}");
        assert!(!own.contains(CapabilitySet::SYS_RESOURCE), "that is not: {own:?}");
    }
}
