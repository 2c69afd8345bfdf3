//! What claims depend on that no paper gives: all claims with one setting changed at a time.

use crate::kept::Kept;
use crate::outcome::digits;
use crate::overrides::Overrides;
use crate::run::reproduce;
use crate::{Counts, Error, Options, Progress, Standing};
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// The set-ups' own settings come first.
    pub variants: Vec<Variant>,
}

/// The claims under one variant.
pub struct Variant {
    /// Its name.
    pub name: String,
    /// What is set.
    pub set: String,
    /// The claims, as in a file of results.
    pub claims: Value,
}

/// The name of the variant in which nothing is set.
const AS_SET_UP: &str = "as set up";

/// Variants that run at once. One alone leaves processors idle at the end of each of its runs.
const AT_ONCE: usize = 2;

/// Where a folder has the claims of each variant that has ended.
const PARTS: &str = "variants";

fn variants() -> Result<Vec<(String, Overrides)>, Error> {
    let written: Written = toml::from_str(VARIANTS).map_err(|error| Error::Claims(error.to_string()))?;
    written.variant.into_iter().map(|variant| Ok((variant.name, Overrides::of(variant.set)?))).collect()
}

/// Runs the requested claims under every variant. In a folder each variant's are kept as soon as it ends; variants
/// that are there are not run again.
///
/// # Errors
/// No claim matches, a run fails, or the folder has variants that another program or other options made.
pub fn sensitivity(
    options: &Options,
    folder: Option<&Path>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Sensitivity, Error> {
    let mut all = vec![(AS_SET_UP.to_owned(), Overrides::default())];
    all.extend(variants()?);
    run_variants(all, options, folder, progress)
}

fn run_variants(
    all: Vec<(String, Overrides)>,
    options: &Options,
    folder: Option<&Path>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Sensitivity, Error> {
    let kept = folder.map(|folder| Kept::at(folder.join(PARTS))).transpose()?;
    let lanes = options.workers.clamp(1, AT_ONCE);
    let parts: Vec<Part> = all
        .into_iter()
        .map(|(name, set)| {
            let options = Options { set, workers: options.workers.div_ceil(lanes), ..options.clone() };
            // What cannot be taken over is said at once, not after hours.
            let claims = kept.as_ref().map(|kept| kept.read(&name, &options)).transpose()?.flatten();
            Ok(Part { name, options, claims: Mutex::new(claims) })
        })
        .collect::<Result<_, Error>>()?;
    run_all(&parts, kept.as_ref(), lanes, progress)?;
    let variants = parts.into_iter().map(Part::into_variant).collect();
    Ok(Sensitivity { variants })
}

/// A variant and, once it has ended, its claims.
struct Part {
    name: String,
    options: Options,
    claims: Mutex<Option<Value>>,
}

impl Part {
    fn into_variant(self) -> Variant {
        let claims = self.claims.into_inner().unwrap_or_else(PoisonError::into_inner).unwrap_or_default();
        Variant { name: self.name, set: self.options.set.to_string(), claims }
    }

    fn claims(&self) -> MutexGuard<'_, Option<Value>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the parts that have not ended, several at once. After an error no other part begins.
fn run_all(
    parts: &[Part],
    kept: Option<&Kept>,
    lanes: usize,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(), Error> {
    let open: Vec<&Part> = parts.iter().filter(|part| part.claims().is_none()).collect();
    let shares = Mutex::new(vec![0.0; open.len()]);
    let ended = parts.len() - open.len();
    let report = |at: usize, step: Progress<'_>| {
        let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares[at] = step.share;
        let share = (ended as f64 + shares.iter().sum::<f64>()) / parts.len() as f64;
        progress(Progress { run: step.run, share });
    };
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let work = || {
        while failed.lock().is_ok_and(|failed| failed.is_none()) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = open.get(at) else { return };
            let made = reproduce(&part.options, &|step| report(at, step)).and_then(|outcome| {
                let claims = outcome.to_json();
                kept.map_or(Ok(()), |kept| kept.write(&part.name, &part.options, &claims))?;
                *part.claims() = Some(claims);
                Ok(())
            });
            if let (Err(error), Ok(mut failed)) = (made, failed.lock()) {
                failed.get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        (1..lanes).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    failed.into_inner().unwrap_or_default().map_or(Ok(()), Err)
}

impl Variant {
    fn claims(&self) -> impl Iterator<Item = &Value> {
        self.claims.as_array().into_iter().flatten()
    }

    /// A claim's value, in brackets if the claim does not hold.
    fn value_or_miss(&self, id: &Value) -> String {
        let Some(claim) = self.claims().find(|claim| claim["id"] == *id) else { return String::new() };
        let value = digits(claim["value"].as_f64().unwrap_or(f64::NAN));
        if claim["verdict"] == Standing::Holds.word() { value } else { format!("({value})") }
    }
}

impl Sensitivity {
    /// A line for each claim, a column for each variant: the value, in brackets if the claim does not hold.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        let names = self.variants.iter().map(|variant| variant.name.as_str());
        table.set_header(["claim", "paper"].into_iter().chain(names));
        for column in 2..self.variants.len() + 2 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let Some(first) = self.variants.first() else { return String::new() };
        for claim in first.claims().filter(|claim| claim["kind"] != "arithmetic") {
            let text = |key: &str| claim[key].as_str().unwrap_or_default().to_owned();
            let values = self.variants.iter().map(|variant| variant.value_or_miss(&claim["id"]));
            table.add_row([text("id"), text("paper_says")].into_iter().chain(values));
        }
        let mut text = format!("{table}\n\nIn brackets: does not hold.\n");
        for variant in &self.variants {
            let claims = variant.claims().filter(|claim| claim["kind"] != "check");
            text.push_str(&format!("{}: {}\n", variant.name, Counts::of_results(claims)));
        }
        text
    }

    /// The claims, by variant.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let variants = self.variants.iter();
        variants
            .map(|Variant { name, set, claims }| json!({ "variant": name, "set": set, "claims": claims }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;
    use crate::kept::file_name;
    use std::collections::BTreeSet;

    #[test]
    fn every_variant_can_be_set_in_every_figure_and_changes_something() {
        let texts = |figures: Vec<Figure>| figures.into_iter().map(|one| format!("{:?}", one.runs));
        let before: Vec<String> = texts(Figure::all().expect("built in")).collect();
        for (name, overrides) in variants().expect("built in") {
            let after = Figure::with(&overrides, &|_| true).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!texts(after).eq(before.iter().cloned()), "{name} changes nothing");
        }
    }

    /// The first variants, of arithmetic, so that nothing is simulated.
    fn run(options: &Options, folder: Option<&Path>) -> Result<Sensitivity, Error> {
        let some = variants().expect("built in").into_iter().take(3).collect();
        run_variants(some, options, folder, &|_| {})
    }

    fn options() -> Options {
        let only = Some("TR-depth-ibm".to_owned());
        Options { only, quick: true, seed: 1, set: Overrides::default(), workers: 2 }
    }

    #[test]
    fn each_variant_has_a_file_of_its_own() {
        let all = variants().expect("built in");
        let files: BTreeSet<String> = all.iter().map(|(name, _)| file_name(name)).collect();
        assert_eq!(files.len(), all.len());
        assert!(!files.contains(&file_name(AS_SET_UP)));
    }

    #[test]
    fn a_variant_that_has_ended_is_not_run_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = || run(&options(), Some(folder.path())).map(|made| made.to_json());
        let made = run().expect("a run");
        let file = |name: &str| folder.path().join(PARTS).join(name);
        let text = |name: &str| std::fs::read_to_string(file(name)).expect("kept");
        let (gone, marked) = ("4-in-device.json", "1-in-device.json");
        let before = text(gone);
        std::fs::remove_file(file(gone)).expect("removed");
        std::fs::write(file(marked), text(marked).replace("540 KB", "kept KB")).expect("written");
        let again = run().expect("a run");
        assert_eq!(text(gone), before);
        let both = again.as_array().expect("a list").iter().zip(made.as_array().expect("a list"));
        let differ: Vec<&Value> =
            both.filter(|(again, made)| again != made).map(|(again, _)| &again["variant"]).collect();
        assert_eq!(differ, ["1 in device"], "what was kept is taken over");
    }

    #[test]
    fn what_another_program_or_other_options_made_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = |options: &Options| {
            run(options, Some(folder.path())).map(|_| ()).map_err(|error| error.to_string())
        };
        run(&options()).expect("a run");
        let other = |options: Options, what: &str| {
            let said = run(&options).expect_err(what);
            assert!(said.contains(&format!("made with other {what};")), "{said}");
        };
        other(Options { seed: 2, ..options() }, "seed");
        other(Options { quick: false, ..options() }, "quick");
        other(Options { only: Some("TR-depth-*".to_owned()), ..options() }, "only");
        run(&Options { workers: 1, ..options() }).expect("how many threads changes nothing");
        let file = folder.path().join(PARTS).join("1-in-device.json");
        let kept = std::fs::read_to_string(&file).expect("kept");
        let changed = |from: &str, to: &str| {
            assert!(kept.contains(from), "{kept}");
            std::fs::write(&file, kept.replacen(from, to, 1)).expect("written");
            let said = run(&options()).expect_err(to);
            assert!(said.contains("1-in-device.json"), "{said}");
            said
        };
        assert!(changed("block.in_device = 1", "block.in_device = 2").contains("other set"));
        assert!(changed("\"program\": \"", "\"program\": \"0").contains("other program"));
        changed("{", "");
        std::fs::write(&file, &kept).expect("written");
        run(&options()).expect("as it was");
    }

    #[test]
    fn the_table_has_the_claims_of_all_variants() {
        let text = run(&options(), None).expect("a run").to_table();
        assert!(text.contains("4 in device: of arithmetic and theory 1 of 1"), "{text}");
        assert!(!text.contains("TR-depth-ibm"), "{text}");
    }
}
