//! The watched byte ranges of one object (ATC'09 section 4, figure 6: `register_region`).

use foreseek_seam::objects::Own;
use foreseek_units::{ByteSpan, PageSpan, Span};

/// How many ranges of one object are watched at once. Each read checks all of them, therefore they are few; a
/// client that watches more watches the whole object instead.
pub(crate) const REGIONS_LIMIT: usize = 64;

/// Watched ranges; they may overlap and the same one may be watched twice.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    ranges: Vec<ByteSpan>,
    /// The number of ranges that did not fit; while there are any, everything is watched.
    beyond: u32,
}

impl Regions {
    pub(crate) fn watch(&mut self, range: ByteSpan) {
        if range.is_empty() {
            return;
        }
        if self.ranges.len() < REGIONS_LIMIT {
            self.ranges.push(range);
        } else {
            self.beyond += 1;
        }
    }

    /// Ends one watch of exactly this range. Returns whether none is left.
    pub(crate) fn unwatch(&mut self, range: ByteSpan) -> bool {
        if let Some(at) = self.ranges.iter().position(|watched| *watched == range) {
            self.ranges.swap_remove(at);
        } else if !range.is_empty() {
            self.beyond = self.beyond.saturating_sub(1);
        }
        self.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.beyond == 0
    }

    /// The watched pages of a read: from its first watched byte to the last.
    pub(crate) fn watched(&self, read: ByteSpan) -> PageSpan {
        if self.beyond > 0 {
            return read.pages();
        }
        let none = Span::new(read.start, read.start);
        self.ranges.iter().fold(none, |hull, range| hull.hull(range.intersection(read))).pages()
    }
}

impl Own for Regions {
    fn is_idle(&self) -> bool {
        self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::{ByteOffset, PageIndex};

    fn bytes(start: u64, end: u64) -> ByteSpan {
        Span::new(ByteOffset(start), ByteOffset(end))
    }

    #[test]
    fn a_read_is_watched_where_it_meets_a_range() {
        let mut regions = Regions::default();
        assert!(regions.watched(bytes(0, 4096)).is_empty());
        regions.watch(bytes(8192, 20_000));
        regions.watch(bytes(40_960, 40_961));
        assert!(regions.watched(bytes(0, 8192)).is_empty());
        assert!(regions.watched(bytes(20_000, 40_960)).is_empty());
        assert_eq!(regions.watched(bytes(0, 8193)), Span::new(PageIndex(2), PageIndex(3)));
        assert_eq!(regions.watched(bytes(0, 100_000)), Span::new(PageIndex(2), PageIndex(11)));
        assert!(regions.watched(bytes(9000, 9000)).is_empty());
    }

    #[test]
    fn a_range_watched_twice_is_unwatched_twice() {
        let mut regions = Regions::default();
        regions.watch(bytes(0, 10));
        regions.watch(bytes(0, 10));
        assert!(!regions.unwatch(bytes(0, 10)));
        assert!(!regions.watched(bytes(0, 1)).is_empty());
        assert!(regions.unwatch(bytes(0, 10)));
        assert!(regions.watched(bytes(0, 1)).is_empty());
    }

    #[test]
    fn more_ranges_than_fit_watch_everything_until_they_are_gone() {
        let mut regions = Regions::default();
        for at in 0..=REGIONS_LIMIT as u64 {
            regions.watch(bytes(at * 8192, at * 8192 + 1));
        }
        assert_eq!(regions.watched(bytes(1 << 40, (1 << 40) + 1)).iter().len(), 1);
        assert!(!regions.unwatch(bytes(REGIONS_LIMIT as u64 * 8192, REGIONS_LIMIT as u64 * 8192 + 1)));
        assert!(regions.watched(bytes(1 << 40, (1 << 40) + 1)).is_empty());
    }
}
