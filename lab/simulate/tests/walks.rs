//! The daemon that reads ahead of tree walks, in virtual time.

use foreseek_device::Profile;
use foreseek_simulate::experiment::{Experiment, Point, Results, run};

const FRESH: &str = include_str!("../../../experiments/walks/fresh.toml");
const AGED: &str = include_str!("../../../experiments/walks/aged.toml");

fn parse(text: &str) -> Result<Experiment, String> {
    let device = |name: &str| Profile::builtin(name).ok_or_else(|| format!("there is no '{name}'"));
    Experiment::parse("walk.toml", text, &device).map_err(|error| error.to_string())
}

fn results(text: &str) -> Results {
    run(&parse(text).expect("an experiment"), 2, &|_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn seconds(point: &Point) -> f64 {
    point.runs[0].report.time.as_secs_f64()
}

/// Stock time over watched time.
fn gain(text: &str) -> f64 {
    let results = results(text);
    let [stock, watched] = &results.points[..] else { panic!("two policies") };
    let walks = watched.runs[0].report.walks.as_ref().expect("a daemon");
    assert!(walks.directories > 2000, "{walks:?}");
    assert_eq!(stock.runs[0].report.counters.read, watched.runs[0].report.counters.read);
    seconds(stock) / seconds(watched)
}

#[test]
fn a_walk_over_an_aged_tree_gains() {
    let gain = gain(AGED);
    assert!(gain > 6.0, "{gain}");
}

/// The drive's own look-ahead serves all files of a directory except the first, so that there is little to
/// gain.
#[test]
fn a_walk_over_a_fresh_tree_loses_nothing() {
    let gain = gain(FRESH);
    assert!(gain > 0.98, "{gain}");
}

#[test]
fn a_program_that_looks_at_attributes_alone_reads_no_contents() {
    let text = FRESH.replace("name = \"walk\"\n\n[layout]", "name = \"walk\"\nopened = 0\n\n[layout]");
    let results = results(&text);
    let [stock, watched] = &results.points[..] else { panic!("two policies") };
    for point in [stock, watched] {
        assert_eq!(point.runs[0].report.counters.read.get(), 0);
    }
    assert!(stock.runs[0].report.counters.metadata.get() > 100);
    // Inodes of 30,000 files are 1,900 blocks; contents would be 100,000.
    assert!(watched.runs[0].report.device.read.pages_ceil().get() < 20_000);
}

#[test]
fn a_daemon_needs_a_tree_and_its_metadata() {
    for text in [
        FRESH.replace("metadata = \"ext4\"", ""),
        FRESH.replace("name = \"walk\"\n\n[layout]", "name = \"diff5\"\n\n[layout]"),
    ] {
        let error = parse(&text).expect_err("it cannot watch");
        assert!(error.contains("needs the workload 'walk' and layout.metadata"), "{error}");
    }
}
