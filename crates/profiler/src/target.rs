//! A real device or file: opened for reading only, read past the page cache.
//!
//! It is opened with `O_RDONLY | O_DIRECT`: nothing can be written, and where the kernel allows it the time
//! of last access stays too. The measuring thread makes single reads itself; for concurrent reads there are
//! as many threads, which begin together. They are threads and not io_uring for three reasons: a blocked
//! thread wakes as soon as a ring's owner would, many containers forbid io_uring, and threads need no
//! `unsafe`. A lock keeps submissions in order: a thread holds it while it takes its number and the time.

use super::activity::Activity;
use super::probe::{Probe, Timed};
use crate::Error;
use foreseek_storage::{BackingDevice, DeviceNumber};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, PAGE_SIZE};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most concurrent reads: each has a thread and a buffer.
const AT_A_TIME_MOST: usize = 128;
/// How long use by other programs is watched for.
const WATCH: Duration = Duration::from_millis(500);
/// Requests in that time that the periodic work of an idle file system explains.
const OTHERS_AT_REST: u64 = 2;
/// The share of other programs' reads above which there is a warning.
const OTHERS_SHARE: f64 = 0.01;
/// What the kernel reads meanwhile for the device and its holders (partition tables, superblocks).
const OTHERS_BYTES: Bytes = Bytes::mib(1);
/// Pauses up to this long are spent spinning: a sleeping thread wakes some 60 us late.
const SPIN: Duration = Duration::from_micros(200);
/// The highest priority (nice value) that is not real-time.
const FIRST: i32 = -20;
/// The alignment of buffers for direct reads: every kernel and driver accepts it.
const ALIGNMENT: usize = PAGE_SIZE as usize;

/// A device or file that is open for measuring.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    file: File,
    /// Its length; that of a file need not be a multiple of a page.
    length: Bytes,
    block: Bytes,
    /// The disk below; for a file, the disk of its file system.
    disk: DeviceNumber,
    rotational: Option<bool>,
    started: std::time::Instant,
    before: Option<Activity>,
    read: Bytes,
    buffer: Buffer,
}

impl Target {
    /// Opens a block device, or a regular file without holes.
    ///
    /// # Errors
    /// It is neither of those; permission is denied; the file system has no direct I/O; the file has holes.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let refuse = |reason: String| Error::NotProfiled { path: path.to_owned(), reason };
        let failed = |errno: Errno| refuse(std::io::Error::from(errno).to_string());
        // Checked before it is opened: opening a pipe waits for its other end.
        let stat = rustix::fs::stat(path).map_err(failed)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if let Some(what) = not_measured(kind) {
            return Err(refuse(format!("it is {what}; give a block device or a large regular file")));
        }
        let file = open(path, refuse)?;
        let length = Bytes(rustix::fs::seek(&file, SeekFrom::End(0)).map_err(failed)?);
        let device = if kind == FileType::BlockDevice { stat.st_rdev } else { stat.st_dev };
        let backing = BackingDevice::of(DeviceNumber::from_raw(device));
        let block = if kind == FileType::BlockDevice {
            Bytes(u64::from(rustix::fs::ioctl_blksszget(&file).map_err(failed)?))
        } else {
            check_holes(&file, length).map_err(refuse)?;
            Bytes(PAGE_SIZE)
        };
        if block.is_zero() || !PAGE_SIZE.is_multiple_of(block.get()) {
            return Err(refuse(format!("its blocks of {block} do not divide a page")));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            length,
            block,
            disk: backing.disk,
            rotational: backing.rotational,
            started: std::time::Instant::now(),
            before: Activity::of(backing.disk),
            read: Bytes::ZERO,
            buffer: Buffer::default(),
        })
    }

    /// Refuses a device that is too small to be measured.
    ///
    /// # Errors
    /// [`Error::TooSmallToProfile`]
    pub fn check_size(&self) -> Result<(), Error> {
        super::large_enough(self.length)
    }

    /// Watches for half a second whether other programs use the device, and restarts the count of their use,
    /// for [`others`](Self::others).
    ///
    /// # Errors
    /// Another program does.
    pub fn check_idle(&mut self) -> Result<(), Error> {
        let Some(before) = Activity::of(self.disk) else { return Ok(()) };
        std::thread::sleep(WATCH);
        let Some(after) = Activity::of(self.disk) else { return Ok(()) };
        self.before = Some(after);
        self.read = Bytes::ZERO;
        let busy = after.since(before);
        if busy.reads + busy.writes <= OTHERS_AT_REST {
            return Ok(());
        }
        Err(Error::Busy {
            path: self.path.clone(),
            disk: self.disk,
            reads: busy.reads,
            writes: busy.writes,
            milliseconds: WATCH.as_millis() as u64,
        })
    }

    /// Gives the calling thread, and threads that it starts, the highest priority that is not real-time: on a
    /// busy machine, completions are noticed sooner then. Without the permission nothing changes.
    pub fn raise_priority() {
        // Best effort: without it the measurement is noisier on busy machines.
        let _ = rustix::process::setpriority_process(None, FIRST);
    }

    /// A warning about the device's use by other programs since it was opened or found idle; `None` where it
    /// was next to nothing, or there are no counters.
    #[must_use]
    pub fn others(&self) -> Option<String> {
        let done = Activity::of(self.disk)?.since(self.before?);
        let read = done.read.saturating_sub(self.read);
        let most = OTHERS_BYTES.max(self.read.scale(OTHERS_SHARE));
        (read > most || done.written > most).then(|| {
            format!(
                "other programs read {read} and wrote {} on the device meanwhile: measure again when it is idle",
                done.written
            )
        })
    }

    /// Whether the kernel reports it as rotational.
    #[must_use]
    pub fn rotational(&self) -> Option<bool> {
        self.rotational
    }

    /// One read, into a buffer.
    fn timed(&self, range: ByteSpan, buffer: &mut Buffer, issued: Instant) -> Result<Timed, Error> {
        let length = range.len().get() as usize;
        let failed = |cause| Error::Unreadable {
            path: self.path.clone(),
            offset: range.start,
            length: range.len(),
            cause,
        };
        let mut done = 0;
        while done < length {
            let space = &mut buffer.aligned(length)[done..];
            match rustix::io::pread(&self.file, space, range.start.get() + done as u64) {
                Ok(0) => return Err(failed(std::io::Error::other("it ends here: has it become shorter?"))),
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
        Ok(Timed { issued, finished: self.now() })
    }
}

impl Probe for Target {
    fn capacity(&self) -> Bytes {
        self.length.pages_floor().bytes()
    }

    fn block(&self) -> Bytes {
        self.block
    }

    fn now(&self) -> Instant {
        Instant(Nanos::from(self.started.elapsed()).get())
    }

    fn read(&mut self, range: ByteSpan) -> Result<Timed, Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.aligned(range.len().get() as usize);
        let timed = self.timed(range, &mut buffer, self.now());
        self.buffer = buffer;
        self.read += range.len();
        timed
    }

    fn read_all(&mut self, ranges: &[ByteSpan], depth: usize) -> Result<Vec<Timed>, Error> {
        let threads = depth.min(ranges.len()).min(AT_A_TIME_MOST);
        if threads <= 1 {
            return ranges.iter().map(|range| self.read(*range)).collect();
        }
        self.read += ranges.iter().map(|range| range.len()).sum();
        let longest = ranges.iter().map(|range| range.len().get() as usize).max().unwrap_or(0);
        let next = Mutex::new(0);
        let target = &*self;
        let worker = || {
            let mut buffer = Buffer::default();
            buffer.aligned(longest);
            let mut done = Vec::new();
            loop {
                let (index, issued) = {
                    let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                    *next += 1;
                    (*next - 1, target.now())
                };
                let Some(range) = ranges.get(index) else { return Ok(done) };
                done.push((index, target.timed(*range, &mut buffer, issued)?));
            }
        };
        let results: Vec<Result<Vec<(usize, Timed)>, Error>> = std::thread::scope(|scope| {
            // No thread begins before all exist. If the system has no more threads, those that exist do all
            // reads; without any, this thread does.
            let hold = next.lock().unwrap_or_else(PoisonError::into_inner);
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, worker).ok();
            let workers: Vec<_> = (0..threads).map_while(spawn).collect();
            drop(hold);
            if workers.is_empty() {
                return vec![worker()];
            }
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        let mut done = Vec::with_capacity(ranges.len());
        for result in results {
            done.extend(result?);
        }
        done.sort_unstable_by_key(|(index, _)| *index);
        Ok(done.into_iter().map(|(_, timed)| timed).collect())
    }

    fn pause(&mut self, time: Nanos) {
        let (from, time) = (std::time::Instant::now(), Duration::from(time));
        if time > SPIN {
            std::thread::sleep(time);
        }
        while from.elapsed() < time {
            std::hint::spin_loop();
        }
    }
}

/// The name of a kind that is neither file nor block device.
fn not_measured(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile | FileType::BlockDevice => None,
        FileType::Directory => Some("a directory"),
        FileType::CharacterDevice => Some("a character device"),
        FileType::Fifo => Some("a pipe, where there is no seeking"),
        FileType::Socket => Some("a socket, where there is no seeking"),
        _ => Some("no file"),
    }
}

/// Opens for reading, past the page cache, and without a new time of last access where that is allowed.
fn open(path: &Path, refuse: impl Fn(String) -> Error) -> Result<File, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    };
    opened.map(File::from).map_err(|errno| match errno {
        Errno::ACCESS | Errno::PERM if rustix::process::geteuid().is_root() => refuse(
            "permission denied even to root: the container or a security policy forbids it".to_owned(),
        ),
        Errno::ACCESS | Errno::PERM => {
            refuse("permission denied: be root, or of the group that may read it ('disk' for disks)".to_owned())
        }
        Errno::INVAL | Errno::OPNOTSUPP => refuse(
            "its file system has no direct I/O, which is needed to measure what is below the page cache: give \
             the block device, or a file on another file system"
                .to_owned(),
        ),
        other => refuse(std::io::Error::from(other).to_string()),
    })
}

/// Refuses holes: reading them reads no disk.
fn check_holes(file: &File, length: Bytes) -> Result<(), String> {
    // A file system without holes returns the end of the file, or an error.
    match rustix::fs::seek(file, SeekFrom::Hole(0)) {
        Ok(hole) if hole < length.get() => Err(format!(
            "it has a hole at offset {hole}, and reading that reads no disk: fill the file with data first"
        )),
        _ => Ok(()),
    }
}

/// Memory that begins at a multiple of [`ALIGNMENT`].
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    /// The first `length` aligned bytes; grows as needed.
    fn aligned(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length + ALIGNMENT {
            self.bytes = vec![0; length + ALIGNMENT];
        }
        let from = self.bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        &mut self.bytes[from..from + length]
    }
}
