//! The stock `sqlite3` shell, with the extension or without, in a process of its own.

#![allow(clippy::print_stdout, reason = "a skipped test prints a message")]

use foreseek_storage::{HostFd, cachestat};
use foreseek_units::{Bytes, PageIndex, Span};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The time limit of a program. No test query takes a tenth of it. A child of `make soak` runs some hundred
/// queries on a disk.
fn patience() -> Duration {
    Duration::from_secs(if std::env::var_os("FORESEEK_QUERIES").is_some() { 600 } else { 60 })
}

/// The extension that cargo built together with this test.
pub(crate) fn extension() -> PathBuf {
    let test = std::env::current_exe().expect("this program's path");
    let path = test.with_file_name("libforeseek_sqlite.so");
    assert!(path.is_file(), "{} is missing: cargo test builds it", path.display());
    path
}

/// Whether the stock shell is installed; prints a message if it is not.
pub(crate) fn has_shell(test: &str) -> bool {
    let there = Command::new("sqlite3").arg("--version").output().is_ok();
    if !there {
        println!("SKIPPED: {test}: the sqlite3 shell is not installed");
    }
    there
}

/// The output of a process and its exit status.
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a program to its end with this input, within the limit of time.
pub(crate) fn run(command: &mut Command, input: &str) -> Outcome {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let input = input.to_owned();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that ends early does not read all of it.
            let _ = stdin.write_all(input.as_bytes());
        });
        let out = scope.spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).map(|_| bytes)
        });
        let err = scope.spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).map(|_| bytes)
        });
        let status = wait(&mut child);
        let out = text(out.join().expect("no panic").expect("readable"));
        let err = text(err.join().expect("no panic").expect("readable"));
        Outcome { status, out, err }
    })
}

/// Waits for a child. A child that takes too long is killed, and the test fails.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let (begun, patience) = (Instant::now(), patience());
    loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return status;
        }
        if begun.elapsed() > patience {
            child.kill().expect("a child of ours");
            child.wait().expect("a child of ours");
            panic!("it took more than {patience:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs SQL in the stock shell without the extension.
pub(crate) fn stock(database: &Path, sql: &str) -> Outcome {
    run(Command::new("sqlite3").arg("-batch").arg(database), sql)
}

/// Makes the extension follow every read, also of pages in memory: the kernel's readahead reads a small file as
/// a whole.
pub(crate) const FOLLOW: &str = ".output /dev/null\nSELECT foreseek_set('bypass', 'off');\n.output\n";

/// Runs SQL in the stock shell with the extension loaded, after the commands in `before`. Returns the output
/// and the extension's status.
pub(crate) fn with_extension(database: &Path, before: &str, sql: &str) -> (Outcome, Value) {
    let script = format!(
        ".load {}\n{before}\n{sql}\n.print {MARK}\nSELECT foreseek_status();\n",
        extension().display()
    );
    let mut outcome = run(Command::new("sqlite3").arg("-batch").arg(database), &script);
    let (rows, status) = outcome.out.split_once(&format!("{MARK}\n")).expect("the shell prints it");
    let status = serde_json::from_str(status).unwrap_or(Value::Null);
    outcome.out = rows.to_owned();
    (outcome, status)
}

/// The line between a query's rows and the status.
const MARK: &str = "---- status ----";

/// A counter of the only file's planner.
pub(crate) fn counter(status: &Value, name: &str) -> u64 {
    status["files"][0][name].as_u64().unwrap_or_else(|| panic!("no {name} in {status}"))
}

/// A counter of the only file's client; zero if there is no client.
pub(crate) fn fetched(status: &Value, name: &str) -> u64 {
    status["files"][0]["prefetch"][name].as_u64().unwrap_or(0)
}

/// Evicts a file from the page cache. Returns whether that succeeded; prints a message if it did not.
pub(crate) fn drop_cache(path: &Path) -> bool {
    let file = std::fs::File::open(path).expect("is there");
    file.sync_all().expect("synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advised");
    let pages = Bytes(file.metadata().expect("is there").len()).pages_ceil();
    let all = Span::at(PageIndex(0), pages);
    let fd = HostFd::new(file.as_raw_fd()).expect("open");
    let is_out = cachestat(fd, all).is_ok_and(|there| there.get() * 10 < pages.get());
    if !is_out {
        println!("SKIPPED: what is fetched: {} stays in memory (tmpfs?)", path.display());
    }
    is_out
}
