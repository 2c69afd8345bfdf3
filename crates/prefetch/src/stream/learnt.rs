//! Learnt depth: fetches as deep as the lengths of past streams make worth while, within a promise.
//!
//! For each class of files, by size in octaves, the policy counts how long the streams were that ended
//! ([`Survival`]), and fetches by the [`Plan`] that costs least for those lengths. No stream costs more
//! than `rho` times what knowing its length would ([`Promise`]), whatever was learnt: competitive
//! prefetching is `rho = 2`.
//!
//! It fetches when a page is missing, as the model has it; a stream is followed from the page where it
//! began until the reader leaves it or closes, and its length is then known.
//!
//! Limits: what lies in memory already counts as consumed, although it cost nothing; a class that was
//! never seen starts from the prior; the plan reckons with the mean rate of the device and the promise
//! with that of the place.

use super::machine::{Answer, Machine, Streams};
use super::registry::Parts;
use super::{Opened, Prefetcher, Served};
use crate::depth::{DEPTH_LIMIT, Plan, Promise, Survival, SwitchCost};
use foreseek_units::{Nanos, PAGE_SIZE, PageIndex, Pages, Rate, Span};
use std::sync::Arc;

/// Classes of files: one for each size in octaves of pages, up to 8 TiB.
const CLASSES: usize = 32;
/// After how many streams more a class is planned anew; before that, whenever their number has grown
/// by half.
const PLAN_EVERY: u64 = 16;
/// By how much the switch cost may move before plans are made anew.
const SWITCH_TOLERANCE: f64 = 0.1;

/// Makes it.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    let settings = parts.settings;
    let switch = SwitchCost::new(Arc::clone(parts.costs), settings.averaging, settings.switch_weight);
    let classes = (0..CLASSES).map(|_| Class::default()).collect();
    Box::new(Streams::new(Learnt { switch, rho: settings.rho, classes }))
}

/// The machine.
struct Learnt {
    switch: SwitchCost,
    rho: f64,
    classes: Vec<Class>,
}

/// What was learnt of files of one size.
#[derive(Default)]
struct Class {
    lengths: Survival,
    plan: Option<Planned>,
}

/// A plan and what it was made for.
struct Planned {
    plan: Plan,
    seen: u64,
    switch: Nanos,
    end: Pages,
}

/// Where a reader is in one stream.
#[derive(Clone, Copy, Debug)]
struct Run {
    class: usize,
    length: Pages,
    /// The stream's first page; none before a page was touched.
    start: Option<PageIndex>,
    /// The page after the last one that was touched.
    reached: PageIndex,
    /// The page after the last one that was fetched.
    fetched: PageIndex,
    fetches: usize,
}

impl Machine for Learnt {
    type Stream = Run;

    fn open(&self, opened: &Opened) -> Run {
        let length = opened.length.max(Pages(1));
        let class = (length.get().ilog2() as usize).min(CLASSES - 1);
        let (reached, fetched) = (PageIndex::ZERO, PageIndex::ZERO);
        Run { class, length, start: None, reached, fetched, fetches: 0 }
    }

    fn close(&mut self, run: &mut Run) {
        if let Some(start) = run.start {
            self.classes[run.class].lengths.ended(run.reached - start);
        }
    }

    fn touch(&mut self, run: &mut Run, answer: &mut Answer<'_>) {
        let page = answer.page();
        let follows = page == run.reached || page.next() == run.reached;
        let start = match run.start {
            Some(start) if follows => start,
            _ => {
                self.close(run);
                (run.start, run.fetched, run.fetches) = (Some(page), page, 0);
                page
            }
        };
        run.reached = page.next();
        // A page of the stream that was fetched and lost is read alone.
        if answer.missing() && page >= run.fetched {
            self.fetch(run, start, answer);
        }
    }

    fn served(&mut self, served: Served) {
        self.switch.served(served);
    }
}

impl Learnt {
    fn fetch(&mut self, run: &mut Run, start: PageIndex, answer: &mut Answer<'_>) {
        let (page, consumed) = (answer.page(), answer.page() - start);
        let costs = self.switch.costs();
        let rate = answer.view.place(page).map_or_else(|| costs.mean_rate(), |place| costs.rate_at(place));
        let promise = Promise::new(self.rho, self.unit(rate));
        let wish = self.plan(run).wish(run.fetches, consumed);
        let depth = promise.nearest(wish, run.fetches, consumed).min(DEPTH_LIMIT);
        let bounded = answer.view.bound().map_or(depth, |bound| depth.min(bound.max(Pages(1))));
        let window = Span::at(page, bounded.max(answer.touch.request));
        answer.read(window, None);
        run.fetched = window.end;
        run.fetches += 1;
    }

    /// `CR` in pages.
    fn unit(&self, rate: Rate) -> f64 {
        rate.as_bytes_per_second() * self.switch.estimate().as_secs_f64() / PAGE_SIZE as f64
    }

    /// The plan for files like this one, made anew where it has grown old.
    fn plan(&mut self, run: &Run) -> &Plan {
        let (switch, promise) =
            (self.switch.estimate(), Promise::new(self.rho, self.unit(self.switch.costs().mean_rate())));
        let class = &mut self.classes[run.class];
        // The longest file of the class so far: in a shorter one the end cuts the last fetch.
        let end = class.plan.as_ref().map_or(run.length, |old| old.end.max(run.length));
        let old = class.plan.take().filter(|old| old.serves(&class.lengths, switch, run.length));
        let lengths = &class.lengths;
        let make = || Planned { plan: Plan::solve(lengths, promise, end), seen: lengths.seen(), switch, end };
        &class.plan.insert(old.unwrap_or_else(make)).plan
    }
}

impl Planned {
    fn serves(&self, lengths: &Survival, switch: Nanos, length: Pages) -> bool {
        let new = lengths.seen() - self.seen;
        let drift = switch.get().abs_diff(self.switch.get()) as f64;
        new < PLAN_EVERY.min(self.seen / 2 + 1)
            && drift <= self.switch.get() as f64 * SWITCH_TOLERANCE
            && length <= self.end
    }
}
