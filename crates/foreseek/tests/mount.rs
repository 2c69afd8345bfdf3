//! `foreseek mount` as a user meets it. The crate `mount` tests what programs meet in a mount.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use foreseek_mount::{MountOptions, Policy, Settings};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for anything.
const LIMIT: Duration = Duration::from_secs(60);

fn mount(args: &[&str]) -> Output {
    keeping(Path::new(""), args)
}

/// The same with the learnt state kept in this directory; in none if its name is empty.
fn keeping(state: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    command.env("FORESEEK_STATE", state).arg("mount").args(args).output().expect("the program runs")
}

/// Its standard output, on success.
fn done(args: &[&str]) -> String {
    let output = mount(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Its standard error, on failure.
fn refused(args: &[&str]) -> String {
    let output = mount(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("UTF-8")
}

/// A source and a mount point, both removed at the end, the mount first.
struct Place {
    source: PathBuf,
    point: PathBuf,
    _directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a place");
        let (source, point) = (directory.path().join("source"), directory.path().join("mount"));
        fs::create_dir(&source).expect("made");
        fs::create_dir(&point).expect("made");
        fs::write(source.join("a"), "text").expect("written");
        Self { source, point, _directory: directory }
    }

    fn paths(&self) -> (&str, &str) {
        (self.source.to_str().expect("UTF-8"), self.point.to_str().expect("UTF-8"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        mount(&["--unmount", self.paths().1]);
    }
}

fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        println!("SKIPPED: a mount needs root and /dev/fuse");
    }
    can
}

#[test]
fn a_mount_is_made_shown_listed_and_unmounted() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (source, point) = place.paths();
    assert_eq!(done(&["--memory", "64M", "--policy", "plain", source, point]), "");
    assert_eq!(fs::read_to_string(place.point.join("a")).expect("read"), "text");
    fs::write(place.point.join("b"), "new").expect("written");
    assert_eq!(fs::read_to_string(place.source.join("b")).expect("read"), "new");
    let status: serde_json::Value =
        serde_json::from_str(&done(&["--status", point, "--format", "json"])).expect("one JSON value");
    assert_eq!(status["mount_point"], point);
    assert_eq!(status["source"], source);
    assert_eq!(status["reads"]["policy"], "plain");
    assert_eq!(status["reads"]["read_bytes"], 4);
    let table = done(&["--status", point]);
    for word in [
        "policy",
        "streams",
        "prefetch size",
        "learnt",
        "prefetch cache",
        "cancelled before",
        "thrashing",
        "no internal errors",
        source,
    ] {
        assert!(table.contains(word), "{word} in {table}");
    }
    assert!(done(&["--list"]).lines().any(|line| line.contains(point) && line.contains("ready")));
    assert!(refused(&[source, point]).contains("--unmount"), "a second one is refused, with the remedy");
    // A mount at once after an unmount waits for the server's end.
    let unmounted = Command::new("umount").arg(point).status().expect("'umount' exists");
    assert!(unmounted.success());
    done(&["--memory", "64M", source, point]);
    done(&["--unmount", point]);
    assert!(fs::read_dir(&place.point).expect("read").next().is_none());
    assert!(!done(&["--list"]).contains(point));
    assert!(refused(&["--status", point]).contains("not a Foreseek mount"));
}

#[test]
fn a_server_whose_start_cannot_be_reported_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let run = place.source.with_file_name("run");
    let settings = Settings {
        mount: MountOptions::new(&place.source, &place.point),
        policy: Policy::PLAIN,
        rho: 3.0,
        memory_bytes: 64 << 20,
        is_bounded: true,
        profile: None,
        state: None,
        forget: false,
        record: None,
    };
    let foreseek = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        command.arg("mount").args(args).env("FORESEEK_RUN", &run);
        command
    };
    // It cannot report that it is ready, as when the mounting program was interrupted while the server
    // started. A closed pipe would not do, since a process that another test starts may have it open.
    let deaf = fs::OpenOptions::new().write(true).open("/dev/full").expect("there");
    let mut server =
        foreseek(&["--serve"]).stdin(Stdio::piped()).stdout(deaf).spawn().expect("the program runs");
    let mut to = server.stdin.take().expect("a pipe");
    writeln!(to, "{}", serde_json::to_string(&settings).expect("JSON")).expect("written");
    let begun = Instant::now();
    let status = loop {
        match server.try_wait().expect("it is ours") {
            Some(status) => break status,
            None if begun.elapsed() > LIMIT => {
                let _ = foreseek(&["--unmount", place.paths().1]).status();
                panic!("it goes on");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!(status.code(), Some(2));
    assert!(fs::read_dir(&place.point).expect("read").next().is_none(), "it is not mounted");
    let left = fs::read_dir(run.join("mounts")).expect("made").count();
    assert_eq!(left, 0, "a mount that is not there would be listed as dead");
}

#[test]
fn learnt_state_is_explained_kept_and_forgotten_on_request() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (source, point) = place.paths();
    let state = place.source.with_file_name("state");
    for number in 0..4 {
        fs::write(place.source.join(format!("{number}.dat")), vec![1; 1 << 20]).expect("written");
    }
    let say = |args: &[&str]| {
        let output = keeping(&state, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"))
    };
    // A file that was just written is in memory: passed through to the kernel, it would teach nothing.
    assert_eq!(say(&["--memory", "64M", "--no-passthrough", source, point])[1], "");
    for number in 0..4 {
        fs::read(place.point.join(format!("{number}.dat"))).expect("read");
    }
    let [table, _] = say(&["--status", point]);
    for words in
        ["began with nothing learnt", "median", "90th percentile", "gain", ".dat, files of 1 MiB to 2 MiB"]
    {
        assert!(table.contains(words), "{words} in {table}");
    }
    let [json, _] = say(&["--status", point, "--format", "json"]);
    let status: serde_json::Value = serde_json::from_str(&json).expect("one JSON value");
    assert_eq!(status["reads"]["classes"][0]["class"], "all");
    let file = PathBuf::from(status["kept"]["path"].as_str().expect("a path"));
    assert!(file.starts_with(&state), "{}", file.display());
    say(&["--unmount", point]);
    let began = |args: &[&str]| {
        let [_, warnings] = say(args);
        let [table, _] = say(&["--status", point]);
        say(&["--unmount", point]);
        (warnings, table)
    };
    let (warnings, table) = began(&[source, point]);
    assert!(warnings.is_empty() && table.contains("classes learnt before"), "{warnings}{table}");
    assert!(began(&["--forget", source, point]).1.contains("began with nothing learnt"));
    fs::write(&file, "garbage").expect("written");
    let (warnings, table) = began(&[source, point]);
    assert!(warnings.contains("line 1") && warnings.lines().count() == 1, "{warnings}");
    assert!(table.contains("began with nothing learnt") && table.contains("line 1"), "{table}");
}

#[test]
fn the_bound_on_the_cost_of_a_wrong_guess_is_the_users_choice() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (source, point) = place.paths();
    for (given, shown) in [(&[][..], 3.0), (&["--rho", "2.5"][..], 2.5)] {
        done(&[given, &["--memory", "64M", source, point]].concat());
        let status: serde_json::Value =
            serde_json::from_str(&done(&["--status", point, "--format", "json"])).expect("one JSON value");
        let table = done(&["--status", point]);
        done(&["--unmount", point]);
        assert_eq!(status["reads"]["rho"], shown);
        assert!(table.contains(&format!("at most {shown} times as costly")), "{table}");
    }
    for rho in ["1.9", "1001", "-3", "NaN", "much"] {
        assert!(refused(&["--rho", rho, source, point]).contains("--rho"), "{rho}");
    }
    assert!(refused(&["--rho", "3", "--policy", "competitive", source, point]).contains("leave out --rho"));
}

#[test]
fn one_in_the_foreground_ends_on_a_signal() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (source, point) = place.paths();
    let mut server = Command::new(env!("CARGO_BIN_EXE_foreseek"))
        .args(["mount", "--foreground", "--read-only", "--policy", "plain", source, point])
        .spawn()
        .expect("the program runs");
    let deadline = Instant::now() + LIMIT;
    while fs::read_to_string(place.point.join("a")).is_err() {
        assert!(Instant::now() < deadline, "it is not mounted");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(fs::write(place.point.join("b"), "x").is_err(), "it is read-only");
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    loop {
        if let Some(status) = server.try_wait().expect("waited for") {
            assert!(status.success());
            break;
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(fs::read_dir(&place.point).expect("read").next().is_none());
}

#[test]
fn what_cannot_be_mounted_is_refused_with_a_remedy() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (source, point) = place.paths();
    let none = format!("{point}/none");
    let file = format!("{source}/a");
    fs::create_dir(place.source.join("inside")).expect("made");
    let inside = format!("{source}/inside");
    for (args, words) in [
        ([none.as_str(), point], "give a directory that exists"),
        ([file.as_str(), point], "it is not a directory"),
        ([source, none.as_str()], "give an empty directory that exists"),
        ([source, file.as_str()], "it is not a directory"),
        ([source, inside.as_str()], "within the source"),
        ([point, source], "not empty"),
    ] {
        let message = refused(&args);
        assert!(message.contains(words), "{args:?}: {message}");
        assert!(message.starts_with("foreseek: ") && message.lines().count() == 1, "{message}");
    }
    assert!(refused(&["--profile", "no-such-disk", source, point]).contains("built in are"));
    assert!(refused(&["--memory", "much", source, point]).contains("--memory"));
    assert!(refused(&["--memory", "1K", source, point]).contains("give 4 MiB or more"));
    assert!(refused(&[source]).contains("MOUNTPOINT"));
    assert!(refused(&["--unmount", point]).contains("not a Foreseek mount"));
}

/// Refused before anything is mounted, also without root.
#[test]
fn an_impossible_memory_is_refused_with_the_possible_one() {
    let machine = foreseek_storage::machine_memory().expect("/proc/meminfo");
    for given in ["999T", &format!("{}", machine.get() + 1)] {
        let message = refused(&["--memory", given, "/nowhere", "/nowhere"]);
        assert!(message.contains(&format!("this machine has {machine}")), "{given}: {message}");
    }
    for args in [&["--memory", "-5M", "/nowhere", "/nowhere"][..], &["--memory=-5M", "/nowhere", "/nowhere"]]
    {
        let message = refused(args);
        assert!(message.contains("--memory") && message.contains("'-5M' is negative"), "{message}");
    }
}

#[test]
fn a_missing_run_directory_is_not_one_without_mounts() {
    for args in [&["mount", "--list"][..], &["disk", "list"], &["disk", "list", "--format", "json"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreseek"));
        let output = command.env("FORESEEK_RUN", "/proc/x").args(args).output().expect("the program runs");
        let message = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{message}");
        assert!(message.contains("there is no /proc/x, which FORESEEK_RUN names"), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn the_help_helps() {
    let help = done(&["--help"]);
    assert!(help.contains("aggressive:  up to 1 MiB at a time"), "{help}");
    for word in [
        "SOURCE",
        "MOUNTPOINT",
        "--memory",
        "--policy",
        "--status",
        "--unmount",
        "Examples",
        "mount.md, in share/doc/foreseek",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
}

#[test]
fn without_root_it_is_refused() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (source, point) = place.paths();
    use std::os::unix::process::CommandExt;
    let program = env!("CARGO_BIN_EXE_foreseek");
    let output = Command::new(program).args(["mount", source, point]).uid(12_345).gid(12_345).output();
    let Ok(output) = output else { return println!("SKIPPED: other users cannot run {program}") };
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("cannot mount: root privileges required"), "{message}");
}

/// A process that is ended with the test.
struct Held(std::process::Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn unmounting_names_the_users_and_the_command_that_ends_it_at_once() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (source, point) = place.paths();
    done(&["--memory", "64M", "--policy", "plain", source, point]);
    let inside = Command::new("sleep").arg("1000").current_dir(point).spawn().expect("'sleep' exists");
    let inside = Held(inside);
    let open = fs::File::open(place.point.join("a")).expect("opened");
    // An unmount from within does not wait for itself.
    let mut unmount = Command::new(env!("CARGO_BIN_EXE_foreseek"));
    unmount.args(["mount", "--unmount", "."]).current_dir(point).stderr(Stdio::piped());
    let mut unmount = Held(unmount.spawn().expect("the program runs"));
    let mut message = String::new();
    let mut stderr = std::io::BufReader::new(unmount.0.stderr.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stderr, &mut message).expect("a line");
    let own = std::process::id();
    for words in [
        point.to_owned(),
        format!("sleep (process {}) works in it", inside.0.id()),
        format!("(process {own}) has "),
        "30 s".to_owned(),
    ] {
        assert!(message.contains(&words), "{words} in {message}");
    }
    assert!(!message.contains(&format!("process {})", unmount.0.id())), "{message}");
    let server =
        message.split("'kill ").nth(1).and_then(|rest| rest.split('\'').next()).expect("what ends it");
    let begun = Instant::now();
    assert!(Command::new("kill").arg(server).status().expect("'kill' exists").success());
    assert!(unmount.0.wait().expect("it ends").success());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop((open, inside));
    assert!(!done(&["--list"]).contains(point));
}
