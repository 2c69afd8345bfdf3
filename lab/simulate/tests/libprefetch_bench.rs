//! The experiments beside `scripts/bench-libprefetch paired`: the same cases, in two ways, with the same sizes.

use foreseek_device::Profile;
use foreseek_simulate::experiment::Experiment;
use foreseek_units::{Bytes, Pages};
use std::fs;
use std::path::Path;

fn experiments() -> Vec<Experiment> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/libprefetch-bench");
    let files = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("readable").path());
    let device = |name: &str| Profile::builtin(name).ok_or_else(|| name.to_owned());
    files
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a text");
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let experiment = Experiment::parse(&name, &text, &device).expect("an experiment");
            assert_eq!(experiment.name, name);
            experiment
        })
        .collect()
}

/// The script's constants, by name.
fn constant(name: &str) -> u64 {
    let script = include_str!("../../../scripts/bench-libprefetch");
    let line = script.lines().find(|line| line.starts_with("BELOW, ")).expect("the sizes");
    let (names, values) = line.split_once(" = ").expect("an assignment");
    let mut pairs = names.split(", ").zip(values.split(", "));
    pairs.find(|(known, _)| *known == name).and_then(|(_, value)| value.parse().ok()).expect("a size")
}

#[test]
fn each_case_of_the_script_has_an_experiment_that_runs_it_stock_and_with_libprefetch() {
    let experiments = experiments();
    let mut names: Vec<&str> = experiments.iter().map(|experiment| &*experiment.name).collect();
    names.sort_unstable();
    let cases = ["blur-1", "blur-2", "blur-3", "md5sum", "md5sum-one", "mem-walk-one"];
    assert_eq!(names, [&cases[..], &["scan-above", "scan-below", "scans-2", "scans-3"]].concat());
    for experiment in &experiments {
        let [stock, told] = &*experiment.policies else { panic!("{}: two ways", experiment.name) };
        assert!(stock.directed().is_none() && told.directed().is_some(), "{}", experiment.name);
        let memory = &experiment.machine.memory;
        assert_eq!((memory.total, memory.system, memory.low), (Bytes::mib(16), Bytes::ZERO, Pages::ZERO));
        let one = experiment.name.ends_with("-one");
        assert_eq!(experiment.machine.processors, if one { 1 } else { 2 }, "{}", experiment.name);
    }
}

#[test]
fn the_experiments_have_the_sizes_of_the_script() {
    for experiment in experiments() {
        let parameters = &experiment.parameters;
        let mib = |name: &str| Some(Bytes::mib(constant(name)));
        if experiment.workload == "table-scan" {
            let size = match &*experiment.name {
                "scan-below" => "BELOW",
                "scan-above" => "ABOVE",
                _ => "EACH",
            };
            assert_eq!(parameters.data_size, mib(size), "{}", experiment.name);
            assert_eq!(parameters.row, Some(Bytes(constant("ROW"))));
            continue;
        }
        let tile = Bytes::kib(16);
        assert_eq!(
            parameters.data_size,
            Some(tile * constant("SIDE") * constant("SIDE")),
            "{}",
            experiment.name
        );
        assert_eq!(parameters.cache, Some(tile * constant("CACHE")));
        match &*experiment.workload {
            "tile-blur+md5sum" => assert_eq!(parameters.file_size, mib("MD5SUM")),
            "tile-blur+mem-walk" => assert_eq!(parameters.file_size, mib("WALKED")),
            _ => assert_eq!(parameters.file_size, None),
        }
    }
}
