//! Freeing what a dead or wedged server of a block device left behind.
//!
//! In this order, so that no step waits for an answer that cannot come: abort the FUSE connection
//! (every request that hangs fails now), end the server, unmount what is mounted on the device, free
//! the loop device, take the FUSE mount away. Each step is fine with
//! finding its work done, so a teardown that was itself interrupted can be repeated.

use crate::{NbdAddress, loop_device_over};
use foreseek_server::mount_table::{abort_connection, connection_of, force_unmount};
use foreseek_server::{Context, Error, ServerProcess, Users};
use foreseek_storage::loop_device::LoopError;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a device to be free.
const LIMIT: Duration = Duration::from_secs(10);

/// What is known of a server that is to be freed.
#[derive(Debug)]
pub struct Wreck {
    /// Where its file was mounted.
    pub mount_point: PathBuf,
    /// The number under which fusectl knows the mount.
    pub connection: Option<u32>,
    /// Its process.
    pub server: Option<ServerProcess>,
    /// A memory cgroup that was made for it.
    pub cgroup: Option<PathBuf>,
    /// Where it was heard over NBD.
    pub nbd: Option<NbdAddress>,
}

impl Wreck {
    /// Frees everything but the server's folder, whatever state it is in; `users` of the device are unmounted lazily.
    ///
    /// # Errors
    /// The step that failed.
    pub fn free(&self, users: &Users) -> Result<(), Error> {
        if let Err(error) = abort(&self.mount_point, self.connection) {
            tracing::warn!("{error}");
        }
        if let Some(server) = self.server {
            server.kill()?;
        }
        self.remove_cgroup();
        self.nbd.iter().for_each(NbdAddress::remove);
        users.unmount_lazily()?;
        let refused = |error: LoopError| Error::Refused(error.to_string());
        let device = loop_device_over(&self.mount_point, self.connection);
        if let Some(device) = &device {
            device.begin_clear().map_err(refused)?;
        }
        force_unmount(&self.mount_point, |_| true)?;
        device.map_or(Ok(()), |device| device.clear(LIMIT).map_err(refused))
    }

    /// Removes the cgroup that was made for the server, once that has ended.
    pub fn remove_cgroup(&self) {
        if let Some(group) = &self.cgroup {
            // Another server may still be in it.
            let _ = fs::remove_dir(group);
        }
    }
}

/// Makes every request of the FUSE file system mounted there fail, now and from now on; `recorded`
/// is its number, should it no longer be mounted.
fn abort(mount_point: &Path, recorded: Option<u32>) -> Result<(), Error> {
    // A number of the past may be another's by now: only one that a loop device of ours still
    // holds is still ours.
    let held = || recorded.filter(|_| loop_device_over(mount_point, recorded).is_some());
    let Some(connection) = connection_of(mount_point).or_else(held) else { return Ok(()) };
    Ok(abort_connection(connection).context("abort the FUSE connection of", mount_point)?)
}
