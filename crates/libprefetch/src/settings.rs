//! Settings of a client, from the program or from the environment.

use crate::Error;
use foreseek_device::Profile;
use foreseek_hints::Order;
use foreseek_storage::read_text;
use foreseek_units::Bytes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

/// Variables that name a file.
const NAMES_FILE: [&str; 3] = ["FORESEEK_STATS", "FORESEEK_RECORD", "FORESEEK_PROFILE"];

/// Settings of a client.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// `FORESEEK_DISABLE=1`: every call of the client does nothing and succeeds.
    pub disabled: bool,
    /// The settings of the policy. `FORESEEK_MEMORY=512M` sets `memory`: at most this much page cache, below
    /// the limits of the machine and the control groups. `FORESEEK_ORDER=disk|file` sets `order`,
    /// `FORESEEK_MODE=blocking|pipelined` sets `mode`, `FORESEEK_SHARE=stock|probing|paper|N%` sets `share`.
    /// Its `infill` is overridden by [`Settings::infill`].
    pub policy: foreseek_hints::Settings,
    /// The largest gap between two pages that is read rather than skipped; `FORESEEK_PROFILE=name|path` sets it
    /// to that of the device profile. `None`: zero on a device that does not seek, the policy's value on
    /// others.
    pub infill: Option<Bytes>,
    /// `FORESEEK_STATS=path`: the file for the process's counters, written as JSON when the process ends. `%p`
    /// in it becomes the process id.
    pub stats: Option<PathBuf>,
    /// `FORESEEK_RECORD=path`: the file for the engine's events and commands, for a replay. `%p` becomes the
    /// process id; the second client and later ones of a process, up to 64, append `.2` and so on.
    pub record: Option<PathBuf>,
}

impl Settings {
    /// The defaults, overridden by the environment. An empty variable counts as unset. In a program that gained
    /// rights when it was started (set-user-id), variables that name files are ignored.
    ///
    /// # Errors
    /// A variable has an invalid value.
    pub fn from_env() -> Result<Self, Error> {
        let gained = foreseek_storage::has_gained_rights();
        Self::from_variables(|name| {
            std::env::var_os(name).filter(|_| !(gained && NAMES_FILE.contains(&name)))
        })
    }

    /// The same from any source of variables.
    ///
    /// # Errors
    /// As [`Settings::from_env`].
    pub fn from_variables(lookup: impl Fn(&'static str) -> Option<OsString>) -> Result<Self, Error> {
        let get = |name| lookup(name).filter(|value| !value.is_empty());
        let path = |name| get(name).map(|value| with_process_id(&value));
        let mut settings = Self { disabled: disabled(get("FORESEEK_DISABLE"))?, ..Self::default() };
        if settings.disabled {
            return Ok(settings);
        }
        settings.stats = path("FORESEEK_STATS");
        settings.record = path("FORESEEK_RECORD");
        if let Some(value) = get("FORESEEK_MEMORY") {
            settings.policy.memory = Some(memory(&value)?.pages_floor());
        }
        if let Some(value) = get("FORESEEK_ORDER") {
            settings.policy.order = order(&value)?;
        }
        if let Some(value) = get("FORESEEK_MODE") {
            settings.policy.mode = parsed("FORESEEK_MODE", &value)?;
        }
        if let Some(value) = get("FORESEEK_SHARE") {
            settings.policy.share = parsed("FORESEEK_SHARE", &value)?;
        }
        if let Some(value) = get("FORESEEK_PROFILE") {
            settings.infill = Some(infill(&value)?);
        }
        Ok(settings)
    }
}

fn disabled(value: Option<OsString>) -> Result<bool, Error> {
    let Some(value) = value else { return Ok(false) };
    match value.to_str() {
        Some("1") => Ok(true),
        Some("0") => Ok(false),
        _ => Err(wrong("FORESEEK_DISABLE", &value, "give 1 or 0")),
    }
}

fn is_set(flag: Option<OsString>) -> bool {
    flag.is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether `FORESEEK_QUIET` is set; looked up once.
pub(crate) fn is_quiet() -> bool {
    static QUIET: OnceLock<bool> = OnceLock::new();
    *QUIET.get_or_init(|| is_set(std::env::var_os("FORESEEK_QUIET")))
}

fn wrong(variable: &'static str, value: &OsString, reason: impl Into<String>) -> Error {
    Error::Setting { variable, value: value.to_string_lossy().into_owned(), reason: reason.into() }
}

fn memory(value: &OsString) -> Result<Bytes, Error> {
    let wrong = |reason: String| wrong("FORESEEK_MEMORY", value, reason);
    let size: Bytes = value
        .to_str()
        .ok_or_else(|| wrong("it is no text".to_owned()))?
        .parse()
        .map_err(|error: foreseek_units::ParseSizeError| wrong(error.to_string()))?;
    if size.pages_floor().is_zero() {
        return Err(wrong(
            "it holds not even one page of 4 KiB: give more, or FORESEEK_DISABLE=1".to_owned(),
        ));
    }
    Ok(size)
}

fn order(value: &OsString) -> Result<Order, Error> {
    match value.to_str() {
        Some("disk") => Ok(Order::Disk),
        Some("file") => Ok(Order::File),
        _ => Err(wrong("FORESEEK_ORDER", value, "give disk or file")),
    }
}

/// Parses a value whose type's error lists the accepted words.
fn parsed<T: FromStr<Err: std::error::Error>>(name: &'static str, value: &OsString) -> Result<T, Error> {
    let text = value.to_str().unwrap_or_default();
    text.parse().map_err(|error: T::Err| wrong(name, value, error.to_string()))
}

/// The infill of the device profile with that name or in that file.
fn infill(value: &OsString) -> Result<Bytes, Error> {
    let wrong = |reason: String| wrong("FORESEEK_PROFILE", value, reason);
    let name = value.to_str().ok_or_else(|| wrong("it is no text".to_owned()))?;
    let profile = Profile::load(name, read_text).map_err(|error| wrong(error.to_string()))?;
    Ok(profile.infill())
}

/// The path with `%p` replaced by the process id, made absolute: the host may change its working directory.
pub fn with_process_id(path: &OsString) -> PathBuf {
    let path = match path.to_str() {
        Some(text) => PathBuf::from(text.replace("%p", &std::process::id().to_string())),
        None => PathBuf::from(path),
    };
    std::path::absolute(&path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_hints::{Mode, Share};
    use foreseek_units::Pages;

    fn from(variables: &[(&str, &str)]) -> Result<Settings, Error> {
        Settings::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_environment_overrides_the_defaults() {
        let settings = from(&[
            ("FORESEEK_MEMORY", "512M"),
            ("FORESEEK_ORDER", "file"),
            ("FORESEEK_MODE", "blocking"),
            ("FORESEEK_SHARE", "75%"),
            ("FORESEEK_STATS", "/tmp/stats-%p.json"),
            ("FORESEEK_RECORD", ""),
        ])
        .unwrap();
        assert_eq!(settings.policy.memory, Some(Pages(131_072)));
        assert_eq!(settings.policy.order, Order::File);
        assert_eq!(settings.policy.mode, Mode::Blocking);
        assert_eq!(settings.policy.share, Share::Percent(75));
        let stats = format!("/tmp/stats-{}.json", std::process::id());
        assert_eq!(settings.stats, Some(PathBuf::from(stats)));
        assert_eq!(settings.record, None);
        assert!(!settings.disabled);
    }

    #[test]
    fn a_profile_sets_the_infill() {
        let profile = Profile::builtin("barracuda-500g").unwrap();
        let settings = from(&[("FORESEEK_PROFILE", "barracuda-500g")]).unwrap();
        assert_eq!(settings.infill, Some(profile.infill()));
        assert_eq!(from(&[]).unwrap().infill, None);
    }

    #[test]
    fn a_disabled_client_reads_no_other_variable() {
        assert!(from(&[("FORESEEK_DISABLE", "1"), ("FORESEEK_MEMORY", "much")]).unwrap().disabled);
        assert!(!from(&[("FORESEEK_DISABLE", "0")]).unwrap().disabled);
        assert!(!from(&[("FORESEEK_DISABLE", "")]).unwrap().disabled);
    }

    #[test]
    fn an_error_names_the_variable_and_accepted_values() {
        for (name, value, hint) in [
            ("FORESEEK_DISABLE", "2", "give 1 or 0"),
            ("FORESEEK_MEMORY", "much", "KiB"),
            ("FORESEEK_MEMORY", "100", "4 KiB"),
            ("FORESEEK_ORDER", "random", "disk or file"),
            ("FORESEEK_MODE", "fast", "blocking or pipelined"),
            ("FORESEEK_SHARE", "101%", "probing"),
            ("FORESEEK_PROFILE", "no-such-disk", "barracuda-500g"),
        ] {
            let error = from(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value) && error.contains(hint), "{error}");
        }
    }
}
