//! Reads of programs that are longer than the requests of the kernel's page cache.
//!
//! Linux splits a read of a megabyte from a FUSE file system into windows of its read-ahead, 128 KiB, and
//! requests the third once the first has arrived. On a disk the same read is one request. Programs that read
//! parts of files with several threads, as readers of columns do, make the disk seek between the windows of
//! their parts. If a window continues no earlier read, the driver therefore inspects the program's system
//! call ([`Calls::is_asked`]). The missing pages of the call are fetched at once, since they are certain to
//! be read: at most [`STEP`] at a time, as on a disk.
//!
//! The kernel requests one window more than the call has, since it takes each call for the beginning of a sequence. No
//! program waits for that window, but it must be answered. It is fetched with the call, which costs its transfer and no
//! second seek. The prefetcher does not see it, so that it does not make a single part a sequence. A call that continues
//! where another ended is a sequence.
//!
//! Limits: calls of at most a window are not inspected. Nor are calls that begin where a read of their stream
//! has ended: these are sequences, and are read ahead. Of calls of up to a megabyte, the window beyond is at
//! least a seventh of what is read.

use super::callers::SHORT;
use super::pages::State;
use super::state::{ServedStream, ServingEngine};
use foreseek_seam::StreamId;
use foreseek_seam::objects::{PageKey, Slot};
use foreseek_units::{ByteSpan, Bytes, PageIndex, PageSpan, Pages, Span};

/// The kernel's request within a longer call.
const WINDOW: Pages = SHORT.pages_floor();
/// How much of a call is fetched at once: the longest request of Linux to a disk (`max_sectors_kb`). It holds the longest
/// FUSE read, 1 MiB, and the window beyond it.
const STEP: Pages = Bytes::kib(1280).pages_floor();
/// Calls and reads that are kept of a stream, for the threads that read through one open file. DuckDB has eight.
const KNOWN: usize = 16;

/// A call.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    /// Its pages; none before the first one.
    pages: PageSpan,
    /// Whether it continues where another one ended.
    goes_on: bool,
}

impl Call {
    /// The end of the window that the kernel requests beyond the call.
    fn reach(self) -> PageIndex {
        let windows = self.pages.len().get().div_ceil(WINDOW.get());
        self.pages.start + WINDOW * (windows + 1)
    }

    /// The end of the pages that are fetched with a part of it.
    fn end(self) -> PageIndex {
        if self.goes_on { self.pages.end } else { self.reach() }
    }
}

/// The relation of a read to the calls of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The end of the pages to fetch with it: its own end where no call is known.
    pub end: PageIndex,
    /// Whether it is the window beyond a call, which no program has requested.
    pub is_beyond: bool,
}

/// The known calls of a stream.
#[derive(Debug, Default)]
pub struct Calls {
    /// The latest calls, in a ring.
    known: [Call; KNOWN],
    calls: usize,
    /// The ends of the latest reads, in a ring.
    ends: [PageIndex; KNOWN],
    reads: usize,
}

/// Whether a read is long enough to be a part of a longer call: most reads are not, and the check needs no state.
#[must_use]
pub fn is_whole_window(pages: PageSpan) -> bool {
    pages.len() >= WINDOW
}

impl Calls {
    /// The call of which these pages are a part.
    fn of(&self, pages: PageSpan) -> Option<Call> {
        self.known.iter().copied().find(|call| call.pages.contains(pages.start))
    }

    /// Whether these pages are the window beyond a call.
    fn is_beyond(&self, pages: PageSpan) -> bool {
        let beyond = |call: &Call| Span::new(call.pages.end, call.reach()).contains(pages.start);
        self.known.iter().any(|call| !call.pages.is_empty() && !call.goes_on && beyond(call))
            && self.of(pages).is_none()
    }

    /// Adds a call in which a program waits for these pages.
    pub fn add(&mut self, pages: PageSpan) {
        let follows =
            |call: &Call| !call.pages.is_empty() && pages.start.distance(call.pages.end) <= Pages(1);
        let goes_on = self.known.iter().any(follows);
        self.known[self.calls % KNOWN] = Call { pages, goes_on };
        self.calls += 1;
    }

    /// These pages are read.
    pub fn read(&mut self, pages: PageSpan) -> Part {
        self.note(pages);
        let end = self.of(pages).map_or(pages.end, |call| call.end().min(pages.start + STEP).max(pages.end));
        Part { end, is_beyond: self.is_beyond(pages) }
    }

    fn note(&mut self, pages: PageSpan) {
        let goes_on = self.ends.iter_mut().find(|end| **end == pages.start && pages.start > PageIndex::ZERO);
        if let Some(end) = goes_on {
            *end = pages.end;
            return;
        }
        self.ends[self.reads % KNOWN] = pages.end;
        self.reads += 1;
    }

    /// Whether a read of these pages may be the first part of a longer call.
    #[must_use]
    pub fn is_asked(&self, pages: PageSpan) -> bool {
        let goes_on = pages.start > PageIndex::ZERO && self.ends.contains(&pages.start);
        // A read beyond the window belongs to another call.
        let next = self.known.iter().any(|call| !call.pages.is_empty() && call.reach() == pages.start);
        is_whole_window(pages) && (!goes_on || next) && self.of(pages).is_none() && !self.is_beyond(pages)
    }
}

impl ServingEngine {
    /// Whether to inspect the call in which the reader of these bytes waits, before they are passed on as read.
    #[must_use]
    pub fn asks_for_call(&self, stream: StreamId, range: ByteSpan) -> bool {
        let pages = range.pages();
        let asks = |stream: &ServedStream| match &stream.calls {
            Some(calls) => calls.is_asked(pages),
            None => is_whole_window(pages),
        };
        self.streams.get(&stream).is_some_and(asks)
    }

    /// Adds a call of a stream.
    pub(super) fn called(&mut self, stream: StreamId, range: ByteSpan) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.calls.get_or_insert_default().add(range.pages());
            self.stats.calls += 1;
        }
    }

    /// The relation of a read to the calls of its stream.
    pub(super) fn part(&mut self, stream: StreamId, pages: PageSpan) -> Part {
        let alone = Part { end: pages.end, is_beyond: false };
        let Some(stream) = self.streams.get_mut(&stream) else { return alone };
        if stream.calls.is_none() && !is_whole_window(pages) {
            return alone;
        }
        let length = PageIndex::ZERO + stream.length;
        let part = stream.calls.get_or_insert_default().read(pages);
        Part { end: part.end.min(length).max(pages.end), ..part }
    }

    /// Makes fetches of the rest of a read's call as urgent as the read.
    pub(super) fn hurry_call(&mut self, slot: Slot, rest: PageSpan) {
        let mut hurried = None;
        for page in rest.iter() {
            let key = PageKey::within(slot, page);
            let State::Flying(flying) = self.table.state(&key) else { continue };
            if hurried.replace(flying.fetch) != Some(flying.fetch) {
                self.flight.hurry(flying.fetch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::Span;

    fn span(start: u64, end: u64) -> PageSpan {
        Span::new(PageIndex(start), PageIndex(end))
    }

    #[test]
    fn a_whole_window_that_continues_no_read_is_inspected() {
        let mut calls = Calls::default();
        assert!(calls.is_asked(span(700, 732)) && calls.is_asked(span(0, 32)));
        assert!(!calls.is_asked(span(700, 731)), "the program asked for no more");
        calls.read(span(700, 732));
        assert!(!calls.is_asked(span(732, 764)), "a sequence");
        calls.add(span(5000, 5241));
        assert!(!calls.is_asked(span(5000, 5032)) && !calls.is_asked(span(5224, 5256)));
        assert!(!calls.is_asked(span(5256, 5288)), "the window beyond");
        assert!(calls.is_asked(span(5288, 5320)));
    }

    #[test]
    fn the_window_beyond_a_call_comes_with_it() {
        let mut calls = Calls::default();
        calls.add(span(1000, 1241));
        for start in (1000..1256).step_by(32) {
            let part = calls.read(span(start, start + 32));
            assert_eq!(part, Part { end: PageIndex(1288), is_beyond: false }, "{start}");
        }
        let beyond = calls.read(span(1256, 1288));
        assert_eq!(beyond, Part { end: PageIndex(1288), is_beyond: true });
        // The reader has gone on, and is inspected again: now it is a sequence.
        assert!(calls.is_asked(span(1288, 1320)));
        calls.add(span(1241, 1482));
        assert_eq!(calls.read(span(1288, 1320)), Part { end: PageIndex(1482), is_beyond: false });
        assert_eq!(calls.read(span(1482, 1514)), Part { end: PageIndex(1514), is_beyond: false });
    }

    #[test]
    fn a_long_call_is_fetched_in_steps() {
        let mut calls = Calls::default();
        calls.add(span(1000, 9000));
        assert_eq!(calls.read(span(1000, 1032)).end, PageIndex(1320));
        assert_eq!(calls.read(span(8990, 9022)).end, PageIndex(9032));
    }

    #[test]
    fn as_many_calls_are_known_as_threads_read_through_one_opening() {
        let mut calls = Calls::default();
        let call = |thread: u64| span(1000 * thread, 1000 * thread + 241);
        let known = |calls: &Calls, thread| calls.of(call(thread)).map(|known| known.pages);
        (1..=KNOWN as u64).for_each(|thread| calls.add(call(thread)));
        assert!((1..=KNOWN as u64).all(|thread| known(&calls, thread) == Some(call(thread))));
        calls.add(call(99));
        assert_eq!((known(&calls, 1), known(&calls, 2)), (None, Some(call(2))));
        let mut calls = Calls::default();
        for part in 0..7 {
            for thread in 1..=KNOWN as u64 {
                let start = 1000 * thread + 32 * part;
                assert_eq!(calls.is_asked(span(start, start + 32)), part == 0);
                calls.read(span(start, start + 32));
            }
        }
    }
}
