//! Programs that load no extension, with the library preloaded.
#![allow(clippy::print_stdout, reason = "a skipped test prints a message")]

use rusqlite::Connection;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A library that cargo has built beside this test.
fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program's path");
    let path = test.with_file_name(name);
    assert!(path.is_file(), "{} is missing: cargo test builds it", path.display());
    path
}

fn preload() -> PathBuf {
    library("libforeseek_sqlite_preload.so")
}

/// Whether a program is installed; otherwise prints that the test is skipped.
fn has(test: &str, program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        println!("SKIPPED: {test}: {program} is not installed");
    }
    there
}

/// A folder with a database `db` of 20,000 rows, in no order of their keys.
fn database() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let db = Connection::open(&path).expect("opens");
    db.execute_batch(
        "PRAGMA synchronous=OFF;
         CREATE TABLE t(u INTEGER PRIMARY KEY, k TEXT, filler TEXT);
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000)
         INSERT INTO t SELECT i, printf('%09d', (i * 7919017) % 999999937), hex(zeroblob(150)) FROM c;
         CREATE INDEX i ON t(k);",
    )
    .expect("filled");
    db.close().expect("closed");
    (folder, path)
}

/// Checks that a command has the same output with the library and without it. Returns the lines of status.
fn behaves_the_same(command: impl Fn() -> Command, folder: &Path) -> Vec<Value> {
    let plain = command().output().expect("runs");
    let (with, lines) = preloaded(command(), folder);
    assert_eq!(plain.status, with.status, "{}", text(&with.stderr));
    assert!(plain.stdout == with.stdout, "other output: {}", text(&with.stdout));
    assert_eq!(text(&plain.stderr), text(&with.stderr));
    lines
}

fn preloaded(mut command: Command, folder: &Path) -> (Output, Vec<Value>) {
    let status = folder.join("status");
    let _ = std::fs::remove_file(&status);
    let output =
        command.env("LD_PRELOAD", preload()).env("FORESEEK_SQLITE_STATUS", &status).output().expect("runs");
    let lines = std::fs::read_to_string(&status).unwrap_or_default();
    (output, lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SCAN: &str = "SELECT * FROM t INDEXED BY i ORDER BY k";

#[test]
fn the_stock_shell_is_followed() {
    if !has("the_stock_shell_is_followed", "sqlite3") {
        return;
    }
    let (folder, path) = database();
    let shell = || {
        let mut command = Command::new("sqlite3");
        command.arg("-batch").arg(&path).arg(format!("PRAGMA cache_size=20; {SCAN}; SELECT 'end'"));
        command
    };
    let lines = behaves_the_same(shell, folder.path());
    let (first, last) = (lines.first().expect("a line"), lines.last().expect("a line"));
    assert_eq!((&first["opened"], &first["status"]), (&true.into(), &Value::Null));
    assert_eq!(last["status"]["active"], true, "{last}");
    let count = |name: &str| last["status"]["files"][0][name].as_u64().expect("a number");
    assert!(count("pages_read") + count("bypassed_reads") > 1000, "{last}");
    // A database in memory, and none at all.
    for arguments in [[":memory:", "SELECT 1"], ["/no/such/folder/db", "SELECT 1"]] {
        let shell = || {
            let mut command = Command::new("sqlite3");
            command.args(arguments);
            command
        };
        behaves_the_same(shell, folder.path());
    }
}

#[test]
fn a_setting_that_is_refused_is_reported_and_changes_nothing() {
    if !has("a_setting_that_is_refused_is_reported_and_changes_nothing", "sqlite3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, value) in [("FORESEEK_MEMORY", "0"), ("FORESEEK_DISABLE", "2")] {
        let mut command = Command::new("sqlite3");
        command.args([":memory:", "SELECT 1"]).env(name, value);
        let (output, lines) = preloaded(command, folder.path());
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "1\n".to_owned()));
        let setting = format!("{name}={value}: ");
        let messages = text(&output.stderr);
        assert!(messages.starts_with(&format!("libforeseek_sqlite: {setting}")), "{messages}");
        assert!(lines.len() == 1 && lines[0]["opened"] == false, "{lines:?}");
        assert!(lines[0]["error"].as_str().is_some_and(|error| error.starts_with(&setting)), "{lines:?}");
    }
}

#[test]
fn a_status_file_that_cannot_be_written_is_reported_once() {
    if !has("a_status_file_that_cannot_be_written_is_reported_once", "sqlite3") {
        return;
    }
    let mut command = Command::new("sqlite3");
    command.args([":memory:", "SELECT 1"]).env("LD_PRELOAD", preload());
    let output = command.env("FORESEEK_SQLITE_STATUS", "/no/such/folder/status").output().expect("runs");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "1\n".to_owned()));
    let messages = text(&output.stderr);
    assert!(messages.starts_with("libforeseek_sqlite: cannot write the status to /no/such"), "{messages}");
    assert_eq!(messages.lines().count(), 1, "{messages}");
}

#[test]
fn the_gain_of_each_statement_is_reported() {
    if !has("the_gain_of_each_statement_is_reported", "sqlite3") {
        return;
    }
    let (folder, path) = database();
    let mut command = Command::new("sqlite3");
    let scripts = [
        "SELECT foreseek_set('bypass', 'off')",
        "PRAGMA cache_size=20",
        SCAN,
        "SELECT count(*) FROM t WHERE u IN (5, 5000)",
        "SELECT a.u, b.filler FROM t a CROSS JOIN t b ON b.u = (a.u * 7919) % 20000 WHERE a.u < 300",
    ];
    command.arg("-batch").arg(&path).args(scripts);
    let file = std::fs::File::open(&path).expect("opens");
    file.sync_all().expect("synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advised");
    let (output, lines) = preloaded(command, folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let status = &lines.last().expect("a line")["status"];
    let find = |what: &str| {
        let statements = status["statements"].as_array().expect("statements");
        let found = statements
            .iter()
            .find(|statement| statement["sql"].as_str().is_some_and(|sql| sql.contains(what)));
        found.unwrap_or_else(|| panic!("no {what} in {status}")).clone()
    };
    let scan = find("ORDER BY k");
    assert_eq!((&scan["why"], &scan["runs"]), (&"".into(), &1.into()), "{scan}");
    assert!(scan["prefetched"].as_u64() > scan["waited"].as_u64(), "{scan}");
    if status["files"][0]["prefetch"]["fetched_pages"].as_u64() > Some(0) {
        assert!(scan["stock_seconds"].as_f64() > scan["seconds"].as_f64(), "{scan}");
    } else {
        println!("SKIPPED: the gain of a statement: its file stays in memory (tmpfs?)");
    }
    let join = find("CROSS JOIN");
    assert!(join["why"].as_str().is_some_and(|why| why.contains("look-ups by key")), "{join}");
    assert!(!status.to_string().contains("IN (5"), "two look-ups are left alone: {status}");
    assert!(status["files"][0]["short_statements"].as_u64().is_some_and(|count| count > 0), "{status}");
}

const PYTHON: &str = r"
import json, os, sqlite3, subprocess, sys
db = sqlite3.connect(sys.argv[1])
db.execute('PRAGMA cache_size=20')
rows = db.execute('SELECT * FROM t INDEXED BY i ORDER BY k').fetchall()
print(len(rows), hash(rows[7][1]) != 0)
other = sqlite3.connect(sys.argv[1])
print(other.execute('SELECT count(*) FROM t').fetchall())
if 'LD_PRELOAD' in os.environ:
    status = json.loads(other.execute('SELECT foreseek_status()').fetchone()[0])
    assert status['active'] and len(status['files']) == 1, status
";

#[test]
fn every_python_is_followed_whether_it_loads_extensions_or_not() {
    let (folder, path) = database();
    // The system's, and the one that the user has before it in the path.
    for python in ["/usr/bin/python3", "python3"] {
        if !has("every_python_is_followed_whether_it_loads_extensions_or_not", python) {
            continue;
        }
        let run = || {
            let mut command = Command::new(python);
            command.args(["-c", PYTHON]).arg(&path);
            command
        };
        let shared = "import _sqlite3; print('libsqlite3' in open('/proc/self/maps').read())";
        let shared = Command::new(python).args(["-c", shared]).output().expect("runs");
        if text(&shared.stdout).trim() != "True" {
            println!("SKIPPED: {python} has no sqlite3, or one linked in");
            continue;
        }
        let lines = behaves_the_same(run, folder.path());
        let opened = lines.iter().filter(|line| line["opened"] == true).count();
        assert!(opened >= 2, "{python}: {lines:?}");
    }
}

/// Programs of other languages that read all rows by the index: the interpreter, a check for its SQLite
/// library, and the program; the database is its argument.
const LANGUAGES: [(&str, &str, &str); 2] = [
    (
        "perl",
        "use DBD::SQLite;",
        r#"use DBI; my $rows = DBI->connect("dbi:SQLite:dbname=$ARGV[0]")->prepare("SELECT * FROM t INDEXED BY i ORDER BY k");
        $rows->execute; my $count = 0; $count++ while $rows->fetch; print $count;"#,
    ),
    (
        "ruby",
        "require 'sqlite3'",
        r#"require 'sqlite3'
        count = 0; SQLite3::Database.new(ARGV[0]).execute("SELECT * FROM t INDEXED BY i ORDER BY k") { count += 1 }
        print count"#,
    ),
];

#[test]
fn perl_and_ruby_are_followed() {
    let (folder, path) = database();
    for (interpreter, probe, program) in LANGUAGES {
        let is_there = Command::new(interpreter).args(["-e", probe]).output();
        if !is_there.is_ok_and(|output| output.status.success()) {
            println!("SKIPPED: {interpreter} with its library for SQLite is not installed");
            continue;
        }
        let run = || {
            let mut command = Command::new(interpreter);
            command.args(["-e", program]).arg(&path);
            command
        };
        let lines = behaves_the_same(run, folder.path());
        assert!(lines.iter().any(|line| line["opened"] == true), "{interpreter}: {lines:?}");
        assert_eq!(text(&run().output().expect("runs").stdout), "20000", "{interpreter}");
    }
}

/// It binds its modules to their own libraries, before any preloaded one.
#[test]
fn php_is_not_followed_and_loads_the_extension() {
    let (folder, path) = database();
    let is_there = Command::new("php").args(["-r", "exit(class_exists('SQLite3') ? 0 : 1);"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return println!("SKIPPED: php with its library for SQLite is not installed");
    }
    const READ: &str = r#"$rows = $db->query("SELECT * FROM t INDEXED BY i ORDER BY k");
        for ($count = 0; $rows->fetchArray(); $count++); echo $count;"#;
    let run = || {
        let mut command = Command::new("php");
        command.arg("-r").arg(format!("$db = new SQLite3($argv[1]); {READ}")).arg("--").arg(&path);
        command
    };
    let lines = behaves_the_same(run, folder.path());
    assert!(
        lines.iter().all(|line| line["opened"] == false),
        "it is followed now: say so on the page: {lines:?}"
    );
    let extension = library("libforeseek_sqlite.so");
    let load = format!(
        "$db = new SQLite3($argv[1]); $db->loadExtension('libforeseek_sqlite.so'); {READ}
         echo $db->querySingle('SELECT foreseek_status()');"
    );
    let mut command = Command::new("php");
    command
        .arg("-d")
        .arg(format!("sqlite3.extension_dir={}", extension.parent().expect("a folder").display()));
    let output = command.arg("-r").arg(load).arg("--").arg(&path).output().expect("runs");
    let printed = text(&output.stdout);
    assert!(printed.starts_with("20000{\"active\":true"), "{printed} {}", text(&output.stderr));
}

/// The same in C and C++.
const C: &str = r#"
    #include <sqlite3.h>
    #include <stdio.h>
    int main(int count, char **arguments) {
        sqlite3 *db; sqlite3_stmt *rows; int read = 0;
        if (count < 2 || sqlite3_open(arguments[1], &db)) return 1;
        if (sqlite3_prepare_v2(db, "SELECT * FROM t INDEXED BY i ORDER BY k", -1, &rows, 0)) return 2;
        while (sqlite3_step(rows) == SQLITE_ROW) read++;
        sqlite3_finalize(rows); sqlite3_close(db); printf("%d", read); return 0;
    }"#;

#[test]
fn c_and_cpp_with_the_shared_library_are_followed() {
    let (folder, path) = database();
    for (compiler, name) in [("cc", "plain.c"), ("c++", "plain.cpp")] {
        let (source, program) = (folder.path().join(name), folder.path().join(format!("{name}.out")));
        std::fs::write(&source, C).expect("written");
        let built = Command::new(compiler).arg(&source).arg("-o").arg(&program).arg("-lsqlite3").output();
        if !built.is_ok_and(|output| output.status.success()) {
            println!("SKIPPED: {compiler} and libsqlite3-dev are not installed");
            continue;
        }
        let run = || {
            let mut command = Command::new(&program);
            command.arg(&path);
            command
        };
        let lines = behaves_the_same(run, folder.path());
        assert!(lines.iter().any(|line| line["opened"] == true), "{compiler}: {lines:?}");
    }
}

#[test]
fn a_sqlite_that_is_linked_in_is_named() {
    let (folder, path) = database();
    let this = std::env::current_exe().expect("this program's path");
    let run = || {
        let mut command = Command::new(&this);
        command.args(["--exact", "reads_with_its_own_sqlite", "--ignored", "--test-threads=1"]);
        command.env("PRELOAD_DATABASE", &path);
        command
    };
    let (output, lines) = preloaded(run(), folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let last = lines.last().expect("a line");
    assert_eq!(last["opened"], false);
    let copies: Vec<&str> =
        last["copies"].as_array().expect("files").iter().filter_map(Value::as_str).collect();
    assert_eq!(copies, [this.to_str().expect("text")], "{last}");
}

#[test]
#[ignore = "a child of a_sqlite_that_is_linked_in_is_named"]
fn reads_with_its_own_sqlite() {
    let db = Connection::open(std::env::var_os("PRELOAD_DATABASE").expect("run by its parent only"))
        .expect("opens");
    let count: u64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("reads");
    assert_eq!(count, 20_000);
}

#[test]
fn functions_that_are_looked_up_by_name_are_named() {
    let python = "/usr/bin/python3";
    if !has("functions_that_are_looked_up_by_name_are_named", python) {
        return;
    }
    let (folder, path) = database();
    let script = "import ctypes, sys\ntry:\n sqlite = ctypes.CDLL('libsqlite3.so.0')\nexcept OSError:\n print('none'); sys.exit()\n\
                  db = ctypes.c_void_p()\nprint(sqlite.sqlite3_open(sys.argv[1].encode(), ctypes.byref(db)))";
    let mut command = Command::new(python);
    command.args(["-c", script]).arg(&path);
    let (output, lines) = preloaded(command, folder.path());
    if text(&output.stdout) == "none\n" {
        println!("SKIPPED: functions_that_are_looked_up_by_name_are_named: libsqlite3.so.0 is not installed");
        return;
    }
    assert_eq!(text(&output.stdout), "0\n");
    let last = lines.last().expect("a line");
    assert!(last["copies"][0].as_str().is_some_and(|path| path.contains("libsqlite3.so")), "{last}");
}

#[test]
fn the_extension_that_a_program_loads_beside_it_leaves_all_to_it() {
    if !has("the_extension_that_a_program_loads_beside_it_leaves_all_to_it", "sqlite3") {
        return;
    }
    let (folder, path) = database();
    for name in ["libforeseek_sqlite.so", "libforeseek_sqlite_preload.so"] {
        let mut command = Command::new("sqlite3");
        let load = format!(".load {}", library(name).display());
        command.arg("-batch").arg(&path).args([&load, "PRAGMA cache_size=20", SCAN]);
        let (output, lines) = preloaded(command, folder.path());
        assert_eq!((output.status.success(), text(&output.stderr)), (true, String::new()), "{name}");
        assert_eq!(lines.iter().filter(|line| !line["status"].is_null()).count(), 1, "{name}: {lines:?}");
        assert_eq!(text(&output.stdout).lines().count(), 20_000);
    }
}

#[test]
fn without_prefetching_or_a_status_file_nothing_is_reported() {
    if !has("without_prefetching_or_a_status_file_nothing_is_reported", "sqlite3") {
        return;
    }
    let (folder, path) = database();
    let mut command = Command::new("sqlite3");
    command.arg(&path).arg("SELECT count(*) FROM t").env("FORESEEK_DISABLE", "1");
    let (output, lines) = preloaded(command, folder.path());
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("20000\n".to_owned(), String::new()));
    assert_eq!(lines.last().expect("a line")["status"]["active"], false);
    let output = Command::new("sqlite3")
        .arg(&path)
        .arg("SELECT count(*) FROM t")
        .env("LD_PRELOAD", preload())
        .output()
        .expect("runs");
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("20000\n".to_owned(), String::new()));
}

#[test]
fn it_exports_only_the_replaced_functions() {
    if !has("it_exports_only_the_replaced_functions", "nm") {
        return;
    }
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(preload()).output().expect("runs");
    let listed = text(&output.stdout);
    let mut exported: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    exported.sort_unstable();
    let expected = [
        "foreseek_sqlite_is_preloaded",
        "sqlite3_extension_init",
        "sqlite3_foreseeksqlite_init",
        "sqlite3_open",
        "sqlite3_open16",
        "sqlite3_open_v2",
    ];
    assert_eq!(exported, expected);
}
