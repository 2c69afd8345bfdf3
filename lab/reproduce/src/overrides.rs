//! Keys that are set in every run instead of the set-ups' values: to see what claims depend on.

use crate::Error;
use foreseek_device::Profile;
use foreseek_simulate::experiment::{SCHEDULER, TABLES, place_of};
use toml::{Table, Value};

/// The table whose keys are those of device profiles.
const DEVICE: &str = "device";

/// The overrides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    experiment: Table,
    /// Of all devices, and of named ones.
    device: Table,
    devices: Table,
}

impl Overrides {
    /// Sets a key to a value, both as text: `block.in_device` and `4`.
    ///
    /// # Errors
    /// The key is in no table that can be set, or the value is not valid.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let wrong = |reason: String| Error::Override { key: key.to_owned(), reason };
        let parsed = toml::from_str::<Table>(&format!("value = {value}")).ok();
        // A word needs no quotes.
        let value =
            parsed.and_then(|mut table| table.remove("value")).unwrap_or(Value::String(value.to_owned()));
        self.set_value(key, value).map_err(wrong)
    }

    /// Keys, each in quotes and with its dot, as in a list of variants.
    ///
    /// # Errors
    /// A key is in no table that can be set.
    pub(crate) fn of(keys: Table) -> Result<Self, Error> {
        let mut overrides = Self::default();
        for (key, value) in keys {
            overrides.set_value(&key, value).map_err(|reason| Error::Override { key, reason })?;
        }
        Ok(overrides)
    }

    /// The same for a value that has been read.
    fn set_value(&mut self, key: &str, value: Value) -> Result<(), String> {
        if let Some((table, name)) = place_of(&mut self.experiment, key) {
            table.insert(name.to_owned(), value);
            return Ok(());
        }
        let known = || {
            format!(
                "give {SCHEDULER}, or one of {}, {DEVICE}, a device's name, a dot and a key",
                TABLES.join(", ")
            )
        };
        let (device, name) = key.split_once('.').ok_or_else(known)?;
        if device == DEVICE {
            if !name.contains('.') && !Profile::builtin_names().any(|device| has_key(device, name)) {
                return Err(format!("no device's profile has a key '{name}'"));
            }
            self.device.insert(name.to_owned(), value);
            return Ok(());
        }
        if Profile::builtin(device).is_none() {
            return Err(known());
        }
        put(&mut self.devices, device, name, &value);
        Ok(())
    }

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        [&self.experiment, &self.device, &self.devices].iter().all(|table| table.is_empty())
    }

    /// The overrides of experiments.
    pub(crate) fn experiment(&self) -> &Table {
        &self.experiment
    }

    /// A built-in device with its overrides. What is set of all devices is set of those whose profile has the key; a
    /// key of a table (`controller.read_ahead`), and what is set of one device, even if the profile has none.
    ///
    /// # Errors
    /// There is no such device, or its profile cannot have that key or value.
    pub(crate) fn device(&self, name: &str) -> Result<Profile, String> {
        let unknown = || format!("there is no device '{name}'");
        let own = self.devices.get(name).and_then(Value::as_table);
        if self.device.is_empty() && own.is_none() {
            return Profile::builtin(name).ok_or_else(unknown);
        }
        let text = Profile::builtin_text(name).ok_or_else(unknown)?;
        let mut table = read(text)?;
        member_in_place(&mut table)?;
        let all = self.device.iter().map(|set| (set, false));
        for ((key, value), is_own) in all.chain(own.into_iter().flatten().map(|set| (set, true))) {
            match key.split_once('.') {
                Some((inner, name)) => change_disk(&mut table, |disk| put(disk, inner, name, value)),
                None if replace(&mut table, key, value) || !is_own => {}
                None => change_disk(&mut table, |disk| _ = disk.insert(key.clone(), value.clone())),
            }
        }
        let text = toml::to_string(&table).map_err(|error| error.to_string())?;
        Profile::parse(name, &text).map_err(|error| error.to_string())
    }
}

/// The table of an array's profile that describes its members, and the key that names one instead.
const DISK: &str = "disk";
const MEMBER: &str = "member";

fn read(text: &str) -> Result<Table, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// Where an array names its member, the member's own keys replace the name, so that they can be set.
fn member_in_place(table: &mut Table) -> Result<(), String> {
    let Some(Value::String(name)) = table.remove(MEMBER) else { return Ok(()) };
    let text = Profile::builtin_text(&name).ok_or_else(|| format!("there is no device '{name}'"))?;
    let mut disk = read(text)?;
    for key in ["name", "kind", "description", "source"] {
        disk.remove(key);
    }
    table.insert(DISK.to_owned(), disk.into());
    Ok(())
}

/// Changes the table of a disk's keys.
fn change_disk(profile: &mut Table, change: impl FnOnce(&mut Table)) {
    match profile.get_mut(DISK) {
        Some(Value::Table(disk)) => change(disk),
        _ => change(profile),
    }
}

/// Whether a built-in device's profile, or that of its members, has a key.
fn has_key(device: &str, key: &str) -> bool {
    let Some(Ok(mut table)) = Profile::builtin_text(device).map(read) else { return false };
    member_in_place(&mut table).is_ok() && replace(&mut table, key, &Value::Boolean(true))
}

/// Replaces a key's value wherever it occurs. Returns whether it does.
fn replace(table: &mut Table, key: &str, value: &Value) -> bool {
    let mut found = false;
    for (name, held) in table.iter_mut() {
        match held {
            Value::Table(inner) => found |= replace(inner, key, value),
            _ if name == key => {
                *held = value.clone();
                found = true;
            }
            _ => {}
        }
    }
    found
}

/// Sets a key of a table, which is made if there is none.
fn put(table: &mut Table, inner: &str, name: &str, value: &Value) {
    let inner = table.entry(inner).or_insert_with(|| Table::new().into());
    if let Some(inner) = inner.as_table_mut() {
        inner.insert(name.to_owned(), value.clone());
    }
}

impl std::fmt::Display for Overrides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        for (name, value) in self.experiment.iter().chain(&self.devices) {
            match value.as_table() {
                Some(inner) => {
                    parts.extend(inner.iter().map(|(key, value)| format!("{name}.{key} = {value}")));
                }
                None => parts.push(format!("{name} = {value}")),
            }
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
        let array = overrides.device("raid0-2x-seagate").expect("an array").to_toml();
        assert!(array.contains("cache_segments = 16"), "{array}");
        overrides.set("device.controller.read_ahead", "none").expect("a key of a table");
        let text = overrides.device("ibm-36g-51").expect("a device").to_toml();
        assert!(text.contains("read_ahead = \"none\""), "{text}");
        assert_eq!(
            overrides.to_string(),
            "block.in_device = 4, prefetch.congestion = \"ignored\", device.cache_segments = 16, device.controller.read_ahead = \"none\""
        );
        let mut overrides = Overrides::default();
        overrides.set("scheduler", "elevator").expect("a key of no table");
        overrides.set("ibm-36g-37.cache_segments", "16").expect("a key of one device");
        assert_eq!(overrides.to_string(), "scheduler = \"elevator\", ibm-36g-37.cache_segments = 16");
        let segments = |name| overrides.device(name).expect("a device").to_toml();
        assert_ne!(segments("ibm-36g-37"), Profile::builtin("ibm-36g-37").expect("built in").to_toml());
        assert_eq!(segments("ibm-36g-51"), Profile::builtin("ibm-36g-51").expect("built in").to_toml());
        overrides.set("ibm-36g-37.zero_latency", "true").expect("a key that its profile leaves out");
        assert!(overrides.device("ibm-36g-37").expect("a device").to_toml().contains("zero_latency = true"));
        overrides.set("ibm-36g-51.cache_segmens", "16").expect("judged with its profile");
        let error = overrides.device("ibm-36g-51").expect_err("no such key");
        assert!(error.contains("cache_segmens"), "{error}");
        let error = overrides.set("device.cache_segmens", "16").expect_err("no such key").to_string();
        assert!(error.contains("cache_segmens"), "{error}");
        assert!(overrides.set("seeds", "4").is_err());
        assert!(overrides.set("nothing.at_all", "4").is_err());
    }
}
