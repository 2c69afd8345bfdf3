//! The read-ahead of Linux 2.6.10, on which EuroSys'07 built: [`two_windows`](super::two_windows)
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

use super::mapped;
use super::two_windows::Rules;
use foreseek_units::{PageIndex, PageSpan, Pages};

/// Its rules.
pub(super) struct Linux2_6_10;

/// How far the stream was followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
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
