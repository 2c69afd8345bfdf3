//! A source that is mounted and served, in this process.

use crate::fs::crew::Crew;
use crate::fs::file_system::{FileSystem, KEEP};
use crate::fs::from_memory::FromMemory;
use crate::fs::handles::Handles;
use crate::fs::kernel_cache::KernelCache;
use crate::fs::look_ahead::LookAhead;
use crate::fs::mount_point::{self, KIND};
use crate::fs::nodes::Nodes;
use crate::fs::passthrough::Passthrough;
use crate::fs::slow_operations::SlowOperations;
use crate::fs::source::{self, DESCRIPTORS_KEPT, Source};
use crate::fs::windows::Windows;
use crate::plain::Plain;
use crate::read_path::ReadPath;
use crate::status::{MountStatus, PassthroughStatus, WalkStatus};
use crate::{Error, MountOptions, WalkOptions};
use foreseek_server::mount_table::{abort_connection, connection_of};
use foreseek_server::{Context, MountSettings, NotRoot};
use foreseek_watch::reported::{DESCRIPTORS, Reported};
use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads that receive requests. Opening and writing in the source may wait for its disk: there are
/// therefore more threads than processors. Each has a buffer of the largest write.
const THREADS: usize = 16;
/// The share of this process's descriptors, as a divisor, that files known to the kernel may hold if there
/// are no handles. The rest is for open files.
const DESCRIPTORS_SHARE: u64 = 2;
/// Descriptors if the system sets no limit: as many as Linux allows by default.
const DESCRIPTORS_MOST: u64 = 1 << 20;
/// The period of checks whether a session has ended.
const POLL: Duration = Duration::from_millis(5);

/// See the module's documentation. Dropping it unmounts, even if the mount is in use.
pub struct Mounted {
    source: Arc<Source>,
    session: Option<BackgroundSession>,
    crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
    ending: Arc<AtomicBool>,
    options: MountOptions,
    connection: Option<u32>,
    begun: Instant,
    warnings: Vec<String>,
}

impl Mounted {
    /// Mounts a source; reads are answered by `reads`.
    ///
    /// # Errors
    /// The reason why it cannot be mounted; nothing stays mounted then.
    pub fn start(options: &MountOptions, reads: Arc<dyn ReadPath>) -> Result<Self, Error> {
        check_rights()?;
        let options = mount_point::check(options)?;
        let root = open_source(&options.source)?;
        let descriptors = set_descriptor_limit(options.descriptors);
        let mut warnings = Vec::new();
        let walks = options
            .walks
            .as_ref()
            .and_then(|walks| read_ahead_of_walks(&root, walks, descriptors, &mut warnings));
        let nodes = Nodes::new(root, options.use_handles, (descriptors / DESCRIPTORS_SHARE) as usize)
            .context("look at", &options.source)?;
        if !nodes.has_handles() {
            warnings.push(format!(
                "the file system of {} gives no file handles: each file that the kernel knows takes a \
                 descriptor, of {descriptors}",
                options.source.display()
            ));
        }
        let source = Arc::new(Source {
            nodes,
            files: Handles::default(),
            directories: Handles::default(),
            reads,
            plain: Plain::default(),
            kernel: KernelCache::default(),
            slow_operations: SlowOperations::start().context("start", "threads")?,
            external_changes: AtomicU64::new(0),
            look_ahead: LookAhead::default(),
            walks,
            from_memory: FromMemory::default(),
            windows: Windows::default(),
            passthrough: Passthrough::default(),
            read_from_memory: AtomicU64::new(0),
            descriptors,
        });
        let (session, crew) = open_session(&options, &source, &mut warnings)?;
        let connection = connection_of(&options.mount_point);
        connection.into_iter().for_each(|connection| source.windows.begin(connection));
        let ending = Arc::new(AtomicBool::new(false));
        let mut mounted = Self {
            source,
            session: None,
            crew,
            threads: Vec::new(),
            ending,
            options,
            connection,
            begun: Instant::now(),
            warnings,
        };
        mounted.spawn(session).context("start", "threads")?;
        Ok(mounted)
    }

    fn spawn(&mut self, session: Session<FileSystem>) -> std::io::Result<()> {
        let (pages, names) = (session.notifier(), session.notifier());
        self.session = Some(session.spawn()?);
        let crew = Arc::clone(&self.crew);
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let source = Arc::clone(&self.source);
        self.threads.push(named("drop-pages").spawn(move || source.kernel.drop_pages(&pages))?);
        let source = Arc::clone(&self.source);
        self.threads.push(named("drop-names").spawn(move || source.kernel.drop_names(&names))?);
        self.threads.push(named("foreman").spawn(move || crew.run_foreman())?);
        let (source, ending) = (Arc::clone(&self.source), Arc::clone(&self.ending));
        self.threads.push(named("watch").spawn(move || {
            while !ending.load(Relaxed) {
                std::thread::park_timeout(KEEP);
                source.look_at_open_files();
            }
        })?);
        Ok(())
    }

    /// The options with which it was mounted; paths are absolute.
    #[must_use]
    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// The number of the mount's FUSE connection in fusectl.
    #[must_use]
    pub fn connection(&self) -> Option<u32> {
        self.connection
    }

    /// Warnings, one line each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds a warning.
    pub(crate) fn add_warning(&mut self, warning: String) {
        tracing::warn!("{warning}");
        self.warnings.push(warning);
    }

    /// The read path.
    pub(crate) fn reads(&self) -> Arc<dyn ReadPath> {
        Arc::clone(&self.source.reads)
    }

    /// Whether it still gets requests: not after another process has unmounted or aborted the mount.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.crew.end_with_connection();
        self.session.as_ref().is_some_and(|session| !session.guard.is_finished())
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> MountStatus {
        let mut reads = self.source.reads.status();
        reads.add(&self.source.plain.status());
        reads.warnings.splice(0..0, self.warnings.iter().cloned());
        MountStatus {
            source: self.options.source.clone(),
            mount_point: self.options.mount_point.clone(),
            pid: std::process::id(),
            seconds: self.begun.elapsed().as_secs_f64(),
            files_open: self.source.files.len() as u64,
            files_known: self.source.nodes.len() as u64,
            external_changes: self.source.external_changes.load(Relaxed),
            walks: self.source.walks.as_ref().map(|walks| self.walk_status(walks)),
            passthrough: self.options.passthrough.then(|| self.passthrough_status()),
            long_windows: self.source.windows.opens().long,
            short_windows: self.source.windows.opens().short,
            reads,
            kept: None,
        }
    }

    fn passthrough_status(&self) -> PassthroughStatus {
        let Source { passthrough, .. } = &*self.source;
        PassthroughStatus { opens: passthrough.opens(), unavailable: passthrough.unavailable() }
    }

    fn walk_status(&self, walks: &Reported) -> WalkStatus {
        let counted = walks.counted();
        WalkStatus {
            metadata_bytes: counted.metadata_bytes,
            content_bytes: counted.content_bytes,
            used_bytes: counted.used_bytes,
            reads: self.source.read_from_memory.load(Relaxed),
        }
    }

    /// Unmounts: the mount point is free. Programs with open files can use them until
    /// [`is_serving`](Self::is_serving) is false. Returns whether it is in use.
    ///
    /// # Errors
    /// The kernel's error. That nothing is mounted there is no error.
    pub fn begin_unmount(&self) -> Result<bool, Error> {
        let point = &self.options.mount_point;
        // Another process has unmounted it; a mount that is there now is not ours.
        if connection_of(point) != self.connection {
            return Ok(self.is_serving());
        }
        match unmount(point, UnmountFlags::empty()) {
            Ok(()) | Err(Errno::INVAL) => Ok(false),
            Err(Errno::BUSY) => {
                unmount(point, UnmountFlags::DETACH).context("unmount", point)?;
                Ok(true)
            }
            Err(errno) => Err(errno).context("unmount", point)?,
        }
    }

    /// Unmounts and ends, after waiting up to `limit` for open files to be closed; then their users get
    /// errors.
    ///
    /// # Errors
    /// As [`begin_unmount`](Self::begin_unmount); it stays mounted then.
    pub fn end(mut self, limit: Duration) -> Result<(), Error> {
        self.begin_unmount()?;
        self.finish(limit)
    }

    /// Waits for the session to end, and aborts it at `limit`.
    fn finish(&mut self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        while self.is_serving() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        if self.is_serving()
            && let Some(connection) = self.connection
        {
            abort_connection(connection)
                .context("abort the FUSE connection of", &self.options.mount_point)?;
        }
        self.crew.end();
        if let Some(session) = self.session.take()
            && let Err(error) = session.join()
        {
            tracing::warn!("the FUSE session ended with an error: {error}");
        }
        self.source.walks.iter().for_each(Reported::stop);
        self.source.slow_operations.stop();
        self.source.kernel.stop();
        self.ending.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("a thread of the mount has panicked");
            }
        }
        self.source.reads.stop();
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.is_none() {
            return;
        }
        let ended = self.begin_unmount().and_then(|_| self.finish(Duration::ZERO));
        if let Err(error) = ended {
            tracing::warn!("{error}");
        }
    }
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounted").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Whether this process may mount, and act for callers.
pub(crate) fn check_rights() -> Result<(), Error> {
    NotRoot::check("mount")?;
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    if !capabilities(None).is_ok_and(|own| own.effective.contains(needed)) {
        return Err(Error::Missing {
            what: "CAP_SETUID or CAP_SETGID",
            remedy: "give both to this process: else what users create in the mount would be root's",
        });
    }
    Ok(())
}

/// The read-ahead for walks over the source. If it cannot work, that is a warning, unless there is nothing to
/// gain.
fn read_ahead_of_walks(
    root: &OwnedFd,
    wanted: &WalkOptions,
    descriptors: u64,
    warnings: &mut Vec<String>,
) -> Option<Reported> {
    let needed = (DESCRIPTORS_KEPT + DESCRIPTORS) * source::DESCRIPTORS_SHARE;
    if descriptors < needed {
        warnings.push(format!(
            "programs that walk trees are not read ahead of: this needs {needed} descriptors, there are {descriptors} (ulimit -Hn)"
        ));
        return None;
    }
    let WalkOptions { memory_bytes, profile, record } = wanted.clone();
    let memory_bytes = Some(memory_bytes);
    let options = foreseek_watch::Options { memory_bytes, profile, record, ..Default::default() };
    match Reported::start(root.as_fd(), &options) {
        Ok(reported) => Some(reported),
        Err(foreseek_watch::Error::Nothing(reason)) => {
            tracing::info!("programs that walk trees are not read ahead of: {reason}");
            None
        }
        Err(error) => {
            warnings.push(format!("programs that walk trees are not read ahead of: {error}"));
            None
        }
    }
}

fn open_source(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty()).context("open", path)?)
}

/// Each open file takes a descriptor of this process: sets the limit to `wanted`, or to the most that the
/// process may have.
fn set_descriptor_limit(wanted: Option<u64>) -> u64 {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(DESCRIPTORS_MOST);
    let limit = wanted.unwrap_or(most).min(most);
    let set = setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum: now.maximum });
    if set.is_ok() { limit } else { now.current.unwrap_or(limit) }
}

/// Mounts, and negotiates with the kernel.
fn open_session(
    options: &MountOptions,
    source: &Arc<Source>,
    warnings: &mut Vec<String>,
) -> Result<(Session<FileSystem>, Arc<Crew>), Error> {
    let device = rustix::fs::openat(CWD, "/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let device = match device {
        Err(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
            return Err(Error::Missing {
                what: "/dev/fuse",
                remedy: "load the module (modprobe fuse); in a container, give it the device",
            });
        }
        device => device.context("open", "/dev/fuse")?,
    };
    let connection = device.try_clone().context("duplicate the descriptor of", "/dev/fuse")?;
    let mut settings = MountSettings::take();
    options.request_timeout.into_iter().for_each(|limit| settings.time_out(limit));
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other",
        device.as_raw_fd()
    );
    let data = CString::new(data).map_err(std::io::Error::from).context("mount", &options.mount_point)?;
    let flags = mount_flags(options);
    mount(&options.source, &options.mount_point, KIND, flags, data.as_c_str())
        .map_err(|errno| {
            let why = std::io::Error::from(errno);
            std::io::Error::new(why.kind(), format!("{why}; it needs root and the device /dev/fuse"))
        })
        .context("mount a FUSE file system on", &options.mount_point)?;
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.n_threads = Some(THREADS);
    // A queue for each thread, so that answers do not contend for one lock.
    config.clone_fd = true;
    let crew = Arc::new(Crew::new(connection, THREADS));
    let file_system =
        FileSystem { source: Arc::clone(source), passes: options.passthrough, crew: Arc::clone(&crew) };
    let session = Session::from_fd(file_system, device, SessionACL::All, config);
    if session.is_err() {
        let _ = unmount(&options.mount_point, UnmountFlags::DETACH);
    }
    warnings.extend_from_slice(settings.warnings());
    Ok((session.context("speak with the kernel about", &options.mount_point)?, crew))
}

/// The restrictions of the source's own mount hold for this mount as well.
fn mount_flags(options: &MountOptions) -> MountFlags {
    let below = rustix::fs::statvfs(&options.source).map(|stat| stat.f_flag);
    let below = below.unwrap_or(StatVfsMountFlags::empty());
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only || below.contains(StatVfsMountFlags::RDONLY));
    flags.set(MountFlags::NOSUID, below.contains(StatVfsMountFlags::NOSUID));
    flags.set(MountFlags::NODEV, below.bits() & libc::ST_NODEV != 0);
    flags.set(MountFlags::NOEXEC, below.bits() & libc::ST_NOEXEC != 0);
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_limit_is_raised_as_far_as_permitted() {
        let most = set_descriptor_limit(None);
        assert_eq!(getrlimit(Resource::Nofile).current, Some(most));
        assert_eq!(set_descriptor_limit(Some(most - 1)), most - 1);
        assert_eq!(set_descriptor_limit(Some(most + 1)), most);
    }
}
