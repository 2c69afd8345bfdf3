//! How far a statement reads a table: all of it, up to a LIMIT, or for each row of another.

use super::RowLimit;
use crate::tokens::{SQL_LIMIT, Token, end_of_parentheses, tokens};
use crate::tree::Owned;
use foreseek_hints::End;

/// The tokens behind the FROM of a statement's one scan; `None` if it may have several scans.
fn source(tokens: &[Token]) -> Option<&[Token]> {
    let count = |keyword: &str| tokens.iter().filter(|token| token.is(keyword)).count();
    let more = ["join", "union", "except", "intersect", "exists", "match", "conflict"];
    if more.iter().any(|word| count(word) > 0) {
        return None;
    }
    let behind =
        |keyword: &str| tokens.iter().position(|token| token.is(keyword)).map(|at| &tokens[at + 1..]);
    let first = tokens.first()?;
    match (count("select"), count("from")) {
        (1, 1) if first.is_any(&["select", "insert", "replace"]) => behind("from"),
        (0, 1) if first.is("delete") => behind("from"),
        (0, 0) if first.is("update") => match &tokens[1..] {
            [or, _, rest @ ..] if or.is("or") => Some(rest),
            rest => Some(rest),
        },
        _ => None,
    }
}

/// How far a nested loop goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loop {
    /// It visits all outer rows, and everything that each of them looks up.
    All,
    /// It visits all outer rows, and for each the look-ups up to a matching row.
    Stops,
    /// That is not visible.
    Unknown,
}

impl Loop {
    /// Whether its end is visible before it is known where it stops.
    pub(crate) fn end(self) -> End {
        if self == Self::All { End::Known } else { End::Unknown }
    }
}

/// Functions of all rows. Those for least and greatest values may end with the first row, if an index has the
/// values in order.
const WHOLE: [&str; 8] = ["count", "sum", "total", "avg", "group_concat", "string_agg", "min", "max"];

/// How far a nested loop goes that looks rows of `outer` up in `inner`. It goes to the end in a SELECT of both
/// tables, and in one of `outer` with a subquery of `inner`, if nothing ends it early. Also returns how many
/// tables the statement's own FROM clause names, as far as it is understood.
pub(crate) fn joined(statements: &[String], outer: &str, inner: &str) -> (Loop, usize) {
    let [statement] = statements else { return (Loop::Unknown, 0) };
    if statement.len() > SQL_LIMIT {
        return (Loop::Unknown, 0);
    }
    let tokens = tokens(statement);
    let own = visited(&tokens).unwrap_or_default();
    (loop_of(&tokens, &own, outer, inner), own.len())
}

/// The same for a statement whose own FROM clause names these tables.
fn loop_of(tokens: &[Token], own: &[String], outer: &str, inner: &str) -> Loop {
    let is_own = |table: &str| is_among(own, tokens, table);
    if !is_own(outer) {
        return Loop::Unknown;
    }
    let is_of_inner = |query: &[Token]| {
        let tables = tables_of(query);
        tables.is_some_and(|tables| matches!(&tables[..], [only] if only.eq_ignore_ascii_case(inner)))
    };
    let mut within = subqueries(tokens).filter(|(_, query)| is_of_inner(query));
    match (is_own(inner), within.next(), within.next()) {
        (true, None, _) => Loop::All,
        (false, Some((before, query)), None) => {
            // SQLite ends a scalar subquery, and an EXISTS, at its first row.
            let before = before.iter().rev().nth(1);
            let is_whole = has_any(query, &WHOLE) && !has_any(query, &["group"])
                || before.is_some_and(|word| word.is("in"));
            let stops = has_any(query, &["limit"]) || before.is_some_and(|word| word.is("exists"));
            if stops || !is_whole { Loop::Stops } else { Loop::All }
        }
        _ => Loop::Unknown,
    }
}

/// The tables of a SELECT's own FROM clause, if nothing ends its loops early. The tables of an EXISTS or
/// another subquery are looked up for each of their rows.
fn visited(tokens: &[Token]) -> Option<Vec<String>> {
    let own = without_subqueries(tokens);
    let apart = ["limit", "distinct", "with", "match"];
    if has_any(&own, &apart) || has_any(&own, &COMPOUND) || !own.first()?.is("select") {
        return None;
    }
    // An aggregate of one row may end with the first row of its order.
    if has_any(&own, &["min", "max"]) && !has_any(&own, &["group"]) {
        return None;
    }
    tables_of(&own)
}

/// Whether one of these keywords is among the tokens.
fn has_any(tokens: &[Token], keywords: &[&str]) -> bool {
    tokens.iter().any(|token| token.is_any(keywords))
}

/// The tables of the first FROM clause.
fn tables_of(query: &[Token]) -> Option<Vec<String>> {
    tables(&query[query.iter().position(|token| token.is("from"))? + 1..])
}

/// Whether a statement is a SELECT of tables, this one among them, in which nothing ends its loops early. A
/// table whose index is compared only with literals is then read as far as these show.
pub(super) fn is_visited(tokens: &[Token], table: &str) -> bool {
    visited(tokens).is_some_and(|own| is_among(&own, tokens, table))
}

/// Whether this table is one of those in the own FROM clause of a statement, and is in no subquery.
fn is_among(own: &[String], tokens: &[Token], table: &str) -> bool {
    let is_this = |name: &&String| name.eq_ignore_ascii_case(table);
    // A name before a dot is the table of a column.
    let within = |query: &[Token]| {
        query.iter().enumerate().any(|(at, token)| {
            matches!(token, Token::Name(name, _) if name.eq_ignore_ascii_case(table))
                && !query.get(at + 1).is_some_and(|next| next.is_sign(b'.'))
        })
    };
    own.iter().filter(is_this).count() == 1 && !subqueries(tokens).any(|(_, query)| within(query))
}

/// The subqueries: the tokens from a SELECT after a parenthesis to its end, with the tokens before them.
fn subqueries(tokens: &[Token]) -> impl Iterator<Item = (&[Token], &[Token])> {
    let begins = |at: &usize| tokens[*at].is("select") && *at > 0 && tokens[at - 1].is_sign(b'(');
    (0..tokens.len()).filter(begins).map(|at| {
        let (before, rest) = tokens.split_at(at);
        (before, &rest[..end_of_parentheses(rest).unwrap_or(rest.len())])
    })
}

/// The own tokens of a statement: of a subquery, only its parentheses.
fn without_subqueries(tokens: &[Token]) -> Vec<Token> {
    let mut own = Vec::with_capacity(tokens.len());
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        let is_within = depth > 0;
        match token {
            Token::Sign(b'(') if is_within || tokens.get(at + 1).is_some_and(|next| next.is("select")) => {
                depth += 1;
            }
            Token::Sign(b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !is_within || depth == 0 {
            own.push(token.clone());
        }
    }
    own
}

/// The tables in a FROM clause, which ends with its statement or its parenthesis. `None` if it has a subquery.
fn tables(tokens: &[Token]) -> Option<Vec<String>> {
    let (mut tables, mut depth, mut expected) = (Vec::new(), 0usize, true);
    let mut rest = tokens;
    while let Some((token, more)) = rest.split_first() {
        rest = more;
        match token {
            Token::Sign(b'(') if expected => return None,
            Token::Sign(b'(') => depth += 1,
            Token::Sign(b')') if depth == 0 => break,
            Token::Sign(b')') => depth -= 1,
            Token::Name(name, _) if expected => {
                let own = match more {
                    [dot, Token::Name(own, _), after @ ..] if dot.is_sign(b'.') => {
                        rest = after;
                        own
                    }
                    _ => name,
                };
                tables.push(own.clone());
                expected = false;
            }
            _ if depth > 0 => {}
            Token::Sign(b';') => break,
            token if token.is_any(&COMPOUND) => return None,
            token if token.is_any(&CLAUSES) => break,
            Token::Sign(b',') => expected = true,
            token => expected = token.is("join"),
        }
    }
    Some(tables)
}

/// The keywords before a second SELECT.
const COMPOUND: [&str; 3] = ["union", "except", "intersect"];
/// The keywords that may follow the tables of a statement.
const CLAUSES: [&str; 8] = ["where", "order", "group", "limit", "window", "having", "set", "returning"];

/// Whether the end of a statement's one scan is visible, and how many rows it reads.
pub(super) fn shape(tokens: &[Token], table: &str, named: bool) -> (End, Option<RowLimit>) {
    let unseen = (End::Unknown, None);
    let count = |keyword: &str| tokens.iter().filter(|token| token.is(keyword)).count();
    let is_own = |tables: Vec<String>| matches!(&tables[..], [only] if only.eq_ignore_ascii_case(table));
    if !source(tokens).and_then(tables).is_some_and(is_own) {
        return unseen;
    }
    // The bound of an expression is not known.
    if !named && count("where") > 0 {
        return unseen;
    }
    match tokens.iter().position(|token| token.is("limit")) {
        None => (End::Known, None),
        Some(at) => match &tokens[at + 1..] {
            [Token::Literal(Owned::Integer(rows)), rest @ ..] => {
                let more = match rest {
                    [word, Token::Literal(Owned::Integer(more)), ..]
                        if word.is("offset") || word.is_sign(b',') =>
                    {
                        *more
                    }
                    [] | [Token::Sign(b';'), ..] => 0,
                    _ => return unseen,
                };
                match u64::try_from(rows.saturating_add(more)) {
                    Ok(count) => {
                        let apart = ["where", "group", "having", "distinct"];
                        let exact = !tokens.iter().any(|token| apart.iter().any(|word| token.is(word)));
                        (End::Known, Some(RowLimit { count, exact }))
                    }
                    Err(_) => unseen,
                }
            }
            _ => unseen,
        },
    }
}
