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
    assert!(messages.lines().count() == 1 && messages.contains("was seen to use SQLite"), "{messages}");
    // The same for a program is one JSON value and no line besides.
    let json = foreseek(&["--status", "--format", "json", "--", "sh", "-c", "exit 3"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stderr).expect("JSON");
    assert_eq!((&report[0]["program"], &report[0]["status"]), (&"sh".into(), &serde_json::Value::Null));
    assert!(
        report[0]["notes"][0].as_str().is_some_and(|note| note.contains("was seen to use SQLite")),
        "{report}"
    );
    let missing = foreseek(&["--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("cannot start no-such-program"), "{}", text(&missing.stderr));
}

#[test]
fn memory_that_cannot_be_is_refused_before_the_program_starts() {
    for (memory, reason) in
        [("0", "give 4 KiB or more"), ("4095", "give 4 KiB or more"), ("8192P", "give less")]
    {
        let refused = foreseek(&["--memory", memory, "--", "echo", "started"]);
        let messages = text(&refused.stderr);
        assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(2), String::new()), "{messages}");
        assert!(messages.contains("--memory") && messages.contains(reason), "{messages}");
    }
}

#[test]
fn what_the_extension_cannot_use_is_the_reason() {
    if !has("what_the_extension_cannot_use_is_the_reason", &["sqlite3"]) {
        return;
    }
    let mut command = Command::new(PROGRAM);
    command.env("FORESEEK_MEMORY", "0").args(["sqlite", "--", "sqlite3", ":memory:", "SELECT 1"]);
    let ended = command.output().expect("runs");
    let messages = text(&ended.stderr);
    assert_eq!((ended.status.code(), text(&ended.stdout)), (Some(0), "1\n".to_owned()), "{messages}");
    let last = messages.lines().last().unwrap_or_default();
    assert!(last.starts_with("foreseek: note: nothing was prefetched: FORESEEK_MEMORY=0"), "{messages}");
    // A shell that opens no database has no SQLite of its own for that reason.
    let none = foreseek(&["--", "sqlite3", "/no/such/folder/db", "SELECT 1"]);
    assert!(!text(&none.stderr).contains("of its own linked in"), "{}", text(&none.stderr));
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
