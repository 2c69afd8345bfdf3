//! Expressions of an index in a statement: with the same tokens as in the index, an expression counts as a
//! column.

use crate::tokens::Token;

/// A statement in which a name replaces each of these expressions.
pub(super) fn with_names(tokens: Vec<Token>, expressions: &[(String, &[Token])]) -> Vec<Token> {
    if expressions.is_empty() {
        return tokens;
    }
    let (mut named, mut at) = (Vec::with_capacity(tokens.len()), 0);
    while at < tokens.len() {
        let rest = &tokens[at..];
        // A part of a longer expression does not count.
        let is_part = |token: Option<&Token>| {
            token.is_some_and(|token| {
                matches!(token, Token::Sign(b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'&' | b'~' | b'.'))
            })
        };
        let found = expressions.iter().find_map(|(name, words)| {
            let length = length_of(words, rest)?;
            (!is_part(named.last()) && !is_part(rest.get(length))).then_some((name, length))
        });
        match found {
            Some((name, length)) => {
                named.push(Token::Name(name.clone(), true));
                at += length;
            }
            None => {
                named.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    named
}

/// How many tokens of a statement these are. They name columns without their table.
fn length_of(words: &[Token], statement: &[Token]) -> Option<usize> {
    let mut at = 0;
    for word in words {
        let rest = &statement[at..];
        at += match (word, rest) {
            (Token::Name(word, _), [Token::Name(..), dot, Token::Name(name, _), ..])
                if dot.is_sign(b'.') && word == name =>
            {
                3
            }
            (Token::Name(word, _), [Token::Name(name, _), ..]) if word == name => 1,
            (word, [token, ..]) if word == token => 1,
            _ => return None,
        };
    }
    (!words.is_empty()).then_some(at)
}
