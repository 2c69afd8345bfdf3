//! The edge between the host and the library: errno, cancellation and panics stay on their side.
#![allow(unsafe_code)]

use foreseek_libprefetch::guest::step_aside;
use libc::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// The calling thread's errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: glibc gives each thread a valid errno for as long as it runs.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = code }
}

/// Does the library's work: errno is the same afterwards, the thread is not cancelled within, and no panic gets
/// out. `None` after a panic; then the library has stepped aside.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    let saved = errno();
    let mut cancellation = 0;
    // SAFETY: the pointer is to a live integer; both states are restored below, on every way.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut cancellation) };
    let outcome = catch_unwind(AssertUnwindSafe(work));
    if outcome.is_err() {
        step_aside("an internal failure (a bug: please report it)");
    }
    // SAFETY: the state is the one that the thread had.
    unsafe { pthread_setcancelstate(cancellation, std::ptr::null_mut()) };
    set_errno(saved);
    outcome.ok()
}

/// Fails with a code: sets errno and returns -1.
pub(crate) fn fail(code: c_int) -> c_int {
    set_errno(code);
    -1
}
