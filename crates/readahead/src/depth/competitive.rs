//! The competitive depth: what could have been transferred during a positioning.
//!
//! `depth = C_switch x R_tr(lba)` (TR-840 section 3, EuroSys'07 sections 4.1 and 5). [`PositioningCost`]
//! estimates the positioning cost; the device gives the rate at the place of the fetch. A prefetch of this size
//! costs at most twice what knowing the stream's length would. Where both were measured at run time
//! ([`Measured`](foreseek_seam::Measured)), the measured values are used.

use super::positioning_cost::PositioningCost;
use super::rule::{Depth, DepthQuery, Served};
use foreseek_units::{Bytes, PAGE_SIZE, Pages};

/// The deepest fetch: 64 MiB. Remote volumes with long latencies and fast links could require gigabytes,
/// which no memory could hold for several streams. Disks require 3 MB.
pub const DEPTH_LIMIT: Pages = Bytes::mib(64).pages_floor();

/// How many bytes of the depth count as a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageMeasure {
    /// 4096 of the 10^6 bytes of a MB/s.
    #[default]
    Exact,
    /// 4000, as EuroSys'07 reckons: 37.3 MB/s x 10.53 ms = 393 KB are 98 pages of "4 KB".
    Paper,
}

impl PageMeasure {
    fn bytes(self) -> Bytes {
        match self {
            Self::Exact => Bytes(PAGE_SIZE),
            Self::Paper => Bytes(4000),
        }
    }
}

/// The competitive depth rule.
pub struct Competitive {
    positioning: PositioningCost,
    measure: PageMeasure,
}

impl Competitive {
    /// With an estimator of the positioning cost.
    #[must_use]
    pub fn new(positioning: PositioningCost, measure: PageMeasure) -> Self {
        Self { positioning, measure }
    }

    /// The estimator.
    #[must_use]
    pub fn positioning(&self) -> &PositioningCost {
        &self.positioning
    }
}

impl Depth for Competitive {
    /// At least a page, as the wanted page is read in any case; at most [`DEPTH_LIMIT`].
    fn most(&mut self, asked: &DepthQuery) -> Pages {
        let costs = self.positioning.costs();
        let depth = match asked.measured {
            Some(measured) => measured.depth(),
            None => {
                let rate = asked.lba.map_or_else(|| costs.mean_rate(), |lba| costs.rate_at(lba));
                rate.in_time(self.positioning.estimate())
            }
        };
        Pages(depth / self.measure.bytes()).clamp(Pages(1), DEPTH_LIMIT)
    }

    fn served(&mut self, served: Served) {
        self.positioning.served(served);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depth::{Averaging, POSITIONING_WEIGHT};
    use foreseek_device::Profile;
    use foreseek_units::{Lba, PageIndex, SectorSpan, Sectors};
    use std::sync::Arc;

    fn rule(device: &str, measure: PageMeasure) -> Competitive {
        let costs = Arc::new(Profile::builtin(device).expect("a built-in profile"));
        Competitive::new(PositioningCost::new(costs, Averaging::Times, POSITIONING_WEIGHT), measure)
    }

    fn at(lba: Option<u64>) -> DepthQuery {
        DepthQuery {
            page: PageIndex(0),
            lba: lba.map(Lba),
            consumed: Pages::ZERO,
            announced: None,
            measured: None,
        }
    }

    /// The papers' depths: 540, 393, 446 and 646 KB at random seeks and the mean rate.
    #[test]
    fn golden_depths_of_the_papers_devices() {
        for (device, kilobytes) in
            [("ibm-36g-51", 540), ("ibm-36g-37", 393), ("seagate-146g", 446), ("raid0-2x-seagate", 646)]
        {
            let pages = rule(device, PageMeasure::Paper).most(&at(None));
            assert!(pages.get().abs_diff(kilobytes / 4) <= 1, "{device}: {pages}");
        }
        assert_eq!(rule("ibm-36g-37", PageMeasure::Paper).most(&at(None)), Pages(98));
        assert_eq!(rule("ibm-36g-37", PageMeasure::Exact).most(&at(None)), Pages(95));
    }

    #[test]
    fn it_is_deeper_outside_than_inside() {
        let mut rule = rule("ibm-36g-51", PageMeasure::Exact);
        let (outside, inside) = (rule.most(&at(Some(0))), rule.most(&at(Some(71_000_000))));
        assert!(outside > Pages(160) && inside < Pages(90), "{outside}, {inside}");
    }

    #[test]
    fn shorter_seeks_make_it_shallower() {
        let mut rule = rule("ibm-36g-51", PageMeasure::Exact);
        let before = rule.most(&at(None));
        for _ in 0..50 {
            rule.served(Served { from: Lba(0), range: SectorSpan::at(Lba(5000), Sectors(8)) });
        }
        assert!(rule.most(&at(None)) < before / 2);
    }

    #[test]
    fn it_lies_between_a_page_and_the_limit_on_any_device() {
        for device in Profile::builtin_names() {
            let depth = rule(device, PageMeasure::Exact).most(&at(Some(1 << 20)));
            assert!((Pages(1)..=DEPTH_LIMIT).contains(&depth), "{device}: {depth}");
        }
    }
}
