//! Judges the results of an earlier run by the present rules; the values are those of that run.

use crate::claim::Claim;
use crate::notes::Notes;
use crate::outcome::{Judged, Outcome};
use crate::overrides::Overrides;
use crate::{Error, Measured, rows, run};
use foreseek_simulate::experiment::Summary;
use serde_json::Value;

/// Judges the values in the `results.json` of an earlier run. Results of a newer run in `newer` replace those
/// of the same claims. Figures are not drawn.
///
/// # Errors
/// A text is no list of results, or names a claim that is not known.
pub fn judge_again(results: &str, newer: Option<&str>) -> Result<Outcome, Error> {
    let newer = newer.map(read).transpose()?.unwrap_or_default();
    let notes = Notes::all()?;
    let mut judged: Vec<Judged> = Vec::new();
    for result in read(results)? {
        let id = text(&result, "id")?;
        let result = newer.iter().find(|newer| newer["id"] == id).unwrap_or(&result);
        let claim = Claim::all()?.into_iter().chain(Claim::checks()?).find(|claim| claim.id == id);
        let claim = claim.ok_or_else(|| wrong(format!("there is no claim '{id}'")))?;
        let row = rows::with_checks()
            .find(|row| row.id == id)
            .ok_or_else(|| wrong(format!("nothing measures '{id}'")))?;
        judged.push(run::judge(claim, row, measured(result)?, &notes)?);
    }
    Ok(Outcome {
        claims: judged,
        not_run: Vec::new(),
        figures: Vec::new(),
        quick: false,
        seed: 1,
        set: Overrides::default(),
    })
}

fn wrong(reason: String) -> Error {
    Error::Results(reason)
}

fn read(text: &str) -> Result<Vec<Value>, Error> {
    serde_json::from_str(text).map_err(|error| wrong(error.to_string()))
}

fn text<'a>(result: &'a Value, key: &str) -> Result<&'a str, Error> {
    result[key].as_str().ok_or_else(|| wrong(format!("a result has no '{key}'")))
}

/// A bound was judged by its worst run, which is the value.
fn measured(result: &Value) -> Result<Measured, Error> {
    let number = |value: &Value, key: &str| {
        value[key].as_f64().ok_or_else(|| wrong(format!("{}: '{key}' is not a number", result["id"])))
    };
    let summary = |value: &Value| {
        let mean = number(value, "value")?;
        Ok::<_, Error>(Summary {
            mean,
            low: number(value, "low")?,
            high: number(value, "high")?,
            values: vec![mean],
        })
    };
    let places = |key: &str| -> Result<Vec<(String, Summary)>, Error> {
        let places = result[key].as_array().map_or(&[][..], |places| places);
        places.iter().map(|place| Ok((text(place, "place")?.to_owned(), summary(place)?))).collect()
    };
    Ok(Measured {
        value: summary(result)?,
        bound: None,
        exact: Some(result["holds"] == true || result["verdict"] == "holds"),
        shown: result["shown"].as_str().map(str::to_owned),
        sweep: places("sweep")?,
        beside: places("not_judged")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_earlier_value_is_judged_by_the_rules_as_they_are() {
        let result = |id: &str, value: f64| json!({ "id": id, "value": value, "low": value, "high": value, "shown": null, "holds": true, "sweep": [] });
        let old = json!([result("TR-micro-max", 1.98), result("EU-whole", 0.885)]).to_string();
        let outcome = judge_again(&old, None).expect("results");
        let said: Vec<&str> = outcome.claims.iter().map(Judged::standing).collect();
        assert_eq!(said, ["beyond", "missed"], "a rule that takes what was printed would let both hold");
        let newer = json!([result("EU-whole", 0.99)]).to_string();
        let outcome = judge_again(&old, Some(&newer)).expect("results");
        assert_eq!(outcome.claims[1].standing(), "holds");
        assert!(judge_again("{}", None).is_err());
        assert!(judge_again(&json!([result("nobody", 1.0)]).to_string(), None).is_err());
    }
}
