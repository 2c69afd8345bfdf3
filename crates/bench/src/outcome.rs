//! What came out of it all: the runs, the judged cells, the claims.

use crate::judge::{self, Claim, Judged, Verdict};
use crate::options::Options;
use crate::record::{self, Plan, Run};
use serde::Serialize;

/// See the module's documentation.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The settings that all runs share.
    pub plan: Plan,
    /// Pairs that were asked for.
    pub pairs: u32,
    /// What is claimed, and how it came out.
    pub claims: Vec<Claim>,
    /// Every cell.
    pub cells: Vec<Judged>,
    /// Runs that failed, as text.
    pub failed: Vec<String>,
    /// The load of the machine before runs, on average; our own earlier readers count.
    pub load: f64,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Outcome {
    pub(crate) fn of(plan: Plan, runs: Vec<Run>, options: &Options, notes: Vec<String>) -> Self {
        let cells = judge::judge_cells(&runs, &options.cells, &options.policies);
        let failed = |run: &Run| match &run.outcome {
            record::Outcome::Failed(why) => {
                Some(format!("{}, {}, pair {}: {why}", run.cell, run.policy, run.pair + 1))
            }
            record::Outcome::Measured(_) => None,
        };
        let loads: Vec<f64> = runs
            .iter()
            .filter_map(|run| match &run.outcome {
                record::Outcome::Measured(measured) => Some(measured.load),
                record::Outcome::Failed(_) => None,
            })
            .filter(|load| *load > 0.0)
            .collect();
        Self {
            plan,
            pairs: options.pairs,
            claims: judge::claims(&runs, &cells),
            cells,
            failed: runs.iter().filter_map(failed).collect(),
            load: loads.iter().sum::<f64>() / loads.len().max(1) as f64,
            notes,
        }
    }

    /// Whether every claim holds. Inconclusive is not.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.verdict == Verdict::Holds)
    }
}
