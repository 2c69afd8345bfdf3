//! The depth of least cost for streams whose lengths have a known distribution, and never more than a chosen
//! multiple of the optimum.
//!
//! In units of the positioning cost `C` and of the data `CR` transferred in its time, a stream that was read up to
//! `x` costs from there on
//!
//! `V(k, x) = min over d of 1 + d + P(S > x + d | S > x) V(k + 1, x + d)`
//!
//! where `k` counts the fetches made. It is solved backwards over the grid of [`Survival`]. Only depths
//! within the bound are considered, whatever the distribution: wherever the stream ends, the cost is at most
//! `rho` times that of knowing its length. A fetch of `d` at `(k, x)` keeps it
//!
//! - now, if `k + 1 + x + d <= rho (1 + x)`, as the stream may end right after `x`;
//! - for ever, if `x + d >= a (k + 1) + a^2 - 1` with `a = 1 / (rho - 1)`. On that line a fetch of the
//!   largest permitted depth leads to the line again; below it the room runs out.
//!
//! That is [`Account`] with positionings that cost 1. With `rho = 2` both leave one depth, `CR`: competitive
//! prefetching. docs/internals/adaptive-depth.md has the proof. Depths are whole pages, so that the bound holds up to the
//! transfer of one page.
//!
//! Limits: one positioning cost and one rate. A caller whose fetches differ in them takes the plan's
//! [`Plan::wish`] and keeps it within the stream's own account.

use super::account::Account;
use super::grid::{point_below, points};
use super::survival::Survival;
use foreseek_units::Pages;

/// Slack for rounding, in units of the positioning cost: a millionth of it.
const ROUNDING: f64 = 1e-6;

/// The bound: which depths keep the cost within `rho` times the optimum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioBound {
    /// The multiple; at least 2, as no rule has a smaller competitive ratio (EuroSys'07 section 4.2).
    rho: f64,
    /// `CR` in pages.
    unit: f64,
}

impl RatioBound {
    /// `rho` is raised to 2 where it is less; `unit` is the competitive depth in pages.
    #[must_use]
    pub fn new(rho: f64, unit: f64) -> Self {
        Self { rho: rho.max(2.0), unit: unit.max(1.0) }
    }

    /// `CR` in pages: the competitive depth.
    #[must_use]
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// The least and the largest depth within the bound after `fetches` fetches that brought `x`, all of it
    /// used, in units of `CR`.
    fn range(&self, fetches: usize, x: f64) -> (f64, f64) {
        let account = Account::after(self.rho, fetches, x);
        (account.least(1.0), account.most(1.0, x))
    }

    /// The depth nearest to a wish within the bound, in whole pages, at least one.
    fn nearest(&self, wish: Pages, fetches: usize, fetched: Pages) -> Pages {
        let (least, most) = self.range(fetches, fetched.get() as f64 / self.unit);
        if least > most + ROUNDING {
            return Pages(self.unit.ceil() as u64);
        }
        // It may be up to a page beyond the largest: a depth below the least could never be made up for.
        let (least, most) = ((least * self.unit - ROUNDING).ceil(), (most * self.unit).floor());
        Pages((wish.get() as f64).min(most).max(least).max(1.0) as u64)
    }
}

/// The next fetch at each point of the grid, after each number of fetches.
#[derive(Clone, Debug)]
pub struct Plan {
    ratio_bound: RatioBound,
    points: Vec<u64>,
    survival: Survival,
    /// The point to read to, by fetches made and point reached.
    to: Vec<u8>,
    /// The mean cost of a stream by this plan, in positioning costs.
    expected: f64,
}

impl Plan {
    /// Solves for streams with these lengths in a file of `end` pages, where a fetch that continues a stream
    /// costs `continuing` of a positioning beside its transfer.
    #[must_use]
    pub fn solve(survival: Survival, ratio_bound: RatioBound, end: Pages, continuing: f64) -> Self {
        let points = points(end.max(Pages(1)));
        let left = survival.at(&points);
        let count = points.len();
        let last = count - 1;
        let xs: Vec<f64> = points.iter().map(|point| *point as f64 / ratio_bound.unit).collect();
        let mut to = vec![last as u8; count * count];
        // The costs from each point on, after one fetch more than the row being solved.
        let mut after = vec![0.0; count];
        let mut now = vec![0.0; count];
        for fetches in (0..last).rev() {
            let positioning = if fetches == 0 { 1.0 } else { continuing };
            // Each fetch advances by at least a point.
            for at in fetches..last {
                let (least, most) = ratio_bound.range(fetches, xs[at]);
                let cost = |to: usize| positioning + xs[to] - xs[at] + left[to] / left[at] * after[to];
                let kept = |to: &usize| {
                    let depth = xs[*to] - xs[at];
                    depth <= most + ROUNDING && (*to == last || depth >= least - ROUNDING)
                };
                let best =
                    (at + 1..count).filter(kept).min_by(|one, other| cost(*one).total_cmp(&cost(*other)));
                // The best depth lies between two points: when the fetch is made, it is cut to the bound.
                let best =
                    best.unwrap_or_else(|| xs.partition_point(|x| x - xs[at] < least).clamp(at + 1, last));
                to[fetches * count + at] = best as u8;
                now[at] = cost(best);
            }
            std::mem::swap(&mut after, &mut now);
            after[last] = 0.0;
        }
        Self { ratio_bound, expected: after[0], points, survival, to }
    }

    /// The depth after `fetches` fetches that brought `consumed` pages, all of them used.
    #[must_use]
    pub fn depth(&self, fetches: usize, consumed: Pages) -> Pages {
        self.ratio_bound.nearest(self.wish(fetches, consumed), fetches, consumed)
    }

    /// The same without the bound, for a caller that keeps an account of the stream's own costs.
    #[must_use]
    pub fn wish(&self, fetches: usize, consumed: Pages) -> Pages {
        let count = self.points.len();
        let at = point_below(consumed.get()).min(count - 1);
        if at == count - 1 {
            // The distribution does not cover a stream that is longer than the grid.
            return Pages(self.ratio_bound.unit.ceil() as u64);
        }
        let to = self.to.get(fetches * count + at).map_or(count - 1, |to| usize::from(*to));
        // Off the grid the step of the point below is used, not its target.
        Pages(self.points[to].saturating_sub(self.points[at]).max(1))
    }

    /// The cost of a stream of this length in a file of `end` pages by this plan, in positioning costs: a positioning
    /// and the transfer of each fetch.
    #[must_use]
    pub fn cost(&self, length: Pages, end: Pages) -> f64 {
        let (mut at, mut fetches) = (Pages::ZERO, 0);
        while at < length.min(end) {
            at += self.depth(fetches, at).min(end - at);
            fetches += 1;
        }
        fetches as f64 + at.get() as f64 / self.ratio_bound.unit
    }

    /// The first `count` depths of a stream that continues to the end of a file of `end` pages.
    #[must_use]
    pub fn sequence(&self, count: usize, end: Pages) -> Vec<Pages> {
        let (mut at, mut depths) = (Pages::ZERO, Vec::new());
        while depths.len() < count && at < end {
            let depth = self.depth(depths.len(), at).min(end - at);
            depths.push(depth);
            at += depth;
        }
        depths
    }

    /// How much a stream must be sure to read before it continues beyond the pages fetched with a probability
    /// of at least `1 - doubt`. It is a point of the grid: between two points nothing is known.
    #[must_use]
    pub fn certain(&self, fetched: Pages, doubt: f64) -> Pages {
        self.survival.past(self.survival.beyond(fetched) / (1.0 - doubt))
    }

    /// The distribution of lengths that it assumes.
    #[must_use]
    pub fn survival(&self) -> &Survival {
        &self.survival
    }

    /// The mean cost of a stream by this plan, in positioning costs.
    #[must_use]
    pub fn expected_cost(&self) -> f64 {
        self.expected
    }
}
