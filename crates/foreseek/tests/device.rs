//! `foreseek lab device` as a user meets it.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use foreseek_device::{Build, Profile};
use foreseek_drives::validation::{parse_trace, replay};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MODEL: &str = include_str!("../../../lab/drives/tests/common/drive.model");
const SEEK: &str = "Seek distances measured: 3\n1,\t1.5\n20,\t3.0\n299,\t9.0\n";

fn foreseek(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foreseek"))
        .args(["lab", "device"])
        .args(args)
        .output()
        .expect("the program runs")
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// A folder with the drive's files.
struct Drive(tempfile::TempDir);

impl Drive {
    fn new(model: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("drive.model"), model).expect("written");
        std::fs::write(folder.path().join("drive.seek"), SEEK).expect("written");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.path().join(name), text).expect("written");
        self.path(name)
    }
}

#[test]
fn an_imported_drive_is_a_profile_that_every_command_accepts() {
    let drive = Drive::new(MODEL);
    let written = drive.path("drive.toml");
    text(&foreseek(&["import", &drive.path("drive.model"), "--output", &written]));
    let profile = std::fs::read_to_string(&written).expect("a profile");
    let read = Profile::parse("drive.toml", &profile).expect("valid");
    assert_eq!((read.name(), read.capacity().get()), ("maker_drive-7", 47_000 * 512));
    for key in [
        "mapping = \"serpentine-by-zone\"",
        "spares = \"cylinder-end\"",
        "slips = [17, 2000]",
        "remaps = [300, 191]",
    ] {
        assert!(profile.contains(key), "{key} in\n{profile}");
    }
    let printed = text(&foreseek(&["import", &drive.path("drive.model")]));
    assert_eq!(printed, profile);
    let listed = Command::new(env!("CARGO_BIN_EXE_foreseek"))
        .args(["profile", "--show", &written])
        .output()
        .expect("it runs");
    assert!(text(&listed).contains("maker_drive-7"));
    let again = complaint(&foreseek(&["import", &drive.path("drive.model"), "--output", &written]));
    assert!(again.contains("it exists"), "{again}");
}

/// A trace that the model itself made is met exactly.
#[test]
fn a_model_has_no_distance_from_itself() {
    let drive = Drive::new(MODEL);
    let model = drive.path("drive.model");
    let profile = Profile::parse("p", &text(&foreseek(&["import", &model]))).expect("valid");
    let mut trace = String::new();
    for i in 0..500u64 {
        let op = if i % 3 == 0 { 'W' } else { 'R' };
        let _ = writeln!(trace, "{op} Hit {} {} 1.0 {}", i * 7919 % 46_000, 1 + i % 24, i * 131 % 40_000);
    }
    let requests = parse_trace("t", &trace).expect("a trace");
    let replayed =
        replay(&mut *profile.build(&Build::default()).expect("a disk"), &requests).expect("it fits");
    let mut measured = String::new();
    for (line, time) in trace.lines().zip(replayed.responses) {
        let fields: Vec<&str> = line.split(' ').collect();
        let _ = writeln!(measured, "{} {:.3} {}", fields[..4].join(" "), time.as_micros_f64(), fields[5]);
    }
    let trace = drive.write("drive.trace", &measured);
    let plot = drive.path("plot.svg");
    let json = text(&foreseek(&[
        "validate", "--model", &model, "--trace", &trace, "--plot", &plot, "--format", "json",
    ]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("one JSON value");
    assert_eq!(json["rms_ms"].as_f64(), Some(0.0));
    assert_eq!(json["requests"].as_u64(), Some(500));
    assert!(json["requests_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
    assert!(std::fs::read_to_string(plot).expect("a plot").starts_with("<svg"));
    let table = text(&foreseek(&["validate", "--model", &model, "--trace", &trace]));
    assert!(table.contains("demerit") && table.contains("controller: assumed"), "{table}");
}

#[test]
fn bad_input_is_named_with_its_line_and_nothing_is_left_behind() {
    let cases = [
        (
            "Number of data surfaces = 2",
            "Number of data surfaces = two",
            "line 2: Number of data surfaces: is 'two'",
        ),
        ("Blocks per track = 72", "Blocks per track = 0", "line 17: Blocks per track: is 0"),
        ("First cylinder number = 152", "First cylinder number = 149", "goes up to cylinder 149"),
        ("slips = [ 17, 2000 ]", "slips = [ 17, 99999 ]", "99999 is not in the zone"),
        ("drive.seek", "other.seek", "names 'other.seek', which cannot be read"),
        ("dm_layout_g1 {", "dm_layout_g4 {", "line 5: TP: must hold threes"),
        ("dm_layout_g1 {", "dm_layout_g2 {", "Layout Map File: is missing"),
        ("dm_layout_g1 {", "dm_layout_g3 {", "is not a known layout"),
        ("} # end", "", "is not closed by '}'"),
        ("Rotation speed (in rpms) = 7200", "Rotation = 7200", "Rotation speed (in rpms): is missing"),
    ];
    for (right, wrong, expected) in cases {
        let drive = Drive::new(&MODEL.replacen(right, wrong, 1));
        let output = drive.path("out.toml");
        let error = complaint(&foreseek(&["import", &drive.path("drive.model"), "--output", &output]));
        assert!(error.contains("drive.model: line ") && error.contains(expected), "{error}");
        assert!(!Path::new(&output).exists());
    }
    let drive = Drive::new(MODEL);
    let validate = |trace: &str| {
        let trace = drive.write("bad.trace", trace);
        complaint(&foreseek(&["validate", "--model", &drive.path("drive.model"), "--trace", &trace]))
    };
    assert!(validate("R Hit 1 1 1.0\n").contains("bad.trace: line 1: the gap is missing"));
    assert!(validate("R Hit 46999 2 1.0 1.0\n").contains("is the trace of another drive?"));
    let seek = drive.write("drive.seek", "1,\t1.5\n1,\t2.5\n");
    let error = complaint(&foreseek(&["import", &drive.path("drive.model")]));
    assert!(error.contains("drive.seek: line 2: ") && Path::new(&seek).exists(), "{error}");
    assert!(complaint(&foreseek(&["import", "/nonexistent.model"])).contains("/nonexistent.model"));
}

/// The drives of which measured traces were published, by their own extracted parameters; the
/// bounds are what the best published model achieves.
#[test]
fn the_published_drives_are_met_as_well_as_by_the_best_published_model() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/foreseek lies two below");
    let folders = ["../shared", "../../shared"].map(|up| root.join(up).join("traces/disksim-valid"));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        println!("SKIPPED: ../shared/traces/disksim-valid is not there");
        return;
    };
    for (drive, bound) in
        [("cheetah9LP", 0.107), ("ibm18es", 0.135), ("atlas_III", 0.378), ("barracuda", 0.349)]
    {
        let file = |end: &str| -> String {
            let path: PathBuf = folder.join(format!("{drive}.{end}"));
            path.to_str().expect("UTF-8").to_owned()
        };
        let output = foreseek(&[
            "validate",
            "--model",
            &file("model"),
            "--trace",
            &file("trace.gz"),
            "--format",
            "json",
            "--quiet",
        ]);
        let json: serde_json::Value = serde_json::from_str(&text(&output)).expect("one JSON value");
        let rms = json["rms_ms"].as_f64().expect("a number");
        assert!(rms <= bound, "{drive}: {rms} ms, at most {bound} are wanted");
    }
}
