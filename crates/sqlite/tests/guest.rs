//! The extension as a guest: other SQLites and languages, locks, writers, damage, forks, the switch.
#![allow(unsafe_code, reason = "loading an extension and asking for locks")]
#![allow(clippy::print_stdout, reason = "a skipped test prints a message")]

mod common;

use common::shell::{
    FOLLOW, counter, drop_cache, extension, fetched, has_shell, run, stock, wait, with_extension,
};
use common::{Random, Shape, large, table};
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCAN: &str = "PRAGMA cache_size=50; SELECT * FROM t INDEXED BY i ORDER BY k;";

/// The same scan for the row numbers alone; it still needs the rows themselves.
const SCAN_U: &str = "SELECT u FROM t INDEXED BY i WHERE filler <> '!' ORDER BY k";

/// Runs one of the ignored tests below as its own process.
fn child(name: &str, database: &Path) -> std::process::Child {
    let this = std::env::current_exe().expect("this program's path");
    Command::new(this)
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env("GUEST_DATABASE", database)
        .stdout(Stdio::null())
        .spawn()
        .expect("this program runs")
}

fn database_of_child() -> PathBuf {
    std::env::var_os("GUEST_DATABASE").expect("run by its parent only").into()
}

/// A connection of the bundled SQLite with the extension.
fn open_with_extension(path: &Path) -> Connection {
    let db = Connection::open(path).expect("opens");
    // SAFETY: the extension is this crate's.
    unsafe {
        db.load_extension_enable().expect("enabled");
        db.load_extension(extension(), None::<&str>).expect("loaded");
    }
    // The kernel's readahead reads a small file as a whole: follow it all the same.
    db.query_row("SELECT foreseek_set('bypass', 'off')", [], |_| Ok(())).expect("set");
    db
}

fn status(db: &Connection) -> serde_json::Value {
    let text: String = db.query_row("SELECT foreseek_status()", [], |row| row.get(0)).expect("status");
    serde_json::from_str(&text).expect("JSON")
}

fn rows(db: &Connection, sql: &str) -> Vec<i64> {
    let mut query = db.prepare(sql).expect("prepares");
    let rows = query.query_map([], |row| row.get(0)).expect("runs");
    rows.collect::<Result<_, _>>().expect("reads")
}

#[test]
fn the_bundled_sqlite_is_prefetched() {
    let (_directory, path) = table(20_000);
    assert!(wait(&mut child("in_the_bundled_sqlite", &path)).success());
}

/// That SQLite is another version than the shell's.
#[test]
#[ignore = "a child of the_bundled_sqlite_is_prefetched"]
fn in_the_bundled_sqlite() {
    let path = database_of_child();
    let plain = rows(&Connection::open(&path).expect("opens"), SCAN_U);
    drop_cache(&path);
    let db = open_with_extension(&path);
    db.execute_batch("PRAGMA cache_size=50").expect("set");
    assert_eq!(rows(&db, SCAN_U), plain);
    let after = status(&db);
    assert!(counter(&after, "predicted_reads") + 44 > counter(&after, "leaves_read"), "{after}");
    assert!(fetched(&after, "hits") * 100 > fetched(&after, "reads") * 99, "{after}");

    // A connection opened later is prefetched too, and the LIMIT of its statement is known.
    drop_cache(&path);
    let second = Connection::open(&path).expect("opens");
    let before = fetched(&after, "fetched_pages");
    rows(&second, &format!("{SCAN_U} LIMIT 300"));
    let after = status(&second);
    assert!(fetched(&after, "fetched_pages") < before + 1500, "{after}");
    drop(db);
    rows(&second, &format!("{SCAN_U} DESC"));
    assert!(counter(&status(&second), "ends_known") >= 2);
}

#[test]
fn each_statement_of_a_connection_has_an_allowance_of_its_own() {
    for (name, journal) in
        [("in_a_rollback_journal", "delete"), ("in_a_log", "wal"), ("in_exclusive_mode", "delete")]
    {
        let directory = tempfile::tempdir().expect("a directory");
        let path = Shape { journal, ..Shape::usual(20_000) }.build(directory.path(), "db");
        assert!(wait(&mut child(name, &path)).success(), "{name}");
    }
}

#[test]
#[ignore = "a child of each_statement_of_a_connection_has_an_allowance_of_its_own"]
fn in_a_rollback_journal() {
    read_few_rows_after_a_scan("");
}

#[test]
#[ignore = "a child of each_statement_of_a_connection_has_an_allowance_of_its_own"]
fn in_a_log() {
    read_few_rows_after_a_scan("");
}

#[test]
#[ignore = "a child of each_statement_of_a_connection_has_an_allowance_of_its_own"]
fn in_exclusive_mode() {
    read_few_rows_after_a_scan("PRAGMA locking_mode=exclusive;");
}

/// What a scan has saved is not spent by a later statement of which a few rows are read.
fn read_few_rows_after_a_scan(pragmas: &str) {
    let path = database_of_child();
    drop_cache(&path);
    let db = open_with_extension(&path);
    db.execute_batch(&format!("PRAGMA cache_size=50; {pragmas}")).expect("set");
    rows(&db, SCAN_U);
    let before = status(&db);
    assert!(fetched(&before, "fetched_pages") > 100, "{before}");
    let limited = format!("{} LIMIT 20", SCAN_U.replace("ORDER", "AND filler < 'z' AND k > 'd' ORDER"));
    for sql in [SCAN_U, &SCAN_U.replace("ORDER", "AND k > 'm' ORDER"), &limited] {
        drop_cache(&path);
        let mut few = db.prepare(sql).expect("prepares");
        let mut read = few.query([]).expect("runs");
        for _ in 0..20 {
            assert!(read.next().expect("reads").is_some());
        }
    }
    let after = status(&db);
    assert_eq!(fetched(&after, "fetched_pages"), fetched(&before, "fetched_pages"), "{after}");
}

#[test]
fn a_count_by_a_scattered_index_is_prefetched() {
    let (_directory, path) = table(20_000);
    assert!(wait(&mut child("counting", &path)).success());
}

#[test]
#[ignore = "a child of a_count_by_a_scattered_index_is_prefetched"]
fn counting() {
    const COUNT: &str = "SELECT count(*) FROM t INDEXED BY i";
    let path = database_of_child();
    let plain = rows(&Connection::open(&path).expect("opens"), COUNT);
    drop_cache(&path);
    let db = open_with_extension(&path);
    db.execute_batch("PRAGMA cache_size=50").expect("set");
    assert_eq!(rows(&db, COUNT), plain);
    let after = status(&db);
    assert_eq!((counter(&after, "scans"), counter(&after, "ends_known")), (1, 1), "{after}");
    assert!(counter(&after, "predicted_reads") + 44 > counter(&after, "leaves_read"), "{after}");
    assert!(counter(&after, "leaves_read") > 100, "{after}");
}

#[test]
fn two_scans_at_a_time_each_give_their_rows() {
    let (_directory, path) = table(8000);
    assert!(wait(&mut child("two_scans_interleaved", &path)).success());
}

#[test]
#[ignore = "a child of two_scans_at_a_time_each_give_their_rows"]
fn two_scans_interleaved() {
    let path = database_of_child();
    let plain = rows(&Connection::open(&path).expect("opens"), SCAN_U);
    drop_cache(&path);
    let (first, second) = (open_with_extension(&path), open_with_extension(&path));
    for db in [&first, &second] {
        db.execute_batch("PRAGMA cache_size=20").expect("set");
    }
    let mut forward = first.prepare(SCAN_U).expect("prepares");
    let mut backward = second.prepare(&format!("{SCAN_U} DESC")).expect("prepares");
    let mut forward = forward.query_map([], |row| row.get::<_, i64>(0)).expect("runs");
    let mut backward = backward.query_map([], |row| row.get::<_, i64>(0)).expect("runs");
    for (at, expected) in plain.iter().enumerate() {
        assert_eq!(forward.next().expect("a row").expect("reads"), *expected);
        assert_eq!(backward.next().expect("a row").expect("reads"), plain[plain.len() - 1 - at]);
    }
    let status = status(&first);
    assert_eq!(counter(&status, "ends_known"), 2, "{status}");
    assert!(counter(&status, "predicted_reads") * 10 > counter(&status, "leaves_read") * 9, "{status}");
}

#[test]
fn threads_with_their_connections_each_get_their_rows() {
    let (_directory, path) = table(4000);
    assert!(wait(&mut child("many_threads", &path)).success());
}

#[test]
#[ignore = "a child of threads_with_their_connections_each_get_their_rows"]
fn many_threads() {
    let path = database_of_child();
    let plain = rows(&Connection::open(&path).expect("opens"), SCAN_U);
    drop_cache(&path);
    drop(open_with_extension(&path));
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (path, plain) = (&path, &plain);
            scope.spawn(move || {
                for round in 0..4 {
                    let db = Connection::open(path).expect("opens");
                    db.execute_batch("PRAGMA cache_size=20").expect("set");
                    if (thread + round) % 3 == 0 {
                        for u in plain.iter().step_by(17) {
                            let sql = format!("SELECT count(*) FROM t WHERE u = {u}");
                            assert_eq!(rows(&db, &sql), [1]);
                        }
                    } else {
                        assert_eq!(&rows(&db, SCAN_U), plain);
                    }
                }
            });
        }
    });
}

#[test]
fn a_closed_database_keeps_no_list_in_memory() {
    let (_directory, path) = table(3000);
    assert!(wait(&mut child("closed_database", &path)).success());
}

#[test]
#[ignore = "a child of a_closed_database_keeps_no_list_in_memory"]
fn closed_database() {
    let path = database_of_child();
    let other = path.with_extension("other");
    std::fs::copy(&path, &other).expect("copied");
    drop_cache(&path);
    let (db, stays) = (open_with_extension(&path), open_with_extension(&other));
    db.execute_batch("PRAGMA cache_size=20").expect("set");
    let clients = || {
        let status = status(&stays);
        let files = status["files"].as_array().expect("files").iter();
        files.filter(|file| !file["prefetch"].is_null()).count()
    };
    rows(&db, SCAN_U);
    assert_eq!(clients(), 1);
    drop(db);
    assert_eq!(clients(), 0);
    let again = open_with_extension(&path);
    again.execute_batch("PRAGMA cache_size=20").expect("set");
    rows(&again, SCAN_U);
    assert_eq!(clients(), 1);
}

#[test]
fn connections_that_share_a_cache_do_not_block_each_other() {
    let (_directory, path) = table(3000);
    assert!(wait(&mut child("one_cache", &path)).success());
}

#[test]
#[ignore = "a child of connections_that_share_a_cache_do_not_block_each_other"]
fn one_cache() {
    let path = database_of_child();
    let plain = rows(&Connection::open(&path).expect("opens"), SCAN_U);
    drop_cache(&path);
    drop(open_with_extension(&path));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_FULL_MUTEX
        | OpenFlags::SQLITE_OPEN_SHARED_CACHE;
    let connections: Vec<Connection> =
        (0..3).map(|_| Connection::open_with_flags(&path, flags).expect("opens")).collect();
    std::thread::scope(|scope| {
        for db in connections {
            let plain = &plain;
            scope.spawn(move || {
                db.execute_batch("PRAGMA cache_size=20").expect("set");
                for _ in 0..10 {
                    assert_eq!(&rows(&db, SCAN_U), plain);
                }
            });
        }
    });
}

#[test]
fn rows_in_the_write_ahead_log_are_read_from_it() {
    if !has_shell("rows_in_the_write_ahead_log_are_read_from_it") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = Shape { journal: "wal", ..Shape::usual(4000) }.build(directory.path(), "db");
    // The log stays while this connection is open.
    let writer = Connection::open(&path).expect("opens");
    writer
        .execute_batch("PRAGMA wal_autocheckpoint=0; UPDATE t SET k = k || 'x' WHERE u % 5 = 0; DELETE FROM t WHERE u % 7 = 0; CREATE INDEX late ON t(n, k);")
        .expect("written");
    let expected = stock(&path, SCAN).out;
    let (outcome, status) = with_extension(&path, FOLLOW, SCAN);
    assert!(outcome.out == expected && outcome.err.is_empty());
    assert_eq!(status["files"][0]["wal"], true);
    let sql = "SELECT * FROM t INDEXED BY late ORDER BY n, k;";
    assert!(with_extension(&path, FOLLOW, sql).0.out == stock(&path, sql).out);
}

#[test]
fn a_concurrent_writer_does_not_change_the_rows_of_a_scan() {
    for journal in ["wal", "delete"] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = Shape { journal, ..Shape::usual(3000) }.build(directory.path(), "db");
        let mut reader = child("read_beside_a_writer", &path);
        let writer = Connection::open(&path).expect("opens");
        writer.busy_timeout(std::time::Duration::from_secs(20)).expect("set");
        writer.execute_batch("PRAGMA synchronous=OFF").expect("set");
        let mut random = Random::new(9);
        let mut written = 0u32;
        while reader.try_wait().expect("a child of ours").is_none() && written < 100_000 {
            let (from, to) = (random.below(20_000), random.below(20_000));
            // The sum of n and the number of rows stay; keys move through the index, and pages split.
            let sql = format!(
                "BEGIN IMMEDIATE;\
                 UPDATE t SET n = n + 1, k = k || '{}' WHERE u = (SELECT u FROM t WHERE u >= {from} LIMIT 1);\
                 UPDATE t SET n = n - 1, k = substr(k, 2) WHERE u = (SELECT u FROM t WHERE u >= {to} LIMIT 1);\
                 COMMIT;",
                random.text(30)
            );
            if writer.execute_batch(&sql).is_err() && !writer.is_autocommit() {
                writer.execute_batch("ROLLBACK").expect("rolled back");
            }
            written += 1;
        }
        assert!(wait(&mut reader).success(), "{journal}");
        assert!(written > 3, "{journal}: {written}");
    }
}

#[test]
#[ignore = "a child of a_concurrent_writer_does_not_change_the_rows_of_a_scan"]
fn read_beside_a_writer() {
    let path = database_of_child();
    let db = open_with_extension(&path);
    db.busy_timeout(std::time::Duration::from_secs(20)).expect("set");
    db.execute_batch("PRAGMA cache_size=20").expect("set");
    let sum = |sql: &str| db.query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?)));
    let first = sum("SELECT count(*), total(n) FROM t").expect("reads");
    for round in 0..20 {
        let descending = if round % 2 == 0 { "" } else { "DESC" };
        let sql = format!("SELECT k, n, u FROM t INDEXED BY i ORDER BY k {descending}");
        let mut query = db.prepare(&sql).expect("prepares");
        let mut read = query.query([]).expect("runs");
        let (mut count, mut total, mut before) = (0, 0.0, None::<String>);
        while let Some(row) = read.next().expect("reads") {
            let key: String = row.get(0).expect("text");
            let sorted = before
                .as_ref()
                .is_none_or(|before| if round % 2 == 0 { *before <= key } else { *before >= key });
            assert!(sorted, "{before:?} before {key}");
            before = Some(key);
            count += 1;
            total += row.get::<_, f64>(1).expect("a number");
        }
        assert_eq!((count, total), first, "round {round}");
    }
}

/// The number of times that the stock shell runs again before an answer counts as one that it never gives.
const STOCK_ANSWERS: usize = 40;

#[test]
fn damage_gives_sqlites_own_error_and_no_crash() {
    if !has_shell("damage_gives_sqlites_own_error_and_no_crash") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut random = Random::new(31);
    for seed in 0..11 {
        let shape = Shape { schema: seed as usize, rows: 1500, page_size: 1024, ..Shape::random(seed) };
        let sound = std::fs::read(shape.build(directory.path(), "sound")).expect("is readable");
        std::fs::remove_file(directory.path().join("sound")).expect("removed");
        for damage in 0..8 {
            let mut file = sound.clone();
            for _ in 0..=random.below(60) {
                let at = if damage % 2 == 0 {
                    // Page headers and cell pointers: kinds, counts, children.
                    random.below(file.len() as u64 / 1024) * 1024 + random.below(40)
                } else {
                    random.below(file.len() as u64)
                };
                file[at.max(100) as usize] = random.next() as u8;
            }
            if damage == 7 {
                file.truncate(file.len() / 2 + 300);
            }
            let path = directory.path().join("damaged");
            std::fs::write(&path, &file).expect("written");
            let sql = format!(
                "PRAGMA cache_size=10;\nSELECT * FROM t {};\nSELECT * FROM t {};",
                shape.schema().scan,
                shape.schema().scan_desc
            );
            let plain = stock(&path, &sql);
            let (ours, _) = with_extension(&path, FOLLOW, &sql);
            assert!(ours.status.code().is_some(), "{:?}: {}", ours.status, ours.err);
            assert!(!ours.err.contains("libprefetch"), "{}", ours.err);
            // Line numbers of errors differ by one: `.load` is a line too.
            let messages = |text: &str| {
                let bare = |line: &str| line.split_once(": ").map_or(line, |(_, rest)| rest).to_owned();
                text.lines().map(bare).collect::<Vec<_>>()
            };
            assert_eq!(messages(&ours.err), messages(&plain.err), "{shape:?} {damage}");
            // For some damage the rows of SQLite itself vary from run to run: it reads uninitialized memory.
            // Any of its own answers is accepted.
            let same = std::iter::once(plain).chain((0..STOCK_ANSWERS).map(|_| stock(&path, &sql)));
            assert!(same.into_iter().any(|stock| stock.out == ours.out), "{shape:?} {damage}");
        }
    }
}

#[test]
fn sqlites_locks_are_held_while_the_extension_works() {
    if !has_shell("sqlites_locks_are_held_while_the_extension_works") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = large(directory.path());
    let is_out = drop_cache(&path);
    let mut shell = Command::new("sqlite3")
        .arg("-batch")
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut input = shell.stdin.take().expect("piped");
    let mut output = BufReader::new(shell.stdout.take().expect("piped"));
    let mut ask = |sql: &str| {
        writeln!(input, "{sql}").expect("written");
        let mut line = String::new();
        output.read_line(&mut line).expect("readable");
        line
    };
    ask(&format!(".load {}\n{FOLLOW}\nPRAGMA cache_size=50;\nSELECT 1;", extension().display()));
    let file = File::open(&path).expect("opens");
    ask("BEGIN; SELECT count(*) FROM t WHERE u < 0;");
    assert_eq!(holder(&file, SHARED), Some(shell.id()), "before the scan");
    ask("SELECT count(length(filler)) FROM t INDEXED BY i WHERE k >= '' ORDER BY k;");
    assert_eq!(holder(&file, SHARED), Some(shell.id()), "after the scan");
    let status = ask("SELECT foreseek_status();");
    assert!(status.contains("\"scans\":1"), "{status}");
    assert!(!is_out || !status.contains("\"rounds\":0"), "{status}");
    ask("COMMIT; BEGIN IMMEDIATE; SELECT sum(length(filler)) FROM t INDEXED BY i WHERE k >= '' ORDER BY k;");
    assert_eq!(holder(&file, RESERVED), Some(shell.id()), "a writer's lock");
    ask("COMMIT; SELECT 1;");
    assert_eq!(holder(&file, RESERVED), None);
    drop(input);
    assert!(wait(&mut shell).success());
}

/// Bytes that SQLite locks: see `os.h`.
const RESERVED: (i64, i64) = (0x4000_0001, 1);
const SHARED: (i64, i64) = (0x4000_0002, 510);

/// The process that holds a lock on these bytes that excludes a writer.
fn holder(file: &File, (start, len): (i64, i64)) -> Option<u32> {
    // SAFETY: a plain structure, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    (lock.l_start, lock.l_len) = (start, len);
    // SAFETY: F_GETLK fills the structure that it is given.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
    (lock.l_type != libc::F_UNLCK as i16).then_some(lock.l_pid as u32)
}

const PYTHON: &str = r"
import json, os, sqlite3, sys
path, extension = sys.argv[1:]
query = 'SELECT * FROM t INDEXED BY i ORDER BY k'
db = sqlite3.connect(path)
if not hasattr(db, 'enable_load_extension'):
    print('no load_extension')
    sys.exit(0)
plain = db.execute(query).fetchall()
db.close()
db = sqlite3.connect(path)
db.enable_load_extension(True)
db.load_extension(extension)
db.execute('SELECT foreseek_set(?, ?)', ('bypass', 'off')).fetchall()
db.execute('PRAGMA cache_size=50')
fd = os.open(path, os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
os.close(fd)
assert db.execute(query).fetchall() == plain
status = json.loads(db.execute('SELECT foreseek_status()').fetchone()[0])
assert status['active'] and status['files'][0]['ends_known'] == 1, status
# A scan that is given up, then others.
for row in db.execute(query):
    break
assert db.execute('SELECT count(*) FROM t').fetchone()[0] == len(plain)
# A child process reads for itself, without us.
child = os.fork()
if child == 0:
    other = sqlite3.connect(path)
    same = other.execute(query).fetchall() == plain
    status = json.loads(other.execute('SELECT foreseek_status()').fetchone()[0])
    os._exit(0 if same and not status['active'] and 'fork' in status['remedy'] else 1)
assert os.waitpid(child, 0)[1] == 0
print('done')
";

#[test]
fn python_loads_it_and_a_forked_child_reads_without_it() {
    let (_directory, path) = table(5000);
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        println!("SKIPPED: python_loads_it_and_a_forked_child_reads_without_it: {python} is not installed");
        return;
    }
    let outcome = run(Command::new(python).args(["-c", PYTHON]).arg(&path).arg(extension()), "");
    if outcome.out.starts_with("no load_extension") {
        println!(
            "SKIPPED: python_loads_it_and_a_forked_child_reads_without_it: this Python's sqlite3 loads no extensions"
        );
        return;
    }
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("done\n", ""));
    assert!(outcome.status.success());
}

#[test]
fn when_disabled_it_loads_and_does_nothing() {
    if !has_shell("when_disabled_it_loads_and_does_nothing") {
        return;
    }
    let (_directory, path) = table(1000);
    let script = format!(".load {}\n{SCAN}\nSELECT foreseek_status();\n", extension().display());
    let outcome = run(Command::new("sqlite3").arg(&path).env("FORESEEK_DISABLE", "1"), &script);
    let expected = stock(&path, SCAN).out;
    let (printed, status) = outcome.out.trim_end().rsplit_once('\n').expect("rows and a status");
    assert!(printed == expected.trim_end());
    assert!(status.contains("\"active\":false") && status.contains("FORESEEK_DISABLE"), "{status}");
    assert!(status.contains("\"hooked\":[]") && outcome.err.is_empty());
}

#[test]
fn a_setting_that_cannot_be_used_is_refused_when_it_is_loaded() {
    if !has_shell("a_setting_that_cannot_be_used_is_refused_when_it_is_loaded") {
        return;
    }
    let (_directory, path) = table(300);
    let script = format!(".load {}\nSELECT 'goes on';\n", extension().display());
    let outcome = run(Command::new("sqlite3").arg(&path).env("FORESEEK_MEMORY", "much"), &script);
    assert!(outcome.err.contains("FORESEEK_MEMORY") && outcome.err.contains("much"), "{}", outcome.err);
    assert!(outcome.out.contains("goes on"));
}

#[test]
fn the_status_reports_a_database_of_another_vfs() {
    if !has_shell("the_status_reports_a_database_of_another_vfs") {
        return;
    }
    let (_directory, path) = table(300);
    let script = format!(
        ".load {}\nSELECT foreseek_status();\n.open --deserialize {}\nSELECT foreseek_status();\n",
        extension().display(),
        path.display()
    );
    let outcome = run(Command::new("sqlite3").arg(&path), &script);
    let (seen, unseen) = outcome.out.trim_end().split_once('\n').expect("two lines");
    assert!(seen.contains("\"active\":true"), "{seen}");
    assert!(unseen.contains("\"active\":false") && unseen.contains("vfs=unix"), "{unseen}");
}

#[test]
fn connections_open_after_the_profile_was_removed() {
    if !has_shell("connections_open_after_the_profile_was_removed") {
        return;
    }
    let (directory, path) = table(300);
    let profile = directory.path().join("disk.toml");
    let built_in = foreseek_device::Profile::builtin_text("barracuda-500g").expect("a built-in profile");
    std::fs::write(&profile, built_in).expect("written");
    let script = format!(
        ".load {}\n.shell rm {}\n.open {}\nSELECT 'rows:', count(*) FROM t;\n",
        extension().display(),
        profile.display(),
        path.display()
    );
    let outcome = run(Command::new("sqlite3").arg(&path).env("FORESEEK_PROFILE", &profile), &script);
    assert_eq!((outcome.out.trim(), outcome.err.as_str()), ("rows:|300", ""));
}
