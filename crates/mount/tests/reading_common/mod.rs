//! A reader over files of a temporary directory, with faults and memory pressure on request.
#![allow(dead_code, reason = "each test binary uses a part")]

use foreseek_mount::{
    Answer, Change, Memory, OpenedFile, ReadPath, ReadRequest, Reader, ReaderOptions, Version,
};
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_storage::reads::{self, DiskReader, Ended, Sink};
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const PAGE: usize = 4096;
/// Longest wait; nothing takes a tenth of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Bytes that differ from offset to offset and from file to file.
pub(crate) fn contents(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|at| (at / 4096 * 37 + at % 249 + seed * 101) as u8).collect()
}

/// See the module's documentation.
pub(crate) struct Lab {
    pub(crate) reader: Reader,
    pub(crate) directory: tempfile::TempDir,
    /// Held while a file changes and its version is reported.
    changing: Mutex<()>,
}

/// A file of the lab.
pub(crate) struct LabFile {
    pub(crate) object: ObjectId,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
}

impl Lab {
    /// A reader over a real file system.
    pub(crate) fn new(policy: &str, memory: Bytes) -> Self {
        Self::over(policy, memory, None, None)
    }

    /// The same with faults below, and with memory pressure on request.
    pub(crate) fn over(policy: &str, memory: Bytes, faults: Option<Faults>, scarce: Option<Scarce>) -> Self {
        Self::with(&ReaderOptions::new(policy, memory), "/var/tmp", faults, scarce)
    }

    /// The same with these options, and its files in this directory.
    pub(crate) fn with(
        options: &ReaderOptions,
        place: &str,
        faults: Option<Faults>,
        scarce: Option<Scarce>,
    ) -> Self {
        let start = move |sink: Sink| match &faults {
            Some(faults) => faults.clone().over(sink),
            None => reads::start(sink),
        };
        let memory = Box::new(scarce.unwrap_or_default());
        let reader = Reader::start_with(options, &start, memory).expect("a reader");
        let directory = tempfile::tempdir_in(place).expect("a writable directory");
        Self { reader, directory, changing: Mutex::new(()) }
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> LabFile {
        let path = self.directory.path().join(name);
        std::fs::write(&path, bytes).expect("room");
        let file = File::options().read(true).write(true).open(&path).expect("just made");
        file.sync_all().expect("written");
        let object = ObjectId(file.metadata().expect("open").ino());
        LabFile { object, path, file: Arc::new(file) }
    }

    fn version(file: &LabFile) -> Version {
        Version::of(&rustix::fs::fstat(&*file.file).expect("open"))
    }

    pub(crate) fn open(&self, file: &LabFile) -> StreamId {
        self.open_as(file, false)
    }

    /// Opens a file for reading, and for writing or not.
    pub(crate) fn open_as(&self, file: &LabFile, writes: bool) -> StreamId {
        let _whole = self.changing.lock().expect("no panic");
        let (version, pid) =
            (Self::version(file), ProcessId(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        let object = file.object;
        self.reader.opened(OpenedFile { object, version, file: Arc::clone(&file.file), pid, writes })
    }

    pub(crate) fn read(&self, stream: StreamId, at: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let (to, from) = channel();
        let answer = Answer::call(move |answer| drop(to.send(answer.map(<[u8]>::to_vec))));
        let range = ByteSpan::at(ByteOffset(at), Bytes(length));
        let pid = ProcessId(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        self.reader.read(ReadRequest { stream, range, pid, call: None }, answer);
        from.recv_timeout(LIMIT).expect("an answer in time")
    }

    /// Reads in pieces of this length until the end of the file.
    pub(crate) fn read_all(&self, stream: StreamId, length: u64) -> Vec<u8> {
        let mut read = Vec::new();
        loop {
            let part = self.read(stream, read.len() as u64, length).expect("it is there");
            if part.is_empty() {
                return read;
            }
            read.extend(part);
        }
    }

    /// Reads at random offsets, and a little sequentially from each; compares with the contents of the file.
    pub(crate) fn wander(&self, file: &LabFile, bytes: &[u8], random: Random) {
        self.wander_over(self.open(file), bytes, random);
    }

    /// The same in a stream, which it closes.
    pub(crate) fn wander_over(&self, stream: StreamId, bytes: &[u8], mut random: Random) {
        for _ in 0..60 {
            let mut at = random.below(bytes.len() as u64);
            let length = 1 + random.below(200_000);
            for _ in 0..=random.below(6) {
                let end = (at + length).min(bytes.len() as u64);
                let part = self.read(stream, at, length).expect("it is there");
                assert!(part == bytes[at as usize..end as usize], "{length} at {at}");
                at = end;
                if at == bytes.len() as u64 {
                    break;
                }
            }
        }
        self.reader.closed(stream);
    }

    /// Writes as the file system above does: into the file, then the report to the reader, then the
    /// acknowledgement.
    pub(crate) fn write(&self, file: &LabFile, at: u64, bytes: &[u8]) {
        let _whole = self.changing.lock().expect("no panic");
        file.file.write_all_at(bytes, at).expect("room");
        let range = Some(ByteSpan::at(ByteOffset(at), Bytes(bytes.len() as u64)));
        self.reader.changed(Change { object: file.object, range, version: Self::version(file) });
    }

    /// Sets the length of a file.
    pub(crate) fn cut(&self, file: &LabFile, length: u64) {
        let _whole = self.changing.lock().expect("no panic");
        let before = file.file.metadata().expect("open").len();
        file.file.set_len(length).expect("room");
        let range = ByteSpan::new(ByteOffset(before.min(length)), ByteOffset(before.max(length)));
        let version = Self::version(file);
        self.reader.changed(Change { object: file.object, range: Some(range), version });
    }
}

/// Memory that is scarce when a test sets it.
#[derive(Clone, Default)]
pub(crate) struct Scarce(Arc<AtomicBool>);

impl Scarce {
    pub(crate) fn set(&self, scarce: bool) {
        self.0.store(scarce, Relaxed);
    }
}

impl Memory for Scarce {
    fn wait(&mut self, _: Duration) -> bool {
        // Time passes more quickly in a test.
        std::thread::sleep(Duration::from_millis(10));
        self.0.load(Relaxed)
    }

    fn available(&mut self) -> Bytes {
        if self.0.load(Relaxed) { Bytes::mib(32) } else { Bytes::gib(64) }
    }
}

/// Faults of the medium below real reads: bytes that cannot be read.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    bad: Arc<Mutex<Vec<Range<usize>>>>,
    /// How much longer each read takes.
    delay: Duration,
}

impl Faults {
    /// A disk on which each read takes so much longer.
    pub(crate) fn slow(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Makes these bytes of every file unreadable.
    pub(crate) fn fail(&self, bytes: Range<usize>) {
        self.bad.lock().expect("no panic").push(bytes);
    }

    pub(crate) fn repair(&self) {
        self.bad.lock().expect("no panic").clear();
    }

    pub(crate) fn over(self, sink: Sink) -> std::io::Result<(Arc<dyn DiskReader>, Option<String>)> {
        let sink = move |ended: Vec<Ended>| {
            std::thread::sleep(self.delay);
            sink(ended.into_iter().map(|one| self.spoil(one)).collect());
        };
        reads::start(Box::new(sink))
    }

    fn spoil(&self, mut ended: Ended) -> Ended {
        let start = ended.read.offset.get() as usize;
        let end = start + ended.read.into.len();
        let bad = self.bad.lock().expect("no panic");
        let first = bad.iter().filter(|bad| bad.start < end && start < bad.end).map(|bad| bad.start).min();
        if let Some(first) = first {
            // As on a disk: the bytes before the bad one may have arrived or not.
            let before = first.saturating_sub(start) as u64;
            ended.got = Bytes(if before.is_multiple_of(3) { 0 } else { before.min(ended.got.get()) });
            ended.error = Some(Errno::IO);
        }
        ended
    }
}

/// A plain pseudo-random sequence, the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // Knuth's MMIX generator; its upper bits are good enough to place reads.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
