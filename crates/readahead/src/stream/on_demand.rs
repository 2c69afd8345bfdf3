//! Today's on-demand read-ahead (Linux 2.6.23 to 6.x): one window for each stream, called on a miss
//! (synchronous) and at a marker page (asynchronous). In this order:
//!
//! 1. at the object's first page an initial window;
//! 2. at the window's marker or right past its end the next, larger window;
//! 3. at a marker of another stream's window: a window from the next missing page, at most the depth away,
//!    ramped up from the distance;
//! 4. a call that wants more than the depth, or one that follows the page touched last, begins an initial
//!    window;
//! 5. where more pages before the miss are cached than the call wants, a sequence is being read unseen: a
//!    window as long as those (twice where they reach the object's start) and the call together, marked at its
//!    last page;
//! 6. otherwise the call's pages alone, and the window stays as it is.
//!
//! An initial window is the call rounded up to a power of two. It is multiplied by four where it is at most a
//! 32nd of the depth, doubled up to a quarter, and otherwise is the depth. The next window is four times as
//! long below a sixteenth of the depth, twice as long up to half of it, and otherwise is the depth. A window
//! that begins at the page and would meet its marker at once includes the next one. The marker is the first
//! page beyond the call.
//!
//! Page faults read around: [`mapped::Modern`].
//!
//! Limits: one order of folios (single pages). No optimal I/O size of the device (`io_pages`), which lets a
//! call longer than the window read further at once. Congestion is ignored, as today's block layer has no
//! such state.

use super::machine::{Answer, Machine};
use super::mapped;
use super::prefetcher::Opened;
use crate::depth::{Depth, Ramp, Served};
use foreseek_units::{Instant, PageIndex, Pages, Span};

/// The window machine.
pub(super) struct OnDemand {
    pub(super) depth: Box<dyn Depth>,
    pub(super) ramp: Ramp,
    /// How much a page fault that misses reads.
    pub(super) around: Pages,
}

/// The window of one stream and the page that it touched last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    start: PageIndex,
    size: Pages,
    /// The part at its end that lies beyond the call; its first page is the marker.
    ahead: Pages,
    previous: Option<PageIndex>,
    faults: mapped::Modern,
}

impl Window {
    fn marker(&self) -> PageIndex {
        self.start + (self.size - self.ahead)
    }

    fn end(&self) -> PageIndex {
        self.start + self.size
    }

    /// Whether the stream is expected at this page.
    fn expects(&self, page: PageIndex) -> bool {
        !self.size.is_zero() && (page == self.marker() || page == self.end())
    }
}

impl Machine for OnDemand {
    type Stream = Window;

    fn open(&self, _opened: &Opened) -> Window {
        Window::default()
    }

    fn touch(&mut self, window: &mut Window, answer: &mut Answer<'_>) {
        let page = answer.page();
        if answer.touch.mapped {
            self.fault(window, answer);
        } else if answer.missing() {
            self.missed(window, answer);
        } else if answer.touch.marker {
            self.at_marker(window, answer);
        }
        window.previous = Some(page);
    }

    fn served(&mut self, _now: Instant, served: Served) {
        self.depth.served(served);
    }
}

impl OnDemand {
    fn missed(&mut self, window: &mut Window, answer: &mut Answer<'_>) {
        let (page, request) = (answer.page(), answer.touch.request);
        let most = answer.most(&mut *self.depth, page);
        let follows = window.previous.is_some_and(|previous| page.get().wrapping_sub(previous.get()) <= 1);
        if most.is_zero() {
            answer.read(Span::at(page, request), None);
            return;
        }
        if page == PageIndex::ZERO {
            self.begin(window, page, request, most);
        } else if window.expects(page) {
            self.go_on(window, most);
        } else if request > most || follows {
            self.begin(window, page, request, most);
        } else {
            let history = history(answer, most);
            if history <= request {
                answer.read(Span::at(page, request), None);
                return;
            }
            let twice = if history.get() >= page.get() { 2 } else { 1 };
            window.start = page;
            window.size = (history * twice + request).min(most);
            window.ahead = Pages(1);
        }
        self.submit(window, answer, most);
    }

    fn at_marker(&mut self, window: &mut Window, answer: &mut Answer<'_>) {
        let page = answer.page();
        let most = answer.most(&mut *self.depth, window.end().max(page));
        if most.is_zero() {
            return;
        }
        // A fault at a marker reads a whole window.
        let request = if answer.touch.mapped { self.around } else { answer.touch.request };
        if page == PageIndex::ZERO {
            self.begin(window, page, request, most);
        } else if window.expects(page) {
            self.go_on(window, most);
        } else {
            let near = Span::at(page.next(), most);
            let Some(hole) = near.iter().find(|at| !answer.view.cached(*at)) else { return };
            window.start = hole;
            window.size = self.next(hole - page + request, most);
            window.ahead = window.size;
        }
        self.submit(window, answer, most);
    }

    fn fault(&mut self, window: &mut Window, answer: &mut Answer<'_>) {
        let page = answer.page();
        let missing = answer.missing();
        if !window.faults.around(missing) {
            if !missing && answer.touch.marker {
                self.at_marker(window, answer);
            }
            return;
        }
        window.start = page - self.around / 2;
        window.size = self.around;
        window.ahead = self.around / 4;
        answer.read(Span::at(window.start, window.size), Some(window.marker()));
    }

    fn begin(&self, window: &mut Window, page: PageIndex, request: Pages, most: Pages) {
        window.start = page;
        window.size = self.ramp.first(initial(request, most), request, most);
        window.ahead = if window.size > request { window.size - request } else { window.size };
    }

    fn go_on(&self, window: &mut Window, most: Pages) {
        window.start = window.end();
        window.size = self.next(window.size, most);
        window.ahead = window.size;
    }

    /// Reads the window; if it begins here and would meet its marker at once, the next one is included.
    fn submit(&self, window: &mut Window, answer: &mut Answer<'_>, most: Pages) {
        if answer.page() == window.start && window.size == window.ahead {
            let more = self.next(window.size, most);
            if window.size + more <= most {
                window.ahead = more;
                window.size += more;
            } else {
                window.size = most;
                window.ahead = most / 2;
            }
        }
        let marker = (!window.ahead.is_zero()).then_some(window.marker());
        answer.read(Span::at(window.start, window.size), marker);
    }

    fn next(&self, size: Pages, most: Pages) -> Pages {
        let stock = match size {
            size if size < most / 16 => size * 4,
            size if size <= most / 2 => size * 2,
            _ => most,
        };
        self.ramp.next(stock, size, most)
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

/// How many pages right before the touched one are cached, up to the depth.
fn history(answer: &Answer<'_>, most: Pages) -> Pages {
    let before = (0..answer.page().get()).rev().take(most.get() as usize);
    Pages(before.take_while(|page| answer.view.cached(PageIndex(*page))).count() as u64)
}

#[cfg(test)]
mod tests {
    use crate::depth::PageMeasure;
    use crate::stream::Settings;
    use crate::stream::testing::{Window, World};

    fn world(length: u64) -> World {
        World::new("on-demand", &Settings::default(), length)
    }

    /// As traced on Linux with `read_ahead_kb` 128.
    #[test]
    fn golden_a_sequential_reader_gets_4_8_16_32() {
        let windows: Vec<Window> = world(1000).pages(0..130);
        assert_eq!(windows, [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32), (92, 32), (124, 32), (156, 32)]);
    }

    #[test]
    fn golden_calls_of_64_kib() {
        let mut world = world(1000);
        assert_eq!(world.call(0, 16), [(0, 32)]);
        assert_eq!(world.call(16, 16), [(32, 32)]);
        assert_eq!(world.call(32, 16), [(64, 32)]);
    }

    #[test]
    fn the_initial_window_depends_on_the_call() {
        for (request, window) in
            [(1, 4), (2, 4), (3, 8), (4, 8), (5, 16), (8, 16), (9, 32), (16, 32), (40, 32)]
        {
            assert_eq!(world(1000).call(0, request)[0], (0, window), "a call of {request}");
        }
    }

    #[test]
    fn at_the_windows_end_the_next_one_is_larger() {
        let mut world = world(1000);
        world.call(0, 1);
        // The marker at page 1 is skipped; page 4 is right past the window.
        assert_eq!(world.call(4, 1), [(4, 24)], "eight, and the next sixteen included");
    }

    #[test]
    fn a_random_read_reads_itself_alone_and_keeps_the_window() {
        let mut world = world(5000);
        world.call(0, 1);
        assert_eq!(world.call(1000, 4), [(1000, 4)]);
        assert_eq!(world.call(1, 1), [(4, 8)], "the marker still has its window");
    }

    #[test]
    fn a_marker_of_anothers_window_ramps_up_what_lies_between() {
        let mut world = world(5000);
        world.call(0, 1);
        world.call(1, 1);
        // Pages 4 to 11 are the window, marked at 4. A second reader begins elsewhere...
        assert_eq!(world.call(2000, 64)[0], (2000, 32));
        // ... and the first returns to a marker that the window no longer has. Pages to 11 are cached: eight
        // from the marker to the hole, and the page itself; doubled.
        assert_eq!(world.call(4, 1), [(12, 18)]);
    }

    #[test]
    fn a_marker_without_a_hole_within_the_depth_does_nothing() {
        let mut world = world(5000);
        world.call(0, 1);
        world.call(2000, 64);
        world.memory.cached.extend(0..100);
        assert_eq!(world.call(1, 1), []);
    }

    #[test]
    fn a_call_that_is_longer_than_the_depth_begins_a_window() {
        // Marked at its half, then at the start of each window after it.
        assert_eq!(world(5000).call(500, 64), [(500, 32), (532, 32), (564, 32)]);
    }

    #[test]
    fn a_read_after_the_last_one_begins_a_window() {
        let mut world = world(5000);
        assert_eq!(world.call(99, 1), [(99, 1)]);
        assert_eq!(world.call(100, 1), [(100, 4)]);
        world.evict([100]);
        assert_eq!(world.call(100, 1), [(100, 4)], "the same page again counts as following");
    }

    #[test]
    fn pages_in_memory_before_a_miss_show_a_sequence() {
        let mut world = world(5000);
        world.call(7, 1);
        world.memory.cached.extend(44..50);
        assert_eq!(world.call(50, 1), [(50, 7)]);
        let mut world = self::world(5000);
        world.memory.cached.extend(0..10);
        assert_eq!(world.call(10, 1), [(10, 21)], "twice as much where they reach the start");
        let mut world = self::world(5000);
        world.memory.cached.extend(88..90);
        assert_eq!(world.call(90, 2), [(90, 2)], "not more of them than the call wants");
    }

    #[test]
    fn a_read_of_everything_in_memory_reads_nothing() {
        let mut world = world(100);
        world.memory.cached.extend(0..100);
        assert_eq!(world.pages(0..100), []);
    }

    #[test]
    fn faults_read_around_with_a_marker_at_three_quarters() {
        let mut world = world(5000);
        assert_eq!(world.faults([100]), [(84, 32)]);
        assert_eq!(world.faults([90, 107]), []);
        assert_eq!(world.faults([108]), [(116, 32)], "the marker");
        assert_eq!(world.faults([5]), [(0, 32)]);
    }

    #[test]
    fn after_a_hundred_missing_faults_more_than_hits_they_read_alone() {
        let mut world = world(1 << 20);
        for fault in 0..100 {
            assert_eq!(world.faults([1000 + 100 * fault])[0].1, 32, "fault {fault}");
        }
        assert_eq!(world.faults([500_000]), [(500_000, 1)]);
        world.faults([500_000]);
        assert_eq!(world.faults([600_000]), [(600_000, 1)], "down to a hundred and up again");
        world.faults([500_000, 600_000]);
        assert_eq!(world.faults([700_000])[0].1, 32);
    }

    #[test]
    fn competitive_depth_in_this_machine_starts_slowly_and_doubles() {
        let settings = Settings { page_measure: PageMeasure::Paper, ..Settings::default() };
        let windows = World::new("competitive", &settings, 2000).pages(0..500);
        let sizes: Vec<u64> = windows.iter().map(|window| window.1).collect();
        assert_eq!(sizes[..6], [16, 32, 64, 98, 98, 98]);
    }
}
