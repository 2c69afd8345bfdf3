//! The file named by `FORESEEK_SQLITE_STATUS`: lines of JSON for each process.
//!
//! A first line is written when the first connection is opened, since not every process ends by `exit`. It has
//! `"opened":true` and no `status`; where the connection cannot be followed, `"opened":false` and `error`. The last
//! one, at the end, has all of `foreseek_status()`. Lines are
//! appended, each in one write, so that processes may share a file; `%p` in its name becomes the process id. A
//! forked child writes its own lines for connections that it opens first.
#![allow(unsafe_code)]

use crate::functions::status_json;
use crate::hook::Sight;
use crate::json::quoted;
use crate::settings;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

/// Returns the files of this process that hold a SQLite.
type Copies = fn() -> Vec<PathBuf>;

static COPIES: OnceLock<Copies> = OnceLock::new();
/// The process that writes at its end.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static OPENED: AtomicBool = AtomicBool::new(false);
/// Why a connection could not be followed.
static FAILED: OnceLock<String> = OnceLock::new();

/// Registers the line at the end of this process, with `copies` if there was no connection.
pub fn report_at_exit(copies: Copies) {
    let _ = COPIES.set(copies);
    register();
}

/// A connection was opened.
pub(crate) fn opened() {
    if OPENED.swap(true, Ordering::Relaxed) || !register() {
        return;
    }
    write(",\"opened\":true");
}

/// A connection was opened that cannot be followed.
pub(crate) fn failed(why: &str) {
    if FAILED.set(why.to_owned()).is_ok() && !OPENED.load(Ordering::Relaxed) && register() {
        write(&format!(",\"opened\":false,\"error\":{}", quoted(why)));
    }
}

/// Returns whether lines are written at all.
fn register() -> bool {
    static AT_EXIT: Once = Once::new();
    if settings::status_file().is_none() {
        return false;
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    AT_EXIT.call_once(|| {
        // SAFETY: `at_exit` is a function of the same shared object, which is never unloaded.
        if unsafe { libc::atexit(at_exit) } != 0 {
            settings::warn("cannot write the status at the end of the process (atexit)");
        }
    });
    true
}

extern "C" fn at_exit() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    // The host is ending: errors are ignored.
    let _ = std::panic::catch_unwind(|| {
        let opened = OPENED.load(Ordering::Relaxed);
        if !opened && FAILED.get().is_some() {
            // The line that was written then says all.
            return;
        }
        let copies = if opened { Vec::new() } else { COPIES.get().map_or_else(Vec::new, |copies| copies()) };
        let copies: Vec<String> = copies.iter().map(|path| quoted(&path.to_string_lossy())).collect();
        let status = if opened { status_json(0, Sight::Seen) } else { "null".to_owned() };
        write(&format!(",\"opened\":{opened},\"copies\":[{}],\"status\":{status}", copies.join(",")));
    });
}

/// Appends a line with these fields.
fn write(fields: &str) {
    let Some(path) = settings::status_file() else { return };
    let program = std::env::current_exe().unwrap_or_default();
    let line = format!(
        "{{\"process\":{},\"program\":{}{fields}}}\n",
        std::process::id(),
        quoted(&program.to_string_lossy())
    );
    if let Err(error) = append(path, line.as_bytes()) {
        static PRINTED: Once = Once::new();
        let print = || settings::warn(&format!("cannot write the status to {}: {error}", path.display()));
        PRINTED.call_once(print);
    }
}

fn append(path: &Path, line: &[u8]) -> std::io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(line)
}
