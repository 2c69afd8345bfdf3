//! Follows readers: where a stream begins, how far it has come, how it ends.
//!
//! A stream begins at a page that does not follow the one touched before. It continues while the next page,
//! the same page, or one not far ahead ([`Follower::skips`]) is touched. It ends where its reader goes
//! elsewhere or closes the file, with two exceptions:
//!
//! - It has reached the end of its file. It could not continue, so that its full length is unknown.
//! - The next page is in a cache whose hits are not visible here. Its reader may have read on unseen: the
//!   stream is lost, not ended. If it reappears behind such pages, it has continued.

use super::class::Known;
use super::classes::{Chain, Classes};
use crate::depth::grid::{CELLS, point};
use foreseek_seam::StreamInfo;
use foreseek_units::{PageIndex, Pages};

/// The most pages that a reader may skip, or go back, within one stream. Reading through 128 KiB costs these
/// disks a quarter of a seek. Readers that follow an index in nearly physical order skip all the time.
const SKIP: Pages = Pages(32);
/// The additional distance by which a page may come late where a kernel reads ahead in front. It has two
/// windows of 128 KiB in flight, and several threads receive them: the later one may arrive first.
const DISORDER: Pages = Pages(64);

/// Follows one opening of a file.
#[derive(Clone, Debug)]
pub struct Follower {
    /// The file's length.
    length: Pages,
    /// The most pages that a stream may skip.
    skip: Pages,
    /// The additional distance by which a page of the same stream may come late.
    disorder: Pages,
    known: Option<Box<Known>>,
    /// The classes of streams that begin within the file, and at its start.
    chains: [Option<Chain>; 2],
    run: Option<FollowedStream>,
}

/// A stream.
#[derive(Clone, Copy, Debug)]
struct FollowedStream {
    start: PageIndex,
    /// The page after the last one touched.
    reached: PageIndex,
    /// The current cell of the grid, and the page at which it is decided.
    cell: usize,
    decided: PageIndex,
    chain: Chain,
}

/// A stream that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedStream {
    /// Its first page.
    pub start: PageIndex,
    /// How much of it was seen; at least a page.
    pub length: Pages,
    /// Whether it ended there: it could have continued, and was not lost.
    pub ended: bool,
}

/// The relation of a touch to the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first touch of a stream; the one before it is over.
    Began(Option<FinishedStream>),
    /// It continues the stream.
    WentOn,
    /// It lies before the last page of the stream: a page that was skipped, or touched again.
    WentBack,
}

impl Follower {
    /// For a file of this length.
    #[must_use]
    pub fn new(length: Pages) -> Self {
        let length = length.max(Pages(1));
        Self { length, skip: SKIP, disorder: Pages::ZERO, known: None, chains: [None; 2], run: None }
    }

    /// The same for reads that arrive through a kernel's read-ahead, and not quite in their order.
    #[must_use]
    pub fn behind_read_ahead(self) -> Self {
        Self { disorder: DISORDER, ..self }
    }

    /// Sets how many pages a stream may skip, at most [`SKIP`]. Where reading through them costs more than a
    /// quarter of a positioning, a positioning serves the reader better.
    pub fn skips(&mut self, pages: Pages) {
        self.skip = pages.min(SKIP);
    }

    /// Adds what is known about the file or its reader.
    pub fn describe(&mut self, about: &StreamInfo<'_>) {
        self.known = Some(Box::new(Known::of(about)));
        self.chains = [None; 2];
    }

    /// The file has grown to this length.
    pub fn resize(&mut self, length: Pages) {
        self.length = length.max(Pages(1));
        self.chains = [None; 2];
    }

    /// The known length of the file.
    #[must_use]
    pub fn length(&self) -> Pages {
        self.length
    }

    /// The first page of the followed stream.
    #[must_use]
    pub fn start(&self) -> Option<PageIndex> {
        self.run.map(|run| run.start)
    }

    /// Its classes.
    #[must_use]
    pub fn chain(&self) -> Option<&Chain> {
        self.run.as_ref().map(|run| &run.chain)
    }

    /// A page is touched. `unseen` returns whether a hit of a page would not be visible here.
    pub fn touch<K: Default>(
        &mut self,
        classes: &mut Classes<K>,
        page: PageIndex,
        unseen: impl Fn(PageIndex) -> bool,
    ) -> Step {
        self.length = self.length.max(page.next() - PageIndex::ZERO);
        if let Some(run) = &mut self.run {
            // The last page is often touched again.
            let behind = self.skip.max(Pages(1)) + self.disorder;
            let most = if page < run.reached { behind } else { self.skip };
            let near = page >= run.start && page.distance(run.reached) <= most;
            if near && page.next() < run.reached {
                return Step::WentBack;
            }
            if near || page > run.reached && unseen(run.reached) {
                run.reached = page.next();
                if run.reached >= run.decided {
                    run.advance(classes);
                }
                return Step::WentOn;
            }
        }
        let before = self.leave(classes, unseen);
        let start = page == PageIndex::ZERO;
        let chain = self.chains[usize::from(start)].get_or_insert_with(|| {
            let nothing = Known::default();
            classes.chain_of(self.length, start, self.known.as_deref().unwrap_or(&nothing))
        });
        let mut run =
            FollowedStream { start: page, reached: page.next(), cell: 0, decided: page, chain: *chain };
        run.decided = run.end_of(0);
        run.advance(classes);
        self.run = Some(run);
        Step::Began(before)
    }

    /// The stream is over, if there was one: its reader has gone elsewhere or closed.
    pub fn leave<K: Default>(
        &mut self,
        classes: &mut Classes<K>,
        unseen: impl Fn(PageIndex) -> bool,
    ) -> Option<FinishedStream> {
        let run = self.run.take()?;
        let length = run.reached - run.start;
        let at_end = run.reached >= PageIndex::ZERO + self.length;
        let ended = !at_end && !unseen(run.reached);
        classes.over(&run.chain, length, ended);
        Some(FinishedStream { start: run.start, length, ended })
    }
}

impl FollowedStream {
    /// The page that decides a cell: the one after its last.
    fn end_of(&self, cell: usize) -> PageIndex {
        self.start + Pages(point(cell + 1)) + Pages(1)
    }

    /// Records the cells that the stream has passed: all their pages were read, and one more.
    fn advance<K: Default>(&mut self, classes: &mut Classes<K>) {
        while self.cell < CELLS && self.reached >= self.decided {
            let cell = self.cell;
            classes.teach(&self.chain, |lengths| lengths.passed(cell));
            self.cell += 1;
            self.decided = if self.cell < CELLS { self.end_of(self.cell) } else { PageIndex(u64::MAX) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Retention, SCHEME};
    use super::*;

    /// The number of streams seen in a file that is read in windows of 32 pages, in this order.
    fn streams(follower: Follower, windows: &[u64]) -> usize {
        let mut classes: Classes<()> = Classes::new(SCHEME, Retention::Fading);
        let mut follower = follower;
        let pages = windows.iter().flat_map(|window| window * 32..(window + 1) * 32);
        let steps = pages.map(|page| follower.touch(&mut classes, PageIndex(page), |_| false));
        steps.filter(|step| matches!(step, Step::Began(_))).count()
    }

    #[test]
    fn read_ahead_windows_out_of_order_are_one_stream() {
        let swapped = [0, 2, 1, 4, 3, 5, 7, 6];
        assert_eq!(streams(Follower::new(Pages(256)).behind_read_ahead(), &swapped), 1);
        assert!(streams(Follower::new(Pages(256)), &swapped) > 1, "an order that is kept has a meaning");
    }

    #[test]
    fn a_gap_is_limited() {
        for (most, expected) in [(6, 2), (7, 1), (100, 1)] {
            let mut follower = Follower::new(Pages(4096));
            follower.skips(Pages(most));
            let mut classes: Classes<()> = Classes::new(SCHEME, Retention::Fading);
            let mut began = 0;
            for page in [0, 0, 8, 8].map(PageIndex) {
                let step = follower.touch(&mut classes, page, |_| false);
                began += usize::from(matches!(step, Step::Began(_)));
            }
            assert_eq!(began, expected, "{most}");
        }
    }

    #[test]
    fn a_reader_that_goes_back_further_begins_anew() {
        let back = [0, 1, 2, 3, 4, 5, 1, 2];
        assert_eq!(streams(Follower::new(Pages(256)).behind_read_ahead(), &back), 2);
    }
}
