//! A file opened again for reads that bypass the kernel's page cache.
//!
//! *Direct* where the file system does direct I/O in units that divide a page. The file system reports the
//! unit (`STATX_DIOALIGN`, Linux 6.1); where it does not, a read is tried, and the unit is then a page, which
//! every device accepts. *Buffered* elsewhere (tmpfs, overlays over it, large blocks): data are dropped from
//! the page cache as soon as they are read, so that they are not cached twice. A file that refuses a direct
//! read later (some do, at some offsets) is read buffered from then on.
//!
//! *Kept* where a program may write to the file ([`ReadFile::keep`]): through the page cache, without the
//! kernel's read-ahead, and the data stay there. A file system that is given a part of a block reads the rest
//! of it, unless the page cache has it.
//!
//! It is opened through `/proc/self/fd`, since `O_DIRECT` belongs to the open file and not to the descriptor.
//! **Closing it drops the fcntl locks** of this process on the file: a server that locks files for its
//! clients uses open file description locks (`F_OFD_SETLK`).
#![allow(unsafe_code)]

use crate::advice::{dont_need, last_error};
use crate::fd::HostFd;
use crate::residency::cachestat;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, PAGE_SIZE};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// `STATX_DIOALIGN`.
const DIOALIGN: u32 = 0x2000;

/// `AT_STATX_DONT_SYNC`.
const DONT_SYNC: AtFlags = AtFlags::from_bits_retain(0x4000);

/// `FUSE_SUPER_MAGIC`.
const FUSE: rustix::fs::FsWord = 0x6573_5546;

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Bypassing the page cache.
    Direct,
    /// Through the page cache, from which the data are dropped at once.
    Buffered,
    /// Through the page cache, which keeps the data.
    Kept,
}

/// A file that is open for reading.
#[derive(Debug)]
pub struct ReadFile {
    direct: Option<(OwnedFd, Bytes)>,
    /// Opened when it is first needed, through the direct one.
    buffered: OnceLock<Arc<File>>,
    /// Whether a direct read was refused.
    refused: AtomicBool,
    /// Whether the page cache is to keep what is read, through this descriptor.
    kept: OnceLock<File>,
    /// Whether it belongs to a FUSE file system.
    fuse: bool,
}

impl ReadFile {
    /// Opens the file behind a descriptor again; an `O_PATH` descriptor suffices.
    ///
    /// # Errors
    /// The kernel's error, most likely EACCES.
    pub fn reopen(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let (direct, buffered) = match open(fd, OFlags::DIRECT) {
            Ok(file) => match unit(file.as_fd()) {
                Some(unit) => (Some((file, unit)), OnceLock::new()),
                None => (None, OnceLock::from(plain(fd)?)),
            },
            Err(Errno::INVAL | Errno::OPNOTSUPP) => (None, OnceLock::from(plain(fd)?)),
            Err(error) => return Err(error),
        };
        let fuse = rustix::fs::fstatfs(fd).is_ok_and(|stat| stat.f_type == FUSE);
        Ok(Self::new(direct, buffered, fuse))
    }

    /// A file that is open already, to be read through the page cache.
    #[must_use]
    pub fn buffered_over(file: Arc<File>) -> Self {
        Self::new(None, OnceLock::from(file), false)
    }

    fn new(direct: Option<(OwnedFd, Bytes)>, buffered: OnceLock<Arc<File>>, fuse: bool) -> Self {
        Self { direct, buffered, refused: AtomicBool::new(false), kept: OnceLock::new(), fuse }
    }

    /// Has the page cache keep what is read from now on, since a program may write to the file. Without effect
    /// where the file cannot be opened once more.
    pub fn keep(&self) {
        if self.kept.get().is_none()
            && let Some(file) = self.any().and_then(|fd| open(fd, OFlags::empty()).ok())
        {
            // What to read ahead is decided above.
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
            let _ = self.kept.set(File::from(file));
        }
    }

    /// How it is read at present.
    #[must_use]
    pub fn mode(&self) -> ReadMode {
        if self.kept.get().is_some() {
            ReadMode::Kept
        } else if self.direct.is_some() && !self.refused.load(Ordering::Relaxed) {
            ReadMode::Direct
        } else {
            ReadMode::Buffered
        }
    }

    /// Offsets and lengths of reads must be multiples of this: a divisor of a page, at least 1.
    #[must_use]
    pub fn alignment(&self) -> Bytes {
        // A file that was direct once stays aligned: a read may be under way.
        self.direct.as_ref().map_or(Bytes(1), |(_, unit)| *unit)
    }

    /// Its length at present.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn length(&self) -> Result<Bytes, Errno> {
        let fd = self.any().ok_or(Errno::BADF)?;
        Ok(Bytes(u64::try_from(rustix::fs::fstat(fd)?.st_size).unwrap_or(0)))
    }

    /// Whether a FUSE server answers its reads: slowly, and with short reads anywhere.
    pub(super) fn is_fuse(&self) -> bool {
        self.fuse
    }

    /// Whether the file ends by this offset, as far as the kernel knows without asking a server.
    pub(super) fn ends_by(&self, offset: ByteOffset) -> bool {
        let Some(fd) = self.any() else { return true };
        let stat = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH | DONT_SYNC, StatxFlags::SIZE);
        stat.map_or(true, |stat| stat.stx_size <= offset.get())
    }

    /// One of its descriptors, for queries.
    #[must_use]
    pub fn any(&self) -> Option<BorrowedFd<'_>> {
        let direct = self.direct.as_ref().map(|(file, _)| file.as_fd());
        direct.or_else(|| self.buffered.get().map(|file| file.as_fd()))
    }

    /// The descriptor for reads of this kind.
    pub(super) fn raw(&self, mode: ReadMode) -> Result<RawFd, Errno> {
        match (mode, &self.direct, self.kept.get()) {
            (ReadMode::Direct, Some((file, _)), _) => Ok(file.as_raw_fd()),
            (ReadMode::Kept, _, Some(file)) => Ok(file.as_raw_fd()),
            _ => self.buffered().map(AsRawFd::as_raw_fd),
        }
    }

    /// Whether the page cache has some of these bytes; known only of a kept file.
    pub(super) fn is_partly_in_memory(&self, range: ByteSpan) -> bool {
        let fd = self.kept.get().and_then(|file| HostFd::new(file.as_raw_fd()));
        fd.is_some_and(|fd| cachestat(fd, range.pages()).is_ok_and(|pages| !pages.is_zero()))
    }

    /// A direct read was refused: from now on reads are buffered.
    pub(super) fn refuse_direct(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Drops what was read from the page cache, if the read was buffered.
    pub(super) fn forget(&self, range: ByteSpan) {
        if self.mode() == ReadMode::Buffered
            && let Some(fd) = self.buffered.get().and_then(|file| HostFd::new(file.as_raw_fd()))
        {
            // Best effort: the kernel will reclaim by itself what it keeps now.
            let _ = dont_need(fd, range.pages());
        }
    }

    /// Reads in this thread, up to the end of the file: as a last resort, and for tests.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read_waiting(&self, buffer: &mut [u8], offset: ByteOffset) -> Result<usize, Errno> {
        let file = self.buffered()?;
        HostFd::new(file.as_raw_fd()).ok_or(Errno::BADF)?.read_at(buffer, offset)
    }

    fn buffered(&self) -> Result<&File, Errno> {
        if self.buffered.get().is_none() {
            let (file, _) = self.direct.as_ref().ok_or(Errno::BADF)?;
            let _ = self.buffered.set(plain(file.as_fd())?);
        }
        self.buffered.get().map(AsRef::as_ref).ok_or(Errno::BADF)
    }
}

fn open(fd: BorrowedFd<'_>, more: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | more, Mode::empty())
}

fn plain(fd: BorrowedFd<'_>) -> Result<Arc<File>, Errno> {
    Ok(Arc::new(File::from(open(fd, OFlags::empty())?)))
}

/// The unit of a file's direct reads; `None` where it does not divide a page.
fn unit(file: BorrowedFd<'_>) -> Option<Bytes> {
    let wanted = StatxFlags::from_bits_retain(DIOALIGN);
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted).ok();
    let unit = match stat.filter(|stat| stat.stx_mask & DIOALIGN != 0) {
        Some(stat) => {
            let (memory, offset) = (stat.stx_dio_mem_align, stat.stx_dio_offset_align);
            (memory > 0 && PAGE_SIZE.is_multiple_of(memory.into())).then_some(Bytes(offset.into()))?
        }
        None => match try_page(file) {
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return None,
            // Another error comes from that page or from the moment, not from direct I/O.
            Ok(()) | Err(_) => Bytes(PAGE_SIZE),
        },
    };
    (!unit.is_zero() && PAGE_SIZE.is_multiple_of(unit.get())).then_some(unit)
}

/// Reads the first page directly.
fn try_page(file: BorrowedFd<'_>) -> Result<(), Errno> {
    #[repr(align(4096))]
    struct Page([u8; PAGE_SIZE as usize]);
    let mut page = Page([0; PAGE_SIZE as usize]);
    // SAFETY: the buffer has the given length and lives until the call returns.
    let got = unsafe { libc::pread(file.as_raw_fd(), page.0.as_mut_ptr().cast(), page.0.len(), 0) };
    if got < 0 { Err(last_error()) } else { Ok(()) }
}
