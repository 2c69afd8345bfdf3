//! ATC'08 sections 2.1 and 3.2 to 3.7: the array.
//!
//! "SEQP" without a number is the best of its three windows. In `linux-2.6.18@128K/asp` the array's driver has
//! ASP and the host SEQP: it is ASP+SEQP128. Throughput of dbench and of the desktop counts reads and writes.
//! Every run is on the array whose drives look ahead as ASP-stride1 needs it. The other settings are run for
//! the rows that depend on them, and are not judged.

use super::{Context, Row};
use crate::Measured;
use crate::pick::Sweep;
use foreseek_simulate::experiment::Metric;
use std::ops::RangeInclusive;

pub(super) const SEQP: [&str; 3] = [SEQP_32, SEQP_128, SEQP_512];
const SEQP_32: &str = "linux-2.6.18@32K/none";
pub(super) const SEQP_128: &str = "linux-2.6.18@128K/none";
const SEQP_512: &str = "linux-2.6.18@512K/none";
pub(super) const NONE: &str = "none/none";
pub(super) const SP: &str = "none/sp";
pub(super) const ASP: &str = "none/asp";
const WITHOUT_GHOSTS: &str = "none/asp-without-ghosts";
/// Without its cost test.
const CULLING: &str = "none/asp-without-cost-test";
pub(super) const ASP_MSP: &str = "none/asp+msp";
pub(super) const MSP: &str = "none/msp";
pub(super) const ASP_SEQP: &str = "linux-2.6.18@128K/asp";
pub(super) const MSP_SEQP: &str = "linux-2.6.18@128K/msp";
pub(super) const ALL_THREE: &str = "linux-2.6.18@128K/asp+msp";
pub(super) const WITH_ASP: [&str; 4] = [ASP, ASP_MSP, ASP_SEQP, ALL_THREE];
const WITHOUT_ASP: [&str; 5] = [SEQP_32, SEQP_128, SEQP_512, MSP, MSP_SEQP];

pub(super) const BATCH: RangeInclusive<u32> = 1..=1;
const CLIENTS_128: RangeInclusive<u32> = 128..=128;
const CLIENTS_64: RangeInclusive<u32> = 64..=64;

pub(super) const PCMARK: &[&str] = &["atc-pcmark"];
/// Four times what its trace uses.
const LARGEST_CACHE: &[&str] = &["5200 MiB"];
const DBENCH: &[&str] = &["atc-dbench"];
const DBENCH_64: &[&str] = &["atc-dbench-64"];

pub(super) const TIO: &[&str] =
    &["atc-tio-06", "atc-tio-08", "atc-tio-10", "atc-tio-12", "atc-tio-16", "atc-tio-20"];
/// From 1.2 GiB on.
const LARGE: &[&str] = &["atc-tio-12", "atc-tio-16", "atc-tio-20"];
/// Where strips gain.
const SMALL: &[&str] = &["atc-tio-06", "atc-tio-08"];
const HITS: &[&str] = &[
    "atc-tio-06",
    "atc-tio-08",
    "atc-tio-10",
    "atc-tio-12",
    "atc-tio-16",
    "atc-tio-20",
    "atc-hits-125",
    "atc-hits-250",
];
const STRIDES: &[&str] =
    &["atc-stride-16-by-3", "atc-stride-16-by-5", "atc-stride-16-by-9", "atc-stride-16-by-17"];
const TPCH: &[&str] = TPCH_LOOK.split_at(12).0;
/// The queries with the look-ahead that is judged, then with the others.
const TPCH_LOOK: &[&str] = &[
    "atc-tpch-q1",
    "atc-tpch-q2",
    "atc-tpch-q3",
    "atc-tpch-q4",
    "atc-tpch-q5",
    "atc-tpch-q6",
    "atc-tpch-q7",
    "atc-tpch-q8",
    "atc-tpch-q9",
    "atc-tpch-q10",
    "atc-tpch-q11",
    "atc-tpch-q12",
    "atc-look-tpch-q1",
    "atc-look-tpch-q2",
    "atc-look-tpch-q3",
    "atc-look-tpch-q4",
    "atc-look-tpch-q5",
    "atc-look-tpch-q6",
    "atc-look-tpch-q7",
    "atc-look-tpch-q8",
    "atc-look-tpch-q9",
    "atc-look-tpch-q10",
    "atc-look-tpch-q11",
    "atc-look-tpch-q12",
];
/// The settings of the look-ahead.
const LOOK_AHEAD: [&str; 3] = ["raid5-5x-15k", "raid5-5x-15k-gap", "raid5-5x-15k-plain"];

pub(super) const ROWS: &[Row] = &[
    Row::new("ASP-pcmark-sp", PCMARK, |c| desktop(c, SP).largest()),
    Row::new("ASP-pcmark-none", PCMARK, |c| desktop(c, NONE).largest()),
    Row::new("ASP-pcmark-all", PCMARK, |c| desktop(c, SP).least_of(desktop(c, NONE))?.smallest()),
    Row::new("ASP-pcmark-large", PCMARK, |c| desktop(c, SP).of_values(LARGEST_CACHE).mean()),
    Row::new("ASP-dbench-sp", DBENCH, |c| clients(c, (ASP, SP), &CLIENTS_128).mean()),
    Row::new("ASP-dbench-seqp32", DBENCH, |c| clients(c, (ASP, SEQP_32), &CLIENTS_128).mean()),
    Row::new("ASP-dbench-seqp128", DBENCH, |c| {
        let measured = clients(c, (ASP, SEQP_128), &CLIENTS_128).mean()?;
        Some(measured.beside(clients(c, (ASP, SEQP_512), &CLIENTS_128)))
    }),
    Row::new("ASP-dbench-seqp-size-128", DBENCH, |c| clients(c, (SEQP_32, SEQP_512), &CLIENTS_128).mean()),
    Row::new("ASP-dbench-seqp-size-64", DBENCH_64, |c| {
        c.runs.all_ratios(DBENCH_64, (SEQP_32, SEQP_512), &Metric::MOVED, &CLIENTS_64).mean()
    }),
    Row::new("ASP-dbench-ghost", DBENCH, |c| clients(c, (ASP, WITHOUT_GHOSTS), &CLIENTS_128).mean()),
    Row::new("ASP-dbench-combo", DBENCH, |c| clients(c, (ASP_SEQP, SEQP_128), &CLIENTS_128).mean()),
    Row::new("ASP-dbench-msp", DBENCH, |c| clients(c, (ASP_MSP, ASP), &CLIENTS_128).mean()),
    Row::new("ASP-dbench-addseqp", DBENCH, |c| clients(c, (ASP_SEQP, ASP), &CLIENTS_128).mean()),
    Row::new("ASP-dbench-on", DBENCH, |c| {
        let refused = |metric| c.runs.values("atc-dbench", ASP, metric, &CLIENTS_128);
        let by_cost = refused(&Metric::ARRAY_REFUSED).largest()?.value;
        let most = by_cost.values.iter().copied().fold(0.0, f64::max);
        let measured = Measured::exact(by_cost.mean, format!("{:.0}", by_cost.mean), most == 0.0);
        Some(measured.beside(refused(&Metric::ARRAY_REFUSED_BY_SIZE)))
    }),
    Row::new("ASP-tio-06", &["atc-tio-06"], |c| rates(c, &["atc-tio-06"], (ASP, SEQP_128)).mean()),
    Row::new("ASP-tio-08", &["atc-tio-08"], |c| {
        let over = |other| rates(c, &["atc-tio-08"], (ASP, other));
        over(SP).least_of(over(SEQP_128))?.smallest()
    }),
    Row::new("ASP-tio-10", TIO, |c| {
        let rest = ["atc-tio-06", "atc-tio-08", "atc-tio-10"];
        Some(rates(c, LARGE, (ASP, SEQP_128)).mean()?.beside(rates(c, &rest, (ASP, SEQP_128))))
    }),
    Row::new("ASP-tio-sp", TIO, |c| {
        let rest = ["atc-tio-06", "atc-tio-08", "atc-tio-10"];
        Some(rates(c, LARGE, (ASP, SP)).mean()?.beside(rates(c, &rest, (ASP, SP))))
    }),
    Row::new("ASP-tio-latency", SMALL, |c| {
        c.runs.all_ratios(SMALL, (SEQP_128, ASP), &Metric::LONGEST_RESPONSE, &BATCH).smallest()
    }),
    Row::new("ASP-random-msp", TIO, |c| rates(c, TIO, (ASP_MSP, ASP)).furthest_from(1.0..=1.0)),
    Row::new("ASP-hitrate", HITS, |c| {
        let over = |other| c.runs.all_ratios(HITS, (CULLING, other), &Metric::ARRAY_HITS, &BATCH);
        // The host's page cache keeps what it reads: without prefetching the driver's cache often has no hits.
        over(SP).and(over(NONE).of_something()).every_run_at_least()
    }),
    Row::new("ASP-seq1-asp", FORWARD_1, |c| hangs(c, FORWARD_1, (ASP_MSP, ASP))),
    Row::new("ASP-seq1-seqp512", FORWARD_1, |c| hangs(c, FORWARD_1, (ASP_MSP, SEQP_512))),
    Row::new("ASP-seq1-seqp32", FORWARD_1, |c| hangs(c, FORWARD_1, (ASP_MSP, SEQP_32))),
    Row::new("ASP-seq4-asp", FORWARD_4, |c| hangs(c, FORWARD_4, (ASP_MSP, ASP))),
    Row::new("ASP-seq16-combo", FORWARD_16, |c| hangs(c, FORWARD_16, (ASP_MSP, ALL_THREE))),
    Row::new("ASP-reverse16", &["atc-reverse-16", "atc-reverse-16-seen"], |c| {
        let measured = over_best(c, "atc-reverse-16", ASP)?.mean()?;
        Some(measured.beside(over_best(c, "atc-reverse-16-seen", ASP)?))
    }),
    Row::new("ASP-stride1", &["atc-stride-1-by-3", "atc-look-stride-1"], |c| {
        let measured = over_best(c, "atc-stride-1-by-3", ASP_MSP)?.mean()?;
        Some(measured.beside(over_best(c, "atc-look-stride-1", ASP_MSP)?))
    }),
    Row::new("ASP-stride16", STRIDES_16, |c| {
        let pairs = WITH_ASP.iter().flat_map(|ours| WITHOUT_ASP.map(|theirs| (*ours, theirs)));
        let all = pairs.clone().map(|pair| rates(c, STRIDES, pair)).reduce(Sweep::and)?;
        let least = LOOK_AHEAD.iter().filter_map(|device| {
            let look = pairs.clone().map(|pair| rates(c, &["atc-look-stride-16"], pair).on(device));
            look.reduce(Sweep::and)?.least()
        });
        let beside = least.flat_map(Sweep::places).collect();
        Some(Measured { beside, ..all.every_run_at_least()? })
    }),
    Row::new("ASP-tpch-asp", TPCH_LOOK, |c| queries(c, (ASP, SEQP_128))),
    Row::new("ASP-tpch-msp", TPCH_LOOK, |c| queries(c, (ASP_MSP, SEQP_128))),
    Row::new("ASP-tpch-q4", &["atc-tpch-q4", "atc-look-tpch-q4"], |c| {
        let measured = speed_ups(c, &["atc-tpch-q4"], (ASP_MSP, SEQP_128)).mean()?;
        Some(measured.beside(speed_ups(c, &["atc-look-tpch-q4"], (ASP_MSP, SEQP_128))))
    }),
    Row::new("ASP-tpch-best", TPCH, |c| {
        let others = WITHOUT_ASP.iter().chain(&[ASP, ASP_SEQP]);
        let over = |ours| others.clone().map(|theirs| speed_ups(c, TPCH, (ours, theirs))).reduce(Sweep::and);
        over(ASP_MSP)?.and(over(ALL_THREE)?).every_run_at_least()
    }),
    Row::new("ASP-cscope1", &["atc-cscope1"], |c| over_best(c, "atc-cscope1", ASP_MSP)?.mean()),
    Row::new("ASP-cscope2", &["atc-cscope2"], |c| over_best(c, "atc-cscope2", ASP_MSP)?.mean()),
    Row::new("ASP-cscope1-seqp", &["atc-cscope1"], |c| {
        speed_ups(c, &["atc-cscope1"], (ALL_THREE, ASP_MSP)).mean()
    }),
    Row::new("ASP-cscope2-seqp", &["atc-cscope2"], |c| {
        speed_ups(c, &["atc-cscope2"], (ALL_THREE, ASP_MSP)).mean()
    }),
    Row::new("ASP-link", &["atc-link"], |c| over_best(c, "atc-link", ASP_MSP)?.mean()),
    Row::new("ASP-boot1", &["atc-boot-1"], |c| speed_ups(c, &["atc-boot-1"], (ASP_MSP, SEQP_128)).mean()),
    Row::new("ASP-boot2", &["atc-boot-2"], |c| speed_ups(c, &["atc-boot-2"], (ASP_MSP, SEQP_128)).mean()),
    Row::new("ASP-boot2-512", &["atc-boot-2"], |c| speed_ups(c, &["atc-boot-2"], (ASP_MSP, SEQP_512)).mean()),
    Row::new("ASP-glimpse", &["atc-glimpse"], |c| speed_ups(c, &["atc-glimpse"], (ASP_MSP, SEQP_128)).mean()),
];

const FORWARD_1: &[&str] = &["atc-forward-1", "atc-look-forward-1"];
const FORWARD_4: &[&str] = &["atc-forward-4", "atc-look-forward-4"];
const FORWARD_16: &[&str] = &["atc-forward-16", "atc-look-forward-16"];
const STRIDES_16: &[&str] = &[
    "atc-stride-16-by-3",
    "atc-stride-16-by-5",
    "atc-stride-16-by-9",
    "atc-stride-16-by-17",
    "atc-look-stride-16",
];

/// The throughput of the desktop under ASP over another policy, by the size of the cache.
fn desktop(c: &Context<'_>, theirs: &str) -> Sweep {
    c.runs.all_ratios(PCMARK, (ASP, theirs), &Metric::MOVED, &BATCH)
}

/// The throughput of the clients of dbench.
fn clients(c: &Context<'_>, policies: (&str, &str), within: &RangeInclusive<u32>) -> Sweep {
    c.runs.all_ratios(DBENCH, policies, &Metric::MOVED, within)
}

/// Throughput of one policy over another's.
pub(super) fn rates(c: &Context<'_>, runs: &[&str], policies: (&str, &str)) -> Sweep {
    c.runs.all_ratios(runs, policies, &Metric::THROUGHPUT, &BATCH)
}

/// The other's time over ours.
fn speed_ups(c: &Context<'_>, runs: &[&str], (ours, theirs): (&str, &str)) -> Sweep {
    c.runs.all_ratios(runs, (theirs, ours), &Metric::TIME, &BATCH)
}

/// A row that depends on the drives' look-ahead: judged in the first run, shown with all settings in the
/// second.
fn hangs(c: &Context<'_>, runs: &[&str], policies: (&str, &str)) -> Option<Measured> {
    let (judged, shown) = runs.split_at(1);
    Some(rates(c, judged, policies).mean()?.beside(rates(c, shown, policies)))
}

/// The mean speed-up of the queries: judged with one look-ahead, shown with each.
fn queries(c: &Context<'_>, policies: (&str, &str)) -> Option<Measured> {
    let measured = speed_ups(c, TPCH, policies).mean()?;
    let shown = LOOK_AHEAD.iter().filter_map(|device| {
        let mean = speed_ups(c, TPCH_LOOK, policies).on(device).mean()?;
        Some((format!("mean of Q1 to Q12, {device}, {}", policies.0), mean.value))
    });
    Some(Measured { beside: shown.collect(), ..measured })
}

/// Throughput over the best of the host's three windows.
fn over_best(c: &Context<'_>, run: &str, ours: &str) -> Option<Sweep> {
    let [small, middle, large] = SEQP.map(|theirs| rates(c, &[run], (ours, theirs)));
    small.least_of(middle)?.least_of(large)
}
