//! What has come out.

use crate::{Claim, Measured, Verdict};
use foreseek_kernels::Congestion;
use serde_json::{Value, json};
use std::fmt::Write;

/// A claim and what became of it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The claim.
    pub claim: Claim,
    /// What was measured.
    pub measured: Measured,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Why it does not, where an experiment has shown it.
    pub why: Option<&'static str>,
    /// What was set by the claim's number, where something was: it is no prediction then.
    pub sets: Option<&'static str>,
}

/// A figure, drawn.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// What it is called in its paper.
    pub title: String,
    /// What it shows.
    pub caption: String,
    /// The file that declares it.
    pub file: &'static str,
    /// Its charts, as SVG documents.
    pub charts: Vec<String>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The claims, in the order of the papers.
    pub claims: Vec<Judged>,
    /// The figures whose runs were made.
    pub figures: Vec<Drawn>,
    /// Whether it was only a look.
    pub quick: bool,
    /// The first seed.
    pub seed: u64,
    /// The rule of congestion that was set in place of the set-ups' own.
    pub congestion: Option<Congestion>,
}

impl Outcome {
    /// How many claims hold.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.claims.iter().filter(|judged| judged.verdict.holds).count()
    }

    /// The count in words, with that of the claims by whose numbers nothing was set.
    #[must_use]
    pub fn count(&self) -> String {
        let all = format!("{} of {} claims hold", self.holding(), self.claims.len());
        let predictions = self.claims.iter().filter(|judged| judged.sets.is_none());
        let (held, predicted) =
            predictions.fold((0, 0), |(held, all), one| (held + usize::from(one.verdict.holds), all + 1));
        if predicted == self.claims.len() {
            return all;
        }
        format!("{all}; {held} of {predicted} without those whose numbers were used to set something")
    }

    /// What stands behind the number of claims that hold, where they were not measured as they are meant.
    pub(crate) fn reservation(&self) -> String {
        let look = self.quick.then(|| "a look: one seed, no intervals".to_owned());
        let rule = self.congestion.map(|rule| format!("congestion: {rule} in every set-up"));
        let parts: Vec<String> = look.into_iter().chain(rule).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
    }

    /// A list of objects, one a claim.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.claims.iter().map(Judged::to_json).collect()
    }

    /// A line a claim, with a head.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = String::from("id,paper,section,relation,stated,unit,value,low,high,holds,miss\n");
        for Judged { claim, measured, verdict, .. } in &self.claims {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{}",
                claim.id,
                claim.paper,
                claim.section,
                claim.relation,
                claim.value,
                claim.unit,
                measured.value.mean,
                measured.value.low,
                measured.value.high,
                verdict.holds,
                verdict.miss
            );
        }
        text
    }
}

impl Judged {
    fn to_json(&self) -> Value {
        let Self { claim, measured, verdict, why, sets } = self;
        let sweep: Vec<Value> = measured
            .sweep
            .iter()
            .map(|(place, value)| json!({ "place": place, "value": value.mean, "low": value.low, "high": value.high }))
            .collect();
        json!({
            "id": claim.id,
            "paper": claim.paper,
            "section": claim.section,
            "device": claim.device,
            "workload": claim.workload,
            "condition": claim.condition,
            "policy": claim.policy,
            "against": claim.against,
            "metric": claim.metric,
            "relation": claim.relation,
            "stated": claim.value,
            "unit": claim.unit,
            "value": measured.value.mean,
            "low": measured.value.low,
            "high": measured.value.high,
            "shown": measured.shown,
            "holds": verdict.holds,
            "miss": verdict.miss,
            "why": why,
            "used_to_set": sets,
            "sweep": sweep,
        })
    }

    /// The measured value as people read it.
    #[must_use]
    pub fn ours(&self) -> String {
        let value = &self.measured.value;
        match &self.measured.shown {
            Some(shown) => shown.clone(),
            None if value.low < value.high => {
                format!("{} ± {}", digits(value.mean), digits((value.high - value.low) / 2.0))
            }
            None => digits(value.mean),
        }
    }

    /// What the paper says, with its relation.
    #[must_use]
    pub fn stated(&self) -> String {
        let Claim { relation, value, unit, .. } = &self.claim;
        match relation.as_str() {
            "approx" => format!("≈ {value} {unit}"),
            "up-to" => format!("up to {value} {unit}"),
            "at-least" => format!("≥ {value} {unit}"),
            "at-most" => format!("≤ {value} {unit}"),
            "less-than" => format!("< {value} {unit}"),
            "between" => format!("{} {unit}", value.replace("..", " to ")),
            _ => format!("{value} {unit}"),
        }
    }

    /// Holds, or by how much not; and whether its number was used to set something.
    #[must_use]
    pub fn judgement(&self) -> String {
        let verdict = self.verdict();
        if self.sets.is_some() { format!("{verdict}, used to set") } else { verdict }
    }

    fn verdict(&self) -> String {
        if self.verdict.holds {
            return "holds".to_owned();
        }
        match self.claim.relation().map(|relation| relation == crate::Relation::Exact) {
            Ok(false) if self.verdict.miss.is_finite() => {
                format!("missed by {} %", digits(100.0 * self.verdict.miss))
            }
            _ => "missed".to_owned(),
        }
    }
}

/// A number with three digits that count.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}
