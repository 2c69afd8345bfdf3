//! What is done when the library is loaded.
#![allow(unsafe_code)]

use crate::copies::copies;

/// Called by the loader before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // Whatever goes wrong here, the program begins.
    let _ = std::panic::catch_unwind(|| foreseek_sqlite::report_at_exit(copies));
}

/// Its being there tells the loadable extension that it is not needed.
#[unsafe(no_mangle)]
pub extern "C" fn foreseek_sqlite_is_preloaded() {}
