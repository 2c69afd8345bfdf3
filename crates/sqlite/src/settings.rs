//! What holds for the whole process: settings from the environment and from `foreseek_set`.

use foreseek_libprefetch::{Error, Settings, guest, with_process_id};
use foreseek_storage::has_gained_rights;
use foreseek_units::Bytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

static ENABLED: AtomicBool = AtomicBool::new(true);
static BYPASS: AtomicBool = AtomicBool::new(true);
static MEMORY: Mutex<Option<Bytes>> = Mutex::new(None);

/// Whether reads are to be watched: not switched off, and nothing has failed.
pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed) && !guest::is_aside()
}

/// Switches watching on or off.
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

/// At most this much memory for each client made from now on.
pub(crate) fn set_memory(memory: Bytes) {
    if let Ok(mut held) = MEMORY.lock() {
        *held = Some(memory);
    }
}

/// The settings that the environment held when the extension was loaded. Later the host may have
/// another directory, other rights and threads that change its environment.
///
/// # Errors
/// A variable of the environment that can't be used; it is then looked at again the next time.
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
/// A variable of the environment that can't be used.
pub(crate) fn current() -> Result<Settings, Error> {
    let mut settings = loaded()?;
    if let Some(memory) = MEMORY.lock().ok().and_then(|memory| *memory) {
        settings.policy.memory = Some(memory.pages_floor());
    }
    Ok(settings)
}

/// Writes one line to standard error, unless `FORESEEK_QUIET` forbids it.
pub(crate) fn warn(line: &str) {
    guest::print_line(&format!("sqlite: {line}"));
}

/// Where `FORESEEK_SQLITE_STATUS` has the status written; looked up once. In a program that gained rights when
/// it was started, nowhere.
pub(crate) fn status_file() -> Option<&'static Path> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let value = std::env::var_os("FORESEEK_SQLITE_STATUS").filter(|value| !value.is_empty());
        value.filter(|_| !has_gained_rights()).map(|value| with_process_id(&value))
    });
    file.as_deref()
}
