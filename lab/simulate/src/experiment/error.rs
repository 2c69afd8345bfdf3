//! What can be wrong with an experiment.

use crate::machine::MachineError;
use crate::workload::WorkloadError;
use foreseek_device::BuildError;

/// An experiment that cannot be read or run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// Not TOML, or a key of it is unknown, missing or of the wrong type.
    #[error("{file}: line {line}: {key}: {reason}")]
    Syntax {
        /// Where the text came from.
        file: String,
        /// Counted from one.
        line: usize,
        /// The key on that line.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// A key has a value that it cannot have.
    #[error("{file}: {key}: {reason}")]
    Key {
        /// The file, or the experiment's name where it was made in code.
        file: String,
        /// The key.
        key: String,
        /// What is wrong, and what is right.
        reason: String,
    },
    /// No device can be made of a profile.
    #[error("experiment {experiment}: {cause}")]
    Device {
        /// The experiment's name.
        experiment: String,
        /// Why.
        cause: BuildError,
    },
    /// No workload, or its files do not fit.
    #[error("experiment {experiment}: {cause}")]
    Workload {
        /// The experiment's name.
        experiment: String,
        /// Why.
        cause: WorkloadError,
    },
    /// A run failed.
    #[error("experiment {experiment}: {run}: {cause}")]
    Machine {
        /// The experiment's name.
        experiment: String,
        /// Its place in the sweep and its seed.
        run: String,
        /// Why.
        cause: Box<MachineError>,
    },
}
