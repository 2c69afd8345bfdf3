//! What can go wrong with a measurement.

use foreseek_storage::DeviceNumber;
use foreseek_units::{ByteOffset, Bytes};
use std::path::PathBuf;

/// A device that could not be measured. The message names the operation, the object and what the
/// kernel said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was measured makes no profile.
    #[error(transparent)]
    Profile(#[from] foreseek_device::ProfileError),
    /// A device refused to be read somewhere.
    #[error("read {} at offset {}, {length}: {cause}", .path.display(), offset.get())]
    Unreadable {
        /// Of what.
        path: PathBuf,
        /// Where.
        offset: ByteOffset,
        /// How much was to be read.
        length: Bytes,
        /// What the kernel said.
        cause: std::io::Error,
    },
    /// Too small for a measurement.
    #[error("too small to be profiled: it holds {capacity}, at least {least} are needed")]
    TooSmallToProfile {
        /// What it holds.
        capacity: Bytes,
        /// What is needed.
        least: Bytes,
    },
    /// Something that the profiler cannot measure.
    #[error("cannot profile {}: {reason}", .path.display())]
    NotProfiled {
        /// What was given.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// Others use the device that was to be measured.
    #[error(
        "cannot profile {}: disk {disk} is busy, others made {reads} reads and {writes} writes in {milliseconds} ms; \
         stop them, or measure all the same with --force",
        .path.display()
    )]
    Busy {
        /// What was given.
        path: PathBuf,
        /// The disk below it.
        disk: DeviceNumber,
        /// Reads of others.
        reads: u64,
        /// Writes of others.
        writes: u64,
        /// In which time.
        milliseconds: u64,
    },
    /// Something seeks, but it could not be told how it turns.
    #[error(
        "the device seeks, since distant reads take longer, but the rotation period could not be determined: \
         the machine or the device is too busy; measure again when they are idle"
    )]
    NoTurn,
}
