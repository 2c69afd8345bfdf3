//! Statements of each shape are recognised and predicted in every version of SQLite.
//!
//! The versions are those of `versions.txt`, as far as `scripts/sqlite-versions --compile` has compiled them, and the
//! system's own. Each runs in a process of its own, with the extension and without. All costs are nominal, therefore
//! the counts do not depend on the machine.
#![allow(unsafe_code, reason = "calling SQLite in a shared library")]
#![allow(clippy::print_stdout, reason = "a skipped test prints a message, and a child its counts")]

mod common;
#[path = "common/library.rs"]
mod library;

use common::Random;
use common::shell::{extension, run};
use library::{Connection, Library};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A statement of one shape.
struct Shape {
    name: &'static str,
    /// `{keys}` and `{groups}` stand for lists of numbers.
    sql: &'static str,
    /// The values of its parameters.
    values: &'static [i64],
    /// How many percent of its reads are predicted, at least.
    least: u64,
}

const fn shape(name: &'static str, least: u64, sql: &'static str) -> Shape {
    Shape { name, sql, values: &[], least }
}

/// `INDEXED BY` and `CROSS JOIN` make SQLite's planner choose one plan in all versions.
const SHAPES: &[Shape] = &[
    shape("scan by index", 98, "SELECT * FROM t INDEXED BY t_k ORDER BY k"),
    shape("scan by index, descending", 98, "SELECT * FROM t INDEXED BY t_k ORDER BY k DESC"),
    shape("range", 98, "SELECT * FROM t INDEXED BY t_k WHERE k BETWEEN 1000 AND 3000"),
    Shape {
        values: &[1000, 3000],
        ..shape("range of parameters", 98, "SELECT * FROM t INDEXED BY t_k WHERE k BETWEEN ? AND ?")
    },
    shape("LIMIT", 95, "SELECT * FROM t INDEXED BY t_k ORDER BY k LIMIT 1000"),
    shape("GROUP BY", 90, "SELECT n, max(note) FROM t INDEXED BY t_n WHERE n < 30 GROUP BY n"),
    shape("partial index", 95, "SELECT * FROM t INDEXED BY t_part WHERE n < 150 AND k BETWEEN 1000 AND 5000"),
    shape("expression index", 95, "SELECT * FROM t INDEXED BY t_expr WHERE abs(k - 3000) BETWEEN 0 AND 900"),
    shape("IN list by index", 95, "SELECT * FROM t INDEXED BY t_n WHERE n IN ({groups})"),
    shape("IN list by rowid", 95, "SELECT * FROM t WHERE u IN ({keys})"),
    shape("IN list by key", 80, "SELECT * FROM w WHERE k IN ({keys})"),
    shape("view", 95, "SELECT * FROM by_k WHERE k > 1000"),
    shape("count by index", 90, "SELECT count(*) FROM ev INDEXED BY ev_day WHERE day > 100"),
    shape("covering scan", 85, "SELECT day, length(note) FROM ev INDEXED BY ev_day ORDER BY day DESC"),
    shape("WITHOUT ROWID", 80, "SELECT count(*), sum(length(v)) FROM w"),
    shape(
        "join by index",
        95,
        "SELECT c.id, length(note) FROM c CROSS JOIN t INDEXED BY t_n ON t.n = c.other",
    ),
    shape("join by rowid", 85, "SELECT count(note) FROM c CROSS JOIN t ON t.u = c.pick"),
    shape("subquery", 95, "SELECT c.id, (SELECT max(note) FROM t INDEXED BY t_n WHERE t.n = c.other) FROM c"),
    shape(
        "EXISTS",
        85,
        "SELECT c.id FROM c WHERE EXISTS (SELECT 1 FROM t INDEXED BY t_n WHERE t.n = c.other AND t.note < 'x')",
    ),
    shape("UPDATE", 95, "UPDATE t INDEXED BY t_k SET note = upper(note) WHERE k BETWEEN 1000 AND 3000"),
    shape("DELETE", 70, "DELETE FROM d INDEXED BY d_k WHERE k BETWEEN 1000 AND 3000"),
    shape("CREATE INDEX", 80, "CREATE INDEX w_v ON w(v)"),
    shape("integrity_check", 75, "PRAGMA integrity_check(w)"),
    shape("attached database", 98, "SELECT * FROM x.t INDEXED BY t_k ORDER BY k"),
];

const TABLES: &str = "
    PRAGMA page_size=1024; PRAGMA synchronous=OFF;
    CREATE TABLE t(u INTEGER PRIMARY KEY, k INT, n INT, note TEXT);
    CREATE TABLE d(u INTEGER PRIMARY KEY, k INT, note TEXT);
    CREATE TABLE c(id INTEGER PRIMARY KEY, pick INT, other INT, name TEXT);
    CREATE TABLE ev(id INTEGER PRIMARY KEY, day INT, note TEXT); CREATE INDEX ev_day ON ev(day, note);
    CREATE TABLE w(k INTEGER PRIMARY KEY, v TEXT) WITHOUT ROWID;
    CREATE VIEW by_k AS SELECT u, k, note FROM t INDEXED BY t_k ORDER BY k;";
const INDEXES: &str = "
    CREATE INDEX d_k ON d(k); CREATE INDEX t_k ON t(k); CREATE INDEX t_n ON t(n); CREATE INDEX t_part ON t(k) WHERE n < 150;
    CREATE INDEX t_expr ON t(abs(k - 3000));";
/// Rows of the largest table. The values of `k` and the keys of `w` are those below, in any order.
const ROWS: u64 = 4000;
/// Values of `n`.
const GROUPS: u64 = 300;
/// Rows of the outer table of joins.
const OUTER: u64 = 1000;

/// The fewest reads that show whether a shape is predicted: some 40 come before the first step.
const FEWEST: u64 = 200;

/// Creates the database in a directory.
fn build(directory: &Path) -> PathBuf {
    let path = directory.join("db");
    let mut db = rusqlite::Connection::open(&path).expect("a new database");
    db.execute_batch(TABLES).expect("tables");
    let mut random = Random::new(3);
    let transaction = db.transaction().expect("begins");
    for row in 0..ROWS {
        // 7919 has no factor in common with the number of rows.
        let scattered = row * 7919 % ROWS;
        let note = random.text(600);
        let t = (row, scattered, random.below(GROUPS), &note);
        transaction.execute("INSERT INTO t VALUES(?, ?, ?, ?)", t).expect("a row");
        transaction.execute("INSERT INTO d VALUES(?, ?, ?)", (row, scattered, &note)).expect("a row");
        let event = (random.below(1000), &note[..note.len() / 6]);
        transaction.execute("INSERT INTO ev(day, note) VALUES(?, ?)", event).expect("a row");
        transaction
            .execute("INSERT INTO w VALUES(?, ?)", (scattered, &note[..note.len() / 2]))
            .expect("a row");
    }
    for id in 0..OUTER {
        let row = (id, random.below(ROWS), id * 7 % GROUPS, random.text(200));
        transaction.execute("INSERT INTO c VALUES(?, ?, ?, ?)", row).expect("a row");
    }
    transaction.execute_batch(INDEXES).expect("indexes");
    transaction.commit().expect("commits");
    path
}

/// A list of every fourth number below this one, in an irregular order.
fn list(below: u64) -> String {
    let numbers: Vec<String> = (0..below / 4).map(|at| (at * 4 * 1237 % below).to_string()).collect();
    numbers.join(",")
}

/// The versions, and the library of each where it is compiled.
fn compiled() -> Vec<(&'static str, PathBuf)> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sqlite-versions");
    let versions = include_str!("versions.txt").lines().filter_map(|line| line.split_once(' '));
    versions.map(|(version, _)| (version, place.join(version).join("libsqlite3.so.0"))).collect()
}

#[test]
fn statements_of_each_shape_are_predicted_in_every_version() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = build(directory.path());
    let (mut libraries, mut missing) = (vec![PathBuf::from("libsqlite3.so.0")], Vec::new());
    for (version, library) in compiled() {
        if library.is_file() { libraries.push(library) } else { missing.push(version) }
    }
    if !missing.is_empty() {
        println!(
            "SKIPPED: shapes of statements in SQLite {}: scripts/sqlite-versions --compile compiles them",
            missing.join(", ")
        );
    }
    for library in libraries {
        if let Err(error) = Library::open(&library) {
            println!("SKIPPED: shapes of statements in {}: {error}", library.display());
            continue;
        }
        let copies = ["main", "attached"].map(|name| directory.path().join(name));
        for copy in &copies {
            std::fs::copy(&database, copy).expect("copied");
        }
        let mut child = Command::new(std::env::current_exe().expect("this program's path"));
        child.args(["--exact", "in_one_version", "--ignored", "--nocapture"]);
        child
            .env("SHAPES_LIBRARY", &library)
            .env("SHAPES_DATABASE", &copies[0])
            .env("SHAPES_ATTACHED", &copies[1]);
        let outcome = run(&mut child, "");
        assert!(outcome.status.success(), "{}: {}{}", library.display(), outcome.out, outcome.err);
        println!("{}", outcome.out);
    }
}

#[test]
#[ignore = "a child"]
fn in_one_version() {
    let given = |name: &str| PathBuf::from(std::env::var_os(name).expect("run by its parent only"));
    let library = Library::open(&given("SHAPES_LIBRARY")).expect("opens");
    let (database, attached) = (given("SHAPES_DATABASE"), given("SHAPES_ATTACHED"));
    let attach = format!("ATTACH '{}' AS x", attached.display());
    let plain = {
        let db = library.connect(&database);
        db.run(&attach, &[], |_| ());
        answers(&db, |_| ())
    };
    let db = library.connect(&database);
    db.load(&extension());
    // The kernel's readahead reads a small file as a whole: follow it all the same.
    db.text("SELECT foreseek_set('bypass', 'off')");
    db.run(&attach, &[], |_| ());
    let (mut failed, mut before) = (Vec::new(), counts(&db));
    let ours = answers(&db, |shape| {
        let now = counts(&db);
        let [reads, predicted] = [0, 1].map(|at| now[at] - before[at]);
        before = now;
        let line =
            format!("SQLite {}: {}: {predicted} of {reads} reads predicted", library.version(), shape.name);
        println!("{line}");
        if reads < FEWEST || predicted * 100 < reads * shape.least {
            failed.push(format!("{line}, at least {} % expected", shape.least));
        }
    });
    assert_eq!(ours, plain, "rows");
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The rows of each statement as a number; `after` is called after each. What a statement changes is undone.
fn answers(db: &Connection<'_>, mut after: impl FnMut(&Shape)) -> Vec<u64> {
    // Nearly every row needs a read, as in a table larger than the cache.
    for sql in ["PRAGMA main.cache_size=60", "PRAGMA x.cache_size=60"] {
        db.run(sql, &[], |_| ());
    }
    let mut answers = Vec::new();
    for shape in SHAPES {
        let sql = shape.sql.replace("{keys}", &list(ROWS)).replace("{groups}", &list(GROUPS));
        db.run("BEGIN", &[], |_| ());
        answers.push(db.digest(&sql, shape.values));
        after(shape);
        db.run("ROLLBACK", &[], |_| ());
    }
    answers
}

/// The reads of leaves so far, and those of them that were predicted.
fn counts(db: &Connection<'_>) -> [u64; 2] {
    let status: serde_json::Value = serde_json::from_str(&db.text("SELECT foreseek_status()")).expect("JSON");
    let files = status["files"].as_array().expect("files");
    ["leaves_read", "predicted_reads"].map(|name| files.iter().filter_map(|file| file[name].as_u64()).sum())
}
