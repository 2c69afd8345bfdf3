//! The code that runs when the library is loaded.
#![allow(unsafe_code)]

use crate::copies::copies;

/// Called by the loader before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // Errors are ignored: the program begins in any case.
    let _ = std::panic::catch_unwind(|| foreseek_sqlite::report_at_exit(copies));
}

/// Its presence shows the loadable extension that it is not needed.
#[unsafe(no_mangle)]
pub extern "C" fn foreseek_sqlite_is_preloaded() {}
