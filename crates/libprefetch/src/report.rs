//! Output at the end of the process: counters (`FORESEEK_STATS`) and the rest of recordings.
#![allow(unsafe_code)]

use crate::aside::{lock_briefly, print_line};
use crate::shared::Shared;
use crate::thread::ReentryGuard;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once};

/// The most clients whose counters are kept after their end; of a program with a client for each of many jobs,
/// the first ones are reported.
const CLIENTS_LIMIT: usize = 1024;

static REPORTED: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());
static AT_EXIT: Once = Once::new();

/// Registers a client, so that its counters and recording are written at the end of the process.
pub(crate) fn register(shared: &Arc<Shared>) {
    let Some(mut reported) = lock_briefly(&REPORTED) else { return };
    reported.retain(|client| client.is_own_process());
    if reported.len() >= CLIENTS_LIMIT {
        return;
    }
    reported.push(Arc::clone(shared));
    drop(reported);
    AT_EXIT.call_once(|| {
        // SAFETY: `at_exit` is a function of the same shared object; if that is unloaded, the C library runs
        // the function first.
        if unsafe { libc::atexit(at_exit) } != 0 {
            print_line("cannot write counters and recordings at the end of the process (atexit)");
        }
    });
}

extern "C" fn at_exit() {
    let _inside = ReentryGuard::enter();
    // The host is ending: errors are ignored.
    let _ = std::panic::catch_unwind(write);
}

/// Writes everything now.
fn write() {
    let Some(reported) = lock_briefly(&REPORTED) else { return };
    let mut files: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for client in reported.iter().filter(|client| client.is_own_process()) {
        client.flush_recording();
        let (Some(path), Some(stats)) = (client.stats_path(), client.stats_at_exit()) else { continue };
        match files.iter_mut().find(|(known, _)| known == path) {
            Some((_, clients)) => clients.push(stats.to_json()),
            None => files.push((path.to_owned(), vec![stats.to_json()])),
        }
    }
    for (path, clients) in files {
        let json = format!("{{\"process\":{},\"clients\":[{}]}}\n", std::process::id(), clients.join(","));
        if let Err(error) = replace(&path, &json) {
            print_line(&format!("cannot write counters to {}: {error}", path.display()));
        }
    }
}

/// Writes a file so that a reader sees the old one or the whole new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(name);
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, path).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}
