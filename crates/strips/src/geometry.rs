//! Strips and stripes of a device on an array, in pages.
//!
//! A *strip* is contiguous on one member, a *stripe* is the strips at one address of all members (section
//! 1.1.2, figure 1). [`Stripes`] has the rules of the layouts; this adds pages, and the *origin*: the sector
//! of the array at which page 0 is. That of a partition or a logical volume is seldom 0, and strips are those
//! of the array. The first and the last strip may therefore be only partly on the device.
//!
//! Limits: pages must not cross the border of two strips; one array, not a concatenation of several.

use crate::StripsError;
use crate::blocks::{Blocks, STRIP_PAGES_LIMIT};
use foreseek_units::{Lba, PageIndex, PageSpan, Pages, SECTORS_PER_PAGE, Sectors, Stripes};

/// Most members: as many as in the array model of `foreseek-device`.
pub const MEMBERS_LIMIT: u64 = 32;

/// A strip of the array, numbered over its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripNo(pub u64);

/// A stripe of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeNo(pub u64);

/// A member of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u32);

/// The position of a block on its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemberAddress {
    /// The member.
    pub member: Member,
    /// The sector on it.
    pub lba: Lba,
}

/// The layout of a device on an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    stripes: Stripes,
    origin: Lba,
    length: Pages,
}

impl Geometry {
    /// A device of `length` pages whose first is at sector `origin` of the array.
    ///
    /// # Errors
    /// Strips that are not whole pages or longer than [`STRIP_PAGES_LIMIT`], too few or too many members, an
    /// origin within a page.
    pub fn new(stripes: Stripes, origin: Lba, length: Pages) -> Result<Self, StripsError> {
        let strip = stripes.strip.get();
        if strip == 0
            || !strip.is_multiple_of(SECTORS_PER_PAGE)
            || strip / SECTORS_PER_PAGE > STRIP_PAGES_LIMIT
        {
            return Err(StripsError::Strip(stripes.strip));
        }
        // At least two strips of data in a stripe.
        if !(stripes.level.parities() + 2..=MEMBERS_LIMIT).contains(&stripes.members) {
            return Err(StripsError::Members(stripes.members));
        }
        if !origin.get().is_multiple_of(SECTORS_PER_PAGE) {
            return Err(StripsError::Origin(origin));
        }
        Ok(Self { stripes, origin, length })
    }

    /// The length of the device.
    #[must_use]
    pub fn length(&self) -> Pages {
        self.length
    }

    /// The number of members.
    #[must_use]
    pub fn members(&self) -> u32 {
        self.stripes.members as u32
    }

    /// The number of data strips of a stripe.
    #[must_use]
    pub fn data_strips(&self) -> u64 {
        self.stripes.data_strips()
    }

    /// Pages of a strip.
    #[must_use]
    pub fn strip_pages(&self) -> Pages {
        Pages(self.stripes.strip.get() / SECTORS_PER_PAGE)
    }

    /// Data pages of a stripe.
    #[must_use]
    pub fn stripe_pages(&self) -> Pages {
        self.strip_pages() * self.data_strips()
    }

    /// The strip of a page.
    #[must_use]
    pub fn strip_of(&self, page: PageIndex) -> StripNo {
        StripNo(self.on_array(page) / self.strip_pages().get())
    }

    /// The index of a page in its strip.
    #[must_use]
    pub fn block_of(&self, page: PageIndex) -> u64 {
        self.on_array(page) % self.strip_pages().get()
    }

    /// The stripe of a strip.
    #[must_use]
    pub fn stripe_of(&self, strip: StripNo) -> StripeNo {
        StripeNo(strip.0 / self.data_strips())
    }

    /// The index among the data strips of its stripe.
    #[must_use]
    pub fn slot_of(&self, strip: StripNo) -> u64 {
        strip.0 % self.data_strips()
    }

    /// The member of a strip.
    #[must_use]
    pub fn member_of(&self, strip: StripNo) -> Member {
        Member(self.stripes.member(self.stripe_of(strip).0, self.slot_of(strip)) as u32)
    }

    /// The position of a block of a strip on its member.
    #[must_use]
    pub fn address_of(&self, strip: StripNo, block: u64) -> MemberAddress {
        let offset = Pages(block).sectors();
        let row = self.stripe_of(strip).0;
        let lba = self.stripes.on_member(row, offset, offset + Sectors(1)).start;
        MemberAddress { member: self.member_of(strip), lba }
    }

    /// The pages of a strip that are on the device.
    #[must_use]
    pub fn pages_of(&self, strip: StripNo) -> PageSpan {
        let pages = self.strip_pages().get();
        self.on_device(strip.0 * pages, (strip.0 + 1) * pages)
    }

    /// The blocks of a strip that are on the device.
    #[must_use]
    pub fn blocks_of(&self, strip: StripNo) -> Blocks {
        let span = self.pages_of(strip);
        if span.is_empty() {
            return Blocks::NONE;
        }
        let start = self.block_of(span.start);
        Blocks::range(start, start + span.len().get())
    }

    /// The page of a strip's block; the block is on the device.
    #[must_use]
    pub fn page_of(&self, strip: StripNo, block: u64) -> PageIndex {
        PageIndex((strip.0 * self.strip_pages().get() + block).saturating_sub(self.origin_pages()))
    }

    /// A span of pages by strip, with the blocks of each. Pages beyond the device's end are left out.
    pub fn strips(&self, span: PageSpan) -> impl Iterator<Item = (StripNo, Blocks)> + use<> {
        let geometry = *self;
        let end = span.end.min(PageIndex(self.length.get()));
        let mut at = span.start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let strip = geometry.strip_of(at);
            let stop = geometry.pages_of(strip).end.min(end);
            let first = geometry.block_of(at);
            let blocks = Blocks::range(first, first + (stop - at).get());
            at = stop;
            Some((strip, blocks))
        })
    }

    /// The pages of `count` stripes from one on, as far as they are on the device.
    #[must_use]
    pub fn pages_of_stripes(&self, first: StripeNo, count: u64) -> PageSpan {
        let pages = self.stripe_pages().get();
        self.on_device(first.0 * pages, (first.0 + count) * pages)
    }

    fn origin_pages(&self) -> u64 {
        self.origin.get() / SECTORS_PER_PAGE
    }

    fn on_array(&self, page: PageIndex) -> u64 {
        page.get() + self.origin_pages()
    }

    /// The part of a range of the array's pages that is on the device.
    fn on_device(&self, start: u64, end: u64) -> PageSpan {
        let within = |page: u64| PageIndex(page.saturating_sub(self.origin_pages()).min(self.length.get()));
        PageSpan::new(within(start), within(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::Level;
    use proptest::prelude::*;

    fn geometry(level: Level, members: u64, strip: u64, origin: u64, length: u64) -> Geometry {
        let stripes = Stripes { level, members, strip: Sectors(strip * SECTORS_PER_PAGE) };
        Geometry::new(stripes, Lba(origin * SECTORS_PER_PAGE), Pages(length)).expect("valid")
    }

    /// Figure 2: strips of four blocks; blocks 2 to 5 are on disks 0 and 1.
    #[test]
    fn the_strips_of_the_papers_figure_2() {
        let array = geometry(Level::Raid5, 5, 4, 0, 64);
        let members: Vec<u32> =
            (2..6).map(|page| array.member_of(array.strip_of(PageIndex(page))).0).collect();
        assert_eq!(members, [0, 0, 1, 1]);
        assert_eq!(array.stripe_pages(), Pages(16));
        // Parity of stripe 0 is on disk 4, of stripe 1 on disk 3: strip 4 is on disk 4.
        assert_eq!((array.member_of(StripNo(4)), array.stripe_of(StripNo(4))), (Member(4), StripeNo(1)));
        assert_eq!(array.address_of(StripNo(4), 1), MemberAddress { member: Member(4), lba: Lba(5 * 8) });
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let new = |level, members, strip, origin| {
            Geometry::new(Stripes { level, members, strip: Sectors(strip) }, Lba(origin), Pages(9)).err()
        };
        assert_eq!(new(Level::Raid0, 2, 8, 0), None);
        assert_eq!(new(Level::Raid0, 2, 4, 0), Some(StripsError::Strip(Sectors(4))));
        assert_eq!(new(Level::Raid0, 2, 0, 0), Some(StripsError::Strip(Sectors(0))));
        assert_eq!(new(Level::Raid0, 2, 257 * 8, 0), Some(StripsError::Strip(Sectors(257 * 8))));
        assert_eq!(new(Level::Raid0, 1, 8, 0), Some(StripsError::Members(1)));
        assert_eq!(new(Level::Raid5, 2, 8, 0), Some(StripsError::Members(2)));
        assert_eq!(new(Level::Raid6, 4, 8, 0), None);
        assert_eq!(new(Level::Raid6, 3, 8, 0), Some(StripsError::Members(3)));
        assert_eq!(new(Level::Raid5, 33, 8, 0), Some(StripsError::Members(33)));
        assert_eq!(new(Level::Raid5, 3, 8, 63), Some(StripsError::Origin(Lba(63))));
    }

    proptest! {
        /// By page, compared with the layout in sectors.
        #[test]
        fn every_page_is_where_the_layout_has_it(
            level in prop_oneof![Just(Level::Raid0), Just(Level::Raid5), Just(Level::Raid6)], members in 4..9u64, strip in 1..9u64, origin in 0..40u64, length in 1..200u64,
        ) {
            let array = geometry(level, members, strip, origin, length);
            let stripes = Stripes { level, members, strip: Sectors(strip * SECTORS_PER_PAGE) };
            for page in 0..length {
                let (at, page) = (PageIndex(page), PageIndex(page));
                let (no, block) = (array.strip_of(at), array.block_of(at));
                let located = stripes.locate(Lba((page.get() + origin) * SECTORS_PER_PAGE));
                prop_assert_eq!(array.stripe_of(no), StripeNo(located.row));
                prop_assert_eq!(array.slot_of(no), located.slot);
                prop_assert_eq!(u64::from(array.member_of(no).0), stripes.member(located.row, located.slot));
                let address = array.address_of(no, block);
                prop_assert_eq!(address.lba, stripes.on_member(located.row, located.offset, located.offset).start);
                prop_assert!(array.pages_of(no).contains(page));
                prop_assert!(array.blocks_of(no).has(block));
                prop_assert_eq!(array.page_of(no, block), page);
            }
            // Each page is a block of one strip, once.
            let (first, last) = (array.strip_of(PageIndex(0)), array.strip_of(PageIndex(length - 1)));
            let blocks: u64 = (first.0..=last.0).map(|no| array.blocks_of(StripNo(no)).count()).sum();
            prop_assert_eq!(blocks, length);
        }

        #[test]
        fn a_span_is_cut_at_strips(
            members in 3..6u64, strip in 1..9u64, origin in 0..40u64, start in 0..90u64, pages in 0..90u64,
        ) {
            let array = geometry(Level::Raid5, members, strip, origin, 100);
            let span = PageSpan::at(PageIndex(start), Pages(pages));
            let cut: Vec<PageIndex> = array.strips(span)
                .flat_map(|(no, blocks)| {
                    (0..strip).filter(move |block| blocks.has(*block)).map(move |block| array.page_of(no, block))
                })
                .collect();
            let expected: Vec<PageIndex> = span.iter().filter(|page| page.get() < 100).collect();
            prop_assert_eq!(cut, expected);
            prop_assert!(array.strips(span).all(|(no, blocks)| array.blocks_of(no).covers(blocks)));
            let stripes = array.pages_of_stripes(StripeNo(1), 2);
            let inside = |page: &u64| (1..3).contains(&array.stripe_of(array.strip_of(PageIndex(*page))).0);
            let expected: Vec<u64> = (0..100).filter(inside).collect();
            prop_assert_eq!(stripes.iter().map(PageIndex::get).collect::<Vec<_>>(), expected);
        }
    }
}
