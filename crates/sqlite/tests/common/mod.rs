//! Databases of many shapes, created by SQLite itself from a seed.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod queries;
pub(crate) mod shell;

use rusqlite::{Connection, params_from_iter, types::Value};
use std::path::{Path, PathBuf};

/// A small generator of pseudo-random numbers (xorshift64*): the same seed, the same database.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    pub(crate) fn text(&mut self, longest: u64) -> String {
        let length = self.below(longest + 1);
        (0..length).map(|_| char::from(b'a' + self.below(26) as u8)).collect()
    }
}

/// How a database is created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) page_size: u32,
    pub(crate) encoding: &'static str,
    pub(crate) auto_vacuum: u32,
    pub(crate) journal: &'static str,
    pub(crate) schema: usize,
    pub(crate) rows: u64,
    /// Longest key text and row filler: beyond a quarter of a page keys overflow, beyond a page rows do.
    pub(crate) longest_key: u64,
    pub(crate) longest_row: u64,
    pub(crate) deleted: bool,
    pub(crate) vacuumed: bool,
    pub(crate) seed: u64,
}

/// A table, its index, and the query that scans by it. Every table has a unique integer `u`.
pub(crate) struct Schema {
    pub(crate) name: &'static str,
    pub(crate) table: &'static str,
    pub(crate) index: &'static str,
    pub(crate) index_name: &'static str,
    /// The text after `SELECT ... FROM t`.
    pub(crate) scan: &'static str,
    pub(crate) scan_desc: &'static str,
    /// The position of `u` in a row's record; `None` if it is the rowid.
    pub(crate) u_at: Option<usize>,
}

const fn schema(
    name: &'static str,
    table: &'static str,
    index: &'static str,
    scan: &'static str,
    scan_desc: &'static str,
    u_at: Option<usize>,
) -> Schema {
    Schema { name, table, index, index_name: "i", scan, scan_desc, u_at }
}

pub(crate) const SCHEMAS: [Schema; 11] = [
    schema(
        "text key",
        "u INTEGER PRIMARY KEY, k TEXT, n INT, filler TEXT",
        "CREATE INDEX i ON t(k)",
        "INDEXED BY i ORDER BY k",
        "INDEXED BY i ORDER BY k DESC",
        None,
    ),
    schema(
        "integer key",
        "k TEXT, n INT, u INTEGER PRIMARY KEY, filler TEXT",
        "CREATE INDEX i ON t(n)",
        "INDEXED BY i ORDER BY n",
        "INDEXED BY i ORDER BY n DESC",
        None,
    ),
    schema(
        "composite key",
        "u INTEGER PRIMARY KEY, k TEXT, n INT, filler TEXT",
        "CREATE INDEX i ON t(n DESC, k COLLATE NOCASE)",
        "INDEXED BY i ORDER BY n DESC, k COLLATE NOCASE",
        "INDEXED BY i ORDER BY n, k COLLATE NOCASE DESC",
        None,
    ),
    schema(
        "partial index",
        "u INTEGER PRIMARY KEY, k TEXT, n INT, filler TEXT",
        "CREATE INDEX i ON t(k) WHERE n > 100",
        "INDEXED BY i WHERE n > 100 ORDER BY k",
        "INDEXED BY i WHERE n > 100 ORDER BY k DESC",
        None,
    ),
    schema(
        "expression index",
        "u INTEGER PRIMARY KEY, k TEXT, n INT, filler TEXT",
        "CREATE INDEX i ON t(n % 97, lower(k))",
        "INDEXED BY i ORDER BY n % 97, lower(k)",
        "INDEXED BY i ORDER BY n % 97 DESC, lower(k) DESC",
        None,
    ),
    schema(
        "real key and blob",
        "u INTEGER PRIMARY KEY, k TEXT, n REAL, filler TEXT",
        "CREATE INDEX i ON t(n, k)",
        "INDEXED BY i ORDER BY n, k",
        "INDEXED BY i ORDER BY n DESC, k DESC",
        None,
    ),
    schema(
        "without rowid",
        "filler TEXT, u INTEGER, k TEXT, n INT, PRIMARY KEY(u)) WITHOUT ROWID --",
        "CREATE INDEX i ON t(k)",
        "INDEXED BY i ORDER BY k",
        "INDEXED BY i ORDER BY k DESC",
        Some(0),
    ),
    schema(
        "without rowid, composite key",
        "filler TEXT, u INTEGER, k TEXT, n INT, PRIMARY KEY(n DESC, k, u)) WITHOUT ROWID --",
        "CREATE INDEX i ON t(k COLLATE NOCASE, u DESC)",
        "INDEXED BY i ORDER BY k COLLATE NOCASE, u DESC",
        "INDEXED BY i ORDER BY k COLLATE NOCASE DESC, u",
        Some(2),
    ),
    schema(
        "without rowid, nocase key",
        "filler TEXT, u INTEGER, k TEXT COLLATE NOCASE, n INT, PRIMARY KEY(k, u)) WITHOUT ROWID --",
        "CREATE INDEX i ON t(n, k)",
        "INDEXED BY i ORDER BY n, k",
        "INDEXED BY i ORDER BY n DESC, k DESC",
        Some(1),
    ),
    Schema {
        name: "automatic index",
        table: "u INTEGER PRIMARY KEY, k TEXT, n INT, filler TEXT, UNIQUE(n, u)",
        index: "",
        index_name: "sqlite_autoindex_t_1",
        scan: "INDEXED BY sqlite_autoindex_t_1 ORDER BY n, u",
        scan_desc: "INDEXED BY sqlite_autoindex_t_1 ORDER BY n DESC, u DESC",
        u_at: None,
    },
    Schema {
        name: "without rowid, automatic index",
        table: "k TEXT, n INT, u INTEGER PRIMARY KEY, filler TEXT, UNIQUE(k, n, u)) WITHOUT ROWID --",
        index: "",
        index_name: "sqlite_autoindex_t_1",
        scan: "INDEXED BY sqlite_autoindex_t_1 ORDER BY k, n",
        scan_desc: "INDEXED BY sqlite_autoindex_t_1 ORDER BY k DESC, n DESC",
        u_at: Some(0),
    },
];

/// The usual table, in a folder that must be kept with it.
pub(crate) fn table(rows: u64) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = Shape::usual(rows).build(directory.path(), "db");
    (directory, path)
}

impl Shape {
    /// A usual table of so many rows.
    pub(crate) fn usual(rows: u64) -> Self {
        Self {
            schema: 0,
            page_size: 4096,
            rows,
            longest_key: 20,
            longest_row: 600,
            deleted: false,
            vacuumed: false,
            journal: "delete",
            encoding: "UTF-8",
            auto_vacuum: 0,
            seed: 4,
        }
    }

    /// A table's own key that extends to overflow pages is not followed (see `tree`): those tables get shorter
    /// ones.
    fn longest_key(&self) -> u64 {
        match self.schema().u_at {
            Some(_) => self.longest_key.min(u64::from(self.page_size) / 64),
            None => self.longest_key,
        }
    }

    /// A shape drawn from a seed.
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let page_size = 512 << random.below(8);
        let small = page_size.min(8192);
        Self {
            page_size,
            encoding: ["UTF-8", "UTF-16le", "UTF-16be"][random.below(3) as usize],
            auto_vacuum: random.below(3) as u32,
            journal: ["delete", "wal"][random.below(2) as usize],
            schema: random.below(SCHEMAS.len() as u64) as usize,
            rows: 200 + random.below(3000),
            longest_key: [8, 30, u64::from(small / 2)][random.below(3) as usize],
            longest_row: [20, 200, u64::from(small) * 2][random.below(3) as usize],
            deleted: random.below(2) == 1,
            vacuumed: random.below(3) == 1,
            seed,
        }
    }

    pub(crate) fn schema(&self) -> &'static Schema {
        &SCHEMAS[self.schema]
    }

    /// Creates the database `name` in `directory`.
    pub(crate) fn build(&self, directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        let mut db = Connection::open(&path).expect("a new database");
        let pragmas = format!(
            "PRAGMA page_size={}; PRAGMA encoding='{}'; PRAGMA auto_vacuum={}; PRAGMA synchronous=OFF;",
            self.page_size, self.encoding, self.auto_vacuum
        );
        db.execute_batch(&pragmas).expect("pragmas");
        db.query_row(&format!("PRAGMA journal_mode={}", self.journal), [], |_| Ok(())).expect("journal");
        let schema = self.schema();
        let early = self.seed.is_multiple_of(2);
        let create = format!("CREATE TABLE other(x); CREATE TABLE t({}\n)", schema.table);
        let create =
            if schema.table.ends_with("--") { create.trim_end_matches(')').to_owned() } else { create };
        db.execute_batch(&create).expect("a table");
        if early {
            db.execute_batch(schema.index).expect("an index");
        }
        self.fill(&mut db);
        if !early {
            db.execute_batch(schema.index).expect("an index");
        }
        if self.deleted {
            db.execute_batch("DELETE FROM t WHERE n % 3 = 1").expect("deleted");
        }
        // Looks rows up in an irregular order.
        db.execute_batch(
            "CREATE TABLE keys(id INTEGER PRIMARY KEY, v INT, w TEXT);
             INSERT INTO keys(v, w) SELECT u, k FROM t ORDER BY u * 7919 % 10007 LIMIT 800;",
        )
        .expect("keys");
        if self.vacuumed {
            db.execute_batch("VACUUM").expect("vacuumed");
        }
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("checkpoint");
        db.close().expect("closed");
        path
    }

    fn fill(&self, db: &mut Connection) {
        let mut random = Random::new(self.seed ^ 0xf111);
        let transaction = db.transaction().expect("begun");
        {
            let sql = "INSERT OR IGNORE INTO t(u, k, n, filler) VALUES (?, ?, ?, ?)";
            let mut insert = transaction.prepare(sql).expect("prepared");
            for row in 0..self.rows {
                let key = random.text(self.longest_key());
                let key = if row % 7 == 0 { key.to_uppercase() } else { key };
                let n = random.below(1000) as i64 - 300;
                let values = [
                    Value::Integer((row * 7 + random.below(7)) as i64 - 500),
                    Value::Text(key),
                    if row % 11 == 0 { Value::Real(n as f64 + 0.5) } else { Value::Integer(n) },
                    Value::Text(random.text(self.longest_row)),
                ];
                insert.execute(params_from_iter(values)).expect("inserted");
                transaction.execute("INSERT INTO other VALUES (zeroblob(50))", []).expect("inserted");
            }
        }
        transaction.commit().expect("committed");
    }
}

/// A table `t` of 20 MB and more whose rows are in no order of their keys: more than any read-ahead fetches at
/// once.
pub(crate) fn large(directory: &Path) -> PathBuf {
    let path = directory.join("large");
    let db = Connection::open(&path).expect("a new database");
    db.execute_batch(
        "PRAGMA synchronous=OFF;
         CREATE TABLE t(u INTEGER PRIMARY KEY, k TEXT, n INT, filler TEXT);
         WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 60000)
         INSERT INTO t SELECT i, printf('%09d', (i * 7919017) % 999999937), i % 600, hex(zeroblob(150)) FROM c;
         CREATE INDEX i ON t(k);",
    )
    .expect("filled");
    db.close().expect("closed");
    path
}

/// The `u` of every row in the order of the scan.
pub(crate) fn rows_in_order(path: &Path, tail: &str) -> Vec<i64> {
    let db = Connection::open(path).expect("opens");
    let mut query = db.prepare(&format!("SELECT u FROM t {tail}")).expect("prepares");
    let rows = query.query_map([], |row| row.get(0)).expect("runs");
    rows.collect::<Result<_, _>>().expect("reads")
}
