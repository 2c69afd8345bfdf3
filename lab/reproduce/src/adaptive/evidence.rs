//! The studies: classes, `rho`, regret, changes, the adversary, depths.

use super::study::{Device, Learner, StudiedStream, share, side_by_side, streams};
use super::{AdaptiveOptions, Aim, AimPoint, Table};
use crate::charts::of_policies;
use crate::outcome::Drawn;
use foreseek_chart::{Across, Lines, Mark, Point, Series};
use foreseek_readahead::depth::{Plan, RatioBound};
use foreseek_readahead::learn::{Feature, Lengths, Retention, SCHEME, Scheme};
use foreseek_readahead::stream::{Found, Opened, RHO, Settings, Touch, View, by_name};
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_simulate::experiment::Summary;
use foreseek_theory::search::{FoundWorst, worst};
use foreseek_theory::{Model, adversary::against_policy};
use foreseek_units::{DeviceCosts, Instant, Lba, Nanos, PAGE_SIZE, PageIndex, Pages, Rate};
use std::sync::Arc;

/// The devices of the studies: C = 10.5 ms and R = 51 MB/s, and a disk of today (C R = 2.7 MB).
const DEVICES: [(&str, Device); 2] = [("536 KB", Device { unit: 130.7 }), ("2.7 MB", Device { unit: 659.0 })];

/// The results of the studies.
#[derive(Default)]
pub(super) struct Evidence {
    pub(super) aims: Vec<Aim>,
    pub(super) tables: Vec<Table>,
    pub(super) drawn: Drawn,
}

/// The streams of the workloads, by their names.
type Workloads = Vec<(&'static str, Vec<StudiedStream>)>;
/// The streams of each workload, and of all workloads together.
type Sources = Vec<(String, Vec<StudiedStream>)>;

/// Runs all studies: those with a verdict with the streams of every seed, the others with those of the first
/// seed.
pub(super) fn gather(options: &AdaptiveOptions, seeds: &[Workloads]) -> Evidence {
    let mut each: Vec<Sources> = seeds.iter().map(sources).collect();
    let (Some(workloads), Some(sources)) = (seeds.first(), each.first_mut()) else {
        return Evidence::default();
    };
    for trace in &options.traces {
        let mut workload = (trace.made.workload)();
        sources.push((format!("trace {}", trace.name), streams(&mut *workload, &trace.name, 11, 20_000)));
    }
    sources.retain(|(_, reads)| reads.len() >= 100);
    let tables = vec![policies(sources), classes(sources), rhos(sources)];
    let (_, device) = DEVICES[0];
    let mut aims = over_slow_start(seeds);
    aims.extend([after_200_streams(&each), changes(seeds), bounds(workloads)]);
    Evidence {
        aims,
        tables,
        drawn: Drawn {
            title: "Learnt depth: in the time of the device alone".to_owned(),
            caption: "Streams one after the other, a switch of 10.5 ms and the transfer at 51 MB/s for each \
                      fetch; nothing of queues, caches and readers."
                .to_owned(),
            file: "adaptive-micro.toml",
            charts: vec![regret(&workloads[3].1, &workloads[0].1, device), sequences(workloads)],
        },
    }
}

/// Each workload alone, and all of them together.
fn sources(workloads: &Workloads) -> Sources {
    let mut sources: Sources =
        workloads.iter().map(|(name, reads)| ((*name).to_owned(), reads.clone())).collect();
    let mixed = workloads.iter().map(|(_, reads)| reads.clone()).collect();
    sources.push(("all side by side".to_owned(), side_by_side(mixed)));
    sources
}

/// No bound: more than any stream can cost.
const NO_BOUND: f64 = 1000.0;

/// Points, their values, and the values of the dynamic program without a bound.
type OfSeed = Vec<(String, f64, f64)>;

/// The values at each point over all seeds.
fn over_seeds(measured: Vec<OfSeed>) -> Vec<AimPoint> {
    let mut places: Vec<(String, Vec<f64>, Vec<f64>)> = Vec::new();
    for (name, value, free) in measured.into_iter().flatten() {
        match places.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, values, frees)) => {
                values.push(value);
                frees.push(free);
            }
            None => places.push((name, vec![value], vec![free])),
        }
    }
    let place = |(name, values, frees)| AimPoint {
        free: Some(Summary::of(frees)),
        ..AimPoint::of(name, Summary::of(values))
    };
    places.into_iter().map(place).collect()
}

/// The share of the oracle, for each policy and source.
fn policies(sources: &[(String, Vec<StudiedStream>)]) -> Table {
    let mut rows = Vec::new();
    for (name, device) in DEVICES {
        for (source, reads) in sources {
            let (slow, competitive) = (device.slow_start(), device.competitive());
            let mut learner = Learner::new(SCHEME, RHO, device);
            let mut known = Learner::known(reads, RHO, device);
            let mut free = Learner::known(reads, NO_BOUND, device);
            let shares = vec![
                share(reads, device, |read| device.fixed(&slow, read)),
                share(reads, device, |read| device.fixed(&competitive, read)),
                share(reads, device, |read| learner.read(read)),
                share(reads, device, |read| known.read(read)),
                share(reads, device, |read| free.read(read)),
            ];
            rows.push((format!("{source}, {name}"), shares));
        }
    }
    let heads = [
        "competitive",
        "competitive-without-slow-start",
        "adaptive",
        "adaptive-known-lengths",
        "adaptive-known-lengths, no bound",
    ];
    Table { title: "Share of the oracle by device time".to_owned(), heads: owned(&heads), rows }
}

/// The schemes of classes that are compared.
const SCHEMES: [(&str, Scheme); 7] = [
    ("none", Scheme(&[&[]])),
    ("size", Scheme(&[&[], &[Feature::Size]])),
    ("start", Scheme(&[&[], &[Feature::Start]])),
    ("size+start", Scheme(&[&[], &[Feature::Size, Feature::Start]])),
    (
        "+program",
        Scheme(&[&[], &[Feature::Size, Feature::Start], &[Feature::Size, Feature::Start, Feature::Program]]),
    ),
    (
        "+directory",
        Scheme(&[
            &[],
            &[Feature::Size, Feature::Start],
            &[Feature::Size, Feature::Start, Feature::Directory],
        ]),
    ),
    ("default", SCHEME),
];

/// The share of the oracle, by the classes that learning uses.
fn classes(sources: &[(String, Vec<StudiedStream>)]) -> Table {
    let (_, device) = DEVICES[0];
    let row = |(source, reads): &(String, Vec<StudiedStream>)| {
        let by = |(_, scheme): &(&str, Scheme)| {
            let mut learner = Learner::new(*scheme, RHO, device);
            share(reads, device, |read| learner.read(read))
        };
        (source.clone(), SCHEMES.iter().map(by).collect())
    };
    let heads: Vec<&str> = SCHEMES.iter().map(|(name, _)| *name).collect();
    let title = "Share of the oracle by device time, by the classes that streams are put into".to_owned();
    Table { title, heads: owned(&heads), rows: sources.iter().map(row).collect() }
}

/// The share of the oracle, by the bound.
fn rhos(sources: &[(String, Vec<StudiedStream>)]) -> Table {
    const RHOS: [f64; 8] = [2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 8.0, NO_BOUND];
    let mut rows = Vec::new();
    for (name, device) in DEVICES {
        for (source, reads) in sources {
            let by = |rho: &f64| {
                let mut known = Learner::known(reads, *rho, device);
                share(reads, device, |read| known.read(read))
            };
            rows.push((format!("{source}, {name}"), RHOS.iter().map(by).collect()));
        }
    }
    let heads = RHOS.map(|rho| format!("rho {rho}")).to_vec();
    Table { title: "Share of the oracle by device time, known lengths, by rho".to_owned(), heads, rows }
}

/// Against competitive prefetching with slow start, from the first stream on: the aims of throughput, where
/// only the device takes time.
fn over_slow_start(seeds: &[Workloads]) -> Vec<Aim> {
    let over = |what, aim, names: &[&str]| {
        let of_seed = |workloads: &Workloads| {
            let mut places = Vec::new();
            for (name, device) in DEVICES {
                for (workload, reads) in workloads.iter().filter(|(workload, _)| names.contains(workload)) {
                    let (slow, mut learner) = (device.slow_start(), Learner::new(SCHEME, RHO, device));
                    let mut free = Learner::known(reads, NO_BOUND, device);
                    let ours = share(reads, device, |read| learner.read(read));
                    let free = share(reads, device, |read| free.read(read));
                    let theirs = share(reads, device, |read| device.fixed(&slow, read));
                    places.push((format!("{workload}, {name}"), ours / theirs, free / theirs));
                }
            }
            places
        };
        Aim { what, aim, at_most: false, places: over_seeds(seeds.iter().map(of_seed).collect()) }
    };
    vec![
        over(
            "throughput by device time over competitive, random portions",
            1.3,
            &["two-rand-0", "one-rand-10"],
        ),
        over("throughput by device time over competitive, whole files", 1.02, &["one-whole-0"]),
    ]
}

/// After 200 streams, against the policy with known lengths.
fn after_200_streams(seeds: &[Sources]) -> Aim {
    let of_seed = |sources: &Sources| {
        let mut places = Vec::new();
        for (name, device) in DEVICES {
            for (source, reads) in sources.iter().filter(|(_, reads)| reads.len() >= 400) {
                let mut learner = Learner::new(SCHEME, RHO, device);
                let mut known = Learner::known(reads, RHO, device);
                let mut free = Learner::known(reads, NO_BOUND, device);
                reads.iter().take(200).for_each(|read| {
                    learner.read(read);
                });
                let rest = &reads[200..];
                let ours = share(rest, device, |read| learner.read(read));
                let free = share(rest, device, |read| free.read(read));
                let theirs = share(rest, device, |read| known.read(read));
                places.push((format!("{source}, {name}"), ours / theirs, free / theirs));
            }
        }
        places
    };
    let places = over_seeds(seeds.iter().map(of_seed).collect());
    Aim { what: "device time after 200 streams, over known lengths", aim: 0.95, at_most: false, places }
}

/// Pairs of behaviours, one after the other: streams 100 to 200 after the change, against the competitive
/// depth.
fn changes(seeds: &[Workloads]) -> Aim {
    const BEFORE: usize = 1000;
    const WITHIN: usize = 100;
    let (_, device) = DEVICES[0];
    let of_seed = |workloads: &Workloads| {
        let (micro, mut places) = (&workloads[..4], Vec::new());
        for (before, first) in micro {
            for (after, second) in micro.iter().filter(|(name, _)| name != before) {
                let mut learner = Learner::new(SCHEME, RHO, device);
                first[..BEFORE].iter().chain(&second[..WITHIN]).for_each(|read| {
                    learner.read(read);
                });
                let judged = &second[WITHIN..2 * WITHIN];
                let mut free = Learner::known(second, NO_BOUND, device);
                let competitive = device.competitive();
                let ours = share(judged, device, |read| learner.read(read));
                let free = share(judged, device, |read| free.read(read));
                let theirs = share(judged, device, |read| device.fixed(&competitive, read));
                places.push((format!("{before} to {after}"), ours / theirs, free / theirs));
            }
        }
        places
    };
    let places = over_seeds(seeds.iter().map(of_seed).collect());
    let what = "device time from 100 streams after a change, over competitive";
    Aim { what, aim: 1.0, at_most: false, places }
}

/// The cost of each policy beyond that with a known distribution, stream by stream; the behaviour changes in
/// the middle.
fn regret(first: &[StudiedStream], second: &[StudiedStream], device: Device) -> String {
    const EACH: usize = 500;
    let (first, second) = (&first[..EACH], &second[..EACH]);
    let mut knowing = [Learner::known(first, RHO, device), Learner::known(second, RHO, device)];
    let mut learner = Learner::new(SCHEME, RHO, device);
    let (slow, competitive) = (device.slow_start(), device.competitive());
    let names = ["competitive", "competitive-without-slow-start", "adaptive"];
    let mut sums = [0.0; 3];
    let mut series: Vec<Series> = names
        .iter()
        .map(|name| Series { name: (*name).to_owned(), mark: Mark::Line, points: Vec::new() })
        .collect();
    for (n, read) in first.iter().chain(second).enumerate() {
        let known = knowing[n / EACH].read(read);
        let costs = [device.fixed(&slow, read), device.fixed(&competitive, read), learner.read(read)];
        for ((sum, cost), series) in sums.iter_mut().zip(costs).zip(&mut series) {
            *sum += cost - known;
            if n % 10 == 9 {
                series.points.push(Point { x: (n + 1) as f64, y: *sum, low: *sum, high: *sum });
            }
        }
    }
    let title = "Regret: random blocks, then random portions".to_owned();
    let (across, upright) = ("streams".to_owned(), "switches more than with known lengths".to_owned());
    let series = of_policies(series);
    Lines { title, across, scale: Across::Linear, upright, series }.to_svg()
}

/// The depth of each fetch of a stream after a workload was learnt.
fn sequences(workloads: &[(&'static str, Vec<StudiedStream>)]) -> String {
    let (_, device) = DEVICES[0];
    // Both workloads of random portions are equal here.
    let shown = workloads.iter().enumerate().filter(|(n, _)| *n != 1).map(|(_, workload)| workload).take(5);
    let series = shown.map(|(name, reads)| {
        let mut lengths = Lengths::new(Retention::Lasting);
        reads.iter().for_each(|read| lengths.stream(read.length, read.ended));
        let end = reads.iter().map(|read| read.left).max().unwrap_or(Pages(1));
        let plan = Plan::solve(lengths.survival(), RatioBound::new(RHO, device.unit), end, 1.0);
        let depth = |(n, depth): (usize, &Pages)| {
            let y = depth.get() as f64;
            Point { x: n as f64 + 1.0, y, low: y, high: y }
        };
        let depths = plan.sequence(8, end);
        Series {
            name: (*name).to_owned(),
            mark: Mark::Line,
            points: depths.iter().enumerate().map(depth).collect(),
        }
    });
    let title = "Depths, fetch by fetch, by what was learnt".to_owned();
    let (across, upright) = ("fetch of a stream".to_owned(), "pages".to_owned());
    Lines { title, across, scale: Across::Steps, upright, series: series.collect() }.to_svg()
}

/// The worst ratio that an adversary finds after the policy has learnt each workload, for several bounds.
fn bounds(workloads: &[(&'static str, Vec<StudiedStream>)]) -> Aim {
    /// Streams learnt before, and the longest that the adversary tries.
    const STREAMS: usize = 300;
    const LONGEST: Pages = Pages(1 << 14);
    /// Pages of each that are learnt: as far as a plan of these streams differs between pages.
    const LEARNT: u64 = 4096;
    /// Files as long as the adversary's, so that what was learnt applies to them.
    const FILE: Pages = Pages(1 << 19);
    let model = Model { positioning: Nanos::from_millis_f64(10.5), rate: Rate::mb_per_second(51.0) };
    let page = PAGE_SIZE as f64 / model.competitive_depth();
    let costs: Arc<dyn DeviceCosts> = Arc::new(model);
    let mut places = Vec::new();
    for rho in [2.0, 3.0, 5.0] {
        for (name, reads) in workloads {
            let settings = Settings { rho, ..Settings::default() };
            let Ok(mut policy) = by_name("adaptive", &settings, &costs) else { continue };
            let (stream, object, pid, mut out) = (StreamId(1), ObjectId(1), ProcessId(1), Vec::new());
            for read in reads.iter().take(STREAMS) {
                policy.opened(Instant::ZERO, Opened { stream, object, pid, length: FILE, announced: None });
                for page in (0..read.length.get().min(LEARNT)).map(PageIndex) {
                    let touch = Touch {
                        stream,
                        page,
                        request: Pages(1),
                        first: true,
                        mapped: false,
                        found: Found::Hit,
                        marker: false,
                    };
                    policy.touch(Instant::ZERO, touch, &Full, &mut out);
                    out.clear();
                }
                policy.closed(Instant::ZERO, stream);
            }
            // Less the transfer of a page: depths and lengths are whole pages.
            let worst = against_policy(&mut *policy, &model, LONGEST).ratio - (rho + 1.0) * page;
            places.push(AimPoint::of(format!("{name}, rho {rho}"), Summary::of(vec![worst / rho])));
        }
    }
    Aim { what: "what an adversary gets, over rho", aim: 1.0, at_most: true, places }
}

/// The worst ratio that the searching adversary finds, for several bounds: the aim, the numbers, and for each
/// bound the worst case in words.
pub(super) fn searched(runs: usize) -> (Aim, Table, Vec<String>) {
    const RHOS: [f64; 5] = [2.0, 2.5, 3.0, 4.0, 6.0];
    const SEED: u64 = 1;
    let (mut places, mut rows, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for rho in RHOS {
        let settings = Settings { rho, ..Settings::default() };
        let make = |costs: &Arc<dyn DeviceCosts>| by_name("adaptive", &settings, costs).ok();
        let FoundWorst { case, costly, runs } = worst(&make, &settings, SEED, runs);
        let name = format!("rho {rho}");
        rows.push((name.clone(), vec![costly.ratio, costly.but_a_page]));
        words.push(format!(
            "worst ratio found for {name}: {:.4} ({:.4} without the transfer of a page) in {runs} cases; a stream of {} \
             in {} fetches with {case}",
            costly.ratio, costly.but_a_page, costly.length, costly.fetches,
        ));
        places.push(AimPoint::of(name, Summary::of(vec![costly.but_a_page / rho])));
    }
    let what = "what an adversary that searches gets, over rho";
    let heads = owned(&["ratio", "without a page"]);
    let title = format!("The worst ratio that an adversary found in {runs} cases for each rho");
    (Aim { what, aim: 1.0, at_most: true, places }, Table { title, heads, rows }, words)
}

/// A memory that holds everything.
struct Full;

impl View for Full {
    fn cached(&self, _page: PageIndex) -> bool {
        true
    }
    fn congested(&self) -> bool {
        false
    }
    fn lba(&self, _page: PageIndex) -> Option<Lba> {
        None
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
