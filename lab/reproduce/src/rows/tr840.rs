//! TR-840 sections 2.3 and 5, and the position paper's section 3.3.

use super::{Context, Row};
use crate::Measured;
use crate::pick::Sweep;
use foreseek_device::Profile;
use foreseek_simulate::experiment::Metric;
use foreseek_theory::Model;
use foreseek_units::Bytes;
use std::ops::RangeInclusive;

const LINUX: &str = "linux-2.6.3";
const CP: &str = "competitive";
const AP: &str = "aggressive";
const CPEM: &str = "competitive+cpem";

/// What the paper calls low concurrency (section 5.2: "low concurrency levels (1-32)").
const LOW: RangeInclusive<u32> = 1..=32;
/// What it calls high concurrency: beyond that.
const HIGH: RangeInclusive<u32> = 64..=1000;
/// All levels that are run.
const ALL: RangeInclusive<u32> = 1..=1000;
/// The levels at which 0.4 GB of data and the handlers' 1 MB each fit into 512 MB together.
const FITS: RangeInclusive<u32> = 1..=64;
/// Those that are run beyond.
const BEYOND_FITS: RangeInclusive<u32> = 65..=1000;
/// Data that do not fit at any level.
const LARGE_DATA: &[&str] = &["tr-data-2g", "tr-data-8g"];
/// The levels at which response times are shown for policies other than CPEM (section 5.3).
const SHOWN: RangeInclusive<u32> = 1..=256;
/// Those that are run beyond.
const BEYOND_SHOWN: RangeInclusive<u32> = 257..=1000;

const MB_PER_S: Metric = Metric::THROUGHPUT;

const ELEVATOR: &[&str] = &["tr-elevator-one-whole-0", "tr-elevator-one-rand-10", "tr-elevator-two-rand-0"];
const MICRO: &[&str] = &["tr-one-whole-0", "tr-one-rand-10", "tr-two-rand-0", "tr-four-64kb-0"];
const INDEX: &[&str] = &["tr-index-search"];
const MEDIA: &[&str] = &["tr-media-server"];
const SEQUENCE: &[&str] = &["tr-sequence-search"];
const STREAMS: &[&str] = &["tr-stream-4m", "tr-one-rand-10", "tr-stream-1m"];
const MEMORIES: &[&str] = &["tr-one-rand-10", "tr-memory-1g", "tr-memory-2g"];

pub(super) const ROWS: &[Row] = &[
    Row::new("TR-opt-whole", &[], |_| optimum(WHOLE)),
    Row::new("TR-opt-one-rand", &[], |_| optimum(RANDOM)),
    Row::new("TR-opt-two-rand", &[], |_| optimum(RANDOM)),
    Row::new("TR-opt-four", &[], |_| optimum(CHUNK)),
    Row::new("TR-half-opt", MICRO, |c| {
        Some(of_the_optimum(c, &LOW)?.smallest()?.beside(of_the_optimum(c, &HIGH)?))
    }),
    Row::new("TR-noas-low", ELEVATOR, |c| {
        at_low(|levels| ratios(c, ELEVATOR, (CP, LINUX), levels), Sweep::largest)
    }),
    Row::new("TR-noas-high", ELEVATOR, |c| ratios(c, ELEVATOR, (CPEM, LINUX), &HIGH).largest()),
    Row::new("TR-ap-whole", ELEVATOR, |c| {
        at_low(|levels| ratios(c, &ELEVATOR[..1], (AP, CP), levels), Sweep::largest)
    }),
    Row::new("TR-ap-hurts", ELEVATOR, |c| ratios(c, &ELEVATOR[1..], (AP, CP), &ALL).mean()),
    Row::new("TR-random-equal", MICRO, |c| {
        ratios(c, &MICRO[3..], (CP, LINUX), &ALL).furthest_from(1.0..=1.0)
    }),
    Row::new("TR-micro-max", MICRO, |c| {
        at_low(|levels| ratios(c, MICRO, (CP, LINUX), levels), Sweep::largest)
    }),
    Row::new("TR-index-cp", INDEX, |c| at_low(|levels| ratios(c, INDEX, (CP, LINUX), levels), Sweep::mean)),
    Row::new("TR-index-ap", INDEX, |c| {
        at_low(|levels| ratios(c, INDEX, (AP, LINUX), levels), Sweep::largest)
    }),
    // "Up to" four-fold (abstract, section 5.6): the best level, against the best of the others at that level.
    Row::new("TR-index-cpem", INDEX, |c| {
        let over = |other| ratios(c, INDEX, (CPEM, other), &HIGH);
        over(LINUX).least_of(over(AP))?.least_of(over(CP))?.largest()
    }),
    Row::new("TR-index-response", INDEX, |c| {
        let of = |levels| c.runs.ratios(INDEX[0], (CP, LINUX), &Metric::RESPONSE, levels);
        Some(of(&SHOWN).mean()?.beside(of(&BEYOND_SHOWN)))
    }),
    Row::new("TR-index-linux-peak", INDEX, |c| c.runs.values(INDEX[0], LINUX, &MB_PER_S, &ALL).largest()),
    Row::new("TR-index-linux-512", INDEX, |c| c.runs.values(INDEX[0], LINUX, &MB_PER_S, &at(512)).mean()),
    Row::new("TR-thrash-linux", INDEX, |c| {
        let of = |policy| c.runs.values(INDEX[0], policy, &Metric::THRASHED, &at(512));
        of(LINUX).and(of(AP)).and(of(CP)).furthest_from(207.0..=256.0)
    }),
    Row::new("TR-thrash-cpem", INDEX, |c| c.runs.values(INDEX[0], CPEM, &Metric::THRASHED, &ALL).largest()),
    Row::new("TR-thrash-low", INDEX, |c| {
        let of = |policy| c.runs.values(INDEX[0], policy, &Metric::THRASHED, &LOW);
        of(LINUX).and(of(CP)).and(of(CPEM)).largest()
    }),
    Row::new("TR-reqsize-cpem", INDEX, |c| {
        c.runs.values(INDEX[0], CPEM, &Metric::LONGEST_FETCH, &at(512)).mean()
    }),
    Row::new("TR-cpu-linux-2", INDEX, |c| c.runs.values(INDEX[0], LINUX, &Metric::PROCESSOR, &at(2)).mean()),
    Row::new("TR-cpu-linux-512", INDEX, |c| {
        c.runs.values(INDEX[0], LINUX, &Metric::PROCESSOR, &at(512)).mean()
    }),
    Row::new("TR-cpu-cpem-2", INDEX, |c| c.runs.values(INDEX[0], CPEM, &Metric::PROCESSOR, &at(2)).mean()),
    Row::new("TR-cpu-cpem-512", INDEX, |c| {
        c.runs.values(INDEX[0], CPEM, &Metric::PROCESSOR, &at(512)).mean()
    }),
    Row::new("TR-apache-2", MEDIA, |c| ratios(c, MEDIA, (CP, LINUX), &at(2)).mean()),
    Row::new("TR-apache-1000", MEDIA, |c| ratios(c, MEDIA, (CP, LINUX), &at(1000)).mean()),
    Row::new("POS-apache-64", MEDIA, |c| ratios(c, MEDIA, (CP, LINUX), &at(64)).mean()),
    // Queries have one length: requests a second are in proportion to bytes a second, which are measured more
    // exactly in minutes of a run than a few finished queries.
    Row::new("TR-blast-low", SEQUENCE, |c| {
        at_low(|levels| ratios(c, SEQUENCE, (CP, LINUX), levels), Sweep::mean)
    }),
    Row::new("TR-blast-high", SEQUENCE, |c| ratios(c, SEQUENCE, (CPEM, LINUX), &HIGH).mean()),
    Row::new("TR-stream-4m", &["tr-stream-4m"], |c| ratios(c, &["tr-stream-4m"], (CP, LINUX), &at(2)).mean()),
    Row::new("TR-stream-1m", &["tr-stream-1m"], |c| ratios(c, &["tr-stream-1m"], (CP, LINUX), &at(2)).mean()),
    // One number for each stream size: the mean over the high levels.
    Row::new("TR-stream-cpem", STREAMS, |c| least_mean(c, STREAMS, &HIGH)),
    // "Do not negatively affect [...] when the application data can completely fit": at no such level.
    Row::new("TR-fits", &["tr-data-400m", "tr-data-2g", "tr-data-8g"], |c| {
        let of = |runs: &[&str], levels| ratios(c, runs, (CPEM, LINUX), levels);
        let fits = &["tr-data-400m"];
        Some(of(fits, &FITS).smallest()?.beside(of(fits, &BEYOND_FITS).and(of(LARGE_DATA, &ALL))))
    }),
    // One number for each memory size: the mean over the sweep.
    Row::new("TR-memsize", MEMORIES, |c| least_mean(c, MEMORIES, &ALL)),
];

/// A claim of the low levels, with the high ones beside it.
fn at_low(
    of: impl Fn(&RangeInclusive<u32>) -> Sweep,
    judged: fn(Sweep) -> Option<Measured>,
) -> Option<Measured> {
    Some(judged(of(&LOW))?.beside(of(&HIGH)))
}

fn at(concurrency: u32) -> RangeInclusive<u32> {
    concurrency..=concurrency
}

/// Throughput of one policy over another's, in several runs.
fn ratios(c: &Context<'_>, runs: &[&str], policies: (&str, &str), within: &RangeInclusive<u32>) -> Sweep {
    c.runs.all_ratios(runs, policies, &MB_PER_S, within)
}

/// CPEM's throughput over Linux's, the mean over levels, of the run with the smallest.
fn least_mean(c: &Context<'_>, runs: &[&str], within: &RangeInclusive<u32>) -> Option<Measured> {
    let means = runs.iter().map(|run| ratios(c, &[run], (CPEM, LINUX), within).mean());
    let means: Vec<Measured> = means.collect::<Option<_>>()?;
    let sweep = means.iter().flat_map(|mean| mean.sweep.clone()).collect();
    let least = means.into_iter().min_by(|a, b| a.value.mean.total_cmp(&b.value.mean))?;
    Some(Measured { sweep, ..least })
}

/// The mean length of a stream (section 5.1): a whole file of 4 MB; uniform from 64 KB to that; a block of 64
/// KB.
const WHOLE: Bytes = Bytes::mib(4);
const RANDOM: Bytes = Bytes::kib(2 * 1024 + 32);
const CHUNK: Bytes = Bytes::kib(64);

/// The optimal throughput by the paper's estimate, in MB/s: streams of this length, one switch each.
fn best(length: Bytes) -> Option<f64> {
    let profile = Profile::builtin("ibm-36g-51")?;
    let model = Model { positioning: profile.positioning_time(), rate: profile.sequential_rate() };
    let length = length.get() as f64;
    Some(length / model.optimum(length) / 1e6)
}

fn optimum(length: Bytes) -> Option<Measured> {
    best(length).map(Measured::number)
}

/// Competitive prefetching over the estimated optimum of the four microbenchmarks, except One-Rand-10 alone, whose think
/// time nothing overlaps (position paper, section 3.2).
fn of_the_optimum(c: &Context<'_>, levels: &RangeInclusive<u32>) -> Option<Sweep> {
    let lengths = [WHOLE, RANDOM, RANDOM, CHUNK];
    let mut all = ratios(c, &[], (CP, CP), levels);
    for (run, length) in MICRO.iter().zip(lengths) {
        let first = if *run == "tr-one-rand-10" { 2 } else { 1 };
        let levels = *levels.start().max(&first)..=*levels.end();
        all = all.and(c.runs.values(run, CP, &MB_PER_S, &levels).times(1.0 / best(length)?));
    }
    Some(all)
}
