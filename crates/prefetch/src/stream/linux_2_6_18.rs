//! The read-ahead of Linux 2.6.18, on which ATC'08 measured: called once for each call that reads,
//! and at the page where it had left off within a long one.
//!
//! A call is sequential where it begins right after the pages of the one before (the first one at
//! the object's start). Then:
//!
//! - without a window: an initial one, the call rounded up to a power of two, times four where that
//!   is at most a 32nd of the maximum, times two up to a quarter, else the maximum; with a call of at
//!   least the maximum the ahead window follows at once;
//! - with a window and none ahead: the ahead window, four times as long below a sixteenth of the
//!   maximum, else twice, at most the maximum; after a page was lost to eviction two pages shorter
//!   instead, at least 4;
//! - a call that reaches into the ahead window makes it the current one and submits the next.
//!
//! A call that is not sequential reads its pages, up to the maximum, and turns read-ahead off: the
//! window is forgotten. After 256 pages in windows that were wholly in memory, read-ahead stops until
//! a page is missing.
//!
//! Congestion cancels only ahead windows that the call does not reach into; they are tried again.

use super::machine::{Answer, Machine};
use super::mapped;
use super::ramp::Ramp;
use super::{Opened, Served};
use crate::depth::Depth;
use foreseek_units::{PageIndex, PageSpan, Pages, Span};

/// Pages in memory in a row after which read-ahead stops (`VM_MAX_CACHE_HIT`).
const IN_MEMORY: Pages = Pages(256);

/// The least that a lost page leaves of a window (`VM_MIN_READAHEAD`, 16 KiB).
const LEAST: Pages = Pages(4);

/// The machine.
pub(super) struct Linux2_6_18 {
    pub(super) depth: Box<dyn Depth>,
    pub(super) ramp: Ramp,
    /// What a page fault that misses reads.
    pub(super) around: Pages,
}

/// What is kept of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// Empty: there is none.
    current: PageSpan,
    ahead: Option<PageSpan>,
    /// The page after those of the last call, as far as they were looked at.
    expected: PageIndex,
    /// How many pages in memory windows have met in a row.
    met: Pages,
    /// Everything is in memory; read-ahead rests.
    resting: bool,
    /// A page was lost since the last window.
    lost: bool,
    faults: mapped::Classic,
}

impl Machine for Linux2_6_18 {
    type Stream = State;

    fn open(&self, _opened: &Opened) -> State {
        State::default()
    }

    fn touch(&mut self, state: &mut State, answer: &mut Answer<'_>) {
        let page = answer.page();
        if answer.touch.mapped {
            self.fault(state, answer);
            return;
        }
        if answer.touch.first || page == state.expected {
            self.call(state, answer);
        }
        if answer.missing() {
            state.lost = true;
            state.resting = false;
            state.met = Pages::ZERO;
        }
    }

    fn served(&mut self, served: Served) {
        self.depth.served(served);
    }
}

impl Linux2_6_18 {
    /// One look at the call: from its first page, or from where the last look ended.
    fn call(&mut self, state: &mut State, answer: &mut Answer<'_>) {
        let (mut page, mut request) = (answer.page(), answer.touch.request);
        // A call that begins in the middle of the page where the last one ended.
        if page.next() == state.expected {
            request -= Pages(1);
            if request.is_zero() {
                return;
            }
            page = page.next();
        }
        let sequential = page == state.expected;
        let most = answer.most(&mut *self.depth, page);
        let size = request.min(most);
        state.expected = page + size.max(Pages(1));
        if size.is_zero() || state.resting {
            state.expected = page.next();
            return;
        }
        if !sequential {
            state.off();
            self.read(state, answer, Span::at(page, size));
        } else if state.current.is_empty() {
            state.current = Span::at(page, self.ramp.first(initial(size, most), size, most));
            if self.read(state, answer, state.current) && request >= most {
                self.look_ahead(state, answer, true);
            }
        } else {
            self.go_on(state, answer);
        }
    }

    /// In sequence, with a window.
    fn go_on(&mut self, state: &mut State, answer: &mut Answer<'_>) {
        let mut tried = None;
        if state.ahead.is_none() {
            tried = Some(self.look_ahead(state, answer, false));
        }
        if let Some(ahead) = state.ahead.filter(|ahead| state.expected > ahead.start) {
            state.current = ahead;
            tried = Some(self.look_ahead(state, answer, false));
        } else if state.ahead.is_some() {
            return;
        }
        // What lies beyond the windows is looked at again when the call comes there.
        if let Some(end) = tried {
            state.expected = state.expected.min(end);
        }
    }

    /// Submits the window after the current one, unless the queue is congested and the call does not
    /// reach into it; `forced` where it is to be read in any case. Answers where that window ends.
    fn look_ahead(&mut self, state: &mut State, answer: &mut Answer<'_>, forced: bool) -> PageIndex {
        let start = state.current.end;
        let most = answer.most(&mut *self.depth, start);
        let window = Span::at(start, self.next(state, most));
        let reached = forced || state.expected > start;
        let sent = (reached || !answer.view.congested()) && self.read(state, answer, window);
        state.ahead = sent.then_some(window);
        window.end
    }

    fn next(&self, state: &mut State, most: Pages) -> Pages {
        let size = state.current.len();
        if std::mem::take(&mut state.lost) {
            return (size - Pages(2)).max(LEAST).min(most);
        }
        let stock = size * if size < most / 16 { 4 } else { 2 };
        self.ramp.next(stock.min(most), size, most)
    }

    /// Reads a window; answers false where read-ahead goes to rest because all is in memory.
    fn read(&self, state: &mut State, answer: &mut Answer<'_>, window: PageSpan) -> bool {
        if answer.read(window, None) {
            state.met = Pages::ZERO;
            return true;
        }
        state.met += window.len();
        if state.met >= IN_MEMORY {
            state.off();
            state.resting = true;
        }
        !state.resting
    }

    fn fault(&self, state: &mut State, answer: &mut Answer<'_>) {
        if state.faults.around(answer.missing()) && !answer.view.congested() {
            answer.read(mapped::centred(answer.page(), self.around), None);
        }
    }
}

impl State {
    fn off(&mut self) {
        self.current = Span::default();
        self.ahead = None;
        self.lost = false;
    }
}

/// The initial window of a call.
fn initial(request: Pages, most: Pages) -> Pages {
    let size = Pages(request.get().next_power_of_two());
    match size {
        size if size <= most / 32 => size * 4,
        size if size <= most / 4 => size * 2,
        _ => most,
    }
}
