//! The reads of SQLite's unix VFS, seen through its replaceable system calls (`xSetSystemCall`).
//!
//! One table of calls serves all unix VFSes and every connection of the process, including those already open,
//! and the extension needs no descriptor of its own. A hook never fails and never waits for another thread: if
//! a lock is taken, the read passes unseen. After a fork the child's reads pass.
#![allow(unsafe_code)]

use crate::api::{Api, Db};
use crate::header::CHANGE_COUNTER_AT;
use crate::page::PageNo;
use crate::settings;
use crate::statements::{Run, Running};
use crate::watch::{Connection, Followed, Report, Watch, header_of};
use foreseek_libprefetch::guest::{is_inside, step_aside};
use foreseek_storage::{HostFd, Identity};
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use libc::{c_int, c_void, off_t, size_t, ssize_t};
use std::cell::{Cell, LazyCell};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, LazyLock, Mutex, RwLock};
use std::time::Instant;

/// The most remembered descriptors, databases or not. Beyond, they are checked again.
const DESCRIPTORS_LIMIT: usize = 4096;
/// The most connections that are searched for the one that has attached a file.
const CONNECTIONS_LIMIT: usize = 64;
/// The most database files at a time. A process with more has no memory to prefetch for each.
const FILES_LIMIT: usize = 256;
/// The VFSes of the unix family, all of which share the table of calls; the first one found is used.
const VFSES: [&CStr; 4] = [c"unix", c"unix-excl", c"unix-dotfile", c"unix-none"];

type ReadCall = unsafe extern "C" fn(c_int, *mut c_void, size_t) -> ssize_t;
type Pread = unsafe extern "C" fn(c_int, *mut c_void, size_t, off_t) -> ssize_t;
type Close = unsafe extern "C" fn(c_int) -> c_int;

static REAL_READ: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static REAL_PREAD: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static REAL_PREAD64: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static REAL_CLOSE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Whether this is a forked child of the process in which the hooks were set. The C library sets it at the
/// fork, since asking for the process id would take a system call for each read.
static FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// While armed, the next read of this thread stores its descriptor here.
    static PROBE: Cell<Option<RawFd>> = const { Cell::new(None) };
}
/// The value of an armed probe before a read.
const ARMED: RawFd = -1;

#[derive(Clone)]
enum Known {
    Database(Arc<Mutex<Watch>>),
    Other,
}

/// Stands for several connections of a descriptor: they share a cache.
const SEVERAL: usize = usize::MAX;

#[derive(Default)]
struct Table {
    descriptors: HashMap<RawFd, Known>,
    files: HashMap<Identity, Arc<Mutex<Watch>>>,
    /// The connection that reads through a descriptor, if it was introduced.
    connections: HashMap<RawFd, usize>,
    /// Every introduced connection.
    open: HashSet<usize>,
}

impl Table {
    /// The connection that reads through a descriptor at present: the one whose main database has it. No
    /// interface reports the descriptors of attached databases. Their connection must be the only one that runs
    /// a statement and that this thread may enter. It is live while the table is held: a connection is removed
    /// before it ends, and the removal waits for the table.
    fn connection(&self, api: Api, fd: HostFd) -> Option<Db> {
        if let Some(&known) = self.connections.get(&fd.raw()) {
            return Some(known).filter(|known| *known != SEVERAL).map(|known| known as Db);
        }
        if self.open.len() > CONNECTIONS_LIMIT {
            return None;
        }
        // Counted once, and only if a connection has no mutex.
        let is_alone = LazyCell::new(is_only_thread);
        // SAFETY: those in the table are live, and one without a mutex is only entered if no other thread could
        // be within it.
        let runs = |db: &Db| unsafe { (api.has_mutex(*db) || *is_alone) && api.is_running(*db) };
        let mut running = self.open.iter().map(|&open| open as Db).filter(runs);
        running.next().filter(|_| running.next().is_none())
    }
}

static TABLE: LazyLock<RwLock<Table>> = LazyLock::new(RwLock::default);

/// Whether the process has no other thread, which could be within a connection without a mutex.
fn is_only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Sets the hooks; returns the names of the hooked calls.
pub(crate) fn install(api: Api) -> Vec<&'static str> {
    // SAFETY: the handler only sets a flag, and the library is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    let calls: [(&CStr, &'static str, *mut c_void, &AtomicPtr<c_void>); 4] = [
        (c"read", "read", read_hook as ReadCall as *mut c_void, &REAL_READ),
        (c"pread", "pread", pread_hook as Pread as *mut c_void, &REAL_PREAD),
        (c"pread64", "pread64", pread64_hook as Pread as *mut c_void, &REAL_PREAD64),
        (c"close", "close", close_hook as Close as *mut c_void, &REAL_CLOSE),
    ];
    let default: [*mut c_void; 4] = [
        libc::read as ReadCall as *mut c_void,
        libc::pread as Pread as *mut c_void,
        libc::pread64 as Pread as *mut c_void,
        libc::close as Close as *mut c_void,
    ];
    let mut seen = Vec::new();
    for ((call, name, hook, real), default) in calls.into_iter().zip(default) {
        // A read may come after the hook is set and before the former call is stored.
        let _ = real.compare_exchange(std::ptr::null_mut(), default, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: the hook has the call's type; the library is never unloaded.
        let former = VFSES.iter().find_map(|vfs| unsafe { api.override_call(vfs, call, hook) });
        if let Some(former) = former {
            if former != hook {
                real.store(former, Ordering::Release);
            }
            seen.push(name);
        }
    }
    seen
}

/// Introduces a connection, and finds the descriptor of its main database. Call it while the connection is set
/// up.
pub(crate) fn introduce(api: Api, db: Db) {
    if !is_own_process() {
        return;
    }
    let (_, fd) = probe(api, db);
    let Ok(mut table) = TABLE.write() else { return };
    table.open.insert(db as usize);
    let Some(fd) = fd else { return };
    let has_room = table.connections.len() < DESCRIPTORS_LIMIT;
    match table.connections.entry(fd.raw()) {
        Entry::Occupied(mut known) if *known.get() != db as usize => {
            known.insert(SEVERAL);
        }
        Entry::Vacant(new) if has_room => {
            new.insert(db as usize);
        }
        _ => {}
    }
}

/// What the hooks see of a connection's main database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// They see its reads, or it has no file.
    Seen,
    /// Its reads bypass the hooks.
    Unseen,
    /// They see its reads, but cannot decode the data.
    Unknown,
}

/// What the hooks see of a connection's main database.
pub(crate) fn sight(api: Api, db: Db) -> Sight {
    match probe(api, db) {
        (true, None) => Sight::Unseen,
        (true, Some(fd)) if is_own_process() && matches!(known(fd), Some(Known::Other)) => Sight::Unknown,
        _ => Sight::Seen,
    }
}

/// Whether a connection's main database has a file, and the descriptor by which a hook saw it read.
fn probe(api: Api, db: Db) -> (bool, Option<HostFd>) {
    PROBE.set(Some(ARMED));
    let has_file = api.touch(db);
    (has_file, PROBE.take().and_then(HostFd::new))
}

/// A connection has ended.
pub(crate) fn forget(db: Db) {
    if is_own_process()
        && let Ok(mut table) = TABLE.write()
    {
        table.connections.retain(|_, known| *known != db as usize);
        table.open.remove(&(db as usize));
    }
}

/// Every file. The table is not held while a file is waited for, which may be in a round.
fn files() -> Vec<Arc<Mutex<Watch>>> {
    if !is_own_process() {
        // A thread that the fork did not copy may hold any of the locks.
        return Vec::new();
    }
    TABLE.read().map(|table| table.files.values().map(Arc::clone).collect()).unwrap_or_default()
}

/// Counters of every file.
pub(crate) fn reports() -> Vec<Report> {
    files().iter().filter_map(|file| Some(file.lock().ok()?.report())).collect()
}

/// Drops the clients, so that new ones are created with new settings.
pub(crate) fn drop_clients() {
    for file in files() {
        if let Ok(mut file) = file.lock() {
            file.drop_client();
        }
    }
}

/// Whether this is not a forked child.
pub(crate) fn is_own_process() -> bool {
    !FORKED.load(Ordering::Relaxed)
}

unsafe extern "C" fn forked() {
    FORKED.store(true, Ordering::Relaxed);
}

/// The entry of a descriptor, which is checked if it is new. `None` if that has to wait.
fn known(fd: HostFd) -> Option<Known> {
    if let Some(known) = TABLE.try_read().ok()?.descriptors.get(&fd.raw()) {
        return Some(known.clone());
    }
    let (identity, length) = fd.identify()?;
    // An empty file may become a database: check again later.
    if length.is_some_and(Bytes::is_zero) {
        return None;
    }
    let header = header_of(fd).ok();
    let mut table = TABLE.try_write().ok()?;
    if table.descriptors.len() >= DESCRIPTORS_LIMIT {
        table.descriptors.clear();
    }
    let known = match header.filter(|_| fd.obstacle().is_none()) {
        None => Known::Other,
        Some(header) => {
            if table.files.len() >= FILES_LIMIT && !table.files.contains_key(&identity) {
                // Drop those without a descriptor; the others stay.
                table.files.retain(|_, file| Arc::strong_count(file) > 1);
                if table.files.len() >= FILES_LIMIT {
                    return None;
                }
            }
            let new = || Arc::new(Mutex::new(Watch::new(header, &identity, length)));
            let file = Arc::clone(table.files.entry(identity).or_insert_with(new));
            if let Ok(mut watch) = file.try_lock() {
                watch.adopt(fd, header, length);
            }
            Known::Database(file)
        }
    };
    table.descriptors.insert(fd.raw(), known.clone());
    Some(known)
}

/// A read of a database that is to be handled when it is done.
struct Seen {
    fd: HostFd,
    file: Arc<Mutex<Watch>>,
    span: ByteSpan,
    page: Option<PageNo>,
    followed: Option<Followed>,
    begun: Instant,
}

fn before(fd: c_int, count: size_t, offset: impl FnOnce(HostFd) -> Option<ByteOffset>) -> Option<Seen> {
    if PROBE.get() == Some(ARMED) {
        PROBE.set(Some(fd));
        return None;
    }
    if !settings::is_enabled() || is_inside() || !is_own_process() {
        return None;
    }
    let begun = Instant::now();
    let fd = HostFd::new(fd)?;
    let Known::Database(file) = known(fd)? else { return None };
    let span = ByteSpan::at(offset(fd)?, Bytes(count as u64));
    let (page, followed) = {
        let mut watch = file.try_lock().ok()?;
        let page = watch.header().page_at(span);
        (page, page.and_then(|page| watch.before(fd, page, span)))
    };
    Some(Seen { fd, file, span, page, followed, begun })
}

fn after(seen: &Seen, bytes: &[u8]) {
    if seen.page.is_some_and(|page| seen.followed.is_none() && !Watch::is_needed_in_bypass(page, bytes)) {
        return;
    }
    let Ok(mut watch) = seen.file.try_lock() else { return };
    match seen.page {
        Some(page) if bytes.len() as u64 == seen.span.len().get() => {
            watch.after(seen.fd, page, bytes, seen.followed, seen.begun.elapsed(), &Reading(seen.fd));
        }
        None if seen.span.start == ByteOffset(CHANGE_COUNTER_AT) => watch.transaction(seen.fd, bytes),
        _ => {}
    }
}

/// The connection that reads through a descriptor.
struct Reading(HostFd);

impl Reading {
    fn ask<T>(&self, question: impl FnOnce(Api, Db) -> T) -> Option<T> {
        let (api, table) = (Api::current()?, TABLE.try_read().ok()?);
        table.connection(api, self.0).map(|db| question(api, db))
    }
}

impl Connection for Reading {
    fn texts(&self) -> Vec<String> {
        // SAFETY: `ask` passes live connections.
        self.ask(|api, db| unsafe { api.texts(db) }).unwrap_or_default()
    }

    fn statement(&self) -> Option<Running> {
        // SAFETY: as above.
        self.ask(|api, db| unsafe { api.statement(db) })?
    }

    fn runs(&self) -> Option<Vec<Run>> {
        // SAFETY: as above.
        self.ask(|api, db| unsafe { api.runs(db) })?
    }
}

/// Does the extension's part. A panic ends it for good and never reaches SQLite. Preserves errno.
fn guarded<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    // SAFETY: the calling thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        step_aside("an internal failure in the SQLite extension (a bug: please report it)");
        None
    });
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    outcome
}

/// A read by SQLite, with the extension's part before and after it.
///
/// # Safety
/// `buffer` must hold the bytes that `real` reports as read.
unsafe fn hooked(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    offset: impl FnOnce(HostFd) -> Option<ByteOffset>,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let seen = guarded(|| before(fd, count, offset));
    let got = real();
    if let (Some(seen), Ok(length)) = (seen, usize::try_from(got))
        && length <= count
    {
        guarded(|| {
            // SAFETY: the call has just filled this much of the buffer.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), length) };
            after(&seen, bytes);
            Some(())
        });
    }
    got
}

fn at(offset: off_t) -> impl FnOnce(HostFd) -> Option<ByteOffset> {
    move |_| u64::try_from(offset).ok().map(ByteOffset)
}

unsafe extern "C" fn read_hook(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the stored function is a `read`; the arguments are SQLite's own.
    unsafe {
        let real: ReadCall = std::mem::transmute(REAL_READ.load(Ordering::Acquire));
        hooked(fd, buffer, count, HostFd::position, || real(fd, buffer, count))
    }
}

unsafe extern "C" fn pread_hook(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t {
    // SAFETY: the stored function is a `pread`; the arguments are SQLite's own.
    unsafe {
        let real: Pread = std::mem::transmute(REAL_PREAD.load(Ordering::Acquire));
        hooked(fd, buffer, count, at(offset), || real(fd, buffer, count, offset))
    }
}

unsafe extern "C" fn pread64_hook(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t {
    // SAFETY: the stored function is a `pread64`; the arguments are SQLite's own.
    unsafe {
        let real: Pread = std::mem::transmute(REAL_PREAD64.load(Ordering::Acquire));
        hooked(fd, buffer, count, at(offset), || real(fd, buffer, count, offset))
    }
}

unsafe extern "C" fn close_hook(fd: c_int) -> c_int {
    guarded(|| {
        if !is_inside() && is_own_process() {
            let mut table = TABLE.write().ok()?;
            table.connections.remove(&fd);
            let gone = table.descriptors.remove(&fd);
            drop(table);
            if let Some(Known::Database(file)) = gone
                && let Ok(mut watch) = file.try_lock()
            {
                watch.closed(fd);
                // The table of files has one too: this was the last descriptor. A client's memory is not kept
                // for a file that may never be opened again.
                if Arc::strong_count(&file) <= 2 {
                    watch.drop_client();
                }
            }
        }
        Some(())
    });
    // SAFETY: the stored function is a `close`; the argument is SQLite's own.
    unsafe {
        let real: Close = std::mem::transmute(REAL_CLOSE.load(Ordering::Acquire));
        real(fd)
    }
}
