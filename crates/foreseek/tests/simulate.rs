//! `foreseek lab simulate` as a user meets it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A few seconds of virtual time.
const SMALL: &str = r#"
name = "small"
policies = ["linux-2.6.3", "competitive"]
concurrency = [1, 3]
seeds = [4, 5]
warm_up_s = 1
duration_s = 3
[workload]
name = "two-rand-0"
"#;

fn simulate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.args(["lab", "simulate"]).args(args).output().expect("the program runs")
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("a temporary file");
    path.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn the_same_seeds_give_the_same_bytes_as_json_and_csv() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = file(folder.path(), "small.toml", SMALL);
    let csv = folder.path().join("runs.csv");
    let run = || {
        let json = text(&simulate(&[&experiment, "--format", "json", "--csv", csv.to_str().expect("UTF-8")]));
        (json, fs::read_to_string(&csv).expect("it was written"))
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    let json: serde_json::Value = serde_json::from_str(&first.0).expect("one JSON value");
    let points = json["points"].as_array().expect("a list");
    assert_eq!(points.len(), 4);
    let throughput = &points[0]["metrics"]["throughput_mb_per_s"];
    assert_eq!(throughput["values"].as_array().map(Vec::len), Some(2));
    assert!(throughput["low"].as_f64() <= throughput["mean"].as_f64());
    // A line of names, then one a run; nothing else is left behind.
    assert_eq!(first.1.lines().count(), 9);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 2);
}

#[test]
fn a_table_has_a_line_for_each_point_and_one_seed_no_interval() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = file(folder.path(), "small.toml", SMALL);
    let table = text(&simulate(&[&experiment]));
    assert_eq!(table.lines().filter(|line| line.contains("ibm-36g-51")).count(), 4, "{table}");
    assert!(table.contains("+-"), "{table}");
    let one = text(&simulate(&[&experiment, "--seed", "9", "--quiet"]));
    assert!(!one.contains("+-"), "{one}");
    let other = text(&simulate(&[&experiment, "--seed", "10"]));
    assert_ne!(one, other);
}

#[test]
fn what_cannot_be_run_is_said_with_file_key_and_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    for (given, words) in [
        (SMALL.replace("seeds", "seed"), ["bad.toml: line 5", "seed"]),
        (SMALL.replace("two-rand-0", "three-rand-0"), ["bad.toml: workload", "two-rand-0"]),
        (SMALL.replace("\"competitive\"", "\"psychic\""), ["bad.toml: policies", "psychic"]),
        (format!("devices = [\"nowhere.toml\"]\n{SMALL}"), ["bad.toml: devices", "nowhere.toml"]),
    ] {
        let output = simulate(&[&file(folder.path(), "bad.toml", &given)]);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let error = String::from_utf8_lossy(&output.stderr);
        for word in words {
            assert!(error.contains(word), "{error}");
        }
    }
    let output = simulate(&["/no/such/experiment.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/experiment.toml"));
}

#[test]
fn a_place_that_cannot_be_written_is_known_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = file(folder.path(), "small.toml", SMALL);
    for place in ["/no/such/folder/runs.csv", folder.path().to_str().expect("UTF-8")] {
        let output = simulate(&[&experiment, "--csv", place]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(place));
        assert!(output.stdout.is_empty());
    }
}

/// Those of the project are read and checked, though not run.
#[test]
fn the_experiments_of_the_project_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let device = |name: &str| foreseek_device::Profile::builtin(name).ok_or_else(|| name.to_owned());
    let mut read = 0;
    let walks = folder.join("walks");
    let entries = [folder, walks].into_iter().flat_map(|it| fs::read_dir(it).expect("experiments/"));
    for entry in entries {
        let path: PathBuf = entry.expect("an entry").path();
        let text = match path.extension() {
            Some(extension) if extension == "toml" => fs::read_to_string(&path).expect("a file"),
            _ => continue,
        };
        if !text.contains("[workload]") {
            continue;
        }
        let name = path.display().to_string();
        foreseek_simulate::experiment::Experiment::parse(&name, &text, &device)
            .unwrap_or_else(|error| panic!("{error}"));
        read += 1;
    }
    assert!(read >= 15, "{read}");
}
