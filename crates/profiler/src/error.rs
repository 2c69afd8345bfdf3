//! Errors of a measurement.

use foreseek_storage::DeviceNumber;
use foreseek_units::{ByteOffset, Bytes};
use std::path::PathBuf;

/// A device that could not be measured. The message names the operation, the object and the kernel's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The measurements make no valid profile.
    #[error(transparent)]
    Profile(#[from] foreseek_device::ProfileError),
    /// A read failed.
    #[error("read {} at offset {}, {length}: {cause}", .path.display(), offset.get())]
    Unreadable {
        /// The device or file.
        path: PathBuf,
        /// The offset.
        offset: ByteOffset,
        /// The length of the read.
        length: Bytes,
        /// The kernel's error.
        cause: std::io::Error,
    },
    /// Too small to be measured.
    #[error("too small to be profiled: it holds {capacity}, at least {least} are needed")]
    TooSmallToProfile {
        /// Its capacity.
        capacity: Bytes,
        /// The least capacity.
        least: Bytes,
    },
    /// Something that the profiler cannot measure.
    #[error("cannot profile {}: {reason}", .path.display())]
    NotProfiled {
        /// The given path.
        path: PathBuf,
        /// The reason, and the remedy.
        reason: String,
    },
    /// Other programs use the device.
    #[error(
        "cannot profile {}: disk {disk} is busy: other programs made {reads} reads and {writes} writes in {milliseconds} ms; \
         stop them, or measure all the same with --force",
        .path.display()
    )]
    Busy {
        /// The given path.
        path: PathBuf,
        /// The disk below it.
        disk: DeviceNumber,
        /// Reads by other programs.
        reads: u64,
        /// Writes by other programs.
        writes: u64,
        /// The time in which they were counted.
        milliseconds: u64,
    },
    /// The device seeks, but its rotation period could not be found.
    #[error(
        "the device seeks, since distant reads take longer, but the rotation period could not be determined: \
         the machine or the device is too busy; measure again when they are idle"
    )]
    NoRotation,
}
