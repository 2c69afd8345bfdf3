//! `foreseek lab bench mount` and `walk` from outside: small and quick for real, gone on with, ended in the middle.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use foreseek_rig::{Disk, DiskPlan, Interrupt, Program};
use foreseek_units::Bytes;
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No run of these takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(400);

/// A data set of twice the memory on a disk ten times as fast.
const SMALL: [&str; 12] = [
    "--data-size",
    "256M",
    "--memory",
    "128M",
    "--server-memory",
    "64M",
    "--seconds",
    "0.5",
    "--time-scale",
    "0.1",
    "--format",
    "json",
];

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
    fn start(arguments: &[&str], run: &Path) -> Self {
        Self::start_of("mount", arguments, run)
    }

    /// Its disks and mounts are known in the folder `run` alone.
    fn start_of(what: &str, arguments: &[&str], run: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.args(["lab", "bench", what]).args(arguments).env("FORESEEK_RUN", run);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().expect("the program starts")))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it runs")
    }

    /// Ends it as Ctrl-C does, as soon as it has come so far.
    fn interrupt_when(&mut self, so_far: impl Fn() -> bool) {
        let start = Instant::now();
        while !so_far() {
            assert!(start.elapsed() < LIMIT, "it does not come so far");
            assert!(self.child().try_wait().expect("it is ours").is_none(), "it ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        let pid = rustix::process::Pid::from_child(self.child());
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    }

    /// The report is taken while it runs: it may be longer than a pipe holds.
    fn end(mut self) -> Output {
        let id = self.child().id();
        let (done, ended) = std::sync::mpsc::channel();
        let child = self.0.take().expect("it runs");
        std::thread::spawn(move || done.send(child.wait_with_output()));
        match ended.recv_timeout(LIMIT) {
            Ok(output) => output.expect("it ended"),
            Err(_) => {
                let pid = rustix::process::Pid::from_raw(id as i32).expect("a process");
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
                panic!("it does not end");
            }
        }
    }
}

/// Whether it can run here; says what is missing where not.
fn for_real() -> bool {
    let missing = [
        (rustix::process::geteuid().is_root(), "root"),
        (Path::new("/dev/fuse").exists(), "/dev/fuse"),
        (Path::new("/dev/loop-control").exists(), "/dev/loop-control"),
        (Path::new("/usr/sbin/mkfs.ext4").exists(), "mkfs.ext4"),
    ];
    let missing: Vec<&str> = missing.iter().filter(|(there, _)| !there).map(|(_, what)| *what).collect();
    if !missing.is_empty() {
        println!("SKIPPED: {} missing", missing.join(", "));
    }
    missing.is_empty()
}

/// Groups, disks and mounts of a process that are left.
fn left(id: u32, run: &Path) -> Vec<String> {
    let groups = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let groups = groups.iter().flat_map(|root| {
        ["readers", "server", "walk", "jobs", "jobs-server"]
            .map(|group| format!("{root}/foreseek-bench-{group}-{id}"))
    });
    let mut left: Vec<String> = groups.filter(|path| Path::new(path).exists()).collect();
    for kind in ["disks", "mounts"] {
        let entries = std::fs::read_dir(run.join(kind)).into_iter().flatten().flatten();
        left.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    left
}

fn runs(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("runs.jsonl")).expect("raw runs");
    text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_small_comparison_runs_and_is_gone_on_with() {
    if !for_real() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("results");
    let policies = "linux-128k,linux-4m,nbdkit,plain,mount-none";
    let run = |pairs: &str| {
        let mut arguments = SMALL.to_vec();
        arguments.extend(["--cells", "two-rand-0@4,hot,cold", "--policies", policies, "--pairs", pairs]);
        arguments.extend(["--output", out.to_str().expect("plain")]);
        let place = folder.path().join("run");
        let mut running = Running::start(&arguments, &place);
        let id = running.child().id();
        let output = running.end();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Claims about the mount are no matter of a test: they may hold or not.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
        assert_eq!(left(id, &place), Vec::<String>::new());
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let report = run("1");
    assert_eq!(report["failed"], Value::Array(Vec::new()));
    let [micro, hot, cold] = report["cells"].as_array().expect("cells").as_slice() else { panic!("three") };
    let of = |cell: &Value, policy: &str| {
        let entries = cell["entries"].as_array().expect("entries").clone();
        entries.into_iter().find(|entry| entry["policy"] == policy)
    };
    let nbdkit = Path::new("/usr/bin/nbdfuse").exists() && Path::new("/usr/bin/nbdkit").exists();
    for policy in ["linux-128k", "linux-4m", "nbdkit", "plain", "mount-none", "oracle"] {
        let entry = of(micro, policy);
        if policy == "nbdkit" && !nbdkit {
            println!("SKIPPED: nbdkit is not installed");
            assert!(entry.is_none());
            continue;
        }
        let entry = entry.unwrap_or_else(|| panic!("{policy} in {micro}"));
        assert!(entry["mb_per_s"]["mean"].as_f64().is_some_and(|rate| rate > 0.0), "{entry}");
        assert!(entry["device_per_read"].as_f64().is_some_and(|share| share > 0.1), "{entry}");
    }
    for cell in [hot, cold] {
        let median = of(cell, "plain").expect("measured")["read_median_us"]["mean"].as_f64();
        assert!(median.is_some_and(|median| median > 0.0), "{cell}");
        assert!(of(cell, "linux-4m").is_none() && of(cell, "oracle").is_none());
    }
    let first = runs(&out);
    // What is there is not measured again.
    run("2");
    let second = runs(&out);
    assert_eq!(second[..first.len()], first[..]);
    assert_eq!(second.len(), 2 * first.len());
    for name in ["report.txt", "report.json"] {
        assert!(out.join(name).exists(), "{name}");
    }
    // Runs of other settings are not mixed with them.
    let output =
        Running::start(&["--output", out.to_str().expect("plain"), "--seed", "9"], folder.path()).end();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("runs of other settings") && said.contains("seed"), "{said}");
}

/// Some hundred files on a disk fifty times as fast.
const FEW_FILES: [&str; 11] = [
    "--share",
    "0.004",
    "--time-scale",
    "0.02",
    "--disk-size",
    "2G",
    "--format",
    "json",
    "--quiet",
    "--programs",
    "tar,grep,du",
];

#[test]
fn a_few_walks_run_in_every_way_and_are_gone_on_with() {
    if !for_real() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (out, place, space) =
        (folder.path().join("results"), folder.path().join("run"), folder.path().join("space"));
    for path in [&place, &space] {
        std::fs::create_dir(path).expect("made");
    }
    let run = |pairs: &str, trees: &str| {
        let mut arguments = FEW_FILES.to_vec();
        arguments.extend(["--trees", trees, "--pairs", pairs, "--filled", "0.5"]);
        arguments.extend([
            "--output",
            out.to_str().expect("plain"),
            "--disk-space",
            space.to_str().expect("plain"),
        ]);
        let mut running = Running::start_of("walk", &arguments, &place);
        let id = running.child().id();
        let output = running.end();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // What was aimed at is no matter of a test.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
        assert_eq!(left(id, &place), Vec::<String>::new());
        assert_eq!(std::fs::read_dir(&space).expect("there").count(), 0);
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let report = run("1", "fresh");
    assert_eq!(report["notes"], Value::Array(Vec::new()));
    let cells = report["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 3);
    for cell in cells {
        assert!(cell["pass_seconds"].as_f64().is_some_and(|pass| pass > 0.0), "{cell}");
        let entries = cell["entries"].as_array().expect("entries");
        let ways: Vec<&Value> = entries.iter().map(|entry| &entry["way"]).collect();
        assert_eq!(ways, ["stock", "stock-4m", "warm", "watch", "mount"]);
        for entry in entries {
            assert!(entry["seconds"]["mean"].as_f64().is_some_and(|seconds| seconds > 0.0), "{entry}");
            // A run that begins cold has the disk read.
            assert!(entry["reads"].as_f64().is_some_and(|reads| reads > 0.0), "{entry}");
            let counts_costs = entry["way"] == "warm" || entry["way"] == "watch";
            assert_eq!(entry["side_costs"].is_object(), counts_costs, "{entry}");
            // du reads no contents, and so nobody asks where they lie.
            let asks = entry["way"] == "warm" && cell["program"] != "du";
            assert!(!asks || entry["side_costs"]["fiemap_calls"].as_u64() > Some(0), "{entry}");
        }
    }
    let first = runs(&out);
    // One pass for both programs that need all contents.
    let pass_of = |program: &str| {
        let is_pass = |run: &&Value| run["program"] == program && run["way"].is_null();
        first.iter().find(is_pass).expect("a pass")["outcome"]["measured"]["seconds"].as_f64()
    };
    assert!(pass_of("tar") == pass_of("grep") && pass_of("tar") != pass_of("du"));
    let report = run("1", "fresh,maildir,large");
    let note = report["notes"][0].as_str().expect("a note");
    assert!(note.starts_with("large is left out"), "this share is no four times the memory: {note}");
    let second = runs(&out);
    assert_eq!(second[..first.len()], first[..]);
    // tar and grep run there, too, and each has a row of the pass.
    assert_eq!(second.len(), first.len() + 2 * (5 + 1));
    run("2", "maildir");
    let third = runs(&out);
    assert_eq!(third.len(), second.len() + 2 * (5 + 1));
    // Over other files: these are of another seed.
    let pass = |pair: u64| {
        let is_pass = |run: &&Value| run["tree"] == "maildir" && run["way"].is_null() && run["pair"] == pair;
        third.iter().find(is_pass).expect("a pass")["outcome"]["measured"]["read_bytes"].as_u64()
    };
    assert!(pass(0) > Some(0) && pass(1) > Some(0) && pass(0) != pass(1));
    // Nothing is left to be done.
    run("2", "maildir");
    assert_eq!(runs(&out), third);
    let arguments = ["--same-trees", "--output", out.to_str().expect("plain")];
    let output = Running::start_of("walk", &[&FEW_FILES[..], &arguments].concat(), &place).end();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("new_trees true and false") && said.contains("filled"), "{said}");
}

#[test]
fn walks_over_the_same_trees_have_one_pass_and_the_report_says_so() {
    if !for_real() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (out, place) = (folder.path().join("results"), folder.path().join("run"));
    std::fs::create_dir(&place).expect("made");
    let mut arguments = FEW_FILES.to_vec();
    arguments.extend(["--trees", "maildir", "--ways", "stock", "--pairs", "2", "--same-trees"]);
    arguments.extend(["--output", out.to_str().expect("plain")]);
    let output = Running::start_of("walk", &arguments, &place).end();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["notes"][0].as_str().is_some_and(|note| note.contains("same trees")), "{report}");
    assert_eq!(report["plan"]["new_trees"], false);
    let passes = runs(&out).iter().filter(|run| run["way"].is_null()).count();
    assert_eq!((passes, runs(&out).len()), (2, 2 + 2 * 2), "tar and grep");
}

#[test]
fn an_interrupted_walk_leaves_nothing_behind() {
    if !for_real() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (run, space) = (folder.path().join("run"), folder.path().join("space"));
    for path in [&run, &space] {
        std::fs::create_dir(path).expect("made");
    }
    let mut arguments = FEW_FILES.to_vec();
    arguments.extend(["--trees", "fresh", "--ways", "stock,watch,mount", "--pairs", "50"]);
    arguments.extend([
        "--output",
        folder.path().to_str().expect("plain"),
        "--disk-space",
        space.to_str().expect("plain"),
    ]);
    let mut running = Running::start_of("walk", &arguments, &run);
    let id = running.child().id();
    running.interrupt_when(|| {
        std::fs::read_to_string(folder.path().join("runs.jsonl")).is_ok_and(|text| text.lines().count() > 3)
    });
    let output = running.end();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left(id, &run), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(&space).expect("there").count(), 0);
}

#[test]
fn walks_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, word) in [
        (["--trees", "bonsai"], "maildir"),
        (["--programs", "emacs"], "jdupes"),
        (["--ways", "watch"], "stock"),
        (["--share", "0"], "--share"),
        (["--file-system", "btrfs"], "xfs"),
        (["--filled", "1"], "--filled"),
    ] {
        let output = Running::start_of("walk", &arguments, folder.path()).end();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_few_jobs_run_in_every_way_and_are_gone_on_with() {
    if !for_real() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (out, place, space) =
        (folder.path().join("results"), folder.path().join("run"), folder.path().join("space"));
    for path in [&place, &space] {
        std::fs::create_dir(path).expect("made");
    }
    let paths = ["--output", out.to_str().expect("plain"), "--disk-space", space.to_str().expect("plain")];
    let run = |jobs: &str| {
        let mut arguments = vec!["--share", "0.02", "--time-scale", "0.1", "--pairs", "1", "--quiet"];
        // The two over Parquet are left out: this is no Python that has their modules.
        arguments.extend(["--python", "/nowhere/python3", "--format", "json", "--jobs", jobs]);
        arguments.extend(paths);
        let mut running = Running::start_of("jobs", &arguments, &place);
        let id = running.child().id();
        let output = running.end();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
        assert!(said.contains("duckdb is left out") && said.contains("pip install"), "{said}");
        assert_eq!(left(id, &place), Vec::<String>::new());
        assert_eq!(std::fs::read_dir(&space).expect("there").count(), 0);
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let report = run("cat,duckdb");
    let entries = report["cells"][0]["entries"].as_array().expect("entries");
    let ways: Vec<&Value> = entries.iter().map(|entry| &entry["way"]).collect();
    assert_eq!(ways, ["stock", "stock-512k", "stock-4m", "plain", "mount"]);
    for entry in entries {
        assert!(entry["seconds"]["mean"].as_f64().is_some_and(|seconds| seconds > 0.0), "{entry}");
        assert!(entry["read_mib"].as_f64().is_some_and(|read| read > 7.0), "from cold: {entry}");
    }
    let first = runs(&out);
    assert!(first.iter().any(|run| run["outcome"]["measured"]["status"]["reads"].is_object()), "{first:?}");
    run("cat,cmp,duckdb");
    let second = runs(&out);
    assert_eq!((second.len(), &second[..first.len()]), (first.len() + 5, &first[..]));
}

#[test]
fn jobs_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, word) in [
        (["--jobs", "emacs"], "duckdb"),
        (["--ways", "mount"], "stock"),
        (["--ways", "fast"], "stock-4m"),
        (["--share", "0"], "--share"),
        (["--memory", "1M"], "256 MiB"),
    ] {
        let output = Running::start_of("jobs", &arguments, folder.path()).end();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn an_interrupted_measurement_leaves_nothing_behind() {
    if !for_real() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut arguments = SMALL.to_vec();
    arguments.extend(["--cells", "one-whole-0@16", "--policies", "linux-128k,plain", "--pairs", "50"]);
    arguments.extend(["--output", folder.path().to_str().expect("plain")]);
    let run = folder.path().join("run");
    let mut running = Running::start(&arguments, &run);
    let id = running.child().id();
    running.interrupt_when(|| {
        std::fs::read_to_string(folder.path().join("runs.jsonl")).is_ok_and(|text| text.lines().count() > 1)
    });
    let output = running.end();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left(id, &run), Vec::<String>::new());
    assert!(runs(folder.path()).len() < 50);
}

#[test]
fn one_interrupted_while_it_mounts_leaves_nothing_behind() {
    if !for_real() {
        return;
    }
    // The server writes its record before it mounts; and some time after that.
    for wait_ms in [0, 30] {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        let mut arguments = SMALL.to_vec();
        arguments.extend(["--cells", "one-whole-0@1", "--policies", "mount-learnt,plain", "--pairs", "50"]);
        arguments.extend(["--output", folder.path().to_str().expect("plain")]);
        let mut running = Running::start(&arguments, &run);
        let id = running.child().id();
        running.interrupt_when(|| {
            let begun = std::fs::read_dir(run.join("mounts")).is_ok_and(|mut places| places.next().is_some());
            if begun {
                std::thread::sleep(Duration::from_millis(wait_ms));
            }
            begun
        });
        let output = running.end();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(left(id, &run), Vec::<String>::new());
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    for (arguments, word) in [
        (["--cells", "two-rand-0@0"], "two-rand-0@0"),
        (["--policies", "linux-9m"], "linux-9m"),
        (["--policies", "mount-nosuch"], "a mount has no policy 'nosuch', it has none, linux, "),
        (["--policies", "oracle"], "leave it out"),
        (["--minutes", "0.5"], "--minutes 0.5"),
        (["--data-size", "1M"], "--data-size 1 MiB"),
        (["--time-scale", "0"], "--time-scale 0"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("results");
        let mut all = arguments.to_vec();
        all.extend(["--output", out.to_str().expect("plain")]);
        let output = Running::start(&all, folder.path()).end();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(word), "{said}");
        assert!(!out.exists());
    }
}

/// A file that is still open keeps a detached file system and its page cache: a run on it would not be cold.
#[test]
fn a_disk_is_not_mounted_while_an_earlier_mount_is_in_use() {
    let plan = DiskPlan {
        name: format!("in-use-{}", std::process::id()),
        profile: "barracuda-500g".to_owned(),
        size: Bytes::mib(64),
        fit: false,
        time_scale: 1.0,
        directory: None,
    };
    let made = Program::find("mkfs.ext4", "e2fsprogs").and_then(|mkfs| {
        let disk = Disk::attach_by(Path::new(env!("CARGO_BIN_EXE_foreseek")), &plan)?;
        disk.make_file_system(&mkfs, &Interrupt::default())?;
        Ok(disk)
    });
    let disk = match made {
        Ok(disk) => disk,
        Err(error) => return println!("SKIPPED: an emulated disk that is in use: {error}"),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = disk.mount(folder.path()).expect("mounts");
    let held = File::open(folder.path()).expect("opens");
    drop(mounted);
    let refused = disk.mount(folder.path()).expect_err("it is in use").to_string();
    assert!(refused.starts_with("an earlier mount is still in use, of /dev/loop"), "{refused}");
    drop(held);
    disk.mount(folder.path()).expect("mounts").unmount().expect("unmounts");
}
