//! What can be wrong with a workload.

use foreseek_units::Bytes;

/// A workload that cannot be made or placed. Names the object, the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// No such workload.
    #[error("there is no workload '{name}': the workloads are {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// A parameter that this workload does not take: it would change nothing.
    #[error("workload {workload} takes no {parameter}: leave it away")]
    Parameter {
        /// Which workload.
        workload: String,
        /// Which parameter.
        parameter: &'static str,
    },
    /// A parameter out of its range.
    #[error("workload {workload}: {parameter} {given}: {reason}")]
    Range {
        /// Which workload.
        workload: String,
        /// Which parameter.
        parameter: &'static str,
        /// What was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting of the layout out of its range.
    #[error("layout: {name} {given}: {reason}")]
    Setting {
        /// Which setting.
        name: &'static str,
        /// What was given.
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
        /// The file that does not fit, counted from 0.
        file: usize,
        /// How many files there are.
        files: usize,
        /// Their length in all.
        data: Bytes,
        /// What the device holds.
        capacity: Bytes,
    },
    /// The device is too small for a file system.
    #[error("a device of {capacity} is too small for a file system: it needs 3 MiB at least")]
    DeviceTooSmall {
        /// What the device holds.
        capacity: Bytes,
    },
}
