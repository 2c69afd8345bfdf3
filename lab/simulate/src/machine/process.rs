//! A process and its state.

use super::frames::NOBODY;
use super::names::{FileNo, FrameNo};
use super::private::Own;
use crate::program::{FileNumber, Handle, Program, Question};
use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_units::{ByteOffset, Bytes, Instant, Nanos, PageIndex, PageSpan, Pages};
use rand_pcg::Pcg64Mcg;

/// An open file.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenStream {
    pub(super) file: FileNo,
    /// A number that differs for each opening: names of streams are reused.
    pub(super) opening: u32,
}

/// The purpose of reading metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookUp {
    /// To open a file.
    Open { handle: Handle, file: FileNumber, announced: Option<Bytes> },
    /// To get a file's attributes.
    Stat(FileNumber),
    /// To remove a file.
    Unlink(FileNumber),
    /// To list a directory.
    List(u32),
}

/// What a process does when it next has a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// To get its program's next step.
    Next,
    /// To read on.
    Read { stream: u32, at: ByteOffset, end: ByteOffset, first: bool },
    /// To go on past the page cache.
    Direct { stream: u32, left: PageSpan, op: Op },
    /// To write a file's dirty pages.
    Sync { stream: u32 },
    /// To touch a mapped page.
    Touch { stream: u32, page: PageIndex },
    /// To write on.
    Write { stream: u32, at: ByteOffset, end: ByteOffset },
    /// To go on with advice: the rest of a range that began at a page.
    Advise { stream: u32, first: PageIndex, left: PageSpan },
    /// To give pages back.
    Forget { stream: u32, pages: PageSpan },
    /// To get an answer.
    Ask { stream: u32, question: Question },
    /// To read the next page of metadata.
    LookUp { of: LookUp, at: usize },
    /// To use its processor for this long.
    Compute(Nanos),
}

/// What a process without a processor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It has a processor, or is ready.
    None,
    /// For a page in flight.
    Page(FrameNo),
    /// For a read or write past the page cache.
    Direct,
    /// For memory: every page is in flight, dirty or about to be used.
    Memory,
    /// For dirty pages to be written.
    Dirty,
    /// For dirty pages of a file to be written.
    Sync,
    /// For room in the block layer's queue.
    Queue,
    /// For work.
    Work,
    /// For the end of its sleep.
    Sleep(Instant),
}

/// A process.
pub(super) struct Process {
    pub(super) pid: ProcessId,
    /// The number of its request or job.
    pub(super) number: u64,
    pub(super) program: Box<dyn Program>,
    /// Its own generator, so that a request is the same under every policy.
    pub(super) random: Pcg64Mcg,
    pub(super) memory: Pages,
    /// The same as pages, where private memory consists of pages.
    pub(super) own: Own,
    pub(super) open: Vec<(Handle, u32)>,
    pub(super) doing: Doing,
    pub(super) wait: Wait,
    /// The page that it waited for, which may not be reclaimed before it has used it.
    pub(super) arrived: Option<FrameNo>,
    /// It only waited for memory: its touch has been reported.
    pub(super) retrying: bool,
    /// It waits for an indirect block.
    pub(super) finding: bool,
    /// The next process that waits for the same page.
    pub(super) next_waiter: u32,
    /// The rest of its time slice.
    pub(super) slice: Nanos,
    /// Its processor time so far.
    pub(super) charged: Nanos,
    /// When the work began that it will report as finished.
    pub(super) began: Instant,
    pub(super) born: Instant,
}

impl Process {
    pub(super) fn new(
        (pid, number): (ProcessId, u64),
        program: Box<dyn Program>,
        random: Pcg64Mcg,
        now: Instant,
    ) -> Self {
        let memory = program.memory().pages_ceil();
        Self {
            pid,
            number,
            program,
            random,
            memory,
            own: Own::default(),
            open: Vec::new(),
            doing: Doing::Next,
            wait: Wait::None,
            arrived: None,
            retrying: false,
            finding: false,
            next_waiter: NOBODY,
            slice: Nanos::ZERO,
            charged: Nanos::ZERO,
            began: now,
            born: now,
        }
    }

    pub(super) fn stream(&self, handle: Handle) -> Option<u32> {
        self.open.iter().find(|(name, _)| *name == handle).map(|(_, stream)| *stream)
    }

    /// What it waits for, in words.
    pub(super) fn describe(&self) -> String {
        let what = match self.wait {
            Wait::None => "a processor".to_owned(),
            Wait::Page(frame) => format!("the page in frame {}", frame.0),
            Wait::Direct => "what it reads or writes past the page cache".to_owned(),
            Wait::Memory => "memory".to_owned(),
            Wait::Dirty => "dirty pages to be written".to_owned(),
            Wait::Sync => "the dirty pages of a file to be written".to_owned(),
            Wait::Work => "something to do".to_owned(),
            Wait::Queue => "room in the queue of the device".to_owned(),
            Wait::Sleep(until) => format!("{} of its time", until - Instant::ZERO),
        };
        format!("process {} (number {}) waits for {what}", self.pid.0, self.number)
    }
}
