//! Calls of programs that are longer than what the cache in front asks for at a time.
//!
//! Linux cuts a read of a megabyte from a file system in user space into windows of its read-ahead, 128 KiB, and asks for
//! the third when the first has come. Over a disk the same read is one request. Programs that read parts of files so, as
//! readers of columns do, with several threads, send the disk to and fro between the windows of their parts. So where a
//! window comes that goes on with nothing, the driver is told to look at the call ([`Calls::is_asked`]), and what
//! of it is missing is fetched at once: it is certain to be read. At most [`STEP`] of it at a time, as a disk's driver has it.
//!
//! The kernel asks for one window more than the call has, since it takes each call for the beginning of a sequence. Nobody waits for
//! it, and it has to be answered. So it is fetched with the call, which costs its transfer and no second visit of the
//! disk, and the prefetcher is not asked for it: a part is no sequence because of it. A call that goes on where another ended is one.
//!
//! Limits: calls of no more than a window are not looked at, nor those that begin where a read of their stream has ended:
//! these are sequences, and read ahead. The window beyond the call is a seventh or more of what is read of a call of up to a megabyte.

use super::callers::SHORT;
use super::pages::State;
use super::state::{ServedStream, ServingEngine};
use foreseek_seam::StreamId;
use foreseek_seam::objects::{PageKey, Slot};
use foreseek_units::{ByteSpan, Bytes, PageIndex, PageSpan, Pages, Span};

/// What the kernel asks for at a time, the call being longer.
const WINDOW: Pages = SHORT.pages_floor();
/// How much of a call is fetched at once: what Linux makes one request of over a disk (`max_sectors_kb`). It holds the longest
/// FUSE read, 1 MiB, and the window beyond it.
const STEP: Pages = Bytes::kib(1280).pages_floor();
/// Calls and reads that are remembered of a stream: threads that read through one opening. DuckDB has eight.
const KNOWN: usize = 16;

/// A call.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    /// Its pages; none before the first one.
    pages: PageSpan,
    /// Whether it goes on where another one ended.
    goes_on: bool,
}

impl Call {
    /// Where the window ends that the kernel asks for beyond the last one of the call.
    fn reach(self) -> PageIndex {
        let windows = self.pages.len().get().div_ceil(WINDOW.get());
        self.pages.start + WINDOW * (windows + 1)
    }

    /// How far what is fetched with a part of it goes.
    fn end(self) -> PageIndex {
        if self.goes_on { self.pages.end } else { self.reach() }
    }
}

/// How a read stands to the calls of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// How far what is to be fetched with it goes: to its end where no call is known.
    pub end: PageIndex,
    /// It is the window beyond a call, for which nobody has asked.
    pub is_beyond: bool,
}

/// What is known of a stream's calls.
#[derive(Debug, Default)]
pub struct Calls {
    /// The last ones.
    known: [Call; KNOWN],
    told: usize,
    /// Where the last reads ended.
    ends: [PageIndex; KNOWN],
    read: usize,
}

/// Whether a read is long enough to be a part of a longer call: most reads are not, and no state is needed to tell.
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

    /// A program waits in a call for these pages.
    pub fn tell(&mut self, pages: PageSpan) {
        let follows =
            |call: &Call| !call.pages.is_empty() && pages.start.distance(call.pages.end) <= Pages(1);
        let goes_on = self.known.iter().any(follows);
        self.known[self.told % KNOWN] = Call { pages, goes_on };
        self.told += 1;
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
        self.ends[self.read % KNOWN] = pages.end;
        self.read += 1;
    }

    /// Whether a read of these pages may be the first part of a longer call.
    #[must_use]
    pub fn is_asked(&self, pages: PageSpan) -> bool {
        let goes_on = pages.start > PageIndex::ZERO && self.ends.contains(&pages.start);
        // Who reads on beyond the window has made another call.
        let next = self.known.iter().any(|call| !call.pages.is_empty() && call.reach() == pages.start);
        is_whole_window(pages) && (!goes_on || next) && self.of(pages).is_none() && !self.is_beyond(pages)
    }
}

impl ServingEngine {
    /// Whether to look at the call in which the reader of these bytes waits, before they are told as read.
    #[must_use]
    pub fn asks_for_call(&self, stream: StreamId, range: ByteSpan) -> bool {
        let pages = range.pages();
        let asks = |stream: &ServedStream| match &stream.calls {
            Some(calls) => calls.is_asked(pages),
            None => is_whole_window(pages),
        };
        self.streams.get(&stream).is_some_and(asks)
    }

    /// A call of a stream was told.
    pub(super) fn called(&mut self, stream: StreamId, range: ByteSpan) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.calls.get_or_insert_default().tell(range.pages());
            self.stats.calls += 1;
        }
    }

    /// How a read stands to the calls of its stream.
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

    /// What lies beyond a read and within its call is waited for as the read is.
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
    fn a_whole_window_that_goes_on_with_nothing_is_looked_at() {
        let mut calls = Calls::default();
        assert!(calls.is_asked(span(700, 732)) && calls.is_asked(span(0, 32)));
        assert!(!calls.is_asked(span(700, 731)), "the program asked for no more");
        calls.read(span(700, 732));
        assert!(!calls.is_asked(span(732, 764)), "a sequence");
        calls.tell(span(5000, 5241));
        assert!(!calls.is_asked(span(5000, 5032)) && !calls.is_asked(span(5224, 5256)));
        assert!(!calls.is_asked(span(5256, 5288)), "the window beyond");
        assert!(calls.is_asked(span(5288, 5320)));
    }

    #[test]
    fn the_window_beyond_a_call_comes_with_it() {
        let mut calls = Calls::default();
        calls.tell(span(1000, 1241));
        for start in (1000..1256).step_by(32) {
            let part = calls.read(span(start, start + 32));
            assert_eq!(part, Part { end: PageIndex(1288), is_beyond: false }, "{start}");
        }
        let beyond = calls.read(span(1256, 1288));
        assert_eq!(beyond, Part { end: PageIndex(1288), is_beyond: true });
        // The reader has gone on, and is looked at again: it is a sequence then.
        assert!(calls.is_asked(span(1288, 1320)));
        calls.tell(span(1241, 1482));
        assert_eq!(calls.read(span(1288, 1320)), Part { end: PageIndex(1482), is_beyond: false });
        assert_eq!(calls.read(span(1482, 1514)), Part { end: PageIndex(1514), is_beyond: false });
    }

    #[test]
    fn a_long_call_is_fetched_in_steps() {
        let mut calls = Calls::default();
        calls.tell(span(1000, 9000));
        assert_eq!(calls.read(span(1000, 1032)).end, PageIndex(1320));
        assert_eq!(calls.read(span(8990, 9022)).end, PageIndex(9032));
    }

    #[test]
    fn as_many_calls_are_known_as_threads_read_through_one_opening() {
        let mut calls = Calls::default();
        let call = |thread: u64| span(1000 * thread, 1000 * thread + 241);
        let known = |calls: &Calls, thread| calls.of(call(thread)).map(|known| known.pages);
        (1..=KNOWN as u64).for_each(|thread| calls.tell(call(thread)));
        assert!((1..=KNOWN as u64).all(|thread| known(&calls, thread) == Some(call(thread))));
        calls.tell(call(99));
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
