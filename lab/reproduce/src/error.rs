//! What can go wrong.

use foreseek_simulate::experiment::ExperimentError;
use std::path::PathBuf;

/// Why claims could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The built-in list of claims can't be read: a fault of the program.
    #[error("the list of claims: {0}")]
    Claims(String),
    /// A built-in figure can't be read: a fault of the program.
    #[error("figure {file}: {reason}")]
    Figure {
        /// Its file.
        file: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Earlier results cannot be read.
    #[error("the results: {0}: give results.json of an earlier run")]
    Results(String),
    /// A key cannot be set.
    #[error("cannot set '{key}': {reason}")]
    Override {
        /// The key.
        key: String,
        /// Why not.
        reason: String,
    },
    /// No claim has such a name.
    #[error("no claim matches '{glob}'; names are like EU-two-rand, TR-*, *-depth-* ({known} can be run)")]
    NoClaim {
        /// The name that was given.
        glob: String,
        /// How many there are.
        known: usize,
    },
    /// There is no trial of such a claim.
    #[error("no trial is of a claim that matches '{glob}'; experiments/trials.toml has them all")]
    NoTrial {
        /// The name that was given.
        glob: String,
    },
    /// Results of an earlier part of the same run can't be taken over, or those of this one can't be kept.
    #[error("{}: {reason}; remove it to run that part anew, or give --output another folder", file.display())]
    Kept {
        /// Where they are.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A run failed.
    #[error(transparent)]
    Run(#[from] ExperimentError),
}
