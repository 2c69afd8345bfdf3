//! Transfer times of an object's pages by their addresses, and the number of pages that fit into a time.
//!
//! A zone of a disk has one rate: if two pages have the same rate, so do the pages between them. If the rates
//! differ, the pages between them are halved until they do not. A fetch takes a few look-ups within one zone,
//! and some dozens across zones.
//!
//! Limits:
//!
//! - Pages of one rate around a piece elsewhere on the disk (a file in several extents) are assumed to have
//!   one rate.
//! - If the device was measured at run time, all places have the measured rate.

use super::view::View;
use foreseek_seam::Measured;
use foreseek_units::{DeviceCosts, PAGE_SIZE, PageIndex, PageSpan, Pages, Span};

/// Rates that differ by less than this share count as equal: a device may have a curve for a rate.
const SAME: f64 = 1e-4;
/// Slack for rounding: a millionth of a page's transfer.
const ROUNDING: f64 = 1e-6;

/// The rates of one object's pages.
pub(super) struct Transfers<'a> {
    view: &'a dyn View,
    costs: &'a dyn DeviceCosts,
    measured: Option<Measured>,
    end: PageIndex,
}

impl<'a> Transfers<'a> {
    /// For an object that ends at a page. The `measured` costs take precedence over the device's profile.
    pub(super) fn new(
        view: &'a dyn View,
        costs: &'a dyn DeviceCosts,
        measured: Option<Measured>,
        end: PageIndex,
    ) -> Self {
        Self { view, costs, measured, end }
    }

    /// The transfer time of a page in seconds.
    pub(super) fn page(&self, page: PageIndex) -> f64 {
        let rate = match (self.measured, self.view.lba(page)) {
            (Some(measured), _) => measured.rate,
            (None, Some(lba)) => self.costs.rate_at(lba),
            (None, None) => self.costs.mean_rate(),
        };
        PAGE_SIZE as f64 / rate.as_bytes_per_second()
    }

    /// The transfer time of all these pages in seconds.
    pub(super) fn of(&self, pages: PageSpan) -> f64 {
        let Some(last) = pages.len().get().checked_sub(1) else { return 0.0 };
        let (first, last) = (self.page(pages.start), self.page(pages.start + Pages(last)));
        if pages.len() <= Pages(2) || (first - last).abs() <= first * SAME {
            return (first + last) / 2.0 * pages.len().get() as f64;
        }
        let (left, right) = pages.split(pages.start + pages.len() / 2);
        self.of(left) + self.of(right)
    }

    /// The transfer time of the slowest of these pages in seconds.
    pub(super) fn slowest(&self, pages: PageSpan) -> f64 {
        self.page(pages.start).max(self.page(pages.end - Pages(1)))
    }

    /// How many pages from `from` on are transferred within this many seconds, up to the end of the object.
    pub(super) fn within(&self, from: PageIndex, seconds: f64) -> Pages {
        let left = self.end - from;
        let each = self.page(from);
        let guess = Pages((seconds / each + ROUNDING) as u64).min(left);
        let last = from + (guess - Pages(1));
        if (self.page(last) - each).abs() <= each * SAME {
            return guess;
        }
        // The largest number that fits, and the smallest that does not.
        let (mut fits, mut not) = (Pages::ZERO, left + Pages(1));
        while not - fits > Pages(1) {
            let middle = fits + (not - fits) / 2;
            if self.of(Span::at(from, middle)) <= seconds + each * ROUNDING {
                fits = middle;
            } else {
                not = middle;
            }
        }
        fits
    }

    /// How many pages from `from` on take at least this many seconds, up to the end of the object.
    pub(super) fn at_least(&self, from: PageIndex, seconds: f64) -> Pages {
        let pages = self.within(from, seconds);
        let enough = self.of(Span::at(from, pages)) >= seconds - self.page(from) * ROUNDING;
        if enough { pages } else { (pages + Pages(1)).min(self.end - from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::{Lba, Nanos, Rate, Sectors};
    use proptest::prelude::*;

    /// Pages are contiguous on the disk; the rate, in MB/s, changes at these pages.
    #[derive(Debug)]
    struct Zones(Vec<(u64, f64)>);

    impl View for Zones {
        fn cached(&self, _: PageIndex) -> bool {
            false
        }
        fn congested(&self) -> bool {
            false
        }
        fn lba(&self, page: PageIndex) -> Option<Lba> {
            Some(Lba(page.get()))
        }
    }

    impl DeviceCosts for Zones {
        fn seek_time(&self, _: Sectors) -> Nanos {
            Nanos::ZERO
        }
        fn rate_at(&self, lba: Lba) -> Rate {
            let zone = self.0.iter().rev().find(|(first, _)| *first <= lba.0);
            Rate::mb_per_second(zone.map_or(1.0, |(_, rate)| *rate))
        }
        fn mean_rate(&self) -> Rate {
            Rate::mb_per_second(1.0)
        }
        fn average_seek(&self) -> Nanos {
            Nanos::ZERO
        }
        fn half_rotation(&self) -> Nanos {
            Nanos::ZERO
        }
        fn capacity(&self) -> Sectors {
            Sectors(1 << 30)
        }
    }

    fn zones() -> impl Strategy<Value = Zones> {
        // From the outside in: the rate falls.
        prop::collection::vec((1..500u64, 0.5..0.99f64), 0..6).prop_map(|steps| {
            let (mut first, mut rate, mut zones) = (0, 100.0, vec![(0, 100.0)]);
            for (pages, slower) in steps {
                (first, rate) = (first + pages, rate * slower);
                zones.push((first, rate));
            }
            Zones(zones)
        })
    }

    proptest! {
        #[test]
        fn it_is_the_sum_over_the_pages_whichever_zones_they_lie_in(
            zones in zones(), from in 0..1000u64, count in 0..2000u64, end in 3000..4000u64,
        ) {
            let transfers = Transfers::new(&zones, &zones, None, PageIndex(end));
            let pages = Span::at(PageIndex(from), Pages(count));
            let (sum, slowest) = pages.iter().map(|page| transfers.page(page))
                .fold((0.0, 0.0f64), |(sum, slowest), page| (sum + page, slowest.max(page)));
            prop_assert!((transfers.of(pages) - sum).abs() <= sum * 1e-9);
            if count > 0 {
                prop_assert_eq!(transfers.slowest(pages), slowest);
            }
        }

        #[test]
        fn the_most_pages_that_fit_are_found(
            zones in zones(), from in 0..1000u64, seconds in 0.0..1.0f64, end in 1001..4000u64,
        ) {
            let (from, end) = (PageIndex(from), PageIndex(end));
            let transfers = Transfers::new(&zones, &zones, None, end);
            let time = |pages| transfers.of(Span::at(from, pages));
            let slack = seconds * 1e-6 + 1e-9;
            let (fits, enough) = (transfers.within(from, seconds), transfers.at_least(from, seconds));
            prop_assert!(time(fits) <= seconds + slack);
            prop_assert!(fits == end - from || time(fits + Pages(1)) > seconds - slack);
            prop_assert!(enough == end - from || time(enough) >= seconds - slack);
            prop_assert!(enough == fits || enough == fits + Pages(1));
        }
    }
}
