//! How each claim is measured: which runs it needs and how its number is taken from them.
//!
//! A claim about conditions ("low concurrency") is measured at all levels that its paper calls so. For a claim
//! about a whole sweep in one number, the number is the mean over the sweep, seed by seed. For a claim about
//! every point ("all concurrency") it is the point furthest from the stated value. A new claim is one line in
//! one of the lists.

mod analytic;
mod atc08;
mod atc09;
mod checks;
mod eurosys;
mod tr840;

use crate::Measured;
use crate::claim::Claim;
use crate::pick::Runs;
use crate::run::Only;
use std::collections::BTreeSet;

/// How one claim is measured.
pub(crate) struct Row {
    /// The claim.
    pub(crate) id: &'static str,
    /// The runs that it needs; none if it evaluates the code itself.
    pub(crate) needs: &'static [&'static str],
    /// Takes the number.
    pub(crate) measure: fn(&Context<'_>) -> Option<Measured>,
}

impl Row {
    const fn new(
        id: &'static str,
        needs: &'static [&'static str],
        measure: fn(&Context<'_>) -> Option<Measured>,
    ) -> Self {
        Self { id, needs, measure }
    }

    /// Whether nothing is simulated for it: arithmetic on the papers' own inputs, or theory.
    pub(crate) fn is_arithmetic(&self) -> bool {
        self.needs.is_empty()
    }
}

/// What a measurement may use.
pub(crate) struct Context<'a> {
    /// The runs.
    pub(crate) runs: &'a Runs,
    /// Seeds for rows that draw random numbers themselves.
    pub(crate) seeds: &'a [u64],
}

/// Every row that can be run.
pub(crate) fn all() -> impl Iterator<Item = &'static Row> {
    analytic::ROWS.iter().chain(tr840::ROWS).chain(eurosys::ROWS).chain(atc08::ROWS).chain(atc09::ROWS)
}

/// The same, and the checks beside them.
pub(crate) fn with_checks() -> impl Iterator<Item = &'static Row> {
    all().chain(checks::ROWS)
}

/// The claims, among those of papers with rows, that have no row, as far as their names match.
pub(crate) fn not_run(claims: &[Claim], only: &Only) -> Vec<String> {
    let has_row = |id: &str| all().any(|row| row.id == id);
    let papers: BTreeSet<&str> =
        claims.iter().filter(|claim| has_row(&claim.id)).map(|claim| claim.paper.as_str()).collect();
    let unrun = claims.iter().filter(|claim| papers.contains(claim.paper.as_str()) && !has_row(&claim.id));
    unrun.map(|claim| claim.id.clone()).filter(|id| only.matches(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;
    use crate::notes::Notes;
    use foreseek_device::Profile;
    use foreseek_simulate::experiment::Experiment;

    #[test]
    fn every_claim_of_the_first_three_papers_has_a_row() {
        let claims = Claim::all().expect("built in");
        let wanted: BTreeSet<&str> = claims
            .iter()
            .filter(|claim| ["TR840", "POSITION", "EUROSYS"].contains(&claim.paper.as_str()))
            .map(|claim| claim.id.as_str())
            .collect();
        let rows: Vec<&str> =
            all().map(|row| row.id).filter(|id| !id.starts_with("ASP-") && !id.starts_with("LP-")).collect();
        assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), wanted);
        assert_eq!((rows.len(), wanted.len()), (70, 70), "each once");
    }

    #[test]
    fn every_check_has_a_row_and_no_claims_name() {
        let rows: Vec<&str> = checks::ROWS.iter().map(|row| row.id).collect();
        let checks = Claim::checks().expect("built in");
        assert_eq!(rows, checks.iter().map(|check| check.id.as_str()).collect::<Vec<_>>());
        assert!(rows.iter().all(|id| id.starts_with("CHECK-")));
    }

    /// ATC'08 and ATC'09 have rows where there are workloads; the other claims are listed as not run.
    #[test]
    fn a_claim_of_the_later_papers_has_a_row_or_is_not_run() {
        let claims = Claim::all().expect("built in");
        for (paper, prefix) in [("ATC08", "ASP-"), ("ATC09", "LP-")] {
            let theirs = || claims.iter().filter(|claim| claim.paper == paper).map(|claim| claim.id.as_str());
            let rows: BTreeSet<&str> = all().map(|row| row.id).filter(|id| id.starts_with(prefix)).collect();
            assert!(rows.iter().all(|id| theirs().any(|claim| claim == *id)));
            let unrun: BTreeSet<String> =
                not_run(&claims, &Only::new(Some(&format!("{prefix}*")))).into_iter().collect();
            assert_eq!(unrun.len() + rows.len(), theirs().count());
            assert!(unrun.iter().all(|id| !rows.contains(id.as_str())));
        }
    }

    #[test]
    fn an_explanation_is_of_a_row_and_names_an_experiment_with_its_numbers() {
        let notes = Notes::all().expect("built in");
        let rows: BTreeSet<&str> = all().chain(checks::ROWS).map(|row| row.id).collect();
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (id, note) in notes.iter() {
            assert!(rows.contains(id), "{id} is no row");
            let Some(why) = &note.why else { continue };
            assert!(
                why.contains(|c: char| c.is_ascii_digit()) || why.starts_with("varied"),
                "{id}: no number"
            );
            let files =
                why.split(['(', ')', ' ', ',', ';', ':']).filter(|word| word.starts_with("experiments/"));
            let files: Vec<_> = files.map(|file| root.join(file)).collect();
            assert!(!files.is_empty(), "{id}: no experiment to repeat");
            assert!(files.iter().all(|file| file.is_file()), "{id}: {files:?}");
        }
    }

    /// They are read and checked, but not run.
    #[test]
    fn the_experiments_that_explain_can_be_read() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let device = |name: &str| match Profile::builtin(name) {
            Some(profile) => Ok(profile),
            None => {
                let text = std::fs::read_to_string(root.join(name)).map_err(|error| error.to_string())?;
                Profile::parse(name, &text).map_err(|error| error.to_string())
            }
        };
        let mut read = 0;
        let folders = ["experiments/misses", "experiments/degraded"].map(|folder| root.join(folder));
        for entry in folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder")) {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a file");
            let name = path.display().to_string();
            if text.contains("[workload]") {
                Experiment::parse(&name, &text, &device).unwrap_or_else(|error| panic!("{error}"));
                read += 1;
            } else {
                Profile::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        assert!(read >= 12, "{read}");
    }

    #[test]
    fn what_a_row_needs_is_declared_by_a_figure() {
        let figures = Figure::all().expect("built in");
        let runs: BTreeSet<&str> =
            figures.iter().flat_map(|figure| &figure.runs).map(|run| run.name.as_str()).collect();
        for row in with_checks() {
            assert!(row.needs.iter().all(|need| runs.contains(need)), "{}: {:?}", row.id, row.needs);
        }
    }
}
