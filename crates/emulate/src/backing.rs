//! The file that holds a disk's data.

use crate::{AttachOptions, Backing, Error};
use foreseek_export::Failure;
use foreseek_server::{CallError, Context, ignore_missing};
use foreseek_units::{ByteSpan, Bytes, PAGE_SIZE};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, fdatasync, flock, fstatvfs};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The directory of temporary files by default: `/tmp` is often in memory.
const SPARSE_DIRECTORY: &str = "/var/tmp";
/// The kernel's largest file offset is below 2^63.
const SIZE_MOST: Bytes = Bytes::gib(1 << 30);

/// An open backing file, locked against other disks. A temporary file is removed when this is dropped, as is
/// a file that was made for a disk whose attachment failed.
#[derive(Debug)]
pub(crate) struct BackingFile {
    file: File,
    path: PathBuf,
    size: Bytes,
    temporary: bool,
    remove_on_drop: AtomicBool,
    direct: bool,
}

impl BackingFile {
    /// Opens or creates the file that the options name.
    pub(crate) fn open(options: &AttachOptions, name: &str) -> Result<Self, Error> {
        let (path, temporary) = match &options.backing {
            Backing::File(path) => (path.clone(), false),
            Backing::Sparse { directory } => {
                let directory = directory.as_deref().unwrap_or(Path::new(SPARSE_DIRECTORY));
                (directory.join(format!("foreseek-{name}-{}.disk", std::process::id())), true)
            }
        };
        let found = match fs::metadata(&path) {
            Ok(found) if !found.is_file() => {
                return Err(invalid("--backing", &path.display(), "it is not a regular file"));
            }
            Ok(_) if temporary => return Err(invalid("--dir", &path.display(), "the file exists")),
            Ok(found) => Some(Bytes(found.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Err(error).context("look at", &path)?,
        };
        let size = decide_size(options.size, found, &path)?;
        let file =
            open_file(&path, found.is_none(), false).map_err(|error| cannot_open(options, &path, error))?;
        let mut backing = Self {
            file,
            path,
            size,
            temporary,
            remove_on_drop: AtomicBool::new(temporary || found.is_none()),
            direct: false,
        };
        let taken = flock(&backing.file, FlockOperation::NonBlockingLockExclusive);
        if taken.is_err() {
            backing.remove_on_drop.store(false, Ordering::Relaxed);
            return Err(invalid("--backing", &backing.path.display(), "another process has it locked"));
        }
        if !options.thin {
            backing.check_space()?;
        }
        if found.is_none_or(|found| found < size) {
            backing.file.set_len(size.get()).context("extend", &backing.path)?;
        }
        backing.go_direct();
        Ok(backing)
    }

    /// Keeps the file, unless it is temporary.
    pub(crate) fn keep(&self) {
        self.remove_on_drop.store(self.temporary, Ordering::Relaxed);
    }

    pub(crate) fn size(&self) -> Bytes {
        self.size
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// A warning where the file system has no direct I/O.
    pub(crate) fn warning(&self) -> Option<String> {
        (!self.direct).then(|| {
            format!(
                "the file system of {} refuses direct I/O in sectors: data are cached twice",
                self.path.display()
            )
        })
    }

    /// Reads these bytes, all of them.
    pub(crate) fn read(&self, range: ByteSpan, into: &mut [u8]) -> Result<(), Failure> {
        // If another process has shortened the file, the read ends early: that is an I/O error, not zeros.
        self.file.read_exact_at(into, range.start.get()).map_err(|error| self.failure("read", range, &error))
    }

    /// Writes these bytes, all of them.
    pub(crate) fn write(&self, range: ByteSpan, data: &[u8]) -> Result<(), Failure> {
        self.file.write_all_at(data, range.start.get()).map_err(|error| self.failure("write", range, &error))
    }

    /// Makes everything written durable.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        fdatasync(&self.file).map_err(|error| {
            tracing::error!("cannot flush {}: {error}", self.path.display());
            failure_of(error.into())
        })
    }

    /// Frees the space of these bytes: they read as zero.
    pub(crate) fn discard(&self, range: ByteSpan) -> Result<(), Failure> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, flags, range.start.get(), range.len().get()).map_err(|error| {
            if error == rustix::io::Errno::OPNOTSUPP {
                return Failure::Unsupported;
            }
            self.failure("discard", range, &error.into())
        })
    }

    fn failure(&self, operation: &str, range: ByteSpan, error: &io::Error) -> Failure {
        let at = range.start.get();
        tracing::error!(
            "cannot {operation} {} at byte {at} of {}: {error}",
            range.len(),
            self.path.display()
        );
        failure_of(io::Error::from(error.kind()))
    }

    fn check_space(&self) -> Result<(), Error> {
        let status = fstatvfs(&self.file).context("look at the file system of", &self.path)?;
        let held = Bytes(self.file.metadata().context("look at", &self.path)?.blocks() * 512);
        let (needed, free) = (self.size - held, Bytes(status.f_bavail * status.f_frsize));
        if needed > free {
            return Err(Error::NoSpace { path: self.path.clone(), needed, free });
        }
        Ok(())
    }

    /// Switches to direct I/O where the file system does it in units of a sector.
    fn go_direct(&mut self) {
        #[repr(align(4096))]
        struct Aligned([u8; 512]);
        let Ok(direct) = open_file(&self.path, false, true) else { return };
        let mut sector = Aligned([0; 512]);
        if self.size.is_zero() || direct.read_exact_at(&mut sector.0, 0).is_ok() {
            // The lock belongs to the first descriptor: the second is locked before the first is closed.
            let same = |a: &File, b: &File| Some(a.metadata().ok()?.ino() == b.metadata().ok()?.ino());
            if same(&direct, &self.file) == Some(true) {
                let _ = flock(&self.file, FlockOperation::Unlock);
                if flock(&direct, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    self.file = direct;
                    self.direct = true;
                }
            }
        }
    }
}

impl Drop for BackingFile {
    fn drop(&mut self) {
        if *self.remove_on_drop.get_mut()
            && let Err(error) = ignore_missing(fs::remove_file(&self.path))
        {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn open_file(path: &Path, make: bool, direct: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(make)
        .mode(0o600)
        .custom_flags(libc::O_CLOEXEC | if direct { libc::O_DIRECT } else { 0 })
        .open(path)
}

/// The error of opening the file, which names the option that names the place.
fn cannot_open(options: &AttachOptions, path: &Path, error: io::Error) -> Error {
    match &options.backing {
        Backing::Sparse { directory: Some(directory) } => {
            let reason = format!(
                "the disk's file cannot be made there: {error}; give a directory that exists and can be written"
            );
            invalid("--dir", &directory.display(), &reason)
        }
        Backing::File(path) => {
            invalid("--backing", &path.display(), &format!("it cannot be opened: {error}"))
        }
        Backing::Sparse { directory: None } => {
            CallError { operation: "open", object: path.display().to_string(), cause: error }.into()
        }
    }
}

/// The given size, or that of the file.
fn decide_size(given: Option<Bytes>, found: Option<Bytes>, path: &Path) -> Result<Bytes, Error> {
    let size = match (given, found) {
        (Some(given), Some(found)) if !found.is_zero() && found != given => {
            check_size(given)?;
            let file = path.display();
            let other = if found > given {
                "name another file".to_owned()
            } else {
                // A typing error must not make the user's file grow.
                format!("let the file grow by 'truncate -s {} {file}'", given.get())
            };
            let reason = format!("{file} holds {}: leave --size out, or {other}", exactly(found));
            return Err(invalid("--size", &exactly(given), &reason));
        }
        (Some(given), _) => {
            check_size(given)?;
            given
        }
        (None, Some(found)) if found.is_zero() => {
            return Err(invalid(
                "--backing",
                &path.display(),
                "the file is empty: give a --size, such as 8G",
            ));
        }
        (None, Some(found)) => {
            if !is_size(found) {
                let reason = format!(
                    "the file holds {}, no multiple of 4 KiB up to {SIZE_MOST}: make it one by \
                     'truncate -s %4096 FILE', or name another",
                    exactly(found)
                );
                return Err(invalid("--backing", &path.display(), &reason));
            }
            found
        }
        (None, None) => return Err(invalid("--size", &"is not given", "a new disk needs one, such as 8G")),
    };
    Ok(size)
}

fn check_size(size: Bytes) -> Result<(), Error> {
    if is_size(size) {
        return Ok(());
    }
    let reason = format!("give a multiple of 4 KiB from 4 KiB to {SIZE_MOST}");
    Err(invalid("--size", &exactly(size), &reason))
}

fn is_size(size: Bytes) -> bool {
    !size.is_zero() && size <= SIZE_MOST && (size % Bytes(PAGE_SIZE)).is_zero()
}

/// A size to the byte: in binary units only where they divide it.
fn exactly(size: Bytes) -> String {
    let shown = size.to_string();
    if shown.contains('.') { format!("{} bytes", size.get()) } else { shown }
}

fn invalid(option: &'static str, value: &impl ToString, reason: &str) -> Error {
    Error::Invalid { option, value: value.to_string(), reason: reason.to_owned() }
}

fn failure_of(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure::NoSpace,
        _ => Failure::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::ByteOffset;

    fn options(path: &Path, size: Option<Bytes>) -> AttachOptions {
        AttachOptions {
            size,
            backing: Backing::File(path.to_owned()),
            ..AttachOptions::new("none", Bytes::ZERO)
        }
    }

    #[repr(align(4096))]
    struct Page([u8; 4096]);

    #[test]
    fn what_is_written_is_read_and_a_hole_reads_as_zero() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk");
        let backing = BackingFile::open(&options(&path, Some(Bytes::mib(1))), "t").expect("opens");
        backing.keep();
        let range = ByteSpan::at(ByteOffset(8192), Bytes(4096));
        let mut page = Page([7; 4096]);
        backing.write(range, &page.0).expect("writes");
        backing.flush().expect("flushes");
        page.0.fill(0);
        backing.read(range, &mut page.0).expect("reads");
        assert!(page.0.iter().all(|byte| *byte == 7));
        if backing.discard(range).is_ok() {
            backing.read(range, &mut page.0).expect("reads");
            assert!(page.0.iter().all(|byte| *byte == 0));
        }
        drop(backing);
        assert_eq!(fs::metadata(&path).expect("it is kept").len(), 1 << 20);
    }

    #[test]
    fn a_file_that_shrinks_gives_an_error_not_zeros() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk");
        let backing = BackingFile::open(&options(&path, Some(Bytes::mib(1))), "t").expect("opens");
        File::options().write(true).open(&path).and_then(|file| file.set_len(4096)).expect("cut");
        let mut page = Page([0; 4096]);
        let range = ByteSpan::at(ByteOffset(8192), Bytes(4096));
        assert_eq!(backing.read(range, &mut page.0), Err(Failure::Io));
    }

    #[test]
    fn a_disk_that_could_not_be_attached_leaves_no_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk");
        drop(BackingFile::open(&options(&path, Some(Bytes::mib(1))), "t").expect("opens"));
        assert!(!path.exists());
        fs::write(&path, vec![1; 8192]).expect("a file of the user's");
        drop(BackingFile::open(&options(&path, None), "t").expect("opens"));
        assert_eq!(fs::read(&path).expect("it stays"), vec![1; 8192]);
    }

    #[test]
    fn bad_files_and_sizes_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk");
        let refused = |path: &Path, size: Option<u64>| {
            let error = BackingFile::open(&options(path, size.map(Bytes)), "t").expect_err("refused");
            error.to_string()
        };
        assert!(refused(&path, None).contains("--size"));
        for size in [0, 1, 4095, 4097, u64::MAX - 4095] {
            assert!(refused(&path, Some(size)).contains("multiple of 4 KiB"), "{size}");
        }
        assert!(refused(directory.path(), Some(4096)).contains("not a regular file"));
        assert!(refused(&path.join("below"), Some(4096)).contains("cannot"));
        assert!(refused(&path, Some(1 << 59)).contains("no space"));
        assert!(!path.exists(), "nothing is left behind");
        fs::write(&path, vec![1; 8192]).expect("a file");
        assert!(refused(&path, Some(4096)).contains("holds 8 KiB"));
        let grown = refused(&path, Some(12288));
        assert!(grown.contains("truncate -s 12288") && grown.contains("holds 8 KiB"), "{grown}");
        assert_eq!(fs::read(&path).expect("as it was"), vec![1; 8192]);
        assert!(refused(&path, Some(1_048_577)).starts_with("--size 1048577 bytes: "));
        let odd = directory.path().join("odd");
        for (length, word) in [(0, "is empty"), (8193, "8193 bytes")] {
            fs::write(&odd, vec![1; length]).expect("a file");
            let why = refused(&odd, None);
            assert!(
                why.starts_with(&format!("--backing {}: ", odd.display())) && why.contains(word),
                "{why}"
            );
        }
        fs::write(&odd, []).expect("an empty file");
        let filled =
            BackingFile::open(&options(&odd, Some(Bytes(8192))), "t").expect("an empty file may grow");
        assert_eq!(filled.size(), Bytes(8192));
        let held = BackingFile::open(&options(&path, None), "t").expect("opens");
        assert!(refused(&path, None).contains("locked"));
        drop(held);
        assert!(path.exists());
    }
}
