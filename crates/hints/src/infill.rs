//! Which gaps between wanted pages are read, and how many wanted pages this leaves room for.
//!
//! ATC'09 section 3.3: below some width a gap costs less to read than to skip. The pages of a gap, however,
//! take memory as well. Where memory is short they displace wanted pages: the round answers less of the list,
//! and there will be more rounds. Therefore the widest gap worth reading is chosen for each round. For each
//! candidate width up to the device's own, the round is cut to the buffer. The width with the least cost *per
//! answered entry of the list* wins. Entries count, not pages: the last pages of a round answer most entries,
//! as the others are read again meanwhile.
//!
//! The cost of a pass is counted in page transfers. A page read costs one. A jump costs as much as the pages
//! that pass under the head meanwhile. It costs at most [`FAR`], where the arm moves instead, and at least the
//! device's own width, the distance at which reading and skipping cost the same. Therefore a pass of a dense
//! round costs about the same whether gaps are read or not, and the number of answered entries decides. Pages
//! that are held already cost no time, but take memory.
//!
//! A pass over a prefix of the pages needs no more memory than one over a longer prefix: a page in a read gap
//! adds nothing and any other adds itself. So the longest prefix that fits is found by bisection, in O(n log n)
//! in all.

use crate::order::Stop;
use foreseek_units::{Bytes, Pages};

/// No jump costs more than the transfer of this much: about the positioning time times the rate of the disks of
/// the three papers, 393 to 646 KB (TR-840 section 3, EuroSys section 5).
const FAR: Pages = Bytes::kib(512).pages_floor();

/// A choice of wanted pages and read gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    /// How many pages of the round, by rank, are fetched.
    pub(crate) wanted: usize,
    /// Gaps up to this width are read.
    pub(crate) gap: Pages,
    /// The memory that it takes: wanted pages, held or read, and gaps.
    pub(crate) memory: Pages,
    /// Pages read: the wanted ones that are not held, and gaps.
    pub(crate) read: Pages,
    /// Jumps, the one to the first page included.
    pub(crate) jumps: u64,
    /// The time of the pass, in page transfers.
    pub(crate) cost: Pages,
}

/// The pages between two stops of a pass, if they are contiguous in the file and on the device.
pub(crate) fn gap(from: Stop, to: Stop) -> Option<Pages> {
    let between = to.page.page().get().checked_sub(from.page.page().get() + 1)?;
    let together = from.page.slot() == to.page.slot() && from.address.after(Pages(between + 1)) == to.address;
    together.then_some(Pages(between))
}

/// Chooses a pass over `stops`, which are in fetch order, that takes at most `buffer` pages of memory. `widest`
/// is the largest gap that is cheaper to read than to skip; `answered` returns how many entries of the list the
/// first so many pages by rank answer.
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
        // Of equal passes the first, the narrowest, as it leaves more memory to others.
        .min_by_key(cost)
        .unwrap_or_default()
}

/// The width up to which gaps are read, and that up to which reading them is cheaper for the device.
#[derive(Clone, Copy)]
struct Widths {
    read: Pages,
    worth: Pages,
}

/// Zero, the powers of two below the widest, and the widest.
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
    // Held pages since the last page that is to be read: they make a gap smaller.
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
                let distance = last.and_then(|last| last.address.after(Pages(1)).up_to(stop.address));
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

    /// All fields but the cost.
    fn chosen(stops: &[Stop], widest: u64) -> (usize, u64, u64, u64, u64) {
        let pass = choose(stops, Pages(widest), Pages(1000), |n| n);
        (pass.wanted, pass.gap.0, pass.memory.0, pass.read.0, pass.jumps)
    }

    #[test]
    fn with_free_memory_every_gap_that_is_cheaper_to_read_is_read() {
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
    fn where_memory_is_short_wanted_pages_displace_gaps() {
        // Every third page of a file. Reading the gaps would gain nothing, most pages would not fit, and these
        // would take another pass.
        let pages: Vec<u64> = (0..1000).map(|n| n * 7919 % 1000 * 3).collect();
        let stops = stops(&pages, &[]);
        let chosen = choose(&stops, Pages(2), Pages(1000), |n| n);
        assert_eq!((chosen.wanted, chosen.gap), (1000, Pages::ZERO));
        // A jump that costs 64 pages reverses that.
        let chosen = choose(&stops, Pages(64), Pages(1000), |n| n);
        assert!(chosen.gap > Pages::ZERO && chosen.wanted < 1000, "{chosen:?}");
        // Not if the last pages answer most of the list.
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
            // The pages read, and the memory that they take together with those that are held and wanted.
            let naive = |wanted: usize| {
                let wanted: BTreeSet<u64> = pages[..wanted].iter().copied().collect();
                let missing: BTreeSet<u64> = wanted.iter().filter(|page| !held.contains(page)).copied().collect();
                let mut read = missing.clone();
                for (a, b) in missing.iter().zip(missing.iter().skip(1)) {
                    if b - a - 1 <= width {
                        // A held page that is in a gap and not wanted counts as read: it may be released first.
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
