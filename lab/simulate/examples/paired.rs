//! Programs with libprefetch in virtual time beside the same on an emulated disk.
//!
//! ```sh
//! scripts/bench-libprefetch paired --rounds 3 --rows ROWS
//! cargo run --release -p foreseek-simulate --example paired -- ROWS CHART.svg experiments/libprefetch-bench/*.toml
//! ```
//!
//! Runs the experiments. For each, stock and with libprefetch, it prints the longest time of its programs: on the emulated disk, in virtual time, and the second
//! over the first. For a single scan it prints that of the best schedule with all of the memory, too ([`foreseek_simulate::limit`]). The chart shows the same over the stock program
//! on the emulated disk. An experiment has the name of a case of the script.
#![allow(clippy::print_stdout)]

use foreseek_chart::{Bars, Group};
use foreseek_device::{Build, Profile};
use foreseek_simulate::experiment::{Experiment, Metric, Summary, run};
use foreseek_simulate::limit::best_schedule;
use foreseek_simulate::program::{self, Drive, Step};
use foreseek_units::{Instant, Lba, PAGE_SIZE, SECTORS_PER_PAGE};
use std::collections::HashMap;
use std::error::Error;

/// The ways of the script's rows, in the order of an experiment's policies.
const WAYS: [&str; 2] = ["stock", "libprefetch"];

/// The seconds of each case and way.
type Rows = HashMap<(String, String), Vec<f64>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, chart, experiments @ ..] = &*arguments else {
        return Err("give the file of rows, the chart and the experiments".into());
    };
    let rows = read(&std::fs::read_to_string(rows)?)?;
    let mut groups = Vec::new();
    println!(
        "case          way          real s       real 95 %  virtual s    virtual 95 %  virtual / real  best s"
    );
    for path in experiments {
        let text = std::fs::read_to_string(path)?;
        let device = |name: &str| Profile::builtin(name).ok_or_else(|| format!("there is no '{name}'"));
        groups.push(compare(&Experiment::parse(path, &text, &device)?, &rows)?);
    }
    let series = ["stock", "virtual", "libprefetch", "virtual", "best schedule"].map(str::to_owned).to_vec();
    let (title, upright) = ("On an emulated disk and in virtual time", "time over that of the stock program");
    let bars =
        Bars { title: title.to_owned(), across: String::new(), upright: upright.to_owned(), series, groups };
    std::fs::write(chart, bars.to_svg())?;
    Ok(())
}

/// The rows of the script.
fn read(text: &str) -> Result<Rows, Box<dyn Error>> {
    let mut rows = Rows::new();
    for line in text.lines() {
        let [study, case, way, _, seconds, ..] = *line.split_whitespace().collect::<Vec<_>>() else {
            continue;
        };
        if study == "paired" {
            rows.entry((case.to_owned(), way.to_owned())).or_default().push(seconds.parse()?);
        }
    }
    Ok(rows)
}

/// Prints the lines of an experiment; returns its bars.
fn compare(experiment: &Experiment, rows: &Rows) -> Result<Group, Box<dyn Error>> {
    let results = run(experiment, 1, &|_| ())?;
    let best = best(experiment)?;
    let mut bars = Vec::new();
    for (point, way) in results.points.iter().zip(WAYS) {
        let real = Summary::of_ratios(
            rows.get(&(experiment.name.clone(), way.to_owned())).cloned().unwrap_or_default(),
        );
        let modelled = Summary::of_ratios(point.summary(&Metric::LONGEST_RESPONSE).values);
        let modelled = Summary::of_ratios(modelled.values.iter().map(|ms| ms / 1e3).collect());
        println!(
            "{:<13} {way:<11} {:>7.2} {:>15} {:>10.2} {:>15} {:>15.2} {:>7}",
            experiment.name,
            real.mean,
            format!("{:.2}..{:.2}", real.low, real.high),
            modelled.mean,
            format!("{:.2}..{:.2}", modelled.low, modelled.high),
            modelled.mean / real.mean,
            best.map(|best| format!("{best:.2}")).unwrap_or_default(),
        );
        bars.extend([real, modelled].map(|one| (one.mean, one.low, one.high)));
    }
    bars.extend(best.map(|best| (best, best, best)));
    let stock = bars.first().map_or(f64::NAN, |bar| bar.0);
    let bars = bars.iter().map(|(mean, low, high)| (mean / stock, low / stock, high / stock)).collect();
    // Room for ten names.
    let name = experiment
        .name
        .replace("scan-", "")
        .replace("mem-", "")
        .replace("md5sum", "md5")
        .replace("-one", " 1P");
    Ok(Group { name, bars })
}

/// The seconds of the best schedule with all of the memory, of a program that is alone and only reads.
fn best(experiment: &Experiment) -> Result<Option<f64>, Box<dyn Error>> {
    let mut workload = foreseek_simulate::workload::by_name(&experiment.workload, &experiment.parameters)?;
    if workload.drive() != Drive::Jobs(1) {
        return Ok(None);
    }
    let (mut program, mut random) = program::begin(&mut *workload, experiment.seeds[0], 0);
    let memory = experiment.machine.memory.total - program.memory();
    let mut accesses = Vec::new();
    loop {
        match program.next(Instant::ZERO, &mut random) {
            // Its only file begins where the device does.
            Step::Read { range, .. } => accesses.extend(
                range.pages().iter().map(|page| Lba(page.offset().get() / PAGE_SIZE * SECTORS_PER_PAGE)),
            ),
            Step::Write { .. } => return Ok(None),
            Step::Exit => break,
            _ => {}
        }
    }
    let limit = best_schedule(&accesses, memory.pages_floor(), &experiment.devices[0], &Build::default())?;
    Ok(Some(limit.time.as_secs_f64()))
}
