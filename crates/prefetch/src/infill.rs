//! Which gaps between wanted pages are read over, and how many wanted pages that leaves room for.
//!
//! ATC'09 section 3.3: below some distance the gap costs less to read than to skip. What is read in
//! a gap takes memory as well, though, and where memory is short it takes the place of wanted
//! pages: the round covers less of the list, and there will be more rounds. So the widest gap worth
//! reading is chosen for each round: for each candidate width up to the device's own, the round is
//! cut to what fits, and the width that costs least *per wanted page* wins. The cost of a pass is
//! counted in page transfers: each page read costs one, each jump as much as the device's own
//! width, as that is the distance at which reading and skipping cost the same.
//!
//! A pass over a prefix of the pages needs no more pages than one over a longer prefix, as a page
//! in a read gap changes nothing and any other adds itself; so the longest prefix that fits is
//! found by halving. All in all O(n log n).

use crate::order::Stop;
use foreseek_units::Pages;

/// Wanted pages and read gaps that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// How many pages of the round, by rank, are fetched.
    pub(crate) wanted: usize,
    /// Gaps up to this are read.
    pub(crate) gap: Pages,
    /// Pages read in all.
    pub(crate) pages: Pages,
    /// Jumps, the one to the first page included.
    pub(crate) jumps: u64,
}

/// The pages between two stops of a pass, where they lie together in the file and on the device.
pub(crate) fn gap(from: Stop, to: Stop) -> Option<Pages> {
    let between = to.page.page().get().checked_sub(from.page.page().get() + 1)?;
    let together = from.page.slot() == to.page.slot() && from.spot.after(Pages(between + 1)) == to.spot;
    together.then_some(Pages(between))
}

/// Chooses a pass over `stops`, which are in fetch order, that reads at most `buffer` pages.
/// `widest` is the largest gap that is cheaper read than skipped.
pub(crate) fn choose(stops: &[Stop], widest: Pages, buffer: Pages) -> Pass {
    let jump_cost = widest.get().max(1);
    widths(widest)
        .map(|width| longest(stops, width, buffer))
        // The first of equals, the narrowest, as it leaves more memory to others.
        .min_by_key(|pass| cost_per_page(pass, jump_cost))
        .unwrap_or(Pass { wanted: 0, gap: Pages::ZERO, pages: Pages::ZERO, jumps: 0 })
}

/// None, then the powers of two up to the widest, and that.
fn widths(widest: Pages) -> impl Iterator<Item = Pages> {
    let powers = (0..64).map(|bit| Pages(1 << bit)).take_while(move |width| *width < widest);
    std::iter::once(Pages::ZERO).chain(powers).chain((!widest.is_zero()).then_some(widest))
}

/// In thousandths of a page transfer.
fn cost_per_page(pass: &Pass, jump_cost: u64) -> u64 {
    let cost = pass.pages.get().saturating_add(pass.jumps.saturating_mul(jump_cost));
    if pass.wanted == 0 { u64::MAX } else { cost.saturating_mul(1000) / pass.wanted as u64 }
}

/// The pass over the most pages, in order of rank, that fits when gaps up to `width` are read.
fn longest(stops: &[Stop], width: Pages, buffer: Pages) -> Pass {
    let all = measure(stops, stops.len(), width);
    if all.pages <= buffer {
        return all;
    }
    let (mut fits, mut too_many) = (0, stops.len());
    while too_many - fits > 1 {
        let half = fits + (too_many - fits) / 2;
        if measure(stops, half, width).pages <= buffer {
            fits = half;
        } else {
            too_many = half;
        }
    }
    measure(stops, fits, width)
}

/// The pass over the first `wanted` pages by rank.
fn measure(stops: &[Stop], wanted: usize, width: Pages) -> Pass {
    let mut pass = Pass { wanted, gap: width, pages: Pages::ZERO, jumps: 0 };
    let mut last: Option<Stop> = None;
    for stop in stops.iter().filter(|stop| (stop.rank as usize) < wanted) {
        match last.and_then(|last| gap(last, *stop)).filter(|gap| *gap <= width) {
            Some(gap) => pass.pages += gap,
            None => pass.jumps += 1,
        }
        pass.pages += Pages(1);
        last = Some(*stop);
    }
    pass
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ObjectId;
    use crate::objects::{Objects, PageKey};
    use crate::order::c_look;
    use crate::settings::Order;
    use foreseek_units::PageIndex;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn stops(pages: &[u64]) -> Vec<Stop> {
        let mut objects = Objects::new();
        let slot = objects.intern(ObjectId(1)).expect("room");
        let keys = pages.iter().map(|page| PageKey::new(slot, PageIndex(*page)).expect("small"));
        c_look(&objects, Order::File, None, keys)
    }

    #[test]
    fn with_memory_to_spare_every_gap_that_is_cheaper_read_is_read() {
        let pass = choose(&stops(&[30, 0, 2, 10, 11]), Pages(8), Pages(1000));
        assert_eq!(pass, Pass { wanted: 5, gap: Pages(8), pages: Pages(13), jumps: 2 });
    }

    #[test]
    fn without_infill_no_gap_is_read() {
        let pass = choose(&stops(&[30, 0, 2, 10, 11]), Pages::ZERO, Pages(1000));
        assert_eq!(pass, Pass { wanted: 5, gap: Pages::ZERO, pages: Pages(5), jumps: 4 });
    }

    #[test]
    fn where_memory_is_short_wanted_pages_go_before_gaps() {
        // Every third page of a file: were the gaps read, at no gain, most pages would not fit and
        // take another pass.
        let pages: Vec<u64> = (0..1000).map(|n| n * 7919 % 1000 * 3).collect();
        let pass = choose(&stops(&pages), Pages(2), Pages(1000));
        assert_eq!((pass.wanted, pass.gap), (1000, Pages::ZERO));
        // A jump as dear as 64 pages turns that about.
        let pass = choose(&stops(&pages), Pages(64), Pages(1000));
        assert!(pass.gap > Pages::ZERO && pass.wanted < 1000, "{pass:?}");
    }

    proptest! {
        #[test]
        fn a_pass_fits_and_one_page_more_would_not(
            pages in proptest::collection::hash_set(0..200u64, 1..60),
            buffer in 1..120u64,
            width in 0..10u64,
        ) {
            let pages: Vec<u64> = pages.into_iter().collect();
            let stops = stops(&pages);
            let pass = longest(&stops, Pages(width), Pages(buffer));
            let read = |wanted: usize| {
                let chosen: BTreeSet<u64> = pages[..wanted].iter().copied().collect();
                let mut all = chosen.clone();
                for (a, b) in chosen.iter().zip(chosen.iter().skip(1)) {
                    if b - a - 1 <= width {
                        all.extend(*a..*b);
                    }
                }
                all.len() as u64
            };
            prop_assert_eq!(pass.pages.get(), read(pass.wanted));
            prop_assert!(pass.pages.get() <= buffer);
            if pass.wanted < pages.len() {
                prop_assert!(read(pass.wanted + 1) > buffer);
            }
        }
    }
}
