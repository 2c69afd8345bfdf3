//! The outcome of a reproduction.

use crate::counts::{Counted, Counts};
use crate::judgement::Standing;
use crate::overrides::Overrides;
use crate::{Claim, Measured, Verdict};
use foreseek_simulate::experiment::Summary;
use serde_json::{Value, json};
use std::fmt::Write;

/// A claim with its verdict.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The claim.
    pub claim: Claim,
    /// What was measured.
    pub measured: Measured,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Why it does not hold, if an experiment has shown why.
    pub why: Option<String>,
    /// What was set by the claim's number, if anything: then it is no prediction.
    pub sets: Option<String>,
    /// Whether nothing is simulated for it: arithmetic on the papers' own inputs, or theory.
    pub arithmetic: bool,
}

/// A figure, drawn.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// Its name in its paper.
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
    /// The claims, in the order of the papers, and after them the checks, which do not count.
    pub claims: Vec<Judged>,
    /// Requested claims of these papers for which there is no run yet: neither held nor missed.
    pub not_run: Vec<String>,
    /// The figures whose runs were made.
    pub figures: Vec<Drawn>,
    /// Whether it was a short run.
    pub quick: bool,
    /// The first seed.
    pub seed: u64,
    /// The overrides of the set-ups.
    pub set: Overrides,
}

impl Outcome {
    /// Whether all claims and checks hold.
    #[must_use]
    pub fn all_hold(&self) -> bool {
        self.claims.iter().all(|judged| judged.verdict.holds())
    }

    /// How many checks hold, if there are any; they do not count.
    pub(crate) fn checked(&self) -> Option<String> {
        let checks = || self.claims.iter().filter(|judged| judged.claim.check);
        let held = checks().filter(|judged| judged.verdict.holds()).count();
        (checks().count() > 0).then(|| format!("{held} of {} checks beside the count hold", checks().count()))
    }

    /// The counts.
    #[must_use]
    pub fn count(&self) -> Counts {
        let claims = self.claims.iter().filter(|judged| !judged.claim.check);
        Counts::of(claims.map(|judged| Counted {
            arithmetic: judged.arithmetic,
            used: judged.sets.is_some(),
            bound: judged.claim.is_bound(),
            standing: judged.verdict.standing,
            strict: judged.verdict.strict,
        }))
    }

    /// The reservation after the number of claims that hold, where they were not measured as intended.
    pub(crate) fn reservation(&self) -> String {
        let look = self.quick.then(|| "a look: one seed, no intervals".to_owned());
        let rule = (!self.set.is_empty()).then(|| format!("with {} in every set-up", self.set));
        let parts: Vec<String> = look.into_iter().chain(rule).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
    }

    /// A list of objects, one for each claim.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.claims.iter().map(Judged::to_json).collect()
    }

    /// A line for each claim, with a header.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "id,paper,section,kind,relation,stated,unit,value,low,high,verdict,strict,effect,times\n",
        );
        for judged in &self.claims {
            let Judged { claim, measured, verdict, .. } = judged;
            let share = |share: Option<f64>| share.map(|share| share.to_string()).unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                claim.id,
                claim.paper,
                claim.section,
                judged.kind(),
                claim.relation,
                claim.value,
                claim.unit,
                measured.value.mean,
                measured.value.low,
                measured.value.high,
                judged.standing(),
                verdict.strict,
                share(verdict.effect),
                share(verdict.times)
            );
        }
        text
    }
}

impl Judged {
    fn to_json(&self) -> Value {
        let Self { claim, measured, verdict, why, sets, .. } = self;
        let places = |places: &[(String, Summary)]| -> Vec<Value> {
            places
                .iter()
                .map(|(place, value)| json!({ "place": place, "value": value.mean, "low": value.low, "high": value.high }))
                .collect()
        };
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
            "kind": self.kind(),
            "verdict": self.standing(),
            "strict": verdict.strict,
            "effect": verdict.effect,
            "times": verdict.times,
            "judged": self.judgement(),
            "ours": self.ours(),
            "paper_says": self.stated(),
            "why": why,
            "used_to_set": sets,
            "sweep": places(&measured.sweep),
            "not_judged": places(&measured.beside),
        })
    }

    /// The measured value as text.
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

    /// The mean, in brackets where the claim does not hold.
    pub(crate) fn value_or_miss(&self) -> String {
        let value = digits(self.measured.value.mean);
        if self.verdict.holds() { value } else { format!("({value})") }
    }

    /// The paper's value, with its relation.
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

    /// The points that were run and are not judged, with their values.
    #[must_use]
    pub fn beside(&self) -> String {
        let place = |(place, value): &(String, Summary)| format!("{place} {}", digits(value.mean));
        self.measured.beside.iter().map(place).collect::<Vec<_>>().join("; ")
    }

    /// Whether it is simulated.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match () {
            () if self.claim.check => "check",
            () if self.arithmetic => "arithmetic",
            () => "simulated",
        }
    }

    /// Its standing, in a word.
    #[must_use]
    pub fn standing(&self) -> &'static str {
        self.verdict.standing.word()
    }

    /// Its standing: strictly or not, or how much of the stated effect there is; and whether its number was
    /// used to set something.
    #[must_use]
    pub fn judgement(&self) -> String {
        let mut text = self.standing().to_owned();
        match (self.verdict.standing, self.verdict.effect, self.verdict.times) {
            (Standing::Holds, ..) if self.arithmetic => {}
            (Standing::Holds, ..) if self.verdict.strict => text.push_str(" strictly"),
            (Standing::Holds, Some(effect), _) => text.push_str(&share(effect)),
            (Standing::Missed | Standing::Beyond, Some(effect), _) => text.push_str(&share(effect)),
            (Standing::Missed | Standing::Beyond, None, Some(times)) => {
                text.push_str(&format!(": {} times what is stated", digits(times)));
            }
            _ => {}
        }
        if self.sets.is_some() {
            text.push_str(", used to set");
        }
        text
    }
}

/// How much of a stated effect there is.
fn share(effect: f64) -> String {
    if effect > 0.0 {
        format!(": {:.0} % of the stated effect", 100.0 * effect)
    } else {
        ": none of the stated effect".to_owned()
    }
}

/// A number with three significant digits.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}
