//! The errors of a workload.

use foreseek_units::Bytes;

/// A workload that cannot be made or placed. Names the object, the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// There is no such workload.
    #[error("there is no workload '{name}': the workloads are {}", known.join(", "))]
    Unknown {
        /// The name that was given.
        name: String,
        /// The known names.
        known: Vec<&'static str>,
    },
    /// A parameter that this workload does not have.
    #[error("workload {workload} takes no {parameter}: leave it out")]
    Parameter {
        /// The workload.
        workload: String,
        /// The parameter.
        parameter: &'static str,
    },
    /// A parameter out of its range.
    #[error("workload {workload}: {parameter} {given}: {reason}")]
    Range {
        /// The workload.
        workload: String,
        /// The parameter.
        parameter: &'static str,
        /// The value.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting of the layout out of its range.
    #[error("layout: {name} {given}: {reason}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The value.
        given: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The device is full.
    #[error(
        "placing file {file} of {files}: the device of {capacity} is full; the files have {data} without metadata: \
         take a larger device or a smaller data set"
    )]
    NoRoom {
        /// The first file that does not fit, counted from 0.
        file: usize,
        /// The number of files.
        files: usize,
        /// Their total length.
        data: Bytes,
        /// The device's capacity.
        capacity: Bytes,
    },
    /// The device is too small for a file system.
    #[error("a device of {capacity} is too small for a file system: it needs 3 MiB at least")]
    DeviceTooSmall {
        /// The device's capacity.
        capacity: Bytes,
    },
}
