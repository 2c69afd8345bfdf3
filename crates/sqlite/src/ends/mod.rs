//! How far a statement reads, as far as its text shows it.
//!
//! A scan by an index ends at the first entry beyond the bound of a WHERE clause, at the end of its index, or
//! when enough rows were found. SQLite does not report which. The text of the running statement, with the
//! values of its parameters (`sqlite3_expanded_sql`), however, has each bound as a comparison of an indexed
//! column with a literal. This module finds those comparisons. It does not parse SQL: it looks for a column's
//! name beside an operator and a literal, anywhere in the statement.
//!
//! Correctness does not depend on it. A wrong bound ends a prediction too early, and the scan is recognised
//! again later. After a missed bound the end is [unknown](End::Unknown), and then [`foreseek_hints::allowance`]
//! bounds the waste.
//!
//! - `k IN (5, 7)` without any other condition on `k`: these are the [points](crate::points) of a scan.
//! - `k = 5`, `k < 5`, `k BETWEEN 5 AND 7`, with parameters as well: the end is the nearest of these values
//!   ahead of the scan. Later columns count if the earlier ones are fixed by `=`.
//! - `t.k = u.x`: each inner scan of a join ends where the value of `k` changes, once two entries of the same
//!   value have been followed.
//! - The end is [known](End::Known) if the statement reads only the scan's table (one SELECT, also an INSERT's;
//!   an UPDATE or a DELETE), and every comparison of the index's first column is with literals. `LIMIT 10
//!   OFFSET 5` counts as visible up to 15 entries.
//! - The end of a join's outer rows is visible in a SELECT without LIMIT, even if the inner table is in a
//!   subquery. If an index names the outer rows, its first column must be compared only with literals. The end
//!   of their look-ups is visible, too; in an EXISTS, once it is known how far its look-ups go ([`joined`]).
//!
//! These ends are not visible, and the allowance bounds their waste:
//!
//! - statements inside triggers and views, and tables that only a subquery reads;
//! - bounds computed by functions (`date('now')`), by LIKE and GLOB, and bounds on an expression that is
//!   written with other tokens than in the index;
//! - a program that abandons its statement.

mod expressions;
mod loops;

pub(crate) use loops::{Loop, joined};

use crate::header::Encoding;
use crate::record::{Order, Value, compare};
use crate::schema::Index;
use crate::tokens::{SQL_LIMIT, Token, comparison, continues, is_comparing, literal, tokens};
use crate::tree::Owned;
use expressions::with_names;
use foreseek_hints::End;
use loops::{is_visited, shape};
use std::borrow::Cow;
use std::cmp::Ordering;

/// The bounds that statements set for the columns of one index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// For each column of the index: the values at which a scan may end.
    columns: Vec<Bound>,
    /// How many of the leading columns are compared only with values for equality.
    held: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Bound {
    /// The values that it is compared with for equality.
    values: Vec<Owned>,
    /// The values that it is not below, and not above: these end a scan toward smaller and toward greater
    /// values.
    lower: Vec<Owned>,
    upper: Vec<Owned>,
    /// Compared for equality with something other than a literal.
    current: bool,
    /// Compared otherwise with something other than a literal.
    other: bool,
    /// Compared with a literal in another way than for equality.
    ranged: bool,
}

/// How far a scan reads, as far as the texts of the running statements show it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanLimits {
    /// The values at which it may end.
    pub bounds: Bounds,
    /// Whether only the bounds end it.
    pub end: End,
    /// The most rows that are read.
    pub rows: Option<RowLimit>,
}

/// The rows of a LIMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLimit {
    /// Their number.
    pub count: u64,
    /// Each row that is read is one of them: nothing skips or groups rows.
    pub exact: bool,
}

impl ScanLimits {
    /// The limits of a scan without a known text.
    #[must_use]
    pub fn unknown() -> Self {
        Self { bounds: Bounds::default(), end: End::Unknown, rows: None }
    }

    /// A scan that reads its whole index.
    #[must_use]
    pub fn full_scan() -> Self {
        Self { end: End::Known, ..Self::unknown() }
    }

    /// The limits that these statements, which run on one connection, set for a scan of a table by an index on
    /// these columns (`None` for an expression).
    #[must_use]
    pub fn from_statements(statements: &[String], table: &str, columns: &[Option<String>]) -> Self {
        Self::with(statements, table, columns, &[])
    }

    /// The same for a scan by this index, whose expressions count as columns if a statement has the same
    /// tokens.
    #[must_use]
    pub fn from_statements_by_index(statements: &[String], table: &str, index: &Index) -> Self {
        let (mut columns, mut expressions) = (index.columns.clone(), Vec::new());
        for ((at, column), words) in columns.iter_mut().enumerate().zip(&index.expressions) {
            if column.is_none() && !words.is_empty() {
                // No name of a statement begins like this.
                let name = format!("\0{at}");
                *column = Some(name.clone());
                expressions.push((name, &words[..]));
            }
        }
        Self::with(statements, table, &columns, &expressions)
    }

    fn with(
        statements: &[String],
        table: &str,
        columns: &[Option<String>],
        expressions: &[(String, &[Token])],
    ) -> Self {
        let mut limits = Self::unknown();
        limits.bounds.columns = vec![Bound::default(); columns.len()];
        let first_name = columns.first().and_then(Option::as_ref);
        let is_expression = expressions.iter().any(|(name, _)| Some(name) == first_name);
        for statement in statements.iter().filter(|statement| statement.len() <= SQL_LIMIT) {
            let tokens = with_names(tokens(statement), expressions);
            let compared = without_assignments(&tokens);
            for (bound, column) in limits.bounds.columns.iter_mut().zip(columns) {
                if let Some(column) = column {
                    bound.find(&compared, column);
                }
            }
            if let [_] = statements {
                // An expression may be written with other tokens than in the index.
                let is_met = limits.bounds.columns.first().is_some_and(|bound| *bound != Bound::default());
                let is_free = !tokens.iter().any(|token| token.is("where"));
                let named = first_name.is_some() && (!is_expression || is_met || is_free);
                (limits.end, limits.rows) = shape(&tokens, table, named);
                if limits.end == End::Unknown && named && is_visited(&tokens, table) {
                    limits.end = End::Known;
                }
                // The condition on one side of an OR does not limit everything that is read.
                if !tokens.iter().any(|token| token.is("or")) {
                    let held = limits.bounds.columns.iter().take_while(|bound| bound.is_held());
                    limits.bounds.held = held.count();
                }
            }
        }
        // A join's inner scan ends with its value, but the text does not show whether all of it is read. The
        // same holds if the first columns are fixed by literals and the next one is not.
        let hidden = |bound: &Bound| bound.current || bound.other;
        let open = limits.bounds.columns.iter().position(|bound| !bound.is_held());
        let leading = open.map_or(limits.bounds.columns.len(), |open| open + 1);
        if leading == 0 || limits.bounds.columns[..leading].iter().any(hidden) {
            limits.end = End::Unknown;
        }
        limits
    }
}

impl Bounds {
    /// The end of a look-up at one value of an index's first column.
    pub(crate) fn of_one_value() -> Self {
        Self { columns: vec![Bound { current: true, ..Bound::default() }], held: 0 }
    }

    /// The values that the statement compares each leading column with, if it compares some for equality and
    /// has no other condition on them and on the column after them.
    #[must_use]
    pub fn points(&self) -> Option<Vec<Vec<Owned>>> {
        let (held, rest) = self.columns.split_at(self.held.min(self.columns.len()));
        // If the next column has bounds, a look-up does not begin at the first entry of its values.
        let open = rest.first().is_none_or(|bound| *bound == Bound::default());
        (!held.is_empty() && open).then(|| held.iter().map(|bound| bound.values.clone()).collect())
    }

    /// Whether a scan that was at the entry `from` has come beyond its end with the entry `at`. `later`: how
    /// later entries compare with earlier ones, by the index's own order. `run`: two entries of the first
    /// column's value at `from` were followed.
    #[must_use]
    pub fn is_beyond<'a>(
        &self,
        from: &[Owned],
        at: impl Iterator<Item = Value<'a>>,
        order: impl Fn(usize) -> Order,
        encoding: Encoding,
        later: Ordering,
        run: bool,
    ) -> bool {
        for (position, ((bound, from), at)) in self.columns.iter().zip(from).zip(at).enumerate() {
            let order = order(position);
            let moved = compare(at, from.value(), order, encoding);
            if bound.current && run && moved == Some(later) {
                return true;
            }
            // A value that was ahead of the scan, and that it has passed.
            let passed = |value: &Owned| {
                let value = value.value();
                like(value, at)
                    && compare(from.value(), value, order, encoding).is_some_and(|is| is != later)
                    && compare(at, value, order, encoding) == Some(later)
            };
            let toward_greater = (later == Ordering::Greater) != order.descending;
            let ahead = if toward_greater { &bound.upper } else { &bound.lower };
            if bound.values.iter().chain(ahead).any(passed) {
                return true;
            }
            let held = bound.current && run || bound.values.contains(from);
            if !held || moved != Some(Ordering::Equal) {
                return false;
            }
        }
        false
    }
}

/// Whether two values are of one type: a column's affinity may convert a literal of another type.
pub(crate) fn like(a: Value<'_>, b: Value<'_>) -> bool {
    let number = |value| matches!(value, Value::Integer(_) | Value::Real(_));
    number(a) && number(b)
        || matches!((a, b), (Value::Text(_), Value::Text(_)) | (Value::Blob(_), Value::Blob(_)))
}

impl Bound {
    /// Whether the column has one of its values in every row that is read.
    fn is_held(&self) -> bool {
        !(self.values.is_empty() || self.current || self.other || self.ranged)
    }

    /// Collects the comparisons of a column.
    fn find(&mut self, tokens: &[Token], column: &str) {
        let named = |token: &Token| matches!(token, Token::Name(name, _) if name == column);
        for at in (0..tokens.len()).filter(|&at| named(&tokens[at])) {
            let mut right = &tokens[at + 1..];
            let not = right.first().is_some_and(|token| token.is("not"));
            if not {
                right = &right[1..];
            }
            if let Some((signs, operand)) = comparison(right) {
                self.add_comparison(signs, operand, false);
            } else if let [word, rest @ ..] = right
                && (word.is("between") || word.is("in"))
            {
                // An excluded value ends nothing.
                let mut excluded = Self::default();
                let to = if not { &mut excluded } else { &mut *self };
                to.add_between_or_in(rest, word.is("in"));
                self.other |= excluded.other;
                self.ranged |= not || word.is("between");
            } else if not {
                self.ranged = true;
            }
            // `5 < k`, `u.x = t.k`: the tokens before the name and its qualifier.
            let mut left = &tokens[..at];
            if let [rest @ .., Token::Name(..), dot] = left
                && dot.is_sign(b'.')
            {
                left = rest;
            }
            let signs = left.iter().rev().take_while(|token| is_comparing(token)).count();
            let (left, signs) = left.split_at(left.len() - signs);
            if !signs.is_empty() {
                // The sign of a number follows its operator.
                let value = &left[left.len().saturating_sub(1)..];
                self.add_comparison(signs, value, true);
            }
        }
    }

    /// Adds a comparison with an operand; if `backward`, the operand is before the operator.
    fn add_comparison(&mut self, signs: &[Token], operand: &[Token], backward: bool) {
        let has = |sign: u8| signs.iter().any(|token| token.is_sign(sign));
        let is_equal = !has(b'<') && !has(b'>');
        match literal(operand) {
            Some((value, rest)) if backward || !continues(rest) => {
                match (has(b'<'), has(b'>')) {
                    (false, false) => self.values.push(value),
                    // `k <> 5` ends nothing.
                    (true, true) => {}
                    (is_less, _) if is_less != backward => self.upper.push(value),
                    _ => self.lower.push(value),
                }
                self.ranged |= !is_equal;
            }
            _ if is_equal => self.current = true,
            _ => self.other = true,
        }
    }

    /// The operands of BETWEEN and IN.
    fn add_between_or_in(&mut self, rest: &[Token], within: bool) {
        let mut rest = rest.strip_prefix(&[Token::Sign(b'(')][..]).unwrap_or(rest);
        let mut count = 0;
        while let Some((value, after)) = literal(rest) {
            let values = match (within, count) {
                (true, _) => &mut self.values,
                (false, 0) => &mut self.lower,
                (false, _) => &mut self.upper,
            };
            values.push(value);
            count += 1;
            match after {
                [next, more @ ..]
                    if within && next.is_sign(b',') || !within && next.is("and") && count == 1 =>
                {
                    rest = more;
                }
                _ => return,
            }
        }
        // A subquery, or a computed bound.
        self.other = true;
    }
}

/// An UPDATE without its assignments, which look like comparisons.
fn without_assignments(tokens: &[Token]) -> Cow<'_, [Token]> {
    let place = |keyword: &str| tokens.iter().position(|token| token.is(keyword));
    match (place("update"), place("set")) {
        (Some(0), Some(set)) => {
            let end = place("where").filter(|&end| end > set).unwrap_or(tokens.len());
            [&tokens[..set], &tokens[end..]].concat().into()
        }
        _ => tokens.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageNo;
    use crate::record::Collation;
    use crate::sql::index_columns;
    use proptest::prelude::*;

    const PLAIN: Order = Order { collation: Collation::Binary, descending: false };

    fn limits(sql: &str) -> ScanLimits {
        ScanLimits::from_statements(
            &[sql.to_owned()],
            "o",
            &[Some("total".to_owned()), Some("day".to_owned())],
        )
    }

    /// The first whole number from `from` on, in this direction, that is beyond the end. With two columns,
    /// `day` counts within `total`.
    fn ends_at(sql: &str, from: i64, later: Ordering, run: bool) -> Option<i64> {
        let limits = limits(sql);
        let step = if later == Ordering::Greater { 1 } else { -1 };
        (1..300).map(|count| from + step * count).find(|&at| {
            let entry = [Value::Integer(at), Value::Integer(0)];
            let from = [Owned::Integer(from), Owned::Integer(0)];
            limits.bounds.is_beyond(&from, entry.into_iter(), |_| PLAIN, Encoding::Utf8, later, run)
        })
    }

    #[test]
    fn the_nearest_bound_ahead_of_the_scan_is_its_end() {
        let up = |sql: &str, from| ends_at(sql, from, Ordering::Greater, false);
        let down = |sql: &str, from| ends_at(sql, from, Ordering::Less, false);
        assert_eq!(up("select * from o where total between 50 and 130", 60), Some(131));
        assert_eq!(down("select * from o where total between 50 and 130", 60), Some(49));
        assert_eq!(up("select * from o where total >= 50 and o.total<130", 60), Some(131));
        assert_eq!(up("SELECT * FROM o WHERE 50 < total AND 130 >= \"total\"", 60), Some(131));
        assert_eq!(up("select * from o where total in (50, 70, 90)", 60), Some(71));
        assert_eq!(up("select * from o where total = 60", 60), Some(61));
        assert_eq!(up("select * from o where total > -5 and total < +99", 60), Some(100));
        assert_eq!(down("select * from o where total > -5", 60), Some(-6));
        // The first value of a scan does not end it.
        assert_eq!(up("select * from o where total between 60 and 130", 60), Some(131));
        assert_eq!(up("select * from o where 60 <= total and total < 130", 60), Some(131));
        assert_eq!(down("select * from o where total >= 50 and total <= 60", 60), Some(49));
        assert_eq!(up("select * from o where total <> 70", 60), None);
        assert_eq!(up("select * from o where total not between 70 and 80", 60), None);
        // Passed values, texts, other columns and expressions do not count.
        assert_eq!(up("select * from o where total > 50", 60), None);
        assert_eq!(up("select * from o where total < '99'", 60), None);
        assert_eq!(up("select * from o where totals < 99 and size < 70", 60), None);
        assert_eq!(up("select * from o where total < 99 + 7", 60), None);
        assert_eq!(up("select 'total < 99' from o -- total < 98", 60), None);
    }

    #[test]
    fn an_inner_scan_ends_with_its_value_once_that_was_seen_twice() {
        for sql in ["select 1 from c join o on o.total=c.id", "select 1 from c, o where c.id = o.total"] {
            assert_eq!(ends_at(sql, 60, Ordering::Greater, true), Some(61));
            assert_eq!(ends_at(sql, 60, Ordering::Greater, false), None);
            assert_eq!(limits(sql).end, End::Unknown);
        }
    }

    #[test]
    fn the_second_column_counts_where_the_first_is_held() {
        let beyond = |sql: &str, total: i64, day: i64| {
            let from = [Owned::Integer(5), Owned::Integer(10)];
            let at = [Value::Integer(total), Value::Integer(day)];
            let utf8 = Encoding::Utf8;
            limits(sql).bounds.is_beyond(&from, at.into_iter(), |_| PLAIN, utf8, Ordering::Greater, false)
        };
        let held = "select * from o where total = 5 and day < 20";
        assert_eq!([beyond(held, 5, 15), beyond(held, 5, 21), beyond(held, 6, 0)], [false, true, true]);
        let ranged = "select * from o where total >= 5 and day < 20";
        assert!(!beyond(ranged, 5, 21));
        let free = "select * from o where total < 9 and day < 20";
        assert_eq!([beyond(free, 5, 21), beyond(free, 10, 0)], [false, true]);
    }

    #[test]
    fn values_are_points_if_their_columns_have_no_other_condition() {
        let points = |sql: &str| limits(&format!("select * from o where {sql}")).bounds.points();
        let integers = |values: &[i64]| values.iter().copied().map(Owned::Integer).collect::<Vec<_>>();
        assert_eq!(points("total in (9, 7) and note > 'x'"), Some(vec![integers(&[9, 7])]));
        assert_eq!(points("day in (1,2) and 5 = total"), Some(vec![integers(&[5]), integers(&[1, 2])]));
        assert_eq!(points("total is 5 and day == 1"), Some(vec![integers(&[5]), integers(&[1])]));
        for other in [
            "total in (9, 7) and total < 8",
            "total in (9, 7) and day > 3",
            "total in (9, 7) and day not in (3)",
            "total in (9, 7) or day = 3",
            "total not in (9, 7)",
            "total in (select 5)",
            "total in (9, abs(7))",
            "total between 7 and 9",
            "day in (1, 2)",
            "total = 5 and total = note",
        ] {
            assert_eq!(points(other), None, "{other}");
        }
    }

    #[test]
    fn values_assigned_by_an_update_are_no_bound() {
        let sql = "update o set total = 70, day = 3 where total between 50 and 90";
        assert_eq!(ends_at(sql, 60, Ordering::Greater, false), Some(91));
        assert_eq!(limits("update o set total = 70").bounds.points(), None);
    }

    #[test]
    fn an_end_is_seen_where_one_table_is_read_by_literals() {
        let end = |sql: &str| (limits(sql).end, limits(sql).rows.map(|rows| (rows.count, rows.exact)));
        for sql in [
            "select * from o order by total",
            "SELECT a, max(b) FROM main.o AS x INDEXED BY i WHERE total BETWEEN 1 AND 2 GROUP BY total;",
            "select * from o where total = 'x''y' and lower(name) = 'z' order by total desc",
            "update or ignore main.o set size = 5, name = 'x' where total < 5 returning *",
            "delete from o where total < 5",
            "insert into c select * from o where total < 5",
            "select * from o, c where total < 5 and c.id = o.day",
            "select * from o where total = 5 and day < 7",
            "select * from o where total < 5 and day = lower(name)",
            "select sum(size) from c join main.o x on c.id = x.day where total between 3 and 9",
            "select * from o, c, x where total < 5 and c.id = o.day and x.id = c.x",
            "select day, count(*) from o where total < 5 and not exists (select 1 from c where c.id = o.day limit 1) group by 1",
            "select total, (select max(x) from c where c.id = day) from o where total < 5 and day in (select id from c)",
        ] {
            assert_eq!(end(sql), (End::Known, None), "{sql}");
        }
        assert_eq!(end("select * from o order by total limit 10"), (End::Known, Some((10, true))));
        assert_eq!(end("select * from o order by total limit 10 offset 5;"), (End::Known, Some((15, true))));
        let filtered = "select * from o where note > 'n' order by total limit 10";
        assert_eq!(end(filtered), (End::Known, Some((10, false))));
        for sql in [
            "select * from o order by total limit 5 * 2",
            "select * from o, c where total = c.id",
            "select * from o, c where total < 5 and total < c.id",
            "select * from o, c where total < 5 limit 3",
            "select * from o, c where total = 5 and day = c.id",
            "select * from o where total in (5, 7) and day > abs(note)",
            "select * from o a, o b where a.total < 5",
            "select * from c, x where total < 5",
            "select * from v order by total",
            "select * from o where total < (select max(x) from c)",
            "select * from o where total < 5 and day > (select max(day) from o)",
            "select (select size from o where total < 5) from c",
            "select * from o where total < 5 union select * from c",
            "select * from o where total < 5 and day in (select day from x union all select day from o order by 1 limit 3)",
            "select * from o where total < abs(9)",
            "select * from o where total between 3 and abs(9)",
            "select 1 where exists (select 1 from o where total > 3)",
            "update o set size = (select 5) where total < 5",
            "update o set size = 5 from c where total = c.id",
            "delete from c where total < 5",
            "insert into o values (1)",
            "insert into c select * from o where true on conflict do nothing",
            "with x as (select 1) select * from o",
            "",
        ] {
            assert_eq!(end(sql).0, End::Unknown, "{sql}");
        }
        let expression =
            ScanLimits::from_statements(&["select * from o where a % 7 = 3".to_owned()], "o", &[None]);
        assert_eq!(expression.end, End::Unknown);
    }

    #[test]
    fn an_expression_counts_as_a_column_where_a_statement_has_its_words() {
        let index = |columns: &str| Index {
            name: "i".to_owned(),
            table: 0,
            root: PageNo(2),
            columns: vec![None, Some("day".to_owned())],
            expressions: index_columns(&format!("CREATE INDEX i ON o({columns}, day) WHERE total > 3"))
                .into_iter()
                .map(|column| column.expression)
                .collect(),
            orders: Vec::new(),
            key_at: Vec::new(),
        };
        let end = |columns: &str, condition: &str| {
            let statement = format!("select * from o where {condition}");
            let limits = ScanLimits::from_statements_by_index(&[statement], "o", &index(columns));
            let beyond = |at: i64| {
                let (from, at) = ([Owned::Integer(5)], [Value::Integer(at)].into_iter());
                limits.bounds.is_beyond(&from, at, |_| PLAIN, Encoding::Utf8, Ordering::Greater, false)
            };
            (limits.end, (5..100).find(|&at| beyond(at)))
        };
        for (columns, condition) in [
            ("abs(total-50) desc", "abs(total-50) between 0 and 20"),
            ("ABS( total - 50 ) COLLATE nocase", "abs(o.total-50)<=20 and day > 3"),
            ("(total + 7)", "\"total\"+7 <= 20 and 0 < total+7"),
            ("((total + 7))", "20 >= o.total+7"),
        ] {
            assert_eq!(end(columns, condition), (End::Known, Some(21)), "{columns}, {condition}");
        }
        for (columns, condition) in [
            ("abs(total-50)", "abs(50-total) < 20"),
            ("abs(total-50)", "2*abs(total-50) < 20"),
            ("abs(total-50)", "abs(total-50)+day < 20"),
            ("total + 7", "day * total + 7 < 20"),
            ("abs(total-50)", "abs(total-50) < day"),
            ("abs(total-50)", "total < 20"),
            ("", "total < 20"),
        ] {
            assert_eq!(end(columns, condition).0, End::Unknown, "{columns}, {condition}");
        }
        let whole = ScanLimits::from_statements_by_index(
            &["select * from o order by abs(total-50)".to_owned()],
            "o",
            &index("abs(total-50)"),
        );
        assert_eq!(whole.end, End::Known);
    }

    #[test]
    fn the_outer_rows_of_a_join_end_visibly_where_nothing_ends_it_early() {
        let end = |sql: &str| joined(&[sql.to_owned()], "Cust", "o").0;
        for sql in [
            "select c.id,sum(length(note)) from cust c join o on o.customer=c.id where c.pick<10 group by c.id",
            "SELECT * FROM main.o AS x, main.\"cust\" WHERE abs(x.customer)=cust.id;",
            "select * from cust left join o using (id) order by 1",
            "select c.id,(select max(note) from o where o.customer=c.id) from cust c where c.pick=7",
            "select max(note) from cust, o where o.customer=cust.id group by cust.id",
            "select id from cust, x where x.id=cust.x and 3 > (select count(*) from o where customer=cust.id)",
            "select * from cust, o, x where o.customer=cust.id and x.id=o.x",
            "select id from cust where 5 < (select count(*) from o where customer = cust.id) order by id",
        ] {
            assert_eq!(end(sql), Loop::All, "{sql}");
        }
        for sql in [
            "select id from cust where exists (select 1 from o where customer=id)",
            "select id from cust where pick<5 and not exists (select 1 from main.o where customer=id and day>cust.day) order by 1",
            "select id, (select note from o where customer=id limit 1) from cust",
            "select id, (select note from o where customer=id) from cust",
            "select (select note from o where customer=x) from cust where x in (select 5)",
            "select id, (select count(*) from o where customer=id group by day) from cust",
        ] {
            assert_eq!(end(sql), Loop::Stops, "{sql}");
        }
        for sql in [
            "select * from cust, o where o.customer=cust.id limit 5",
            "select max(note) from cust, o where o.customer=cust.id",
            "select ifnull(max(cust.day), 0) from cust, o where o.customer=cust.id",
            "select max(id), (select count(*) from o where customer=id group by 1) from cust",
            "select distinct note from cust, o where o.customer=cust.id",
            "select id from cust where exists (select 1 from o where customer=id) limit 5",
            "select id from cust where exists (select 1 from o where customer=id) and exists (select 2 from o where customer=id)",
            "select id from cust where exists (select 1 from o, x where customer=id)",
            "select * from cust, v where v.customer=cust.id",
            "select * from (select * from cust) c, o where o.customer=c.id",
            "select (select note from cust, o where customer=cust.id) from x",
            "select * from o where customer in (select id from cust)",
            "insert into aim select * from cust, o where o.customer=cust.id",
            "with x as (select 1) select * from cust, o",
            "select * from v",
            "select",
            "select from",
            "",
        ] {
            assert_eq!(end(sql), Loop::Unknown, "{sql}");
        }
        let two = ["select * from cust, o".to_owned(), "select 2".to_owned()];
        assert_eq!(joined(&two, "cust", "o").0, Loop::Unknown);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_failure(sql in ".{0,200}", words in proptest::collection::vec(
            proptest::sample::select(vec!["select", "from", "o", "total", "<", "=", "between", "and", "in", "(", ")",
                ",", "-", "5", "7.5e", "x'", "'", "limit", "not", ".", "is", "[", "\"", "/*"]), 0..30)) {
            let words = words.join(" ");
            for expression in [&sql, &words] {
                let columns = index_columns(expression);
                let named: Vec<_> = columns.iter().map(|column| ("x".to_owned(), &column.expression[..])).collect();
                let _ = with_names(tokens(&words), &named);
            }
            let _ = (limits(&sql), limits(&words), joined(&[sql], "o", "c"), joined(&[words], "o", "c"));
        }
    }
}
