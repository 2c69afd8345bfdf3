//! `foreseek profile --list` and `--show` as a user meets them. What is measured is tested with disks.

use std::process::{Command, Output};

fn profile(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.arg("profile").args(args).output().expect("the program runs")
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// TR-840 section 3 and EuroSys'07 section 5, in KB of 1000 bytes.
#[test]
fn the_papers_depths_come_out() {
    let json: serde_json::Value =
        serde_json::from_str(&text(&profile(&["--list", "--format", "json"]))).expect("one JSON value");
    let list = json.as_array().expect("a list");
    for (name, depth) in
        [("ibm-36g-51", 540.0), ("ibm-36g-37", 393.0), ("seagate-146g", 446.0), ("raid0-2x-seagate", 646.0)]
    {
        let device = list.iter().find(|device| device["name"] == name).expect(name);
        let found = device["competitive_prefetch_size_kb"].as_f64().expect("a number");
        assert!((found - depth).abs() <= 1.0, "{name}: {found}");
    }
    let table = text(&profile(&["--list"]));
    for device in list {
        let name = device["name"].as_str().expect("a name");
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name)).expect(name);
        let depth = format!("{:.1}", device["competitive_prefetch_size_kb"].as_f64().expect("a number"));
        assert!(line.split_whitespace().any(|word| word == depth), "{line}");
    }
}

#[test]
fn a_printed_profile_can_be_edited_and_read_again() {
    let printed = text(&profile(&["--show", "barracuda-500g"]));
    let file = std::env::temp_dir().join(format!("foreseek-profiles-{}.toml", std::process::id()));
    let path = file.to_str().expect("a path in UTF-8");
    let figures = |text: &str| {
        std::fs::write(&file, text).expect("a temporary file");
        profile(&["--show", path, "--format", "json"])
    };
    let good = figures(&printed.replace("average_seek_ms = 8.5 ", "average_seek_ms = 8.0 "));
    let bad = figures(&printed.replace("average_seek_ms = 8.5 ", "average_seek_ms = nan "));
    std::fs::remove_file(&file).expect("the temporary file goes away");
    let json: serde_json::Value = serde_json::from_str(&text(&good)).expect("one JSON value");
    assert_eq!(json["average_seek_ms"], 8.0);
    assert_eq!(bad.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&bad.stderr);
    assert!(complaint.contains(path) && complaint.contains("average_seek_ms: is NaN"), "{complaint}");
}

#[test]
fn an_unknown_device_is_refused_with_the_known_ones() {
    let output = profile(&["--show", "barracuda-5000g"]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("'barracuda-5000g'") && complaint.contains("barracuda-500g"), "{complaint}");
}

#[test]
fn what_belongs_to_a_measurement_is_refused_without_one() {
    for args in
        [&["--list", "-o", "x.toml"][..], &["--show", "wd-500g", "/dev/null"], &["--list", "--quick"], &[]]
    {
        let output = profile(args);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("foreseek profile --list"), "{args:?}");
    }
}

#[test]
fn a_file_that_is_too_small_to_be_measured_is_said_to_have_its_own_length() {
    let mut small = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file");
    std::io::Write::write_all(&mut small, &[1; 1500]).expect("written");
    let output = profile(&[small.path().to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("it holds 1.5 KiB, at least 256 MiB are needed"), "{said}");
}

#[test]
fn a_seek_curve_that_cannot_be_is_refused_with_what_can() {
    let text = text(&profile(&["--show", "barracuda-500g"]));
    let line = text.lines().find(|line| line.starts_with("full_stroke_ms")).expect("a full stroke");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("short.toml");
    let show = |full_stroke: &str| {
        std::fs::write(&file, text.replace(line, &format!("full_stroke_ms = {full_stroke}")))
            .expect("written");
        profile(&["--show", file.to_str().expect("UTF-8")])
    };
    let refused = show("9.0");
    let said = String::from_utf8_lossy(&refused.stderr);
    let (_, range) = said.split_once("full_stroke_ms: makes no curve").expect("refused with a range");
    let (least, most) = range
        .split_once("must be from ")
        .and_then(|(_, range)| range.trim().split_once(" to "))
        .expect("two values");
    for good in [least, most] {
        let output = show(good);
        assert_eq!(output.status.code(), Some(0), "{good}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
