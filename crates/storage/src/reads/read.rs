//! A read, how it ended, and what makes reads.

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
    /// Names it to whoever asked for it.
    pub token: u64,
    /// Of which file.
    pub file: Arc<ReadFile>,
    /// From where; a multiple of the file's [alignment](ReadFile::alignment).
    pub offset: ByteOffset,
    /// Where to; its length is the read's, again a multiple of the alignment.
    pub into: Target,
    /// Whether somebody waits for it: it goes before those for which nobody does.
    pub urgent: bool,
    /// Whether it goes to the kernel by itself, before those that are told after it.
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
    /// How much fits.
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

/// A read that is over.
#[derive(Debug)]
pub struct Ended {
    /// Which; it owns the memory with what was read.
    pub read: DiskRead,
    /// How much arrived, from its start: less than asked for at the end of the file.
    pub got: Bytes,
    /// Why no more did; ECANCELED where it was not made any more.
    pub error: Option<Errno>,
    /// When it was handed to the kernel.
    pub issued: Instant,
    /// When it was seen to be over.
    pub ended: Instant,
    /// How many others were under way when it was handed to the kernel.
    pub others: usize,
}

/// Hears of reads that are over, some at a time, from a thread of the [`DiskReader`]. It should not block.
pub type Sink = Box<dyn Fn(Vec<Ended>) + Send + Sync>;

/// One that several [`DiskReader`]s report to.
pub(super) type SharedSink = Arc<dyn Fn(Vec<Ended>) + Send + Sync>;

/// A sink of its own for one of them.
pub(super) fn sink_to(shared: &SharedSink) -> Sink {
    let shared = Arc::clone(shared);
    Box::new(move |ended| shared(ended))
}

/// Makes reads.
pub trait DiskReader: Send + Sync {
    /// Makes reads, now or when others are over; those that lie together are best told together and in
    /// order, for then the kernel may make one request of them, but for one that is to go
    /// [apart](Read::apart). Their ends are told to the sink, never
    /// from within this call. Those that were not taken come back: it is stopping, or a file could not
    /// be opened.
    #[must_use]
    fn start(&self, reads: Vec<DiskRead>) -> Vec<DiskRead>;

    /// Takes no more reads and waits until those under way are over, at most so long; those that
    /// wait end with ECANCELED. Whether all are over: what is not keeps its memory until it is.
    fn stop(&self, patience: Duration) -> bool;
}
