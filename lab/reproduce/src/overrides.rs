//! Keys that are set in every run, in place of what the set-ups have: to see what claims depend on.

use crate::Error;
use foreseek_device::Profile;
use toml::{Table, Value};

/// The table whose keys are those of device profiles.
const DEVICE: &str = "device";

/// Tables of an experiment that may be set.
const TABLES: [&str; 7] = ["machine", "costs", "write_back", "block", "array_cache", "prefetch", "layout"];

/// What is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    experiment: Table,
    device: Table,
}

impl Overrides {
    /// Sets a key to a value, both as they are written: `block.in_device` and `4`.
    ///
    /// # Errors
    /// The key is of no table that can be set, or the value is none.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let wrong = |reason: String| Error::Override { key: key.to_owned(), reason };
        let parsed = toml::from_str::<Table>(&format!("value = {value}")).ok();
        // A word needs no quotes.
        let value =
            parsed.and_then(|mut table| table.remove("value")).unwrap_or(Value::String(value.to_owned()));
        self.set_value(key, value).map_err(wrong)
    }

    /// The same for a value that has been read.
    pub(crate) fn set_value(&mut self, key: &str, value: Value) -> Result<(), String> {
        let known = || format!("give one of {}, {DEVICE}, a dot and a key", TABLES.join(", "));
        let (table, name) = key.split_once('.').ok_or_else(known)?;
        if table == DEVICE {
            self.device.insert(name.to_owned(), value);
            return Ok(());
        }
        if !TABLES.contains(&table) {
            return Err(known());
        }
        let inner = self.experiment.entry(table).or_insert_with(|| Table::new().into());
        if let Some(inner) = inner.as_table_mut() {
            inner.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.experiment.is_empty() && self.device.is_empty()
    }

    /// What is set of experiments.
    pub(crate) fn experiment(&self) -> &Table {
        &self.experiment
    }

    /// A built-in device with what is set; a device that has no such key stays as it is.
    pub(crate) fn device(&self, name: &str) -> Result<Profile, String> {
        let unknown = || format!("there is no device '{name}'");
        if self.device.is_empty() {
            return Profile::builtin(name).ok_or_else(unknown);
        }
        let text = Profile::builtin_text(name).ok_or_else(unknown)?;
        let mut table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
        for (key, value) in &self.device {
            replace(&mut table, key, value);
        }
        let text = toml::to_string(&table).map_err(|error| error.to_string())?;
        Profile::parse(name, &text).map_err(|error| error.to_string())
    }
}

/// Replaces a key's value wherever it stands.
fn replace(table: &mut Table, key: &str, value: &Value) {
    for (name, held) in table.iter_mut() {
        match held {
            Value::Table(inner) => replace(inner, key, value),
            _ if name == key => *held = value.clone(),
            _ => {}
        }
    }
}

impl std::fmt::Display for Overrides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        for (table, inner) in &self.experiment {
            let inner = inner.as_table().into_iter().flatten();
            parts.extend(inner.map(|(key, value)| format!("{table}.{key} = {value}")));
        }
        parts.extend(self.device.iter().map(|(key, value)| format!("{DEVICE}.{key} = {value}")));
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_devices_are_replaced_where_they_are_and_others_stay() {
        let mut overrides = Overrides::default();
        overrides.set("device.cache_segments", "16").expect("a key");
        overrides.set("block.in_device", "4").expect("a key");
        overrides.set("prefetch.congestion", "ignored").expect("a word");
        let changed = overrides.device("ibm-36g-51").expect("a device").to_toml();
        assert_ne!(changed, Profile::builtin("ibm-36g-51").expect("built in").to_toml());
        assert!(overrides.device("raid0-2x-seagate").is_ok());
        assert_eq!(
            overrides.to_string(),
            "block.in_device = 4, prefetch.congestion = \"ignored\", device.cache_segments = 16"
        );
        assert!(overrides.set("seeds", "4").is_err());
        assert!(overrides.set("nothing.at_all", "4").is_err());
    }
}
