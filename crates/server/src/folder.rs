//! The folder of a server in the run directory.
//!
//! ```text
//! /run/foreseek/KIND/NAME/    mode 0700
//!     record.json             what the server has created so far, replaced as a whole
//!     control                 the control socket
//!     mount/                  mount point for a file system of the server's own
//!     log                     the server's messages
//! /run/foreseek/failed/KIND-NAME.log  the log of the last server of this name that ended before it was ready
//! ```
//! A server writes the record *before* it creates something that would outlive it: after a crash at any
//! point, the record shows what to free. A record contains a [`ServerProcess`](crate::ServerProcess)
//! (`#[serde(flatten)]`), which distinguishes a stale folder from a live one.
//!
//! *Limit:* the control socket's path must fit the 108 bytes of `sockaddr_un`: a name has at most 32
//! characters.

use crate::call::{CallError, Context, ignore_missing};
use crate::{Kind, ServerProcess, daemon};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The run directory, unless the environment variable `FORESEEK_RUN` names another.
const RUN: &str = "/run/foreseek";
/// The folder in it with the logs of servers that ended before they were ready.
const FAILED: &str = "failed";

/// The directory with the folders of servers.
#[must_use]
pub fn run_directory() -> PathBuf {
    named().unwrap_or_else(|| RUN.into())
}

/// The directory that `FORESEEK_RUN` names; an empty value names none.
fn named() -> Option<PathBuf> {
    std::env::var_os("FORESEEK_RUN").filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// The entries of a folder in the run directory; none where no server has created it yet. A missing run
/// directory that the user has named is an error: an empty list would look as if no server ran.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    entries_of(folder, named().as_deref())
}

fn entries_of(folder: &Path, named: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match (fs::read_dir(folder), named) {
        (Err(error), Some(named)) if missing(&error) && !named.exists() => Err(io::Error::other(format!(
            "there is no {}, which FORESEEK_RUN names; unset it or name the folder in use",
            named.display()
        ))),
        (Err(error), _) if missing(&error) => Ok(Vec::new()),
        (entries, _) => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// The directory for files that outlive servers and restarts of the machine, unless the environment variable
/// `FORESEEK_STATE` names another.
const STATE: &str = "/var/lib/foreseek";

/// The directory for files that outlive servers; `None` where `FORESEEK_STATE` is empty, so that servers keep
/// no such files.
#[must_use]
pub fn state_directory() -> Option<PathBuf> {
    let named = std::env::var_os("FORESEEK_STATE").map_or_else(|| STATE.into(), PathBuf::from);
    (!named.as_os_str().is_empty()).then_some(named)
}

/// The folder of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFolder(PathBuf);

impl ServerFolder {
    /// The folder of the server of this kind and name, whether it exists or not.
    #[must_use]
    pub fn of(kind: Kind, name: &str) -> Self {
        Self(run_directory().join(kind.folder()).join(name))
    }

    #[cfg(test)]
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The folders of all servers of a kind, dead ones included, in order of name.
    ///
    /// # Errors
    /// They cannot be listed, or `FORESEEK_RUN` names a missing directory.
    pub fn all(kind: Kind) -> Result<Vec<Self>, CallError> {
        let kind = run_directory().join(kind.folder());
        let mut all: Vec<_> = entries(&kind).context("list", &kind)?.into_iter().map(Self).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// The folder of the server that is or was this process.
    pub(crate) fn of_process(kind: Kind, process: ServerProcess) -> Option<Self> {
        let is_its = |folder: &Self| folder.record().is_ok_and(|server| server == Some(process));
        Self::all(kind).ok()?.into_iter().find(is_its)
    }

    /// Creates it.
    ///
    /// # Errors
    /// It cannot be created; `AlreadyExists` where it exists.
    pub fn make(&self) -> Result<(), CallError> {
        if let Some(kind) = self.0.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(kind).context("make", kind)?;
        }
        DirBuilder::new().mode(0o700).create(&self.0).context("make", &self.0)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The server's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The control socket.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.0.join("control")
    }

    /// Mount point for a file system of the server's own, without links: it is compared with paths that the kernel
    /// reports.
    #[must_use]
    pub fn mount_point(&self) -> PathBuf {
        fs::canonicalize(&self.0).unwrap_or_else(|_| self.0.clone()).join("mount")
    }

    /// The server's messages.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Redirects this process's output to the log, and its standard input to `/dev/null`.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn log_here(&self) -> Result<(), CallError> {
        let log = OpenOptions::new().create(true).append(true).open(self.log());
        log.and_then(|log| daemon::redirect(&log)).context("write", self.log())?;
        let _ = tracing_subscriber::fmt().with_ansi(false).with_writer(io::stderr).try_init();
        Ok(())
    }

    /// Moves the log to where it stays when the folder is removed. Returns its path there; `None` where nothing was
    /// logged.
    pub(crate) fn keep_log(&self) -> Option<PathBuf> {
        let log = self.log();
        fs::metadata(&log).ok().filter(|log| log.len() > 0)?;
        let kind = self.0.parent()?;
        let failed = kind.parent()?.join(FAILED);
        DirBuilder::new().recursive(true).mode(0o700).create(&failed).ok()?;
        let kept = failed.join(format!("{}-{}.log", kind.file_name()?.to_string_lossy(), self.name()));
        fs::rename(log, &kept).ok().map(|()| kept)
    }

    fn record_path(&self) -> PathBuf {
        self.0.join("record.json")
    }

    fn next_record_path(&self) -> PathBuf {
        self.0.join("record.next")
    }

    /// The server's record, or a part of it; `None` where it has none yet.
    ///
    /// # Errors
    /// It cannot be read or parsed.
    pub fn record<R: DeserializeOwned>(&self) -> Result<Option<R>, CallError> {
        let path = self.record_path();
        match fs::read(&path) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text).context("parse", &path)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("read", &path),
        }
    }

    /// Replaces the record as a whole.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_record(&self, record: &impl Serialize) -> Result<(), CallError> {
        let (path, next) = (self.record_path(), self.next_record_path());
        let text = serde_json::to_vec(record).context("write", &path)?;
        fs::write(&next, text).context("write", &next)?;
        fs::rename(&next, &path).context("replace", &path)
    }

    /// Removes it with the files named here; never descends into a mount. Other files in it must have been
    /// removed before.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> Result<(), CallError> {
        // What may fail comes first: while the record exists, the rest can be freed later.
        let mount_point = self.mount_point();
        ignore_missing(fs::remove_dir(&mount_point)).context("remove", &mount_point)?;
        for path in [self.control(), self.record_path(), self.next_record_path(), self.log()] {
            ignore_missing(fs::remove_file(&path)).context("remove", &path)?;
        }
        ignore_missing(fs::remove_dir(&self.0)).context("remove", &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerProcess;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        #[serde(flatten)]
        server: ServerProcess,
        device: Option<PathBuf>,
    }

    #[test]
    fn a_missing_run_directory_that_is_named_is_an_error() {
        let place = tempfile::tempdir().expect("a directory");
        let run = place.path().join("run");
        let disks = run.join("disks");
        assert!(entries_of(&disks, None).is_ok_and(|entries| entries.is_empty()));
        let error = entries_of(&disks, Some(&run)).expect_err("it is not there").to_string();
        assert!(error.contains("FORESEEK_RUN") && error.contains(&run.display().to_string()), "{error}");
        fs::create_dir(&run).expect("made");
        assert!(entries_of(&disks, Some(&run)).is_ok_and(|entries| entries.is_empty()));
        fs::create_dir(&disks).expect("made");
        fs::write(disks.join("a"), "").expect("written");
        assert!(entries_of(&disks, Some(&run)).is_ok_and(|entries| entries == [disks.join("a")]));
    }

    #[test]
    fn the_mount_point_has_no_links() {
        let place = tempfile::tempdir().expect("a directory");
        let real = place.path().canonicalize().expect("it is there").join("real");
        fs::create_dir(&real).expect("made");
        std::os::unix::fs::symlink("real", place.path().join("run")).expect("a link");
        let folder = ServerFolder(place.path().join("run/disks/a"));
        folder.make().expect("made");
        assert_eq!(folder.mount_point(), real.join("disks/a/mount"));
    }

    #[test]
    fn a_record_is_replaced_as_a_whole_and_its_process_can_be_read_alone() {
        let place = tempfile::tempdir().expect("a directory");
        let folder = ServerFolder(place.path().join("disks/a"));
        assert_eq!(folder.record::<Record>().expect("none"), None);
        folder.make().expect("made");
        assert_eq!(folder.make().expect_err("it is there").cause.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(folder.name(), "a");
        for device in [None, Some("/dev/loop7".into())] {
            let record = Record { server: ServerProcess::own(), device };
            folder.set_record(&record).expect("written");
            assert_eq!(folder.record().expect("whole"), Some(record));
        }
        let server: ServerProcess = folder.record().expect("whole").expect("written");
        assert!(server.is_alive());
        fs::write(folder.record_path(), "{").expect("written");
        assert!(folder.record::<ServerProcess>().expect_err("cut").to_string().starts_with("cannot parse"));
    }

    #[test]
    fn removing_takes_what_is_named_and_nothing_else() {
        let place = tempfile::tempdir().expect("a directory");
        let folder = ServerFolder(place.path().join("a"));
        folder.remove().expect("what is not there is removed");
        folder.make().expect("made");
        fs::write(folder.log(), "x").expect("written");
        fs::create_dir(folder.mount_point()).expect("made");
        let theirs = folder.path().join("theirs");
        fs::write(&theirs, "x").expect("written");
        folder.remove().expect_err("something else is in it");
        assert!(theirs.exists() && !folder.log().exists());
        fs::remove_file(&theirs).expect("removed");
        folder.remove().expect("removed");
        assert!(!folder.path().exists());
    }
}
