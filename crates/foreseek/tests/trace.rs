//! `foreseek lab trace` as a user meets it.

use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::process::{Command, Output};

fn trace(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.args(["lab", "trace"]).args(args).output().expect("the program runs")
}

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("written");
    file
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty(), "nothing is reported beside an error");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Reads of two processes, 2 ms apart, in the SPC format.
fn spc(requests: u32) -> String {
    (0..requests)
        .map(|n| format!("0,{},4096,r,{}.{:03}\n", n * 7919 % 50_000 * 8, n * 2 / 1000, n * 2 % 1000))
        .collect()
}

#[test]
fn info_reads_plain_and_compressed_files_alike() {
    let text = spc(500);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(text.as_bytes()).expect("compressed");
    let files = [file(text.as_bytes()), file(&gzip.finish().expect("compressed"))];
    for file in &files {
        let path = file.path().to_str().expect("UTF-8");
        let info = json(&trace(&["info", path, "--format", "json"]));
        assert_eq!((info["format"].as_str(), info["requests"].as_u64()), (Some("spc"), Some(500)));
        assert_eq!(info["duration_s"].as_f64(), Some(0.998));
        let few = json(&trace(&["info", path, "--limit", "20", "--format", "json"]));
        assert_eq!(few["reads"].as_u64(), Some(20));
        let table = trace(&["info", path]);
        assert!(String::from_utf8_lossy(&table.stdout).contains("500 reads"));
    }
}

#[test]
fn a_malformed_line_is_named_by_file_line_and_reason() {
    let file = file(format!("{}0,17,4096,q,9.0\n", spc(3)).as_bytes());
    let path = file.path().to_str().expect("UTF-8");
    for args in [&["info", path][..], &["replay", path, "--profile", "ibm-36g-51"]] {
        let complaint = complaint(&trace(args));
        assert!(complaint.contains(&format!("{path}: line 4: its opcode 'q'")), "{complaint}");
    }
}

#[test]
fn schedulers_are_compared_in_one_table() {
    let file = file(spc(200).as_bytes());
    let path = file.path().to_str().expect("UTF-8");
    let args = ["replay", path, "--profile", "ibm-36g-51", "--scheduler", "noop,c-look", "--format", "json"];
    let rows = json(&trace(&args));
    let [noop, clook] = &rows.as_array().expect("a list")[..] else { panic!("two runs") };
    assert_eq!((noop["loop"].as_str(), noop["through"].as_str()), (Some("open"), Some("block")));
    // 500 random reads a second are more than the drive does: a queue forms, and order pays.
    let mean = |row: &serde_json::Value| row["response_mean_ms"].as_f64().expect("a number");
    assert!(mean(noop) > mean(clook) && mean(clook) > 3.0, "{} and {}", mean(noop), mean(clook));
    let same = json(&trace(&args));
    assert_eq!(same, rows, "the same trace and seed give the same numbers");
}

#[test]
fn a_trace_of_files_goes_through_the_page_cache() {
    // Two files in turn: without read-ahead each read is a seek.
    let mut text = "fio version 2 iolog\na add\nb add\n".to_owned();
    for n in 0..128 {
        for file in ["a", "b"] {
            text.push_str(&format!("{file} read {} 16384\n", n * 16_384));
        }
    }
    let file = file(text.as_bytes());
    let path = file.path().to_str().expect("UTF-8");
    let rows = json(&trace(&[
        "replay",
        path,
        "--profile",
        "ibm-36g-51",
        "--policy",
        "none,competitive",
        "--format",
        "json",
    ]));
    let [none, competitive] = &rows.as_array().expect("a list")[..] else { panic!("two runs") };
    assert_eq!((none["loop"].as_str(), none["through"].as_str()), (Some("closed"), Some("cache")));
    let number = |row: &serde_json::Value, key: &str| row[key].as_f64().expect(key);
    assert_eq!(number(none, "requests"), 256.0);
    assert!(number(competitive, "prefetched_pages") > 500.0);
    assert!(number(competitive, "time_s") < number(none, "time_s") / 2.0);
}

#[test]
fn what_would_change_nothing_is_refused_with_the_remedy() {
    let file = file(spc(5).as_bytes());
    let path = file.path().to_str().expect("UTF-8");
    for (args, expected) in [
        (&["--policy", "competitive"][..], "--through cache"),
        (&["--through", "cache", "--loop", "open"], "closed loop"),
        (&["--through", "cache", "--wrap"], "--through block"),
        (&["--scheduler", "lottery"], "there are noop"),
        (&["--through", "cache", "--policy", "psychic"], "competitive"),
        (&["--as", "srt"], "there are spc"),
        (&["--limit", "0"], "--limit"),
    ] {
        let all = [&["replay", path, "--profile", "ibm-36g-51"], args].concat();
        let complaint = complaint(&trace(&all));
        assert!(complaint.contains(expected), "{args:?}: {complaint}");
    }
    let complaint = complaint(&trace(&["info", "/no/such/trace"]));
    assert!(complaint.contains("/no/such/trace"), "{complaint}");
}
