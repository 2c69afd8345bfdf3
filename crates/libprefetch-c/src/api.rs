//! The interface of ATC'09 figure 6. `include/libprefetch.h` is generated from this file: its names
//! are those of the paper, its comments are for C programmers.
#![allow(unsafe_code, non_camel_case_types, non_snake_case, clippy::missing_safety_doc)]

use crate::clients::{self, Ask, Registered, Unregistered};
use crate::edge::{fail, quietly, set_errno};
use foreseek_libprefetch::guest::ReentryGuard;
use foreseek_libprefetch::{CallbackRequest, Entry, Error, HintMode, Region};
use foreseek_units::{ByteOffset, ByteSpan};
use libc::{c_int, c_void, loff_t, size_t, ssize_t};
use std::sync::Arc;

/// Extend the access list.
pub const PF_APPEND: c_int = 1;
/// Replace the access list.
pub const PF_SET: c_int = 2;
/// Replace the entries after the most recently accessed marked entry of the access list.
pub const PF_SET_FROM_MARK: c_int = 4;
/// There are no more entries for now. Combine it with one of the other three.
pub const PF_DONE: c_int = 8;

/// One intended read.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct access_entry {
    /// Offset of any byte of the page.
    pub pageOffset: loff_t,
    /// Any open descriptor of the file.
    pub fd: c_int,
    /// Whether the entry is a landmark, which is passed to the callback.
    pub mark: bool,
}

/// The target of a client_t; it has no contents.
pub struct prefetch_client(());
/// The target of a region_t; it has no contents.
pub struct prefetch_region(());

/// A client: one access list and its regions.
pub type client_t = *mut prefetch_client;
/// A registered region of a client.
pub type region_t = *mut prefetch_region;

/// Called by a read of a registered region when the access list has ended, or when the read is not on
/// it. The application then updates the list with request_prefetching.
///
/// arg is the argument of register_client. lastMarkedFD and lastMarkedOffset are the most recently
/// accessed marked entry (an entry counts as accessed when a later one was); both are -1 if there is
/// none. requestedFD and requestedOffset are the read that led to the call.
///
/// It runs in the reading thread. Its own reads and closes pass the library unseen, as between
/// ignore_accesses and unignore_accesses. It may call every function of this library. It must return:
/// no longjmp, no C++ exception, no pthread_exit.
pub type callback_t = Option<
    unsafe extern "C" fn(
        arg: *mut c_void,
        lastMarkedFD: c_int,
        lastMarkedOffset: loff_t,
        requestedFD: c_int,
        requestedOffset: loff_t,
    ),
>;

/// Creates a client with an empty access list. cb may be NULL: then the application updates the list
/// without being called.
///
/// Several clients may be registered, as long as their regions do not overlap. A forked child
/// inherits none.
///
/// Returns NULL with errno ENOMEM if there are too many clients.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn register_client(cb: callback_t, arg: *mut c_void) -> client_t {
    let argument = arg as usize;
    let ask = cb.map(|cb| -> Ask { Box::new(move |want| call(cb, argument, want)) });
    match api(|| clients::register(ask)) {
        Some(Ok(number)) => std::ptr::without_provenance_mut(number),
        Some(Err(Unregistered::TooMany | Unregistered::Lost)) | None => {
            set_errno(libc::ENOMEM);
            std::ptr::null_mut()
        }
    }
}

/// Ends a client and its regions. It does not wait for a callback of the client in another thread.
///
/// Returns 0, or -1 with errno EINVAL if there is no such client.
#[unsafe(no_mangle)]
pub extern "C" fn unregister_client(c: client_t) -> c_int {
    match api(|| clients::unregister(c.addr())) {
        Some(false) => fail(libc::EINVAL),
        Some(true) | None => 0,
    }
}

/// Watches the reads of a file's bytes from start up to, but not including, end, through any of its
/// descriptors. The file may be shorter. The region outlives the descriptor.
///
/// Returns NULL with errno EINVAL (no such client, start negative or not below end, or neither a
/// regular file nor a block device, or opened with O_DIRECT), EBADF (not open for reading), EBUSY (it
/// overlaps a region of another client) or ENOMEM (too many regions).
#[unsafe(no_mangle)]
pub extern "C" fn register_region(c: client_t, fd: c_int, start: loff_t, end: loff_t) -> region_t {
    let answer = with_client(c, |registered| {
        let (start, end) = (offset(start)?, offset(end)?);
        registered.client.watch(fd, ByteSpan::new(start, end)).map_err(|error| errno_of(&error))
    });
    match answer {
        Ok(region) => std::ptr::without_provenance_mut(region.number() as usize),
        Err(code) => {
            set_errno(code);
            std::ptr::null_mut()
        }
    }
}

/// Ends a region.
///
/// Returns 0, or -1 with errno EINVAL if there is no such client or region.
#[unsafe(no_mangle)]
pub extern "C" fn unregister_region(c: client_t, r: region_t) -> c_int {
    let region = Region::from_number(r.addr() as u64);
    let answer =
        with_client(c, |registered| registered.client.unwatch(region).map_err(|error| errno_of(&error)));
    answer.map_or_else(fail, |()| 0)
}

/// Announces coming reads: n entries in order of access. type is one of PF_SET, PF_APPEND and
/// PF_SET_FROM_MARK, with PF_DONE if there are no more entries for now. PF_DONE alone counts as
/// PF_APPEND | PF_DONE.
///
/// Returns how many entries were accepted: fewer than n once the access list is full; the callback is
/// then called when there is room. If none was accepted, returns -1 with errno EINVAL (no such
/// client, another type, a negative offset), EFAULT (no entries given) or EBADF (an entry of a file
/// without a region of this client).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn request_prefetching(
    c: client_t,
    a: *const access_entry,
    n: size_t,
    r#type: c_int,
) -> ssize_t {
    let answer = with_client(c, |registered| {
        let mode = match r#type & !PF_DONE {
            PF_SET => HintMode::Set,
            PF_SET_FROM_MARK => HintMode::SetFromMark,
            PF_APPEND => HintMode::Append,
            0 if r#type == PF_DONE => HintMode::Append,
            _ => return Err(libc::EINVAL),
        };
        let entries = match (a.is_null(), n) {
            (_, 0) => &[][..],
            (true, _) => return Err(libc::EFAULT),
            // SAFETY: the caller passes `n` entries.
            _ => unsafe { std::slice::from_raw_parts(a, n) },
        };
        request(registered, mode, entries, r#type & PF_DONE != 0)
    });
    match answer {
        Ok(taken) => taken as ssize_t,
        Err(code) => fail(code) as ssize_t,
    }
}

/// From now on this thread's reads of the client's regions do not count as progress through the
/// access list, until unignore_accesses; the two nest. Returns 0, or -1 with errno EINVAL if there is
/// no such client.
#[unsafe(no_mangle)]
pub extern "C" fn ignore_accesses(c: client_t) -> c_int {
    let answer = with_client(c, |registered| {
        registered.client.ignore();
        Ok(())
    });
    answer.map_or_else(fail, |()| 0)
}

/// Ends ignore_accesses. Returns 0, or -1 with errno EINVAL if there is no such client or this thread
/// ignores none of its reads.
#[unsafe(no_mangle)]
pub extern "C" fn unignore_accesses(c: client_t) -> c_int {
    let answer =
        with_client(c, |registered| if registered.client.unignore() { Ok(()) } else { Err(libc::EINVAL) });
    answer.map_or_else(fail, |()| 0)
}

/// How many entries are converted at a time: 192 KiB of them.
const BATCH: usize = 8192;

/// Passes entries on in batches; returns how many were accepted.
fn request(
    registered: &Registered,
    mode: HintMode,
    entries: &[access_entry],
    done: bool,
) -> Result<usize, c_int> {
    if entries.iter().any(|entry| entry.pageOffset < 0) {
        return Err(libc::EINVAL);
    }
    let mut taken = 0;
    let mut mode = mode;
    loop {
        let batch = &entries[taken..entries.len().min(taken + BATCH)];
        let is_last = taken + batch.len() == entries.len();
        let converted: Vec<Entry> = batch.iter().map(entry).collect();
        let accepted = match registered.client.hint(mode, &converted, done && is_last) {
            Ok(accepted) => accepted,
            Err(error) if taken == 0 => return Err(errno_of(&error)),
            Err(_) => return Ok(taken),
        };
        taken += accepted;
        if is_last || accepted < batch.len() {
            return Ok(taken);
        }
        mode = HintMode::Append;
    }
}

fn entry(entry: &access_entry) -> Entry {
    Entry { fd: entry.fd, offset: ByteOffset(entry.pageOffset.max(0) as u64), mark: entry.mark }
}

/// Calls the application.
fn call(
    cb: unsafe extern "C" fn(*mut c_void, c_int, loff_t, c_int, loff_t),
    argument: usize,
    want: CallbackRequest,
) {
    let signed = |offset: ByteOffset| loff_t::try_from(offset.get()).unwrap_or(loff_t::MAX);
    let (marked_fd, marked_offset) = want.marked.map_or((-1, -1), |(fd, offset)| (fd, signed(offset)));
    let (requested_fd, requested_offset) = want.requested;
    // SAFETY: the application registered this function with this argument, for this call.
    unsafe {
        cb(argument as *mut c_void, marked_fd, marked_offset, requested_fd, signed(requested_offset));
    }
}

/// Runs the work of a call of the application.
fn api<T>(work: impl FnOnce() -> T) -> Option<T> {
    quietly(|| {
        let _inside = ReentryGuard::enter();
        work()
    })
}

/// The same for a client that must exist; the error is an errno.
fn with_client<T>(c: client_t, work: impl FnOnce(&Registered) -> Result<T, c_int>) -> Result<T, c_int> {
    api(|| {
        let registered: Arc<Registered> = clients::find(c.addr()).ok_or(libc::EINVAL)?;
        work(&registered)
    })
    .unwrap_or(Err(libc::EINVAL))
}

fn offset(raw: loff_t) -> Result<ByteOffset, c_int> {
    u64::try_from(raw).map(ByteOffset).map_err(|_| libc::EINVAL)
}

fn errno_of(error: &Error) -> c_int {
    match error {
        Error::Descriptor { fd, .. } => {
            // SAFETY: asks for the flags of a descriptor, which checks it.
            let flags = unsafe { libc::fcntl(*fd, libc::F_GETFL) };
            let is_readable =
                flags >= 0 && flags & libc::O_ACCMODE != libc::O_WRONLY && flags & libc::O_PATH == 0;
            if is_readable { libc::EINVAL } else { libc::EBADF }
        }
        Error::Overlap { .. } => libc::EBUSY,
        Error::NotWatched { .. } => libc::EBADF,
        Error::TooMany { .. } => libc::ENOMEM,
        _ => libc::EINVAL,
    }
}
