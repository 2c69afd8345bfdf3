//! The calls that close descriptors: the clients release them first, since afterwards the number may belong to
//! another file.
//!
//! `dup` and `fcntl(F_DUPFD)` need no replacement: a new descriptor of a known file is identified when it is
//! first read or hinted through.
#![allow(unsafe_code, clippy::missing_safety_doc, missing_docs)]

use crate::clients;
use crate::edge::quietly;
use crate::next::call_next;
use libc::{c_int, c_uint};

#[inline]
fn before(first: c_int, last: c_int) {
    if clients::any() && first >= 0 && first <= last {
        quietly(|| clients::before_close(first, last));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    before(fd, fd);
    call_next!(c"close", fn(fd: c_int) -> c_int, else libc::syscall(libc::SYS_close, fd) as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    if old != new {
        before(new, new);
    }
    call_next!(c"dup2", fn(old: c_int, new: c_int) -> c_int, else raw_dup2(old, new))
}

/// `dup2` if the C library's is not available; newer architectures have no such system call.
///
/// # Safety
/// None beyond that of `dup2`.
unsafe fn raw_dup2(old: c_int, new: c_int) -> c_int {
    if old == new {
        // SAFETY: asks for the flags of a descriptor, which checks it.
        return if unsafe { libc::fcntl(old, libc::F_GETFD) } < 0 { -1 } else { new };
    }
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_dup3, old, new, 0 as c_int) as c_int }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if old != new {
        before(new, new);
    }
    call_next!(c"dup3", fn(old: c_int, new: c_int, flags: c_int) -> c_int,
        else libc::syscall(libc::SYS_dup3, old, new, flags) as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags as c_uint & libc::CLOSE_RANGE_CLOEXEC == 0
        && let Ok(first) = c_int::try_from(first)
    {
        before(first, c_int::try_from(last).unwrap_or(c_int::MAX));
    }
    call_next!(c"close_range", fn(first: c_uint, last: c_uint, flags: c_int) -> c_int,
        else libc::syscall(libc::SYS_close_range, first, last, flags) as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    before(first.max(0), c_int::MAX);
    call_next!(c"closefrom", fn(first: c_int) -> (),
        else { libc::syscall(libc::SYS_close_range, first.max(0), c_uint::MAX, 0 as c_int); })
}
