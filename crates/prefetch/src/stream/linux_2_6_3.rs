//! The read-ahead of Linux 2.6.3, on which TR-840 built: [`two_windows`](super::two_windows) with an
//! ahead window as soon as the current one is walked into, and new windows as long as the last one
//! was used.
//!
//! A sequential stream is read in 16, 18, 32, 32, ... pages (TR-840 section 2.2). A random one soon
//! turns read-ahead off.

use super::mapped;
use super::two_windows::Rules;
use foreseek_units::{PageIndex, PageSpan, Pages};

/// Its rules.
pub(super) struct Linux2_6_3;

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
        mapped::block(page, mapped::AROUND_2_6_3)
    }
}

#[cfg(test)]
mod tests {
    use crate::stream::Settings;
    use crate::stream::testing::{Window, World};

    fn world(length: u64) -> World {
        World::new("linux-2.6.3", &Settings::tr840(), length)
    }

    #[test]
    fn golden_a_sequential_stream_is_read_in_16_18_32_32() {
        let windows: Vec<Window> = world(200).pages(0..200);
        assert_eq!(
            windows,
            [(0, 16), (16, 18), (34, 32), (66, 32), (98, 32), (130, 32), (162, 32), (194, 6)]
        );
    }
}
