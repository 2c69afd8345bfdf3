//! The database: TPC-C's customer table and an index in random order, loaded by the stock shell.
//!
//! Rows come from [`crate::customer`] as SQL text and go into `sqlite3` through a pipe, so that the file is
//! written by the program that reads it later. Pages have 4 KiB, as in ATC'09 section 5.4. Rows lie in the
//! order of their keys. The index on `c_zip` is made after loading, so that it follows the table in the file.
//! There is no index on the primary key: the query does not use one, and the paper counts only the table and
//! the index by zip code.

use crate::customer::{Customers, INDEX, TABLE};
use crate::{Error, Result};
use foreseek_rig::{Interrupt, Program, Running};
use foreseek_units::{Bytes, PAGE_SIZE};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of file that a row takes, its part of the index and of page overhead included: 5.7 rows of
/// 650 bytes fill a page, 220 entries an index page. Measured (720 over five seeds), less half a per cent,
/// so that the file is never smaller than was asked for.
const BYTES_A_ROW: f64 = 716.0;

/// Rows of one INSERT, 35 KB of text: enough that parsing each statement costs little.
const ROWS_A_STATEMENT: u64 = 50;

/// The smallest database: room for an index of more than one level.
pub const SMALLEST: Bytes = Bytes::mib(1);

/// How long loading may take: a hundred times what it takes for the default size.
const LOAD_LIMIT: Duration = Duration::from_secs(600);

/// What is to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Size of the file, at least; at most 3 % more.
    pub size: Bytes,
    /// Where the rows' random numbers start.
    pub seed: u64,
}

/// A database that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: Bytes,
    /// Rows of the table.
    pub rows: u64,
}

impl Plan {
    /// Rows that fill the size.
    #[must_use]
    pub fn rows(&self) -> u64 {
        (self.size.get() as f64 / BYTES_A_ROW).ceil() as u64
    }
}

/// Builds the database as a new file at `path` and reports the rows written so far to `progress`.
///
/// # Errors
/// When the shell fails (a full disk among other things), takes too long, or the user interrupts.
pub fn build(
    shell: &Program,
    path: &Path,
    plan: Plan,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(u64),
) -> Result<Database> {
    let mut running = Running::start(
        shell.name(),
        Command::new(shell.path())
            .args(["-batch", "-bail", "-init", "/dev/null"])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    )?;
    let sql = running.child.stdin.take().ok_or_else(|| unplanned("the shell has no input"))?;
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        // A thread of its own writes, so that a shell that hangs cannot block this one. The write ends with
        // EPIPE when the shell ends, and the shell's own message then says why.
        scope.spawn(|| write_sql(sql, plan, &written));
        let ended = running.wait("building the database", LOAD_LIMIT, interrupt, &mut || {
            progress(written.load(Ordering::Relaxed));
        });
        if ended.is_err() {
            running.end();
        }
        ended
    })?;
    let mut counted = String::new();
    if let Some(stdout) = running.child.stdout.as_mut() {
        let _ = stdout.take(64).read_to_string(&mut counted);
    }
    check(path, plan, counted.trim())
}

/// Checks that it has the planned rows and size.
fn check(path: &Path, plan: Plan, counted: &str) -> Result<Database> {
    let rows = plan.rows();
    if counted != rows.to_string() {
        return Err(unplanned(&format!("{rows} rows were written, {counted:?} are there")));
    }
    let metadata = path.metadata().map_err(|error| Error::io("cannot look at", path.display(), error))?;
    let bytes = Bytes(metadata.len());
    if bytes < plan.size {
        return Err(unplanned(&format!("{bytes} instead of {}", plan.size)));
    }
    Ok(Database { path: path.to_owned(), bytes, rows })
}

fn unplanned(what: &str) -> Error {
    Error::Database { what: what.to_owned() }
}

/// Writes the whole script, and counts the rows written.
fn write_sql(mut shell: impl Write, plan: Plan, written: &AtomicU64) -> io::Result<()> {
    // Nothing is lost if the machine stops while loading: the file is made anew each time.
    write!(
        shell,
        "PRAGMA page_size={PAGE_SIZE};PRAGMA synchronous=OFF;PRAGMA temp_store=MEMORY;\
         PRAGMA cache_size=-65536;\nBEGIN;{TABLE};\n"
    )?;
    let mut customers = Customers::new(plan.seed);
    let mut statement = String::new();
    let mut left = plan.rows();
    while left > 0 {
        let count = left.min(ROWS_A_STATEMENT);
        statement.clear();
        statement.push_str("INSERT INTO customer VALUES");
        for row in 0..count {
            if row > 0 {
                statement.push(',');
            }
            customers.write_next(&mut statement);
        }
        statement.push_str(";\n");
        shell.write_all(statement.as_bytes())?;
        left -= count;
        written.fetch_add(count, Ordering::Relaxed);
    }
    writeln!(shell, "COMMIT;{INDEX};SELECT count(*) FROM customer;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_in(folder: &Path, size: Bytes, seed: u64) -> Result<Database> {
        let shell = Program::find("sqlite3", "sqlite3")?;
        let name = format!("{}-{seed}.db", size.get());
        build(&shell, &folder.join(name), Plan { size, seed }, &Interrupt::default(), &mut |_| ())
    }

    fn without_shell() -> bool {
        let missing = Program::find("sqlite3", "sqlite3").is_err();
        if missing {
            println!("SKIPPED: sqlite3 is not installed");
        }
        missing
    }

    #[test]
    fn it_is_as_large_as_asked_and_hardly_larger() {
        if without_shell() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        for (size, seed) in [(SMALLEST, 1), (Bytes::mib(3), 2), (Bytes::mib(12), 3)] {
            let database = build_in(folder.path(), size, seed).expect("it is built");
            assert!(database.bytes >= size && database.bytes <= size.scale(1.03), "{database:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_file() {
        if without_shell() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let hash = |name: &str, seed| {
            let sub = folder.path().join(name);
            std::fs::create_dir(&sub).expect("a folder");
            let database = build_in(&sub, SMALLEST, seed).expect("it is built");
            blake3::hash(&std::fs::read(database.path).expect("it is read"))
        };
        assert_eq!(hash("a", 5), hash("b", 5));
        assert_ne!(hash("c", 5), hash("d", 6));
    }

    #[test]
    fn the_query_goes_by_the_index_and_rows_are_of_650_bytes() {
        if without_shell() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let database = build_in(folder.path(), Bytes::mib(2), 1).expect("it is built");
        let shell = Program::find("sqlite3", "sqlite3").expect("just used");
        let ask = |sql: &str| {
            let path = database.path.to_str().expect("a plain path");
            shell
                .run("asking", &["-batch", path, sql], Duration::from_secs(60), &Interrupt::default())
                .expect("it answers")
        };
        let query = crate::customer::QUERY;
        let plan = ask(&format!("EXPLAIN QUERY PLAN {query}"));
        assert!(plan.contains("USING INDEX customer_zip"), "{plan}");
        let payload =
            ask("SELECT round(avg(22 + length(c_first||c_middle||c_last||c_street_1||c_street_2||c_city||\
             c_state||c_zip||c_phone||c_since||c_credit||c_data) + 15)) FROM customer");
        let payload: f64 = payload.trim().parse().expect("a number");
        assert!((640.0..660.0).contains(&payload), "{payload} bytes a row");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_that_says_so() {
        if without_shell() {
            return;
        }
        let error = build_in(Path::new("/proc/no-such-folder"), SMALLEST, 1).expect_err("it cannot be");
        assert!(error.to_string().contains("unable to open"), "{error}");
    }
}
