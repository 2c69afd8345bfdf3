//! Mounts the file and attaches a loop device to it.

use crate::fuse_file::{FILE, FuseFile, REQUEST_LIMIT};
use crate::server::Server;
use foreseek_server::MountSettings;
use foreseek_server::mount_table::connection_of;
use foreseek_storage::loop_device::{LoopDevice, LoopError, LoopOptions};
use foreseek_units::Bytes;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for the loop device when an export is dropped.
const DROP_LIMIT: Duration = Duration::from_secs(1);

/// Longest wait for the kernel to close the file below a loop device that it has freed. The kernel does so a
/// little later, within milliseconds, and until then the file system is busy.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);
/// Between attempts.
const POLL: Duration = Duration::from_millis(5);

/// How to export a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// An empty directory that exists.
    pub mount_point: PathBuf,
    /// The device's size, a multiple of a sector.
    pub size: Bytes,
    /// Threads that receive requests.
    pub threads: usize,
    /// The mount's name in the mount table.
    pub name: String,
    /// Lets the kernel abort the mount when a request is not answered in this time.
    pub request_timeout: Option<Duration>,
}

/// The seconds within which each request must be answered, or the kernel aborts the mount.
const TIMEOUT_VARIABLE: &str = "FORESEEK_FUSE_TIMEOUT";

/// The environment's value of [`ExportOptions::request_timeout`]. It is off by default, since a slow device
/// with a full queue may be slow without a fault.
///
/// # Errors
///
/// A value that is not a number of seconds from 1.
pub fn request_timeout() -> Result<Option<Duration>, ExportError> {
    let Some(given) = std::env::var_os(TIMEOUT_VARIABLE) else { return Ok(None) };
    match given.to_str().and_then(|seconds| seconds.parse().ok()) {
        Some(seconds @ 1..) => Ok(Some(Duration::from_secs(seconds))),
        _ => Err(ExportError::Variable {
            name: TIMEOUT_VARIABLE,
            value: given.display().to_string(),
            remedy: "give whole seconds from 1, or unset it",
        }),
    }
}

/// Why a server could not be exported, or its export could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// An environment variable is invalid.
    #[error("{name} {value}: {remedy}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What to give instead.
        remedy: &'static str,
    },
    /// FUSE could not be mounted.
    #[error(
        "cannot mount a FUSE file system on {mount_point}: {}; it needs root with the right to mount (CAP_SYS_ADMIN) and \
         /dev/fuse: a container must be given both, and loop devices (docker run --privileged -v /dev:/dev), or do it on \
         the host",
        .cause.to_string().trim()
    )]
    Mount {
        /// The mount point.
        mount_point: PathBuf,
        /// The kernel's error; part of the message, and so no `source`.
        cause: io::Error,
    },
    /// FUSE could not be unmounted.
    #[error("cannot unmount the FUSE file system on {mount_point}: {cause}")]
    Unmount {
        /// The mount point.
        mount_point: PathBuf,
        /// The kernel's error.
        cause: Errno,
    },
    /// The file in the mount could not be opened.
    #[error("cannot open {file}: {cause}")]
    Open {
        /// The FUSE file.
        file: PathBuf,
        /// The kernel's error; part of the message, and so no `source`.
        cause: io::Error,
    },
    /// The address cannot be used.
    #[error("cannot listen at {address}: {cause}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        cause: String,
    },
    /// The loop device could not be attached or freed.
    #[error(transparent)]
    Loop(#[from] LoopError),
}

/// A server's mounted file, with or without a loop device over it. Dropping it frees what can be freed
/// without a long wait.
#[derive(Debug)]
pub struct Export {
    options: ExportOptions,
    session: Option<BackgroundSession>,
    connection: Option<u32>,
    warnings: Vec<String>,
}

impl Export {
    /// Mounts the file: from now on the server gets its requests.
    ///
    /// # Errors
    /// [`ExportError`]; nothing stays mounted then.
    pub fn mount(server: Arc<dyn Server>, options: ExportOptions) -> Result<Self, ExportError> {
        let failed = |cause| ExportError::Mount { mount_point: options.mount_point.clone(), cause };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(options.name.clone()),
            MountOption::Subtype("foreseek".to_owned()),
            MountOption::NoAtime,
        ];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(options.threads);
        // A queue for each thread, so that answers do not contend for one lock.
        config.clone_fd = options.threads > 1;
        let file = FuseFile { server, size: options.size };
        let mut settings = MountSettings::take();
        settings.allow_pages(REQUEST_LIMIT.pages_ceil().get());
        options.request_timeout.into_iter().for_each(|limit| settings.time_out(limit));
        let session = Session::new(file, &options.mount_point, &config).map_err(failed)?;
        let warnings = settings.warnings().to_vec();
        drop(settings);
        let session = session.spawn().map_err(failed)?;
        let connection = connection_of(&options.mount_point);
        Ok(Self { options, session: Some(session), connection, warnings })
    }

    /// The file under the loop device.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.options.mount_point.join(FILE)
    }

    /// The number of the mount's FUSE connection in fusectl.
    #[must_use]
    pub fn connection(&self) -> Option<u32> {
        self.connection
    }

    /// Warnings about kernel settings that could not be changed; the device works without them.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether it still gets requests: not after another process has unmounted or aborted the mount.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.guard.is_finished())
    }

    /// The loop device over the file, according to the kernel.
    #[must_use]
    pub fn device(&self) -> Option<LoopDevice> {
        loop_device_over(&self.options.mount_point, self.connection)
    }

    /// Requests that the kernel free the loop device once it has no users; returns at once.
    ///
    /// # Errors
    /// [`ExportError::Loop`].
    pub fn begin_detach(&self) -> Result<(), ExportError> {
        self.device().map_or(Ok(()), |device| device.begin_clear()).map_err(Into::into)
    }

    /// Unmounts, after waiting up to `limit` for the loop device to be free.
    ///
    /// # Errors
    /// [`ExportError`]; while the device stays in use, it and the mount stay.
    pub fn end(mut self, limit: Duration) -> Result<(), ExportError> {
        if let Some(device) = self.device() {
            device.clear(limit)?;
        }
        self.unmount()
    }

    fn unmount(&mut self) -> Result<(), ExportError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        let mount_point = &self.options.mount_point;
        let refused = |cause| ExportError::Unmount { mount_point: mount_point.clone(), cause };
        let deadline = Instant::now() + RELEASE_LIMIT;
        // Not the session's own unmount: that tries once, and leaves the mount behind where it is busy.
        while let Err(cause) = unmount(mount_point, UnmountFlags::empty()) {
            match cause {
                // Another process has unmounted it.
                Errno::INVAL | Errno::NOENT => break,
                Errno::BUSY if Instant::now() < deadline => sleep(POLL),
                // The session's threads end when the last user of the file closes it.
                Errno::BUSY => return unmount(mount_point, UnmountFlags::DETACH).map_err(refused),
                cause => return Err(refused(cause)),
            }
        }
        session.join().map_err(|cause| refused(Errno::from_io_error(&cause).unwrap_or(Errno::IO)))
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if self.session.is_none() {
            return;
        }
        if let Some(device) = self.device()
            && let Err(error) = device.clear(DROP_LIMIT)
        {
            tracing::warn!("{error}");
        }
        if let Err(error) = self.unmount() {
            tracing::warn!("{error}");
        }
    }
}

/// Attaches a loop device to an exported file.
///
/// Call it in another process than the server's: the kernel flushes the file meanwhile, and a process that
/// waits for its own answer cannot be ended.
///
/// # Errors
/// [`ExportError`]; nothing stays attached then.
pub fn attach_loop(file: &Path, name: &str, options: LoopOptions) -> Result<LoopDevice, ExportError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT | libc::O_CLOEXEC)
        .open(file)
        .map_err(|cause| ExportError::Open { file: file.to_owned(), cause })?;
    Ok(LoopDevice::attach(&opened, Path::new(name), options)?)
}

/// The loop device over the file that is or was mounted at `mount_point` with this connection number.
#[must_use]
pub fn loop_device_over(mount_point: &Path, connection: Option<u32>) -> Option<LoopDevice> {
    let named = |device: &LoopDevice| device.file().is_some_and(|file| file.starts_with(mount_point));
    // After an unmount the path ends at the mount, and only the number stays. The number is read only then:
    // the kernel queries the file for it, and a hung server would not answer.
    let lost = |device: &LoopDevice| device.file().is_some_and(|file| file == Path::new("/").join(FILE));
    let numbered = |device: &LoopDevice| {
        connection.is_some() && lost(device) && device.file_system_minor() == connection
    };
    LoopDevice::find(|device| named(device) || numbered(device)).into_iter().next()
}
