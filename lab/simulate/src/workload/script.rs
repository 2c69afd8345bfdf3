//! Programs as batches of steps.

use crate::program::{FileNumber, Handle, Program, Step};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, Nanos, PageIndex, PageSpan};
use rand_core::Rng;
use std::collections::VecDeque;

/// The source of a program's steps, a few at a time.
pub(super) trait Source: Send {
    /// Appends the next steps; without any the program ends. A batch should be small: it is held in memory.
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps);
    /// Private memory of the process.
    fn memory(&self) -> Bytes;
}

/// A program of a source.
pub(super) struct Script<S> {
    source: S,
    steps: Steps,
}

impl<S: Source> Script<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source, steps: Steps::default() }
    }
}

impl<S: Source + 'static> Script<S> {
    pub(super) fn boxed(source: S) -> Box<dyn Program> {
        Box::new(Self::new(source))
    }
}

impl<S: Source> Program for Script<S> {
    fn next(&mut self, _now: Instant, random: &mut dyn Rng) -> Step {
        if self.steps.0.is_empty() {
            self.source.more(random, &mut self.steps);
        }
        self.steps.0.pop_front().unwrap_or(Step::Exit)
    }

    fn memory(&self) -> Bytes {
        self.source.memory()
    }
}

/// Steps to be done, in order.
#[derive(Debug, Default)]
pub(super) struct Steps(VecDeque<Step>);

impl Steps {
    pub(super) fn open(&mut self, handle: Handle, file: FileNumber, announced: Option<Bytes>) {
        self.0.push_back(Step::Open { handle, file, announced });
    }

    pub(super) fn read(&mut self, handle: Handle, start: ByteOffset, length: Bytes) {
        self.0.push_back(Step::Read { handle, range: ByteSpan::at(start, length) });
    }

    pub(super) fn direct(&mut self, handle: Handle, pages: PageSpan) {
        self.0.push_back(Step::Direct { handle, pages });
    }

    pub(super) fn direct_write(&mut self, handle: Handle, pages: PageSpan) {
        self.0.push_back(Step::DirectWrite { handle, pages });
    }

    pub(super) fn sync(&mut self, handle: Handle) {
        self.0.push_back(Step::Sync { handle });
    }

    pub(super) fn unlink(&mut self, file: FileNumber) {
        self.0.push_back(Step::Unlink { file });
    }

    pub(super) fn touch(&mut self, handle: Handle, page: PageIndex) {
        self.0.push_back(Step::Touch { handle, page });
    }

    pub(super) fn write(&mut self, handle: Handle, start: ByteOffset, length: Bytes) {
        self.0.push_back(Step::Write { handle, range: ByteSpan::at(start, length) });
    }

    pub(super) fn stat(&mut self, file: FileNumber) {
        self.0.push_back(Step::Stat { file });
    }

    pub(super) fn list(&mut self, directory: u32) {
        self.0.push_back(Step::List { directory });
    }

    pub(super) fn close(&mut self, handle: Handle) {
        self.0.push_back(Step::Close { handle });
    }

    /// Uses the processor, together with a use just before.
    pub(super) fn compute(&mut self, time: Nanos) {
        if let Some(Step::Compute(before)) = self.0.back_mut() {
            *before += time;
            return;
        }
        self.0.push_back(Step::Compute(time));
    }

    pub(super) fn sleep(&mut self, time: Nanos) {
        self.0.push_back(Step::Sleep(time));
    }

    pub(super) fn begun(&mut self) {
        self.0.push_back(Step::Begun);
    }

    pub(super) fn finished(&mut self) {
        self.0.push_back(Step::Finished);
    }
}

/// Reads a file forward, a buffer at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    /// The open file.
    pub(super) handle: Handle,
    at: Bytes,
    end: Bytes,
}

impl Reader {
    /// From the start up to `end`.
    pub(super) fn new(handle: Handle, end: Bytes) -> Self {
        Self { handle, at: Bytes::ZERO, end }
    }

    /// How much is still to be read.
    pub(super) fn left(&self) -> Bytes {
        self.end - self.at
    }

    /// Reads the next buffer, the last one as long as the rest; returns its length.
    pub(super) fn read(&mut self, buffer: Bytes, steps: &mut Steps) -> Bytes {
        let length = buffer.min(self.left());
        if !length.is_zero() {
            steps.read(self.handle, ByteOffset(self.at.get()), length);
            self.at += length;
        }
        length
    }
}
