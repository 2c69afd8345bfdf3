//! The kernel's mount table, and FUSE connections found through it.
//!
//! It is read without requests to the file systems in it: one with a hung server would not answer.

use crate::call::{CallError, Context, ignore_missing};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The kernel's list of FUSE connections, if fusectl is mounted.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";
/// The most stacked mounts that are removed from a mount point; there is at most one of this project's.
const LAYERS: usize = 8;

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountLine {
    /// `major:minor`.
    pub device: String,
    /// The mount point.
    pub point: PathBuf,
    /// The type of file system.
    pub kind: String,
    /// What is mounted, as reported by its file system.
    pub source: PathBuf,
}

/// The mounts of this process's mount namespace.
#[must_use]
pub fn mounts() -> Vec<MountLine> {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().filter_map(mount_line).collect()
}

fn mount_line(line: &str) -> Option<MountLine> {
    let mut fields = line.split(' ');
    let device = fields.nth(2)?.to_owned();
    let point = unescape(fields.nth(1)?);
    // A variable number of optional fields ends with a dash; then come type and source.
    let mut fields = fields.skip_while(|field| *field != "-").skip(1);
    let kind = fields.next()?.to_owned();
    let source = unescape(fields.next()?);
    Some(MountLine { device, point, kind, source })
}

/// Undoes the kernel's octal escapes (`\040` for a space).
fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = (first == b'\\').then(|| std::str::from_utf8(after.get(..3)?).ok()).flatten();
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

/// The mount at a mount point; the topmost where there are several.
#[must_use]
pub fn mounted_on(point: &Path) -> Option<MountLine> {
    mounts().into_iter().rfind(|line| line.point == point)
}

/// The connection number in fusectl of the mount there: the minor number of its device.
#[must_use]
pub fn connection_of(point: &Path) -> Option<u32> {
    mounted_on(point)?.minor()
}

impl MountLine {
    fn minor(&self) -> Option<u32> {
        self.device.split_once(':')?.1.parse().ok()
    }
}

/// Makes every pending and future request of a FUSE connection fail. A connection that is gone is no error.
///
/// # Errors
/// The error of mounting fusectl, where that was not mounted yet, or of writing to it.
pub fn abort_connection(connection: u32) -> io::Result<()> {
    let directory = Path::new(CONNECTIONS).join(connection.to_string());
    if !directory.exists() {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("fusectl", CONNECTIONS, "fusectl", flags, None)?;
    }
    ignore_missing(fs::write(directory.join("abort"), "1"))
}

/// Unmounts the FUSE mounts there that are `ours`, even if they are in use and their server is silent:
/// pending requests fail.
///
/// # Errors
/// They cannot be unmounted.
pub fn force_unmount(point: &Path, ours: impl Fn(&MountLine) -> bool) -> Result<(), CallError> {
    for _ in 0..LAYERS {
        let Some(line) = mounted_on(point).filter(&ours) else { break };
        if let Some(connection) = line.minor()
            && let Err(error) = abort_connection(connection)
        {
            tracing::warn!("cannot abort the FUSE connection of {}: {error}", point.display());
        }
        unmount(point, UnmountFlags::DETACH).context("unmount", point)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_line_is_read_with_and_without_optional_fields() {
        let plain = "36 35 7:3 / /mnt/a\\040b rw,noatime - ext4 /dev/loop3 rw";
        let shared = "36 35 7:3 / /mnt/a\\040b rw shared:1 master:2 - ext4 /dev/loop3 rw,errors=continue";
        for line in [plain, shared] {
            let mount = mount_line(line).expect(line);
            assert_eq!(mount.device, "7:3");
            assert_eq!(mount.point, Path::new("/mnt/a b"));
            assert_eq!(mount.kind, "ext4");
            assert_eq!(mount.source, Path::new("/dev/loop3"));
        }
        assert_eq!(mount_line("36 35 7:3 /"), None);
    }

    #[test]
    fn a_backslash_without_a_number_stays() {
        assert_eq!(unescape("a\\b"), Path::new("a\\b"));
        assert_eq!(unescape("a\\"), Path::new("a\\"));
        assert_eq!(unescape("\\134\\011"), Path::new("\\\t"));
    }
}
