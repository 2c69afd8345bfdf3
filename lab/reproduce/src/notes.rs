//! Notes on a claim: what experiments have shown about a miss, and what was set by its number.

use crate::{Error, trials};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The project's notes, by claim.
const NOTES: &str = include_str!("../../../experiments/explanations.toml");

/// The notes on one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Note {
    /// Why it is missed, if an experiment has shown why.
    pub(crate) why: Option<String>,
    /// What was set by the claim's number, if anything: then it is no prediction.
    pub(crate) used_to_set: Option<String>,
}

/// All notes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(BTreeMap<String, Note>);

impl Notes {
    /// All notes; a claim without an explanation has the list of what was varied.
    ///
    /// # Errors
    /// A built-in file is damaged.
    pub(crate) fn all() -> Result<Self, Error> {
        let mut notes: BTreeMap<String, Note> =
            toml::from_str(NOTES).map_err(|error| Error::Claims(error.to_string()))?;
        for (claim, varied) in trials::by_claim()? {
            let why = format!(
                "varied: {} (experiments/trials.toml; --trials shows what comes out)",
                varied.join("; ")
            );
            notes.entry(claim).or_default().why.get_or_insert(why);
        }
        Ok(Self(notes))
    }

    /// Those on a claim.
    pub(crate) fn of(&self, id: &str) -> Note {
        self.0.get(id).cloned().unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Note)> {
        self.0.iter().map(|(id, note)| (&**id, note))
    }
}
