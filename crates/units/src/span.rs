//! Half-open ranges of positions.

use crate::{ByteOffset, Lba, PageIndex, Position};

/// The positions from `start` up to and without `end`. Empty if `end <= start`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span<P> {
    /// The first position.
    pub start: P,
    /// The first position past the end.
    pub end: P,
}

/// Bytes of a file or device.
pub type ByteSpan = Span<ByteOffset>;
/// Pages of a file or object.
pub type PageSpan = Span<PageIndex>;
/// Sectors of a device.
pub type SectorSpan = Span<Lba>;

impl<P: Position> Span<P> {
    /// From `start` up to and without `end`.
    pub const fn new(start: P, end: P) -> Self {
        Self { start, end }
    }

    /// `amount` positions from `start` on.
    pub fn at(start: P, amount: P::Amount) -> Self {
        Self { start, end: start.after(amount) }
    }

    /// Its length.
    pub fn len(self) -> P::Amount {
        self.end.since(self.start)
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Whether `position` is within.
    pub fn contains(self, position: P) -> bool {
        self.start <= position && position < self.end
    }

    /// Whether every position of `other` is within; an empty span is within every one.
    pub fn covers(self, other: Self) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// Whether the two share a position.
    pub fn overlaps(self, other: Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// The common positions; empty if there are none.
    pub fn intersection(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        Self { start, end: self.end.min(other.end).max(start) }
    }

    /// The smallest span that contains both; an empty one adds nothing.
    pub fn hull(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { start: self.start.min(other.start), end: self.end.max(other.end) },
        }
    }

    /// Splits it at `position`, which is clamped into it.
    pub fn split(self, position: P) -> (Self, Self) {
        let at = position.max(self.start).min(self.end.max(self.start));
        (Self { start: self.start, end: at }, Self { start: at, end: self.end.max(at) })
    }
}

impl ByteSpan {
    /// The pages that contain these bytes.
    #[must_use]
    pub fn pages(self) -> PageSpan {
        if self.is_empty() {
            return Span::new(self.start.page(), self.start.page());
        }
        Span::new(self.start.page(), (self.end - crate::Bytes(1)).page().next())
    }

    /// The sectors that contain these bytes.
    #[must_use]
    pub fn sectors(self) -> SectorSpan {
        let start = self.start.lba();
        Span::new(start, Lba(self.end.get().div_ceil(crate::SECTOR_SIZE)).max(start))
    }
}

impl PageSpan {
    /// The bytes of these pages.
    #[must_use]
    pub const fn bytes(self) -> ByteSpan {
        Span { start: self.start.offset(), end: self.end.offset() }
    }

    /// Each page in order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = PageIndex> + ExactSizeIterator {
        (self.start.get() as usize..self.end.get().max(self.start.get()) as usize)
            .map(|page| PageIndex(page as u64))
    }
}

impl SectorSpan {
    /// The bytes of these sectors.
    #[must_use]
    pub const fn bytes(self) -> ByteSpan {
        Span { start: self.start.offset(), end: self.end.offset() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Pages};
    use proptest::prelude::*;

    fn span() -> impl Strategy<Value = PageSpan> {
        (0..50u64, 0..50u64).prop_map(|(start, end)| Span::new(PageIndex(start), PageIndex(end)))
    }

    fn positions(span: PageSpan) -> Vec<u64> {
        (0..60).filter(|page| span.contains(PageIndex(*page))).collect()
    }

    proptest! {
        #[test]
        fn an_intersection_holds_exactly_what_both_hold(a in span(), b in span()) {
            let both: Vec<u64> = positions(a).into_iter().filter(|p| positions(b).contains(p)).collect();
            prop_assert_eq!(positions(a.intersection(b)), both.clone());
            prop_assert_eq!(a.overlaps(b), !both.is_empty());
        }

        #[test]
        fn a_hull_is_the_smallest_cover(a in span(), b in span()) {
            let hull = a.hull(b);
            prop_assert!(hull.covers(a) && hull.covers(b));
            let mut all = positions(a);
            all.extend(positions(b));
            let held = positions(hull);
            prop_assert_eq!(all.iter().min(), held.first());
            prop_assert_eq!(all.iter().max(), held.last());
        }

        #[test]
        fn the_parts_of_a_split_make_the_whole(a in span(), at in 0..60u64) {
            let (left, right) = a.split(PageIndex(at));
            let mut all = positions(left);
            all.extend(positions(right));
            prop_assert_eq!(all, positions(a));
        }

        #[test]
        fn the_length_counts_the_positions(a in span()) {
            prop_assert_eq!(a.len(), Pages(positions(a).len() as u64));
            prop_assert_eq!(a.iter().len(), positions(a).len());
            prop_assert_eq!(a.is_empty(), positions(a).is_empty());
        }

        #[test]
        fn the_pages_of_bytes_hold_every_byte(start in 0..20_000u64, length in 0..20_000u64) {
            let bytes = ByteSpan::at(ByteOffset(start), Bytes(length));
            prop_assert!(bytes.pages().bytes().covers(bytes));
            prop_assert!(bytes.pages().bytes().len() < Bytes(length) + Bytes(2 * crate::PAGE_SIZE));
            prop_assert_eq!(bytes.pages().is_empty(), length == 0);
        }
    }
}
