//! The parts of a client behind its public interface: the watched regions, which are searched without waiting,
//! and the state under its lock.

use crate::aside::{self, is_aside, step_aside};
use crate::descriptors::{Descriptors, Found};
use crate::sink::AppendFile;
use crate::state::State;
use crate::watched::{WatchedFile, WatchedFiles};
use crate::{Settings, Stats, thread};
use foreseek_storage::{HostFd, Identity, Notice, process_id, renew_process_id};
use foreseek_units::{ByteSpan, Bytes};
use std::collections::HashSet;
use std::io::Write;
use std::mem::Discriminant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock, RwLock};

/// The most recordings of one process. Each is a file, and a fault is usually visible in the first few.
const RECORDINGS_LIMIT: usize = 64;

static NEXT_CLIENT: AtomicU64 = AtomicU64::new(1);

/// All of a client; shared with the report at the end of the process.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: u64,
    /// The process of the client: a forked child is another one.
    process: u32,
    pub(crate) settings: Settings,
    /// The number of regions; if it is zero, nothing else is checked.
    regions: AtomicUsize,
    pub(crate) next_region: AtomicU64,
    /// Held briefly, and never together with a wait.
    watched: RwLock<WatchedFiles>,
    pub(crate) descriptors: Descriptors,
    /// Threads that ignore their reads, with the depth of their nested calls.
    ignoring: Mutex<Vec<(u64, u32)>>,
    any_ignoring: AtomicUsize,
    /// A question to the application is open: its answer decides about other reads too. These do not wait for
    /// it, since the application may hold a lock that they need.
    pub(crate) asking: AtomicBool,
    pub(crate) unseen: AtomicU64,
    pub(crate) ignored: AtomicU64,
    direct: AtomicU64,
    pub(crate) recording: Option<AppendFile>,
    /// Created with the first region.
    state: Mutex<Option<State>>,
    /// The counters of a client that has ended.
    last: OnceLock<Stats>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// A read of a watched part of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) identity: Identity,
    /// The result of [`HostFd::identify`] if the descriptor was just checked to belong to the file. Else an earlier
    /// check counts.
    pub(crate) checked: Option<Option<Bytes>>,
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            id: NEXT_CLIENT.fetch_add(1, Ordering::Relaxed),
            process: renew_process_id(),
            regions: AtomicUsize::new(0),
            next_region: AtomicU64::new(1),
            watched: RwLock::default(),
            descriptors: Descriptors::default(),
            ignoring: Mutex::default(),
            any_ignoring: AtomicUsize::new(0),
            asking: AtomicBool::new(false),
            unseen: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
            direct: AtomicU64::new(0),
            recording: settings.record.as_deref().and_then(recording),
            state: Mutex::new(None),
            last: OnceLock::new(),
            settings,
        }
    }

    pub(crate) fn has_regions(&self) -> bool {
        self.regions.load(Ordering::Acquire) > 0
    }

    /// Whether the client works: it is not disabled, in its own process, and nothing has failed.
    pub(crate) fn is_on(&self) -> bool {
        !self.settings.disabled && !is_aside() && self.is_own_process()
    }

    pub(crate) fn is_own_process(&self) -> bool {
        process_id() == self.process
    }

    pub(crate) fn add_region(&self, region: u64, identity: Identity, range: ByteSpan) {
        if let Ok(mut watched) = self.watched.write() {
            watched.add(region, identity, range);
            self.regions.fetch_add(1, Ordering::Release);
            self.descriptors.check_all();
        }
    }

    /// Removes a region; `None` if there is none of that number.
    pub(crate) fn remove_region(&self, region: u64) -> Option<(Identity, ByteSpan)> {
        let mut watched = self.watched.write().ok()?;
        let gone = watched.remove(region)?;
        self.regions.fetch_sub(1, Ordering::Release);
        Some(gone)
    }

    /// The file behind a descriptor that is about to read `range`, if it is watched and read through the page
    /// cache. A read of which no other part of the library need know ends here.
    pub(crate) fn reading(&self, fd: HostFd, range: ByteSpan) -> Option<Reading> {
        let watches = |file: &WatchedFile| (file.identity, file.watches(range));
        let passed = match self.descriptors.pass(fd.raw()) {
            Some(Found::Unwatched) => return None,
            Some(Found::Watched(number)) => self.watched.read().ok()?.by_number(number).map(watches),
            None => None,
        };
        if let Some((identity, is_watched)) = passed {
            return is_watched.then_some(Reading { identity, checked: None });
        }
        let Some((identity, length)) = fd.identify() else {
            self.descriptors.set_found(fd.raw(), Found::Unwatched);
            return None;
        };
        let found = self.watched.read().ok()?.of(&identity).map(|file| (file.number, file.watches(range)));
        let Some((number, is_watched)) = found else {
            self.descriptors.set_found(fd.raw(), Found::Unwatched);
            return None;
        };
        if fd.is_direct() {
            if is_watched {
                self.count_direct();
            }
            return None;
        }
        self.descriptors.set_found(fd.raw(), Found::Watched(number));
        is_watched.then_some(Reading { identity, checked: Some(length) })
    }

    pub(crate) fn ignore(&self) {
        let Ok(mut ignoring) = self.ignoring.lock() else { return };
        let me = thread::token();
        match ignoring.iter_mut().find(|(thread, _)| *thread == me) {
            Some((_, depth)) => *depth = depth.saturating_add(1),
            None => ignoring.push((me, 1)),
        }
        self.any_ignoring.store(ignoring.len(), Ordering::Release);
    }

    /// Whether this thread ignored its reads.
    pub(crate) fn unignore(&self) -> bool {
        let Ok(mut ignoring) = self.ignoring.lock() else { return true };
        let me = thread::token();
        let Some(at) = ignoring.iter().position(|(thread, _)| *thread == me) else { return false };
        ignoring[at].1 -= 1;
        if ignoring[at].1 == 0 {
            ignoring.swap_remove(at);
        }
        self.any_ignoring.store(ignoring.len(), Ordering::Release);
        true
    }

    pub(crate) fn is_ignored_here(&self) -> bool {
        self.any_ignoring.load(Ordering::Acquire) > 0
            && self.ignoring.lock().is_ok_and(|ignoring| {
                let me = thread::token();
                ignoring.iter().any(|(thread, _)| *thread == me)
            })
    }

    /// Works on the state under its lock. After an internal failure it steps aside and returns `None`.
    pub(crate) fn with_state<T>(&self, work: impl FnOnce(&mut Option<State>) -> T) -> Option<T> {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut state = self.state.lock().ok()?;
            if let Some(state) = state.as_mut() {
                for fd in self.descriptors.take_closing().into_iter().filter_map(HostFd::new) {
                    state.closed(fd);
                }
            }
            let answer = work(&mut state);
            let notices = state.as_mut().map(State::finish).unwrap_or_default();
            Some((answer, notices))
        }));
        match outcome {
            Ok(Some((answer, notices))) => {
                notices.into_iter().for_each(warn_once);
                Some(answer)
            }
            Ok(None) => {
                step_aside("an earlier failure left the library in doubt");
                None
            }
            Err(_) => {
                step_aside("an internal failure (a bug: please report it)");
                None
            }
        }
    }

    /// Counts a read of a watched region that bypasses the page cache. Hints do not help such reads, therefore
    /// a warning is printed once.
    fn count_direct(&self) {
        static PRINTED: Once = Once::new();
        self.direct.fetch_add(1, Ordering::Relaxed);
        PRINTED.call_once(|| {
            aside::print_line(
                "reads of a watched file through a descriptor with O_DIRECT are not seen, as they go past the page cache: open it \
                 without O_DIRECT",
            );
        });
    }

    fn stats_of(&self, state: Option<&State>) -> Stats {
        Stats {
            engine: state.map(State::stats).unwrap_or_default(),
            unseen: self.unseen.load(Ordering::Relaxed),
            ignored: self.ignored.load(Ordering::Relaxed),
            direct: self.direct.load(Ordering::Relaxed),
            beyond_end: state.map_or(0, |state| state.beyond_end),
            files: state.map_or(0, State::files),
        }
    }

    /// The counters so far.
    pub(crate) fn stats(&self) -> Stats {
        self.with_state(|state| self.stats_of(state.as_ref())).unwrap_or_default()
    }

    /// Whether there is output at the end of the process.
    pub(crate) fn is_reported(&self) -> bool {
        !self.settings.disabled && (self.settings.stats.is_some() || self.recording.is_some())
    }

    pub(crate) fn stats_path(&self) -> Option<&Path> {
        self.settings.stats.as_deref()
    }

    /// The counters at the end of the process, when another thread may hold the state for good.
    pub(crate) fn stats_at_exit(&self) -> Option<Stats> {
        let last = self.last.get().copied();
        last.or_else(|| aside::lock_briefly(&self.state).map(|state| self.stats_of(state.as_ref())))
    }

    /// The client has ended: only its counters stay, for the report.
    pub(crate) fn retire(&self) {
        self.regions.store(0, Ordering::Release);
        let last = self.with_state(|state| {
            let last = self.stats_of(state.as_ref());
            *state = None;
            last
        });
        if let Some(last) = last {
            let _ = self.last.set(last);
        }
        self.flush_recording();
    }

    pub(crate) fn flush_recording(&self) {
        if let Some(recording) = &self.recording
            && let Err(error) = recording.clone().flush()
        {
            aside::print_line(&format!("cannot write the recording: {error}"));
        }
    }
}

/// A new recording at this path. If this process already has one there, it goes to the path with the next
/// number. `None` if the file cannot be created, and after [`RECORDINGS_LIMIT`] recordings.
fn recording(path: &Path) -> Option<AppendFile> {
    static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let mut paths = aside::lock_briefly(&PATHS)?;
    if paths.len() >= RECORDINGS_LIMIT {
        return None;
    }
    let earlier = paths.iter().filter(|known| *known == path).count();
    paths.push(path.to_owned());
    drop(paths);
    let mut name = path.as_os_str().to_owned();
    if earlier > 0 {
        name.push(format!(".{}", earlier + 1));
    }
    let path = PathBuf::from(name);
    AppendFile::create(path.clone())
        .inspect_err(|error| {
            aside::print_line(&format!("FORESEEK_RECORD: cannot make {}: {error}", path.display()))
        })
        .ok()
}

/// Prints a notice unless one of its kind was printed in this process.
fn warn_once(notice: Notice) {
    static PRINTED: Mutex<Option<HashSet<Discriminant<Notice>>>> = Mutex::new(None);
    let Some(mut printed) = aside::lock_briefly(&PRINTED) else { return };
    if printed.get_or_insert_default().insert(std::mem::discriminant(&notice)) {
        aside::print_line(&notice.to_string());
    }
}
