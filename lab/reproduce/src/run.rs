//! Runs what the claims need.

use crate::claim::Claim;
use crate::figure::Figure;
use crate::notes::Notes;
use crate::outcome::{Judged, Outcome};
use crate::overrides::Overrides;
use crate::pick::Runs;
use crate::rows::{self, Context, Row};
use crate::{Error, Measured, Standing, Verdict, charts};
use foreseek_simulate::experiment::{self, Experiment};
use foreseek_simulate::program::Drive;
use foreseek_simulate::workload;
use std::collections::BTreeSet;
use wildmatch::WildMatch;

/// What is to be reproduced, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only claims whose names match (`*` and `?`; several with commas between them); `None` for all.
    pub only: Option<String>,
    /// A short run: one seed and a fifth of the time.
    pub quick: bool,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Overrides of the set-ups; it is a measurement of the papers' claims only if there are none.
    pub set: Overrides,
    /// Threads.
    pub workers: usize,
}

/// The progress of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// What is being run.
    pub run: &'a str,
    /// The share of all the work that is done, by virtual time.
    pub share: f64,
}

/// Approximate virtual time of a run of jobs, for the progress bar.
const JOBS_SECONDS: f64 = 100.0;

/// Runs what the requested claims need, judges them and draws the figures for which all runs exist.
///
/// # Errors
/// No claim matches, or a run fails.
pub fn reproduce(options: &Options, progress: &(dyn Fn(Progress<'_>) + Sync)) -> Result<Outcome, Error> {
    let asked = asked(options.only.as_deref())?;
    let named: BTreeSet<&str> = asked.iter().flat_map(|(_, row)| row.needs).copied().collect();
    // With all claims all figures are drawn, also those that no claim needs.
    let is_needed = |run: &str| options.only.is_none() || named.contains(run);
    let figures = Figure::with(&options.set, &is_needed)?;
    let plan: Vec<Experiment> = figures
        .iter()
        .flat_map(|figure| &figure.runs)
        .filter(|run| is_needed(&run.name))
        .map(|run| prepared(run, options))
        .collect();
    let all: f64 = plan.iter().map(weight).sum();
    let mut runs = Runs::default();
    let mut before = 0.0;
    for run in &plan {
        let share = |within: f64| (before + within * weight(run)) / all;
        let report =
            |step: experiment::Progress| progress(Progress { run: &run.name, share: share(step.share) });
        runs.insert(experiment::run(run, options.workers, &report)?);
        before += weight(run);
    }
    let seeds: Vec<u64> = (0..SEEDS).map(|number| options.seed + number).collect();
    let context = Context { runs: &runs, seeds: &seeds };
    let notes = Notes::all()?;
    let judged = asked.into_iter().map(|(claim, row)| {
        let measured = measure(&claim, row, &context)?;
        judge(claim, row, measured, &notes)
    });
    let claims = judged.collect::<Result<_, _>>()?;
    let figures = charts::draw(&figures, &runs);
    let Options { quick, seed, ref set, .. } = *options;
    let not_run = rows::not_run(&Claim::all()?, &Only::new(options.only.as_deref()));
    Ok(Outcome { claims, not_run, figures, quick, seed, set: set.clone() })
}

/// The same as one of several reproductions of equal weight in the progress: its index and their number.
pub(crate) fn reproduce_part(
    options: &Options,
    (at, count): (usize, usize),
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Outcome, Error> {
    reproduce(options, &|step| {
        progress(Progress { run: step.run, share: (at as f64 + step.share) / count as f64 });
    })
}

/// The requested names.
pub(crate) struct Only(Vec<WildMatch>);

impl Only {
    /// Globs with commas between them; all names if there are none.
    pub(crate) fn new(globs: Option<&str>) -> Self {
        Self(globs.unwrap_or("*").split(',').map(|glob| WildMatch::new(glob.trim())).collect())
    }

    /// Whether a name is requested.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.iter().any(|glob| glob.matches(name))
    }
}

/// Seeds of the rows that draw random numbers themselves.
const SEEDS: u64 = 3;

/// The requested claims that can be run, in the order of the papers, and then the checks.
fn asked(only: Option<&str>) -> Result<Vec<(Claim, &'static Row)>, Error> {
    let wanted = Only::new(only);
    let mut asked = Vec::new();
    for claim in Claim::all()?.into_iter().chain(Claim::checks()?) {
        let row = rows::with_checks().find(|row| row.id == claim.id && wanted.matches(row.id));
        asked.extend(row.map(|row| (claim, row)));
    }
    match only {
        Some(glob) if asked.is_empty() => {
            Err(Error::NoClaim { glob: glob.to_owned(), known: rows::with_checks().count() })
        }
        _ => Ok(asked),
    }
}

fn prepared(run: &Experiment, options: &Options) -> Experiment {
    let mut run = run.clone();
    for seed in &mut run.seeds {
        *seed += options.seed - 1;
    }
    if options.quick { run.quick() } else { run }
}

fn weight(run: &Experiment) -> f64 {
    let runs = run.devices.len() * run.policies.len() * run.seeds.len();
    let closed = workload::by_name(&run.workload, &run.parameters)
        .is_ok_and(|workload| workload.drive() == Drive::Closed);
    let each = |level: &u32| if closed { run.period(*level).whole().as_secs_f64() } else { JOBS_SECONDS };
    runs as f64 * run.concurrency.iter().map(each).sum::<f64>()
}

/// The verdict on a claim, with its notes.
pub(crate) fn judge(
    claim: Claim,
    row: &'static Row,
    measured: Measured,
    notes: &Notes,
) -> Result<Judged, Error> {
    let verdict = Verdict::of(&claim, &measured)?;
    let note = notes.of(row.id);
    let why = note.why.filter(|_| verdict.standing == Standing::Missed);
    Ok(Judged { claim, measured, verdict, why, sets: note.used_to_set, arithmetic: row.is_arithmetic() })
}

fn measure(claim: &Claim, row: &'static Row, context: &Context<'_>) -> Result<Measured, Error> {
    (row.measure)(context)
        .ok_or_else(|| Error::Claims(format!("{}: its runs lack a value that it needs", claim.id)))
}
