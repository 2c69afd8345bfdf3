//! The reads that are replaced.
//!
//! Each notifies the clients of the coming read, if there are clients, and then calls the C library's function.
//! Nothing with a destructor is alive at that call, so that a cancelled thread unwinds through these frames as
//! through C.
#![allow(unsafe_code, clippy::missing_safety_doc, missing_docs)]

use crate::clients::{self, At};
use crate::edge::quietly;
use crate::next::call_next;
use foreseek_units::Bytes;
use libc::{c_int, c_long, c_void, iovec, off_t, off64_t, size_t, ssize_t};

#[inline]
fn before(fd: c_int, at: At, length: size_t) {
    if clients::any() {
        quietly(|| clients::before_read(fd, at, Bytes(length as u64)));
    }
}

/// # Safety
/// `iov` points to `count` valid structures, as the caller owes the kernel too.
#[inline]
unsafe fn before_vector(fd: c_int, at: At, iov: *const iovec, count: c_int) {
    if clients::any() && !iov.is_null() && (1..=libc::UIO_MAXIOV).contains(&count) {
        quietly(|| {
            // SAFETY: promised by the caller.
            let parts = unsafe { std::slice::from_raw_parts(iov, count as usize) };
            let length = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.iov_len as u64));
            clients::before_read(fd, at, Bytes(length));
        });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    before(fd, At::Position, count);
    call_next!(c"read", fn(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t,
        else libc::syscall(libc::SYS_read, fd, buf, count) as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    room: size_t,
) -> ssize_t {
    before(fd, At::Position, count);
    call_next!(c"__read_chk", fn(fd: c_int, buf: *mut c_void, count: size_t, room: size_t) -> ssize_t,
        else libc::syscall(libc::SYS_read, fd, buf, count.min(room)) as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pread(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t) -> ssize_t {
    before(fd, At::Offset(offset), count);
    call_next!(c"pread", fn(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t) -> ssize_t,
        else libc::syscall(libc::SYS_pread64, fd, buf, count, offset) as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pread64(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    offset: off64_t,
) -> ssize_t {
    before(fd, At::Offset(offset), count);
    call_next!(c"pread64", fn(fd: c_int, buf: *mut c_void, count: size_t, offset: off64_t) -> ssize_t,
        else libc::syscall(libc::SYS_pread64, fd, buf, count, offset) as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pread_chk(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    offset: off_t,
    room: size_t,
) -> ssize_t {
    before(fd, At::Offset(offset), count);
    call_next!(c"__pread_chk",
        fn(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t,
        else libc::syscall(libc::SYS_pread64, fd, buf, count.min(room), offset) as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pread64_chk(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    offset: off64_t,
    room: size_t,
) -> ssize_t {
    before(fd, At::Offset(offset), count);
    call_next!(c"__pread64_chk",
        fn(fd: c_int, buf: *mut c_void, count: size_t, offset: off64_t, room: size_t) -> ssize_t,
        else libc::syscall(libc::SYS_pread64, fd, buf, count.min(room), offset) as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { before_vector(fd, At::Position, iov, count) };
    call_next!(c"readv", fn(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t,
        else libc::syscall(libc::SYS_readv, fd, iov, count) as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv(fd: c_int, iov: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { before_vector(fd, At::Offset(offset), iov, count) };
    call_next!(c"preadv", fn(fd: c_int, iov: *const iovec, count: c_int, offset: off_t) -> ssize_t,
        else libc::syscall(libc::SYS_preadv, fd, iov, count, offset, 0 as c_long) as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off64_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { before_vector(fd, At::Offset(offset), iov, count) };
    call_next!(c"preadv64", fn(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t) -> ssize_t,
        else libc::syscall(libc::SYS_preadv, fd, iov, count, offset, 0 as c_long) as ssize_t)
}

/// # Safety
/// As `before_vector`.
#[inline]
unsafe fn before_vector2(fd: c_int, iov: *const iovec, count: c_int, offset: i64, flags: c_int) {
    // A read that must not wait is a query of the cache, not an access.
    if flags & libc::RWF_NOWAIT == 0 {
        let at = if offset == -1 { At::Position } else { At::Offset(offset) };
        // SAFETY: the caller's promise.
        unsafe { before_vector(fd, at, iov, count) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { before_vector2(fd, iov, count, offset, flags) };
    call_next!(c"preadv2",
        fn(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t,
        else libc::syscall(libc::SYS_preadv2, fd, iov, count, offset, 0 as c_long, flags) as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { before_vector2(fd, iov, count, offset, flags) };
    call_next!(c"preadv64v2",
        fn(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t,
        else libc::syscall(libc::SYS_preadv2, fd, iov, count, offset, 0 as c_long, flags) as ssize_t)
}
