//! Mounting the file and laying the loop device over it.

use crate::REQUEST_LIMIT;
use crate::fuse_file::{FILE, FuseFile};
use crate::mount_settings::MountSettings;
use crate::server::Server;
use foreseek_storage::loop_device::{LoopDevice, LoopError, LoopOptions};
use foreseek_units::Bytes;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How to export a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// An empty directory that exists.
    pub mount_point: PathBuf,
    /// The device's size, a multiple of a sector.
    pub size: Bytes,
    /// Threads that take requests.
    pub threads: usize,
    /// What the loop device shall look like.
    pub device: LoopOptions,
    /// What the mount is called in the mount table.
    pub name: String,
    /// Let the kernel give the mount up when a request is not answered in this time.
    pub request_timeout: Option<Duration>,
}

/// Why a server could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// FUSE could not be mounted.
    #[error("cannot mount a FUSE file system on {mount_point}: {source}; it needs root and /dev/fuse")]
    Mount {
        /// Where.
        mount_point: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file in it could not be opened.
    #[error("cannot open {file}: {source}")]
    Open {
        /// The FUSE file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The loop device could not be had or freed.
    #[error(transparent)]
    Loop(#[from] LoopError),
}

/// A server's mounted file, with or without the loop device over it. Dropping it frees what can be
/// freed without waiting.
#[derive(Debug)]
pub struct Export {
    options: ExportOptions,
    session: Option<BackgroundSession>,
    connection: u32,
    device: Option<LoopDevice>,
    remarks: Vec<String>,
}

impl Export {
    /// Mounts the file: from now on the server is asked.
    ///
    /// # Errors
    /// [`ExportError`]; nothing stays mounted then.
    pub fn mount(server: Arc<dyn Server>, options: ExportOptions) -> Result<Self, ExportError> {
        let failed = |source| ExportError::Mount { mount_point: options.mount_point.clone(), source };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(options.name.clone()),
            MountOption::Subtype("foreseek".to_owned()),
            MountOption::NoAtime,
        ];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(options.threads);
        // A queue of its own for each thread, so that answers do not contend for one lock.
        config.clone_fd = options.threads > 1;
        let file = FuseFile { server, size: options.size };
        let mut settings = MountSettings::take();
        settings.allow_pages(REQUEST_LIMIT.pages_ceil().get());
        options.request_timeout.into_iter().for_each(|limit| settings.time_out(limit));
        let session = Session::new(file, &options.mount_point, &config).map_err(failed)?;
        let remarks = settings.remarks().to_vec();
        drop(settings);
        let session = session.spawn().map_err(failed)?;
        let device = std::fs::metadata(&options.mount_point).map_err(failed)?.dev();
        let connection = rustix::fs::minor(device);
        Ok(Self { options, session: Some(session), connection, device: None, remarks })
    }

    /// Lays a loop device over the file.
    ///
    /// # Errors
    /// [`ExportError`]; the file stays mounted.
    pub fn attach(&mut self) -> Result<LoopDevice, ExportError> {
        let path = self.file();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_CLOEXEC)
            .open(&path)
            .map_err(|source| ExportError::Open { file: path, source })?;
        // The loop device keeps the file open by itself; a descriptor kept here would make the
        // server wait for itself when it is killed.
        let device = LoopDevice::attach(&file, Path::new(&self.options.name), self.options.device)?;
        self.device = Some(device.clone());
        Ok(device)
    }

    /// The file under the loop device.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.options.mount_point.join(FILE)
    }

    /// The number under which fusectl knows the mount.
    #[must_use]
    pub fn connection(&self) -> u32 {
        self.connection
    }

    /// What could not be had; the device works without.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Asks the kernel to free the loop device when nobody uses it any more; returns at once.
    ///
    /// # Errors
    /// [`ExportError::Loop`].
    pub fn begin_detach(&self) -> Result<(), ExportError> {
        self.device.as_ref().map_or(Ok(()), LoopDevice::begin_clear).map_err(Into::into)
    }

    /// Whether the loop device is free of its file.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        let file = self.file();
        // The number may serve another file by now.
        self.device.as_ref().and_then(LoopDevice::file).is_none_or(|now| now != file)
    }

    /// Frees the loop device, waiting for its users no longer than `limit`, and unmounts.
    ///
    /// # Errors
    /// [`ExportError`]; where the device stays in use, it and the mount stay.
    pub fn end(mut self, limit: Duration) -> Result<(), ExportError> {
        if !self.is_detached()
            && let Some(device) = &self.device
        {
            device.clear(limit)?;
        }
        self.device = None;
        self.unmount()
    }

    fn unmount(&mut self) -> Result<(), ExportError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        session
            .umount_and_join()
            .map_err(|source| ExportError::Mount { mount_point: self.options.mount_point.clone(), source })
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if !self.is_detached()
            && let Some(device) = &self.device
            && let Err(error) = device.clear(Duration::from_secs(1))
        {
            tracing::warn!("{error}");
        }
        if let Err(error) = self.unmount() {
            tracing::warn!("{error}");
        }
    }
}
