//! Load beside a program: a second program of the same kind, or a reader of another file on the same disk.

use crate::{Error, Result};
use foreseek_rig::DirectReader;
use foreseek_units::{ByteOffset, Bytes};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The command runs two programs and writes the time at which each has ended: `this` and `other`, in its
    /// output folder.
    Program,
    /// A reader of single blocks of a file that lies beside the trees, by direct I/O.
    Reader,
}

/// How large the reader's file is: far more than a drive's own cache.
const FILE: Bytes = Bytes::mib(256);
/// The size of a read.
const BLOCK: Bytes = Bytes::kib(4);
/// The pause between two reads: an interactive program, and little load.
const THINK: Duration = Duration::from_millis(50);

/// A reader at work; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Reader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Duration>>>>,
}

/// The path of the reader's file on a disk.
pub(crate) fn file_on(disk: &Path) -> PathBuf {
    disk.join("reader")
}

/// Writes the reader's file.
pub(crate) fn write_file(path: &Path) -> Result<()> {
    let cannot = |error| Error::io("cannot write", path.display(), error);
    let mut file = File::create(path).map_err(cannot)?;
    let block = vec![b'r'; Bytes::mib(1).get() as usize];
    (0..FILE.get() / Bytes::mib(1).get()).try_for_each(|_| file.write_all(&block)).map_err(cannot)?;
    file.sync_all().map_err(cannot)
}

impl Reader {
    /// Begins to read, at offsets drawn from a seed.
    pub(crate) fn start(path: &Path, seed: u64) -> Result<Self> {
        let (stop, path) = (Arc::new(AtomicBool::new(false)), path.to_owned());
        let stopped = stop.clone();
        let work = move || {
            let mut file = DirectReader::open(&path, BLOCK)?;
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut took = Vec::new();
            loop {
                let block = random.random_range(0..FILE.get() / BLOCK.get());
                let begun = Instant::now();
                file.read(ByteOffset(block * BLOCK.get()), BLOCK)?;
                took.push(begun.elapsed());
                std::thread::sleep(THINK);
                // After a read: without any there would be no time to report.
                if stopped.load(Ordering::Acquire) {
                    return Ok(took);
                }
            }
        };
        let thread = std::thread::Builder::new().name("reader".to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::io("cannot start", "a reader", error))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends it; returns the mean time of a read, in seconds.
    pub(crate) fn end(mut self) -> Result<f64> {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        let took = ended.transpose().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let took = took.transpose()?.unwrap_or_default();
        let reads = took.len().max(1) as f64;
        Ok(took.iter().sum::<Duration>().as_secs_f64() / reads)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Its result is not needed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// When each of two programs had ended after a start, in seconds: this one, the other one.
pub(crate) fn ends(scratch: &Path, start: SystemTime) -> Result<(f64, f64)> {
    let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let end = |name: &str| -> Result<f64> {
        let path = scratch.join(name);
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| Error::io("cannot read", path.display(), error))?;
        let end: f64 = text.trim().parse().map_err(|_| Error::Option {
            what: format!("{} holds '{}' and no time", path.display(), text.trim()),
        })?;
        Ok(end - start)
    };
    Ok((end("this")?, end("other")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_from_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        fs::write(folder.path().join("this"), "1002.5\n").expect("written");
        assert!(ends(folder.path(), start).is_err(), "the other one is missing");
        fs::write(folder.path().join("other"), "1004.25\n").expect("written");
        assert_eq!(ends(folder.path(), start).expect("both"), (2.5, 4.25));
        fs::write(folder.path().join("other"), "soon").expect("written");
        let error = ends(folder.path(), start).expect_err("no time").to_string();
        assert!(error.contains("'soon'") && error.contains("other"), "{error}");
    }

    #[test]
    fn a_reader_reads_until_it_is_ended() {
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        let path = file_on(folder.path());
        write_file(&path).expect("written");
        let reader = Reader::start(&path, 1).expect("it starts");
        std::thread::sleep(THINK * 3);
        assert!(reader.end().expect("it reads") > 0.0);
    }
}
