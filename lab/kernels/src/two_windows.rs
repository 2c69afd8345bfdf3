//! The read-ahead of Linux 2.6.0 to 2.6.10: two windows a stream, called for every page.
//!
//! The reader walks the *current* window while the *ahead* window is on its way; at the first page of
//! the ahead window that one becomes current, and the next page starts a new one. `next` is the size
//! of the window to come; it moves with every page:
//!
//! - the first page of a stream reads a current window of half the maximum;
//! - a page within the current window or right past it (a *hit*) adds 2 to `next`, any other one
//!   takes 2 off; it is cut at the maximum, and at zero or below read-ahead turns off;
//! - a page within the current window submits the ahead window, if there is none and the generation's
//!   rule ([`Rules::ahead`]) says so;
//! - a page outside that is not the ahead window's first begins a new current window, as long as the
//!   generation's rule ([`Rules::current`]) says;
//! - a window that is wholly in memory makes `next` one less than it was before the touch, and turns
//!   read-ahead off where that was 1 (the first window excepted);
//! - a page that is missing after all that (it was read ahead and evicted, or the queue was
//!   congested) takes 3 off `next`, down to 4 at least;
//! - off, as many missing pages in sequence as the maximum turn it on again, at the maximum; one out
//!   of sequence takes one back;
//! - a page that is the one touched last changes nothing.
//!
//! What a congested queue cancels, and whether the descriptors record it, is the rule of [`Congestion`]. Where
//! they do, an ahead window stays unsubmitted and is tried again at the next page, and a current
//! window becomes the one page that its reader demands, so that the next page continues it.
//!
//! Where the papers change the depth ([`Ramp`] not stock), hits no longer add to `next`: it doubles
//! with each window submitted (slow start) or is the full depth, and the sequential continuation of a
//! window takes it as it is. All else stays (EuroSys'07 section 5: "we have not modified other
//! aspects"). The maximum is what the depth rule gives for the place of the window, asked when it is
//! submitted.

use crate::Congestion;
use foreseek_readahead::depth::Depth;
use foreseek_readahead::stream::machine::{Answer, Machine};
use foreseek_readahead::stream::mapped;
use foreseek_readahead::stream::{Opened, Ramp, Served};
use foreseek_units::{Instant, PageIndex, PageSpan, Pages, Span};

/// The shortest `next` after a page was evicted before use (`VM_MIN_READAHEAD`, 16 KiB).
const LEAST: Pages = Pages(4);

/// The rules in which the generations differ.
pub(crate) trait Rules: Send + Sync {
    /// What a stream keeps for it.
    type Memory: Send;

    /// A stream whose first window is `first` long.
    fn open(&self, first: Pages) -> Self::Memory;
    /// A page within the current window or right past it.
    fn hit(&self, memory: &mut Self::Memory, most: Pages);
    /// A page elsewhere.
    fn miss(&self, memory: &mut Self::Memory);
    /// How long a new current window is. `used`: the used part of the last one, if the previous page lay in it
    /// and this one does not continue it; `next`: the size of the window to come.
    fn current(&self, memory: &Self::Memory, used: Option<Pages>, next: Pages, most: Pages) -> Pages;
    /// Whether an ahead window is to be submitted.
    fn ahead(&self, memory: &Self::Memory, most: Pages) -> bool;
    /// Read-ahead is turned on again.
    fn resume(&self, memory: &mut Self::Memory, most: Pages);
    /// What a page fault that misses reads, in a kernel with this window size.
    fn around(&self, page: PageIndex, size: Pages) -> PageSpan;
}

/// The machine.
pub(crate) struct TwoWindows<R> {
    pub(crate) rules: R,
    pub(crate) depth: Box<dyn Depth>,
    pub(crate) ramp: Ramp,
    /// The kernel's own window, for page faults.
    pub(crate) around: Pages,
    /// What a congested queue cancels.
    pub(crate) congestion: Congestion,
}

/// How long the window to come is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing was touched.
    Unset,
    Size(Pages),
    /// Turned off; how many missing pages came in sequence since.
    Off(Pages),
}

/// What is kept of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State<M> {
    current: PageSpan,
    ahead: Option<PageSpan>,
    next: Next,
    /// The page touched last; before the first touch the object's first page, as in the kernels.
    previous: PageIndex,
    /// What the depth rule gave last.
    most: Pages,
    /// The current window is one page because congestion cancelled it.
    cancelled: bool,
    memory: Option<M>,
    faults: mapped::Classic,
}

/// What became of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Started,
    InMemory,
    Congested,
}

impl<R: Rules> Machine for TwoWindows<R> {
    type Stream = State<R::Memory>;

    fn open(&self, _opened: &Opened) -> Self::Stream {
        State {
            current: Span::default(),
            ahead: None,
            next: Next::Unset,
            previous: PageIndex::ZERO,
            most: Pages::ZERO,
            cancelled: false,
            memory: None,
            faults: mapped::Classic::default(),
        }
    }

    fn touch(&mut self, state: &mut Self::Stream, answer: &mut Answer<'_>) {
        if answer.touch.mapped {
            self.fault(state, answer);
            return;
        }
        let cancelled = self.advance(state, answer);
        // A page that was never requested was not evicted.
        let untried = cancelled && self.congestion.is_noted() && self.congestion.cancels_current();
        if answer.missing() && !untried {
            self.lost(state, answer);
        }
    }

    fn served(&mut self, _now: Instant, served: Served) {
        self.depth.served(served);
    }
}

impl<R: Rules> TwoWindows<R> {
    /// Moves the windows; returns whether congestion cancelled one.
    fn advance(&mut self, state: &mut State<R::Memory>, answer: &mut Answer<'_>) -> bool {
        let page = answer.page();
        match state.next {
            Next::Unset => self.begin(state, answer),
            _ if page == state.previous => false,
            Next::Off(_) => false,
            Next::Size(before) => {
                let hit = state.current.contains(page) || page == state.current.end;
                let previous = std::mem::replace(&mut state.previous, page);
                self.judge(state, before, hit);
                let Next::Size(next) = state.next else { return false };
                if state.current.contains(page) {
                    return self.look_ahead(state, answer, before, next);
                }
                if let Some(ahead) = state.ahead.take().filter(|ahead| ahead.start == page) {
                    state.current = ahead;
                    state.cancelled = false;
                    return false;
                }
                self.renew(state, answer, before, next, previous)
            }
        }
    }

    /// The first page of the stream.
    fn begin(&mut self, state: &mut State<R::Memory>, answer: &mut Answer<'_>) -> bool {
        let page = answer.page();
        state.most = answer.most(&mut *self.depth, page);
        if state.most.is_zero() {
            return false;
        }
        let first = self.ramp.first((state.most / 2).max(Pages(1)), Pages::ZERO, state.most);
        state.memory = Some(self.rules.open(first));
        state.next = Next::Size(first);
        state.previous = page;
        state.current = Span::at(page, first);
        let sent = self.submit(state, answer, state.current, self.congestion.cancels_current());
        self.cancelled(state, page, sent)
    }

    /// A page changes the size of the window to come.
    fn judge(&mut self, state: &mut State<R::Memory>, before: Pages, hit: bool) {
        if let Some(memory) = &mut state.memory {
            if hit { self.rules.hit(memory, state.most) } else { self.rules.miss(memory) }
        }
        let next = match (hit, self.ramp) {
            (true, Ramp::Stock) => before + Pages(2),
            (true, Ramp::SlowStart(_)) => before,
            (true, Ramp::Full) => state.most,
            (false, _) => before - Pages(2),
        };
        state.next = if next.is_zero() { Next::Off(Pages::ZERO) } else { Next::Size(next.min(state.most)) };
        if next.is_zero() {
            state.current.end = state.current.start;
        }
    }

    /// Within the current window: an ahead window may be due.
    fn look_ahead(
        &mut self,
        state: &mut State<R::Memory>,
        answer: &mut Answer<'_>,
        before: Pages,
        next: Pages,
    ) -> bool {
        let due = state.memory.as_ref().is_some_and(|memory| self.rules.ahead(memory, state.most));
        if state.ahead.is_some() || !due {
            return false;
        }
        state.most = answer.most(&mut *self.depth, state.current.end);
        let window = Span::at(state.current.end, next.min(state.most));
        let sent = self.submit(state, answer, window, self.congestion.cancels_ahead());
        if sent == Sent::Congested && self.congestion.is_noted() {
            return true;
        }
        state.ahead = Some(window);
        if sent != Sent::Started {
            self.in_memory(state, before);
        }
        sent == Sent::Congested
    }

    /// Outside both windows: a new current one.
    fn renew(
        &mut self,
        state: &mut State<R::Memory>,
        answer: &mut Answer<'_>,
        before: Pages,
        next: Pages,
        previous: PageIndex,
    ) -> bool {
        let page = answer.page();
        state.most = answer.most(&mut *self.depth, page);
        let continues = page == state.current.end && previous.next() == page;
        let used = (state.current.contains(previous) && !continues && !state.cancelled)
            .then(|| previous.next() - state.current.start);
        let size = match &state.memory {
            Some(memory) if self.ramp == Ramp::Stock || !continues => {
                self.rules.current(memory, used, next, state.most)
            }
            _ => next,
        };
        let size = size.min(state.most);
        state.next = Next::Size(size);
        state.current = Span::at(page, size);
        let sent = self.submit(state, answer, state.current, self.congestion.cancels_current());
        if sent != Sent::Started && !(sent == Sent::Congested && self.congestion.is_noted()) {
            self.in_memory(state, before);
        }
        self.cancelled(state, page, sent)
    }

    /// Reads a window, unless the congested queue cancels it; the next one is larger.
    fn submit(
        &self,
        state: &mut State<R::Memory>,
        answer: &mut Answer<'_>,
        window: PageSpan,
        cancels: bool,
    ) -> Sent {
        if cancels && answer.view.congested() {
            return Sent::Congested;
        }
        if let Next::Size(next) = state.next {
            state.next = Next::Size(self.ramp.next(next, window.len(), state.most));
        }
        if answer.read(window, None) { Sent::Started } else { Sent::InMemory }
    }

    /// Records whether the new current window was cancelled; returns the same.
    fn cancelled(&self, state: &mut State<R::Memory>, page: PageIndex, sent: Sent) -> bool {
        let congested = sent == Sent::Congested;
        state.cancelled = congested && self.congestion.is_noted();
        if state.cancelled {
            state.current = Span::at(page, Pages(1));
        }
        congested
    }

    /// A window read nothing: `before` is the size that `next` had before this touch.
    fn in_memory(&self, state: &mut State<R::Memory>, before: Pages) {
        if before > Pages(1) {
            let next = before - Pages(1);
            state.next = Next::Size(next);
            if let Some(ahead) = &mut state.ahead {
                *ahead = Span::at(ahead.start, next);
            }
        } else {
            state.next = Next::Off(Pages::ZERO);
            state.current.end = state.current.start;
        }
    }

    /// The page is missing: it was evicted before its use, or nothing was read ahead.
    fn lost(&mut self, state: &mut State<R::Memory>, answer: &mut Answer<'_>) {
        match state.next {
            Next::Unset => {}
            Next::Size(next) => state.next = Next::Size((next - Pages(3)).max(LEAST)),
            Next::Off(run) => {
                let page = answer.page();
                let sequential = page == state.previous.next();
                state.previous = page;
                let run = if sequential { run + Pages(1) } else { run - Pages(1) };
                state.next = Next::Off(run);
                state.most = answer.most(&mut *self.depth, page);
                if run >= state.most {
                    state.current = Span::new(page - state.most, page);
                    state.ahead = None;
                    state.next = Next::Size(state.most);
                    if let Some(memory) = &mut state.memory {
                        self.rules.resume(memory, state.most);
                    }
                }
            }
        }
    }

    fn fault(&self, state: &mut State<R::Memory>, answer: &mut Answer<'_>) {
        let cancelled = self.congestion.cancels_ahead() && answer.view.congested();
        if state.faults.around(answer.missing()) && !cancelled {
            answer.read(self.rules.around(answer.page(), self.around), None);
        }
    }
}
