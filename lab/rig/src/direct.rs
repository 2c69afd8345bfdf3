//! Reads past the page cache.

use crate::{Error, Result};
use foreseek_storage::{Arena, Buffer};
use foreseek_units::{ByteOffset, Bytes};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A file or a device that is read by direct I/O, into a buffer of its own.
#[derive(Debug)]
pub struct DirectReader {
    path: PathBuf,
    file: OwnedFd,
    buffer: Buffer,
}

impl DirectReader {
    /// Opens it for requests of at most `largest`.
    ///
    /// # Errors
    /// It cannot be opened so, or memory is short.
    pub fn open(path: &Path, largest: Bytes) -> Result<Self> {
        let cannot = |error| Error::io("cannot read", path.display(), error);
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(cannot)?;
        let buffer = Arena::new(largest).and_then(|arena| arena.take(largest.get() as usize));
        let buffer = buffer.ok_or_else(|| cannot(Errno::NOMEM))?;
        Ok(Self { path: path.to_owned(), file, buffer })
    }

    /// Its length.
    ///
    /// # Errors
    /// It cannot be found out.
    pub fn len(&self) -> Result<Bytes> {
        rustix::fs::seek(&self.file, SeekFrom::End(0)).map(Bytes).map_err(|error| self.cannot(error))
    }

    /// Reads there, in one request; returns how much was read, which is nothing at the end. `length`: at most that of
    /// the largest request.
    ///
    /// # Errors
    /// It cannot be read there.
    pub fn read(&mut self, at: ByteOffset, length: Bytes) -> Result<Bytes> {
        let most = self.buffer.len().min(usize::try_from(length.get()).unwrap_or(usize::MAX));
        let read = rustix::io::pread(&self.file, &mut self.buffer[..most], at.get());
        read.map(|read| Bytes(read as u64)).map_err(|error| self.cannot(error))
    }

    fn cannot(&self, error: Errno) -> Error {
        Error::io("cannot read", self.path.display(), error)
    }
}
