//! The SQLite extension for programs that load no extension: a library for `LD_PRELOAD`.
//!
//! It replaces `sqlite3_open`, `sqlite3_open_v2` and `sqlite3_open16`. Each calls the function that the program
//! would have called, and introduces the opened connection to [`foreseek_sqlite`], through SQLite's own
//! exported routines. It then works like the loaded extension. Nothing is done before a database was opened: a
//! program may still configure its SQLite.
//!
//! Limits:
//!
//! - A copy of SQLite that is linked into a program or a library, and exports nothing, is not followed. Nor is
//!   one whose functions are looked up by name (`dlsym`: ctypes, some bindings of other languages). With
//!   `FORESEEK_SQLITE_STATUS` set, a process without a followed connection reports the files that hold a SQLite
//!   when it ends (`copies`).
//! - A program that is linked statically, or gains rights when it is started, does not load the library.
//! - Of several SQLites in one process, the one that opens a database first is followed.
//! - x86-64 and arm64, glibc.

mod copies;
mod meant;
mod opens;
mod start;

pub use opens::{sqlite3_open, sqlite3_open_v2, sqlite3_open16};
pub use start::foreseek_sqlite_is_preloaded;
