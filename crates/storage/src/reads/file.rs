//! A file opened anew for reading past the kernel's page cache.
//!
//! *Direct* where the file system does direct I/O in units that divide a page, as it says itself
//! (`STATX_DIOALIGN`, Linux 6.1) or, where it says nothing, as is tried: pages are then a unit that
//! every device takes. *Buffered* elsewhere (tmpfs, overlays over it, large blocks): what was read
//! is dropped from the page cache at once, lest it is kept twice. A file that refuses a direct read
//! later (some do, at some offsets) is read buffered from then on.
//!
//! It is opened anew through `/proc/self/fd`, since the flag belongs to the open file and not to the
//! descriptor. **Closing it drops fcntl locks** that this process holds on the file: a server that
//! locks files for its callers uses locks of open files (`F_OFD_SETLK`).
#![allow(unsafe_code)]

use crate::advice::{dont_need, last_error};
use crate::fd::HostFd;
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
pub enum Access {
    /// Past the page cache.
    Direct,
    /// Through the page cache, which is emptied of it at once.
    Buffered,
}

/// A file that is open for reading.
#[derive(Debug)]
pub struct ReadFile {
    direct: Option<(OwnedFd, Bytes)>,
    /// Opened when it is first needed, from the direct one.
    buffered: OnceLock<Arc<File>>,
    /// Whether the direct one refused a read.
    refused: AtomicBool,
    /// Whether it is of a FUSE file system.
    fuse: bool,
}

impl ReadFile {
    /// Opens the file behind a descriptor anew; the descriptor may be one for its path alone
    /// (`O_PATH`).
    ///
    /// # Errors
    /// What the kernel said: no permission, most likely.
    pub fn reopen(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let (direct, buffered) = match open(fd, OFlags::DIRECT) {
            Ok(file) => match unit(file.as_fd()) {
                Some(unit) => (Some((file, unit)), OnceLock::new()),
                None => (None, OnceLock::from(plain(fd)?)),
            },
            Err(Errno::INVAL | Errno::OPNOTSUPP) => (None, OnceLock::from(plain(fd)?)),
            Err(error) => return Err(error),
        };
        let fuse = rustix::fs::fstatfs(fd).is_ok_and(|told| told.f_type == FUSE);
        Ok(Self { direct, buffered, refused: AtomicBool::new(false), fuse })
    }

    /// A file that is open already, to be read through the page cache.
    #[must_use]
    pub fn buffered_over(file: Arc<File>) -> Self {
        Self { direct: None, buffered: OnceLock::from(file), refused: AtomicBool::new(false), fuse: false }
    }

    /// How it is read now.
    #[must_use]
    pub fn access(&self) -> Access {
        if self.direct.is_some() && !self.refused.load(Ordering::Relaxed) {
            Access::Direct
        } else {
            Access::Buffered
        }
    }

    /// What offsets and lengths of reads must be multiples of: a divisor of a page, 1 at least.
    #[must_use]
    pub fn alignment(&self) -> Bytes {
        // A file that once was direct stays aligned: a read may be half-way through.
        self.direct.as_ref().map_or(Bytes(1), |(_, unit)| *unit)
    }

    /// Its length now.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn length(&self) -> Result<Bytes, Errno> {
        let fd = self.any().ok_or(Errno::BADF)?;
        Ok(Bytes(u64::try_from(rustix::fs::fstat(fd)?.st_size).unwrap_or(0)))
    }

    /// Whether a FUSE server answers its reads, in its own time and as short as it likes.
    pub(super) fn is_fuse(&self) -> bool {
        self.fuse
    }

    /// Whether there is nothing from here on, as far as this machine knows: no server is asked.
    pub(super) fn ends_by(&self, place: ByteOffset) -> bool {
        let Some(fd) = self.any() else { return true };
        let told = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH | DONT_SYNC, StatxFlags::SIZE);
        told.map_or(true, |told| told.stx_size <= place.get())
    }

    /// Some descriptor of it, for questions.
    #[must_use]
    pub fn any(&self) -> Option<BorrowedFd<'_>> {
        let direct = self.direct.as_ref().map(|(file, _)| file.as_fd());
        direct.or_else(|| self.buffered.get().map(|file| file.as_fd()))
    }

    /// The descriptor to be read in this way.
    pub(super) fn raw(&self, access: Access) -> Result<RawFd, Errno> {
        match (access, &self.direct) {
            (Access::Direct, Some((file, _))) => Ok(file.as_raw_fd()),
            _ => self.buffered().map(AsRawFd::as_raw_fd),
        }
    }

    /// A direct read was refused as such: no more of them.
    pub(super) fn refuse_direct(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Drops what was read from the page cache, where it went through that.
    pub(super) fn forget(&self, range: ByteSpan) {
        if self.access() == Access::Buffered
            && let Some(fd) = self.buffered.get().and_then(|file| HostFd::new(file.as_raw_fd()))
        {
            // Best effort: what the kernel keeps, it will reclaim by itself.
            let _ = dont_need(fd, range.pages());
        }
    }

    /// Reads by itself, waiting, up to the end of the file: for the last resort and for tests.
    ///
    /// # Errors
    /// What the kernel said.
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

/// In which unit a file takes direct reads; `None` where that is none that divides a page.
fn unit(file: BorrowedFd<'_>) -> Option<Bytes> {
    let wanted = StatxFlags::from_bits_retain(DIOALIGN);
    let told = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted).ok();
    let unit = match told.filter(|told| told.stx_mask & DIOALIGN != 0) {
        Some(told) => {
            let (memory, offset) = (told.stx_dio_mem_align, told.stx_dio_offset_align);
            (memory > 0 && PAGE_SIZE.is_multiple_of(memory.into())).then_some(Bytes(offset.into()))?
        }
        None => match try_page(file) {
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return None,
            // Another error is of that page, or of the moment, and not of direct I/O.
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
    // SAFETY: the buffer is as long as told and lives until the call returns.
    let got = unsafe { libc::pread(file.as_raw_fd(), page.0.as_mut_ptr().cast(), page.0.len(), 0) };
    if got < 0 { Err(last_error()) } else { Ok(()) }
}
