//! The words of a recording's line.

use crate::Extent;
use crate::percent;
use foreseek_units::{ByteOffset, ByteSpan, Lba, PageIndex, PageSpan, Pages, Span};
use std::str::{FromStr, SplitAsciiWhitespace};

/// Why a line cannot be read.
pub type Reason = String;

/// The words of a line, in order.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    words: SplitAsciiWhitespace<'a>,
}

impl<'a> Fields<'a> {
    /// The words of this line.
    #[must_use]
    pub fn new(line: &'a str) -> Self {
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

    /// The next word as a number.
    ///
    /// # Errors
    /// As [`word`](Self::word) and [`number`].
    pub fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Reason> {
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
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.words.clone().next().is_none()
    }

    /// Checks that no word is left.
    ///
    /// # Errors
    /// There is one.
    pub fn end(&mut self) -> Result<(), Reason> {
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

/// A range of pages.
///
/// # Errors
/// It is none.
pub fn pages(word: &str) -> Result<PageSpan, Reason> {
    range(word).map(|(start, end)| Span::new(PageIndex(start), PageIndex(end)))
}

/// Pages and their address on the device.
///
/// # Errors
/// It is no extent.
pub fn extent(word: &str) -> Result<Extent, Reason> {
    let parts = word.split_once('+').and_then(|(page, rest)| Some((page, rest.split_once('@')?)));
    let (page, (pages, lba)) = parts.ok_or_else(|| format!("'{word}' is no extent: PAGE+PAGES@LBA"))?;
    Ok(Extent { page: PageIndex(number(page)?), pages: Pages(number(pages)?), lba: Lba(number(lba)?) })
}

fn range(word: &str) -> Result<(u64, u64), Reason> {
    let (start, end) = word.split_once("..").ok_or_else(|| format!("'{word}' is no range: START..END"))?;
    Ok((number(start)?, number(end)?))
}
