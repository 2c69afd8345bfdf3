//! The tokens of an SQL text, for [declarations](crate::sql) in a schema and for running
//! [statements](crate::ends).
//!
//! This is no parser: names, literals and signs in their order, without comments. SQLite has accepted the
//! texts, therefore nothing is validated.

use crate::tree::Owned;
use std::borrow::Cow;

/// Longer statements are not read: a generated one with so many literals has no single end.
pub(crate) const SQL_LIMIT: usize = 64 << 10;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A name or keyword in lower case; `true` if it was quoted.
    Name(String, bool),
    Literal(Owned),
    Sign(u8),
}

impl Token {
    pub(crate) fn is(&self, keyword: &str) -> bool {
        matches!(self, Self::Name(name, false) if name == keyword)
    }

    pub(crate) fn is_any(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }

    pub(crate) fn is_sign(&self, sign: u8) -> bool {
        *self == Self::Sign(sign)
    }

    /// Its name in a declaration, where SQLite accepts one in single quotes, too.
    pub(crate) fn name(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Name(name, _) => Some(name.into()),
            Self::Literal(Owned::Text(text)) => {
                Some(String::from_utf8_lossy(text).to_ascii_lowercase().into())
            }
            Self::Literal(_) | Self::Sign(_) => None,
        }
    }
}

/// The tokens of a text.
pub(crate) fn tokens(sql: &str) -> Vec<Token> {
    let sql = sql.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&first) = sql.get(at) {
        let rest = &sql[at..];
        let (token, length) = match first {
            b if b.is_ascii_whitespace() => (None, 1),
            b'-' if rest.get(1) == Some(&b'-') => (None, until(rest, b"\n")),
            b'/' if rest.get(1) == Some(&b'*') => (None, 2 + until(&rest[2..], b"*/")),
            b'\'' => {
                let (text, length) = quoted(rest, b'\'');
                (Some(Token::Literal(Owned::Text(text.into()))), length)
            }
            b'x' | b'X' if rest.get(1) == Some(&b'\'') => {
                let (digits, length) = quoted(&rest[1..], b'\'');
                let bytes = digits
                    .chunks(2)
                    .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
                (Some(Token::Literal(Owned::Blob(bytes.collect()))), length + 1)
            }
            quote @ (b'"' | b'`') => {
                let (name, length) = quoted(rest, quote);
                (Some(Token::Name(String::from_utf8_lossy(&name).to_ascii_lowercase(), true)), length)
            }
            b'[' => {
                let length = until(rest, b"]");
                let name = String::from_utf8_lossy(&rest[1..length]);
                (Some(Token::Name(name.trim_end_matches(']').to_ascii_lowercase(), true)), length)
            }
            b'0'..=b'9' => number(rest),
            b if is_word(b) => {
                let length = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len());
                let name = String::from_utf8_lossy(&rest[..length]).to_ascii_lowercase();
                (Some(Token::Name(name, false)), length)
            }
            sign => (Some(Token::Sign(sign)), 1),
        };
        tokens.extend(token);
        at += length;
    }
    tokens
}

/// A number; an unknown form of one becomes a sign.
fn number(rest: &[u8]) -> (Option<Token>, usize) {
    let is_part = |at: usize, byte: u8| {
        byte.is_ascii_alphanumeric()
            || byte == b'.'
            || byte == b'_'
            || matches!(byte, b'+' | b'-') && at > 0 && matches!(rest[at - 1], b'e' | b'E')
    };
    let length = (0..rest.len()).find(|&at| !is_part(at, rest[at])).unwrap_or(rest.len());
    let text = String::from_utf8_lossy(&rest[..length]);
    let value = match text.parse::<i64>() {
        Ok(integer) => Some(Owned::Integer(integer)),
        Err(_) => text.parse::<f64>().ok().filter(|real| real.is_finite()).map(Owned::Real),
    };
    (Some(value.map_or(Token::Sign(b'?'), Token::Literal)), length)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Length up to and including `end`, or all of it.
fn until(bytes: &[u8], end: &[u8]) -> usize {
    bytes.windows(end.len()).position(|window| window == end).map_or(bytes.len(), |at| at + end.len())
}

/// The text in quotes, in which a doubled quote is one, and the length of all.
fn quoted(bytes: &[u8], quote: u8) -> (Vec<u8>, usize) {
    let mut text = Vec::new();
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        if byte == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return (text, at + 1);
            }
            at += 1;
        }
        text.push(byte);
        at += 1;
    }
    (text, at)
}

/// Whether a token is a comparing sign.
pub(crate) fn is_comparing(token: &Token) -> bool {
    matches!(token, Token::Sign(b'<' | b'>' | b'='))
}

/// The signs of an operator at the start of `tokens`, or `IS`, and the tokens after it.
pub(crate) fn comparison(tokens: &[Token]) -> Option<(&[Token], &[Token])> {
    let signs = tokens.iter().take_while(|token| is_comparing(token)).count();
    match tokens {
        [first, ..] if first.is("is") => Some(tokens.split_at(1)),
        _ => (signs > 0).then(|| tokens.split_at(signs)),
    }
}

/// A literal at the start of `tokens`, with its sign, and the tokens after it.
pub(crate) fn literal(tokens: &[Token]) -> Option<(Owned, &[Token])> {
    match tokens {
        [Token::Literal(value), rest @ ..] => Some((value.clone(), rest)),
        [Token::Sign(b'+'), Token::Literal(value), rest @ ..] => Some((value.clone(), rest)),
        [Token::Sign(b'-'), Token::Literal(Owned::Integer(value)), rest @ ..] => {
            Some((Owned::Integer(value.wrapping_neg()), rest))
        }
        [Token::Sign(b'-'), Token::Literal(Owned::Real(value)), rest @ ..] => {
            Some((Owned::Real(-value), rest))
        }
        _ => None,
    }
}

/// Whether the tokens after a literal make it part of an expression.
pub(crate) fn continues(rest: &[Token]) -> bool {
    matches!(rest.first(), Some(Token::Sign(b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'&' | b'<' | b'>')))
}

/// Whether the first parenthesis ends with the last token.
pub(crate) fn is_in_parentheses(tokens: &[Token]) -> bool {
    let [first, within @ .., last] = tokens else { return false };
    first.is_sign(b'(') && last.is_sign(b')') && end_of_parentheses(within).is_none()
}

/// The end of the parenthesis that holds these tokens.
pub(crate) fn end_of_parentheses(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0usize;
    tokens.iter().position(|token| {
        let closes = token.is_sign(b')') && depth == 0;
        depth += usize::from(token.is_sign(b'('));
        depth = depth.saturating_sub(usize::from(token.is_sign(b')')));
        closes
    })
}
