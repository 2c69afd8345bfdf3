//! The words of a recording's line.

use crate::percent;
use foreseek_units::{ByteOffset, ByteSpan, Pages, Span};
use std::str::{FromStr, SplitAsciiWhitespace};

/// Why a line cannot be read.
pub type Reason = String;

/// The words of a line, in order.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    words: SplitAsciiWhitespace<'a>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { words: line.split_ascii_whitespace() }
    }

    /// The next word; `what` names it in an error.
    ///
    /// # Errors
    /// The line ends before it.
    pub fn word(&mut self, what: &str) -> Result<&'a str, Reason> {
        self.words.next().ok_or_else(|| format!("the line ends before the {what}"))
    }

    /// Checks that the next word is this one.
    ///
    /// # Errors
    /// It is another word.
    pub fn expect(&mut self, word: &str) -> Result<(), Reason> {
        match self.word(word)? {
            found if found == word => Ok(()),
            found => Err(format!("'{found}' should be '{word}'")),
        }
    }

    pub(super) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Reason> {
        let word = self.word(what)?;
        number(word).map_err(|reason| format!("{what}: {reason}"))
    }

    /// The value of the next word, which must be `key=value`.
    ///
    /// # Errors
    /// It is not.
    pub fn value(&mut self, key: &str) -> Result<&'a str, Reason> {
        let word = self.word(key)?;
        let value = word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        value.ok_or_else(|| format!("'{word}' should be '{key}=...'"))
    }

    /// The same for a key that earlier releases wrote as `older`.
    ///
    /// # Errors
    /// The next word has neither key.
    pub fn value_once(&mut self, key: &str, older: &str) -> Result<&'a str, Reason> {
        let before = self.clone();
        self.value(key).or_else(|reason| {
            *self = before;
            self.value(older).map_err(|_| reason)
        })
    }

    /// The same for a text that was encoded as one word.
    pub(super) fn text(&mut self, key: &str) -> Result<String, Reason> {
        let word = self.value(key)?;
        percent::decoded(word).ok_or_else(|| format!("{key}: '{word}' is no text"))
    }

    pub(super) fn bytes(&mut self) -> Result<ByteSpan, Reason> {
        let (start, end) = range(self.word("range")?)?;
        Ok(Span::new(ByteOffset(start), ByteOffset(end)))
    }

    /// All remaining words.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn rest<T>(
        &mut self,
        into: &mut Vec<T>,
        mut read: impl FnMut(&str) -> Result<T, Reason>,
    ) -> Result<(), Reason> {
        into.clear();
        for word in self.words.by_ref() {
            into.push(read(word)?);
        }
        Ok(())
    }

    /// The next word, if there is one.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    /// Whether no word is left.
    pub(super) fn is_over(&self) -> bool {
        self.words.clone().next().is_none()
    }

    pub(super) fn end(&mut self) -> Result<(), Reason> {
        self.words.next().map_or(Ok(()), |word| Err(format!("'{word}' is one word too many")))
    }
}

/// A number of any type.
///
/// # Errors
/// It is not a number, or too large.
pub fn number<T: FromStr>(word: &str) -> Result<T, Reason> {
    word.parse().map_err(|_| format!("'{word}' is no number, or too large a one"))
}

/// Pages, or `-` for `None`.
///
/// # Errors
/// It is neither.
pub fn optional(word: &str) -> Result<Option<Pages>, Reason> {
    if word == "-" { Ok(None) } else { number(word).map(|pages| Some(Pages(pages))) }
}

pub(super) fn range(word: &str) -> Result<(u64, u64), Reason> {
    let (start, end) = word.split_once("..").ok_or_else(|| format!("'{word}' is no range: START..END"))?;
    Ok((number(start)?, number(end)?))
}
