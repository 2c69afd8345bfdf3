//! A read, its completion, and the trait of readers.

use super::file::ReadFile;
use crate::arena::Buffer;
use crate::frames::Filling;
use foreseek_units::{ByteOffset, Bytes};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A read to be made.
#[derive(Debug)]
pub struct DiskRead {
    /// Identifies it to its requester.
    pub token: u64,
    /// The file.
    pub file: Arc<ReadFile>,
    /// The offset; a multiple of the file's [alignment](ReadFile::alignment).
    pub offset: ByteOffset,
    /// The memory to fill. Its length is that of the read: again a multiple of the alignment.
    pub into: Target,
    /// Whether a reader waits for it: it is then submitted before those that none waits for.
    pub urgent: bool,
    /// Whether it is submitted on its own, before the reads that follow it.
    pub apart: bool,
}

/// Memory that a read fills.
#[derive(Debug)]
pub enum Target {
    /// Frames, which need not be consecutive.
    Frames(Filling),
    /// One buffer.
    Buffer(Buffer),
}

impl Target {
    /// How many bytes fit.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Frames(filling) => filling.len(),
            Self::Buffer(buffer) => buffer.len(),
        }
    }

    /// Whether nothing fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A read that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The read; it owns the memory with the data.
    pub read: DiskRead,
    /// How much arrived, from its start: less than requested at the end of the file.
    pub got: Bytes,
    /// Why no more arrived; ECANCELED where it was never made.
    pub error: Option<Errno>,
    /// When it was submitted to the kernel.
    pub issued: Instant,
    /// When its completion was seen.
    pub ended: Instant,
    /// How many others were in flight when it was submitted.
    pub others: usize,
    /// Whether some of it was in the page cache when it was submitted: then its time says nothing of the device.
    /// Known of files that are [kept](ReadFile::keep).
    pub from_memory: bool,
}

/// Takes completions, several at a time, from a thread of the [`DiskReader`]. It should not block.
pub type Sink = Box<dyn Fn(Vec<Ended>) + Send + Sync>;

/// A sink that several [`DiskReader`]s share.
pub(super) type SharedSink = Arc<dyn Fn(Vec<Ended>) + Send + Sync>;

/// A sink that passes on to a shared one.
pub(super) fn sink_to(shared: &SharedSink) -> Sink {
    let shared = Arc::clone(shared);
    Box::new(move |ended| shared(ended))
}

/// Makes reads.
pub trait DiskReader: Send + Sync {
    /// Starts reads, now or once others have ended. Adjacent reads are best passed together and in order,
    /// since the kernel may then merge them; a read marked [`apart`](DiskRead::apart) is not merged with
    /// later ones. Completions go to the sink, never from within this call. Returns the reads that were not
    /// accepted, because the reader is stopping or a file could not be opened.
    #[must_use]
    fn start(&self, reads: Vec<DiskRead>) -> Vec<DiskRead>;

    /// Accepts no more reads and waits until those in flight have ended, no longer than `patience`. Waiting
    /// reads end with ECANCELED. Returns whether all have ended: one that has not keeps its memory until
    /// then.
    fn stop(&self, patience: Duration) -> bool;
}
