//! Reading ahead behind another cache, which passes on what it misses: a FUSE server's view.
//!
//! The cache in front (a kernel's page cache with its own read-ahead) shows each page once, in calls
//! that may overtake each other, and hides what it still has. So a stream is followed as up to
//! [`RUNS`] *runs*, each with the page that it has reached:
//!
//! - a call that begins where a run has reached goes on with it; so does one that begins beyond that,
//!   over pages which the cache in front was given before or which are on their way (at most
//!   [`JUMP`] of them), or a little before it ([`BACK`]), if the run was read ahead already;
//! - any other call begins a new run in the place of the one longest unused, and reads itself alone: of a
//!   random read nothing is lost. At the object's first page it is taken for the beginning of a
//!   sequence, as kernels do.
//!
//! A run reads ahead when one of its pages is missing, from that page on: a window of the first size
//! (slow start's 16 pages, or the call), then as the ramp has it, up to the depth. When the reader comes
//! into the last window, the next one is fetched, as the kernels of the papers do. It is asked for while
//! the head is still near: in virtual time, on a drive with a queue under mq-deadline, 4 to 16 readers of
//! whole files got 30 to 50 % more than from windows that were asked for when the last one was used up, and
//! of parts of files 14 to 31 %, although more is fetched unused: up to two depths a stream. The call that
//! begins a run is followed by no second window, as nothing is known of a sequence yet.
//!
//! Limits: calls of the cache in front are taken for what its reader wants, although its read-ahead asks
//! for up to two windows more.

use super::machine::{Answer, Machine};
use super::prefetcher::{Found, Opened};
use crate::depth::{Depth, Ramp, Served};
use foreseek_units::{Instant, PageIndex, PageSpan, Pages, Span};

/// Sequences that are followed within one stream: a few threads that read parts of one file through one
/// descriptor, and the islands that calls out of order make.
const RUNS: usize = 4;

/// How far a call may lie beyond the end of its run, over pages that are known to have passed: four
/// windows of a kernel's read-ahead. What is farther begins anew, at the cost of one slow start.
const JUMP: Pages = Pages(128);

/// How far before the end of its run a call may begin: two windows of a kernel's read-ahead, which are
/// all that it has under way.
const BACK: Pages = Pages(64);

/// The machine.
pub(super) struct Behind {
    pub(super) depth: Box<dyn Depth>,
    pub(super) ramp: Ramp,
}

/// A sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    /// The first page that was called for.
    start: PageIndex,
    /// The page after the last one that was called for.
    reached: PageIndex,
    /// The last window; empty before the first.
    window: PageSpan,
    /// How long the last window was to be.
    size: Pages,
    /// When it was used last, counted in calls; 0: never.
    used: u64,
}

impl Sequence {
    /// Whether it was read ahead.
    fn is_followed(&self) -> bool {
        !self.size.is_zero()
    }

    /// Whether a call that begins at this page, although not where the run has reached, belongs to it.
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
    /// The run of the call that is being made.
    at: usize,
    /// The pages of that call from which on it takes its run further; none of a call that stands alone.
    front: Option<PageIndex>,
    /// Whether that call goes on with a run, and has found its pages so far.
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
            // One window a call is enough of a beginning.
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
    /// How long the next window of a run is.
    fn size(&self, run: &Sequence, answer: &Answer<'_>, most: Pages) -> Pages {
        let request = answer.touch.request;
        if !run.is_followed() {
            self.ramp.first(most, request, most)
        } else if answer.touch.found == Found::Thrashed {
            // What was read ahead did not last until it was wanted: no reason to read more.
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

    /// An island that the run has come to is part of it.
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

    /// Calls as Linux 6.x makes them for a reader of 4 KiB pages from the first one on.
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
        // Before anything was read ahead, an island is joined when the sequence comes to it.
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
        assert_eq!(world.call(200, 8), [(200, 8)], "a gap that nobody has filled");
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
