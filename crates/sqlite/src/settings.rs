//! What holds for the whole process: settings from the environment and from `foreseek_set`.

use foreseek_libprefetch::{Error, Settings, guest};
use foreseek_units::Bytes;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(true);
static DOZE: AtomicBool = AtomicBool::new(true);
static MEMORY: Mutex<Option<Bytes>> = Mutex::new(None);

/// Whether reads are to be watched: not switched off, and nothing has failed.
pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed) && !guest::is_aside()
}

/// Switches watching on or off.
pub(crate) fn enable(on: bool) {
    ENABLED.store(on, Ordering::Relaxed);
}

/// Whether a stream that finds all of its pages in memory is looked away from.
pub(crate) fn may_doze() -> bool {
    DOZE.load(Ordering::Relaxed)
}

/// Lets streams doze or not.
pub(crate) fn let_doze(on: bool) {
    DOZE.store(on, Ordering::Relaxed);
}

/// At most this much memory for each client made from now on.
pub(crate) fn set_memory(memory: Bytes) {
    if let Ok(mut held) = MEMORY.lock() {
        *held = Some(memory);
    }
}

/// The settings for a new client.
///
/// # Errors
/// A variable of the environment that can't be used.
pub(crate) fn current() -> Result<Settings, Error> {
    let mut settings = Settings::from_env()?;
    if let Some(memory) = MEMORY.lock().ok().and_then(|memory| *memory) {
        settings.policy.memory = Some(memory.pages_floor());
    }
    Ok(settings)
}

/// Says one line on standard error, unless `FORESEEK_QUIET` forbids it.
pub(crate) fn say(line: &str) {
    guest::say(&format!("sqlite: {line}"));
}
