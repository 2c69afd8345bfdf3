//! The workloads of the papers: their files, and what programs do with them.
//!
//! [`by_name`] makes one of them; [`NAMES`] lists them. Each module says what its paper states, what it leaves
//! open, and what is assumed instead, with the source. A number without a source is called an assumption. The
//! numbers of a data set (the length of each clip) do not depend on a run's seed: runs with different seeds
//! differ in their requests, not in their data.
//!
//! [`layout`] places the files.

mod array_reads;
mod boot;
mod dbench;
mod desktop_mix;
mod desktop_trace;
mod direct_reads;
mod draw;
mod error;
mod index_search;
mod kernel_build;
mod kernel_link;
pub mod layout;
mod listed_reads;
mod media_server;
mod micro;
mod parameters;
pub mod probe;
mod runs;
mod script;
mod sequence_search;
mod tile_blur;
mod tpch;
mod utilities;
pub mod walk;

pub use error::WorkloadError;
pub use layout::{Aging, FileSystem, Layout, LayoutSettings, Metadata};
pub use parameters::{DirectReads, Parameters, ReadingOrder, Walk};

use crate::program::Workload;
use parameters::Checked;

/// Makes a workload from its parameters.
type Make = fn(&mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError>;

/// Each workload; adding one is a line here.
const REGISTRY: &[(&str, Make)] = &[
    ("one-whole-0", micro::one_whole),
    ("one-rand-10", micro::one_rand),
    ("two-rand-0", micro::two_rand),
    ("four-64kb-0", micro::four_chunks),
    ("index-search", index_search::index_search),
    ("media-server", media_server::media_server),
    ("sequence-search", sequence_search::sequence_search),
    ("desktop-mix", desktop_mix::desktop_mix),
    ("small-read", probe::small_read),
    ("walk", walk::walk),
    ("cp5", utilities::utilities),
    ("cp50", utilities::utilities),
    ("diff5", utilities::utilities),
    ("diff50", utilities::utilities),
    ("2cp5", utilities::utilities),
    ("2cp50", utilities::utilities),
    ("2diff5", utilities::utilities),
    ("2diff50", utilities::utilities),
    ("cp5+diff5", utilities::utilities),
    ("cp50+diff50", utilities::utilities),
    ("tiobench", array_reads::tiobench),
    ("iozone-forward", array_reads::forward),
    ("iozone-reverse", array_reads::reverse),
    ("iozone-stride", array_reads::stride),
    ("runs-short", runs::short),
    ("runs-long", runs::long),
    ("runs-mixed", runs::mixed),
    ("direct-seeks", direct_reads::seeks),
    ("direct-random", direct_reads::random),
    ("direct-sequential", direct_reads::sequential),
    ("file-read", listed_reads::file_read),
    ("table-scan", listed_reads::table_scan),
    ("tile-blur", tile_blur::tile_blur),
    ("tile-blur+md5sum", tile_blur::tile_blur),
    ("tile-blur+mem-walk", tile_blur::tile_blur),
    ("kernel-build", kernel_build::kernel_build),
    ("kernel-link", kernel_link::kernel_link),
    ("boot-1", boot::boot),
    ("boot-2", boot::boot),
    ("desktop-trace", desktop_trace::desktop_trace),
    ("dbench", dbench::dbench),
    ("dbench-synced", dbench::dbench),
    ("tpch", tpch::tpch),
    ("2tpch", tpch::tpch),
    ("tpch-q1", tpch::tpch),
    ("tpch-q2", tpch::tpch),
    ("tpch-q3", tpch::tpch),
    ("tpch-q4", tpch::tpch),
    ("tpch-q5", tpch::tpch),
    ("tpch-q6", tpch::tpch),
    ("tpch-q7", tpch::tpch),
    ("tpch-q8", tpch::tpch),
    ("tpch-q9", tpch::tpch),
    ("tpch-q10", tpch::tpch),
    ("tpch-q11", tpch::tpch),
    ("tpch-q12", tpch::tpch),
    ("tpch-q13", tpch::tpch),
    ("tpch-q14", tpch::tpch),
    ("tpch-q15", tpch::tpch),
    ("tpch-q16", tpch::tpch),
    ("tpch-q17", tpch::tpch),
    ("tpch-q18", tpch::tpch),
    ("tpch-q19", tpch::tpch),
    ("tpch-q20", tpch::tpch),
    ("tpch-q21", tpch::tpch),
    ("tpch-q22", tpch::tpch),
];

/// The names of the workloads.
pub fn names() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().map(|(name, _)| *name)
}

/// Makes the workload of this name.
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
