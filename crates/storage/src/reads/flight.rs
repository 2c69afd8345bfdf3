//! A read in flight: what to request next, and what an answer means.
//!
//! A read is one request, or several where its frames form more runs than one call takes. An answer that is
//! shorter than the request is the end of the file if it ends off the file's alignment and the file is no
//! longer. Otherwise the rest is requested again until nothing more comes (FUSE and network file systems give
//! short reads at any offset). A request that a signal or a shortage in the kernel interrupted is repeated a
//! few times.
//!
//! A page that a reader waits for and that failed is requested once more on its own. The block layer merges
//! adjacent reads of all programs, and on a medium error all of them may fail. It does not merge
//! requests of different priorities, so that page gets a priority that its neighbours do not have. A file
//! that refuses direct reads is read buffered.

use super::file::ReadMode;
use super::read::{DiskRead, Ended, Target};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, PAGE_SIZE};
use rustix::io::Errno;
use std::os::fd::RawFd;
use std::time::Instant;

/// Buffers of one call: the kernel's limit, `IOV_MAX`.
const VECTORS_MOST: usize = 1024;
/// How often an interrupted request is repeated: shortages pass, and one that does not is reported to the
/// reader.
const RETRIES: u32 = 8;

/// See the module's documentation.
pub(super) struct ReadInFlight {
    read: DiskRead,
    done: usize,
    /// The last request.
    vectors: Vec<libc::iovec>,
    requested: usize,
    mode: ReadMode,
    retries: u32,
    /// Whether it is requested on its own.
    alone: bool,
    from_memory: bool,
    issued: Instant,
    others: usize,
}

// SAFETY: the vectors point into memory of the read, which moves with it.
#[allow(unsafe_code)]
unsafe impl Send for ReadInFlight {}

/// The next request to the kernel.
pub(super) struct Request<'a> {
    /// The descriptor, open while the read is in flight.
    pub(super) fd: RawFd,
    /// The memory to fill.
    pub(super) vectors: &'a [libc::iovec],
    /// The offset in the file.
    pub(super) offset: ByteOffset,
    /// The priority, as for `ioprio_set`; 0 is the thread's own.
    pub(super) priority: u16,
}

/// What to do after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Request the rest.
    Again,
    /// It is over.
    Over(Option<Errno>),
}

impl ReadInFlight {
    pub(super) fn new(read: DiskRead, others: usize) -> Self {
        let (done, requested, retries, issued) = (0, 0, 0, Instant::now());
        let (mode, alone) = (ReadMode::Direct, false);
        let from_memory =
            read.file.is_partly_in_memory(ByteSpan::at(read.offset, Bytes(read.into.len() as u64)));
        Self { read, done, vectors: Vec::new(), requested, mode, retries, alone, from_memory, issued, others }
    }

    /// The next request. The vectors and their memory stay valid until the next call or the end of the
    /// flight.
    pub(super) fn request(&mut self) -> Result<Request<'_>, Errno> {
        self.vectors.clear();
        self.mode = self.read.file.mode();
        let fd = self.read.file.raw(self.mode)?;
        let done = self.done;
        let vector = |(to, length): (*mut u8, usize)| libc::iovec { iov_base: to.cast(), iov_len: length };
        match &mut self.read.into {
            Target::Frames(filling) => {
                self.vectors.extend(filling.pieces(done).take(VECTORS_MOST).map(vector));
            }
            Target::Buffer(buffer) => {
                let rest = &mut buffer[done..];
                self.vectors.push(vector((rest.as_mut_ptr(), rest.len())));
            }
        }
        self.requested = self.vectors.iter().map(|vector| vector.iov_len).sum();
        let offset = self.read.offset + Bytes(done as u64);
        let priority = if self.alone { unlike_its_neighbours(offset) } else { 0 };
        Ok(Request { fd, vectors: &self.vectors, offset, priority })
    }

    /// Whether the page itself may be readable, and failed because of an adjacent one.
    fn may_be_sound(&self) -> bool {
        let is_page = self.read.into.len() as u64 <= PAGE_SIZE || matches!(self.read.into, Target::Buffer(_));
        self.read.urgent && is_page && !self.alone
    }

    /// Takes the kernel's answer.
    pub(super) fn answered(&mut self, answer: Result<usize, Errno>) -> Next {
        let aligned = |done: usize| (done as u64).is_multiple_of(self.read.file.alignment().get());
        match answer {
            Ok(0) => Next::Over(None),
            Ok(got) => {
                self.done += got.min(self.requested);
                self.retries = 0;
                let short = got < self.requested && !aligned(self.done);
                let end = self.read.offset + Bytes(self.done as u64);
                let over = self.done == self.read.into.len() || (short && self.read.file.ends_by(end));
                if over { Next::Over(None) } else { Next::Again }
            }
            Err(Errno::INTR | Errno::AGAIN | Errno::NOMEM) if self.retries < RETRIES => {
                self.retries += 1;
                Next::Again
            }
            Err(Errno::INVAL | Errno::OPNOTSUPP) if self.mode == ReadMode::Direct => {
                self.read.file.refuse_direct();
                Next::Again
            }
            Err(Errno::IO) if self.may_be_sound() => {
                self.alone = true;
                Next::Again
            }
            Err(error) => Next::Over(Some(error)),
        }
    }

    /// Ends it.
    pub(super) fn end(self, error: Option<Errno>) -> Ended {
        let got = Bytes(self.done as u64);
        self.read.file.forget(ByteSpan::at(self.read.offset, got));
        let Self { read, issued, others, from_memory, .. } = self;
        Ended { read, got, error, issued, ended: Instant::now(), others, from_memory }
    }
}

/// A priority that differs from those of the adjacent pages and from that of threads without a set one:
/// `IOPRIO_CLASS_BE` (2), levels 0 to 3 of 8, of which 4 is the default.
fn unlike_its_neighbours(offset: ByteOffset) -> u16 {
    2 << 13 | (offset.get() / PAGE_SIZE % 4) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::ReadFile;
    use crate::{Arena, Frames};
    use foreseek_seam::FrameId;
    use foreseek_units::Pages;
    use std::sync::Arc;

    const PAGE: usize = 4096;

    /// A read of this many pages of a file without alignment.
    fn flight(pages: usize) -> ReadInFlight {
        let file = Arc::new(ReadFile::buffered_over(Arc::new(tempfile::tempfile().expect("a file"))));
        let arena = Arena::untouched(Bytes::mib(1)).expect("memory");
        let into = Target::Buffer(arena.try_take(pages * PAGE).expect("room"));
        ReadInFlight::new(
            DiskRead { token: 0, file, offset: ByteOffset(8192), into, urgent: true, apart: false },
            0,
        )
    }

    fn requested(flight: &mut ReadInFlight) -> (u64, usize) {
        let request = flight.request().expect("open");
        (request.offset.get(), request.vectors.iter().map(|vector| vector.iov_len).sum())
    }

    #[test]
    fn a_short_read_is_continued_until_nothing_comes() {
        let mut flight = flight(4);
        assert_eq!(requested(&mut flight), (8192, 4 * PAGE));
        assert_eq!(flight.answered(Ok(5000)), Next::Again);
        assert_eq!(requested(&mut flight), (8192 + 5000, 4 * PAGE - 5000));
        assert_eq!(flight.answered(Ok(0)), Next::Over(None));
        assert_eq!(flight.end(None).got, Bytes(5000));
    }

    #[test]
    fn an_interrupted_read_is_repeated_a_few_times() {
        let mut flight = flight(1);
        for _ in 0..RETRIES {
            requested(&mut flight);
            assert_eq!(flight.answered(Err(Errno::INTR)), Next::Again);
        }
        requested(&mut flight);
        assert_eq!(flight.answered(Err(Errno::INTR)), Next::Over(Some(Errno::INTR)));
    }

    #[test]
    fn an_error_leaves_what_came_before_it() {
        let mut flight = flight(2);
        requested(&mut flight);
        assert_eq!(flight.answered(Ok(PAGE)), Next::Again);
        // Once more on its own: an adjacent page may be the cause.
        assert_eq!(flight.request().expect("open").priority, 0);
        assert_eq!(flight.answered(Err(Errno::IO)), Next::Again);
        assert_ne!(flight.request().expect("open").priority, 0);
        assert_eq!(flight.answered(Err(Errno::IO)), Next::Over(Some(Errno::IO)));
        assert_eq!(flight.end(Some(Errno::IO)).got, Bytes(PAGE as u64));
    }

    #[test]
    fn pages_beside_each_other_differ_in_priority() {
        let priorities = (0..9u64).map(|page| unlike_its_neighbours(ByteOffset(page * PAGE_SIZE)));
        let priorities: Vec<u16> = priorities.collect();
        assert!(priorities.windows(2).all(|two| two[0] != two[1] && two[0] & 7 != 4), "{priorities:?}");
    }

    #[test]
    fn a_file_that_refuses_direct_reads_after_all_is_read_buffered() {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a writable directory");
        let path = directory.path().join("file");
        std::fs::write(&path, [1; 2 * PAGE]).expect("room");
        let file = std::fs::File::open(&path).expect("just made");
        let file = Arc::new(ReadFile::reopen(std::os::fd::AsFd::as_fd(&file)).expect("readable"));
        let frames = Frames::new(Pages(2)).expect("memory");
        let direct = file.mode() == ReadMode::Direct;
        let mut flights: Vec<ReadInFlight> = (0..2)
            .map(|frame| {
                let into = Target::Frames(frames.fill(&[FrameId(frame)]).expect("free"));
                let file = Arc::clone(&file);
                ReadInFlight::new(
                    DiskRead { token: 0, file, offset: ByteOffset::ZERO, into, urgent: true, apart: false },
                    0,
                )
            })
            .collect();
        for flight in &mut flights {
            requested(flight);
        }
        for flight in &mut flights {
            // Both were in flight when the first was refused.
            let answer = flight.answered(Err(Errno::INVAL));
            assert_eq!(answer, if direct { Next::Again } else { Next::Over(Some(Errno::INVAL)) });
            requested(flight);
            assert_eq!(flight.answered(Err(Errno::INVAL)), Next::Over(Some(Errno::INVAL)));
        }
        assert_eq!(file.mode(), ReadMode::Buffered);
    }
}
