//! The demo: SQLite's scan by a secondary index on an emulated disk, stock and with Foreseek, and the report on
//! it.
//!
//! It repeats on a stock kernel what VanDeBogart, Frost and Kohler measured in ATC'09 section 5.4. A TPC-C-like
//! table ([`database`]) is read in the order of an index, so that each row is a seek, with memory
//! ([`foreseek_rig::MemoryGroup`]) for half of it and for all of it. Every figure of the report comes from
//! these runs; only the time of the best possible schedule is modelled ([`foreseek_simulate::limit`]). Without
//! root or FUSE the same comparison runs in virtual time, and the report says so.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::print_stdout, reason = "a test that cannot run says so"))]

mod customer;
pub mod database;
mod error;
mod left;
pub mod notes;
mod options;
pub mod outcome;
mod progress;
mod query;
mod query_process;
mod real;
pub mod report;
mod scan;
mod simulated;

pub use customer::QUERY;
pub use error::{Error, Result};
pub use foreseek_hints::Mode;
pub use foreseek_rig::Interrupt;
pub use left::left_behind;
pub use options::{DATABASE_SIZE, DISK_SIZE, Options, PROFILE, TIME_SCALE};
pub use outcome::Outcome;
pub use progress::Show;

/// Runs the demo.
///
/// # Errors
/// Whatever kept it from ending; nothing is left behind then. If only the conditions for real time are missing
/// (root, FUSE), that is no error: the outcome is simulated and says why.
pub fn run(options: &Options, interrupt: &Interrupt) -> Result<Outcome> {
    let profile = options.check()?;
    let missing = foreseek_rig::missing();
    let why = match (options.simulate, missing.is_empty()) {
        (true, _) => "it was asked for".to_owned(),
        (false, false) => format!("this is missing: {}", missing.join(", ")),
        (false, true) => return real::run(options, &profile, interrupt),
    };
    simulated::run(options, &profile, why, interrupt)
}
