//! What this machine must have.

use crate::{Error, Result};
use foreseek_server::{Client, Health, Kind, ServerFolder};
use foreseek_units::Bytes;
use std::path::Path;

/// What is missing here for comparisons on a real block device, each with its remedy; empty where nothing
/// is.
#[must_use]
pub fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root (run it with sudo)".to_owned());
    }
    for (device, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if !Path::new(device).exists() {
            missing.push(format!("{device} (modprobe {module})"));
        }
    }
    if Client::of(&ServerFolder::of(Kind::Watch, "watch")).health() != Health::Dead {
        missing.push(
            "a machine without a watcher, which may read ahead of all runs (foreseek watch --stop)"
                .to_owned(),
        );
    }
    missing
}

/// Checks that a folder's file system has this much space.
///
/// # Errors
/// [`Error::NoSpace`], or the system's.
pub fn check_space(folder: &Path, needed: Bytes) -> Result<()> {
    let space =
        rustix::fs::statvfs(folder).map_err(|error| Error::io("cannot look at", folder.display(), error))?;
    let available = Bytes(space.f_bavail * space.f_frsize);
    if available < needed {
        return Err(Error::NoSpace { path: folder.into(), available, needed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_told_with_what_there_is() {
        check_space(Path::new("/"), Bytes(1)).expect("a byte");
        let error = check_space(Path::new("/"), Bytes(u64::MAX)).expect_err("nobody has that").to_string();
        assert!(error.contains("free some"), "{error}");
    }
}
