//! Frees what a dead or hung server of a block device left behind.
//!
//! The order is such that no step waits for an answer that cannot come: abort the FUSE connection (every
//! pending request fails then), kill the server, unmount file systems on the device, free the loop device,
//! unmount the FUSE mount. Each step succeeds if its work is already done, so an interrupted teardown can be
//! repeated.

use crate::{NbdAddress, loop_device_over};
use foreseek_server::mount_table::{abort_connection, connection_of, force_unmount};
use foreseek_server::{Context, Error, ServerProcess, Users};
use foreseek_storage::loop_device::{LoopDevice, LoopError};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a device to become free.
const LIMIT: Duration = Duration::from_secs(10);
/// The same where its users are known: waiting ends only the use by programs that open it for a moment, as udev does.
const HELD_LIMIT: Duration = Duration::from_secs(3);

/// What a server has left behind.
#[derive(Debug)]
pub struct Leftovers {
    /// The mount point of its file.
    pub mount_point: PathBuf,
    /// The number of the mount's FUSE connection in fusectl.
    pub connection: Option<u32>,
    /// Its process.
    pub server: Option<ServerProcess>,
    /// A memory cgroup created for it.
    pub cgroup: Option<PathBuf>,
    /// The address of its NBD export.
    pub nbd: Option<NbdAddress>,
}

impl Leftovers {
    /// Frees everything but the server's folder, whatever the state of the server; `users` of the device are
    /// unmounted lazily. A step that fails does not prevent the following ones.
    ///
    /// # Errors
    /// The first step that failed. A device that stays in use is reported with its users. That the server does not end ([`Error::Unkillable`]) is reported last: it waits for
    /// storage that does not answer.
    pub fn free(&self, users: &Users) -> Result<(), Error> {
        if let Err(error) = abort(&self.mount_point, self.connection) {
            tracing::warn!("{error}");
        }
        let killed = self.server.map_or(Ok(()), ServerProcess::kill);
        self.remove_cgroup();
        self.nbd.iter().for_each(NbdAddress::remove);
        let holders = users.holders();
        let left = users.unmount_lazily();
        let limit = if holders.is_empty() { LIMIT } else { HELD_LIMIT };
        let refused = |error: LoopError| Error::Refused(describe(&error, &holders));
        let device = loop_device_over(&self.mount_point, self.connection);
        let cleared = device.as_ref().map_or(Ok(()), LoopDevice::begin_clear).map_err(refused);
        let unmounted = force_unmount(&self.mount_point, |_| true);
        let freed = device.map_or(Ok(()), |device| device.clear(limit).map_err(refused));
        left?;
        cleared.and(unmounted.map_err(Error::from)).and(freed).and(killed)
    }

    /// Removes the cgroup created for the server, once the server has ended.
    pub fn remove_cgroup(&self) {
        if let Some(group) = &self.cgroup {
            // Another server may still be in it.
            let _ = fs::remove_dir(group);
        }
    }
}

/// The message for a device that could not be freed, with what holds it and the remedy.
fn describe(error: &LoopError, holders: &[String]) -> String {
    match error {
        LoopError::InUse { path, seconds } if !holders.is_empty() => {
            let (path, holders) = (path.display(), holders.join(", "));
            format!("{path} is still in use after {seconds} s: {holders}; end that, then detach again")
        }
        LoopError::InUse { .. } => {
            format!("{error}, which cannot be seen from here; end that, then detach again")
        }
        error => error.to_string(),
    }
}

/// Makes every pending and future request of the FUSE file system at `mount_point` fail; `recorded` is its
/// connection number, for when it is no longer mounted.
fn abort(mount_point: &Path, recorded: Option<u32>) -> Result<(), Error> {
    // The number may have been reused: it counts only while a loop device over this mount still has it.
    let in_use = || recorded.filter(|_| loop_device_over(mount_point, recorded).is_some());
    let Some(connection) = connection_of(mount_point).or_else(in_use) else { return Ok(()) };
    Ok(abort_connection(connection).context("abort the FUSE connection of", mount_point)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_in_use_is_reported_with_its_users_and_the_remedy() {
        let in_use = LoopError::InUse { path: "/dev/loop1".into(), seconds: 3 };
        assert_eq!(
            describe(&in_use, &["sh (process 7) works in it".to_owned(), Users::array("a")]),
            "/dev/loop1 is still in use after 3 s: sh (process 7) works in it, attached as array 'a'; end that, then \
             detach again"
        );
        let unseen = describe(&in_use, &[]);
        assert!(unseen.ends_with("cannot be seen from here; end that, then detach again"), "{unseen}");
    }
}
