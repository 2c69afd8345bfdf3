//! Random queries give the same answers with the extension as without it. They run at every page size and in
//! every journal mode, with concurrent writers, on damaged files, and with reads that fail in the file system.
//!
//! `FORESEEK_QUERIES=N` sets the number of queries; the default suits `make test`. `FORESEEK_QUERIES_SEED` sets
//! the seed. `make soak` sets both.
#![allow(unsafe_code, reason = "loading an extension and replacing a system call")]

mod common;

use common::queries::Query;
use common::shell::{extension, wait};
use common::{Random, Shape};
use rusqlite::{Connection, ffi};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The default number of queries.
const SHARE: u64 = 256;
/// Every page size in every journal mode.
const PLACES: u64 = 8 * JOURNALS.len() as u64;
const JOURNALS: [&str; 4] = ["delete", "truncate", "persist", "wal"];
/// The number of times that stock SQLite runs again before an answer counts as one that it never gives. For
/// some damage it reads uninitialized memory.
const STOCK_ANSWERS: usize = 20;
/// A writer that is not stopped ends by itself after this time.
const WRITER_LIMIT: Duration = Duration::from_secs(50);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

/// The number of queries for each combination of page size and journal mode.
fn each() -> u64 {
    number("FORESEEK_QUERIES", SHARE).div_ceil(PLACES)
}

/// A database with the page size and journal mode of this combination.
fn shape_at(place: u64) -> Shape {
    let seed = number("FORESEEK_QUERIES_SEED", 5000) + place;
    let shape = Shape::random(seed);
    Shape {
        page_size: 512 << (place % 8),
        journal: JOURNALS[(place / 8) as usize % JOURNALS.len()],
        rows: 200 + shape.rows % 1500,
        ..shape
    }
}

/// The work of a child process.
#[derive(Clone, Copy)]
struct Task<'a> {
    database: &'a Path,
    shape: &'a Shape,
    queries: u64,
    extension: bool,
    /// Selects the reads that fail.
    faults: u64,
    rounds: u64,
}

impl<'a> Task<'a> {
    fn new(database: &'a Path, shape: &'a Shape, queries: u64) -> Self {
        Self { database, shape, queries, extension: false, faults: 0, rounds: 1 }
    }

    /// Starts one of the ignored tests below as its own process.
    fn start(&self, name: &str) -> std::process::Child {
        let this = std::env::current_exe().expect("this program's path");
        Command::new(this)
            .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
            .env("QUERIES_DATABASE", self.database)
            .env("QUERIES_PLACE_SEED", self.shape.seed.to_string())
            .env("QUERIES_SCHEMA", self.shape.schema.to_string())
            .env("QUERIES_JOURNAL", self.shape.journal)
            .env("QUERIES_COUNT", self.queries.to_string())
            .env("QUERIES_EXTENSION", u8::from(self.extension).to_string())
            .env("QUERIES_FAULTS", self.faults.to_string())
            .env("QUERIES_ROUNDS", self.rounds.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program runs")
    }

    /// The answers to the queries. They run in their own process, on a copy of the database.
    fn answers(&self) -> Vec<String> {
        let copy = self.database.with_extension("copy");
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(suffixed(&copy, suffix));
        }
        std::fs::copy(self.database, &copy).expect("copied");
        forget(&copy);
        let status = wait(&mut Task { database: &copy, ..*self }.start("answering"));
        assert!(status.success(), "{status:?}: {:?}", self.shape);
        let answers = std::fs::read_to_string(suffixed(&copy, ".answers")).expect("written");
        answers.lines().map(str::to_owned).collect()
    }

    /// Checks that the queries' answers with the extension are those without it. Returns the number of failed
    /// queries.
    fn compare(&self) -> usize {
        let (stock, ours) = (self.answers(), Task { extension: true, ..*self }.answers());
        assert_eq!(stock.len(), ours.len(), "{:?}", self.shape);
        let failed = stock.iter().filter(|answer| !answer.ends_with("rows ")).count();
        let others: Vec<usize> = (0..stock.len()).filter(|at| stock[*at] != ours[*at]).collect();
        if others.is_empty() {
            return failed;
        }
        let mut known: Vec<BTreeSet<String>> =
            stock.into_iter().map(|answer| BTreeSet::from([answer])).collect();
        for _ in 0..STOCK_ANSWERS {
            for (known, answer) in known.iter_mut().zip(self.answers()) {
                known.insert(answer);
            }
        }
        let queries = queries(self.shape, self.queries, Query::random);
        for at in others {
            assert!(
                known[at].contains(&ours[at]),
                "{:?}\n{:?}\nstock {:?}\nours {}\nfaults {}",
                self.shape,
                queries[at],
                known[at],
                ours[at],
                self.faults
            );
        }
        failed
    }
}

/// Evicts a file from the page cache if possible: later fetches then read from the disk.
fn forget(path: &Path) {
    let file = std::fs::File::open(path).expect("is there");
    file.sync_data().expect("synced");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advised");
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn queries(shape: &Shape, count: u64, draw: impl Fn(&mut Random, &Shape) -> Query) -> Vec<Query> {
    let mut random = Random::new(shape.seed ^ 0x9e5);
    (0..count).map(|_| draw(&mut random, shape)).collect()
}

#[test]
fn the_version_of_sqlite_is_the_one_that_is_to_be_tested() {
    if let Ok(version) = std::env::var("FORESEEK_SQLITE_VERSION") {
        assert_eq!(rusqlite::version(), version);
    }
}

#[test]
fn random_queries_answer_as_stock_at_every_page_size_and_journal_mode() {
    let directory = tempfile::tempdir().expect("a directory");
    for place in 0..PLACES {
        let shape = shape_at(place);
        let path = shape.build(directory.path(), "db");
        assert_eq!(Task::new(&path, &shape, each()).compare(), 0, "{shape:?}");
        std::fs::remove_file(path).expect("removed");
    }
}

#[test]
fn damaged_files_answer_as_stock() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut failed = 0;
    for place in 0..PLACES / 2 {
        let shape = shape_at(place * 2 + place / 4 % 2);
        let path = shape.build(directory.path(), "db");
        let mut file = std::fs::read(&path).expect("is readable");
        damage(&mut file, &shape);
        std::fs::write(&path, &file).expect("written");
        failed += Task::new(&path, &shape, each()).compare();
        std::fs::remove_file(path).expect("removed");
    }
    assert!(failed > 0, "no query met it");
}

/// Overwrites pages of a database, in whole or in part. Only the first 100 bytes stay always.
fn damage(file: &mut Vec<u8>, shape: &Shape) {
    let mut random = Random::new(shape.seed ^ 0xda3a9e);
    let size = shape.page_size as usize;
    let pages = file.len() / size;
    for _ in 0..=random.below(4) {
        let at = random.below(pages as u64) as usize * size;
        let (from, to) = (at.max(100), at + size);
        match random.below(5) {
            0 => file[from..to].fill_with(|| random.next() as u8),
            1 => file[from..to].fill(0),
            2 => {
                let other = random.below(pages as u64) as usize * size;
                let bytes = file[other..other + size].to_vec();
                file[from..to].copy_from_slice(&bytes[from - at..]);
            }
            // The page's header and its cell pointers.
            3 => file[from..(from + 40).min(to)].fill_with(|| random.next() as u8),
            _ => {
                for _ in 0..10 {
                    let byte = from + random.below((to - from) as u64) as usize;
                    file[byte] = random.next() as u8;
                }
            }
        }
    }
    if random.below(6) == 0 {
        file.truncate(file.len() * 2 / 3);
    }
}

#[test]
fn failing_reads_answer_as_stock() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut failed = 0;
    for place in 0..PLACES / 2 {
        let shape = shape_at(place * 2 + 1 - place / 4 % 2);
        let path = shape.build(directory.path(), "db");
        failed += Task { faults: 1 + place, ..Task::new(&path, &shape, each()) }.compare();
        std::fs::remove_file(path).expect("removed");
    }
    assert!(failed > 0, "no query met it");
}

#[test]
fn a_writer_beside_makes_no_difference() {
    let directory = tempfile::tempdir().expect("a directory");
    for place in 0..PLACES {
        // A test run takes other page sizes in each journal mode.
        if number("FORESEEK_QUERIES", 0) == 0 && (place + place / 8) % 4 > 0 {
            continue;
        }
        let shape = shape_at(place);
        let path = shape.build(directory.path(), &format!("db{place}"));
        let task = Task { extension: true, ..Task::new(&path, &shape, each()) };
        let mut writer = task.start("writing");
        let readers = [task.start("reading"), task.start("reading")];
        let read = readers.map(|mut reader| wait(&mut reader));
        std::fs::write(suffixed(&path, ".stop"), "").expect("written");
        assert!(wait(&mut writer).success(), "{shape:?}");
        assert!(read.iter().all(std::process::ExitStatus::success), "{shape:?}");
    }
}

/// Each byte of an encrypted file is XORed with this.
const KEY: u8 = 0x5a;

#[test]
fn an_encrypted_database_is_left_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let shape = Shape { journal: "delete", ..Shape::usual(2000) };
    let path = shape.build(directory.path(), "db");
    let mut file = std::fs::read(&path).expect("is readable");
    file.iter_mut().for_each(|byte| *byte ^= KEY);
    std::fs::write(&path, &file).expect("written");
    let mut child = Task { extension: true, ..Task::new(&path, &shape, 0) }.start("decrypting");
    assert!(wait(&mut child).success());
}

#[test]
#[ignore = "a child"]
fn decrypting() {
    replace_read(decrypting_read);
    load();
    let db = Connection::open(given("QUERIES_DATABASE")).expect("opens");
    let count = "SELECT count(*), count(DISTINCT k) FROM t INDEXED BY i WHERE filler <> '!' ORDER BY k";
    let read: (u64, u64) = db.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("reads");
    assert!(read.0 > 1900 && read.1 > 1000, "{read:?}");
    let status: String = db.query_row("SELECT foreseek_status()", [], |row| row.get(0)).expect("status");
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!((&status["active"], &status["files"]), (&false.into(), &serde_json::json!([])), "{status}");
    assert!(status["remedy"].as_str().is_some_and(|remedy| remedy.contains("encrypted")), "{status}");
}

/// A `pread` of an encrypted file, as in an encrypting layer below SQLite.
unsafe extern "C" fn decrypting_read(
    fd: libc::c_int,
    buffer: *mut libc::c_void,
    count: usize,
    offset: i64,
) -> isize {
    // SAFETY: the stored pointer is a `pread`; it filled as many bytes of the buffer as it returned.
    unsafe {
        let real: Read = std::mem::transmute(REAL.load(Ordering::Relaxed));
        let got = real(fd, buffer, count, offset);
        if let Ok(length) = usize::try_from(got) {
            std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length)
                .iter_mut()
                .for_each(|byte| *byte ^= KEY);
        }
        got
    }
}

/// The memory that a process may use in addition after many rounds of the same queries. The allocator may keep
/// that much.
const GROWTH: u64 = 16 << 20;

#[test]
fn many_rounds_take_no_more_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let rounds = (number("FORESEEK_QUERIES", SHARE) / 16).max(16);
    let shape = shape_at(3);
    let path = shape.build(directory.path(), "db");
    let patience = Instant::now();
    let mut child = Task { extension: true, rounds, ..Task::new(&path, &shape, 12) }.start("answering");
    // A large number of rounds may take longer than the time limit of other tests.
    while child.try_wait().expect("a child of ours").is_none() && patience.elapsed().as_secs() < rounds {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(wait(&mut child).success());
}

fn given(name: &str) -> String {
    std::env::var(name).expect("run by its parent only")
}

/// Opens the database of a child with its parent's settings; returns it with its queries.
fn opened(draw: impl Fn(&mut Random, &Shape) -> Query) -> (Connection, Vec<Query>) {
    let path = PathBuf::from(given("QUERIES_DATABASE"));
    let seed = number("QUERIES_PLACE_SEED", 0);
    let mut random = Random::new(seed ^ 0xcac4e);
    let shape = Shape { schema: number("QUERIES_SCHEMA", 0) as usize, seed, ..Shape::usual(0) };
    if number("QUERIES_FAULTS", 0) > 0 {
        replace_read(failing_read);
    }
    if number("QUERIES_EXTENSION", 0) == 1 {
        load();
    }
    let db = Connection::open(&path).expect("opens");
    db.busy_timeout(Duration::from_secs(20)).expect("set");
    // On a damaged database these may fail, with the extension as without it.
    let journal = given("QUERIES_JOURNAL");
    let _ = db.query_row(&format!("PRAGMA journal_mode={journal}"), [], |_| Ok(()));
    let (cache, map) =
        ([5, 10, 50, 500][random.below(4) as usize], [0, 0, 0, 1 << 20][random.below(4) as usize]);
    let _ = db.execute_batch(&format!("PRAGMA synchronous=OFF; PRAGMA cache_size={cache};"));
    let _ = db.query_row(&format!("PRAGMA mmap_size={map}"), [], |_| Ok(()));
    (db, queries(&shape, number("QUERIES_COUNT", 0), draw))
}

/// Loads the extension for all connections that are opened later.
fn load() {
    // It is loaded by a connection that is not damaged and stays open.
    let db = Box::leak(Box::new(Connection::open_in_memory().expect("opens")));
    // SAFETY: the extension is this crate's.
    unsafe {
        db.load_extension_enable().expect("enabled");
        db.load_extension(extension(), None::<&str>).expect("loaded");
    }
    // The kernel's readahead reads a small file as a whole: follow it all the same.
    db.query_row("SELECT foreseek_set('bypass', 'off')", [], |_| Ok(())).expect("set");
}

#[test]
#[ignore = "a child"]
fn answering() {
    let (db, queries) = opened(Query::random);
    // From here on SQLite makes the same reads with the extension as without it.
    let faults = number("QUERIES_FAULTS", 0);
    READS.store(faults << 40, Ordering::Relaxed);
    FAILING.store(faults, Ordering::Relaxed);
    let rounds = number("QUERIES_ROUNDS", 1);
    let mut answers = String::new();
    let mut before = None;
    for round in 0..rounds {
        answers = queries.iter().map(|query| query.answer(&db) + "\n").collect();
        if round == rounds / 4 {
            before = Some(resident());
        }
    }
    if rounds > 1 {
        let (before, after) = (before.expect("a first quarter"), resident());
        assert!(after <= before + GROWTH, "{before} bytes, {after} after {rounds} rounds");
    }
    std::fs::write(suffixed(Path::new(&given("QUERIES_DATABASE")), ".answers"), answers).expect("written");
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("is there");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
}

/// Within one transaction each query gives the same answer with prefetching as without it, beside any writer.
#[test]
#[ignore = "a child"]
fn reading() {
    let (db, queries) = opened(Query::reading);
    let set = |on: &str| db.query_row("SELECT foreseek_set('prefetch', ?)", [on], |_| Ok(())).expect("set");
    for query in queries {
        db.execute_batch("BEGIN").expect("begun");
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).expect("a snapshot");
        let ours = query.answer(&db);
        set("off");
        let stock = query.answer(&db);
        set("on");
        db.execute_batch("COMMIT").expect("ended");
        assert_eq!(ours, stock, "{query:?}");
    }
}

/// Changes rows until its parent stops it.
#[test]
#[ignore = "a child"]
fn writing() {
    let path = PathBuf::from(given("QUERIES_DATABASE"));
    let db = Connection::open(&path).expect("opens");
    db.busy_timeout(Duration::from_secs(1)).expect("set");
    db.query_row(&format!("PRAGMA journal_mode={}", given("QUERIES_JOURNAL")), [], |_| Ok(())).expect("set");
    db.execute_batch("PRAGMA synchronous=OFF").expect("set");
    let mut random = Random::new(9);
    let begun = Instant::now();
    while !suffixed(&path, ".stop").exists() && begun.elapsed() < WRITER_LIMIT {
        let changed = Instant::now();
        let (from, change) = (random.below(10_000), random.below(900));
        let sql = format!(
            "BEGIN IMMEDIATE; UPDATE t SET n = {change}, filler = filler || '{}' WHERE u BETWEEN {from} AND {from} + 40;
             INSERT INTO other VALUES (zeroblob(70)); DELETE FROM other WHERE rowid % 5 = 1; COMMIT;",
            random.text(30)
        );
        if db.execute_batch(&sql).is_err() && !db.is_autocommit() {
            db.execute_batch("ROLLBACK").expect("rolled back");
        }
        // Without this pause, readers on a slow disk would find the lock taken at every try.
        std::thread::sleep(changed.elapsed().max(Duration::from_millis(1)));
    }
}

/// Selects the reads that fail; none does while it is 0.
static FAILING: AtomicU64 = AtomicU64::new(0);
/// Reads so far.
static READS: AtomicU64 = AtomicU64::new(0);
static REAL: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());

type Read = unsafe extern "C" fn(libc::c_int, *mut libc::c_void, usize, i64) -> isize;

/// A `pread` of which some calls fail and some read fewer bytes than requested. The extension takes it for the
/// kernel's.
unsafe extern "C" fn failing_read(
    fd: libc::c_int,
    buffer: *mut libc::c_void,
    count: usize,
    offset: i64,
) -> isize {
    let seed = FAILING.load(Ordering::Relaxed);
    let draw = Random::new(seed ^ READS.fetch_add(1, Ordering::Relaxed) << 20).below(300);
    let count = match (seed > 0, draw) {
        (true, 0) => {
            // SAFETY: the calling thread's errno.
            unsafe { *libc::__errno_location() = libc::EIO };
            return -1;
        }
        (true, 1..4) => count.div_ceil(2),
        _ => count,
    };
    // SAFETY: the stored pointer is a `pread`; the arguments are SQLite's own.
    unsafe {
        let real: Read = std::mem::transmute(REAL.load(Ordering::Relaxed));
        real(fd, buffer, count, offset)
    }
}

/// Replaces the `pread` of the bundled SQLite.
fn replace_read(by: Read) {
    type Call = unsafe extern "C" fn();
    // SAFETY: SQLite stores system calls under a type without arguments and calls them with their own types.
    unsafe {
        let vfs = ffi::sqlite3_vfs_find(c"unix".as_ptr());
        let real = (*vfs).xGetSystemCall.expect("version 3")(vfs, c"pread".as_ptr()).expect("there is one");
        REAL.store(real as *mut libc::c_void, Ordering::Relaxed);
        let ours = std::mem::transmute::<Read, Call>(by);
        let code = (*vfs).xSetSystemCall.expect("version 3")(vfs, c"pread".as_ptr(), Some(ours));
        assert_eq!(code, ffi::SQLITE_OK);
    }
}
