//! What was varied to explain missed claims: each trial sets something in the runs of its claims alone.

use crate::figure::Figure;
use crate::overrides::Overrides;
use crate::run::{Only, reproduce_part};
use crate::{Claim, Error, Options, Outcome, Progress, rows};
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The project's list of trials.
const TRIALS: &str = include_str!("../../../experiments/trials.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    trial: Vec<WrittenTrial>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTrial {
    what: String,
    claims: Vec<String>,
    set: toml::Table,
}

/// A variation.
struct Trial {
    /// Its description.
    what: String,
    /// The claims that it may explain.
    claims: Vec<String>,
    set: Overrides,
}

/// The claims with the set-ups' settings, and those of each trial with its own.
pub struct Trials {
    as_set_up: Outcome,
    trials: Vec<(Trial, Outcome)>,
}

fn all() -> Result<Vec<Trial>, Error> {
    let written: Written = toml::from_str(TRIALS).map_err(|error| Error::Claims(error.to_string()))?;
    let read = |trial: WrittenTrial| {
        let WrittenTrial { what, claims, set } = trial;
        Ok(Trial { what, claims, set: Overrides::of(set)? })
    };
    written.trial.into_iter().map(read).collect()
}

/// The descriptions of what was varied for each claim.
///
/// # Errors
/// The built-in list is damaged.
pub(crate) fn by_claim() -> Result<BTreeMap<String, Vec<String>>, Error> {
    let mut varied: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for trial in all()? {
        for claim in trial.claims {
            varied.entry(claim).or_default().push(trial.what.clone());
        }
    }
    Ok(varied)
}

/// Runs the trials of the requested claims, and these claims with the set-ups' settings.
///
/// # Errors
/// There is no trial of such a claim, or a run fails.
pub fn trials(options: &Options, progress: &(dyn Fn(Progress<'_>) + Sync)) -> Result<Trials, Error> {
    let wanted = Only::new(options.only.as_deref());
    let mut asked = all()?;
    for trial in &mut asked {
        trial.claims.retain(|claim| wanted.matches(claim));
    }
    asked.retain(|trial| !trial.claims.is_empty());
    let claims: BTreeSet<&str> = asked.iter().flat_map(|trial| &trial.claims).map(String::as_str).collect();
    if claims.is_empty() {
        let glob = options.only.clone().unwrap_or_default();
        return Err(Error::NoTrial { glob });
    }
    // Settings that cannot be made are reported at once, not after minutes.
    for trial in &asked {
        figures_of(trial)?;
    }
    let count = asked.len() + 1;
    let run = |at: usize, claims: String, set: &Overrides| {
        let options = Options { only: Some(claims), set: set.clone(), ..options.clone() };
        reproduce_part(&options, (at, count), progress)
    };
    let as_set_up = run(0, Vec::from_iter(claims).join(","), &Overrides::default())?;
    let mut trials = Vec::new();
    for (at, trial) in asked.into_iter().enumerate() {
        let outcome = run(at + 1, trial.claims.join(","), &trial.set)?;
        trials.push((trial, outcome));
    }
    Ok(Trials { as_set_up, trials })
}

/// The runs that a trial's claims need.
fn runs_of(trial: &Trial) -> BTreeSet<&'static str> {
    let is_of = |row: &rows::Row| trial.claims.iter().any(|claim| claim == row.id);
    rows::with_checks().filter(|row| is_of(row)).flat_map(|row| row.needs).copied().collect()
}

/// The figures with a trial's settings in the runs of its claims.
fn figures_of(trial: &Trial) -> Result<Vec<Figure>, Error> {
    Figure::of_runs(&trial.set, &runs_of(trial))
}

impl Trials {
    /// A line for each claim and trial: the claim's value with the set-ups' settings, and in the trial.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(["claim", "paper", "as set up", "in the trial", "what was varied"]);
        for column in 2..4 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for judged in &self.as_set_up.claims {
            let Claim { id, .. } = &judged.claim;
            for (trial, outcome) in &self.trials {
                if let Some(then) = outcome.claims.iter().find(|then| then.claim.id == *id) {
                    table.add_row([
                        id,
                        &judged.stated(),
                        &judged.value_or_miss(),
                        &then.value_or_miss(),
                        &trial.what,
                    ]);
                }
            }
        }
        format!("{table}\n\nIn brackets: does not hold.\n")
    }

    /// The claims as set up, and by trial.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let one = |what: &str, outcome: &Outcome| {
            let set = outcome.set.to_string();
            json!({ "trial": what, "set": set, "claims": outcome.to_json() })
        };
        let as_set_up = one("as set up", &self.as_set_up);
        let trials = self.trials.iter().map(|(trial, outcome)| one(&trial.what, outcome));
        std::iter::once(as_set_up).chain(trials).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_can_be_set_in_the_runs_of_its_claims_and_changes_something_in_each() {
        let before = Figure::all().expect("built in");
        let text = |figures: &[Figure], name: &str| {
            let run = figures.iter().flat_map(|figure| &figure.runs).find(|run| run.name == name);
            format!("{:?}", run.unwrap_or_else(|| panic!("there is no run '{name}'")))
        };
        for trial in all().expect("built in") {
            for claim in &trial.claims {
                assert!(rows::with_checks().any(|row| row.id == claim), "{claim}");
            }
            let after = figures_of(&trial).unwrap_or_else(|error| panic!("{}: {error}", trial.what));
            for name in runs_of(&trial) {
                assert_ne!(text(&before, name), text(&after, name), "{}, {name}", trial.what);
            }
        }
    }
}
