//! Reading ahead behind another cache that passes its misses on: the view of a FUSE server.
//!
//! The cache in front (a kernel's page cache with its own read-ahead) shows each page once, in calls that may
//! overtake each other, and hides the pages that it still has. A stream is therefore followed as up to
//! [`RUNS`] *runs*, each with the page that it has reached:
//!
//! - A call that begins where a run has reached continues it. So does a call that begins at most [`JUMP`]
//!   pages beyond, if the cache in front was given the pages between or they are in flight. So does a call
//!   that begins at most [`BACK`] pages before, if the run was read ahead.
//! - Any other call begins a new run in place of the least recently used one, and reads only its own pages: a
//!   random read wastes nothing. A call at the object's first page counts as the beginning of a sequence, as
//!   in kernels.
//!
//! A run reads ahead when one of its pages is missing, from that page on. It reads a window of the first size
//! (slow start's 16 pages, or the call), then windows that grow by the ramp up to the depth. When the reader
//! enters the last window, the next one is fetched, as in the kernels of the papers. The head is then still
//! near.
//!
//! In virtual time 4 to 16 readers of whole files got 30 to 50 % more than from windows that were requested
//! when the last one was used up. (The drive had a queue under mq-deadline.) For parts of files it was 14 to
//! 31 %, although more is fetched unused: up to two depths for each stream. The call that begins a run is
//! followed by no second window, as no sequence is known yet.
//!
//! Limits: calls of the cache in front count as calls of its reader, although its read-ahead requests up to
//! two windows more.

use super::machine::{Answer, Machine};
use super::prefetcher::{Found, Opened};
use crate::depth::{Depth, Ramp, Served};
use foreseek_units::{Instant, PageIndex, PageSpan, Pages, Span};

/// Sequences that are followed within one stream: a few threads that read parts of one file through one
/// descriptor, and the islands that calls out of order form.
const RUNS: usize = 4;

/// How far a call may lie beyond the end of its run, over pages that are known to have passed: four windows
/// of a kernel's read-ahead. A farther one begins anew, at the cost of one slow start.
const JUMP: Pages = Pages(128);

/// How far before the end of its run a call may begin: two windows of a kernel's read-ahead, the most that it
/// has in flight.
const BACK: Pages = Pages(64);

/// The window machine.
pub(super) struct Behind {
    pub(super) depth: Box<dyn Depth>,
    pub(super) ramp: Ramp,
}

/// A sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    /// The first page called for.
    start: PageIndex,
    /// The page after the last one called for.
    reached: PageIndex,
    /// The last window; empty before the first.
    window: PageSpan,
    /// The intended length of the last window.
    size: Pages,
    /// The number of the call that last used it; 0: never used.
    used: u64,
}

impl Sequence {
    /// Whether it was read ahead.
    fn is_followed(&self) -> bool {
        !self.size.is_zero()
    }

    /// Whether a call that begins at this page belongs to it, although the run has not reached that page or
    /// has passed it.
    fn is_near(&self, page: PageIndex, answer: &Answer<'_>) -> bool {
        let (before, beyond) = (self.reached - page, page - self.reached);
        let passed = |page| answer.view.cached(page) || answer.view.delivered(page);
        self.is_followed()
            && before <= BACK
            && beyond <= JUMP
            && Span::new(self.reached, page).iter().all(passed)
    }
}

/// The runs of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequences {
    runs: [Sequence; RUNS],
    calls: u64,
    /// The run of the current call.
    at: usize,
    /// The page of the current call from which it advances its run; none for a call that begins a run.
    front: Option<PageIndex>,
    /// Whether the current call continues a run, and has found its pages so far.
    goes_on: bool,
}

impl Machine for Behind {
    type Stream = Sequences;

    fn open(&self, _opened: &Opened) -> Sequences {
        Sequences::default()
    }

    fn touch(&mut self, runs: &mut Sequences, answer: &mut Answer<'_>) {
        if answer.touch.first {
            runs.call(answer);
        }
        let (page, request) = (answer.page(), answer.touch.request);
        let front = runs.front.is_some_and(|front| page >= front);
        let goes_on = runs.goes_on;
        let run = &mut runs.runs[runs.at];
        if answer.missing() {
            let most = answer.most(&mut *self.depth, page);
            if !front || most.is_zero() {
                answer.read(Span::at(page, request), None);
                return;
            }
            let size = self.size(run, answer, most);
            run.size = size;
            run.window = Span::at(page, size.max(request));
            answer.read(run.window, None);
            // One window for each call is enough at the beginning.
            runs.goes_on = false;
        } else if front && goes_on && run.window.contains(page) {
            let start = run.window.end;
            let most = answer.most(&mut *self.depth, start);
            let size = self.size(run, answer, most);
            let window = Span::at(start, size);
            if !most.is_zero() && answer.read(window, None) {
                (run.size, run.window) = (size, window);
            }
        }
    }

    fn served(&mut self, _now: Instant, served: Served) {
        self.depth.served(served);
    }
}

impl Behind {
    /// The length of the next window of a run.
    fn size(&self, run: &Sequence, answer: &Answer<'_>, most: Pages) -> Pages {
        let request = answer.touch.request;
        if !run.is_followed() {
            self.ramp.first(most, request, most)
        } else if answer.touch.found == Found::Thrashed {
            // Read-ahead was evicted before its use: the window does not grow.
            run.size.min(most)
        } else {
            self.ramp.next(most, run.size, most)
        }
    }
}

impl Sequences {
    /// A call: finds its run, or begins one.
    fn call(&mut self, answer: &Answer<'_>) {
        let page = answer.page();
        let end = page + answer.touch.request;
        self.calls += 1;
        let found = (0..RUNS).find(|at| self.runs[*at].used > 0 && self.runs[*at].reached == page);
        let found = found.or_else(|| (0..RUNS).find(|at| self.runs[*at].is_near(page, answer)));
        self.at = found.unwrap_or_else(|| self.oldest());
        let run = &mut self.runs[self.at];
        if found.is_none() {
            *run = Sequence { start: page, reached: page, ..Sequence::default() };
        }
        self.goes_on = found.is_some();
        self.front = (found.is_some() || page == PageIndex::ZERO).then_some(run.reached);
        run.reached = run.reached.max(end);
        run.used = self.calls;
        self.join();
    }

    /// Merges an island that the run has reached.
    fn join(&mut self) {
        let reached = self.runs[self.at].reached;
        for other in 0..RUNS {
            let island = self.runs[other];
            let is_island = other != self.at && island.used > 0 && !island.is_followed();
            if is_island && island.start == reached {
                self.runs[self.at].reached = island.reached;
                self.runs[other] = Sequence::default();
            }
        }
    }

    fn oldest(&self) -> usize {
        (0..RUNS).min_by_key(|at| self.runs[*at].used).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use crate::stream::testing::{Window, World};
    use crate::stream::{Generation, Settings};
    use foreseek_units::Pages;

    /// A competitive depth of 95 pages.
    fn world() -> World {
        let settings = Settings { generation: Generation::BEHIND, ..Settings::default() };
        World::new("competitive", &settings, 5000)
    }

    fn calls(world: &mut World, calls: &[Window]) -> Vec<Window> {
        calls.iter().flat_map(|(page, pages)| world.call(*page, *pages)).collect()
    }

    /// Calls of Linux 6.x for a reader of 4 KiB pages from the first one on.
    #[test]
    fn golden_a_file_read_from_its_start() {
        let kernel =
            [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32), (92, 32), (124, 32), (156, 32), (188, 32)];
        let windows = calls(&mut world(), &kernel);
        assert_eq!(windows, [(0, 16), (16, 32), (48, 64), (112, 95), (207, 95), (302, 95)]);
    }

    #[test]
    fn a_random_call_reads_itself_alone() {
        let random = [(700, 1), (90, 1), (4001, 16), (333, 1), (2000, 1), (702, 1), (91, 2)];
        assert_eq!(calls(&mut world(), &random[..6]), random[..6], "{random:?}");
        assert_eq!(calls(&mut world(), &random[1..2]), [(90, 1)]);
        // A call that begins where an earlier one ended is a sequence.
        assert_eq!(calls(&mut world(), &[(90, 1), (4001, 16), (91, 2)]), [(90, 1), (4001, 16), (91, 16)]);
    }

    #[test]
    fn calls_may_overtake_each_other() {
        let windows = calls(&mut world(), &[(0, 4), (12, 4), (4, 8), (28, 32), (16, 12), (60, 32)]);
        // 12 lies in the first window, 28 in the second; 4 and 16 come late and find their pages.
        assert_eq!(windows, [(0, 16), (16, 32), (48, 64), (112, 95)]);
        // Before anything is read ahead, an island is joined when the sequence reaches it.
        assert_eq!(
            calls(&mut world(), &[(500, 8), (516, 8), (508, 8), (524, 8)]),
            [(500, 8), (516, 8), (508, 16), (524, 32)]
        );
    }

    #[test]
    fn pages_that_the_cache_in_front_has_are_jumped_over() {
        let mut world = world();
        calls(&mut world, &[(0, 16), (16, 32)]);
        world.memory.delivered.extend(48..90);
        assert_eq!(world.call(90, 8), [(90, 64)]);
        assert_eq!(world.call(200, 8), [(200, 8)], "a gap that was not filled");
    }

    #[test]
    fn several_sequences_in_one_file_are_told_apart() {
        let mut world = world();
        for round in 0..40 {
            for reader in 0..4 {
                let windows = world.call(1000 * reader + 100 + 8 * round, 8);
                let expected = (round == 0).then_some((1000 * reader + 100, 8));
                assert!(round > 0 || windows.first() == expected.as_ref(), "{windows:?}");
                assert!(round == 0 || windows.iter().all(|window| window.1 >= 16), "{windows:?}");
            }
        }
    }

    #[test]
    fn the_next_window_is_read_when_the_reader_comes_into_the_last() {
        let mut world = world();
        assert_eq!(world.call(0, 4), [(0, 16)]);
        assert_eq!(world.call(4, 4), [(16, 32)]);
        assert_eq!(world.call(8, 8), [], "not two of them");
        assert_eq!(world.call(16, 4), [(48, 64)]);
        assert_eq!(world.call(20, 28), []);
        assert_eq!(world.call(48, 1), [(112, 95)]);
    }

    #[test]
    fn a_window_that_did_not_last_is_not_followed_by_a_longer_one() {
        let mut world = world();
        calls(&mut world, &[(0, 16), (16, 8)]);
        world.evict(24..48);
        assert_eq!(world.call(24, 8), [(24, 32)]);
    }

    #[test]
    fn memory_bounds_the_windows() {
        let mut world = world();
        world.memory.bound = Some(Pages(20));
        assert_eq!(calls(&mut world, &[(0, 8), (8, 8), (16, 8)]), [(0, 16), (16, 20), (36, 20)]);
    }
}
