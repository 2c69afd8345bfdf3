//! `foreseek demo` from outside: small and quick for real, in virtual time, and with bad input.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No run of these takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(240);

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.arg("demo").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ends a child that a failing test leaves.
struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    fn start(mut command: Command) -> Self {
        Self(Some(command.spawn().expect("the program starts")))
    }

    fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    /// What is printed here fits into a pipe, so that waiting before reading cannot hang.
    fn end(mut self) -> Output {
        let start = Instant::now();
        while self.0.as_mut().expect("it runs").try_wait().expect("it is ours").is_none() {
            assert!(start.elapsed() < LIMIT, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.0.take().expect("it ran").wait_with_output().expect("it ended")
    }
}

fn run(arguments: &[&str]) -> Output {
    Running::start(demo(arguments)).end()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the demo can run for real here; says what is missing where not.
fn for_real() -> bool {
    let missing = [
        (rustix::process::geteuid().is_root(), "root"),
        (Path::new("/dev/fuse").exists(), "/dev/fuse"),
        (Path::new("/dev/loop-control").exists(), "/dev/loop-control"),
        (has("sqlite3"), "sqlite3"),
        (has("mkfs.ext4"), "mkfs.ext4"),
    ];
    let missing: Vec<&str> = missing.iter().filter(|(there, _)| !there).map(|(_, what)| *what).collect();
    if !missing.is_empty() {
        println!("SKIPPED: {} missing", missing.join(", "));
    }
    missing.is_empty()
}

fn has(program: &str) -> bool {
    ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists())
}

/// The extension as this test's build has it: the library is built with the program.
fn extension() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_foreseek")).parent().expect("it is in a folder");
    let name = "libforeseek_sqlite.so";
    [folder.join(name), folder.join("deps").join(name)]
        .into_iter()
        .find(|path| path.exists())
        .expect("the extension is built with the program")
}

/// What a demo could leave behind, by name: its folders, mounts, groups, disks.
fn traces(pid: u32) -> BTreeSet<String> {
    let mut traces = BTreeSet::new();
    let name = format!("foreseek-demo-{pid}");
    let groups = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name", &name])
        .output()
        .expect("find runs");
    traces.extend(text(&groups.stdout).lines().map(str::to_owned));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    traces.extend(mounts.lines().filter(|line| line.contains(&format!("demo-{pid}"))).map(str::to_owned));
    let disks = Command::new(env!("CARGO_BIN_EXE_foreseek"))
        .args(["disk", "list", "--format", "json"])
        .output()
        .expect("the list runs");
    if text(&disks.stdout).contains(&format!("demo-{pid}\"")) {
        traces.insert("the disk".to_owned());
    }
    traces
}

/// Makes a folder for temporary files of one run, so that what is left in it is seen.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("it is there").next().is_none()
}

#[test]
fn a_small_demo_for_real_gives_the_same_result_and_leaves_nothing() {
    if !for_real() {
        return;
    }
    let (temporary, out) = (folder(), folder());
    let extension = extension();
    // The shell with the extension, here without optimisation, takes up to 7 MiB for itself: a limit
    // below that has it killed now and then.
    let mut command = demo(&["--database-size", "24M", "--memory", "16M", "--time-scale", "0.02", "--quiet"]);
    command.args(["--format", "json", "--extension"]).arg(&extension);
    command.arg("--output").arg(out.path()).env("TMPDIR", temporary.path());
    let running = Running::start(command);
    let pid = running.id();
    let output = running.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(json["simulated"], false);
    assert_eq!(json["identical"], true);
    assert_eq!(json["memory_bytes"], 16 << 20);
    assert!(json["database_bytes"].as_u64().expect("a number") >= 24 << 20);
    for name in ["stock_seconds", "foreseek_seconds", "speed_up", "limit_ratio", "time_scale"] {
        assert!(json[name].as_f64().expect(name) > 0.0, "{name}");
    }
    let runs = json["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run["stock"]["fingerprint"], run["foreseek"]["fingerprint"]);
        assert_eq!(run["stock"]["rows"], json["rows"]);
        // The prefetcher worked: far fewer requests or far nearer ones, and its own counters say so.
        let count = |of: &str, name: &str| run[of][name].as_u64().expect("a count");
        assert!(run["foreseek"]["prefetcher"]["rounds"].as_u64() >= Some(1), "{run}");
        assert!(
            count("foreseek", "seeks") < count("stock", "seeks")
                || count("foreseek", "mean_seek_distance_bytes") < count("stock", "mean_seek_distance_bytes"),
            "{run}"
        );
        assert!(count("foreseek", "device_read_bytes") >= 24 << 20);
    }
    for name in ["index.html", "demo.json", "blocks-main.svg", "blocks-fits.svg"] {
        assert!(out.path().join(name).exists(), "{name}");
    }
    assert_eq!(traces(pid), BTreeSet::new());
    assert!(is_empty(temporary.path()), "temporary files are left");
}

#[test]
fn an_interrupted_demo_puts_everything_back() {
    if !for_real() {
        return;
    }
    let temporary = folder();
    let extension = extension();
    // Slow enough to be met while the stock query runs.
    let mut command = demo(&["--database-size", "8M", "--time-scale", "1"]);
    command.arg("--extension").arg(&extension).env("TMPDIR", temporary.path());
    let running = Running::start(command);
    let pid = running.id();
    let start = Instant::now();
    let group = |traces: &BTreeSet<String>| traces.iter().any(|trace| trace.starts_with("/sys/fs/cgroup"));
    while !group(&traces(pid)) {
        assert!(start.elapsed() < LIMIT, "the query does not begin");
        std::thread::sleep(Duration::from_millis(50));
    }
    let id = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it is ours");
    let output = running.end();
    assert_eq!(output.status.code(), Some(130));
    assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
    assert_eq!(traces(pid), BTreeSet::new());
    assert!(is_empty(temporary.path()), "temporary files are left");
}

#[test]
fn in_virtual_time_it_says_so_and_compares_the_same() {
    if !has("sqlite3") {
        println!("SKIPPED: sqlite3 missing");
        return;
    }
    let temporary = folder();
    let mut command = demo(&["--simulate", "--database-size", "16M", "--format", "json", "--quiet"]);
    command.env("TMPDIR", temporary.path());
    let output = Running::start(command).end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "quiet: {}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&json["simulated"], &json["identical"]), (&Value::Bool(true), &Value::Bool(true)));
    // Virtual time is the same everywhere.
    assert!(json["speed_up"].as_f64().expect("a number") > 5.0, "{}", json["speed_up"]);
    assert!(
        json["runs"][1]["speed_up"].as_f64().expect("a number") > 10.0,
        "{}",
        json["runs"][1]["speed_up"]
    );
    assert!(is_empty(temporary.path()), "temporary files are left");
    let table = run(&["--simulate", "--database-size", "1M"]);
    assert!(text(&table.stdout).starts_with("SIMULATED"), "{}", text(&table.stdout));
}

#[test]
fn what_makes_no_sense_is_refused_with_status_2_and_a_word_about_it() {
    for (arguments, word) in [
        (&["--database-size", "lots"][..], "lots"),
        (&["--database-size", "10K"], "--database-size"),
        (&["--database-size", "900G"], "--database-size"),
        (&["--memory", "1K"], "--memory"),
        (&["--time-scale", "0"], "--time-scale"),
        (&["--time-scale", "-1"], "--time-scale"),
        (&["--time-scale", "NaN"], "--time-scale"),
        (&["--profile", "floppy"], "floppy"),
        (&["--profile", "/no/such/file.toml"], "/no/such/file.toml"),
        (&["--simulate", "--keep"], "--keep"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        let output = run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_missing_program_or_extension_is_named_with_the_remedy() {
    // With nothing in PATH, and the administrators' folders without it.
    let mut command = demo(&["--simulate", "--database-size", "1M"]);
    command.env("PATH", "/nowhere");
    let output = Running::start(command).end();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("sqlite3") && said.contains("install"), "{said}");
    if for_real() {
        let output = run(&["--database-size", "1M", "--extension", "/no/such/extension.so"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("/no/such/extension.so"), "{}", text(&output.stderr));
    }
}
