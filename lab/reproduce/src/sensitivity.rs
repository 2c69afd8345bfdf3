//! What claims depend on that no paper gives: all claims with one setting changed at a time.

use crate::overrides::Overrides;
use crate::run::reproduce_part;
use crate::{Error, Options, Outcome, Progress};
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use serde_json::{Value, json};

/// The project's list of variants.
const VARIANTS: &str = include_str!("../../../experiments/sensitivity.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    variant: Vec<WrittenVariant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenVariant {
    name: String,
    set: toml::Table,
}

/// The claims with the set-ups' settings, and under each variant.
pub struct Sensitivity {
    /// The name of each; the set-ups' own comes first.
    pub outcomes: Vec<(String, Outcome)>,
}

fn variants() -> Result<Vec<(String, Overrides)>, Error> {
    let written: Written = toml::from_str(VARIANTS).map_err(|error| Error::Claims(error.to_string()))?;
    written.variant.into_iter().map(|variant| Ok((variant.name, Overrides::of(variant.set)?))).collect()
}

/// Runs the requested claims under every variant.
///
/// # Errors
/// No claim matches, or a run fails.
pub fn sensitivity(
    options: &Options,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Sensitivity, Error> {
    let mut all = vec![("as set up".to_owned(), Overrides::default())];
    all.extend(variants()?);
    let count = all.len();
    let mut outcomes = Vec::new();
    for (at, (name, set)) in all.into_iter().enumerate() {
        let options = Options { set, ..options.clone() };
        outcomes.push((name, reproduce_part(&options, (at, count), progress)?));
    }
    Ok(Sensitivity { outcomes })
}

impl Sensitivity {
    /// A line for each claim, a column for each variant: the value, in brackets if the claim does not hold.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        let names = self.outcomes.iter().map(|(name, _)| name.as_str());
        table.set_header(["claim", "paper"].into_iter().chain(names));
        for column in 2..self.outcomes.len() + 2 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let Some((_, first)) = self.outcomes.first() else { return String::new() };
        for (at, judged) in first.claims.iter().enumerate().filter(|(_, judged)| !judged.arithmetic) {
            let mut row = vec![judged.claim.id.clone(), judged.stated()];
            row.extend(self.outcomes.iter().map(|(_, outcome)| outcome.claims[at].value_or_miss()));
            table.add_row(row);
        }
        let mut text = format!("{table}\n\nIn brackets: does not hold.\n");
        for (name, outcome) in &self.outcomes {
            text.push_str(&format!("{name}: {}\n", outcome.count()));
        }
        text
    }

    /// The outcomes, by variant.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let outcomes = self.outcomes.iter();
        outcomes
            .map(|(name, outcome)| json!({ "variant": name, "set": outcome.set.to_string(), "claims": outcome.to_json() }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;

    #[test]
    fn every_variant_can_be_set_in_every_figure_and_changes_something() {
        let before = Figure::all().expect("built in");
        for (name, overrides) in variants().expect("built in") {
            let after = Figure::with(&overrides, &|_| true).unwrap_or_else(|error| panic!("{name}: {error}"));
            let text =
                |figures: &[Figure]| format!("{:?}", figures.iter().map(|one| &one.runs).collect::<Vec<_>>());
            assert_ne!(text(&before), text(&after), "{name}");
        }
    }
}
