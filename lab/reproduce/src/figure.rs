//! Figures: files that declare runs and how they are drawn.
//!
//! A figure file has a table `common` and a list `run`. Each run is an experiment
//! (`docs/internals/simulator.md` lists the keys); it has the common keys unless it has its own. A list `chart`
//! says what is drawn of the runs, or of the devices themselves.

use crate::Error;
use crate::overrides::Overrides;
use foreseek_device::Profile;
use foreseek_simulate::experiment::{Experiment, SET_UPS};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

macro_rules! figures {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../experiments/", $file)))),*]
    };
}

/// Every figure's file. A new figure is a line here.
const FILES: &[(&str, &str)] = figures![
    "tr840-figure-03.toml",
    "tr840-figure-05.toml",
    "tr840-figure-06.toml",
    "tr840-figure-08.toml",
    "tr840-figure-09.toml",
    "tr840-figure-10.toml",
    "tr840-figure-14.toml",
    "tr840-figure-15.toml",
    "tr840-figure-16.toml",
    "eurosys-figure-04.toml",
    "eurosys-figure-06.toml",
    "eurosys-figure-07.toml",
    "eurosys-figure-08.toml",
    "eurosys-figure-09.toml",
    "eurosys-figure-10.toml",
    "eurosys-figure-11.toml",
    "eurosys-figure-12.toml",
    "eurosys-figure-13.toml",
    "eurosys-section-6-6.toml",
    "atc08-figure-06.toml",
    "atc08-figure-07.toml",
    "atc08-figure-08.toml",
    "atc08-figure-09.toml",
    "atc08-look-ahead.toml",
    "atc08-figure-10.toml",
    "atc08-figures-11-12.toml",
    "atc08-figure-12.toml",
    "atc08-figure-13.toml",
    "atc09-figure-01.toml",
    "atc09-figure-02.toml",
    "atc09-figure-03.toml",
    "atc09-figure-04.toml",
    "atc09-figure-05.toml",
    "atc09-figure-08.toml",
    "atc09-figure-09.toml",
    "atc09-figure-10.toml",
    "atc09-figure-11.toml",
    "atc09-figure-12.toml",
    "atc09-figure-13.toml",
];

/// The files of the policy `adaptive`.
const ADAPTIVE: &[(&str, &str)] = figures![
    "adaptive-micro.toml",
    "adaptive-free.toml",
    "adaptive-levels.toml",
    "adaptive-servers.toml",
    "adaptive-jobs.toml",
];

/// One figure.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) file: &'static str,
    /// Its name in its paper.
    pub(crate) title: String,
    /// What it shows.
    pub(crate) caption: String,
    /// Its runs; all figures know their names.
    pub(crate) runs: Vec<Experiment>,
    /// Its charts.
    pub(crate) charts: Vec<Chart>,
}

/// One chart of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chart {
    /// Its title.
    pub(crate) title: String,
    /// How it is drawn.
    pub(crate) kind: Kind,
    /// The runs that it shows.
    #[serde(default)]
    pub(crate) runs: Vec<String>,
    /// The built-in devices that it shows, if it shows devices and not runs.
    #[serde(default)]
    pub(crate) devices: Vec<String>,
    /// The metric, by its name in results.
    #[serde(default)]
    pub(crate) metric: String,
    /// For lines whose runs are on several devices: only this one.
    pub(crate) device: Option<String>,
    /// The policy whose value divides the others'.
    pub(crate) normalized_to: Option<String>,
    /// For a sweep: the run in which the value that divides is found, where that is another than the one shown.
    pub(crate) normalized_to_run: Option<String>,
    /// Only this concurrency level.
    pub(crate) concurrency: Option<u32>,
    /// Only the concurrency levels from the first to the second.
    pub(crate) levels: Option<(u32, u32)>,
    /// Only these policies; all if it is empty.
    #[serde(default)]
    pub(crate) policies: Vec<String>,
    /// For a sweep: what is swept, with its unit. For bars: the label of the groups.
    #[serde(default)]
    pub(crate) across: String,
    /// For a sweep of ratios: the label of the upright axis, where another policy's or run's name would not say what they are.
    pub(crate) upright: Option<String>,
    /// Names of its runs in place of their own: in the legend of a sweep, below the groups of bars. Runs of a sweep whose
    /// names are empty share one curve for each policy.
    #[serde(default)]
    pub(crate) names: Vec<String>,
    /// For a sweep: sizes on a linear scale, in GB, instead of a logarithmic one.
    #[serde(default)]
    pub(crate) linear: bool,
    /// For a sweep: its values at equal distances, instead of a logarithmic scale.
    #[serde(default)]
    pub(crate) steps: bool,
    /// For a sweep over sizes: also the time in which the device transfers as much.
    #[serde(default)]
    pub(crate) read: bool,
}

/// How a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// The metric over concurrency, a curve for each policy; one run.
    Lines,
    /// The metric over the sizes of the key that the runs sweep, a curve for each run, device and policy.
    Sweep,
    /// A group of bars for each run and device, a bar for each policy.
    Bars,
    /// A histogram of the pages of a fetch; one run at one concurrency level.
    Sizes,
    /// Processor use over the measured time, of the first seed; one run at one concurrency level.
    Use,
    /// The time of a seek over its distance, a curve for each device; no run.
    Seek,
    /// The rate of sequential reading over the address, a curve for each device; no run.
    Rate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    title: String,
    caption: String,
    #[serde(default)]
    common: Table,
    #[serde(default)]
    run: Vec<Table>,
    #[serde(default)]
    chart: Vec<Chart>,
}

impl Figure {
    /// All figures, with the values of the set-ups.
    ///
    /// # Errors
    /// A built-in file is damaged.
    #[cfg(test)]
    pub(crate) fn all() -> Result<Vec<Self>, Error> {
        Self::with(&Overrides::default(), &|_| false)
    }

    /// All figures, with overrides in the runs of these names.
    ///
    /// # Errors
    /// A built-in file is damaged, or one of the runs has no such key.
    pub(crate) fn with(set: &Overrides, concerns: &dyn Fn(&str) -> bool) -> Result<Vec<Self>, Error> {
        let devices = DevicesOfRuns::new(set);
        FILES.iter().map(|(file, text)| Self::parse(file, text, &devices, concerns)).collect()
    }

    /// The figures that declare one of these runs, with overrides in those runs.
    ///
    /// # Errors
    /// As of [`with`](Self::with).
    pub(crate) fn of_runs(set: &Overrides, runs: &BTreeSet<&str>) -> Result<Vec<Self>, Error> {
        let declares = |text: &str| runs.iter().any(|run| text.contains(&format!("\"{run}\"")));
        let files = FILES.iter().filter(|(_, text)| declares(text));
        let devices = DevicesOfRuns::new(set);
        files.map(|(file, text)| Self::parse(file, text, &devices, &|run| runs.contains(run))).collect()
    }

    /// The figures of the policy `adaptive`, with overrides in all runs.
    ///
    /// # Errors
    /// As of [`with`](Self::with).
    pub(crate) fn adaptive(set: &Overrides) -> Result<Vec<Self>, Error> {
        let devices = DevicesOfRuns::new(set);
        ADAPTIVE.iter().map(|(file, text)| Self::parse(file, text, &devices, &|_| true)).collect()
    }

    fn parse(
        file: &'static str,
        text: &str,
        devices: &DevicesOfRuns<'_>,
        concerns: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Figure { file, reason };
        let written: Written = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let nothing = Overrides::default();
        let runs = written.run.iter().map(|run| {
            let own = merged(&written.common, run);
            let name = own.get("name").and_then(Value::as_str).unwrap_or_default();
            let concerned = concerns(name);
            let set = if concerned { devices.set } else { &nothing };
            let whole = with_device(merged(&own, set.experiment()));
            let text = toml::to_string(&whole).map_err(|error| wrong(error.to_string()))?;
            Ok(Experiment::parse(file, &text, &|name| devices.of(name, concerned))?)
        });
        let runs = runs.collect::<Result<Vec<_>, Error>>()?;
        Ok(Self { file, title: written.title, caption: written.caption, runs, charts: written.chart })
    }
}

/// The devices of runs, with and without overrides. Each is read once: computing the figures of a profile takes
/// milliseconds, and most runs have the same few devices.
struct DevicesOfRuns<'a> {
    set: &'a Overrides,
    read: RefCell<BTreeMap<(String, bool), Result<Profile, String>>>,
}

impl<'a> DevicesOfRuns<'a> {
    fn new(set: &'a Overrides) -> Self {
        Self { set, read: RefCell::default() }
    }

    /// The device of this name, with the overrides or without.
    fn of(&self, name: &str, overridden: bool) -> Result<Profile, String> {
        let read = || if overridden { self.set.device(name) } else { Overrides::default().device(name) };
        self.read.borrow_mut().entry((name.to_owned(), overridden)).or_insert_with(read).clone()
    }
}

/// A run without a device has that of its set-up: named here, so that overrides of devices reach it.
fn with_device(mut run: Table) -> Table {
    let set_up = run.get("set_up").and_then(Value::as_str);
    let device = SET_UPS.iter().find(|(name, _)| Some(*name) == set_up).map(|(_, set_up)| set_up.device());
    if let Some(device) = device {
        run.entry("devices").or_insert_with(|| vec![Value::from(device)].into());
    }
    run
}

/// The keys of both; if both have one, that of the second, tables key by key.
fn merged(common: &Table, own: &Table) -> Table {
    let mut all = common.clone();
    for (key, value) in own {
        let value = match (all.get(key), value) {
            (Some(Value::Table(common)), Value::Table(own)) => Value::Table(merged(common, own)),
            _ => value.clone(),
        };
        all.insert(key.clone(), value);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_simulate::experiment::Metric;

    #[test]
    fn every_figure_can_be_read_and_draws_what_it_runs() {
        let mut figures = Figure::all().unwrap_or_else(|error| panic!("{error}"));
        figures.extend(Figure::adaptive(&Overrides::default()).unwrap_or_else(|error| panic!("{error}")));
        let names: Vec<&str> =
            figures.iter().flat_map(|figure| &figure.runs).map(|run| run.name.as_str()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a run's name is its only one");
        for figure in &figures {
            figure.runs.iter().for_each(|run| run.check().unwrap_or_else(|error| panic!("{error}")));
            for chart in &figure.charts {
                assert!(chart.runs.iter().all(|run| names.contains(&run.as_str())), "{}", chart.title);
                let of_devices = matches!(chart.kind, Kind::Seek | Kind::Rate);
                assert_eq!(of_devices, chart.runs.is_empty(), "{}: {}", figure.file, chart.title);
                assert_eq!(of_devices, !chart.devices.is_empty(), "{}: {}", figure.file, chart.title);
                let known = |device: &String| Profile::builtin(device).is_some();
                let named = chart.devices.iter().chain(&chart.device);
                assert!(named.clone().all(known), "{}: {:?}", figure.file, named.collect::<Vec<_>>());
                let one = matches!(chart.kind, Kind::Lines | Kind::Sweep);
                assert!(chart.device.is_none() || one, "{}", chart.title);
                let shown = matches!(chart.kind, Kind::Lines | Kind::Sweep | Kind::Bars);
                assert!(
                    !shown || Metric::by_name(&chart.metric).is_some(),
                    "{}: {}",
                    figure.file,
                    chart.metric
                );
            }
        }
    }

    #[test]
    fn a_runs_own_keys_go_before_the_common_ones() {
        let table = |text: &str| text.parse::<Table>().expect("TOML");
        let all = merged(&table("a = 1\nb = 2\n[t]\nx = 1\ny = 2"), &table("b = 3\n[t]\ny = 4"));
        assert_eq!(all, table("a = 1\nb = 3\n[t]\nx = 1\ny = 4"));
    }
}
