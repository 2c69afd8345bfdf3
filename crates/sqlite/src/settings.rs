//! Settings of the whole process, from the environment and from `foreseek_set`.

use foreseek_libprefetch::{Error, Settings, guest, with_process_id};
use foreseek_storage::has_gained_rights;
use foreseek_units::Bytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

static ENABLED: AtomicBool = AtomicBool::new(true);
static BYPASS: AtomicBool = AtomicBool::new(true);
static MEMORY: Mutex<Option<Bytes>> = Mutex::new(None);

/// Whether reads are followed: not switched off, and nothing has failed.
pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed) && !guest::is_aside()
}

/// Switches following on or off.
pub(crate) fn enable(on: bool) {
    ENABLED.store(on, Ordering::Relaxed);
}

/// Whether a stream that finds all of its pages in memory is bypassed.
pub(crate) fn may_bypass() -> bool {
    BYPASS.load(Ordering::Relaxed)
}

/// Allows streams to be bypassed, or forbids it.
pub(crate) fn allow_bypass(on: bool) {
    BYPASS.store(on, Ordering::Relaxed);
}

/// Sets the most memory for each client created from now on.
pub(crate) fn set_memory(memory: Bytes) {
    if let Ok(mut held) = MEMORY.lock() {
        *held = Some(memory);
    }
}

/// The settings in the environment when the extension was loaded. Later the host may have another working
/// directory, other rights and threads that change its environment.
///
/// # Errors
/// An unusable variable of the environment; it is read again the next time.
pub(crate) fn loaded() -> Result<Settings, Error> {
    static LOADED: OnceLock<Settings> = OnceLock::new();
    match LOADED.get() {
        Some(settings) => Ok(settings.clone()),
        None => Settings::from_env().map(|settings| LOADED.get_or_init(|| settings).clone()),
    }
}

/// The settings for a new client.
///
/// # Errors
/// An unusable variable of the environment.
pub(crate) fn current() -> Result<Settings, Error> {
    let mut settings = loaded()?;
    if let Some(memory) = MEMORY.lock().ok().and_then(|memory| *memory) {
        settings.policy.memory = Some(memory.pages_floor());
    }
    Ok(settings)
}

/// Writes one line to standard error, unless `FORESEEK_QUIET` forbids it.
pub(crate) fn warn(line: &str) {
    guest::print_line_of("libforeseek_sqlite", line);
}

/// The file for the status by `FORESEEK_SQLITE_STATUS`; looked up once. `None` in a program that gained rights
/// when it was started.
pub(crate) fn status_file() -> Option<&'static Path> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let value = std::env::var_os("FORESEEK_SQLITE_STATUS").filter(|value| !value.is_empty());
        value.filter(|_| !has_gained_rights()).map(|value| with_process_id(&value))
    });
    file.as_deref()
}
