//! How large the reorder buffer may be (ATC'09 section 4.6): additive increase, multiplicative
//! decrease.
//!
//! Other programs use the page cache too, and nobody tells how much is left. Pages that were fetched
//! and are gone when they are read are the signal that the buffer was too large: it is halved. A
//! round that was consumed to its end without the signal shows that there is more room: it grows by
//! a tenth of the largest cache there could be. There is no slow start, as that largest cache is
//! known: a client begins with its whole share.
//!
//! One page alone is no signal. A stock kernel with memory to spare loses about one page in ten
//! thousand (read-ahead does not insist where it meets a lock or an allocation fails), and to halve
//! the buffer for it costs more than to read it. Eviction takes pages by the hundred, so that the
//! next one is soon missing.

use crate::settings::Share;
use foreseek_units::{Bytes, Pages};

/// The increase, as a part of the maximum: the paper's 10 %.
const INCREASE: f64 = 0.1;

/// Below this reordering gains nothing: the left edge of the region in which ATC'09 figure 2 shows
/// a gain, 384 KB.
pub(crate) const FLOOR: Pages = Bytes::kib(384).pages_floor();

/// Two pages missing within so many reads are contention. A page lost in more reads than that costs
/// one random read in a thousand, which is nothing; eviction of one page in a thousand would be
/// noticed.
const LOSS_WINDOW: u64 = 1024;

/// The controller.
#[derive(Clone, Debug)]
pub struct Contention {
    share: Share,
    /// The number of the read that last found a page missing.
    lost_at: Option<u64>,
    maximum: Option<Pages>,
    buffer: Pages,
}

impl Contention {
    /// A controller that knows of no memory yet: its buffer is empty.
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self { share, lost_at: None, maximum: None, buffer: Pages::ZERO }
    }

    /// There may be this much page cache in all.
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

    /// Whether it cannot become smaller.
    #[must_use]
    pub fn is_at_floor(&self) -> bool {
        self.buffer <= self.floor()
    }

    /// A fetched page is missing at this read, counted from the first. Answers whether it is
    /// contention; then the round is over, and [`evicted`](Self::evicted) follows.
    pub fn missing(&mut self, read: u64) -> bool {
        let before = self.lost_at.replace(read);
        before.is_some_and(|before| read.saturating_sub(before) < LOSS_WINDOW)
    }

    /// Pages of a round were evicted before they were read. To be told once a round.
    pub fn evicted(&mut self) {
        self.buffer = (self.buffer / 2).max(self.floor());
    }

    /// A whole round was consumed, without contention.
    pub fn consumed(&mut self) {
        let step = self.maximum.unwrap_or_default().scale(INCREASE);
        self.buffer = (self.buffer + step).min(self.ceiling());
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
        paper.consumed();
        assert_eq!(paper.buffer(), Pages(5_500));
        for _ in 0..10 {
            paper.consumed();
        }
        assert_eq!(paper.buffer(), Pages(9_000));
        let mut stock = Contention::new(Share::Stock);
        stock.set_maximum(Pages(10_000));
        assert_eq!(stock.buffer(), Pages(6_000));
        stock.consumed();
        assert_eq!(stock.buffer(), Pages(6_000));
    }

    #[test]
    fn a_probing_one_starts_as_stock_and_may_come_to_the_papers_share() {
        let mut probing = Contention::new(Share::Probing);
        probing.set_maximum(Pages(10_000));
        let sizes: Vec<u64> = (0..5).map(|_| (probing.buffer().0, probing.consumed()).0).collect();
        assert_eq!(sizes, [6000, 7000, 8000, 9000, 9000]);
        probing.evicted();
        assert_eq!(probing.buffer(), Pages(4500));
    }

    #[test]
    fn one_page_lost_is_bad_luck_and_two_are_contention() {
        let mut controller = Contention::new(Share::Stock);
        assert!(!controller.missing(10));
        assert!(!controller.missing(10 + LOSS_WINDOW));
        assert!(controller.missing(9 + 2 * LOSS_WINDOW));
    }

    #[test]
    fn a_smaller_maximum_cuts_at_once_and_a_larger_one_only_lets_grow() {
        let mut controller = Contention::new(Share::Stock);
        controller.set_maximum(Pages(10_000));
        controller.set_maximum(Pages(5_000));
        assert_eq!(controller.buffer(), Pages(3_000));
        controller.set_maximum(Pages(10_000));
        assert_eq!(controller.buffer(), Pages(3_000));
        controller.consumed();
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
                    1 => controller.consumed(),
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
