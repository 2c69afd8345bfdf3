//! The functions by which programs open a connection.
//!
//! The SQLite that a call is meant for depends on the caller: each function passes its return address to the
//! one that does the work.
#![allow(unsafe_code)]

use crate::meant::Sqlite;
use libc::{c_char, c_int, c_void};
use std::arch::naked_asm;

/// A connection; opaque.
type Db = *mut c_void;

/// `SQLITE_CANTOPEN`: the result for a program without any SQLite. Without this library, such a program could
/// only have asked the loader for this name.
const CANNOT_OPEN: c_int = 14;

/// `sqlite3_open`.
///
/// # Safety
/// As SQLite documents it.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn sqlite3_open(name: *const c_char, db: *mut Db) -> c_int {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov rdx, [rsp]", "jmp {open}", open = sym open);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov x2, x30", "b {open}", open = sym open);
}

/// `sqlite3_open16`.
///
/// # Safety
/// As SQLite documents it.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn sqlite3_open16(name: *const c_void, db: *mut Db) -> c_int {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov rdx, [rsp]", "jmp {open}", open = sym open16);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov x2, x30", "b {open}", open = sym open16);
}

/// `sqlite3_open_v2`.
///
/// # Safety
/// As SQLite documents it.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn sqlite3_open_v2(
    name: *const c_char,
    db: *mut Db,
    flags: c_int,
    vfs: *const c_char,
) -> c_int {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov r8, [rsp]", "jmp {open}", open = sym open_v2);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov x4, x30", "b {open}", open = sym open_v2);
}

unsafe extern "C" fn open(name: *const c_char, db: *mut Db, caller: *const c_void) -> c_int {
    type Open = unsafe extern "C" fn(*const c_char, *mut Db) -> c_int;
    let Some(sqlite) = Sqlite::meant(c"sqlite3_open", caller) else { return cannot_open(db) };
    // SAFETY: the function of this name has this type; the arguments are the caller's own.
    unsafe {
        let real: Open = std::mem::transmute(sqlite.function());
        opened(&sqlite, real(name, db), db)
    }
}

unsafe extern "C" fn open16(name: *const c_void, db: *mut Db, caller: *const c_void) -> c_int {
    type Open = unsafe extern "C" fn(*const c_void, *mut Db) -> c_int;
    let Some(sqlite) = Sqlite::meant(c"sqlite3_open16", caller) else { return cannot_open(db) };
    // SAFETY: as above.
    unsafe {
        let real: Open = std::mem::transmute(sqlite.function());
        opened(&sqlite, real(name, db), db)
    }
}

unsafe extern "C" fn open_v2(
    name: *const c_char,
    db: *mut Db,
    flags: c_int,
    vfs: *const c_char,
    caller: *const c_void,
) -> c_int {
    type Open = unsafe extern "C" fn(*const c_char, *mut Db, c_int, *const c_char) -> c_int;
    let Some(sqlite) = Sqlite::meant(c"sqlite3_open_v2", caller) else { return cannot_open(db) };
    // SAFETY: as above.
    unsafe {
        let real: Open = std::mem::transmute(sqlite.function());
        opened(&sqlite, real(name, db, flags, vfs), db)
    }
}

/// Introduces a connection if it was opened, and returns the outcome.
///
/// # Safety
/// `db` must be the argument of the opening function.
unsafe fn opened(sqlite: &Sqlite, code: c_int, db: *mut Db) -> c_int {
    // SAFETY: if the connection could be opened, SQLite has written it there, and no other thread has it yet.
    unsafe {
        if code == 0 && !db.is_null() && !(*db).is_null() {
            sqlite.attach(*db);
        }
    }
    code
}

fn cannot_open(db: *mut Db) -> c_int {
    if !db.is_null() {
        // SAFETY: the caller wants a connection there.
        unsafe { *db = std::ptr::null_mut() };
    }
    CANNOT_OPEN
}
