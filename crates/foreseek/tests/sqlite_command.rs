//! `foreseek sqlite`: programs run with the extension, and those that cannot be followed are named.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_foreseek");

/// Whether the library is built and the programs are there; says so where they are not.
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
fn a_program_says_and_ends_as_it_does_by_itself() {
    if !has("a_program_says_and_ends_as_it_does_by_itself", &["sqlite3", "sh"]) {
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
    let said = text(&read.stderr);
    assert!(said.contains("sqlite3\n") && said.contains("no statement waited"), "{said}");
    let json = foreseek(&["--status", "--format", "json", "--", "sqlite3", path, "SELECT 1"]);
    let told: serde_json::Value = serde_json::from_slice(&json.stderr).expect("JSON");
    assert_eq!(told[0]["status"]["active"], true, "{told}");
    // What a shell starts is followed, and its exit status is the shell's.
    let script = format!("sqlite3 '{path}' 'SELECT count(*) FROM t'; exit 7");
    let shell = foreseek(&["--memory", "64M", "--", "sh", "-c", &script]);
    assert_eq!(
        (shell.status.code(), text(&shell.stdout), text(&shell.stderr)),
        (Some(7), "2\n".to_owned(), String::new())
    );
}

#[test]
fn where_nothing_is_prefetched_one_line_says_why() {
    if !has("where_nothing_is_prefetched_one_line_says_why", &["sh"]) {
        return;
    }
    let none = foreseek(&["--", "sh", "-c", "exit 3"]);
    assert_eq!(none.status.code(), Some(3));
    let said = text(&none.stderr);
    assert!(said.lines().count() == 1 && said.contains("no SQLite was found"), "{said}");
    let missing = foreseek(&["--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("cannot start no-such-program"), "{}", text(&missing.stderr));
}

/// A program of its own file that holds a SQLite and ends without a word, as one in Go does.
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
        let said = text(&run.stderr);
        assert!(said.contains("SQLite of its own linked in"), "{linking}: {said}");
        assert_eq!(said.contains("linked statically"), linking == "-static", "{said}");
    }
}
