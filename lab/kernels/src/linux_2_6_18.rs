//! The read-ahead of Linux 2.6.18, on which ATC'08 measured. It is called once for each call that reads, and
//! within a long call again at the page where it left off.
//!
//! A call is sequential where it begins right after the pages of the one before (the first one at
//! the object's start). Then:
//!
//! - without a window: an initial one, the call rounded up to a power of two, times four where that
//!   is at most a 32nd of the maximum, times two up to a quarter, else the maximum; with a call of at
//!   least the maximum the ahead window follows at once;
//! - with a window and none ahead: the ahead window, four times as long below a sixteenth of the
//!   maximum, else twice, at most the maximum; two pages shorter instead, and at least 4, after a page
//!   was evicted before use;
//! - a call that reaches into the ahead window makes it the current one and submits the next.
//!
//! A call that is not sequential reads its pages, up to the maximum, and turns read-ahead off: the
//! window is forgotten. After 256 pages in windows that were wholly in memory, read-ahead stops until
//! a page is missing.
//!
//! Congestion cancels only ahead windows that the call does not reach into; they are tried again.

use foreseek_readahead::depth::Depth;
use foreseek_readahead::stream::machine::{Answer, Machine};
use foreseek_readahead::stream::mapped;
use foreseek_readahead::stream::{Opened, Ramp, Served};
use foreseek_units::{Instant, PageIndex, PageSpan, Pages, Span};

/// Pages in memory in a row after which read-ahead stops (`VM_MAX_CACHE_HIT`).
const IN_MEMORY: Pages = Pages(256);

/// The shortest window after a page was evicted before use (`VM_MIN_READAHEAD`, 16 KiB).
const LEAST: Pages = Pages(4);

/// The machine.
pub(crate) struct Linux2_6_18 {
    pub(crate) depth: Box<dyn Depth>,
    pub(crate) ramp: Ramp,
    /// What a page fault that misses reads.
    pub(crate) around: Pages,
}

/// What is kept of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// Empty: there is none.
    current: PageSpan,
    ahead: Option<PageSpan>,
    /// The page after those of the last call, as far as they were seen.
    expected: PageIndex,
    /// How many pages in a row the windows have found in memory.
    met: Pages,
    /// Everything is in memory; read-ahead is stopped.
    resting: bool,
    /// A page was evicted before use since the last window.
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

    fn served(&mut self, _now: Instant, served: Served) {
        self.depth.served(served);
    }
}

impl Linux2_6_18 {
    /// Handles the call, from its first page or from where it left off.
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
        // What lies beyond the windows is handled when the call reaches it.
        if let Some(end) = tried {
            state.expected = state.expected.min(end);
        }
    }

    /// Submits the window after the current one, unless the queue is congested and the call does not reach into
    /// it; with `forced` in any case. Returns where that window ends.
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

    /// Reads a window; returns false where read-ahead stops because all is in memory.
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

#[cfg(test)]
mod tests {
    use crate::Settings;
    use crate::testing::{Window, World, reading};

    fn world(length: u64) -> World {
        reading("linux-2.6.18", &Settings::default(), length)
    }

    fn singles(pages: std::ops::Range<u64>) -> Vec<Window> {
        pages.map(|page| (page, 1)).collect()
    }

    #[test]
    fn golden_a_sequential_reader_gets_4_8_16_32() {
        let mut world = world(1000);
        assert_eq!(world.pages([0]), [(0, 4)]);
        assert_eq!(world.pages([1]), [(4, 8)], "from the second call on");
        assert_eq!(world.pages(2..5), [(12, 16)]);
        assert_eq!(world.pages(5..93), [(28, 32), (60, 32), (92, 32), (124, 32)]);
    }

    #[test]
    fn golden_calls_of_64_kib() {
        let mut world = world(1000);
        assert_eq!(world.call(0, 16), [(0, 32)]);
        assert_eq!(world.call(16, 16), [(32, 32)]);
        assert_eq!(world.call(32, 16), [(64, 32)]);
        assert_eq!(world.call(48, 16), []);
        assert_eq!(world.call(64, 16), [(96, 32)]);
    }

    #[test]
    fn the_initial_window_goes_by_the_call() {
        for (request, window) in [(1, 4), (2, 4), (3, 8), (5, 16), (8, 16), (9, 32), (16, 32)] {
            assert_eq!(world(1000).call(0, request), [(0, window)], "a call of {request}");
        }
    }

    #[test]
    fn windows_below_a_sixteenth_of_the_maximum_grow_four_times() {
        use foreseek_units::Pages;
        let mut settings = Settings::default();
        settings.stream.window = Pages(128);
        let mut world = reading("linux-2.6.18", &settings, 5000);
        assert_eq!(world.pages(0..5), [(0, 4), (4, 16), (20, 32)]);
    }

    #[test]
    fn a_call_as_long_as_the_maximum_gets_the_ahead_window_at_once() {
        let mut world = world(1000);
        assert_eq!(world.call(0, 32), [(0, 32), (32, 32)]);
    }

    #[test]
    fn a_long_call_is_looked_at_again_where_the_look_before_ended() {
        assert_eq!(world(1000).call(0, 96), [(0, 32), (32, 32), (64, 32), (96, 32)]);
    }

    #[test]
    fn a_call_out_of_sequence_reads_itself_and_turns_read_ahead_off() {
        let mut world = world(5000);
        assert_eq!(world.call(100, 8), [(100, 8)], "not at the start: not sequential");
        assert_eq!(world.call(108, 8), [(108, 16)], "the first call in sequence");
        assert_eq!(world.call(116, 8), [(124, 32)]);
        assert_eq!(world.call(3000, 4), [(3000, 4)]);
        assert_eq!(world.call(3004, 4), [(3004, 8)], "begins anew");
    }

    #[test]
    fn a_long_call_out_of_sequence_reads_the_maximum_and_goes_on_in_sequence() {
        assert_eq!(world(5000).call(500, 64), [(500, 32), (532, 32), (564, 32)]);
    }

    #[test]
    fn a_call_that_begins_in_the_last_ones_page_goes_on_from_the_next() {
        let mut world = world(5000);
        world.call(0, 2);
        assert_eq!(world.call(1, 1), [], "nothing new");
        assert_eq!(world.call(1, 2), [(4, 8)], "page 2 follows page 1");
    }

    #[test]
    fn after_256_pages_in_memory_it_rests_until_one_is_missing() {
        let mut world = world(5000);
        world.memory.cached.extend(0..5000);
        // 4 + 8 + 16 + 8 x 32 = 284 when the window at page 252 is looked at.
        assert_eq!(world.pages(0..400), []);
        world.evict(600..700);
        assert_eq!(world.pages(400..600), []);
        assert_eq!(world.pages([600]), [(600, 1)], "resting: the page alone");
        assert_eq!(world.pages([601]), [(601, 4)], "awake: the first call in sequence");
    }

    #[test]
    fn before_256_pages_in_memory_it_looks_on() {
        let mut world = world(5000);
        world.memory.cached.extend(0..124);
        assert_eq!(world.pages(0..93), [(124, 32)]);
    }

    #[test]
    fn a_lost_page_makes_the_next_window_two_pages_shorter() {
        let mut world = world(1000);
        world.pages(0..29);
        world.evict([29]);
        assert_eq!(world.pages([29]), [(29, 1)]);
        assert_eq!(world.pages(30..61), [(92, 30)]);
        assert_eq!(world.pages(61..93), [(122, 32)], "and only the next");
    }

    #[test]
    fn thrashing_leaves_four_pages_at_least() {
        let mut world = world(1000);
        world.pages([0]);
        world.evict(0..4);
        let mut windows = vec![(4, 8), (1, 1), (2, 1), (3, 1)];
        windows.push((12, 6));
        assert_eq!(world.pages(1..5), windows);
        world.evict(5..12);
        let mut windows = singles(5..12);
        windows.push((18, 4));
        assert_eq!(world.pages(5..13), windows);
    }

    #[test]
    fn congestion_cancels_only_what_the_call_does_not_reach() {
        let mut world = world(1000);
        world.pages([0]);
        world.memory.congested = true;
        assert_eq!(world.pages(1..3), []);
        world.memory.congested = false;
        assert_eq!(world.pages([3]), [(4, 8)], "tried again");
        world.memory.congested = true;
        assert_eq!(world.pages(4..12), []);
        assert_eq!(world.pages([12]), [(12, 16)], "the call needs it");
        assert_eq!(world.call(500, 4), [(500, 4)]);
    }

    #[test]
    fn faults_read_a_window_with_the_page_in_its_middle() {
        let mut world = world(1000);
        assert_eq!(world.faults([100, 101, 200]), [(84, 32), (184, 32)]);
    }
}
