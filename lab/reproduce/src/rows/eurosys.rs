//! EuroSys'07 section 6, and the latency of section 7.

use super::{Context, Row};
use crate::pick::Sweep;
use foreseek_simulate::experiment::Metric;
use std::ops::RangeInclusive;

const LINUX: &str = "linux-2.6.10";
/// In the virtual machine.
const GUEST: &str = "linux-2.6.18";
const CP: &str = "competitive";
const AP: &str = "aggressive";
const OPT: &str = "oracle";

const ALL: RangeInclusive<u32> = 1..=1000;
const ALONE: RangeInclusive<u32> = 1..=1;
/// The level of figure 11.
const FOUR: RangeInclusive<u32> = 4..=4;

/// The array of figures 10 and 11.
const ARRAY: &str = "raid0-2x-seagate";

const WHOLE: &str = "eu-one-whole-0";
const ONE_RAND: &str = "eu-one-rand-10";
const TWO_RAND: &str = "eu-two-rand-0";
const FOUR_CHUNKS: &str = "eu-four-64kb-0";
const MEDIA: &str = "eu-media-server";
const INDEX: &str = "eu-index-search";
const MICRO: &[&str] = &[WHOLE, ONE_RAND, TWO_RAND, FOUR_CHUNKS];
/// The microbenchmarks on all three devices.
const EVERYWHERE: &[&str] = &[
    WHOLE,
    ONE_RAND,
    TWO_RAND,
    FOUR_CHUNKS,
    "eu-others-one-whole-0",
    "eu-others-one-rand-10",
    "eu-others-two-rand-0",
    "eu-others-four-64kb-0",
];
const GUESTS_JOBS: &[&str] = &["eu-vm-2cp5", "eu-vm-2cp50", "eu-vm-cp5+diff5", "eu-vm-cp50+diff50"];

pub(super) const ROWS: &[Row] = &[
    Row::new("EU-whole", &[WHOLE], |c| rates(c, &[WHOLE], (CP, LINUX), &ALL).furthest_from(1.0..=1.0)),
    Row::new("EU-one-rand", &[ONE_RAND], |c| rates(c, &[ONE_RAND], (CP, LINUX), &ALL).mean()),
    Row::new("EU-two-rand", &[TWO_RAND], |c| rates(c, &[TWO_RAND], (CP, LINUX), &ALL).mean()),
    Row::new("EU-four", &[FOUR_CHUNKS], |c| {
        rates(c, &[FOUR_CHUNKS], (CP, LINUX), &ALL).furthest_from(1.0..=1.0)
    }),
    Row::new("EU-half-opt", MICRO, |c| rates(c, MICRO, (CP, OPT), &ALL).every_run_at_least()),
    Row::new("EU-trail-opt", EVERYWHERE, |c| rates(c, EVERYWHERE, (CP, OPT), &ALL).smallest()),
    Row::new("EU-apache", &[MEDIA], |c| rates(c, &[MEDIA], (CP, LINUX), &ALL).furthest_from(1.0..=1.0)),
    Row::new("EU-index", &[INDEX], |c| rates(c, &[INDEX], (CP, LINUX), &ALL).mean()),
    Row::new("EU-index-ap", &[INDEX], |c| rates(c, &[INDEX], (AP, CP), &ALL).mean()),
    Row::new("EU-2cp", &["eu-2cp5", "eu-2cp50"], |c| {
        times(c, &["eu-2cp5", "eu-2cp50"], (CP, LINUX)).furthest_from(1.0..=1.0)
    }),
    Row::new("EU-2diff5", &["eu-2diff5"], |c| times(c, &["eu-2diff5"], (CP, LINUX)).mean()),
    Row::new("EU-2diff50", &["eu-2diff50"], |c| times(c, &["eu-2diff50"], (CP, LINUX)).mean()),
    Row::new("EU-2tpch", &["eu-2tpch"], |c| times(c, &["eu-2tpch"], (CP, LINUX)).mean()),
    Row::new("EU-cpdiff", &["eu-cp5+diff5", "eu-cp50+diff50"], |c| {
        times(c, &["eu-cp5+diff5", "eu-cp50+diff50"], (CP, LINUX)).furthest_from(1.0..=1.0)
    }),
    Row::new("EU-vm-whole", &["eu-vm-one-whole-0"], |c| {
        rates(c, &["eu-vm-one-whole-0"], (CP, GUEST), &ALL).largest()
    }),
    Row::new("EU-vm-half-opt", &["eu-vm-one-whole-0"], |c| {
        rates(c, &["eu-vm-one-whole-0"], (CP, OPT), &ALL).every_run_at_least()
    }),
    Row::new("EU-vm-nonserver", GUESTS_JOBS, |c| times(c, GUESTS_JOBS, (CP, GUEST)).largest()),
    Row::new("EU-raid0-2diff50", &["eu-devices-2diff50", "eu-devices-2diff5"], |c| {
        let of = |run| times(c, &[run], (CP, LINUX));
        let disks = of("eu-devices-2diff50").not_on(ARRAY);
        Some(of("eu-devices-2diff50").on(ARRAY).mean()?.beside(disks.and(of("eu-devices-2diff5"))))
    }),
    Row::new("EU-raid0-two-rand", &["eu-devices-two-rand-0"], |c| {
        let of = || rates(c, &["eu-devices-two-rand-0"], (CP, LINUX), &FOUR);
        Some(of().on(ARRAY).mean()?.beside(of().not_on(ARRAY)))
    }),
    Row::new("EU-devices-index", &["eu-devices-index-search"], |c| {
        rates(c, &["eu-devices-index-search"], (CP, LINUX), &FOUR).furthest_from(1.19..=1.26)
    }),
    Row::new("EU-devices-index-ap", &["eu-devices-index-search"], |c| {
        rates(c, &["eu-devices-index-search"], (AP, LINUX), &FOUR).largest()
    }),
    Row::new("EU-serial-diff", &["eu-serial-diff5", "eu-serial-diff50"], |c| {
        times(c, &["eu-serial-diff5", "eu-serial-diff50"], (CP, LINUX)).furthest_from(0.67..=0.67)
    }),
    Row::new("EU-serial-index", &[INDEX], |c| {
        c.runs.ratios(INDEX, (CP, LINUX), &Metric::RESPONSE, &ALONE).mean()
    }),
    Row::new("EU-serial-q2", &["eu-serial-tpch-q2"], |c| {
        times(c, &["eu-serial-tpch-q2"], (CP, LINUX)).mean()
    }),
    Row::new("EU-serial-noharm", HARMLESS, |c| {
        let served = c.runs.ratios(MEDIA, (CP, LINUX), &Metric::RESPONSE, &ALONE);
        times(c, &HARMLESS[..HARMLESS.len() - 1], (CP, LINUX)).and(served).largest()
    }),
    Row::new("EU-latency", &["eu-small-read"], |c| {
        c.runs.ratios("eu-small-read", (CP, LINUX), &Metric::RESPONSE, &ALL).mean()
    }),
];

const HARMLESS: &[&str] =
    &["eu-serial-cp5", "eu-serial-cp50", "eu-serial-kernel-build", "eu-serial-tpch", MEDIA];

/// Throughput of one policy over another's, in several runs.
fn rates(c: &Context<'_>, runs: &[&str], policies: (&str, &str), within: &RangeInclusive<u32>) -> Sweep {
    c.runs.all_ratios(runs, policies, &Metric::THROUGHPUT, within)
}

/// Execution time of one policy over another's, in several runs of jobs.
fn times(c: &Context<'_>, runs: &[&str], policies: (&str, &str)) -> Sweep {
    c.runs.all_ratios(runs, policies, &Metric::TIME, &ALONE)
}
