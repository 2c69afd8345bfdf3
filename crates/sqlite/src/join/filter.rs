//! The rows of the outer side that are looked up, as far as the statement's text shows it.
//!
//! `c.pick < 10`, `c.kind IN ('a', 'b')`, `c.day BETWEEN 5 AND 9`: rows that fail such a comparison with
//! literals are skipped before anything is looked up for them. Other conditions are not recognised, and then
//! some predicted pages are not read. As in [`ends`](crate::ends), correctness does not depend on it: the
//! statement's allowance bounds the waste.

use super::value;
use crate::ends::like;
use crate::header::Encoding;
use crate::page::Page;
use crate::record::{Collation, Order, Value, compare};
use crate::tokens::{SQL_LIMIT, Token, continues, is_comparing, literal, tokens};
use crate::tree::Owned;
use std::cmp::Ordering;

/// The most comparisons that are kept of one statement.
const CONDITIONS_LIMIT: usize = 16;

/// The conditions on the rows that are looked up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    /// The column, counted as in [`value`].
    column: usize,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    /// How the column's value may compare with this one.
    Is(Vec<Ordering>, Owned),
    Among(Vec<Owned>),
}

impl Filter {
    /// The conditions of the one running statement on a table. `columns`: their names, with their numbers as in
    /// [`value`]. Empty if several statements run, or if a condition may not hold for every row.
    pub(crate) fn by(statements: &[String], table: &str, columns: &[(String, usize)]) -> Self {
        let [statement] = statements else { return Self::default() };
        if statement.len() > SQL_LIMIT {
            return Self::default();
        }
        let tokens = tokens(statement);
        let from = tokens.iter().position(|token| token.is("from")).unwrap_or(tokens.len());
        let asked = &tokens[from..];
        let ends = ["group", "having", "order", "limit", "window"];
        let end = asked.iter().position(|token| ends.iter().any(|word| token.is(word)));
        let asked = &asked[..end.unwrap_or(asked.len())];
        let apart = [
            "or",
            "not",
            "case",
            "iif",
            "filter",
            "collate",
            "left",
            "right",
            "full",
            "union",
            "except",
            "intersect",
        ];
        if asked.iter().any(|token| apart.iter().any(|word| token.is(word))) {
            return Self::default();
        }
        let names = aliases(asked, table);
        let named = |token: &Token, name: &str| matches!(token, Token::Name(own, _) if own == name);
        let mut filter = Self::default();
        for at in 0..asked.len() {
            let Some((_, column)) = columns.iter().find(|(name, _)| named(&asked[at], name)) else {
                continue;
            };
            let is_own = match &asked[..at] {
                [.., Token::Name(qualifier, _), dot] if dot.is_sign(b'.') => names.contains(qualifier),
                _ => true,
            };
            if is_own && filter.conditions.len() < CONDITIONS_LIMIT {
                let tests = tests(&asked[at + 1..]).into_iter();
                filter.conditions.extend(tests.map(|test| Condition { column: *column, test }));
            }
        }
        filter
    }

    /// Whether no later row passes, where this row fails and an earlier one passed: rows come in the order of
    /// the column `order`.
    pub(crate) fn has_ended(&self, page: &Page<'_>, cell: usize, order: usize, encoding: Encoding) -> bool {
        self.conditions.iter().filter(|condition| condition.column == order).any(|condition| {
            condition.test.is_range()
                && value(page, cell, order).is_some_and(|value| !condition.test.holds(value, encoding))
        })
    }

    /// Whether the one running statement may end the rows of a table in an unrecognised way. The rows are
    /// ordered by the column `order`, which has these names; each condition on it must be one of the filter's.
    pub(crate) fn hides_end(&self, statements: &[String], names: &[&str], order: usize) -> bool {
        let [statement] = statements else { return true };
        let tokens = tokens(statement);
        let named = |token: &Token| matches!(token, Token::Name(name, _) if names.contains(&name.as_str()));
        let is_kept = self.conditions.iter().any(|condition| condition.column == order);
        (0..tokens.len()).filter(|&at| named(&tokens[at])).any(|at| {
            let right = &tokens[at + 1..];
            may_bound(&tokens[..at], right) && (!is_kept || tests(right).is_empty())
        })
    }

    /// Whether a row may be looked up.
    pub(crate) fn passes(&self, page: &Page<'_>, cell: usize, encoding: Encoding) -> bool {
        self.conditions.iter().all(|condition| {
            value(page, cell, condition.column).is_none_or(|value| condition.test.holds(value, encoding))
        })
    }
}

impl Test {
    /// Whether the passing values are contiguous.
    fn is_range(&self) -> bool {
        matches!(self, Self::Is(orderings, _) if *orderings != [Ordering::Less, Ordering::Greater])
    }

    fn holds(&self, held: Value<'_>, encoding: Encoding) -> bool {
        let plain = Order { collation: Collation::Binary, descending: false };
        // A column's affinity may convert a literal of another type; NULL passes no comparison.
        let compared = |value: &Owned| match held {
            Value::Null => Some(None),
            _ if like(value.value(), held) => compare(held, value.value(), plain, encoding).map(Some),
            _ => None,
        };
        match self {
            Self::Is(orderings, value) => {
                compared(value).is_none_or(|is| is.is_some_and(|is| orderings.contains(&is)))
            }
            Self::Among(values) => {
                values.iter().any(|value| compared(value).is_none_or(|is| is == Some(Ordering::Equal)))
            }
        }
    }
}

/// Whether a column between these tokens may bound the rows that are read: it is compared, other than with
/// another column for equality, as the key of a join.
fn may_bound(left: &[Token], right: &[Token]) -> bool {
    let mut left = match left {
        [rest @ .., Token::Name(..), dot] if dot.is_sign(b'.') => rest,
        _ => left,
    };
    let mut right = right;
    while let ([outside @ .., open], [close, behind @ ..]) = (left, right)
        && open.is_sign(b'(')
        && close.is_sign(b')')
    {
        (left, right) = (outside, behind);
    }
    let words = ["between", "in", "like", "glob", "is", "not", "collate"];
    if continues(right) && !right.first().is_some_and(is_comparing)
        || right.first().is_some_and(|word| words.iter().any(|it| word.is(it)))
    {
        return true;
    }
    let bounds = |signs: &[Token], operand: Option<&Token>| {
        let is_key = signs.iter().all(|sign| sign.is_sign(b'=')) && matches!(operand, Some(Token::Name(..)));
        !signs.is_empty() && !is_key
    };
    let (signs, operand) = right.split_at(right.iter().take_while(|token| is_comparing(token)).count());
    let behind = left.iter().rev().take_while(|token| is_comparing(token)).count();
    let (before, own) = left.split_at(left.len() - behind);
    bounds(signs, operand.first()) || bounds(own, before.last())
}

/// The names of columns that statements compare for equality with a column of one of these names.
pub(crate) fn compared_with(statements: &[String], names: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for statement in statements.iter().filter(|statement| statement.len() <= SQL_LIMIT) {
        let tokens = tokens(statement);
        let name = |token: &Token| match token {
            Token::Name(name, _) => Some(name.clone()),
            _ => None,
        };
        for at in (0..tokens.len()).filter(|&at| tokens[at].is_sign(b'=')) {
            let left = tokens[..at].iter().rev().find(|token| !token.is_sign(b'=')).and_then(name);
            let right = match &tokens[at + 1..] {
                [_, dot, token, ..] if dot.is_sign(b'.') => name(token),
                [token, ..] => name(token),
                [] => None,
            };
            let (Some(left), Some(right)) = (left, right) else { continue };
            found.extend(names.contains(&left).then(|| right.clone()));
            found.extend(names.contains(&right).then_some(left));
        }
        for at in (0..tokens.len()).filter(|&at| tokens[at].is("using")) {
            let listed = tokens[at + 1..].iter().take_while(|token| !token.is_sign(b')')).filter_map(name);
            found.extend(listed.filter(|name| names.contains(name)));
        }
    }
    found
}

/// The names of a table in a statement.
fn aliases(tokens: &[Token], table: &str) -> Vec<String> {
    let table = table.to_ascii_lowercase();
    let mut names = vec![table.clone()];
    for (at, _) in
        tokens.iter().enumerate().filter(|(_, token)| matches!(token, Token::Name(name, _) if *name == table))
    {
        let rest = &tokens[at + 1..];
        let rest = rest.strip_prefix(&[Token::Name("as".to_owned(), false)][..]).unwrap_or(rest);
        if let [Token::Name(alias, _), ..] = rest {
            names.push(alias.clone());
        }
    }
    names
}

/// The conditions on a column whose name is before these tokens.
fn tests(right: &[Token]) -> Vec<Test> {
    use Ordering::{Equal, Greater, Less};
    let signs: Vec<u8> = right
        .iter()
        .take_while(|token| is_comparing(token))
        .filter_map(|token| if let Token::Sign(sign) = token { Some(*sign) } else { None })
        .collect();
    if !signs.is_empty() {
        // The sign of a number follows its operator.
        let Some((value, rest)) = literal(&right[signs.len()..]) else { return Vec::new() };
        let orderings = match signs.as_slice() {
            b"=" | b"==" => vec![Equal],
            b"<" => vec![Less],
            b"<=" => vec![Less, Equal],
            b">" => vec![Greater],
            b">=" => vec![Greater, Equal],
            b"<>" => vec![Less, Greater],
            _ => return Vec::new(),
        };
        return if continues(rest) { Vec::new() } else { vec![Test::Is(orderings, value)] };
    }
    match right {
        [word, rest @ ..] if word.is("between") => {
            let Some((low, [and, rest @ ..])) = literal(rest) else { return Vec::new() };
            match literal(rest).filter(|(_, rest)| and.is("and") && !continues(rest)) {
                Some((high, _)) => {
                    vec![Test::Is(vec![Greater, Equal], low), Test::Is(vec![Less, Equal], high)]
                }
                None => Vec::new(),
            }
        }
        [word, open, rest @ ..] if word.is("in") && open.is_sign(b'(') => {
            let (mut values, mut rest) = (Vec::new(), rest);
            while let Some((value, after)) = literal(rest) {
                values.push(value);
                match after {
                    [next, more @ ..] if next.is_sign(b',') => rest = more,
                    [next, ..] if next.is_sign(b')') => return vec![Test::Among(values)],
                    _ => break,
                }
            }
            Vec::new()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests_of_filters {
    use super::*;

    fn filter(sql: &str) -> Filter {
        let columns = [("id".to_owned(), 0), ("pick".to_owned(), 2), ("kind".to_owned(), 3)];
        Filter::by(&[sql.to_owned()], "cust", &columns)
    }

    fn is(column: usize, orderings: &[Ordering], value: i64) -> Condition {
        Condition { column, test: Test::Is(orderings.to_vec(), Owned::Integer(value)) }
    }

    #[test]
    fn comparisons_of_the_tables_own_columns_with_literals_count() {
        use Ordering::{Equal, Greater, Less};
        let found = filter(
            "select pick=3 from cust as c join o on o.customer=c.id where c.pick<10 and o.pick>5 and id>=-7 group by c.id having pick=4",
        );
        assert_eq!(found.conditions, [is(2, &[Less], 10), is(0, &[Greater, Equal], -7)]);
        let between = filter("select 1 from o, cust where cust.pick between 3 and 5 and cust.pick=o.x");
        assert_eq!(between.conditions, [is(2, &[Greater, Equal], 3), is(2, &[Less, Equal], 5)]);
        let among = filter("select 1 from cust where kind in ('a','b') and pick in (select 1 from o)");
        let texts = ["a", "b"].map(|text| Owned::Text(text.as_bytes().into())).to_vec();
        assert_eq!(among.conditions, [Condition { column: 3, test: Test::Among(texts) }]);
    }

    #[test]
    fn columns_that_are_compared_with_one_another_are_named() {
        let compared = |sql: &str, name: &str| compared_with(&[sql.to_owned()], &[name.to_owned()]);
        assert_eq!(compared("select 1 from c join o on o.customer=c.id where x=3", "customer"), ["id"]);
        assert_eq!(compared("select 1 from c, o where c.id == customer", "customer"), ["id"]);
        assert_eq!(compared("select 1 from c join o using (region, customer)", "customer"), ["customer"]);
        assert!(compared("select 1 from o where customer=5", "customer").is_empty());
    }

    #[test]
    fn conditions_that_need_not_hold_for_every_row_are_no_filter() {
        for sql in [
            "select 1 from cust where pick=3 or kind='a'",
            "select 1 from cust where not pick=3",
            "select 1 from o left join cust on pick=3",
            "select 1 from cust where pick<3+x",
            "select 1 from cust where pick<x",
            "select 1 from cust where case when pick=3 then 1 end",
        ] {
            assert_eq!(filter(sql), Filter::default(), "{sql}");
        }
        let two = ["select 1 from cust where pick=3".to_owned(), "select 2".to_owned()];
        assert_eq!(Filter::by(&two, "cust", &[("pick".to_owned(), 2)]), Filter::default());
    }

    #[test]
    fn an_end_is_hidden_if_the_ordered_column_has_an_unknown_condition() {
        let hidden = |sql: &str| filter(sql).hides_end(&[sql.to_owned()], &["id", "rowid"], 0);
        for sql in [
            "select c.id from cust c join o on o.customer=c.id where c.pick<10 group by c.id",
            "select count(c.id) from cust c, o where c.id == o.customer and c.id<2000 order by c.id",
            "select 1 from cust c, o where o.customer=c.id and c.id between 5 and 90",
            "select id, (select max(note) from o where o.customer=cust.id) from cust where pick=7",
            "select 1 from o join cust using (id) where pick<abs(3)",
        ] {
            assert!(!hidden(sql), "{sql}");
        }
        for sql in [
            "select 1 from cust c left join o on o.customer=c.id where c.id between 5 and 90",
            "select 1 from cust c, o where o.customer=c.id and c.id<2000 and (c.pick=3 or c.pick=4)",
            "select 1 from cust c, o where o.customer=c.id and c.id<2000+5",
            "select 1 from cust c, o where o.customer=c.id and c.id>5 and c.id<abs(2000)",
            "select 1 from cust c, o where o.customer=c.id and 2000>c.id",
            "select 1 from cust c, o where o.customer=c.id and c.id like '9%'",
            "select 1 from cust c, o where o.customer=c.id and (c.id)<2000",
            "select 1 from cust c, o where o.customer=c.id and c.id<o.day",
            "select (select max(note) from o where customer=cust.id order by 1) from cust where id<2000",
        ] {
            assert!(hidden(sql), "{sql}");
        }
        let two = ["select 1 from cust".to_owned(), "select 2".to_owned()];
        assert!(Filter::default().hides_end(&two, &["id"], 0));
    }

    #[test]
    fn null_passes_no_comparison_and_a_value_of_another_sort_passes_each() {
        let test = Test::Is(vec![Ordering::Less], Owned::Integer(10));
        assert!(
            test.holds(Value::Integer(9), Encoding::Utf8) && test.holds(Value::Real(9.5), Encoding::Utf8)
        );
        assert!(!test.holds(Value::Integer(10), Encoding::Utf8) && !test.holds(Value::Null, Encoding::Utf8));
        assert!(test.holds(Value::Text(b"99"), Encoding::Utf8), "the column's affinity decides");
        let among = Test::Among(vec![Owned::Integer(3), Owned::Integer(4)]);
        assert!(
            among.holds(Value::Integer(4), Encoding::Utf8) && !among.holds(Value::Integer(5), Encoding::Utf8)
        );
    }
}
