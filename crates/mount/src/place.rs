//! What is known of a mount outside its server: a directory under `/run/foreseek/mounts`.
//!
//! ```text
//! /run/foreseek/mounts/KEY/   mode 0700; KEY is the digest of the mount point's path
//!     record.json             which mount this is and who serves it, replaced as a whole
//!     control                 the control socket
//!     log                     what the server had to say
//! ```
//! The record is written before the mount is made, so that what a crash leaves is found and freed.

use crate::Error;
use crate::names;
use foreseek_export::run::{entries, process_start, run_directory};
use foreseek_export::{Context, ServerFolder};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A mount's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    folder: ServerFolder,
}

/// What a server says of itself and its mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    /// The process's start in clock ticks since boot: with the pid it names one process for good.
    pub(crate) pid_started: u64,
    pub(crate) source: PathBuf,
    pub(crate) mount_point: PathBuf,
}

impl Record {
    /// This process's.
    pub(crate) fn own(source: &Path, mount_point: &Path) -> Self {
        let pid = std::process::id();
        Self {
            pid,
            pid_started: process_start(pid).unwrap_or_default(),
            source: source.to_owned(),
            mount_point: mount_point.to_owned(),
        }
    }

    /// Whether the server's process still runs.
    pub(crate) fn alive(&self) -> bool {
        process_start(self.pid) == Some(self.pid_started)
    }
}

fn all_places() -> PathBuf {
    run_directory().join("mounts")
}

impl Place {
    fn at(directory: PathBuf) -> Self {
        Self { folder: ServerFolder::at(directory) }
    }

    /// The place of the mount on this point, whether there is one or not.
    pub(crate) fn of(mount_point: &Path) -> Self {
        // A name of its own length would not fit beside the socket's into the 108 bytes of
        // `sockaddr_un`.
        Self::at(all_places().join(names::digest(mount_point)))
    }

    /// The place of the mount on this point and its record, where there is one; also one whose server
    /// is of an earlier version, which named places otherwise.
    pub(crate) fn find(mount_point: &Path) -> Result<Option<(Self, Record)>, Error> {
        let place = Self::of(mount_point);
        if let Some(record) = place.record()? {
            return Ok(Some((place, record)));
        }
        Ok(Self::all()?.into_iter().find(|(_, record)| record.mount_point == mount_point))
    }

    /// Every mount's place, in order of mount point.
    pub(crate) fn all() -> Result<Vec<(Self, Record)>, Error> {
        let places = all_places();
        let entries = match entries(&places) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::Missing { what: "the right to see mounts", remedy: "run this as root" });
            }
            entries => entries.context("list", &places)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let place = Self::at(entry);
            if let Some(record) = place.record()? {
                found.push((place, record));
            }
        }
        found.sort_by(|a, b| a.1.mount_point.cmp(&b.1.mount_point));
        Ok(found)
    }

    /// Makes the directory.
    pub(crate) fn make(&self) -> Result<(), Error> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(self.folder.path());
        Ok(made.context("make", self.folder.path())?)
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.folder.control()
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

    /// Removes the directory and what is in it.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        Ok(self.folder.remove()?)
    }
}
