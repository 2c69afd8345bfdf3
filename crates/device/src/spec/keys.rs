//! Reads a table of a profile key by key: each with its type and its range; at the end no key may be left
//! over.

use super::error::ProfileError;
use foreseek_units::Bytes;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The most letters in which a misspelt key may differ: with more, other keys of a profile are as near.
const SLIP_LIMIT: usize = 2;

/// The longest text of a profile: that of a drive with a description of every track has 2 MB.
const TEXT_LIMIT: usize = 8 << 20;

/// A table and its path.
#[derive(Debug)]
pub struct Keys<'a> {
    file: &'a str,
    path: String,
    table: &'a Table,
    asked: BTreeSet<&'static str>,
}

/// The range of a number, ends included.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<T> {
    /// The lower end.
    pub least: T,
    /// The upper end.
    pub most: T,
}

/// From `least` to `most`, ends included.
#[must_use]
pub const fn bounds<T>(least: T, most: T) -> Bounds<T> {
    Bounds { least, most }
}

/// A number as a user would write it: very large and very small ones with an exponent.
pub(crate) fn short(number: f64) -> String {
    let size = number.abs();
    let plain = size == 0.0 || !size.is_finite() || (1e-4..1e15).contains(&size);
    if plain { number.to_string() } else { format!("{number:e}") }
}

/// The TOML parser's error, without the names of Rust's types.
fn plain(message: &str) -> String {
    // The wording depends on how far the number is beyond 2^63.
    if message.contains("integer `") || message.contains("value was too large") {
        return format!("the whole number is too large, the largest is {}", i64::MAX);
    }
    message.to_owned()
}

/// The table in a text; `file` names it in errors.
///
/// # Errors
/// Text that is not TOML, or longer than any profile.
pub fn table_of(file: &str, text: &str) -> Result<toml::Table, ProfileError> {
    if text.len() > TEXT_LIMIT {
        let (length, limit) = (Bytes(text.len() as u64), Bytes(TEXT_LIMIT as u64));
        return Err(ProfileError::TooLong { file: file.to_owned(), length, limit });
    }
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        ProfileError::Syntax { file: file.to_owned(), line, reason: plain(error.message()) }
    })
}

impl<'a> Keys<'a> {
    /// The keys of a table; `file` names it in errors.
    #[must_use]
    pub fn new(file: &'a str, table: &'a Table) -> Self {
        Self { file, path: String::new(), table, asked: BTreeSet::new() }
    }

    /// The error of a key.
    pub(crate) fn wrong(&self, key: &str, reason: impl Into<String>) -> ProfileError {
        let key = format!("{}{key}", self.path);
        ProfileError::Key { file: self.file.to_owned(), key, reason: reason.into() }
    }

    fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.asked.insert(key);
        self.table.get(key)
    }

    fn required(&mut self, key: &'static str) -> Result<&'a Value, ProfileError> {
        self.value(key).ok_or_else(|| match self.misspelt(key) {
            Some(found) => self.wrong(key, format!("is missing; is '{found}' meant to be it?")),
            None => self.wrong(key, "is missing"),
        })
    }

    /// The key that is nearest to a missing one, if it may be a typing error.
    fn misspelt(&self, missing: &str) -> Option<&'a str> {
        let distance = |key: &str| strsim::damerau_levenshtein(key, missing);
        let others = self.table.keys().map(String::as_str).filter(|key| !self.asked.contains(key));
        let near = others.filter(|key| key.len() > SLIP_LIMIT && distance(key) <= SLIP_LIMIT);
        near.min_by_key(|key| distance(key))
    }

    fn typed<T>(
        &self,
        key: &str,
        value: &Value,
        found: Option<T>,
        expected: &str,
    ) -> Result<T, ProfileError> {
        found.ok_or_else(|| {
            let kind = value.type_str();
            let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            self.wrong(key, format!("is {article} {kind}, must be {expected}"))
        })
    }

    /// Whether a key is present.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A text.
    ///
    /// # Errors
    /// It is missing or of another type.
    pub fn text(&mut self, key: &'static str) -> Result<&'a str, ProfileError> {
        let value = self.required(key)?;
        self.typed(key, value, value.as_str(), "a string")
    }

    pub(crate) fn text_or(&mut self, key: &'static str, default: &'a str) -> Result<&'a str, ProfileError> {
        self.asked.insert(key);
        if self.has(key) { self.text(key) } else { Ok(default) }
    }

    /// A number.
    ///
    /// # Errors
    /// It is missing, of another type, or out of range.
    pub fn number(&mut self, key: &'static str, range: Bounds<f64>) -> Result<f64, ProfileError> {
        let value = self.required(key)?;
        self.number_in(key, value, range)
    }

    /// A number that may be missing.
    ///
    /// # Errors
    /// It is of another type, or out of range.
    pub fn number_if(&mut self, key: &'static str, range: Bounds<f64>) -> Result<Option<f64>, ProfileError> {
        self.value(key).map(|value| self.number_in(key, value, range)).transpose()
    }

    fn number_in(&self, key: &str, value: &Value, range: Bounds<f64>) -> Result<f64, ProfileError> {
        let found = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
        let number = self.typed(key, value, found, "a number")?;
        let Bounds { least, most } = range;
        if !(least..=most).contains(&number) {
            return Err(self.wrong(key, format!("is {}, must be from {least} to {most}", short(number))));
        }
        Ok(number)
    }

    /// A whole number.
    ///
    /// # Errors
    /// It is missing, of another type, or out of range.
    pub fn whole(&mut self, key: &'static str, range: Bounds<u64>) -> Result<u64, ProfileError> {
        let value = self.required(key)?;
        self.whole_in(key, value, range)
    }

    /// A whole number that may be missing.
    ///
    /// # Errors
    /// It is of another type, or out of range.
    pub fn whole_if(&mut self, key: &'static str, range: Bounds<u64>) -> Result<Option<u64>, ProfileError> {
        self.value(key).map(|value| self.whole_in(key, value, range)).transpose()
    }

    fn whole_in(&self, key: &str, value: &Value, range: Bounds<u64>) -> Result<u64, ProfileError> {
        let found = self.typed(key, value, value.as_integer(), "a whole number")?;
        let Bounds { least, most } = range;
        match u64::try_from(found) {
            Ok(whole) if (least..=most).contains(&whole) => Ok(whole),
            _ => Err(self.wrong(key, format!("is {found}, must be from {least} to {most}"))),
        }
    }

    /// True or false; `default` if it is missing.
    ///
    /// # Errors
    /// It is of another type.
    pub fn truth_or(&mut self, key: &'static str, default: bool) -> Result<bool, ProfileError> {
        let Some(value) = self.value(key) else { return Ok(default) };
        self.typed(key, value, value.as_bool(), "true or false")
    }

    /// A list of numbers, at most `length` of them.
    pub(crate) fn numbers(
        &mut self,
        key: &'static str,
        length: Bounds<usize>,
        range: Bounds<f64>,
    ) -> Result<Vec<f64>, ProfileError> {
        let list = self.list(key, length)?;
        let item = |(at, value)| self.number_in(&format!("{key}[{at}]"), value, range);
        list.iter().enumerate().map(item).collect()
    }

    /// A list of whole numbers, at most `length` of them.
    pub(crate) fn wholes(
        &mut self,
        key: &'static str,
        length: Bounds<usize>,
        range: Bounds<u64>,
    ) -> Result<Vec<u64>, ProfileError> {
        let list = self.list(key, length)?;
        let item = |(at, value)| self.whole_in(&format!("{key}[{at}]"), value, range);
        list.iter().enumerate().map(item).collect()
    }

    fn list(&mut self, key: &'static str, length: Bounds<usize>) -> Result<&'a [Value], ProfileError> {
        let value = self.required(key)?;
        let list = self.typed(key, value, value.as_array(), "a list")?;
        let Bounds { least, most } = length;
        if !(least..=most).contains(&list.len()) {
            let reason = format!("has {} entries, must have from {least} to {most}", list.len());
            return Err(self.wrong(key, reason));
        }
        Ok(list)
    }

    /// A table within this one.
    ///
    /// # Errors
    /// It is missing, or no table.
    pub fn table(&mut self, key: &'static str) -> Result<Keys<'a>, ProfileError> {
        let value = self.required(key)?;
        let table = self.typed(key, value, value.as_table(), "a table")?;
        Ok(self.within(key, table))
    }

    /// The tables of a list of tables.
    pub(crate) fn tables(
        &mut self,
        key: &'static str,
        length: Bounds<usize>,
    ) -> Result<Vec<Keys<'a>>, ProfileError> {
        let list = self.list(key, length)?;
        let item = |(at, value): (usize, &'a Value)| {
            let key = format!("{key}[{at}]");
            let table = self.typed(&key, value, value.as_table(), "a table")?;
            Ok(self.within(&key, table))
        };
        list.iter().enumerate().map(item).collect()
    }

    fn within(&self, key: &str, table: &'a Table) -> Keys<'a> {
        let path = format!("{}{key}.", self.path);
        Keys { file: self.file, path, table, asked: BTreeSet::new() }
    }

    /// Refuses keys that were not read.
    ///
    /// # Errors
    /// There is one.
    pub fn finish(self) -> Result<(), ProfileError> {
        match self.table.keys().find(|key| !self.asked.contains(key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let known: Vec<_> = self.asked.iter().copied().collect();
                Err(self.wrong(key, format!("is not a key here; the keys are {}", known.join(", "))))
            }
        }
    }
}
