//! The extension's entry points and its SQL functions.
//!
//! - `foreseek_status()`: a JSON object with the hooked calls, the reason why reads are not visible and its
//!   remedy, the counters of each database file, and the gain of each statement or the reason why there is
//!   none;
//! - `foreseek_set('prefetch', 'on' | 'off')`: for the whole process;
//! - `foreseek_set('memory', '64M')`: at most this much page cache for each file;
//! - `foreseek_set('bypass', 'on' | 'off')`: whether to ignore reads of a connection that finds all pages in
//!   memory. `doze` is an alias.
#![allow(unsafe_code)]

use crate::api::{Api, Context, Db, ERROR, OK, OK_LOAD_PERMANENTLY, Routines, Value};
use crate::hook::{self, Sight};
use crate::json::quoted;
use crate::report;
use crate::settings;
use crate::statements::Statement;
use crate::watch::Report;
use foreseek_libprefetch::guest;
use foreseek_units::{Bytes, Nanos};
use libc::{c_char, c_int, c_void};
use std::fmt::Write;
use std::panic::catch_unwind;
use std::sync::{Once, OnceLock};

/// The state since the extension was loaded: the hooked calls.
static STATE: OnceLock<State> = OnceLock::new();

struct State {
    disabled: bool,
    hooked: Vec<&'static str>,
}

/// The entry point for `.load` and `sqlite3_load_extension`.
///
/// # Safety
/// Only SQLite may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut c_void,
    message: *mut *mut c_char,
    routines: *const *const c_void,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe { load(db, message, routines, OK_LOAD_PERMANENTLY) }
}

/// The same under the name that SQLite derives from the file's.
///
/// # Safety
/// Only SQLite may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_foreseeksqlite_init(
    db: *mut c_void,
    message: *mut *mut c_char,
    routines: *const *const c_void,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe { load(db, message, routines, OK_LOAD_PERMANENTLY) }
}

/// Called by SQLite for each connection opened after the first.
unsafe extern "C" fn connection_opened(
    db: *mut c_void,
    message: *mut *mut c_char,
    routines: *const *const c_void,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe { load(db, message, routines, OK) };
    // A failure of the extension must not prevent the connection from opening.
    OK
}

/// Introduces a connection for which no extension was loaded.
///
/// # Safety
/// `db` must be a connection that the SQLite of these routines has just opened, and that no other thread uses
/// yet.
pub unsafe fn attach(routines: &'static Routines, db: *mut c_void) {
    // SAFETY: as the caller guarantees.
    let Some(api) = (unsafe { Api::new(routines.table()) }) else { return warn_unfollowed("this SQLite") };
    if let Ok(Err(text)) = catch_unwind(|| set_up(api, db)) {
        static PRINTED: Once = Once::new();
        PRINTED.call_once(|| {
            settings::warn(&text);
            report::failed(&text);
        });
    }
}

/// Warns, once, that the databases of a SQLite in this process are read without prefetching.
pub fn warn_unfollowed(which: &str) {
    static PRINTED: Once = Once::new();
    PRINTED.call_once(|| {
        let text = format!(
            "the databases of {which} are read as without prefetching: it is older than 3.14, or another SQLite of \
             this process is followed"
        );
        settings::warn(&text);
        report::failed(&text);
    });
}

/// Whether the library for `LD_PRELOAD` follows this process already.
fn is_preloaded() -> bool {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"foreseek_sqlite_is_preloaded".as_ptr()) };
    !found.is_null()
}

unsafe fn load(db: Db, message: *mut *mut c_char, routines: *const *const c_void, done: c_int) -> c_int {
    if is_preloaded() {
        return done;
    }
    // SAFETY: the table is SQLite's; `message` is where it wants a message, or null.
    unsafe {
        let Some(api) = Api::new(routines) else { return ERROR };
        match catch_unwind(|| set_up(api, db)) {
            Ok(Ok(())) => done,
            Ok(Err(text)) => {
                if !message.is_null() {
                    *message = api.message(&format!("foreseek: {text}"));
                }
                ERROR
            }
            Err(_) => ERROR,
        }
    }
}

/// Sets the hooks at the first connection, and introduces this one.
fn set_up(api: Api, db: Db) -> Result<(), String> {
    let settings = settings::loaded().map_err(|error| error.to_string())?;
    report::opened();
    let functions: [(_, _, crate::api::Function); 2] =
        [(c"foreseek_status", 0, status), (c"foreseek_set", 2, set)];
    for (index, (name, arguments, function)) in functions.into_iter().enumerate() {
        // The end of the first function shows that the connection ends.
        let destructor = (index == 0).then_some((connection_closed as unsafe extern "C" fn(*mut c_void), db));
        if api.create_function(db, name, arguments, function, destructor) != OK {
            return Err("cannot register its SQL functions".to_owned());
        }
    }
    let state = STATE.get_or_init(|| {
        let hooked = if settings.disabled { Vec::new() } else { hook::install(api) };
        if !settings.disabled && !observes_reads(&hooked) {
            settings::warn(NO_HOOKS);
        }
        if !settings.disabled {
            let entry: unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *const *const c_void) -> c_int =
                connection_opened;
            // SAFETY: SQLite takes entry points under a type without arguments and calls them with their own.
            api.auto_extension(unsafe {
                std::mem::transmute::<*const (), unsafe extern "C" fn()>(entry as *const ())
            });
        }
        State { disabled: settings.disabled, hooked }
    });
    if !state.disabled {
        hook::introduce(api, db);
        let size = api.mmap_size(db);
        if size > 0 {
            settings::warn(&mmap_remedy(size));
        }
    }
    Ok(())
}

const NO_HOOKS: &str = "reads cannot be seen, since the database's VFS is none of SQLite's own for unix or lets no \
                        system call be replaced: open the database with vfs=unix";

const UNKNOWN: &str = "the database is encrypted, of a format that is not known, or opened with O_DIRECT: its reads are \
                       left as they are";

fn mmap_remedy(size: i64) -> String {
    format!("reads are hidden by memory mapping (PRAGMA mmap_size={size}): give PRAGMA mmap_size=0")
}

fn observes_reads(hooked: &[&str]) -> bool {
    hooked.iter().any(|call| *call != "close")
}

unsafe extern "C" fn connection_closed(db: *mut c_void) {
    let _ = catch_unwind(|| hook::forget(db));
}

/// `foreseek_status()`.
unsafe extern "C" fn status(context: Context, _: c_int, _: *mut Value) {
    let Some(api) = Api::current() else { return };
    // SAFETY: the context is SQLite's.
    unsafe {
        let answer = catch_unwind(|| {
            let db = api.connection(context);
            let mmap_size = db.map_or(0, |db| api.mmap_size(db));
            let sight = db.filter(|_| mmap_size == 0).map(|db| hook::sight(api, db));
            status_json(mmap_size, sight.unwrap_or(Sight::Seen))
        });
        api.answer(context, answer.as_deref().map_err(|_| "foreseek_status: an internal failure"));
    }
}

pub(crate) fn status_json(mmap_size: i64, sight: Sight) -> String {
    let (disabled, hooked) = STATE.get().map_or((true, &[][..]), |state| (state.disabled, &state.hooked));
    let remedy = if disabled {
        "switched off by FORESEEK_DISABLE: unset it and load again".to_owned()
    } else if guest::is_aside() {
        "an internal failure; see standard error".to_owned()
    } else if !hook::is_own_process() {
        "this is a forked child: prefetching is its parent's; load the extension in a process of its own"
            .to_owned()
    } else if sight == Sight::Unseen || !observes_reads(hooked) {
        NO_HOOKS.to_owned()
    } else if sight == Sight::Unknown {
        UNKNOWN.to_owned()
    } else if mmap_size > 0 {
        mmap_remedy(mmap_size)
    } else if !settings::is_enabled() {
        "switched off: SELECT foreseek_set('prefetch', 'on')".to_owned()
    } else {
        String::new()
    };
    let hooked = hooked.iter().map(|call| format!("\"{call}\"")).collect::<Vec<_>>().join(",");
    let reports = hook::reports();
    let files = reports.iter().map(file_json).collect::<Vec<_>>().join(",");
    let statements = reports.iter().flat_map(|report| &report.statements).map(statement_json);
    let statements = statements.collect::<Vec<_>>().join(",");
    let active = remedy.is_empty();
    let remedy = quoted(&remedy);
    format!(
        "{{\"active\":{active},\"remedy\":{remedy},\"hooked\":[{hooked}],\"files\":[{files}],\"statements\":[{statements}]}}"
    )
}

fn file_json(report: &Report) -> String {
    let planner = &report.planner;
    let mut json =
        format!("{{\"page_size\":{},\"wal\":{}", report.header.page_size().get(), report.header.wal);
    for (name, value) in [
        ("pages_read", planner.pages),
        ("leaves_read", planner.leaves),
        ("scans", planner.scans),
        ("ends_known", planner.ends_known),
        ("scans_finished", planner.finished),
        ("predicted_reads", planner.predicted),
        ("unpredicted_reads", planner.unpredicted),
        ("planned_reads", planner.planned),
        ("failed", planner.failed),
        ("own_reads", report.own_reads),
        ("bypassed_reads", report.passed),
        ("short_statements", report.short),
        ("windows_read_around", report.around.windows),
        ("pages_read_around", report.around.pages),
        ("pages_read_around_used", report.around.used),
        ("pages_read_around_evicted", report.around.evicted),
    ] {
        // Writing to a string does not fail.
        let _ = write!(json, ",\"{name}\":{value}");
    }
    if let Some(client) = &report.client {
        let _ = write!(json, ",\"prefetch\":{}", client.to_json());
    }
    json.push('}');
    json
}

fn statement_json(statement: &Statement) -> String {
    let Statement { sql, runs, reads, waited, prefetched, sums, why } = statement;
    let seconds = |time: Nanos| time.get() as f64 / 1e9;
    format!(
        "{{\"sql\":{},\"runs\":{runs},\"seconds\":{:.6},\"stock_seconds\":{:.6},\"reads\":{reads},\
         \"waited\":{waited},\"prefetched\":{prefetched},\"why\":{}}}",
        quoted(sql),
        seconds(sums.actual),
        seconds(sums.stock),
        quoted(why.line())
    )
}

/// `foreseek_set(name, value)`.
unsafe extern "C" fn set(context: Context, _: c_int, arguments: *mut Value) {
    let Some(api) = Api::current() else { return };
    // SAFETY: SQLite gives two arguments, as registered.
    unsafe {
        let text = |position| api.text(*arguments.add(position)).unwrap_or_default();
        let (name, value) = (text(0), text(1));
        let answer = catch_unwind(|| change(&name, &value))
            .unwrap_or_else(|_| Err("foreseek_set: an internal failure".to_owned()));
        api.answer(context, answer.as_deref().map_err(String::as_str));
    }
}

fn change(name: &str, value: &str) -> Result<String, String> {
    match (name, value) {
        ("prefetch", "on") => settings::enable(true),
        ("prefetch", "off") => settings::enable(false),
        ("bypass" | "doze", "on") => settings::allow_bypass(true),
        ("bypass" | "doze", "off") => settings::allow_bypass(false),
        ("memory", _) => {
            let memory: Bytes = value.parse().map_err(|error| format!("foreseek_set: memory: {error}"))?;
            if memory.pages_floor().is_zero() {
                return Err("foreseek_set: memory: it holds not even one page of 4 KiB".to_owned());
            }
            settings::set_memory(memory);
            hook::drop_clients();
        }
        ("prefetch" | "bypass" | "doze", _) => {
            return Err(format!("foreseek_set: {name}: '{value}': give on or off"));
        }
        _ => return Err(format!("foreseek_set: '{name}' is unknown: give prefetch, memory or bypass")),
    }
    Ok(value.to_owned())
}
