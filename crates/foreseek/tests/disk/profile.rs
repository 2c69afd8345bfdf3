//! `foreseek profile` on emulated disks, through the kernel: what it writes, what it refuses, and
//! that it writes nothing on the device. How exact it is, is a benchmark: `profiler-accuracy`.

use crate::lab::{Ended, Lab, read_direct};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

fn profile(lab: &Lab, target: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.arg("profile").arg(target).args(arguments).current_dir(&lab.directory);
    lab.run(&mut command)
}

/// The report, or `None`, said loudly, where the machine is too busy for a turn to be seen.
fn report(ended: &Ended) -> Option<Value> {
    if ended.status == Some(2) && ended.err.contains("too busy") {
        println!("SKIPPED: {}", ended.err.trim());
        return None;
    }
    assert_eq!(ended.status, Some(0), "{ended:?}");
    Some(serde_json::from_str(&ended.out).expect("JSON"))
}

#[test]
fn a_measured_disk_is_a_profile_for_every_command() {
    let Some(lab) = Lab::new() else { return };
    let disk = lab.attach(&["--profile", "barracuda-500g", "--size", "200G", "--fit", "--name", "spinning"]);
    let ended = profile(&lab, &disk, &["--quick", "--force", "--format", "json", "-o", "own.toml"]);
    assert_eq!(lab.stats("spinning")["writes"], 0, "it only reads");
    let Some(report) = report(&ended) else { return };
    assert_eq!((&report["verdict"], &report["seeks"]), (&Value::from("disk"), &Value::from(true)));
    assert_eq!((&report["kind"], &report["name"]), (&Value::from("disk"), &Value::from("own")));
    let period = report["rotation_period_ms"].as_f64().expect("a revolution");
    assert!((period / (60_000.0 / 7200.0) - 1.0).abs() < 0.05, "a revolution of {period} ms");
    assert_eq!(report["rates"].as_array().map(Vec::len), Some(32));
    let distances = report["seek_curve"].as_array().map_or(0, Vec::len);
    // On a busy machine the time is over before all are measured, and the report says so.
    let said = format!("after {distances} of 64 distances");
    let warnings = report["warnings"].as_array().expect("a list");
    let is_said = warnings.iter().any(|warning| warning.as_str().is_some_and(|text| text.contains(&said)));
    assert!(distances == 64 || is_said, "{distances} distances: {warnings:?}");
    assert!(report["competitive_prefetch_size_bytes"].as_u64() > Some(500_000), "{report}");

    let svg = fs::read_to_string(lab.path("own.svg")).expect("the curves beside it");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("backward"));
    let figures = lab.run(
        Command::new(env!("CARGO_BIN_EXE_foreseek"))
            .args(["profile", "--show", "own.toml", "--format", "json"])
            .current_dir(&lab.directory),
    );
    let figures: Value = serde_json::from_str(&figures.out).expect("JSON");
    assert_eq!(figures["capacity_bytes"], 200u64 << 30);
    let own = lab.path("own.toml");
    let again = lab.attach(&["--profile", own.to_str().expect("plain"), "--size", "1G", "--fit"]);
    read_direct(&again, 512 << 20).expect("it works");
}

#[test]
fn a_network_volume_does_not_seek() {
    let Some(lab) = Lab::new() else { return };
    let volume = lab.attach(&["--profile", "network-volume", "--size", "10G", "--name", "far"]);
    let ended = profile(&lab, &volume, &["--quick", "--force", "--format", "json", "--svg", "far.svg"]);
    let Some(report) = report(&ended) else { return };
    assert_eq!(
        (&report["verdict"], &report["kind"]),
        (&Value::from("does-not-seek"), &Value::from("remote"))
    );
    assert!(report["latency"]["median_ms"].as_f64() >= Some(0.5), "{report}");
    assert!(fs::read_to_string(lab.path("far.svg")).expect("a plot").starts_with("<svg"));
}

#[test]
fn a_busy_device_is_refused() {
    let Some(lab) = Lab::new() else { return };
    let disk = lab.attach(&["--profile", "none", "--size", "1G"]);
    let done = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            for page in (0..1 << 18).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                read_direct(&disk, page * 4096).expect("reads");
            }
        });
        let ended = profile(&lab, &disk, &["--quick"]);
        done.store(true, Ordering::Relaxed);
        ended
    });
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.err.contains("is busy") && ended.err.contains("--force"), "{ended:?}");
}

#[test]
fn what_cannot_be_done_is_said_with_status_2_before_anything_is_measured() {
    let Some(lab) = Lab::new() else { return };
    let disk = lab.attach(&["--profile", "none", "--size", "1G"]);
    let refused = |target: &Path, arguments: &[&str], reason: &str| {
        let ended = profile(&lab, target, arguments);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.err.contains(reason) && ended.out.is_empty(), "{reason}: {ended:?}");
    };
    refused(Path::new("/dev/zero"), &[], "a character device");
    refused(&lab.directory, &[], "a directory");
    refused(Path::new("missing"), &[], "No such file");
    refused(&disk, &["-o", disk.to_str().expect("plain")], "no regular file");
    refused(&disk, &["-o", "missing/own.toml"], "missing/own.toml");
    refused(&disk, &["-o", "own.svg"], "the same file");
    refused(&disk, &["--name", "not plain"], "--name");
    let small = lab.attach(&["--profile", "none", "--size", "64M"]);
    refused(&small, &["--quick"], "at least 256 MiB are needed");
    let holes = lab.path("holes");
    fs::File::create(&holes).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
    refused(&holes, &[], "hole at offset 0");
}

#[test]
fn without_the_right_to_read_it_says_who_has_it() {
    let Some(lab) = Lab::new() else { return };
    let disk = lab.attach(&["--profile", "none", "--size", "1G"]);
    // The program may lie where nobody else may look: a copy can be run by all.
    let program = lab.path("foreseek");
    lab.copy_of_the_program(&program);
    let mut command = Command::new(&program);
    command.arg("profile").arg(&disk).current_dir("/").uid(65534).gid(65534);
    let ended = lab.run(&mut command);
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.err.contains("permission denied: be root"), "{ended:?}");
}
