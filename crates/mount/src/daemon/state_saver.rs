//! Saves the learnt state of a mount in a file, so that the next mount of the same source begins with it.
//!
//! ```text
//! /var/lib/foreseek/learnt/FILESYSTEM-PATH    mode 0600
//! ```
//!
//! FILESYSTEM is 16 hexadecimal digits, PATH the 32 of a digest ([`names`]). Earlier versions used another
//! digest, of 16 digits, which a library could change. Their file is found by the source in its head, and
//! renamed.
//!
//! The source is identified by its file system (the id of `statfs`, which ext4, xfs and btrfs keep over
//! restarts) and its path.
//!
//! - A file is replaced as a whole, under another name first: an interrupted save leaves the previous file.
//! - A thread that nothing waits for writes it, each [`PERIOD`] and at the end. A server that is killed loses
//!   what it learnt since.
//! - An error here is a line in `--status` and the log, never an error of the mount.
//!
//! The directory is opened before the mount. If it lies within a source that is mounted over itself, it is
//! reached below the mount, and the server does not wait for itself.
//!
//! If one source has several mounts, the last save counts.

use crate::daemon::names;
use crate::learnt::{LENGTH_LIMIT, LearntState};
use crate::read_path::ReadPath;
use crate::status::Kept;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use std::ffi::CString;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The period of saves: what a killed server loses at most.
pub(crate) const PERIOD: Duration = Duration::from_secs(30);
/// The most sources with a file; beyond that the one saved longest ago is removed. The largest file takes
/// some 4 MiB, most take a few KiB.
const FILES_MOST: usize = 256;

/// The file for the state of one source.
#[derive(Debug)]
pub(crate) struct StateDir {
    directory: OwnedFd,
    name: String,
    source: PathBuf,
    /// The file's path, for messages.
    path: PathBuf,
}

impl StateDir {
    /// The file of a source within the state directory, which is created if it is missing. The error is a
    /// sentence for users.
    pub(crate) fn open(state: &Path, source: &Path) -> Result<Self, String> {
        let directory = state.join("learnt");
        let cannot = |error: io::Error| {
            format!(
                "what is learnt cannot be kept over a restart: cannot use {}: {error}; let FORESEEK_STATE name a \
                 directory that can be written",
                directory.display()
            )
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(cannot)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, &directory, flags, Mode::empty());
        let opened = opened.map_err(|errno| cannot(errno.into()))?;
        // A missing source is refused when it is mounted.
        let source = source.canonicalize().unwrap_or_else(|_| source.to_owned());
        let file_system = rustix::fs::statvfs(&source).map_or(0, |stat| stat.f_fsid);
        let name = file_name(file_system, &source);
        let state_dir = Self { path: directory.join(&name), directory: opened, name, source };
        if let Err(error) = state_dir.take_over(file_system) {
            tracing::warn!("cannot look for what an earlier version has learnt: {error}");
        }
        Ok(state_dir)
    }

    /// Renames the file of an earlier version, if there is one and none of this version.
    fn take_over(&self, file_system: u64) -> io::Result<()> {
        if rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(());
        }
        // In the file, replacement characters stand for bytes of a path that is not UTF-8: it may be another
        // path.
        if self.source.to_str().is_none() {
            return Ok(());
        }
        let head = LearntState::head(&self.source);
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if is_earlier_name(name, file_system) && self.begins_with(name, &head).unwrap_or(false) {
                return Ok(rustix::fs::renameat(&self.directory, name, &self.directory, &self.name)?);
            }
        }
        Ok(())
    }

    fn begins_with(&self, name: &str, head: &str) -> io::Result<bool> {
        let Some(file) = self.open_file(name)? else { return Ok(false) };
        let mut begin = Vec::new();
        file.take(head.len() as u64).read_to_end(&mut begin)?;
        Ok(begin == head.as_bytes())
    }

    /// The saved state and its number of classes; `None` where nothing was saved. The error is a sentence for
    /// users.
    pub(crate) fn load(&self) -> Result<Option<(LearntState, usize)>, String> {
        let refused = |reason: String| {
            format!(
                "what was learnt before is not used: {}, {reason}; it is learnt anew",
                self.path.display()
            )
        };
        let text = match self.read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| refused(error.to_string()))?,
        };
        let parsed = LearntState::parse(&text);
        parsed.map(Some).map_err(|error| refused(format!("line {}: {}", error.line, error.reason)))
    }

    fn read(&self) -> io::Result<String> {
        let file = self.open_file(&self.name)?.ok_or_else(|| io::Error::other("it is no file"))?;
        let mut text = String::new();
        file.take(LENGTH_LIMIT as u64 + 1).read_to_string(&mut text)?;
        if text.len() > LENGTH_LIMIT {
            return Err(io::Error::other(format!("it is longer than {LENGTH_LIMIT} bytes")));
        }
        Ok(text)
    }

    /// Opens a file for reading; `None` for anything but a regular file.
    fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        // Another kind of file there must not make a mount wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::openat(&self.directory, name, flags, Mode::empty())?);
        Ok(file.metadata()?.is_file().then_some(file))
    }

    fn save(&self, learnt: &LearntState) -> io::Result<()> {
        let text = learnt.to_text(&self.source);
        if text.len() > LENGTH_LIMIT {
            return Err(io::Error::other(format!("it is longer than {LENGTH_LIMIT} bytes")));
        }
        let next = format!("{}.{}", self.name, std::process::id());
        let written = self
            .write(&next, &text)
            .and_then(|()| Ok(rustix::fs::renameat(&self.directory, &next, &self.directory, &self.name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.directory, &next, AtFlags::empty());
        }
        written
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(rustix::fs::openat(&self.directory, name, flags, mode)?);
        file.write_all(text.as_bytes())?;
        file.sync_data()
    }

    /// Removes the oldest files of other sources if there are too many.
    fn thin(&self) -> io::Result<()> {
        let mut files: Vec<(i64, CString)> = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let stat = rustix::fs::statat(&self.directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
            if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
                files.push((stat.st_mtime, entry.file_name().to_owned()));
            }
        }
        files.sort();
        let many = files.len().saturating_sub(FILES_MOST);
        for (_, name) in files.iter().filter(|(_, name)| name.as_bytes() != self.name.as_bytes()).take(many) {
            rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?;
        }
        Ok(())
    }
}

/// The name of a source's file.
fn file_name(file_system: u64, source: &Path) -> String {
    format!("{file_system:016x}-{}", names::digest(source))
}

/// Whether an earlier version gave such names to files of this file system.
fn is_earlier_name(name: &str, file_system: u64) -> bool {
    let digest = name.strip_prefix(&format!("{file_system:016x}-"));
    digest.is_some_and(|digest| digest.len() == 16 && digest.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Saves what a read path learns, periodically.
pub(crate) struct StateSaver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state_dir: StateDir,
    reads: Arc<dyn ReadPath>,
    /// The number of classes that were loaded.
    begun_with: usize,
    state: Mutex<State>,
    ending: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The state in the file.
    kept: LearntState,
    saved: Option<Instant>,
    problem: Option<String>,
}

impl StateSaver {
    /// Begins to save what is learnt; `begun_with` classes were loaded.
    pub(crate) fn start(
        state_dir: StateDir,
        reads: Arc<dyn ReadPath>,
        begun_with: usize,
        period: Duration,
    ) -> io::Result<Self> {
        if let Err(error) = state_dir.thin() {
            tracing::warn!("cannot remove what was learnt of too many sources: {error}");
        }
        let (state, ending) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { state_dir, reads, begun_with, state, ending });
        let saving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("saver".to_owned()).spawn(move || {
            loop {
                if !saving.ending.load(Relaxed) {
                    std::thread::park_timeout(period);
                }
                // A save that begins after `ending` was set is the last.
                let last = saving.ending.load(Relaxed);
                saving.save();
                if last {
                    return;
                }
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The status.
    pub(crate) fn status(&self) -> Kept {
        let state = self.shared.state();
        Kept {
            path: self.shared.state_dir.path.clone(),
            loaded_classes: self.shared.begun_with as u64,
            saved_seconds_ago: state.saved.map(|saved| saved.elapsed().as_secs_f64()),
            problem: state.problem.clone(),
        }
    }
}

impl Drop for StateSaver {
    /// Saves a last time.
    fn drop(&mut self) {
        self.shared.ending.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the thread that keeps what is learnt has panicked");
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves the state if it has changed.
    fn save(&self) {
        let Some(learnt) = self.reads.learnt() else { return };
        if self.state().kept == learnt {
            return;
        }
        // Without the lock: a status request does not wait for a disk.
        let problem = self.state_dir.save(&learnt).err().map(|error| {
            format!("what is learnt cannot be saved: cannot write {}: {error}", self.state_dir.path.display())
        });
        let mut state = self.state();
        if problem.is_none() {
            (state.kept, state.saved) = (learnt, Some(Instant::now()));
        }
        if let Some(problem) = problem.as_ref().filter(|problem| state.problem.as_ref() != Some(problem)) {
            tracing::warn!("{problem}");
        }
        state.problem = problem;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_path::{Answer, Change, OpenedFile, ReadRequest};
    use crate::status::ReadStatus;
    use foreseek_seam::StreamId;
    use std::sync::atomic::AtomicU64;

    /// Learns only what a test sets.
    #[derive(Default)]
    struct Pupil(AtomicU64);

    impl Pupil {
        fn learn(&self, streams: u64) {
            self.0.store(streams, Relaxed);
        }
    }

    impl ReadPath for Pupil {
        fn opened(&self, _: OpenedFile) -> StreamId {
            StreamId(0)
        }
        fn read(&self, _: ReadRequest, _: Answer) {}
        fn closed(&self, _: StreamId) {}
        fn changed(&self, _: Change) {}
        fn learnt(&self) -> Option<LearntState> {
            let streams = format!("foreseek-learnt 1\nclass seen={}\n", self.0.load(Relaxed));
            Some(LearntState { streams, device: None })
        }
        fn status(&self) -> ReadStatus {
            ReadStatus::default()
        }
        fn stop(&self) {}
    }

    fn state_dir(state: &Path) -> StateDir {
        StateDir::open(state, Path::new("/")).expect("a place")
    }

    fn seen(state: &Path) -> Option<String> {
        let (learnt, classes) = state_dir(state).load().expect("whole")?;
        assert_eq!(classes, 1);
        learnt.streams.lines().last().map(str::to_owned)
    }

    /// Waits until a condition holds; fails if it does not.
    fn wait_for(what: &str, so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !so() {
            assert!(Instant::now() < deadline, "no sign of {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_is_learnt_is_saved_again_and_again_and_at_the_end() {
        let state = tempfile::tempdir().expect("a directory");
        let pupil = Arc::new(Pupil::default());
        assert_eq!(seen(state.path()), None);
        let reads: Arc<dyn ReadPath> = Arc::<Pupil>::clone(&pupil);
        let often = Duration::from_millis(5);
        let saver =
            StateSaver::start(state_dir(state.path()), Arc::clone(&reads), 0, often).expect("a thread");
        for streams in [3, 4] {
            pupil.learn(streams);
            // Nothing is ended here: this is the file that a killed server leaves.
            wait_for("what was learnt", || seen(state.path()) == Some(format!("class seen={streams}")));
        }
        assert!(saver.status().saved_seconds_ago.is_some() && saver.status().problem.is_none());
        drop(saver);
        let saver = StateSaver::start(state_dir(state.path()), reads, 1, PERIOD).expect("a thread");
        pupil.learn(5);
        assert_eq!(saver.status().loaded_classes, 1);
        drop(saver);
        assert_eq!(seen(state.path()).as_deref(), Some("class seen=5"));
        let left: Vec<_> = std::fs::read_dir(state.path().join("learnt")).expect("there").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn unusable_state_is_refused_in_one_line() {
        let state = tempfile::tempdir().expect("a directory");
        let state_dir = state_dir(state.path());
        let refused = |reason: &str| {
            let said = state_dir.load().expect_err(reason);
            let path = state_dir.path.display().to_string();
            assert!(said.contains(reason) && said.contains(&path) && said.lines().count() == 1, "{said}");
        };
        for (text, reason) in [
            (&b"garbage"[..], "line 1: it should read 'foreseek-mount-learnt 1'"),
            (b"foreseek-mount-learnt 7\n", "line 1: its format is '7', this version reads 1"),
            (
                b"foreseek-mount-learnt 1\nsource /\nforeseek-learnt 1\nclass seen=x\nend\n",
                "line 4: 'x' is no number",
            ),
            (b"\xff\xfe", "UTF-8"),
        ] {
            std::fs::write(&state_dir.path, text).expect("written");
            refused(reason);
        }
        File::create(&state_dir.path).and_then(|file| file.set_len(LENGTH_LIMIT as u64 + 1)).expect("made");
        refused("it is longer than");
        std::fs::remove_file(&state_dir.path).expect("removed");
        std::fs::create_dir(&state_dir.path).expect("made");
        refused("it is no file");
        std::fs::remove_dir(&state_dir.path).expect("removed");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &state_dir.path, rustix::fs::FileType::Fifo, mode, 0).expect("made");
        refused("it is no file");
    }

    #[test]
    fn a_failed_save_is_reported_until_one_succeeds() {
        let state = tempfile::tempdir().expect("a directory");
        let file = state.path().join("file");
        std::fs::write(&file, "").expect("written");
        let said = StateDir::open(&file, Path::new("/")).expect_err("no directory");
        assert!(said.contains("FORESEEK_STATE"), "{said}");
        // A directory in place of the file stops root as well.
        let state_dir = state_dir(state.path());
        let path = state_dir.path.clone();
        std::fs::create_dir(&path).expect("made");
        let often = Duration::from_millis(5);
        let saver = StateSaver::start(state_dir, Arc::new(Pupil::default()), 0, often).expect("a thread");
        let problem = |saver: &StateSaver| saver.status().problem;
        wait_for("the problem", || problem(&saver).is_some_and(|problem| problem.contains("cannot write")));
        std::fs::remove_dir(&path).expect("removed");
        wait_for("its end", || problem(&saver).is_none() && saver.status().saved_seconds_ago.is_some());
    }

    #[test]
    fn golden_name_of_a_source() {
        assert_eq!(file_name(0x1f, Path::new("/data")), "000000000000001f-7895b1b41cad9a62ee5e4de2d60e0cb7");
    }

    #[test]
    fn a_file_that_an_earlier_version_named_is_taken_over_once() {
        let state = tempfile::tempdir().expect("a directory");
        let new = state_dir(state.path()).path;
        let (file_system, _) =
            new.file_name().and_then(|name| name.to_str()?.split_once('-')).expect("a name");
        let old = |digest: u64| new.with_file_name(format!("{file_system}-{digest:016x}"));
        let text = |source: &str, seen: u64| {
            let streams = format!("foreseek-learnt 1\nclass seen={seen}\n");
            LearntState { streams, device: None }.to_text(Path::new(source))
        };
        for (digest, text) in [(1, "garbage".to_owned()), (2, text("/data", 2)), (3, text("/", 3))] {
            std::fs::write(old(digest), text).expect("written");
        }
        assert_eq!(seen(state.path()).as_deref(), Some("class seen=3"));
        assert!(old(1).exists() && old(2).exists() && !old(3).exists() && new.exists());
        // Once a file of this version exists, it counts.
        std::fs::write(old(3), text("/", 4)).expect("written");
        assert_eq!(seen(state.path()).as_deref(), Some("class seen=3"));
    }

    #[test]
    fn the_number_of_sources_is_limited() {
        let state = tempfile::tempdir().expect("a directory");
        let state_dir = state_dir(state.path());
        for other in 0..FILES_MOST + 10 {
            std::fs::write(state_dir.path.with_file_name(format!("{other}")), "").expect("written");
        }
        std::fs::write(&state_dir.path, "").expect("written");
        state_dir.thin().expect("it can");
        let left = std::fs::read_dir(state.path().join("learnt")).expect("there").count();
        assert!(left == FILES_MOST && state_dir.path.exists(), "{left}");
    }
}
