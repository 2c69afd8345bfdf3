//! The read-ahead of Linux 2.6.10, on which EuroSys'07 built: [`two_windows`](crate::two_windows)
//! with an average of how far streams were followed.
//!
//! `hits` counts the pages within the windows since the last miss (up to twice the maximum and one
//! more), `average` begins at half the maximum. On a miss `average = (average + hits) / 2`, rounded
//! towards the hits, and the count begins anew at 1. What is expected of the stream is the average,
//! or `(hits + average + 1) / 2` where there are more hits than that. A new window is as long as is
//! expected, up to the maximum; an ahead window is only submitted where more than the maximum is
//! expected.
//!
//! So a sequential stream is read in 16, 17, 25 pages, each when the one before is used up, and only
//! then in pairs of windows of 32 pages.

use crate::two_windows::Rules;
use foreseek_readahead::stream::mapped;
use foreseek_units::{PageIndex, PageSpan, Pages};

/// Its rules.
pub(crate) struct Linux2_6_10;

/// How far the stream was followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    average: Pages,
    hits: Pages,
}

impl Followed {
    fn expected(self) -> Pages {
        if self.hits > self.average { (self.hits + self.average + Pages(1)) / 2 } else { self.average }
    }
}

impl Rules for Linux2_6_10 {
    type Memory = Followed;

    fn open(&self, first: Pages) -> Followed {
        Followed { average: first, hits: Pages(1) }
    }

    fn hit(&self, followed: &mut Followed, most: Pages) {
        if followed.hits <= most * 2 {
            followed.hits += Pages(1);
        }
    }

    fn miss(&self, followed: &mut Followed) {
        let up = Pages(u64::from(followed.average < followed.hits));
        followed.average = (followed.average + up + followed.hits) / 2;
        followed.hits = Pages(1);
    }

    fn current(&self, followed: &Followed, _used: Option<Pages>, _next: Pages, most: Pages) -> Pages {
        followed.expected().min(most)
    }

    fn ahead(&self, followed: &Followed, most: Pages) -> bool {
        followed.expected() > most
    }

    fn resume(&self, followed: &mut Followed, most: Pages) {
        followed.average = most / 2;
    }

    fn around(&self, page: PageIndex, size: Pages) -> PageSpan {
        mapped::centred(page, size)
    }
}

#[cfg(test)]
mod tests {
    use crate::Settings;
    use crate::testing::{World, reading};

    fn world(length: u64) -> World {
        reading("linux-2.6.10", &Settings::eurosys(), length)
    }

    /// 17 = (17 + 16 + 1) / 2 and 25 = (34 + 16 + 1) / 2; with 49 hits, at page 48, more than 32 are
    /// expected, and the first ahead window follows.
    #[test]
    fn golden_a_sequential_stream_is_read_in_16_17_25_32() {
        let mut world = world(400);
        assert_eq!(world.pages(0..48), [(0, 16), (16, 17), (33, 25)]);
        assert_eq!(world.pages([48]), [(58, 32)]);
        assert_eq!(world.pages(49..156), [(90, 32), (122, 32), (154, 32), (186, 32)]);
    }

    #[test]
    fn golden_calls_of_64_kib_make_the_same_windows() {
        let mut world = world(400);
        assert_eq!(world.call(0, 16), [(0, 16)]);
        assert_eq!(world.call(16, 16), [(16, 17)]);
        assert_eq!(world.call(32, 16), [(33, 25)]);
        assert_eq!(world.call(48, 16), [(58, 32), (90, 32)]);
    }

    #[test]
    fn a_miss_halves_the_way_to_the_hits() {
        // Four hits: (16 + 4) / 2; then one each time.
        let mut world = world(9000);
        world.pages(0..4);
        assert_eq!(world.pages([1000, 2000, 3000, 4000]), [(1000, 10), (2000, 5), (3000, 3), (4000, 2)]);
    }

    #[test]
    fn the_average_rounds_towards_more_hits() {
        let mut world = world(9000);
        world.pages(0..21);
        assert_eq!(world.pages([1000]), [(1000, 19)], "(16 + 1 + 21) / 2");
    }

    #[test]
    fn a_stream_that_was_long_followed_is_believed_at_its_next_place() {
        let mut world = world(9000);
        world.pages(0..200);
        // (16 + 1 + 65) / 2 = 41: the count stops at twice the maximum and one.
        assert_eq!(world.pages([1000, 1001]), [(1000, 32), (1032, 32)]);
    }

    #[test]
    fn random_reads_turn_it_off_and_32_missing_pages_in_sequence_on_again() {
        let mut world = world(9000);
        world.pages([0, 1000, 2000, 3000, 4000, 5000]);
        assert_eq!(world.pages([5001]), [(5001, 1)]);
        world.pages(5002..5032);
        // On: the average begins anew at 16, one hit since: (16 + 1) / 2.
        assert_eq!(world.pages(5032..5034), [(5032, 1), (5033, 8)]);
    }

    #[test]
    fn a_window_wholly_in_memory_makes_the_next_one_shorter() {
        let mut world = world(9000);
        world.pages(0..48);
        world.memory.cached.extend(58..90);
        assert_eq!(world.pages(48..59), [], "32 pages ahead are in memory");
        // One less than 32 before: that ahead window ends at page 89.
        assert_eq!(world.pages([59]), [(89, 32)]);
    }

    #[test]
    fn the_first_window_in_memory_is_no_reason_to_doubt() {
        let mut world = world(9000);
        world.memory.cached.extend(0..16);
        assert_eq!(world.pages(0..17), [(16, 17)]);
    }

    #[test]
    fn stock_windows_advance_when_congestion_cancels_them() {
        let mut world = world(9000);
        world.memory.congested = true;
        assert_eq!(world.pages(0..3), [(0, 1), (1, 1), (2, 1)]);
        world.memory.congested = false;
        assert_eq!(world.pages(3..6), [(3, 1), (4, 1), (5, 1)], "the window of 16 counts as read");
        world.pages(6..16);
        assert_eq!(world.pages([16]), [(16, 17)]);
    }

    #[test]
    fn faults_read_a_window_with_the_page_in_its_middle() {
        let mut world = world(9000);
        assert_eq!(world.faults([100]), [(84, 32)]);
        assert_eq!(world.faults([3]), [(0, 32)]);
    }

    #[test]
    fn competitive_streams_are_followed_for_long_before_a_window_is_ahead() {
        let mut world = reading("competitive", &Settings::eurosys(), 9000);
        // (181 + 16 + 1) / 2 = 99 at page 180.
        assert_eq!(world.pages(0..180), [(0, 16), (16, 32), (48, 64), (112, 98)]);
        assert_eq!(world.pages([180]), [(210, 98)]);
    }
}
