//! The part of SQL that is needed for `CREATE TABLE` and `CREATE INDEX` of a schema: the columns of a table
//! with their collations, its keys, and the columns of an index.
//!
//! SQLite has accepted these statements before it stored them, therefore nothing is validated. Parts that are
//! not understood are left out, and a misreading can only lead to a wrong prediction.

use crate::record::{Collation, Order};
use crate::tokens::{Token, is_in_parentheses, tokens};
use std::borrow::Cow;

/// A column of a key or an index, as declared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyColumn {
    /// Its name, folded to lower case; `None` for an expression.
    pub name: Option<String>,
    /// The tokens of an expression.
    pub(crate) expression: Vec<Token>,
    /// Its collation; `None` if none is declared.
    pub collation: Option<Collation>,
    /// Whether `DESC` is written.
    pub descending: bool,
}

/// The declarations of a `CREATE TABLE` statement that matter here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableSql {
    /// Columns, folded to lower case, with their declared collation.
    pub columns: Vec<(String, Option<Collation>)>,
    /// Those of them that rows do not hold: generated columns that are not STORED.
    pub computed: Vec<String>,
    /// The primary key, in its order.
    pub primary: Vec<KeyColumn>,
    /// The keys for which SQLite creates automatic indexes, in the order of their numbers; the primary key
    /// among them.
    pub keys: Vec<Vec<KeyColumn>>,
    /// Whether it is declared WITHOUT ROWID.
    pub without_rowid: bool,
    /// The column that is the rowid, in a table that has one: its INTEGER PRIMARY KEY.
    pub rowid: Option<String>,
}

impl TableSql {
    /// The order of a key column: its own declaration, or else that of its table column.
    #[must_use]
    pub fn order_of(&self, column: &KeyColumn) -> Order {
        let declared = || {
            let name = column.name.as_ref()?;
            self.columns.iter().find(|(candidate, _)| candidate == name)?.1
        };
        Order {
            collation: column.collation.or_else(declared).unwrap_or(Collation::Binary),
            descending: column.descending,
        }
    }
}

/// Statements longer than this are not read: SQLite's own default limit for a statement.
const SQL_LIMIT: usize = 1_000_000;

/// The tokens of a statement; none of one that is too long.
fn words(sql: &str) -> Vec<Token> {
    if sql.len() > SQL_LIMIT { Vec::new() } else { tokens(sql) }
}

/// The items of the first parenthesis in `tokens`, split at its own commas, and the tokens after it.
fn items(tokens: &[Token]) -> (Vec<&[Token]>, &[Token]) {
    let Some(open) = tokens.iter().position(|token| token.is_sign(b'(')) else {
        return (Vec::new(), &[]);
    };
    let inner = &tokens[open + 1..];
    let (mut items, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, token) in inner.iter().enumerate() {
        match token {
            Token::Sign(b'(') => depth += 1,
            Token::Sign(b')') if depth == 0 => {
                items.push(&inner[start..at]);
                return (items, &inner[at + 1..]);
            }
            Token::Sign(b')') => depth -= 1,
            Token::Sign(b',') if depth == 0 => {
                items.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    (items, &[])
}

/// The collation of a name after COLLATE.
fn collation(name: &str) -> Collation {
    match name {
        "binary" => Collation::Binary,
        "nocase" => Collation::NoCase,
        "rtrim" => Collation::RTrim,
        _ => Collation::Unknown,
    }
}

/// A column of an index or key: a name or expression, `COLLATE` and `DESC` at its end.
fn key_column(item: &[Token]) -> KeyColumn {
    let mut rest = item;
    let mut descending = false;
    if let Some((last, before)) = rest.split_last()
        && (last.is("asc") || last.is("desc"))
    {
        descending = last.is("desc");
        rest = before;
    }
    let mut found = None;
    if let [before @ .., keyword, name] = rest
        && keyword.is("collate")
        && let Some(name) = name.name()
    {
        found = Some(collation(&name));
        rest = before;
    }
    let name = match rest {
        [name] => name.name().map(Cow::into_owned),
        _ => None,
    };
    // `((a + b))` is `a + b`.
    while is_in_parentheses(rest) {
        rest = &rest[1..rest.len() - 1];
    }
    let expression = if name.is_some() { Vec::new() } else { rest.to_vec() };
    KeyColumn { name, expression, collation: found, descending }
}

/// The columns of a `CREATE INDEX` statement.
#[must_use]
pub fn index_columns(sql: &str) -> Vec<KeyColumn> {
    let tokens = words(sql);
    let on = tokens.iter().position(|token| token.is("on")).unwrap_or(0);
    items(&tokens[on..]).0.into_iter().map(key_column).collect()
}

/// Reads a `CREATE TABLE` statement.
#[must_use]
pub fn table(sql: &str) -> TableSql {
    let tokens = words(sql);
    let (items, options) = items(&tokens);
    let mut table = TableSql {
        without_rowid: options.windows(2).any(|pair| pair[0].is("without") && pair[1].is("rowid")),
        ..TableSql::default()
    };
    let mut integers = Integers::default();
    for item in items {
        let first = item.first().map_or("", |token| match token {
            Token::Name(word, false) => word,
            _ => "",
        });
        if matches!(first, "constraint" | "primary" | "unique" | "check" | "foreign") {
            constraint(item, &mut table, &mut integers);
        } else {
            column(item, &mut table, &mut integers);
        }
    }
    // An INTEGER PRIMARY KEY gets its index last, and only if the table has no rowid.
    if table.without_rowid {
        table.keys.extend(integers.key);
    } else {
        table.rowid = integers.key.and_then(|key| key.into_iter().next()?.name);
    }
    table
}

/// The columns of the type INTEGER, and the primary key if it is one of them.
#[derive(Default)]
struct Integers {
    names: Vec<String>,
    key: Option<Vec<KeyColumn>>,
}

/// Whether a column's type is exactly INTEGER.
fn is_integer(item: &[Token]) -> bool {
    let behind = [
        "constraint",
        "primary",
        "not",
        "null",
        "unique",
        "check",
        "default",
        "collate",
        "references",
        "generated",
        "as",
        "on",
    ];
    let [_, kind, rest @ ..] = item else { return false };
    kind.is("integer") && rest.first().is_none_or(|next| behind.iter().any(|word| next.is(word)))
}

fn constraint(item: &[Token], table: &mut TableSql, integers: &mut Integers) {
    let primary = item.iter().position(|token| token.is("primary"));
    let unique = item.iter().position(|token| token.is("unique"));
    let check = item.iter().position(|token| token.is("check") || token.is("foreign"));
    let Some(at) = primary.into_iter().chain(unique).min() else { return };
    if check.is_some_and(|check| check < at) {
        return;
    }
    let columns: Vec<KeyColumn> = items(&item[at..]).0.into_iter().map(key_column).collect();
    if primary == Some(at) {
        table.primary.clone_from(&columns);
        let named =
            |column: &KeyColumn| column.name.as_ref().is_some_and(|name| integers.names.contains(name));
        if let [only] = &columns[..]
            && named(only)
        {
            integers.key = Some(columns);
            return;
        }
    }
    table.keys.push(columns);
}

fn column(item: &[Token], table: &mut TableSql, integers: &mut Integers) {
    let Some(name) = item.first().and_then(Token::name) else { return };
    let integer = is_integer(item);
    integers.names.extend(integer.then(|| name.clone().into_owned()));
    let key = |descending| {
        vec![KeyColumn { name: Some(name.clone().into_owned()), descending, ..KeyColumn::default() }]
    };
    let mut declared = None;
    let (mut is_generated, mut is_stored) = (false, false);
    let mut depth = 0usize;
    for (at, token) in item.iter().enumerate().skip(1) {
        match token {
            Token::Sign(b'(') => depth += 1,
            Token::Sign(b')') => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            token if token.is("collate") => {
                declared = item.get(at + 1).and_then(Token::name).map(|name| collation(&name));
            }
            token if token.is("primary") => {
                table.primary = key(item.get(at + 2).is_some_and(|token| token.is("desc")));
                if integer && !table.primary[0].descending {
                    integers.key = Some(table.primary.clone());
                } else {
                    table.keys.push(table.primary.clone());
                }
            }
            token if token.is("unique") => table.keys.push(key(false)),
            token if token.is("as") => is_generated = true,
            token if token.is("stored") => is_stored = true,
            _ => {}
        }
    }
    table.computed.extend((is_generated && !is_stored).then(|| name.clone().into_owned()));
    table.columns.push((name.into_owned(), declared));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: &str) -> KeyColumn {
        KeyColumn { name: Some(name.to_owned()), ..KeyColumn::default() }
    }

    #[test]
    fn generated_columns_are_computed_unless_they_are_stored() {
        let table = table(
            "CREATE TABLE t(a INT, b INT GENERATED ALWAYS AS (a+1) VIRTUAL, c AS (a), d INT AS (a*2) STORED NOT NULL, e TEXT)",
        );
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        assert_eq!(table.computed, ["b", "c"]);
    }

    #[test]
    fn a_table_without_rowid_is_read() {
        let sql = "CREATE TABLE \"the t\"\"able\" (-- a comment, with (\n\
            a TEXT COLLATE NoCase DEFAULT ('x,y)') UNIQUE, [b c] NUMERIC(10, 2) CHECK (a > 'primary'), \n\
            /* , */ D int, FOREIGN KEY(a) REFERENCES x(unique_col), UNIQUE (d, a COLLATE rtrim),\n\
            CONSTRAINT k PRIMARY KEY (D DESC, `b c`)) STRICT, Without RowID";
        let table = table(sql);
        assert!(table.without_rowid);
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b c", "d"]);
        assert_eq!(table.columns[0].1, Some(Collation::NoCase));
        let primary = vec![KeyColumn { descending: true, ..named("d") }, named("b c")];
        assert_eq!(table.primary, primary);
        let unique = vec![named("d"), KeyColumn { collation: Some(Collation::RTrim), ..named("a") }];
        assert_eq!(table.keys, [vec![named("a")], unique, primary]);
        assert_eq!(table.order_of(&named("a")).collation, Collation::NoCase);
        assert_eq!(table.order_of(&named("d")).collation, Collation::Binary);
    }

    #[test]
    fn an_integer_primary_key_has_no_index_but_without_rowid() {
        let plain = table("create table t(a integer primary key, b text unique)");
        assert_eq!(plain.keys, [vec![named("b")]]);
        let without = table("create table t(a integer primary key, b text unique) without rowid");
        assert_eq!(without.keys, [vec![named("b")], vec![named("a")]]);
        let text = table("create table t(a text primary key)");
        assert_eq!(text.keys, [vec![named("a")]]);
        assert_eq!((plain.rowid.as_deref(), without.rowid, text.rowid), (Some("a"), None, None));
        // As written by programs that create their tables themselves.
        for sql in [
            "create table t(id integer not null primary key autoincrement, b text unique)",
            "create table t(id INTEGER NOT NULL, b text, unique(b), primary key(id))",
        ] {
            let table = table(sql);
            assert_eq!((table.keys, table.rowid.as_deref()), (vec![vec![named("b")]], Some("id")), "{sql}");
        }
        for sql in ["create table t(a int primary key)", "create table t(a integer(4), primary key(a))"] {
            let table = table(sql);
            assert_eq!((table.keys, table.rowid), (vec![vec![named("a")]], None), "{sql}");
        }
    }

    #[test]
    fn an_index_is_read_with_its_orders_and_expressions() {
        let columns = index_columns(
            "CREATE UNIQUE INDEX IF NOT EXISTS main.i ON \"t\"(a desc, lower(b) ASC, c COLLATE NOCASE DESC, \"d\") WHERE a > 3",
        );
        let expected = [
            KeyColumn { descending: true, ..named("a") },
            KeyColumn { expression: tokens("lower(b)"), ..KeyColumn::default() },
            KeyColumn { collation: Some(Collation::NoCase), descending: true, ..named("c") },
            named("d"),
        ];
        assert_eq!(columns, expected);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_failure(sql in ".{0,200}") {
            let _ = (table(&sql), index_columns(&sql));
        }

        #[test]
        fn any_sequence_of_sql_tokens_is_parsed_without_failure(words in proptest::collection::vec(
            proptest::sample::select(vec!["create", "table", "(", ")", ",", "primary", "key", "unique", "\"", "[", "'", "/*", "--", "a", "collate", "desc", "on"]), 0..40)) {
            let sql = words.join(" ");
            let _ = (table(&sql), index_columns(&sql));
        }
    }
}
