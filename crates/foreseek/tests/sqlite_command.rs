//! `foreseek sqlite` runs programs with the extension and names those that cannot be followed.
#![allow(clippy::print_stdout, reason = "a skipped test prints a message")]

use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_foreseek");

/// Whether the library is built and the programs are installed; prints a message if not.
fn has(test: &str, programs: &[&str]) -> bool {
    if !Path::new(PROGRAM).with_file_name("libforeseek_sqlite_preload.so").is_file() {
        println!("SKIPPED: {test}: libforeseek_sqlite_preload.so is not built");
        return false;
    }
    let missing = programs.iter().find(|program| Command::new(program).arg("--version").output().is_err());
    if let Some(missing) = missing {
        println!("SKIPPED: {test}: {missing} is not installed");
    }
    missing.is_none()
}

fn foreseek(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("sqlite").args(arguments).output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_prints_and_exits_as_without_foreseek() {
    if !has("a_program_prints_and_exits_as_without_foreseek", &["sqlite3", "sh"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let path = path.to_str().expect("text");
    let fill = "CREATE TABLE t(u INTEGER PRIMARY KEY, k); CREATE INDEX i ON t(k); INSERT INTO t VALUES (1, 'b'), (2, 'a')";
    let filled = foreseek(&["--", "sqlite3", path, fill]);
    assert_eq!((filled.status.code(), text(&filled.stderr)), (Some(0), String::new()));
    let read = foreseek(&["--status", "--", "sqlite3", path, "SELECT u FROM t ORDER BY k"]);
    assert_eq!((read.status.code(), text(&read.stdout)), (Some(0), "2\n1\n".to_owned()));
    let messages = text(&read.stderr);
    assert!(messages.contains("sqlite3\n") && messages.contains("no statement waited"), "{messages}");
    let json = foreseek(&["--status", "--format", "json", "--", "sqlite3", path, "SELECT 1"]);
    let status: serde_json::Value = serde_json::from_slice(&json.stderr).expect("JSON");
    assert_eq!(status[0]["status"]["active"], true, "{status}");
    // A program that a shell starts is followed; the exit status is the shell's.
    let script = format!("sqlite3 '{path}' 'SELECT count(*) FROM t'; exit 7");
    let shell = foreseek(&["--memory", "64M", "--", "sh", "-c", &script]);
    assert_eq!(
        (shell.status.code(), text(&shell.stdout), text(&shell.stderr)),
        (Some(7), "2\n".to_owned(), String::new())
    );
}

#[test]
fn one_line_explains_why_nothing_was_prefetched() {
    if !has("one_line_explains_why_nothing_was_prefetched", &["sh"]) {
        return;
    }
    let none = foreseek(&["--", "sh", "-c", "exit 3"]);
    assert_eq!(none.status.code(), Some(3));
    let messages = text(&none.stderr);
    assert!(messages.lines().count() == 1 && messages.contains("no SQLite was found"), "{messages}");
    let missing = foreseek(&["--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("cannot start no-such-program"), "{}", text(&missing.stderr));
}

/// A program that contains SQLite in its own file and ends by `_exit`, as a Go program does.
#[test]
fn a_sqlite_that_is_linked_in_is_named() {
    if !has("a_sqlite_that_is_linked_in_is_named", &["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("own.c"), folder.path().join("own"));
    let code = "#include <unistd.h>\nconst char magic[] = \"SQLite format 3\"; int main(void) { _exit(magic[0] == 'x'); }";
    std::fs::write(&source, code).expect("written");
    for linking in ["-static", "-O1"] {
        let made =
            Command::new("cc").arg(linking).arg(&source).arg("-o").arg(&program).status().expect("runs");
        if !made.success() {
            println!("SKIPPED: a_sqlite_that_is_linked_in_is_named: cc {linking} does not link");
            continue;
        }
        let run = foreseek(&["--", program.to_str().expect("text")]);
        assert_eq!(run.status.code(), Some(0));
        let messages = text(&run.stderr);
        assert!(messages.contains("SQLite of its own linked in"), "{linking}: {messages}");
        assert_eq!(messages.contains("linked statically"), linking == "-static", "{messages}");
    }
}
