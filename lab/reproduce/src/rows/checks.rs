//! Checks beside the count: statements of ATC'08 about its figures without a number, or about an order.
//!
//! They are judged like claims, from the same runs, and do not count. A statement about every point must hold
//! for every run at every point.

use super::atc08::{
    ALL_THREE, ASP, ASP_SEQP, BATCH, MSP, MSP_SEQP, NONE, PCMARK, SEQP, SEQP_128, SP, TIO, WITH_ASP,
};
use super::atc08::{ASP_MSP, rates};
use super::{Context, Row};
use crate::Measured;
use crate::pick::Sweep;
use foreseek_simulate::experiment::Metric;

const FORWARD: &[&str] = &["atc-forward-1", "atc-forward-2", "atc-forward-4"];
const REVERSE: &[&str] = &["atc-reverse-1", "atc-reverse-4", "atc-reverse-16"];
/// All runs of figures 9(a) and 9(b), so that they are drawn with their checks.
const FIGURE_9A: &[&str] =
    &["atc-forward-1", "atc-forward-2", "atc-forward-4", "atc-forward-8", "atc-forward-16"];
const FIGURE_9B: &[&str] = &["atc-reverse-1", "atc-reverse-4", "atc-reverse-16", "atc-reverse-16-seen"];
/// From the shortest distance to the longest.
const STRIDES_1: &[&str] =
    &["atc-stride-1-by-3", "atc-stride-1-by-5", "atc-stride-1-by-9", "atc-stride-1-by-17"];
const STRIDES_16: &[&str] =
    &["atc-stride-16-by-3", "atc-stride-16-by-5", "atc-stride-16-by-9", "atc-stride-16-by-17"];

const WITH_MSP: [&str; 4] = [MSP, ASP_MSP, MSP_SEQP, ALL_THREE];

pub(super) const ROWS: &[Row] = &[
    Row::new("CHECK-fig6-prefetch-hits", PCMARK, |c| {
        let over = |other| c.runs.all_ratios(PCMARK, (SP, other), &Metric::ARRAY_PREFETCH_HITS, &BATCH);
        // Without prefetching there is no prefetch hit to divide by.
        over(ASP).and(over(NONE).of_something()).every_run_at_least()
    }),
    Row::new("CHECK-fig6-cache-hits", PCMARK, |c| {
        let over = |other| c.runs.all_ratios(PCMARK, (NONE, other), &Metric::ARRAY_CACHE_HITS, &BATCH);
        over(SP).and(over(ASP)).every_run_at_least()
    }),
    Row::new("CHECK-fig8c-processor", TIO, |c| {
        c.runs.all_ratios(TIO, (ASP_SEQP, SEQP_128), &Metric::PROCESSOR_COST, &BATCH).largest()
    }),
    Row::new("CHECK-fig9a-msp", FIGURE_9A, |c| {
        let best = |run: &&str| best_with_msp(c, run);
        FORWARD.iter().map(best).collect::<Option<Vec<_>>>()?.into_iter().reduce(Sweep::and)?.smallest()
    }),
    Row::new("CHECK-fig9b-msp-nothing", FIGURE_9B, |c| nothing(c, &[MSP], &Metric::ARRAY_PREFETCHED)),
    Row::new("CHECK-fig9b-seqp-nothing", FIGURE_9B, |c| nothing(c, &SEQP, &Metric::PREFETCHED)),
    Row::new("CHECK-fig9c-asp", STRIDES_1, |c| shorter(c, STRIDES_1, &WITH_ASP)?.smallest()),
    Row::new("CHECK-fig9c-seqp", STRIDES_1, |c| shorter(c, STRIDES_1, &SEQP)?.largest()),
    Row::new("CHECK-fig9d-asp", STRIDES_16, |c| shorter(c, STRIDES_16, &WITH_ASP)?.smallest()),
    Row::new("CHECK-fig9d-seqp", STRIDES_16, |c| shorter(c, STRIDES_16, &SEQP)?.largest()),
];

/// For one run the best combination with MSP over the best without.
fn best_with_msp(c: &Context<'_>, run: &str) -> Option<Sweep> {
    let without = SEQP.iter().chain(&[ASP, ASP_SEQP]);
    let over_all = |ours: &&str| {
        let mut each = without.clone().map(|theirs| rates(c, &[run], (*ours, theirs)));
        let first = each.next()?;
        each.try_fold(first, Sweep::least_of)
    };
    let ours = WITH_MSP.iter().map(over_all).collect::<Option<Vec<_>>>()?;
    ours.into_iter().reduce(Sweep::and)?.best()
}

/// Exact if nothing was prefetched anywhere.
fn nothing(c: &Context<'_>, policies: &[&str], metric: &Metric) -> Option<Measured> {
    let each = REVERSE.iter().flat_map(|run| policies.iter().map(move |policy| (run, policy)));
    let most =
        each.map(|(run, policy)| c.runs.values(run, policy, metric, &BATCH)).reduce(Sweep::and)?.largest()?;
    let value = most.value.mean;
    Some(Measured { sweep: most.sweep, ..Measured::exact(value, format!("{value:.2}"), value == 0.0) })
}

/// Throughput at each distance over that at the next longer one.
fn shorter(c: &Context<'_>, runs: &[&str], policies: &[&str]) -> Option<Sweep> {
    let pairs =
        runs.windows(2).flat_map(|pair| policies.iter().map(move |policy| (pair[0], pair[1], policy)));
    pairs
        .map(|(short, long, policy)| c.runs.over((short, long), policy, &Metric::THROUGHPUT))
        .reduce(Sweep::and)
}
