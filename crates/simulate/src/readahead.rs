//! What a kernel reads ahead of its own accord: today's on-demand read-ahead (Linux 6.x), one
//! window a file.
//!
//! On a miss, or at the marker page, in this order: at the start of the file an initial window; at
//! the end of the window or at its marker the next, larger one; for a read that is longer than the
//! maximum or follows the last one an initial window; where pages before the miss are cached,
//! somebody reads in sequence unseen, and the window is as long as what is cached; else the request
//! alone. The first page of a window's second part is the marker.

use foreseek_units::{PageIndex, PageSpan, Pages, Span};

/// The window and the last read of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadAhead {
    start: PageIndex,
    size: Pages,
    ahead: Pages,
    previous: Option<PageIndex>,
    maximum: Pages,
}

/// What is to be read, and at which page of it to read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) span: PageSpan,
    pub(crate) marker: Option<PageIndex>,
}

impl ReadAhead {
    /// `maximum`: the device's `read_ahead_kb`.
    pub(crate) fn new(maximum: Pages) -> Self {
        Self {
            start: PageIndex::ZERO,
            size: Pages::ZERO,
            ahead: Pages::ZERO,
            previous: None,
            maximum: maximum.max(Pages(1)),
        }
    }

    /// A page was read.
    pub(crate) fn read(&mut self, page: PageIndex) {
        self.previous = Some(page);
    }

    /// A page is missing, `request` pages from it on are wanted, and `cached` says how many pages
    /// right before it are cached, up to the maximum.
    pub(crate) fn miss(
        &mut self,
        page: PageIndex,
        request: Pages,
        cached: impl Fn(Pages) -> Pages,
    ) -> Window {
        let follows = self.previous.is_some_and(|previous| page.get().wrapping_sub(previous.get()) <= 1);
        if page == PageIndex::ZERO {
            self.begin(page, request);
        } else if !self.size.is_zero()
            && (page == self.start + (self.size - self.ahead) || page == self.start + self.size)
        {
            self.start += self.size;
            self.size = self.next_size(self.size);
            self.ahead = self.size;
        } else if request > self.maximum || follows {
            self.begin(page, request);
        } else {
            let history = cached(self.maximum);
            if history <= request {
                // A read by itself leaves the window alone.
                return Window { span: Span::at(page, request), marker: None };
            }
            let whole_file = history.get() >= page.get();
            let size = history * if whole_file { 2 } else { 1 } + request;
            self.start = page;
            self.size = size.min(self.maximum);
            self.ahead = Pages(1);
        }
        self.submit(page)
    }

    /// The marker was read: the window is half consumed. `hole` is the first page after the marker
    /// that is not cached, within the maximum.
    pub(crate) fn at_marker(
        &mut self,
        page: PageIndex,
        request: Pages,
        hole: Option<PageIndex>,
    ) -> Option<Window> {
        if page == self.start + (self.size - self.ahead) || page == self.start + self.size {
            self.start += self.size;
            self.size = self.next_size(self.size);
        } else {
            // Another reader's window: begin at the hole.
            let hole = hole?;
            self.size = self.next_size(hole - page + request);
            self.start = hole;
        }
        self.ahead = self.size;
        Some(self.submit(page))
    }

    fn begin(&mut self, page: PageIndex, request: Pages) {
        self.start = page;
        self.size = self.initial_size(request);
        self.ahead = if self.size > request { self.size - request } else { self.size };
    }

    /// A window that begins at the page and would meet its marker at once takes the next one in.
    fn submit(&mut self, page: PageIndex) -> Window {
        if page == self.start && self.size == self.ahead {
            let more = self.next_size(self.size);
            if self.size + more <= self.maximum {
                self.ahead = more;
                self.size += more;
            } else {
                self.size = self.maximum;
                self.ahead = self.maximum / 2;
            }
        }
        let marker = (!self.ahead.is_zero()).then_some(self.start + (self.size - self.ahead));
        Window { span: Span::at(self.start, self.size), marker }
    }

    fn initial_size(&self, request: Pages) -> Pages {
        let size = Pages(request.get().next_power_of_two());
        let factor = match size {
            size if size <= self.maximum / 32 => 4,
            size if size <= self.maximum / 4 => 2,
            _ => return self.maximum,
        };
        size * factor
    }

    fn next_size(&self, size: Pages) -> Pages {
        let factor = match size {
            size if size < self.maximum / 16 => 4,
            size if size <= self.maximum / 2 => 2,
            _ => return self.maximum,
        };
        size * factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAXIMUM: Pages = Pages(32);

    fn window(start: u64, end: u64, marker: u64) -> Window {
        Window { span: Span::new(PageIndex(start), PageIndex(end)), marker: Some(PageIndex(marker)) }
    }

    /// Golden: a file read page by page under 128 KiB, as traced on Linux.
    #[test]
    fn a_sequential_reader_gets_four_eight_sixteen_thirty_two() {
        let mut state = ReadAhead::new(MAXIMUM);
        assert_eq!(state.miss(PageIndex(0), Pages(1), |_| Pages::ZERO), window(0, 4, 1));
        state.read(PageIndex(0));
        assert_eq!(state.at_marker(PageIndex(1), Pages(1), None), Some(window(4, 12, 4)));
        assert_eq!(state.at_marker(PageIndex(4), Pages(1), None), Some(window(12, 28, 12)));
        assert_eq!(state.at_marker(PageIndex(12), Pages(1), None), Some(window(28, 60, 28)));
        assert_eq!(state.at_marker(PageIndex(28), Pages(1), None), Some(window(60, 92, 60)));
    }

    #[test]
    fn a_random_read_reads_itself_alone_and_keeps_the_window() {
        let mut state = ReadAhead::new(MAXIMUM);
        state.miss(PageIndex(0), Pages(1), |_| Pages::ZERO);
        let alone = state.miss(PageIndex(1000), Pages(4), |_| Pages::ZERO);
        assert_eq!(alone, Window { span: Span::at(PageIndex(1000), Pages(4)), marker: None });
        assert_eq!(state.at_marker(PageIndex(1), Pages(1), None), Some(window(4, 12, 4)));
    }

    #[test]
    fn a_read_after_the_last_one_begins_a_window() {
        let mut state = ReadAhead::new(MAXIMUM);
        state.read(PageIndex(99));
        assert_eq!(state.miss(PageIndex(100), Pages(1), |_| Pages::ZERO), window(100, 104, 101));
        // A long read: the maximum at once.
        assert_eq!(state.miss(PageIndex(500), Pages(64), |_| Pages::ZERO), window(500, 532, 516));
    }

    #[test]
    fn cached_pages_before_a_miss_tell_of_a_sequence() {
        let mut state = ReadAhead::new(MAXIMUM);
        state.read(PageIndex(7));
        assert_eq!(state.miss(PageIndex(50), Pages(1), |_| Pages(6)), window(50, 57, 56));
        assert_eq!(state.miss(PageIndex(10), Pages(1), |_| Pages(10)), window(10, 31, 30));
        assert_eq!(state.miss(PageIndex(90), Pages(2), |_| Pages(2)).marker, None);
    }
}
