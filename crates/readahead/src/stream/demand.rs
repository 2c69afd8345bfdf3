//! Fetching only when a page is missing: no second window, no marker.
//!
//! This is prefetching as in the papers' analysis (TR-840 section 3, EuroSys'07 section 4): one fetch when
//! the pages of the one before are used up, each with a switch. With the depth rule
//! [`Zero`](crate::depth::Zero) it is no read-ahead at all. With [`Announced`](crate::depth::Announced) it is
//! the papers' oracle, which "prefetches exactly the amount of data needed for each sequential stream"
//! (EuroSys'07 section 6.2).
//!
//! A miss right after the last fetch continues the stream; any other one begins anew.

use super::machine::{Answer, Machine};
use super::prefetcher::Opened;
use crate::depth::{Depth, Ramp, Served};
use foreseek_units::{Instant, PageIndex, PageSpan, Span};

/// The window machine.
pub(super) struct Demand {
    pub(super) depth: Box<dyn Depth>,
    pub(super) ramp: Ramp,
}

impl Machine for Demand {
    /// The last window.
    type Stream = PageSpan;

    fn open(&self, _opened: &Opened) -> PageSpan {
        Span::new(PageIndex::ZERO, PageIndex::ZERO)
    }

    fn touch(&mut self, last: &mut PageSpan, answer: &mut Answer<'_>) {
        if !answer.missing() {
            return;
        }
        let (page, request) = (answer.page(), answer.touch.request);
        let most = answer.most(&mut *self.depth, page);
        let size = if page == last.end && !last.is_empty() {
            self.ramp.next(most, last.len(), most)
        } else {
            self.ramp.first(most, request, most)
        };
        let window = Span::at(page, size.max(request));
        answer.read(window, None);
        *last = Span::new(page, window.end.min(answer.end()));
    }

    fn served(&mut self, _now: Instant, served: Served) {
        self.depth.served(served);
    }
}
