//! Doing something for the caller of an operation: what is created belongs to the caller.
//!
//! The kernel has checked all permissions already (`default_permissions`), with the caller's
//! groups and capabilities, so that the server needs none of the caller's rights and keeps its own:
//! only the file-system user and group of the thread change, its capabilities are set back at once.
//! Two things depend on what the caller may *not*: a write takes the set-user-ID and set-group-ID
//! bits away unless the writer has `CAP_FSETID`, so that is laid down where the kernel asks for it.
#![allow(unsafe_code)]

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// Whether this thread has a file mode mask of its own, which is empty, and no groups but one.
    static PREPARED: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, what this thread creates belongs to the caller.
#[derive(Debug)]
pub(crate) struct AsCaller {
    restore: bool,
    // It must be dropped by the thread that it changed.
    _thread: PhantomData<*const ()>,
}

impl AsCaller {
    /// Takes on the caller's file-system user and group; the mode given to a creating call is taken
    /// as it is.
    pub(crate) fn new(uid: u32, gid: u32) -> Self {
        prepare();
        let restore = (uid, gid) != (0, 0);
        if restore {
            let own = capabilities(None);
            // SAFETY: these calls change the calling thread's credentials alone and take numbers.
            unsafe {
                libc::setfsgid(gid);
                libc::setfsuid(uid);
            }
            // The kernel took the file capabilities away with the user.
            own.into_iter().for_each(set);
        }
        Self { restore, _thread: PhantomData }
    }
}

impl Drop for AsCaller {
    fn drop(&mut self) {
        if self.restore {
            // SAFETY: as in `new`.
            unsafe {
                libc::setfsuid(0);
                libc::setfsgid(0);
            }
        }
    }
}

/// While it lives, this thread's writes take away set-user-ID and set-group-ID bits, as those of a
/// caller of this group would.
#[derive(Debug)]
pub(crate) struct WithoutFsetid(Option<CapabilitySets>, PhantomData<*const ()>);

impl WithoutFsetid {
    /// Lays `CAP_FSETID` down, where there is a group.
    pub(crate) fn new(group: Option<u32>) -> Self {
        let own = group.and_then(|_| capabilities(None).ok());
        if let (Some(own), Some(group)) = (own, group) {
            prepare();
            // SAFETY: it changes the calling thread's credentials alone and takes a number.
            unsafe { libc::setfsgid(group) };
            set(CapabilitySets { effective: own.effective - CapabilitySet::FSETID, ..own });
        }
        Self(own, PhantomData)
    }
}

impl Drop for WithoutFsetid {
    fn drop(&mut self) {
        if let Some(own) = self.0 {
            set(own);
            // SAFETY: as in `new`.
            unsafe { libc::setfsgid(0) };
        }
    }
}

fn set(sets: CapabilitySets) {
    if let Err(error) = set_capabilities(None, sets) {
        // Only reached if this process was denied what it had a moment ago. What follows fails with
        // EACCES where the caller's own rights do not suffice.
        tracing::warn!("cannot set capabilities: {error}");
    }
}

/// Makes the mode mask of this thread its own, and empty, since the mask to use comes with each
/// request; and takes away the groups that the server was started with, which are no caller's.
fn prepare() {
    if PREPARED.get() {
        return;
    }
    // SAFETY: both take plain numbers. Afterwards only this thread has this working directory, root
    // and mask, and it uses no path that is relative to the first; the system call sets the groups
    // of this thread alone.
    unsafe {
        if libc::unshare(libc::CLONE_FS) == 0 {
            rustix::process::umask(rustix::fs::Mode::empty());
            PREPARED.set(true);
        }
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
    }
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
        for (group, left) in [(None, 0o6755), (Some(7), 0o755)] {
            fs::write(&path, "x").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).expect("set");
            let _guard = WithoutFsetid::new(group);
            fs::write(&path, "y").expect("written");
            assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, left);
        }
    }
}
