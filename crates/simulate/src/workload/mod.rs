//! The workloads of the papers: which files there are, and what programs do with them.
//!
//! [`by_name`] makes one of them; [`NAMES`] lists them. Each module tells what its paper says, what
//! it leaves open, what is assumed instead and where that comes from. What has no source is called
//! an assumption. The numbers of a data set (which clip is how long) do not depend on a run's seed:
//! runs with different seeds differ in their requests, not in their data.
//!
//! [`layout`] says where the files lie.

mod error;
pub mod layout;
mod micro;
mod parameters;
mod script;

pub use error::WorkloadError;
pub use layout::{Aging, Layout, LayoutSettings};
pub use parameters::Parameters;

use crate::program::Workload;
use parameters::Checked;

/// Makes a workload of its name and parameters.
type Make = fn(&mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError>;

/// Each workload; adding one is a line here.
const REGISTRY: &[(&str, Make)] = &[
    ("one-whole-0", micro::one_whole),
    ("one-rand-10", micro::one_rand),
    ("two-rand-0", micro::two_rand),
    ("four-64kb-0", micro::four_chunks),
];

/// The names of the workloads.
pub fn names() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().map(|(name, _)| *name)
}

/// Makes the workload of a name.
///
/// # Errors
/// There is no such workload, or a parameter is out of its range or not one of this workload's.
pub fn by_name(name: &str, parameters: &Parameters) -> Result<Box<dyn Workload>, WorkloadError> {
    let Some((_, make)) = REGISTRY.iter().find(|(known, _)| *known == name) else {
        return Err(WorkloadError::Unknown { name: name.to_owned(), known: names().collect() });
    };
    let mut checked = Checked::new(name, parameters);
    let workload = make(&mut checked)?;
    checked.all_taken()?;
    Ok(workload)
}

#[cfg(test)]
mod tests;
