//! How each claim is measured: which runs it needs and how its number is taken from them.
//!
//! A claim that names conditions ("low concurrency") is measured at all levels that its paper calls
//! so. Where a claim speaks of a whole sweep in one number, the number is the mean over the sweep,
//! seed by seed; where every place is meant ("all concurrency"), it is the place that is furthest
//! from what is stated. A new claim is one line in one of the lists.

mod analytic;
mod eurosys;
mod tr840;

use crate::Measured;
use crate::pick::Runs;

/// One claim's way.
pub(crate) struct Row {
    /// The claim.
    pub(crate) id: &'static str,
    /// The runs that it needs; none for what asks the code itself.
    pub(crate) needs: &'static [&'static str],
    /// Takes the number.
    pub(crate) measure: fn(&Context<'_>) -> Option<Measured>,
    /// Why it does not hold, where it does not and an experiment has shown why.
    pub(crate) why: Option<&'static str>,
}

impl Row {
    const fn new(
        id: &'static str,
        needs: &'static [&'static str],
        measure: fn(&Context<'_>) -> Option<Measured>,
    ) -> Self {
        Self { id, needs, measure, why: None }
    }
}

/// What a measurement may use.
pub(crate) struct Context<'a> {
    /// The runs.
    pub(crate) runs: &'a Runs,
    /// Seeds for what draws random numbers itself.
    pub(crate) seeds: &'a [u64],
}

/// Every row that can be run.
pub(crate) fn all() -> impl Iterator<Item = &'static Row> {
    analytic::ROWS.iter().chain(tr840::ROWS).chain(eurosys::ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;
    use crate::figure::Figure;
    use std::collections::BTreeSet;

    #[test]
    fn every_claim_of_the_first_three_papers_but_those_of_the_prefetch_cache_has_a_row() {
        let claims = Claim::all().expect("built in");
        let wanted: BTreeSet<&str> = claims
            .iter()
            .filter(|claim| ["TR840", "POSITION", "EUROSYS"].contains(&claim.paper.as_str()))
            .filter(|claim| !claim.policy.contains("CPEM"))
            .map(|claim| claim.id.as_str())
            .collect();
        let rows: Vec<&str> = all().map(|row| row.id).collect();
        assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), wanted);
        assert_eq!((rows.len(), wanted.len()), (59, 59), "each once");
    }

    #[test]
    fn what_a_row_needs_is_declared_by_a_figure() {
        let figures = Figure::all().expect("built in");
        let runs: BTreeSet<&str> =
            figures.iter().flat_map(|figure| &figure.runs).map(|run| run.name.as_str()).collect();
        for row in all() {
            assert!(row.needs.iter().all(|need| runs.contains(need)), "{}: {:?}", row.id, row.needs);
        }
    }
}
