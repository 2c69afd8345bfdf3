//! A read on its way: what of it is asked for next, and what an answer means.
//!
//! A read is asked for in one piece, or in several where its frames lie in more runs than one call
//! takes. An answer shorter than what was asked for is the end of the file where it ends off the
//! file's alignment and the file has no more; elsewhere the rest is asked for again, until nothing more
//! comes (what FUSE and network file systems give comes short at any place). What a signal or a shortage
//! of the kernel's interrupted is tried again a few times. A page for which somebody waits, and which
//! failed, is asked for once more by itself: the block layer makes one request of reads that lie together,
//! whoever asked for them, and on an error of the medium all of them may fail. It makes none of reads whose
//! priorities differ, so that a page gets one that its neighbours have not. A file that does not take direct reads after
//! all is read buffered.

use super::file::Access;
use super::read::{DiskRead, Ended, Target};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, PAGE_SIZE};
use rustix::io::Errno;
use std::os::fd::RawFd;
use std::time::Instant;

/// Buffers of one call: the kernel takes `IOV_MAX`, no more.
const VECTORS_MOST: usize = 1024;
/// How often what was interrupted is tried again: shortages pass, and one that does not is the
/// reader's to hear of.
const RETRIES: u32 = 8;

/// See the module's documentation.
pub(super) struct ReadInFlight {
    read: DiskRead,
    done: usize,
    /// What was last asked for.
    vectors: Vec<libc::iovec>,
    asked: usize,
    access: Access,
    retries: u32,
    /// Whether it is asked for by itself.
    alone: bool,
    issued: Instant,
    others: usize,
}

// SAFETY: the vectors point into the read's own memory, which moves with it.
#[allow(unsafe_code)]
unsafe impl Send for ReadInFlight {}

/// What to ask the kernel for.
pub(super) struct Ask<'a> {
    /// Of which descriptor, open as long as the flight lives.
    pub(super) fd: RawFd,
    /// Where to.
    pub(super) vectors: &'a [libc::iovec],
    /// From where.
    pub(super) offset: ByteOffset,
    /// With what priority, as `ioprio_set` has it; 0 is the thread's own.
    pub(super) priority: u16,
}

/// What is to be done after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask for what is left.
    Again,
    /// It is over.
    Over(Option<Errno>),
}

impl ReadInFlight {
    pub(super) fn new(read: DiskRead, others: usize) -> Self {
        let (done, asked, retries, issued) = (0, 0, 0, Instant::now());
        let (access, alone) = (Access::Direct, false);
        Self { read, done, vectors: Vec::new(), asked, access, retries, alone, issued, others }
    }

    /// What to ask for next. The vectors and their memory stay where they are until this is called
    /// again or the flight is over.
    pub(super) fn ask(&mut self) -> Result<Ask<'_>, Errno> {
        self.vectors.clear();
        self.access = self.read.file.access();
        let fd = self.read.file.raw(self.access)?;
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
        self.asked = self.vectors.iter().map(|vector| vector.iov_len).sum();
        let offset = self.read.offset + Bytes(done as u64);
        let priority = if self.alone { unlike_its_neighbours(offset) } else { 0 };
        Ok(Ask { fd, vectors: &self.vectors, offset, priority })
    }

    /// Whether it may have failed for what lies beside it.
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
                self.done += got.min(self.asked);
                self.retries = 0;
                let short = got < self.asked && !aligned(self.done);
                let end = self.read.offset + Bytes(self.done as u64);
                let over = self.done == self.read.into.len() || (short && self.read.file.ends_by(end));
                if over { Next::Over(None) } else { Next::Again }
            }
            Err(Errno::INTR | Errno::AGAIN | Errno::NOMEM) if self.retries < RETRIES => {
                self.retries += 1;
                Next::Again
            }
            Err(Errno::INVAL | Errno::OPNOTSUPP) if self.access == Access::Direct => {
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
        let (issued, others) = (self.issued, self.others);
        Ended { read: self.read, got, error, issued, ended: Instant::now(), others }
    }
}

/// A priority that a page shares with none of those next to it, nor with threads that were given none:
/// `IOPRIO_CLASS_BE` (2), levels 0 to 3 of 8, of which 4 is what threads have.
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

    /// A read of so many pages of a file without alignment.
    fn flight(pages: usize) -> ReadInFlight {
        let file = Arc::new(ReadFile::buffered_over(Arc::new(tempfile::tempfile().expect("a file"))));
        let arena = Arena::untouched(Bytes::mib(1)).expect("memory");
        let into = Target::Buffer(arena.try_take(pages * PAGE).expect("room"));
        ReadInFlight::new(
            DiskRead { token: 0, file, offset: ByteOffset(8192), into, urgent: true, apart: false },
            0,
        )
    }

    fn asked(flight: &mut ReadInFlight) -> (u64, usize) {
        let ask = flight.ask().expect("open");
        (ask.offset.get(), ask.vectors.iter().map(|vector| vector.iov_len).sum())
    }

    #[test]
    fn what_came_short_is_asked_on_until_nothing_comes() {
        let mut flight = flight(4);
        assert_eq!(asked(&mut flight), (8192, 4 * PAGE));
        assert_eq!(flight.answered(Ok(5000)), Next::Again);
        assert_eq!(asked(&mut flight), (8192 + 5000, 4 * PAGE - 5000));
        assert_eq!(flight.answered(Ok(0)), Next::Over(None));
        assert_eq!(flight.end(None).got, Bytes(5000));
    }

    #[test]
    fn what_was_interrupted_is_tried_again_and_not_for_ever() {
        let mut flight = flight(1);
        for _ in 0..RETRIES {
            asked(&mut flight);
            assert_eq!(flight.answered(Err(Errno::INTR)), Next::Again);
        }
        asked(&mut flight);
        assert_eq!(flight.answered(Err(Errno::INTR)), Next::Over(Some(Errno::INTR)));
    }

    #[test]
    fn an_error_leaves_what_came_before_it() {
        let mut flight = flight(2);
        asked(&mut flight);
        assert_eq!(flight.answered(Ok(PAGE)), Next::Again);
        // Once more by itself: it may have failed for what lies beside it.
        assert_eq!(flight.ask().expect("open").priority, 0);
        assert_eq!(flight.answered(Err(Errno::IO)), Next::Again);
        assert_ne!(flight.ask().expect("open").priority, 0);
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
        let direct = file.access() == Access::Direct;
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
            asked(flight);
        }
        for flight in &mut flights {
            // Both were under way when the first was refused.
            let answer = flight.answered(Err(Errno::INVAL));
            assert_eq!(answer, if direct { Next::Again } else { Next::Over(Some(Errno::INVAL)) });
            asked(flight);
            assert_eq!(flight.answered(Err(Errno::INVAL)), Next::Over(Some(Errno::INVAL)));
        }
        assert_eq!(file.access(), Access::Buffered);
    }
}
