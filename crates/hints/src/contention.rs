//! How large the reorder buffer may be (ATC'09 section 4.6): additive increase, multiplicative
//! decrease.
//!
//! Other programs use the page cache too, and the kernel does not report how much is left for this one. The
//! signal that the buffer was too large is that pages which were fetched have been evicted when they are read:
//! the buffer is halved. A round that was consumed to its end without the signal shows that there is more room:
//! the buffer grows by a tenth of the largest possible cache. There is no slow start, as that largest cache is
//! known: a client begins with its whole share. On a stock kernel the first share is cautious, and the first
//! round without contention raises the buffer to the paper's share at once ([`Share::Probing`]).
//!
//! A few evicted pages are no signal:
//!
//! - A kernel with free memory evicts about one page in ten thousand. Read-ahead skips pages whose lock is
//!   taken; a memory monitor such as DAMON reclaims pages that look idle to it.
//! - A buffer that just fits into the memory loses a batch of reclaim at times.
//!
//! To halve the buffer then costs more than to read those pages one by one: until it has grown back, the next
//! rounds fetch less than they could. So evictions up to [`LOSS`] of a round are tolerated; above [`QUIET`] the
//! buffer does not grow. The paper's rule ([`Share::Paper`]) tolerates none: any evicted page halves the
//! buffer, and the buffer grows only after a round that was read completely.

use crate::settings::Share;
use foreseek_units::{Bytes, Pages};

/// The increase, as a part of the maximum: the paper's 10 %.
const INCREASE: f64 = 0.1;

/// Below this size reordering gains nothing: the left edge of the region in which ATC'09 figure 2 shows a gain,
/// 384 KB.
pub(crate) const FLOOR: Pages = Bytes::kib(384).pages_floor();

/// One page in so many of a round may be evicted before it is contention. A single page read takes about as
/// long as 100 pages of a sorted round (ATC'09 figure 2). The loss therefore costs at most about as much as the
/// round, the least that halving would cost.
const LOSS: u64 = 128;

/// If more than one page in so many was evicted, the buffer does not grow: it is as large as the memory.
const QUIET: u64 = 1024;

/// One page in so many of a round must have been read for the buffer to grow. The paper requires all of them.
/// An application's own cache, however, answers some reads, and to fetch their pages was no mistake.
const READ_AT_LEAST: u64 = 2;

/// The controller.
#[derive(Clone, Debug)]
pub struct Contention {
    share: Share,
    /// Whether no round has shown yet how much of the memory is free.
    unproven: bool,
    maximum: Option<Pages>,
    buffer: Pages,
    /// Whether contention changes nothing.
    fixed: bool,
}

impl Contention {
    /// A controller without memory: its buffer is empty.
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self { share, unproven: true, maximum: None, buffer: Pages::ZERO, fixed: false }
    }

    /// The same controller with a buffer that evictions do not change.
    #[must_use]
    pub fn fixed(self) -> Self {
        Self { fixed: true, ..self }
    }

    /// Sets the largest possible page cache.
    pub fn set_maximum(&mut self, maximum: Pages) {
        let begins = self.maximum.is_none_or(Pages::is_zero);
        self.maximum = Some(maximum);
        self.buffer = match begins {
            true => maximum.scale(self.share.start()),
            false => self.buffer.min(self.ceiling()).max(self.floor()),
        };
    }

    /// How many unique pages a round may hold, infill included.
    #[must_use]
    pub fn buffer(&self) -> Pages {
        self.buffer
    }

    /// Whether the buffer cannot shrink.
    #[must_use]
    pub fn is_at_floor(&self) -> bool {
        self.buffer <= self.floor()
    }

    /// Whether this many evicted pages of a round of `wanted` are contention. The caller then ends the round
    /// and calls [`evicted`](Self::evicted).
    #[must_use]
    pub fn is_contention(&self, evicted: Pages, wanted: Pages) -> bool {
        evicted > self.tolerated(wanted / LOSS)
    }

    /// Pages of a round were evicted before they were read. Call it once a round.
    pub fn evicted(&mut self) {
        if self.fixed {
            return;
        }
        self.unproven = false;
        self.buffer = (self.buffer / 2).max(self.floor());
    }

    /// A whole round of `wanted` pages was consumed without contention: `used` of them were read, `evicted`
    /// were missing.
    pub fn consumed(&mut self, used: Pages, evicted: Pages, wanted: Pages) {
        let read = match self.share {
            Share::Paper => used >= wanted,
            _ => !wanted.is_zero() && used * READ_AT_LEAST >= wanted,
        };
        if !read || evicted > self.tolerated(wanted / QUIET) {
            return;
        }
        let maximum = self.maximum.unwrap_or_default();
        let leap = self.share.proven().filter(|_| std::mem::take(&mut self.unproven));
        let grown = self.buffer + maximum.scale(INCREASE);
        self.buffer = grown.max(maximum.scale(leap.unwrap_or(0.0))).min(self.ceiling());
    }

    /// How many evicted pages are tolerated: at least one, or none under the paper's rule.
    fn tolerated(&self, part: Pages) -> Pages {
        if self.share == Share::Paper { Pages::ZERO } else { part.max(Pages(1)) }
    }

    fn ceiling(&self) -> Pages {
        self.maximum.unwrap_or_default().scale(self.share.ceiling())
    }

    fn floor(&self) -> Pages {
        FLOOR.min(self.ceiling())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_starts_with_its_share_halves_and_grows_by_a_tenth_of_the_maximum() {
        let mut paper = Contention::new(Share::Paper);
        assert_eq!(paper.buffer(), Pages::ZERO);
        paper.set_maximum(Pages(10_000));
        assert_eq!(paper.buffer(), Pages(9_000));
        paper.evicted();
        assert_eq!(paper.buffer(), Pages(4_500));
        paper.consumed(Pages(1000), Pages::ZERO, Pages(1000));
        assert_eq!(paper.buffer(), Pages(5_500));
        for _ in 0..10 {
            paper.consumed(Pages(1000), Pages::ZERO, Pages(1000));
        }
        assert_eq!(paper.buffer(), Pages(9_000));
        let mut stock = Contention::new(Share::Stock);
        stock.set_maximum(Pages(10_000));
        assert_eq!(stock.buffer(), Pages(6_000));
        stock.consumed(Pages(1000), Pages::ZERO, Pages(1000));
        assert_eq!(stock.buffer(), Pages(6_000));
    }

    #[test]
    fn a_probing_one_starts_as_stock_and_reaches_its_ceiling() {
        let mut probing = Contention::new(Share::Probing);
        probing.set_maximum(Pages(10_000));
        let sizes: Vec<u64> = (0..4)
            .map(|_| (probing.buffer().0, probing.consumed(Pages(1000), Pages::ZERO, Pages(1000))).0)
            .collect();
        assert_eq!(sizes, [6000, 9000, 9500, 9500]);
        probing.evicted();
        assert_eq!(probing.buffer(), Pages(4750));
        probing.consumed(Pages(1000), Pages::ZERO, Pages(1000));
        assert_eq!(probing.buffer(), Pages(5750), "the leap is made once");
    }

    #[test]
    fn a_few_evicted_pages_are_tolerated_and_more_are_contention() {
        let stock = Contention::new(Share::Stock);
        assert!(!stock.is_contention(Pages(1), Pages(10)));
        assert!(stock.is_contention(Pages(2), Pages(10)));
        assert!(!stock.is_contention(Pages(80), Pages(80 * LOSS)));
        assert!(stock.is_contention(Pages(81), Pages(80 * LOSS)));
    }

    #[test]
    fn a_buffer_at_the_edge_does_not_grow() {
        let mut probing = Contention::new(Share::Probing);
        probing.set_maximum(Pages(10_000));
        probing.consumed(Pages(6 * QUIET), Pages(7), Pages(6 * QUIET));
        assert_eq!(probing.buffer(), Pages(6000));
        probing.consumed(Pages(6 * QUIET), Pages(6), Pages(6 * QUIET));
        assert_eq!(probing.buffer(), Pages(9000));
    }

    #[test]
    fn the_papers_rule_tolerates_no_eviction_and_needs_all_of_a_round_read() {
        let mut paper = Contention::new(Share::Paper);
        paper.set_maximum(Pages(10_000));
        assert!(paper.is_contention(Pages(1), Pages(9_000)));
        assert!(!paper.is_contention(Pages(0), Pages(9_000)));
        paper.evicted();
        paper.consumed(Pages(4_499), Pages::ZERO, Pages(4_500));
        assert_eq!(paper.buffer(), Pages(4_500), "a page was not read");
        paper.consumed(Pages(4_500), Pages(1), Pages(4_500));
        assert_eq!(paper.buffer(), Pages(4_500), "a page was evicted");
        paper.consumed(Pages(4_500), Pages::ZERO, Pages(4_500));
        assert_eq!(paper.buffer(), Pages(5_500));
    }

    #[test]
    fn a_smaller_maximum_cuts_at_once_and_a_larger_one_only_lets_grow() {
        let mut controller = Contention::new(Share::Stock);
        controller.set_maximum(Pages(10_000));
        controller.set_maximum(Pages(5_000));
        assert_eq!(controller.buffer(), Pages(3_000));
        controller.set_maximum(Pages(10_000));
        assert_eq!(controller.buffer(), Pages(3_000));
        controller.consumed(Pages(1000), Pages::ZERO, Pages(1000));
        assert_eq!(controller.buffer(), Pages(4_000));
    }

    proptest! {
        #[test]
        fn it_stays_between_floor_and_ceiling(
            steps in proptest::collection::vec((0..3u8, 0..1_000_000u64), 0..50),
        ) {
            let mut controller = Contention::new(Share::Stock);
            let mut maximum = 0;
            for (step, pages) in steps {
                match step {
                    0 => controller.evicted(),
                    1 => controller.consumed(Pages(1000), Pages::ZERO, Pages(1000)),
                    _ => {
                        maximum = pages;
                        controller.set_maximum(Pages(pages));
                    }
                }
                let ceiling = Pages(maximum).scale(0.6);
                prop_assert!(controller.buffer() <= ceiling);
                prop_assert!(controller.buffer() >= ceiling.min(FLOOR));
            }
        }
    }
}
