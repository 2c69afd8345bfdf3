//! The schema: tables and indexes, the roots of their trees, and how an index entry refers to its row (SQLite
//! file format, sections 2.4 to 2.6).
//!
//! An index on a rowid table ends each entry with the rowid. An index on a WITHOUT ROWID table ends it with
//! those columns of the primary key that it does not hold already (under the same collation). Its declaration
//! is therefore needed to find the key in the entry.

use crate::error::{Error, Result};
use crate::header::Header;
use crate::page::{Kind, Page, PageNo};
use crate::record::{Collation, Order, Value, columns, utf8};
use crate::source::{ReadPage, full_payload};
use crate::sql::{self, KeyColumn, TableSql};
use crate::tokens::Token;

/// Pages of the schema's own tree that are read. A schema of a thousand tables takes some hundred pages; a
/// larger one is not worth reading during a query.
const SCHEMA_PAGES_LIMIT: usize = 1024;
/// The most tables and indexes, for the same reason.
const SCHEMA_ENTRIES_LIMIT: usize = 8192;
/// Overflow pages of one statement: SQLite's limit of a million bytes in pages of 512.
const STATEMENT_PAGES_LIMIT: usize = 2048;

/// The names of every rowid.
const ROWID: [&str; 3] = ["rowid", "oid", "_rowid_"];

/// How the rows of a table are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// By rowid, in a table b-tree.
    Rowid,
    /// By primary key, in an index b-tree; the order of each key column.
    Key(Vec<Order>),
}

impl TableKind {
    /// Whether rows are found by rowid.
    #[must_use]
    pub fn is_rowid(&self) -> bool {
        *self == Self::Rowid
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Root of its tree.
    pub root: PageNo,
    /// How its rows are found.
    pub kind: TableKind,
    /// Names of its key's columns in lower case. The rowid has several; the column that is the rowid comes
    /// first.
    pub key: Vec<String>,
    /// Names of its columns in lower case, in the order of a row.
    pub columns: Vec<String>,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its table, by position in [`Schema::tables`].
    pub table: usize,
    /// Root of its tree.
    pub root: PageNo,
    /// Names of its declared columns in lower case; `None` for an expression.
    pub columns: Vec<Option<String>>,
    /// The tokens of those that are expressions; empty for a name.
    pub(crate) expressions: Vec<Vec<Token>>,
    /// Order of its declared columns; further ones of an entry are plain.
    pub orders: Vec<Order>,
    /// The positions of the primary key's columns in an entry; empty for a rowid table.
    pub key_at: Vec<usize>,
}

impl Index {
    /// The order of the column at `position` of an entry.
    #[must_use]
    pub fn order(&self, position: usize) -> Order {
        self.orders
            .get(position)
            .copied()
            .unwrap_or(Order { collation: Collation::Binary, descending: false })
    }

    /// Its own tree as one whose rows are found by its first `width` columns.
    #[must_use]
    pub(crate) fn as_table(&self, width: usize) -> Table {
        let kind = TableKind::Key((0..width).map(|at| self.order(at)).collect());
        Table { name: String::new(), root: self.root, kind, key: Vec::new(), columns: Vec::new() }
    }
}

/// Tables and their secondary indexes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// Tables that have rows.
    pub tables: Vec<Table>,
    /// Indexes on them.
    pub indexes: Vec<Index>,
}

/// A row of `sqlite_schema`.
struct Entry {
    kind: String,
    name: String,
    table: String,
    root: PageNo,
    sql: String,
}

impl Schema {
    /// Reads the schema.
    ///
    /// # Errors
    /// Its tree is damaged, cannot be read or is too large.
    pub fn read<R: ReadPage>(source: &mut R, header: &Header) -> Result<Self> {
        Ok(Self::from_entries(&entries(source, header)?))
    }

    /// The index of this name, in any case.
    ///
    /// # Errors
    /// [`Error::Schema`] if there is none that can be followed.
    pub fn index(&self, name: &str) -> Result<&Index> {
        let missing =
            || Error::Schema { what: "no index that can be followed is named", name: name.to_owned() };
        self.indexes.iter().find(|index| index.name.eq_ignore_ascii_case(name)).ok_or_else(missing)
    }

    /// The table of an index.
    #[must_use]
    pub fn table_of(&self, index: &Index) -> &Table {
        &self.tables[index.table]
    }

    /// The tree with this root, as an index, and its table. A table's own tree is one on its primary key, whose
    /// columns have no names here.
    #[must_use]
    pub fn tree(&self, root: PageNo) -> Option<(Index, &Table)> {
        if let Some(index) = self.indexes.iter().find(|index| index.root == root) {
            return Some((index.clone(), self.table_of(index)));
        }
        let at = self.tables.iter().position(|table| table.root == root)?;
        let table = &self.tables[at];
        let orders = match &table.kind {
            TableKind::Rowid => Vec::new(),
            TableKind::Key(orders) => orders.clone(),
        };
        let (name, columns, key_at) = (table.name.clone(), Vec::new(), Vec::new());
        Some((Index { name, table: at, root, columns, expressions: Vec::new(), orders, key_at }, table))
    }

    fn from_entries(entries: &[Entry]) -> Self {
        let mut schema = Self::default();
        let mut declared = Vec::new();
        for entry in entries.iter().filter(|entry| entry.kind == "table") {
            let sql = sql::table(&entry.sql);
            let primary = distinct(&sql, &sql.primary);
            let kind = if sql.without_rowid {
                TableKind::Key(primary.iter().map(|column| sql.order_of(column)).collect())
            } else {
                TableKind::Rowid
            };
            let key = match &sql.rowid {
                _ if sql.without_rowid => primary.iter().filter_map(|column| column.name.clone()).collect(),
                rowid => rowid.iter().cloned().chain(ROWID.map(str::to_owned)).collect(),
            };
            let columns = stored(&sql, &primary);
            schema.tables.push(Table { name: entry.name.clone(), root: entry.root, kind, key, columns });
            declared.push((sql, primary));
        }
        for entry in entries.iter().filter(|entry| entry.kind == "index") {
            let table = schema.tables.iter().position(|table| table.name.eq_ignore_ascii_case(&entry.table));
            let Some(table) = table else { continue };
            let (sql, primary) = &declared[table];
            schema.indexes.extend(index(entry, table, sql, primary));
        }
        schema
    }
}

/// Computes where an index stores its table's key. `None` if that is not known.
fn index(entry: &Entry, table: usize, sql: &TableSql, primary: &[KeyColumn]) -> Option<Index> {
    let columns = if entry.sql.is_empty() {
        let number: usize = entry.name.rsplit('_').next()?.parse().ok()?;
        sql.keys.get(number.checked_sub(1)?).cloned().unwrap_or_default()
    } else {
        sql::index_columns(&entry.sql)
    };
    if sql.without_rowid && columns.is_empty() {
        return None;
    }
    let orders: Vec<Order> = columns.iter().map(|column| sql.order_of(column)).collect();
    let mut key_at = Vec::new();
    if sql.without_rowid {
        let mut appended = columns.len();
        for key in primary {
            let collation = sql.order_of(key).collation;
            let held = columns
                .iter()
                .zip(&orders)
                .position(|(column, order)| column.name == key.name && order.collation == collation);
            key_at.push(held.unwrap_or_else(|| {
                appended += 1;
                appended - 1
            }));
        }
    }
    let (columns, expressions) = columns.into_iter().map(|column| (column.name, column.expression)).unzip();
    let name = entry.name.clone();
    Some(Index { name, table, root: entry.root, columns, expressions, orders, key_at })
}

/// The columns of a table in the order of its rows: WITHOUT ROWID, those of the key come first.
fn stored(sql: &TableSql, primary: &[KeyColumn]) -> Vec<String> {
    let first = primary.iter().filter(|_| sql.without_rowid).filter_map(|column| column.name.clone());
    let mut columns: Vec<String> = first.collect();
    let is_stored = |name: &&String| !columns.contains(name) && !sql.computed.contains(name);
    let rest = sql.columns.iter().map(|(name, _)| name).filter(is_stored);
    let rest: Vec<String> = rest.cloned().collect();
    columns.extend(rest);
    columns
}

/// A primary key without columns that are repeated under the same collation: SQLite drops those.
fn distinct(sql: &TableSql, columns: &[KeyColumn]) -> Vec<KeyColumn> {
    let same = |a: &KeyColumn, b: &KeyColumn| {
        a.name == b.name && sql.order_of(a).collation == sql.order_of(b).collation
    };
    let mut kept: Vec<KeyColumn> = Vec::new();
    for column in columns {
        if !kept.iter().any(|earlier| same(earlier, column)) {
            kept.push(column.clone());
        }
    }
    kept
}

fn entries<R: ReadPage>(source: &mut R, header: &Header) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut waiting = vec![PageNo::FIRST];
    let mut pages = 0;
    let mut bytes = Vec::new();
    while let Some(number) = waiting.pop() {
        pages += 1;
        if pages > SCHEMA_PAGES_LIMIT {
            return Err(Error::TooMuch { what: "pages of the schema table", limit: SCHEMA_PAGES_LIMIT });
        }
        source.read(number, &mut bytes)?;
        let page = Page::parse(number, &bytes, header.usable())?;
        match page.kind() {
            Kind::TableInterior => {
                for index in (0..=page.cells()).rev() {
                    waiting.push(page.child(index)?);
                }
                if waiting.len() > SCHEMA_PAGES_LIMIT {
                    return Err(Error::TooMuch {
                        what: "pages of the schema table",
                        limit: SCHEMA_PAGES_LIMIT,
                    });
                }
            }
            Kind::TableLeaf => {
                for index in 0..page.cells() {
                    let Some(payload) = page.cell(index)?.payload else { continue };
                    let whole = full_payload(source, payload, header.usable(), STATEMENT_PAGES_LIMIT)?;
                    entries.extend(entry(&whole.bytes, header));
                    if entries.len() > SCHEMA_ENTRIES_LIMIT {
                        let limit = SCHEMA_ENTRIES_LIMIT;
                        return Err(Error::TooMuch { what: "entries of the schema table", limit });
                    }
                }
            }
            Kind::IndexInterior | Kind::IndexLeaf => {
                return Err(Error::Damaged {
                    page: number,
                    at: 0,
                    what: "an index page in the schema table",
                });
            }
        }
    }
    Ok(entries)
}

/// A row of the schema table; `None` for one without a tree (views, triggers, virtual tables).
fn entry(payload: &[u8], header: &Header) -> Option<Entry> {
    let text = |value| match value {
        Value::Text(text) => Some(String::from_utf8_lossy(&utf8(text, header.encoding)).into_owned()),
        Value::Null => Some(String::new()),
        _ => None,
    };
    let mut columns = columns(payload)?;
    let kind = text(columns.next()?)?;
    let name = text(columns.next()?)?;
    let table = text(columns.next()?)?;
    let Value::Integer(root) = columns.next()? else { return None };
    let root = PageNo(u32::try_from(root).ok().filter(|&root| root > 0)?);
    let sql = text(columns.next()?)?;
    Some(Entry { kind, name, table, root, sql })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(of: &[(&str, &str, &str, &str)]) -> Schema {
        let entries: Vec<Entry> = of
            .iter()
            .zip(2..)
            .map(|(&(kind, name, table, sql), root)| Entry {
                kind: kind.to_owned(),
                name: name.to_owned(),
                table: table.to_owned(),
                root: PageNo(root),
                sql: sql.to_owned(),
            })
            .collect();
        Schema::from_entries(&entries)
    }

    #[test]
    fn keys_of_a_table_without_rowid_are_found_in_its_indexes() {
        let schema = schema(&[
            (
                "table",
                "t",
                "t",
                "create table t(a, b, c text collate nocase, d unique, primary key(c, a desc, c)) without rowid",
            ),
            ("index", "sqlite_autoindex_t_1", "t", ""),
            ("index", "i", "T", "create index i on t(b, a)"),
            ("index", "j", "t", "create index j on t(c collate binary)"),
        ]);
        assert_eq!(schema.tables.len(), 1);
        let TableKind::Key(orders) = &schema.tables[0].kind else { panic!("has a rowid") };
        assert_eq!(orders.len(), 2, "a repeated key column is dropped");
        assert!(orders[1].descending && orders[0].collation == Collation::NoCase);
        let key_at = |name| schema.index(name).expect("is there").key_at.clone();
        assert_eq!(key_at("sqlite_autoindex_t_1"), [1, 2]);
        assert_eq!(key_at("i"), [2, 1]);
        assert_eq!(key_at("j"), [1, 2], "another collation does not count as held");
        assert!(schema.index("k").is_err());
    }

    #[test]
    fn an_index_of_an_unknown_table_is_left_out() {
        assert_eq!(schema(&[("index", "i", "gone", "create index i on gone(a)")]), Schema::default());
    }
}
