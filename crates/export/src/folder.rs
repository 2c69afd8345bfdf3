//! A server's folder in the run directory: the record of what it has made, its control socket, its log.

use crate::run::ignore_missing;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An operating-system call on a folder failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {cause}", path.display())]
pub struct FolderError {
    /// What was tried.
    pub operation: &'static str,
    /// On what.
    pub path: PathBuf,
    /// The system's answer; part of the message, and so no `source`.
    pub cause: io::Error,
}

/// The folder of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFolder(PathBuf);

impl ServerFolder {
    /// The folder at this path, whether there is one or not.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The control socket.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.0.join("control")
    }

    /// What the server had to say.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    fn record_path(&self) -> PathBuf {
        self.0.join("record.json")
    }

    fn next_record_path(&self) -> PathBuf {
        self.0.join("record.next")
    }

    /// What the server wrote; `None` where it has not come so far.
    ///
    /// # Errors
    /// It cannot be read or understood.
    pub fn record<R: DeserializeOwned>(&self) -> Result<Option<R>, FolderError> {
        let path = self.record_path();
        match fs::read(&path) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text).map_err(failed("understand", &path))?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    /// Replaces the record as a whole.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set_record(&self, record: &impl Serialize) -> Result<(), FolderError> {
        let (path, next) = (self.record_path(), self.next_record_path());
        let text = serde_json::to_vec(record).map_err(failed("write", &path))?;
        fs::write(&next, text).map_err(failed("write", &next))?;
        fs::rename(&next, &path).map_err(failed("replace", &path))
    }

    /// Removes what is named here.
    ///
    /// # Errors
    /// Some of it cannot be removed.
    pub fn clear(&self) -> Result<(), FolderError> {
        for path in [self.control(), self.record_path(), self.next_record_path(), self.log()] {
            ignore_missing(fs::remove_file(&path)).map_err(failed("remove", &path))?;
        }
        Ok(())
    }

    /// Clears the folder and removes it; what else was in it must have gone before.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> Result<(), FolderError> {
        self.clear()?;
        ignore_missing(fs::remove_dir(&self.0)).map_err(failed("remove", &self.0))
    }
}

fn failed<E: Into<io::Error>>(operation: &'static str, path: &Path) -> impl FnOnce(E) -> FolderError {
    move |cause| FolderError { operation, path: path.to_owned(), cause: cause.into() }
}
