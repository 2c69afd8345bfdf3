//! Which gaps between wanted pages are read over, and how many wanted pages that leaves room for.
//!
//! ATC'09 section 3.3: below some distance the gap costs less to read than to skip. What is read in
//! a gap takes memory as well, though, and where memory is short it takes the place of wanted
//! pages: the round answers less of the list, and there will be more rounds. So the widest gap worth
//! reading is chosen for each round: for each candidate width up to the device's own, the round is
//! cut to what fits, and the width that costs least *per entry of the list answered* wins. Entries,
//! not pages: the last pages of a round answer most, as the others are read again meanwhile.
//!
//! The cost of a pass is counted in page transfers. A page read costs one. A jump costs as much as
//! the pages that pass under the head meanwhile, up to [`FAR`], where the arm moves instead; but no
//! less than the device's own width, as that is the distance at which reading and skipping cost the
//! same. So where a round is dense a pass costs about the same whether gaps are read or not, and
//! what counts is how much of the list it answers. Pages that are held already cost nothing and take
//! their memory.
//!
//! A pass over a prefix of the pages needs no more memory than one over a longer prefix, as a page
//! in a read gap changes nothing and any other adds itself; so the longest prefix that fits is
//! found by halving. All in all O(n log n).

use crate::order::Stop;
use foreseek_units::{Bytes, Pages};

/// No jump costs more than to transfer so much: about the switch time times the rate of the disks of
/// the three papers, 393 to 646 KB (TR-840 section 3, EuroSys section 5).
const FAR: Pages = Bytes::kib(512).pages_floor();

/// Wanted pages and read gaps that lie together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    /// How many pages of the round, by rank, are fetched.
    pub(crate) wanted: usize,
    /// Gaps up to this are read.
    pub(crate) gap: Pages,
    /// Memory that it takes: wanted pages, held or read, and gaps.
    pub(crate) memory: Pages,
    /// Pages read: the wanted ones that are not held, and gaps.
    pub(crate) read: Pages,
    /// Jumps, the one to the first page included.
    pub(crate) jumps: u64,
    /// The time of all of that, in page transfers.
    pub(crate) cost: Pages,
}

/// The pages between two stops of a pass, where they lie together in the file and on the device.
pub(crate) fn gap(from: Stop, to: Stop) -> Option<Pages> {
    let between = to.page.page().get().checked_sub(from.page.page().get() + 1)?;
    let together = from.page.slot() == to.page.slot() && from.spot.after(Pages(between + 1)) == to.spot;
    together.then_some(Pages(between))
}

/// Chooses a pass over `stops`, which are in fetch order, that takes at most `buffer` pages of
/// memory. `widest` is the largest gap that is cheaper read than skipped; `answered` tells how many
/// entries of the list the first so many pages by rank answer.
pub(crate) fn choose(
    stops: &[Stop],
    widest: Pages,
    buffer: Pages,
    answered: impl Fn(usize) -> usize,
) -> Pass {
    // In millionths of a page transfer for each entry.
    let cost = |pass: &Pass| {
        let cost = pass.cost.get().saturating_mul(1_000_000);
        cost.checked_div(answered(pass.wanted) as u64).unwrap_or(u64::MAX)
    };
    let longest = |width| longest(stops, Widths { read: width, worth: widest }, buffer);
    widths(widest)
        .map(longest)
        // The first of equals, the narrowest, as it leaves more memory to others.
        .min_by_key(cost)
        .unwrap_or_default()
}

/// Up to which width gaps are read, and up to which the device gains by it.
#[derive(Clone, Copy)]
struct Widths {
    read: Pages,
    worth: Pages,
}

/// None, then the powers of two up to the widest, and that.
fn widths(widest: Pages) -> impl Iterator<Item = Pages> {
    let powers = (0..64).map(|bit| Pages(1 << bit)).take_while(move |width| *width < widest);
    std::iter::once(Pages::ZERO).chain(powers).chain((!widest.is_zero()).then_some(widest))
}

/// The pass over the most pages, in order of rank, that fits.
fn longest(stops: &[Stop], width: Widths, buffer: Pages) -> Pass {
    let all = measure(stops, stops.len(), width);
    if all.memory <= buffer {
        return all;
    }
    let (mut fits, mut too_many) = (0, stops.len());
    while too_many - fits > 1 {
        let half = fits + (too_many - fits) / 2;
        if measure(stops, half, width).memory <= buffer {
            fits = half;
        } else {
            too_many = half;
        }
    }
    measure(stops, fits, width)
}

/// The pass over the first `wanted` pages by rank.
fn measure(stops: &[Stop], wanted: usize, width: Widths) -> Pass {
    let mut pass = Pass { wanted, gap: width.read, ..Pass::default() };
    let mut last: Option<Stop> = None;
    // Held pages since the last one that is to be read: a gap is so much smaller.
    let mut held = Pages::ZERO;
    for stop in stops.iter().filter(|stop| (stop.rank as usize) < wanted) {
        pass.memory += Pages(1);
        if stop.held {
            held += Pages(1);
            continue;
        }
        match last.and_then(|last| gap(last, *stop)).filter(|gap| *gap <= width.read) {
            Some(gap) => {
                pass.read += gap - held;
                pass.memory += gap - held;
                pass.cost += gap;
            }
            None => {
                pass.jumps += 1;
                let distance = last.and_then(|last| last.spot.after(Pages(1)).up_to(stop.spot));
                pass.cost += distance.map_or(FAR, |distance| distance.clamp(width.worth.min(FAR), FAR));
            }
        }
        pass.read += Pages(1);
        pass.cost += Pages(1);
        last = Some(*stop);
        held = Pages::ZERO;
    }
    pass
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Objects, PageKey};
    use crate::order::c_look;
    use crate::settings::Order;
    use foreseek_seam::ObjectId;
    use foreseek_units::PageIndex;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn stops(pages: &[u64], held: &[u64]) -> Vec<Stop> {
        let mut objects = Objects::new();
        let slot = objects.intern(ObjectId(1)).expect("room");
        let keys = pages.iter().map(|page| PageKey::new(slot, PageIndex(*page)).expect("small"));
        c_look(&objects, Order::File, None, keys, |page| held.contains(&page.page().0))
    }

    /// Everything but the cost.
    fn chosen(stops: &[Stop], widest: u64) -> (usize, u64, u64, u64, u64) {
        let pass = choose(stops, Pages(widest), Pages(1000), |n| n);
        (pass.wanted, pass.gap.0, pass.memory.0, pass.read.0, pass.jumps)
    }

    #[test]
    fn with_memory_to_spare_every_gap_that_is_cheaper_read_is_read() {
        let stops = stops(&[30, 0, 2, 10, 11], &[]);
        assert_eq!(chosen(&stops, 8), (5, 8, 13, 13, 2));
    }

    #[test]
    fn without_infill_no_gap_is_read() {
        let stops = stops(&[30, 0, 2, 10, 11], &[]);
        assert_eq!(chosen(&stops, 0), (5, 0, 5, 5, 4));
    }

    #[test]
    fn held_pages_take_memory_and_no_time() {
        let stops = stops(&[30, 0, 2, 10, 11], &[2, 30]);
        assert_eq!(chosen(&stops, 10), (5, 10, 13, 11, 1));
        assert_eq!(chosen(&stops, 2), (5, 0, 5, 3, 2));
    }

    #[test]
    fn where_memory_is_short_wanted_pages_go_before_gaps() {
        // Every third page of a file: were the gaps read, at no gain, most pages would not fit and
        // take another pass.
        let pages: Vec<u64> = (0..1000).map(|n| n * 7919 % 1000 * 3).collect();
        let stops = stops(&pages, &[]);
        let chosen = choose(&stops, Pages(2), Pages(1000), |n| n);
        assert_eq!((chosen.wanted, chosen.gap), (1000, Pages::ZERO));
        // A jump as dear as 64 pages turns that about.
        let chosen = choose(&stops, Pages(64), Pages(1000), |n| n);
        assert!(chosen.gap > Pages::ZERO && chosen.wanted < 1000, "{chosen:?}");
        // Not so where the last pages answer most of the list.
        let chosen = choose(&stops, Pages(64), Pages(1000), |n| n.pow(4));
        assert_eq!((chosen.wanted, chosen.gap), (1000, Pages::ZERO));
    }

    proptest! {
        #[test]
        fn a_pass_fits_and_one_page_more_would_not(
            pages in proptest::collection::hash_set(0..200u64, 1..60),
            held in proptest::collection::hash_set(0..200u64, 0..100),
            buffer in 1..120u64,
            width in 0..10u64,
        ) {
            let pages: Vec<u64> = pages.into_iter().collect();
            let held: Vec<u64> = held.into_iter().collect();
            let pass = longest(&stops(&pages, &held), Widths { read: Pages(width), worth: Pages(width) }, Pages(buffer));
            // What is read, and with what is held and wanted the memory.
            let naive = |wanted: usize| {
                let wanted: BTreeSet<u64> = pages[..wanted].iter().copied().collect();
                let missing: BTreeSet<u64> = wanted.iter().filter(|page| !held.contains(page)).copied().collect();
                let mut read = missing.clone();
                for (a, b) in missing.iter().zip(missing.iter().skip(1)) {
                    if b - a - 1 <= width {
                        // A held page in a gap that nobody wants now counts as read: it may be
                        // given back before.
                        read.extend((*a..*b).filter(|page| !(wanted.contains(page) && held.contains(page))));
                    }
                }
                (read.len() as u64, wanted.union(&read).count() as u64)
            };
            prop_assert_eq!((pass.read.get(), pass.memory.get()), naive(pass.wanted));
            prop_assert!(pass.memory.get() <= buffer);
            if pass.wanted < pages.len() {
                prop_assert!(naive(pass.wanted + 1).1 > buffer);
            }
        }
    }
}
