//! What can go wrong with real storage.

use std::path::PathBuf;

/// An operation on real storage that failed. The message names the operation, the object and what
/// the kernel said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither the name of a built-in profile nor a file.
    #[error("'{given}' is neither a built-in device profile nor a file; built in are: {known}")]
    UnknownProfile {
        /// What was given.
        given: String,
        /// The names that there are.
        known: String,
    },
    /// A file that is no valid profile.
    #[error(transparent)]
    Profile(#[from] foreseek_device::ProfileError),
    /// A system call on a file failed.
    #[error("{operation} {}: {cause}", .path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said. Part of the message, and so no `source`: a chain would say it twice.
        cause: std::io::Error,
    },
}
