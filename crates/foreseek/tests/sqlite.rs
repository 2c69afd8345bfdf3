//! SQLite with the extension on an emulated disk. The test counts the disk's reads: a statement that reads
//! little causes few reads more than without the extension.
//!
//! It needs root, FUSE and loop devices; without them it prints a message.

#![allow(clippy::print_stdout, reason = "a skipped test prints a message, and a passed one its counts")]

use foreseek_rig::{Disk, DiskPlan, Interrupt, Program};
use foreseek_units::Bytes;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A table whose rows have about 760 bytes, with a scattered index, and a table whose rows have overflow pages.
const FILL: &str = "PRAGMA synchronous=OFF;
    CREATE TABLE o(id INTEGER PRIMARY KEY, customer INT, total INT, note TEXT);
    WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 60000)
    INSERT INTO o SELECT i, (i * 7919) % 2400, (i * 7919017) % 999983, hex(zeroblob(360)) FROM c;
    CREATE INDEX o_total ON o(total); CREATE INDEX o_customer ON o(customer);
    CREATE TABLE customer(id INTEGER PRIMARY KEY, pick INT);
    INSERT INTO customer SELECT DISTINCT customer, customer % 100 FROM o;
    CREATE TABLE docs(id INTEGER PRIMARY KEY, tag INT, body BLOB);
    INSERT INTO docs SELECT id, (id * 7919) % 1999, zeroblob(34000) FROM o WHERE id <= 1500;
    CREATE INDEX docs_tag ON docs(tag);";

/// A statement and the limit of the disk's reads: the number without the extension times the third value, plus
/// the second. The limit leaves room for the next index leaf and one wasted step. The kernel's readahead varies
/// from run to run.
const STATEMENTS: [(&str, u64, f64); 9] = [
    ("SELECT * FROM o WHERE total BETWEEN 500 AND 650", 2, 1.0),
    ("SELECT * FROM o ORDER BY total LIMIT 10", 2, 1.0),
    ("SELECT * FROM o WHERE total BETWEEN 500 AND 900", 4, 1.05),
    ("SELECT * FROM o WHERE total BETWEEN 500 AND 3200", 8, 1.1),
    ("SELECT * FROM o WHERE total BETWEEN 500 AND 17000", 16, 1.1),
    ("SELECT * FROM o ORDER BY total LIMIT 100", 16, 1.1),
    ("SELECT tag, length(body), hex(substr(body, -4)) FROM docs WHERE tag BETWEEN 5 AND 30", 8, 1.1),
    ("SELECT tag, length(body), hex(substr(body, -4)) FROM docs WHERE tag BETWEEN 5 AND 150", 16, 1.1),
    (
        "SELECT c.id FROM customer c WHERE c.pick = 7 AND EXISTS
         (SELECT 1 FROM o WHERE o.customer = c.id AND o.note < 'x')",
        8,
        1.1,
    ),
];

struct Bed {
    disk: Disk,
    folder: tempfile::TempDir,
    extension: PathBuf,
}

impl Bed {
    /// `None`, with a message, if no emulated disk can be made.
    fn new() -> Option<Self> {
        let skip = |why: &str| println!("SKIPPED: SQLite on an emulated disk: {why}");
        let extension = Path::new(env!("CARGO_BIN_EXE_foreseek")).with_file_name("libforeseek_sqlite.so");
        if !extension.is_file() {
            skip("libforeseek_sqlite.so is not built");
            return None;
        }
        let mkfs = Program::find("mkfs.ext4", "e2fsprogs")
            .and_then(|mkfs| Program::find("sqlite3", "sqlite3").map(|_| mkfs));
        let plan = DiskPlan {
            name: format!("sqlite-{}", std::process::id()),
            profile: "barracuda-500g".to_owned(),
            size: Bytes::mib(1024),
            fit: false,
            // Only counts are checked. At a tenth of its time the disk is still a hundred times slower than
            // memory.
            time_scale: 0.1,
            directory: None,
        };
        let made = mkfs.and_then(|mkfs| {
            let disk = Disk::attach_by(Path::new(env!("CARGO_BIN_EXE_foreseek")), &plan)?;
            disk.make_file_system(&mkfs, &Interrupt::default())?;
            Ok(disk)
        });
        match made {
            Ok(disk) => Some(Self { disk, folder: tempfile::tempdir().expect("a folder"), extension }),
            Err(error) => {
                skip(&error.to_string());
                None
            }
        }
    }

    /// Runs SQL in the stock shell on the cold disk. Returns the output and the number of the disk's reads.
    fn run(&self, sql: &str, extension: bool) -> (String, u64) {
        let mounted = self.disk.mount(self.folder.path()).expect("mounts");
        self.disk.count_anew().expect("counts");
        let mut command = Command::new("sqlite3");
        command.arg("-batch").arg(self.folder.path().join("db")).stdin(Stdio::null());
        if extension {
            command.arg(format!(".load {}", self.extension.display()));
        }
        let output = command.arg(sql).output().expect("runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        let reads = self.disk.stats().expect("counts").reads;
        mounted.unmount().expect("unmounts");
        (String::from_utf8_lossy(&output.stdout).into_owned(), reads)
    }
}

#[test]
fn short_statements_make_the_disk_read_little_more_than_stock() {
    let Some(bed) = Bed::new() else { return };
    bed.run(FILL, false);
    bed.disk.set_delays(true).expect("delays");
    let mut report = String::new();
    let mut failed = false;
    for (sql, more, times) in STATEMENTS {
        let (plain, stock) = bed.run(sql, false);
        let (ours, reads) = bed.run(sql, true);
        assert_eq!(ours, plain, "{sql}");
        let most = (stock as f64 * times) as u64 + more;
        failed |= reads > most;
        report += &format!("{reads} reads for {stock}, at most {most}: {sql}\n");
    }
    assert!(!failed, "{report}");
    println!("{report}");
}
