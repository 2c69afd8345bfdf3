//! A client: one access list, the regions whose reads it expects, and the driver that fetches.

use crate::aside::{self, is_aside, step_aside};
use crate::claims::{self, REGIONS_LIMIT, Refused};
use crate::descriptors::Descriptors;
use crate::sink::AppendFile;
use crate::state::{Next, State};
use crate::thread::{self, Inside};
use crate::{Entry, Error, HintMode, Region, Settings, Stats, Want, report};
use foreseek_storage::{HostFd, Identity, Notice};
use foreseek_units::ByteSpan;
use std::collections::HashSet;
use std::io::Write;
use std::mem::Discriminant;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// How often the application is asked about one read. An answer that leaves the read unexplained is
/// worth one more try; after a few the read goes on without.
const QUESTIONS_PER_READ: u32 = 4;

static NEXT_CLIENT: AtomicU64 = AtomicU64::new(1);

/// One access list and its regions. `Send` and `Sync`; any number of threads may read through it,
/// and while one of them fetches the next buffer, those that read the same client's regions wait.
///
/// Files are known by device and inode number, so that every descriptor of a file counts as the
/// file. Descriptors are borrowed: the client never opens, duplicates or closes one of a file.
///
/// After a fork the client does nothing in the child; a child that wants to prefetch makes its own.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

/// One watched region.
#[derive(Clone, Copy, Debug)]
struct Watched {
    region: u64,
    identity: Identity,
    range: ByteSpan,
}

#[derive(Debug)]
pub(crate) struct Shared {
    id: u64,
    /// Whose client it is: a forked child's it is not.
    process: u32,
    settings: Settings,
    /// How many regions there are; without any, nothing else is looked at.
    regions: AtomicUsize,
    next_region: AtomicU64,
    /// Held briefly, and never together with a wait.
    watched: RwLock<Vec<Watched>>,
    descriptors: Descriptors,
    /// Threads that ignore their reads, with how many times each asked for it.
    ignoring: Mutex<Vec<(u64, u32)>>,
    any_ignoring: AtomicUsize,
    /// The application is being asked: its answer decides about other reads too, and they don't wait
    /// for it, since the application may hold a lock that they need.
    asking: AtomicBool,
    unseen: AtomicU64,
    ignored: AtomicU64,
    recording: Option<AppendFile>,
    state: Mutex<Option<State>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl Client {
    /// A client with an empty access list and no regions.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let _inside = Inside::enter();
        let id = NEXT_CLIENT.fetch_add(1, Ordering::Relaxed);
        let recording = settings.record.as_deref().and_then(|path| recording(path, id));
        let shared = Arc::new(Shared {
            id,
            process: std::process::id(),
            regions: AtomicUsize::new(0),
            next_region: AtomicU64::new(1),
            watched: RwLock::default(),
            descriptors: Descriptors::default(),
            ignoring: Mutex::default(),
            any_ignoring: AtomicUsize::new(0),
            asking: AtomicBool::new(false),
            unseen: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
            recording,
            state: Mutex::new(None),
            settings,
        });
        if shared.settings.stats.is_some() || shared.recording.is_some() {
            report::register(&shared);
        }
        Self { shared }
    }

    /// Watches the reads of a range of a file through any of its descriptors (figure 6:
    /// `register_region`). A part beyond the end of the file counts when the file has grown there.
    ///
    /// # Errors
    /// A descriptor that is no readable file or block device, or was opened with `O_DIRECT`; an empty
    /// range; a range that another client of this process watches; too many regions.
    pub fn watch(&self, fd: RawFd, range: ByteSpan) -> Result<Region, Error> {
        let _inside = Inside::enter();
        let shared = &*self.shared;
        let region = shared.next_region.fetch_add(1, Ordering::Relaxed);
        if !shared.is_on() {
            return Ok(Region(region));
        }
        let refuse = |reason: &str| Error::Descriptor { operation: "watch", fd, reason: reason.to_owned() };
        let host = HostFd::new(fd).ok_or_else(|| refuse("it is not open"))?;
        if range.is_empty() {
            return Err(refuse("the range is empty: its end must lie after its start"));
        }
        if let Some(reason) = host.obstacle() {
            return Err(refuse(reason));
        }
        let (identity, length) = host.identify().ok_or_else(|| refuse("it was closed meanwhile"))?;
        match claims::claim(shared.id, region, identity, range) {
            None => return Ok(Region(region)),
            Some(Ok(())) => {}
            Some(Err(Refused::Overlap)) => return Err(Error::Overlap { fd, range }),
            Some(Err(Refused::TooMany)) => {
                return Err(Error::TooMany { operation: "watch", what: "regions", limit: REGIONS_LIMIT });
            }
        }
        shared.descriptors.note(fd);
        shared.with_state(|state| {
            state
                .get_or_insert_with(|| State::new(&shared.settings, &identity, shared.recording.clone()))
                .watch(host, identity, length, range);
        });
        if let Ok(mut watched) = shared.watched.write() {
            watched.push(Watched { region, identity, range });
            shared.regions.store(watched.len(), Ordering::Release);
        }
        Ok(Region(region))
    }

    /// Ends it (figure 6: `unregister_region`).
    ///
    /// # Errors
    /// A region that is not this client's.
    pub fn unwatch(&self, region: Region) -> Result<(), Error> {
        let _inside = Inside::enter();
        let shared = &*self.shared;
        if !shared.is_on() {
            return Ok(());
        }
        let Ok(mut watched) = shared.watched.write() else { return Ok(()) };
        let at = watched.iter().position(|known| known.region == region.0).ok_or(Error::NoSuchRegion)?;
        let gone = watched.swap_remove(at);
        shared.regions.store(watched.len(), Ordering::Release);
        drop(watched);
        claims::release(shared.id, Some(region.0));
        shared.with_state(|state| {
            if let Some(state) = state {
                state.unwatch(&gone.identity, gone.range);
            }
        });
        Ok(())
    }

    /// Tells what will be read, in order (figure 6: `request_prefetching`). Answers how many of the
    /// entries were taken: fewer than given once the list is full. `done`: there is no more to tell
    /// for now. Entries beyond the end of their file count as taken and are left out.
    ///
    /// # Errors
    /// An entry of a file that this client does not watch; then none is taken.
    pub fn hint(&self, mode: HintMode, accesses: &[Entry], done: bool) -> Result<usize, Error> {
        let _inside = Inside::enter();
        let shared = &*self.shared;
        if !shared.is_on() {
            return Ok(accesses.len());
        }
        let answer = shared.with_state(|state| match state {
            Some(state) => state.hint(mode, accesses, done),
            None => match accesses.first() {
                Some(entry) => Err(Error::NotWatched { index: 0, fd: entry.fd }),
                None => Ok(0),
            },
        });
        if let Some(Ok(_)) = answer {
            accesses.iter().for_each(|entry| shared.descriptors.note(entry.fd));
        }
        answer.unwrap_or(Ok(accesses.len()))
    }

    /// From now on this thread's reads are not counted as progress through the list, until
    /// [`Client::unignore`]; the two nest.
    pub fn ignore(&self) {
        let _inside = Inside::enter();
        let Ok(mut ignoring) = self.shared.ignoring.lock() else { return };
        let me = thread::token();
        match ignoring.iter_mut().find(|(thread, _)| *thread == me) {
            Some((_, depth)) => *depth = depth.saturating_add(1),
            None => ignoring.push((me, 1)),
        }
        self.shared.any_ignoring.store(ignoring.len(), Ordering::Release);
    }

    /// Ends [`Client::ignore`]. Answers whether there was one to end.
    pub fn unignore(&self) -> bool {
        let _inside = Inside::enter();
        let Ok(mut ignoring) = self.shared.ignoring.lock() else { return true };
        let me = thread::token();
        let Some(at) = ignoring.iter().position(|(thread, _)| *thread == me) else { return false };
        ignoring[at].1 -= 1;
        if ignoring[at].1 == 0 {
            ignoring.swap_remove(at);
        }
        self.shared.any_ignoring.store(ignoring.len(), Ordering::Release);
        true
    }

    /// To be called before each read: finds out whether the pages are there, fetches the next
    /// buffer where they are not, and asks the application through `ask` where the list has ended or
    /// been left. `ask` may call any function of the client; the reads that it makes itself on this
    /// thread pass unseen.
    ///
    /// A descriptor or range that is not watched costs next to nothing.
    pub fn before_read(&self, fd: RawFd, range: ByteSpan, ask: &mut dyn FnMut(&Client, Want)) {
        let shared = &*self.shared;
        if !shared.has_regions() || thread::is_inside() || !shared.is_on() {
            return;
        }
        let _inside = Inside::enter();
        let Some(host) = HostFd::new(fd) else { return };
        let Some((identity, length)) = host.identify() else { return };
        if !shared.is_watched(&identity, range) {
            return;
        }
        if shared.is_ignored_here() {
            shared.ignored.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if shared.asking.load(Ordering::Acquire) {
            shared.unseen.fetch_add(1, Ordering::Relaxed);
            return;
        }
        shared.descriptors.note(fd);
        let mut next =
            shared.with_state(|state| state.as_mut().map(|s| s.read(host, identity, length, range)));
        for _ in 0..QUESTIONS_PER_READ {
            let Some(Some(Next::Ask(request, want))) = next else { return };
            {
                let _asking = Asking::begin(&shared.asking);
                ask(self, want);
            }
            next = shared.with_state(|state| state.as_mut().map(|s| s.answered(request, host, range)));
        }
    }

    /// To be called before a descriptor is closed, so that it is not used any more. Never waits.
    pub fn closed(&self, fd: RawFd) {
        let shared = &*self.shared;
        if shared.has_regions() && !thread::is_inside() && shared.is_on() {
            let _inside = Inside::enter();
            shared.descriptors.close(fd);
        }
    }

    /// The same before a range of descriptors is closed (`close_range`).
    pub fn closed_range(&self, first: RawFd, last: RawFd) {
        let shared = &*self.shared;
        if shared.has_regions() && !thread::is_inside() && shared.is_on() {
            let _inside = Inside::enter();
            shared.descriptors.close_range(first, last);
        }
    }

    /// Whether any region is watched; without one, every read passes at once.
    #[must_use]
    pub fn is_watching(&self) -> bool {
        self.shared.has_regions() && self.shared.is_on()
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let _inside = Inside::enter();
        if !self.shared.is_own_process() {
            return Stats::default();
        }
        self.shared.with_state(|state| self.shared.stats_of(state.as_ref())).unwrap_or_default()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _inside = Inside::enter();
        if self.shared.is_own_process() {
            self.shared.regions.store(0, Ordering::Release);
            claims::release(self.shared.id, None);
            self.shared.flush_recording();
        }
    }
}

impl Shared {
    fn has_regions(&self) -> bool {
        self.regions.load(Ordering::Acquire) > 0
    }

    /// Whether the client works: it is not disabled, in its own process, and nothing has failed.
    fn is_on(&self) -> bool {
        !self.settings.disabled && !is_aside() && self.is_own_process()
    }

    pub(crate) fn is_own_process(&self) -> bool {
        std::process::id() == self.process
    }

    fn is_watched(&self, identity: &Identity, range: ByteSpan) -> bool {
        self.watched.read().is_ok_and(|watched| {
            watched.iter().any(|known| known.identity == *identity && known.range.overlaps(range))
        })
    }

    fn is_ignored_here(&self) -> bool {
        self.any_ignoring.load(Ordering::Acquire) > 0
            && self.ignoring.lock().is_ok_and(|ignoring| {
                let me = thread::token();
                ignoring.iter().any(|(thread, _)| *thread == me)
            })
    }

    /// Works on the state under its lock. `None`, and steps aside, after an internal failure.
    fn with_state<T>(&self, work: impl FnOnce(&mut Option<State>) -> T) -> Option<T> {
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
                notices.into_iter().for_each(say_once);
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

    fn stats_of(&self, state: Option<&State>) -> Stats {
        Stats {
            engine: state.map(State::stats).unwrap_or_default(),
            unseen: self.unseen.load(Ordering::Relaxed),
            ignored: self.ignored.load(Ordering::Relaxed),
            beyond_end: state.map_or(0, |state| state.beyond_end),
            files: state.map_or(0, State::files),
        }
    }

    pub(crate) fn stats_path(&self) -> Option<&Path> {
        self.settings.stats.as_deref()
    }

    /// The counters at the end of the process, when another thread may hold the state for good.
    pub(crate) fn stats_at_exit(&self) -> Option<Stats> {
        aside::lock_briefly(&self.state).map(|state| self.stats_of(state.as_ref()))
    }

    pub(crate) fn flush_recording(&self) {
        if let Some(recording) = &self.recording
            && let Err(error) = recording.clone().flush()
        {
            aside::say(&format!("cannot write the recording: {error}"));
        }
    }
}

/// While it lives, the application is being asked.
struct Asking<'a>(&'a AtomicBool);

impl<'a> Asking<'a> {
    fn begin(flag: &'a AtomicBool) -> Self {
        flag.store(true, Ordering::Release);
        Self(flag)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The recording of the client with this number in the process.
fn recording(path: &Path, id: u64) -> Option<AppendFile> {
    let mut name = path.as_os_str().to_owned();
    if id > 1 {
        name.push(format!(".{id}"));
    }
    let path = PathBuf::from(name);
    AppendFile::create(path.clone())
        .inspect_err(|error| aside::say(&format!("FORESEEK_RECORD: cannot make {}: {error}", path.display())))
        .ok()
}

/// Says a notice unless its kind was said in this process.
fn say_once(notice: Notice) {
    static SAID: Mutex<Option<HashSet<Discriminant<Notice>>>> = Mutex::new(None);
    let Some(mut said) = aside::lock_briefly(&SAID) else { return };
    if said.get_or_insert_default().insert(std::mem::discriminant(&notice)) {
        aside::say(&notice.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Stepping aside is for the rest of the process: the test runs itself in one of its own.
    #[test]
    fn an_internal_failure_steps_aside_for_good() {
        let run = |quiet: &str| {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "client::tests::fails_inside", "--ignored", "--nocapture"])
                .env("FORESEEK_QUIET", quiet)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            let said = String::from_utf8(output.stderr).unwrap();
            said.lines().filter(|line| line.starts_with("libprefetch:")).count()
        };
        assert_eq!(run(""), 1);
        assert_eq!(run("1"), 0);
    }

    #[test]
    #[ignore = "run by an_internal_failure_steps_aside_for_good"]
    fn fails_inside() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(file.as_file());
        let range = ByteSpan::new(foreseek_units::ByteOffset(0), foreseek_units::ByteOffset(1 << 20));
        let (client, other) = (Client::new(Settings::default()), Client::new(Settings::default()));
        let region = client.watch(fd, range).unwrap();
        let failed: Option<()> = client.shared.with_state(|_| panic!("a bug"));
        assert_eq!(failed, None);
        assert!(is_aside());
        for client in [&client, &other] {
            client.before_read(fd, range, &mut |_, _| panic!("asked after stepping aside"));
            assert!(client.watch(fd, range).is_ok());
            let entry = Entry { fd, offset: range.start, mark: false };
            assert_eq!(client.hint(HintMode::Set, &[entry], true).unwrap(), 1);
            client.closed(fd);
            let _ = client.stats();
        }
        client.unwatch(region).unwrap();
    }
}
