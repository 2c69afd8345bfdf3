//! Real traces, if they are available: all of their lines are read, and their numbers are known.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use flate2::bufread::MultiGzDecoder;
use foreseek_simulate::trace::{Format, Reader, Summary, TraceError};
use foreseek_units::Bytes;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// A file of the shared data, beside the repository or beside its parent folder.
fn shared(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let found = ["../shared", "../../shared"].map(|up| root.join(up).join("traces").join(name));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        println!("SKIPPED: there is no ../shared/traces/{name}");
    }
    found
}

fn text(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = Vec::new();
    MultiGzDecoder::new(BufReader::new(file)).read_to_end(&mut text).expect("gzip");
    text
}

fn summary(path: &Path) -> Result<Summary, TraceError> {
    Summary::of(Reader::new(&path.display().to_string(), &text(path)[..], None)?, &mut |_| {})
}

#[test]
fn a_sample_of_blkparse() {
    let Some(path) = shared("blkparse-sample.txt.gz") else { return };
    let summary = summary(&path).expect("all of it is valid");
    assert_eq!(summary.format, Format::Blkparse);
    // 15,524 lines have the action Q, as grep counts them; 80 of them are reads.
    assert_eq!((summary.reads, summary.writes, summary.flushes), (80, 15_444, 0));
    assert_eq!(summary.targets.len(), 1);
}

#[test]
fn a_virtual_disk_of_cloudphysics() {
    let Some(path) = shared("cloudphysics-io.csv.gz") else { return };
    let summary = summary(&path).expect("all of it is valid");
    assert_eq!(summary.format, Format::LibCacheSim);
    assert_eq!((summary.reads, summary.writes), (46_974, 66_898));
    assert_eq!(summary.duration().map(|time| time.get() / 1_000_000_000), Some(7200));
}

#[test]
fn the_validation_traces_of_disksim() {
    // Mean response times as computed by awk.
    for (name, mean_us) in [("atlas_III", 6263), ("barracuda", 6627), ("cheetah9LP", 4272), ("ibm18es", 5260)]
    {
        let Some(path) = shared(&format!("disksim-valid/{name}.trace.gz")) else { return };
        let summary = summary(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((summary.format, summary.requests()), (Format::Validation, 10_000));
        assert_eq!(summary.responses, 10_000);
        assert!(summary.targets[0].end < Bytes(9_200_000_000), "drives of 2 to 9 GB");
        assert_eq!(summary.mean_response().map(|mean| mean.get() / 1000), Some(mean_us), "{name}");
    }
}

#[test]
fn an_hp_trace_is_refused_by_name() {
    let Some(path) = shared("hplajw.1week.srt.gz") else { return };
    let error = summary(&path).expect_err("binary").to_string();
    assert!(error.contains("HP SRT"), "{error}");
}

#[test]
fn page_numbers_alone_are_no_trace() {
    let Some(path) = shared("lirs-cpp.trace.gz") else { return };
    let error = summary(&path).expect_err("a number a line").to_string();
    assert!(error.contains("lirs-cpp") && error.contains("no known trace format"), "{error}");
}
