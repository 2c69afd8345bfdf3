//! The papers' claims, run and judged row by row.
//!
//! A [`Claim`] is a number that a paper states. A row says which runs it needs and how the number is taken from
//! them. Runs are declared in files, one for each figure (`experiments/`), and shared by all rows and charts
//! that need them. One set of rules says for all claims what "holds" means ([`Verdict::of`]). There is one set
//! of parameters for each paper's set-up (`foreseek_simulate::experiment::SetUp`), and none is set for a claim.
//! `docs/lab/reproduction.md` has the rules and the results.
//!
//! Some rows need no run: they evaluate the code of the policies, the device profiles or the theory.
#![forbid(unsafe_code)]

mod adaptive;
mod again;
mod charts;
mod claim;
mod counts;
mod error;
mod figure;
mod judgement;
mod kept;
mod measured;
mod notes;
mod outcome;
mod overrides;
mod page;
mod pick;
mod report;
mod rows;
mod run;
mod sensitivity;
mod table;
mod trials;

pub use adaptive::{AdaptiveOptions, AdaptiveOutcome, Aim, AimPoint, Reached, Table, Trace, adaptive};
pub use again::judge_again;
pub use claim::{Claim, Gain, Relation, is_bound};
pub use counts::{Count, Counted, Counts};
pub use error::Error;
pub use judgement::{Standing, Verdict};
pub use measured::Measured;
pub use outcome::{Drawn, Judged, Outcome};
pub use overrides::Overrides;
pub use run::{Options, Progress, reproduce};
pub use sensitivity::{Sensitivity, Variant, sensitivity};
pub use trials::{Trials, trials};
