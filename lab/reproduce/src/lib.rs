//! The papers' claims, run and judged row by row.
//!
//! A [`Claim`] is a number that a paper states. A row says which runs it needs and how the number is
//! taken from them; runs are declared in files, one a figure (`experiments/`), and shared by all rows
//! and charts that need them. What "holds" means is one set of rules for all claims
//! ([`Verdict::of`]); the parameters are one set for each paper's set-up
//! (`foreseek_simulate::experiment::SetUp`), and nothing is set for a claim. `docs/reproduction.md`
//! tells all of this, with the results.
//!
//! Some rows need no run: they ask the code of the policies, the device profiles or the theory.
#![forbid(unsafe_code)]

mod charts;
mod claim;
mod error;
mod figure;
mod learnt;
mod measured;
mod outcome;
mod page;
mod pick;
mod report;
mod rows;
mod run;
mod table;

pub use claim::{Claim, Relation};
pub use error::Error;
pub use learnt::{Aim, LearntOptions, LearntOutcome, Place, Reached, Table, Trace, learnt};
pub use measured::{Measured, Verdict};
pub use outcome::{Drawn, Judged, Outcome};
pub use run::{Options, Progress, reproduce};
