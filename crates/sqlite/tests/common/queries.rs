//! Queries drawn from a seed, and their results.

use super::{Random, Shape};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::hash::{DefaultHasher, Hasher};

/// A script, whose rows are read to the end or abandoned.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) sql: String,
    /// Abandoned after so many rows.
    pub(crate) given_up: Option<usize>,
}

/// Kinds of queries; those from [`WRITES`] on change the database and roll back.
const KINDS: u64 = 25;
const WRITES: u64 = 21;

impl Query {
    /// A query of any kind.
    pub(crate) fn random(random: &mut Random, shape: &Shape) -> Self {
        Self::of_kind(random.below(KINDS), random, shape)
    }

    /// A query that only reads.
    pub(crate) fn reading(random: &mut Random, shape: &Shape) -> Self {
        Self::of_kind(random.below(WRITES), random, shape)
    }

    fn of_kind(kind: u64, random: &mut Random, shape: &Shape) -> Self {
        let (scan, back) = (shape.schema().scan, shape.schema().scan_desc);
        let some = |random: &mut Random| random.below(900) as i64 - 300;
        let (a, b) = (some(random), some(random));
        let (low, high) = (a.min(b), a.max(b));
        let (few, part) = (1 + random.below(60), random.below(97));
        let key = random.text(2);
        let order = ["", " DESC"][random.below(2) as usize];
        let sql = match kind {
            0 => format!("SELECT * FROM t {scan}"),
            1 => format!("SELECT * FROM t {back}"),
            2 => format!("SELECT * FROM t {scan} LIMIT {few} OFFSET {}", random.below(400)),
            3 => format!("SELECT u, k, filler FROM t WHERE k BETWEEN '{key}' AND '{key}zz' ORDER BY k{order}, u"),
            4 => format!("SELECT u, n, filler FROM t WHERE n >= {low} AND n < {high} ORDER BY n{order}, u"),
            5 => {
                let list: Vec<String> = (0..few).map(|_| some(random).to_string()).collect();
                format!("SELECT u, length(filler) FROM t WHERE n IN ({}) ORDER BY u", list.join(","))
            }
            6 => format!("SELECT count(*), total(n), max(k), min(filler) FROM t {scan}"),
            7 => format!("SELECT n, count(*), max(filler) FROM t GROUP BY n ORDER BY n{order}"),
            8 => format!(
                "SELECT a.u, b.u, b.filler FROM t a JOIN t b ON a.n = b.n WHERE a.u % 97 = {part} ORDER BY 1, 2 LIMIT 300"
            ),
            9 => format!(
                "SELECT u, (SELECT max(b.filler) FROM t b WHERE b.n = a.n) FROM t a WHERE a.u % 97 = {part} ORDER BY u"
            ),
            10 => format!("SELECT u, k FROM t WHERE k LIKE '{key}%' ORDER BY u{order}"),
            11 => "SELECT DISTINCT substr(k, 1, 2) FROM t ORDER BY 1".to_owned(),
            12 => format!(
                "SELECT u, k FROM t WHERE n < {low} UNION ALL SELECT u, filler FROM t WHERE n > {high} ORDER BY 1, 2"
            ),
            13 => format!("SELECT u, row_number() OVER (ORDER BY n{order}, u) FROM t ORDER BY u LIMIT 300"),
            14 => format!(
                "SELECT u FROM t a WHERE a.u % 97 = {part} AND EXISTS (SELECT 1 FROM t b WHERE b.n = a.n AND b.u > a.u) \
                 ORDER BY u"
            ),
            15 => ["PRAGMA integrity_check", "PRAGMA quick_check"][random.below(2) as usize].to_owned(),
            16 => "SELECT count(*), sum(length(x)) FROM other".to_owned(),
            17 => {
                let list: Vec<String> = (0..few * 8).map(|_| (random.below(22_000) as i64 - 500).to_string()).collect();
                format!("SELECT u, k, filler FROM t WHERE u IN ({}) ORDER BY u{order}", list.join(","))
            }
            18 => format!(
                "SELECT p.id, t.u, t.filler FROM keys p CROSS JOIN t ON t.u = p.v WHERE p.id BETWEEN {low} AND {} ORDER BY 1",
                high + 300
            ),
            19 => format!("SELECT p.id, (SELECT max(filler) FROM t WHERE t.k = p.w) FROM keys p WHERE p.v > {low}"),
            20 => format!("SELECT p.id FROM keys p WHERE EXISTS (SELECT 1 FROM t WHERE t.n = p.id - 300 AND t.u > {high})"),
            21 => format!(
                "BEGIN; UPDATE t SET filler = filler || 'x' WHERE n BETWEEN {low} AND {high}; SELECT * FROM t {scan}; ROLLBACK"
            ),
            22 => format!("BEGIN; DELETE FROM t WHERE n BETWEEN {low} AND {high}; SELECT u, k FROM t {back}; ROLLBACK"),
            23 => format!(
                "BEGIN; INSERT INTO other SELECT filler FROM t WHERE n IN ({low}, {high}, {part}); SELECT count(*), sum(length(x)) FROM other; ROLLBACK"
            ),
            _ => "BEGIN; CREATE INDEX j ON t(n, filler, u); SELECT u FROM t INDEXED BY j ORDER BY n, filler, u; ROLLBACK"
                .to_owned(),
        };
        let given_up = (random.below(8) == 0).then(|| random.below(200) as usize);
        Self { sql, given_up }
    }

    /// The result on a connection: one number for all rows and errors, and a few words for messages.
    pub(crate) fn answer(&self, db: &Connection) -> String {
        let mut hash = DefaultHasher::new();
        let (mut rows, mut trouble) = (0, None);
        for sql in self.sql.split("; ") {
            if let Err(error) = self.read(db, sql, &mut hash, &mut rows) {
                trouble = Some(error.to_string());
                hash.write(error.to_string().as_bytes());
                break;
            }
        }
        if !db.is_autocommit() && self.sql.starts_with("BEGIN") && db.execute_batch("ROLLBACK").is_err() {
            hash.write(b"no rollback");
        }
        format!("{:016x} {rows} rows {}", hash.finish(), trouble.unwrap_or_default())
    }

    fn read(
        &self,
        db: &Connection,
        sql: &str,
        hash: &mut DefaultHasher,
        count: &mut usize,
    ) -> rusqlite::Result<()> {
        let mut statement = db.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            *count += 1;
            for column in 0..columns {
                match row.get_ref(column)? {
                    ValueRef::Null => hash.write_u8(0),
                    ValueRef::Integer(value) => hash.write_i64(value),
                    ValueRef::Real(value) => hash.write_u64(value.to_bits()),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                        hash.write_usize(bytes.len());
                        hash.write(bytes);
                    }
                }
            }
            if self.given_up.is_some_and(|rows| *count > rows) {
                break;
            }
        }
        Ok(())
    }
}
