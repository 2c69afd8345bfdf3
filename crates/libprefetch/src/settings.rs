//! How a client works, from the program or from the environment.

use crate::Error;
use foreseek_units::Bytes;
use std::ffi::OsString;
use std::path::PathBuf;

/// In which order a buffer is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By place on the device, across files (FIEMAP); file order where the place is unknown.
    #[default]
    Disk,
    /// By file and offset, as the paper did.
    File,
}

/// How a client works.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// `FORESEEK_DISABLE=1`: every call of the client does nothing and succeeds.
    pub disabled: bool,
    /// `FORESEEK_MEMORY=512M`: at most this much page cache, below what the machine and the control
    /// group allow.
    pub memory: Option<Bytes>,
    /// `FORESEEK_ORDER=disk|file`.
    pub order: Order,
    /// The largest gap between two pages that is read rather than skipped, from
    /// `FORESEEK_PROFILE=name|path`; without one, what suits the device under the first file.
    pub infill: Option<Bytes>,
    /// `FORESEEK_STATS=path`: where the process's counters go as JSON when it ends.
    pub stats: Option<PathBuf>,
    /// `FORESEEK_RECORD=path`: where the engine's events and commands go, for a replay.
    pub record: Option<PathBuf>,
    /// `FORESEEK_QUIET=1`: nothing on standard error.
    pub quiet: bool,
}

impl Settings {
    /// The defaults, overridden by the environment.
    ///
    /// # Errors
    /// A variable that holds something else than its documentation says.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_variables(std::env::var_os)
    }

    /// The same from any source of variables.
    ///
    /// # Errors
    /// As [`Settings::from_env`].
    pub fn from_variables(lookup: impl Fn(&'static str) -> Option<OsString>) -> Result<Self, Error> {
        let get = |name| lookup(name).filter(|value| !value.is_empty());
        let flag = |name| get(name).is_some_and(|value| value != "0");
        let mut settings = Self {
            disabled: flag("FORESEEK_DISABLE"),
            quiet: flag("FORESEEK_QUIET"),
            stats: get("FORESEEK_STATS").map(PathBuf::from),
            record: get("FORESEEK_RECORD").map(PathBuf::from),
            ..Self::default()
        };
        if settings.disabled {
            return Ok(settings);
        }
        if let Some(value) = get("FORESEEK_MEMORY") {
            let text = value.to_string_lossy().into_owned();
            let size = text.parse().map_err(|error: foreseek_units::ParseSizeError| Error::Setting {
                variable: "FORESEEK_MEMORY",
                value: text,
                reason: error.to_string(),
            })?;
            settings.memory = Some(size);
        }
        if let Some(value) = get("FORESEEK_ORDER") {
            settings.order = match value.to_str() {
                Some("disk") => Order::Disk,
                Some("file") => Order::File,
                _ => {
                    return Err(Error::Setting {
                        variable: "FORESEEK_ORDER",
                        value: value.to_string_lossy().into_owned(),
                        reason: "give disk or file".to_owned(),
                    });
                }
            };
        }
        Ok(settings)
    }
}
