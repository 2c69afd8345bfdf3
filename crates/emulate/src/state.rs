//! What is known of a disk outside its server: a directory under `/run/foreseek/disks`.
//!
//! ```text
//! /run/foreseek/disks/NAME/   mode 0700
//!     record.json             what the server has made so far, replaced as a whole
//!     control                 the control socket
//!     mount/                  the FUSE mount point; mount/disk is the file under the loop device
//!     log                     what the server had to say
//! ```
//! The server writes the record *before* it makes something that would outlive it, so that after
//! a crash at any point `list` sees the disk and `detach` knows what to free.

use crate::Error;
use foreseek_export::run::{entries, ignore_missing, process_start, run_directory};
use foreseek_export::{Context, ServerFolder};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The longest name: with it the control socket's path stays below the 108 bytes of `sockaddr_un`.
const NAME_LIMIT: usize = 32;
/// Disks at a time; a name is looked for among so many.
const DISKS: usize = 256;

/// A disk's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    folder: ServerFolder,
}

/// What a server says of itself and its disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    /// The process's start in clock ticks since boot: with the pid it names one process for good.
    pub(crate) pid_started: u64,
    pub(crate) ready: bool,
    pub(crate) profile: String,
    pub(crate) size_bytes: u64,
    #[serde(default)]
    pub(crate) failed_member: Option<usize>,
    pub(crate) backing: PathBuf,
    /// Whether the backing file goes with the disk.
    pub(crate) remove_backing: bool,
    /// The FUSE connection's number, once mounted.
    pub(crate) connection: Option<u32>,
    /// The loop device, once attached.
    pub(crate) device: Option<PathBuf>,
    /// A memory cgroup that was made for the server.
    pub(crate) cgroup: Option<PathBuf>,
}

/// How a disk's server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It serves.
    Ready,
    /// It is being attached or detached.
    Starting,
    /// It runs but does not answer.
    Silent,
    /// It has ended without cleaning up.
    Dead,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Silent => "silent",
            Self::Dead => "dead",
        })
    }
}

fn disks_directory() -> PathBuf {
    run_directory().join("disks")
}

impl Place {
    fn at(directory: PathBuf) -> Self {
        Self { folder: ServerFolder::at(directory) }
    }

    /// Makes the directory of a disk of this name, or of the first free `diskN`.
    ///
    /// # Errors
    /// [`Error::Exists`], or what `mkdir` says.
    pub(crate) fn make(name: Option<&str>) -> Result<Self, Error> {
        let disks = disks_directory();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&disks).context("make", &disks)?;
        let Some(name) = name else {
            for number in 0..DISKS {
                match Self::make_named(&disks, &format!("disk{number}")) {
                    Err(Error::Exists(_)) => {}
                    made => return made,
                }
            }
            return Err(Error::Exists(format!("disk0 to disk{}", DISKS - 1)));
        };
        check_name(name)?;
        Self::make_named(&disks, name)
    }

    fn make_named(disks: &Path, name: &str) -> Result<Self, Error> {
        let directory = disks.join(name);
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => Ok(Self::at(directory)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Exists(name.to_owned())),
            Err(error) => Err(error).context("make", &directory)?,
        }
    }

    /// Every disk's directory, in order of name.
    pub(crate) fn all() -> Result<Vec<Self>, Error> {
        let disks = disks_directory();
        let entries = match entries(&disks) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::Missing {
                    what: format!("the right to see emulated disks, in {}", disks.display()),
                    remedy: "run this as root".to_owned(),
                });
            }
            entries => entries.context("list", &disks)?,
        };
        let mut places: Vec<_> = entries.into_iter().map(Self::at).collect();
        places.sort_by(|a, b| a.directory().cmp(b.directory()));
        Ok(places)
    }

    /// The disk of this name or block device.
    pub(crate) fn find(target: &str) -> Result<Self, Error> {
        let device = Path::new(target);
        for place in Self::all()? {
            let is_device =
                || place.record().ok().flatten().and_then(|record| record.device).as_deref() == Some(device);
            if place.name() == target || is_device() {
                return Ok(place);
            }
        }
        Err(Error::Unknown(target.to_owned()))
    }

    /// The disk's name.
    pub(crate) fn name(&self) -> String {
        self.directory().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.folder.control()
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.directory().join("mount")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.log()
    }

    /// What the server wrote; `None` where it has not come so far.
    pub(crate) fn record(&self) -> Result<Option<Record>, Error> {
        Ok(self.folder.record()?)
    }

    /// Replaces the record.
    pub(crate) fn set_record(&self, record: &Record) -> Result<(), Error> {
        Ok(self.folder.set_record(record)?)
    }

    /// Removes the directory and what is in it; never descends into a mount.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        self.folder.clear()?;
        ignore_missing(fs::remove_dir(self.mount_point())).context("remove", self.mount_point())?;
        Ok(self.folder.remove()?)
    }
}

impl Record {
    /// Whether the server's process still runs.
    pub(crate) fn alive(&self) -> bool {
        process_start(self.pid) == Some(self.pid_started)
    }
}

/// A name that can be told from an option, from a device and from all disks.
fn check_name(name: &str) -> Result<(), Error> {
    let invalid =
        |reason: String| Err(Error::Invalid { option: "--name", value: format!("'{name}'"), reason });
    let fits = (1..=NAME_LIMIT).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !fits {
        return invalid(format!(
            "give 1 to {NAME_LIMIT} letters, digits, '-' and '_', a letter or digit first"
        ));
    }
    let is_device =
        name.strip_prefix("loop").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    if is_device || name == "all" {
        return invalid("it would be taken for something else: give another".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_neither_an_option_nor_a_device() {
        for name in ["disk0", "a", "7", "loopback", "all-of-it", "a_b-c"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "--all", "-f", "_x", "all", "loop", "loop0", "loop17", "a/b", "..", "\u{e9}"] {
            let error = check_name(name).expect_err(name).to_string();
            assert!(error.starts_with(&format!("--name '{name}': ")), "{error}");
        }
    }
}
