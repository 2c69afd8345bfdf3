//! The read-ahead of Linux 2.6.3, on which TR-840 built: [`two_windows`](crate::two_windows) with an ahead
//! window as soon as the reader enters the current one, and new windows as long as the used part of the last
//! one.
//!
//! A sequential stream is read in 16, 18, 32, 32, ... pages (TR-840 section 2.2). Random reads soon turn
//! read-ahead off. A window that is continued at its end, because there was no ahead window, is followed by one
//! of the size of `next`, not of the used part.

use crate::two_windows::Rules;
use foreseek_units::{PageIndex, PageSpan, Pages, Span};

/// What Linux 2.6.3 reads around a fault (`MMAP_READAROUND`).
const AROUND: Pages = Pages(16);

/// Its rules.
pub(crate) struct Linux2_6_3;

impl Rules for Linux2_6_3 {
    type Memory = ();

    fn open(&self, _first: Pages) {}

    fn hit(&self, _memory: &mut (), _most: Pages) {}

    fn miss(&self, _memory: &mut ()) {}

    fn current(&self, _memory: &(), used: Option<Pages>, next: Pages, _most: Pages) -> Pages {
        used.unwrap_or(next)
    }

    fn ahead(&self, _memory: &(), _most: Pages) -> bool {
        true
    }

    fn resume(&self, _memory: &mut (), _most: Pages) {}

    fn around(&self, page: PageIndex, _size: Pages) -> PageSpan {
        block(page, AROUND)
    }
}

/// The aligned block that holds the page.
fn block(page: PageIndex, size: Pages) -> PageSpan {
    Span::at(PageIndex(page.get() / size.get() * size.get()), size)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Window, World, reading};
    use crate::{Congestion, Settings};

    fn corrected(length: u64) -> World {
        under(Congestion::CancelsAhead, length)
    }

    fn under(congestion: Congestion, length: u64) -> World {
        reading("linux-2.6.3", &Settings { congestion, ..Settings::tr840() }, length)
    }

    fn singles(pages: std::ops::Range<u64>) -> Vec<Window> {
        pages.map(|page| (page, 1)).collect()
    }

    /// TR-840 section 2.2.
    #[test]
    fn golden_a_sequential_stream_is_read_in_16_18_32_32() {
        let windows = corrected(200).pages(0..200);
        assert_eq!(
            windows,
            [(0, 16), (16, 18), (34, 32), (66, 32), (98, 32), (130, 32), (162, 32), (194, 6)]
        );
    }

    /// The four microbenchmarks read 64 KiB at a time: the same windows at the same pages.
    #[test]
    fn golden_calls_of_64_kib_make_the_same_windows() {
        let mut world = corrected(200);
        assert_eq!(world.call(0, 16), [(0, 16), (16, 18)]);
        assert_eq!(world.call(16, 16), [(34, 32)]);
        assert_eq!(world.call(32, 16), [(66, 32)]);
    }

    #[test]
    fn the_first_read_makes_half_the_maximum_anywhere() {
        assert_eq!(corrected(2000).pages([1000]), [(1000, 16)]);
    }

    #[test]
    fn each_page_in_the_window_adds_two_up_to_the_maximum() {
        // Every second page: a hit at page 2 makes 18, seven to page 14 make 30, page 16 makes 32.
        assert_eq!(corrected(200).pages((0..20).step_by(2)), [(0, 16), (16, 18), (34, 32)]);
    }

    #[test]
    fn the_same_page_again_changes_nothing() {
        assert_eq!(corrected(200).pages([0, 0, 0, 0, 1]), [(0, 16), (16, 18)]);
    }

    #[test]
    fn the_ahead_windows_first_page_makes_it_current_and_the_next_page_reads_on() {
        let mut world = corrected(200);
        assert_eq!(world.pages(0..17), [(0, 16), (16, 18)]);
        assert_eq!(world.pages(17..34), [(34, 32)]);
        assert_eq!(world.pages(34..35), []);
        assert_eq!(world.pages(35..36), [(66, 32)]);
    }

    #[test]
    fn a_miss_begins_a_window_as_long_as_the_last_one_was_used() {
        let mut world = corrected(9000);
        world.pages(0..4);
        assert_eq!(world.pages([1000]), [(1000, 4)]);
        assert_eq!(world.pages([1001, 1002]), [(1004, 6)], "and grows again by two for each hit");
        assert_eq!(world.pages([5000]), [(5000, 3)]);
    }

    #[test]
    fn random_reads_turn_it_off_and_32_missing_pages_in_sequence_on_again() {
        let mut world = corrected(9000);
        assert_eq!(world.pages([0, 1000, 2000]), [(0, 16), (1000, 1), (2000, 1)]);
        assert_eq!(world.pages(2001..2033), singles(2001..2033));
        // On at 32, less two for a page outside the window that it takes for read.
        assert_eq!(world.pages(2033..2035), [(2033, 30), (2063, 32)]);
    }

    #[test]
    fn while_it_is_off_a_page_out_of_sequence_takes_one_back() {
        let mut world = corrected(9000);
        world.pages([0, 1000, 2000]);
        world.pages(2001..2031);
        world.pages([5000]);
        assert_eq!(world.pages(5001..5004), singles(5001..5004), "30 - 1 + 3 make 32");
        assert_eq!(world.pages([5004]), [(5004, 30)]);
    }

    #[test]
    fn a_window_wholly_in_memory_makes_the_next_one_shorter() {
        let mut world = corrected(200);
        world.memory.cached.extend(16..34);
        assert_eq!(world.pages(0..17), [(0, 16)]);
        // The ahead window was cut to 15 pages, one less than before; the next begins after those.
        assert_eq!(world.pages([17]), [(31, 32)]);
    }

    #[test]
    fn a_window_of_one_page_in_memory_turns_it_off() {
        let mut world = corrected(9000);
        world.pages([0, 1000]);
        world.memory.cached.extend(1001..1004);
        assert_eq!(world.pages([1001, 1002, 1003]), []);
        assert_eq!(world.pages(1004..1010), singles(1004..1010));
    }

    #[test]
    fn a_page_lost_before_use_is_read_alone_and_takes_three_off() {
        let mut world = corrected(200);
        world.pages(0..6);
        world.evict(6..16);
        // 26 at page 5; ten pages add two and take three each; 16 and 17 add four.
        let mut windows = singles(6..16);
        windows.push((34, 20));
        assert_eq!(world.pages(6..18), windows);
    }

    #[test]
    fn thrashing_leaves_four_pages_at_least() {
        let mut world = corrected(200);
        world.pages(0..2);
        world.evict(2..34);
        let mut windows = singles(2..17);
        windows.extend([(34, 6), (17, 1)]);
        assert_eq!(world.pages(2..18), windows);
    }

    /// TR-840 section 6: "the read-ahead window descriptors are not updated to reflect the
    /// cancellation of the prefetch request, leading to an interruption of prefetching".
    #[test]
    fn stock_windows_advance_when_congestion_cancels_them() {
        let mut world = under(Congestion::Stock, 200);
        world.pages([0]);
        world.memory.congested = true;
        assert_eq!(world.pages([1]), []);
        world.memory.congested = false;
        assert_eq!(world.pages(2..16), []);
        let mut windows = vec![(16, 1), (31, 31)];
        windows.extend(singles(17..31));
        assert_eq!(world.pages(16..31), windows);
    }

    #[test]
    fn a_cancelled_ahead_window_is_tried_again() {
        for rule in [Congestion::CancelsAll, Congestion::CancelsAhead] {
            let mut world = under(rule, 200);
            world.pages([0]);
            world.memory.congested = true;
            assert_eq!(world.pages(1..5), []);
            world.memory.congested = false;
            assert_eq!(world.pages([5]), [(16, 26)]);
        }
    }

    /// What its reader waits for is read whole, window after window.
    #[test]
    fn the_current_window_is_read_where_only_the_ahead_window_is_cancelled() {
        let mut world = corrected(200);
        world.memory.congested = true;
        assert_eq!(world.pages(0..100), [(0, 16), (16, 32), (48, 32), (80, 32)]);
    }

    #[test]
    fn a_page_lost_to_eviction_counts_though_the_ahead_window_is_cancelled() {
        let mut world = corrected(200);
        world.memory.congested = true;
        world.pages(0..2);
        world.evict(2..16);
        // 18 at page 1; each of 14 pages adds two and takes three: 4 at page 15, and two for page 16.
        let mut windows = singles(2..16);
        windows.push((16, 6));
        assert_eq!(world.pages(2..17), windows);
    }

    #[test]
    fn an_ignored_congestion_changes_nothing() {
        let mut world = under(Congestion::Ignored, 200);
        world.memory.congested = true;
        assert_eq!(world.pages(0..40), corrected(200).pages(0..40));
        assert_eq!(world.faults([150]), [(144, 16)]);
    }

    #[test]
    fn a_stream_goes_on_where_congestion_left_it_a_single_page() {
        let mut world = under(Congestion::CancelsAll, 200);
        world.memory.congested = true;
        assert_eq!(world.pages([0]), [(0, 1)]);
        assert_eq!(world.pages([1]), [(1, 1)]);
        world.memory.congested = false;
        assert_eq!(world.pages([2]), [(2, 20)]);
    }

    #[test]
    fn faults_read_an_aligned_block_around_unless_the_queue_is_congested() {
        let mut world = corrected(200);
        assert_eq!(world.faults([100]), [(96, 16)]);
        world.memory.congested = true;
        assert_eq!(world.faults([150]), [(150, 1)]);
    }
}
