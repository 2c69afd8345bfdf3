//! What can go wrong with real storage.

use std::path::PathBuf;

/// An operation on real storage that failed. The message names the operation, the object and what
/// the kernel said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call on a file failed.
    #[error("{operation} {}: {source}", .path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}
