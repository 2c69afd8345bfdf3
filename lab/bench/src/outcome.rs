//! The outcome: the runs, the judged cells, the claims.

use crate::Result;
use crate::judge::{self, Claim, Judged, Verdict};
use crate::options::Options;
use crate::policy::Policy;
use crate::record::{self, Plan, Run};
use serde::Serialize;

/// See the module's documentation.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The settings that all runs share.
    pub plan: Plan,
    /// Pairs that were requested.
    pub pairs: u32,
    /// The claims with their verdicts.
    pub claims: Vec<Claim>,
    /// Every cell.
    pub cells: Vec<Judged>,
    /// Failed runs that were not repeated since, as text.
    pub failed: Vec<String>,
    /// The machine's mean load before runs; the benchmark's earlier readers count.
    pub load: f64,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

impl Outcome {
    pub(crate) fn of(plan: Plan, runs: Vec<Run>, options: &Options, notes: Vec<String>) -> Self {
        let cells = judge::judge_cells(&runs, &options.cells, &options.policies);
        let failed = |run: &Run| match &run.outcome {
            record::Outcome::Failed(why) if !record::has(&runs, run.cell, &run.policy, run.pair) => {
                Some(format!("{}, {}, pair {}: {why}", run.cell, run.policy, run.pair + 1))
            }
            record::Outcome::Failed(_) | record::Outcome::Measured(_) => None,
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

    /// The outcome of runs from a file: the line of the plan, then one for each run.
    ///
    /// # Errors
    /// Where a line is none of these.
    pub fn of_rows(rows: &str) -> Result<Self> {
        let (plan, runs): (Plan, Vec<Run>) = record::parse(rows)?;
        let mut options = Options { cells: Vec::new(), policies: Vec::new(), ..Options::default() };
        for run in &runs {
            if !options.cells.contains(&run.cell) {
                options.cells.push(run.cell);
            }
            let is_modelled = matches!(run.policy, Policy::Oracle | Policy::Virtual(_));
            if !is_modelled && !options.policies.contains(&run.policy) {
                options.policies.push(run.policy.clone());
            }
            options.pairs = options.pairs.max(run.pair + 1);
        }
        Ok(Self::of(plan, runs, &options, Vec::new()))
    }

    /// Whether every claim holds. An inconclusive one does not, and none does while runs have failed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.failed.is_empty() && self.claims.iter().all(|claim| claim.verdict == Verdict::Holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;

    #[test]
    fn what_failed_is_told_until_it_is_made_good_and_nothing_holds_until_then() {
        let options = Options { cells: vec![Cell::Hot], ..Options::default() };
        let run = |outcome| Run { cell: Cell::Hot, policy: Policy::Plain, pair: 0, seed: 1, outcome };
        let of = |runs| Outcome::of(Plan::of(&options), runs, &options, Vec::new());
        let failed = run(record::Outcome::Failed("it died".to_owned()));
        let outcome = of(vec![failed.clone()]);
        assert_eq!(outcome.failed, ["hot, plain, pair 1: it died"]);
        // There is no claim about it, but a requested run is missing.
        assert!(outcome.claims.is_empty() && !outcome.holds());
        let good = run(record::Outcome::Measured(Box::default()));
        let outcome = of(vec![failed, good]);
        assert!(outcome.failed.is_empty() && outcome.holds());
    }
}
