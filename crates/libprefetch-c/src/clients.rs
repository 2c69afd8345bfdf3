//! The clients of this process, for the C interface and the replaced functions.

use foreseek_libprefetch::guest::{self, ReentryGuard};
use foreseek_libprefetch::{CallbackRequest, Client, Settings};
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock, RwLock, RwLockWriteGuard, TryLockError, TryLockResult};
use std::time::Duration;

/// The most clients in one process. Each read checks all of them; a program has at most one for each of its
/// threads.
pub(crate) const CLIENTS_LIMIT: usize = 256;

/// How often the list is tried, a millisecond apart, before its holder counts as gone.
const LOCK_TRIES: u32 = 1000;

/// Asks the application on behalf of a client.
pub(crate) type Ask = Box<dyn Fn(CallbackRequest) + Send + Sync>;

/// A registered client.
pub(crate) struct Registered {
    pub(crate) number: usize,
    pub(crate) client: Client,
    ask: Option<Ask>,
}

static CLIENTS: RwLock<Vec<Arc<Registered>>> = RwLock::new(Vec::new());
/// Their number, for the fast path.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The process that they belong to: a forked child is another one.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(1);

/// Whether there is any client at all.
#[inline]
pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Whether the replaced functions of this thread have anything to do: there is a client of this process, and
/// the thread is not within the library.
fn is_seen() -> bool {
    !guest::is_inside() && !guest::is_aside() && PROCESS.load(Ordering::Relaxed) == guest::process_id()
}

/// Why no client was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unregistered {
    TooMany,
    Lost,
}

/// Creates a client.
pub(crate) fn register(ask: Option<Ask>) -> Result<usize, Unregistered> {
    static HOOK: Once = Once::new();
    // This is the panic hook of the library's own copy of the standard library, not of a host in Rust. The one
    // line of stepping aside reports a panic.
    HOOK.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let mut clients = write().ok_or(Unregistered::Lost)?;
    let process = guest::renew_process_id();
    if PROCESS.swap(process, Ordering::Relaxed) != process {
        // A forked child does not own the inherited clients.
        clients.clear();
    }
    if clients.len() >= CLIENTS_LIMIT {
        return Err(Unregistered::TooMany);
    }
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    clients.push(Arc::new(Registered { number, client: Client::new(settings()), ask }));
    COUNT.store(clients.len(), Ordering::Relaxed);
    Ok(number)
}

/// Ends a client; returns whether there was one.
pub(crate) fn unregister(number: usize) -> bool {
    let Some(mut clients) = write() else { return true };
    let Some(at) = clients.iter().position(|known| known.number == number) else { return false };
    let gone = clients.swap_remove(at);
    COUNT.store(clients.len(), Ordering::Relaxed);
    drop(clients);
    // Its last holder drops it; that may be a read in progress.
    drop(gone);
    true
}

/// The client of a number.
pub(crate) fn find(number: usize) -> Option<Arc<Registered>> {
    // The wait is limited: see `try_briefly`.
    let clients = try_briefly(|| CLIENTS.try_read())?;
    clients.iter().find(|known| known.number == number).cloned()
}

/// The list, for changes.
fn write() -> Option<RwLockWriteGuard<'static, Vec<Arc<Registered>>>> {
    try_briefly(|| CLIENTS.try_write())
}

/// Takes the list. A fork may have left it locked by a thread that the child does not have.
fn try_briefly<G>(mut take: impl FnMut() -> TryLockResult<G>) -> Option<G> {
    for _ in 0..LOCK_TRIES {
        match take() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(_)) => break,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    guest::step_aside("an internal lock is lost");
    None
}

/// The settings of every client, from the environment. An invalid value is reported once, and the clients do
/// nothing, so that the host is not affected.
fn settings() -> Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS
        .get_or_init(|| {
            Settings::from_env().unwrap_or_else(|error| {
                guest::print_line_of("libprefetch", &format!("{error}; prefetching is off"));
                let mut off = Settings::default();
                off.disabled = true;
                off
            })
        })
        .clone()
}

/// The start of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// At the end of the last one.
    Position,
    /// At this offset.
    Offset(i64),
}

/// A read is about to be made.
pub(crate) fn before_read(fd: RawFd, at: At, length: Bytes) {
    if !is_seen() {
        return;
    }
    let start = match at {
        At::Offset(offset) => u64::try_from(offset).ok().map(ByteOffset),
        // For a pipe or a socket, this returns `None`.
        At::Position => guest::position(fd),
    };
    let Some(start) = start.filter(|start| start.get().checked_add(length.get()).is_some()) else { return };
    let range = ByteSpan::at(start, length);
    for_each(|registered| {
        registered.client.before_read(fd, range, &mut |_, want| {
            if let Some(ask) = &registered.ask {
                ask(want);
            }
        });
    });
}

/// Descriptors are about to be closed.
pub(crate) fn before_close(first: RawFd, last: RawFd) {
    // A child of `vfork` closes its own descriptors before it runs another program, and shares its parent's
    // memory. Therefore the kernel is asked for the process id.
    if is_seen() && PROCESS.load(Ordering::Relaxed) == std::process::id() {
        for_each(|registered| {
            if first == last {
                registered.client.closed(first);
            } else {
                registered.client.closed_range(first, last);
            }
        });
    }
}

/// Calls `work` for each client, without holding the list meanwhile.
fn for_each(mut work: impl FnMut(&Registered)) {
    for index in 0..CLIENTS_LIMIT {
        let (next, is_last) = {
            // A signal handler that reads must not wait for this lock, which its own thread holds.
            let _inside = ReentryGuard::enter();
            let Ok(clients) = CLIENTS.read() else { return };
            (clients.get(index).cloned(), clients.len() <= index + 1)
        };
        match next {
            Some(registered) => work(&registered),
            None => return,
        }
        // A program has one client as a rule: its reads take the lock once.
        if is_last {
            return;
        }
    }
}
