//! Reads a table of a profile key by key: each with its type and its range, and at the end none may
//! be left over.

use super::error::ProfileError;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Letters by which a misspelt key may differ: more, and other keys of a profile come as near.
const SLIP_LIMIT: usize = 2;

/// A table and where it stands.
pub(crate) struct Keys<'a> {
    file: &'a str,
    path: String,
    table: &'a Table,
    asked: BTreeSet<&'static str>,
}

/// The range that a number must lie in, ends included.
#[derive(Clone, Copy)]
pub(crate) struct Limits<T> {
    pub(crate) least: T,
    pub(crate) most: T,
}

/// From `least` to `most`, ends included.
pub(crate) const fn limits<T>(least: T, most: T) -> Limits<T> {
    Limits { least, most }
}

/// A number as a person would write it: very large and very small ones with an exponent.
pub(crate) fn short(number: f64) -> String {
    let size = number.abs();
    let plain = size == 0.0 || !size.is_finite() || (1e-4..1e15).contains(&size);
    if plain { number.to_string() } else { format!("{number:e}") }
}

impl<'a> Keys<'a> {
    pub(crate) fn new(file: &'a str, table: &'a Table) -> Self {
        Self { file, path: String::new(), table, asked: BTreeSet::new() }
    }

    /// The complaint about a key.
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

    /// The key that is nearest to a missing one, if it is near enough for a slip of the hand.
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

    /// Whether a key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Result<&'a str, ProfileError> {
        let value = self.required(key)?;
        self.typed(key, value, value.as_str(), "a string")
    }

    pub(crate) fn text_or(&mut self, key: &'static str, default: &'a str) -> Result<&'a str, ProfileError> {
        self.asked.insert(key);
        if self.has(key) { self.text(key) } else { Ok(default) }
    }

    pub(crate) fn number(&mut self, key: &'static str, range: Limits<f64>) -> Result<f64, ProfileError> {
        let value = self.required(key)?;
        self.number_in(key, value, range)
    }

    pub(crate) fn number_if(
        &mut self,
        key: &'static str,
        range: Limits<f64>,
    ) -> Result<Option<f64>, ProfileError> {
        self.value(key).map(|value| self.number_in(key, value, range)).transpose()
    }

    fn number_in(&self, key: &str, value: &Value, range: Limits<f64>) -> Result<f64, ProfileError> {
        let found = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
        let number = self.typed(key, value, found, "a number")?;
        let Limits { least, most } = range;
        if !(least..=most).contains(&number) {
            return Err(self.wrong(key, format!("is {}, must be from {least} to {most}", short(number))));
        }
        Ok(number)
    }

    pub(crate) fn whole(&mut self, key: &'static str, range: Limits<u64>) -> Result<u64, ProfileError> {
        let value = self.required(key)?;
        self.whole_in(key, value, range)
    }

    pub(crate) fn whole_if(
        &mut self,
        key: &'static str,
        range: Limits<u64>,
    ) -> Result<Option<u64>, ProfileError> {
        self.value(key).map(|value| self.whole_in(key, value, range)).transpose()
    }

    fn whole_in(&self, key: &str, value: &Value, range: Limits<u64>) -> Result<u64, ProfileError> {
        let found = self.typed(key, value, value.as_integer(), "a whole number")?;
        let Limits { least, most } = range;
        match u64::try_from(found) {
            Ok(whole) if (least..=most).contains(&whole) => Ok(whole),
            _ => Err(self.wrong(key, format!("is {found}, must be from {least} to {most}"))),
        }
    }

    pub(crate) fn truth_or(&mut self, key: &'static str, default: bool) -> Result<bool, ProfileError> {
        let Some(value) = self.value(key) else { return Ok(default) };
        self.typed(key, value, value.as_bool(), "true or false")
    }

    /// A list of numbers, at most `length` of them.
    pub(crate) fn numbers(
        &mut self,
        key: &'static str,
        length: Limits<usize>,
        range: Limits<f64>,
    ) -> Result<Vec<f64>, ProfileError> {
        let list = self.list(key, length)?;
        let item = |(at, value)| self.number_in(&format!("{key}[{at}]"), value, range);
        list.iter().enumerate().map(item).collect()
    }

    /// A list of whole numbers, at most `length` of them.
    pub(crate) fn wholes(
        &mut self,
        key: &'static str,
        length: Limits<usize>,
        range: Limits<u64>,
    ) -> Result<Vec<u64>, ProfileError> {
        let list = self.list(key, length)?;
        let item = |(at, value)| self.whole_in(&format!("{key}[{at}]"), value, range);
        list.iter().enumerate().map(item).collect()
    }

    fn list(&mut self, key: &'static str, length: Limits<usize>) -> Result<&'a [Value], ProfileError> {
        let value = self.required(key)?;
        let list = self.typed(key, value, value.as_array(), "a list")?;
        let Limits { least, most } = length;
        if !(least..=most).contains(&list.len()) {
            let reason = format!("has {} entries, must have from {least} to {most}", list.len());
            return Err(self.wrong(key, reason));
        }
        Ok(list)
    }

    /// A table within this one.
    pub(crate) fn table(&mut self, key: &'static str) -> Result<Keys<'a>, ProfileError> {
        let value = self.required(key)?;
        let table = self.typed(key, value, value.as_table(), "a table")?;
        Ok(self.within(key, table))
    }

    /// The tables of a list of tables.
    pub(crate) fn tables(
        &mut self,
        key: &'static str,
        length: Limits<usize>,
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

    /// Complains about keys that nobody asked for.
    pub(crate) fn finish(self) -> Result<(), ProfileError> {
        match self.table.keys().find(|key| !self.asked.contains(key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let known: Vec<_> = self.asked.iter().copied().collect();
                Err(self.wrong(key, format!("is not a key here; the keys are {}", known.join(", "))))
            }
        }
    }
}
