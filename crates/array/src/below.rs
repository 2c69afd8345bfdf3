//! The device below: opened for this server alone, with direct I/O.

use crate::found::{self, Found};
use crate::volume::{self, Location};
use crate::{Error, state};
use foreseek_export::Failure;
use foreseek_server::{Context, Users};
use foreseek_storage::loop_device::{DEFAULT_READ_AHEAD, LoopDevice};
use foreseek_storage::reads::{ReadFile, ReadMode};
use foreseek_units::{ByteSpan, Bytes, Lba, Level, PAGE_SIZE, SECTOR_SIZE};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, fdatasync, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a device that is in use is waited for. If its last server used io_uring, the kernel lets go of the device a
/// moment after that server has ended.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);
/// How often it is tried.
const POLL: Duration = Duration::from_millis(10);

/// See the module's documentation.
pub(crate) struct Below {
    path: PathBuf,
    file: File,
    reads: Arc<ReadFile>,
    length: Bytes,
    /// Its location on its array; `None` for a file.
    location: Option<Location>,
}

/// Opens a device or a file for this process alone.
fn open_alone(path: &Path, is_block_device: bool) -> Result<File, Error> {
    let begun = Instant::now();
    loop {
        match try_open_alone(path, is_block_device)? {
            Some(file) => return Ok(file),
            None if begun.elapsed() < RELEASE_LIMIT => std::thread::sleep(POLL),
            None if is_block_device => return Err(busy(path)),
            None => return Err(refused(path, "another process has it locked: detach it there first")),
        }
    }
}

/// `None` if another process has it.
fn try_open_alone(path: &Path, is_block_device: bool) -> Result<Option<File>, Error> {
    let exclusive = if is_block_device { libc::O_EXCL } else { 0 };
    let flags = libc::O_CLOEXEC | libc::O_DIRECT | exclusive;
    let file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Err(no_direct(path)),
        Err(error) => Err(error).context("open", path)?,
    };
    let is_alone = is_block_device || flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    Ok(is_alone.then_some(file))
}

impl Below {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let kind = fs::metadata(path).context("look at", path)?.file_type();
        if !kind.is_block_device() && !kind.is_file() {
            return Err(refused(path, "it is neither a block device nor a file"));
        }
        let path = &fs::canonicalize(path).context("look at", path)?;
        // A file system on its device may still be mounted, and relies on being the only user of the device
        // below.
        if let Some((array, true)) = state::over(path) {
            return Err(Error::Dead(array));
        }
        let location = kind.is_block_device().then(|| location_of(path)).transpose()?;
        let mut file = open_alone(path, kind.is_block_device())?;
        if kind.is_file()
            && let Some(device) = LoopDevice::find(|device| device.file().as_deref() == Some(path)).first()
        {
            let device = device.path();
            return Err(refused(
                path,
                &format!("{0} lies over it: free that by 'losetup -d {0}'", device.display()),
            ));
        }
        let length = Bytes(file.seek(SeekFrom::End(0)).context("look at", path)?);
        let reads = Arc::new(ReadFile::reopen(file.as_fd()).map_err(io::Error::from).context("open", path)?);
        if reads.mode() != ReadMode::Direct {
            return Err(no_direct(path));
        }
        let block = block_of(&reads);
        if block > Bytes(PAGE_SIZE) {
            return Err(refused(path, &format!("its blocks have {block}: at most 4 KiB are served")));
        }
        if length.is_zero() || !length.get().is_multiple_of(block.get()) {
            let why = format!("it holds {} bytes: it must be whole blocks of {block}", length.get());
            return Err(refused(path, &why));
        }
        Ok(Self { path: path.to_owned(), file, reads, length, location })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn length(&self) -> Bytes {
        self.length
    }

    /// Its logical block: reads and writes begin and end at multiples of it.
    pub(crate) fn block(&self) -> Bytes {
        block_of(&self.reads)
    }

    /// The kernel's read-ahead for files on its array.
    pub(crate) fn read_ahead(&self) -> Bytes {
        let kib = self.array().and_then(|array| found::number(&array.join("queue"), "read_ahead_kb"));
        kib.map_or(DEFAULT_READ_AHEAD, Bytes::kib)
    }

    /// Its start on its array: not zero for a partition or a volume that begins later.
    pub(crate) fn origin(&self) -> Lba {
        self.location.as_ref().map_or(Lba::ZERO, |location| location.origin)
    }

    /// The warning about a physical volume of LVM on it: LVM may take this device instead of the array, and
    /// the cache sees nothing of what it writes here.
    pub(crate) fn lvm_warning(&self) -> Option<String> {
        let mut begin = Page([0; PAGE_SIZE as usize]);
        self.file.read_exact_at(&mut begin.0, 0).ok()?;
        let path = self.path.display();
        is_physical_volume(&begin.0).then(|| {
            format!(
                "LVM sees the physical volume on {path} twice: unless lvm.conf does so already, add \
                 'devices {{ filter = [ \"r|^{path}$|\" ] }}' to it"
            )
        })
    }

    /// Its current length.
    pub(crate) fn length_now(&self) -> io::Result<Bytes> {
        (&self.file).seek(SeekFrom::End(0)).map(Bytes)
    }

    /// Its array's shape by the kernel; `given` is the level that the user gave.
    pub(crate) fn geometry(&self, given: Option<Level>) -> Result<Found, Error> {
        self.shape(given).map_err(|why| refused(&self.path, &why))
    }

    /// The same; the error is the reason.
    pub(crate) fn shape(&self, given: Option<Level>) -> Result<Found, String> {
        let Some(location) = &self.location else {
            return Err("a file has no strips: give --strip, --members and --level, or --profile".to_owned());
        };
        match location.striped {
            Some(shape) if given.is_none_or(|given| given == shape.level) => Ok(shape),
            Some(_) => Err("device-mapper reports it as striped: leave --level out".to_owned()),
            None => found::geometry(&location.array, given),
        }
    }

    /// Its array's directory in sysfs.
    pub(crate) fn array(&self) -> Option<&Path> {
        self.location.as_ref().map(|location| &*location.array)
    }

    pub(crate) fn reads(&self) -> Arc<ReadFile> {
        Arc::clone(&self.reads)
    }

    fn write(&self, range: ByteSpan, data: &[u8]) -> Result<(), Failure> {
        self.file.write_all_at(data, range.start.get()).map_err(|error| self.failure("write", &error))
    }

    /// Makes writes that lie directly behind one another as one. If that fails, each is made by itself and has a
    /// result of its own.
    pub(crate) fn write_joined<'a>(
        &self,
        writes: impl Iterator<Item = (ByteSpan, &'a [u8])> + Clone,
    ) -> Vec<Result<(), Failure>> {
        let slices: Vec<IoSlice<'_>> = writes.clone().map(|(_, data)| IoSlice::new(data)).collect();
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let start = writes.clone().next().map_or(0, |(range, _)| range.start.get());
        if slices.len() > 1 && rustix::io::pwritev(&self.file, &slices, start) == Ok(length) {
            return vec![Ok(()); slices.len()];
        }
        writes.map(|(range, data)| self.write(range, data)).collect()
    }

    /// Discards these bytes: they read as zero.
    pub(crate) fn discard(&self, range: ByteSpan) -> Result<(), Failure> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let done = fallocate(&self.file, flags, range.start.get(), range.len().get());
        done.map_err(|error| self.failure("discard", &error.into()))
    }

    pub(crate) fn flush(&self) -> Result<(), Failure> {
        fdatasync(&self.file).map_err(|error| self.failure("flush", &error.into()))
    }

    fn failure(&self, operation: &str, error: &io::Error) -> Failure {
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => return Failure::Unsupported,
            Some(libc::ENOSPC | libc::EDQUOT) => return Failure::NoSpace,
            _ => {}
        }
        tracing::error!("cannot {operation} {}: {error}", self.path.display());
        Failure::Io
    }
}

/// Memory for direct I/O.
#[repr(align(4096))]
struct Page([u8; PAGE_SIZE as usize]);

/// Whether LVM's label is in one of the first four sectors, as in `label_header` of LVM2's `lib/label/label.h`.
fn is_physical_volume(begin: &[u8]) -> bool {
    let mut sectors = begin.chunks_exact(SECTOR_SIZE as usize).take(4);
    sectors.any(|sector| sector.starts_with(b"LABELONE") && sector[24..].starts_with(b"LVM2 001"))
}

fn block_of(reads: &ReadFile) -> Bytes {
    reads.alignment().max(Bytes(SECTOR_SIZE))
}

/// The location of a block device on its array.
fn location_of(path: &Path) -> Result<Location, Error> {
    let sysfs = Path::new("/sys/class/block").join(path.file_name().unwrap_or_default());
    let sysfs = fs::canonicalize(&sysfs).context("look at", &sysfs)?;
    volume::locate(&sysfs, &volume::Machine).map_err(|why| refused(path, &why))
}

fn busy(path: &Path) -> Error {
    if let Some((array, _)) = state::over(path) {
        let remedy = "detach that first, or use the device that it has made";
        return Error::Busy { device: path.to_owned(), users: Users::array(&array), remedy };
    }
    let users = Users::of(path, Some(std::process::id())).describe();
    let users =
        if users.is_empty() { "the kernel or another program has it for itself".to_owned() } else { users };
    Error::Busy { device: path.to_owned(), users, remedy: "unmount it or end that first" }
}

fn no_direct(path: &Path) -> Error {
    refused(path, "it does no direct I/O: put it on another file system")
}

fn refused(path: &Path, why: &str) -> Error {
    Error::Refused(format!("cannot attach {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_of_lvm_is_found_in_the_first_four_sectors_alone() {
        for (sector, kind, is_it) in [
            (0, "LVM2 001", true),
            (1, "LVM2 001", true),
            (3, "LVM2 001", true),
            (4, "LVM2 001", false),
            (1, "LVM1 001", false),
        ] {
            let mut begin = [0; PAGE_SIZE as usize];
            let label = &mut begin[sector * SECTOR_SIZE as usize..];
            label[..8].copy_from_slice(b"LABELONE");
            label[24..32].copy_from_slice(kind.as_bytes());
            assert_eq!(is_physical_volume(&begin), is_it, "{kind} in sector {sector}");
        }
        assert!(!is_physical_volume(&[]));
    }
}
