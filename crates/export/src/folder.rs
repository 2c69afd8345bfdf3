//! A server's folder in the run directory: the record of what it has made, its control socket, its log.

use crate::call::{CallError, Context};
use crate::run::ignore_missing;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
    pub fn record<R: DeserializeOwned>(&self) -> Result<Option<R>, CallError> {
        let path = self.record_path();
        match fs::read(&path) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text).context("understand", &path)?)),
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

    /// Removes what is named here.
    ///
    /// # Errors
    /// Some of it cannot be removed.
    pub fn clear(&self) -> Result<(), CallError> {
        for path in [self.control(), self.record_path(), self.next_record_path(), self.log()] {
            ignore_missing(fs::remove_file(&path)).context("remove", &path)?;
        }
        Ok(())
    }

    /// Clears the folder and removes it; what else was in it must have gone before.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> Result<(), CallError> {
        self.clear()?;
        ignore_missing(fs::remove_dir(&self.0)).context("remove", &self.0)
    }
}
