//! Claims about depths, bounds and the law of seek distances: the code itself is evaluated.

use super::Row;
use crate::Measured;
use foreseek_device::{Op, Profile};
use foreseek_hints::{self as hints, Need, Next, Pump, Share};
use foreseek_kernels::{self as kernels, Settings};
use foreseek_readahead::depth::Depths;
use foreseek_readahead::stream::{Ahead, Found, Opened, Touch, View};
use foreseek_seam::{Access, HintMode, ObjectId, ProcessId, StreamId};
use foreseek_simulate::block::{Request, RequestId, scheduler};
use foreseek_theory::{Model, adversary, seek_law};
use foreseek_units::{
    ByteOffset, Bytes, DeviceCosts, Instant, Lba, Nanos, PageIndex, PageSpan, Pages, Position, Rate,
    SectorSpan, Sectors, Span,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

pub(super) const ROWS: &[Row] = &[
    Row::new("TR-depth-ibm", &[], |_| depth("ibm-36g-51")),
    Row::new("EU-depth-ibm", &[], |_| depth("ibm-36g-37")),
    Row::new("EU-depth-seagate", &[], |_| depth("seagate-146g")),
    Row::new("EU-depth-raid0", &[], |_| depth("raid0-2x-seagate")),
    Row::new("EU-slowstart", &[], |_| slow_start()),
    Row::new("EU-two-competitive", &[], |c| {
        ratios(c.seeds, |model, random| {
            let depths = Depths::constant(model.competitive_depth());
            model.ratio(&depths, length(model, random))
        })
    }),
    // Measured less P, since the claim adds P to the bound.
    Row::new("EU-slowstart-bound", &[], |c| {
        ratios(c.seeds, |model, random| {
            let first = model.competitive_depth() / f64::from(random.random_range(1..=64u32));
            let depths = Depths::slow_start(first, model.competitive_depth());
            model.ratio(&depths, length(model, random)) - depths.starting() as f64
        })
    }),
    Row::new("EU-lower-bound", &[], |c| lower_bound(c.seeds)),
    Row::new("EU-seek-dist", &[], |c| Some(seek_distances(c.seeds))),
    Row::new("LP-seek-formula", &[], |c| round_distances(c.seeds)),
];

/// Streams tried against each bound with each seed: a second's work.
const STREAMS: usize = 100_000;
/// Depth sequences tried against the lower bound with each seed.
const SEQUENCES: usize = 1000;
/// How near to 2 the adversary goes.
const EPSILON: f64 = 0.01;

/// The competitive depth of a built-in profile, in the papers' KB.
fn depth(profile: &str) -> Option<Measured> {
    let profile = Profile::builtin(profile)?;
    Some(Measured::number(profile.competitive_depth().get() as f64 / 1e3))
}

/// A disk with a switch of 1 to 20 ms and 5 to 500 MB/s.
fn model(random: &mut Pcg64Mcg) -> Model {
    let positioning = Nanos::from_micros(random.random_range(1000..=20_000));
    Model { positioning, rate: Rate::mb_per_second(random.random_range(5.0..=500.0)) }
}

/// A stream's length, from a byte to a hundred competitive depths, uniform in the logarithm; every other one
/// ends right after a depth, where the ratio is worst.
fn length(model: &Model, random: &mut Pcg64Mcg) -> f64 {
    let depth = model.competitive_depth();
    let length = (100.0 * depth).powf(random.random_range(0.0..=1.0));
    if random.random_bool(0.5) { length } else { (length / depth).ceil() * depth + 1.0 }
}

/// The cost of streams over the optimum, each on a disk of its own: a bound for every one.
fn ratios(seeds: &[u64], ratio: impl Fn(&Model, &mut Pcg64Mcg) -> f64) -> Option<Measured> {
    let mut all = Vec::with_capacity(seeds.len() * STREAMS);
    for seed in seeds {
        let mut random = Pcg64Mcg::seed_from_u64(*seed);
        for _ in 0..STREAMS {
            let model = model(&mut random);
            all.push(ratio(&model, &mut random));
        }
    }
    Some(Measured::bound(all, f64::max))
}

/// The worst ratios that the adversary finds for constant depths, for random ones, and for each of the online
/// policies as a black box: the least of them.
fn lower_bound(seeds: &[u64]) -> Option<Measured> {
    let mut worst = Vec::new();
    for seed in seeds {
        let mut random = Pcg64Mcg::seed_from_u64(*seed);
        for _ in 0..SEQUENCES {
            let model = model(&mut random);
            let depth = model.competitive_depth();
            let count = random.random_range(1..=12usize);
            let share = |random: &mut Pcg64Mcg| 10f64.powf(random.random_range(-2.0..=2.0));
            let depths: Vec<f64> = (0..count).map(|_| depth * share(&mut random)).collect();
            worst.push(adversary::against(&Depths::given(&depths)?, &model, EPSILON).ratio);
        }
    }
    let model = Model { positioning: Nanos::from_micros(10_530), rate: Rate::mb_per_second(51.3) };
    let costs: Arc<dyn DeviceCosts> = Arc::new(model);
    for name in BOUNDED {
        let mut policy = kernels::by_name(name, &Settings::eurosys(), &costs).ok()?;
        worst.push(adversary::against_policy(policy.as_mut(), &model, LONGEST).ratio);
    }
    Some(Measured::bound(worst, f64::min))
}

/// The policies against which the claim was judged, in the registry's order: all but the oracle. The tests of
/// `foreseek-readahead` hold a new policy to the bound; it does not change what the report says about the
/// papers.
const BOUNDED: [&str; 10] = [
    "none",
    "linux-2.6.3",
    "linux-2.6.10",
    "linux-2.6.18",
    "on-demand",
    "aggressive",
    "competitive",
    "competitive-without-slow-start",
    "adaptive",
    "adaptive-known-lengths",
];

/// The longest stream that the adversary tries against a policy: a hundred competitive depths.
const LONGEST: Pages = Bytes::mib(64).pages_floor();

/// The fetches of the competitive policy for one sequential stream on the IBM drive, with its initial seek
/// costs.
fn slow_start() -> Option<Measured> {
    /// What the paper lists.
    const STATED: &str = "16 32 64 98 98";
    let costs: Arc<dyn DeviceCosts> = Arc::new(Profile::builtin("ibm-36g-37")?);
    let mut policy = kernels::by_name("competitive", &Settings::eurosys(), &costs).ok()?;
    let length = Bytes::gib(1).pages_floor();
    let (stream, object, pid) = (StreamId(0), ObjectId(0), ProcessId(0));
    policy.opened(Instant::ZERO, Opened { stream, object, pid, length, announced: None });
    let mut held = Span::new(PageIndex::ZERO, PageIndex::ZERO);
    let (mut sizes, mut out): (Vec<String>, Vec<Ahead>) = (Vec::new(), Vec::new());
    let mut markers = Vec::new();
    for page in (0..1000).map(PageIndex) {
        let found = if held.contains(page) { Found::Hit } else { Found::Miss };
        let marker = markers.contains(&page);
        let touch = Touch { stream, page, request: Pages(1), first: true, mapped: false, found, marker };
        policy.touch(Instant::ZERO, touch, &Idle(held), &mut out);
        for ahead in out.drain(..) {
            let fresh = Span::new(ahead.range.start.max(held.end), ahead.range.end.max(held.end));
            if !fresh.is_empty() {
                sizes.push(fresh.len().get().to_string());
                held.end = fresh.end;
                markers.extend(ahead.marker);
            }
        }
    }
    let shown = sizes.get(..5)?.join(" ");
    let exact = shown == STATED;
    Some(Measured::exact(sizes.get(4)?.parse().ok()?, shown, exact))
}

/// An idle disk with enough memory.
struct Idle(PageSpan);

impl View for Idle {
    fn cached(&self, page: PageIndex) -> bool {
        self.0.contains(page)
    }

    fn congested(&self) -> bool {
        false
    }

    fn lba(&self, page: PageIndex) -> Option<Lba> {
        Some(Lba::ZERO.after(Pages(page.get()).sectors()))
    }
}

/// The distance of C-SCAN to the nearest of n fresh requests, for several n and seeds: whether all of them
/// follow the law at 1 %, divided by the number of tests (Bonferroni).
fn seek_distances(seeds: &[u64]) -> Measured {
    const REQUESTS: [u32; 4] = [1, 4, 16, 64];
    const CHOICES: usize = 2000;
    let tests = (REQUESTS.len() * seeds.len()) as f64;
    let mut least = 1.0f64;
    for seed in seeds {
        let mut random = Pcg64Mcg::seed_from_u64(*seed);
        for n in REQUESTS {
            let distances: Option<Vec<f64>> = (0..CHOICES).map(|_| nearest(n, &mut random)).collect();
            let probability = distances.map_or(0.0, |distances| seek_law::fit(&distances, n).probability);
            least = least.min(probability);
        }
    }
    let shown = format!("p = {:.3}", (least * tests).min(1.0));
    Measured::exact(least, shown, least >= 0.01 / tests)
}

/// The distance of one step of C-SCAN, as a share of the disk.
fn nearest(n: u32, random: &mut Pcg64Mcg) -> Option<f64> {
    const DISK: u64 = 1 << 40;
    let request = |id: u32, at: u64| Request {
        id: RequestId(id),
        op: Op::Read,
        range: SectorSpan::at(Lba(at), Sectors(1)),
        pid: ProcessId(1),
        synchronous: true,
        at: Instant::ZERO,
    };
    let mut scheduler = scheduler::by_name("c-scan")?;
    let head = random.random_range(0..DISK);
    scheduler.add(Instant::ZERO, request(0, head));
    scheduler.dispatch(Instant::ZERO)?;
    (1..=n).for_each(|id| scheduler.add(Instant::ZERO, request(id, random.random_range(0..DISK))));
    let chosen = scheduler.dispatch(Instant::ZERO)?;
    Some(((chosen.range.start.get() + DISK - head) % DISK) as f64 / DISK as f64)
}

/// The distances between the fetches of libprefetch's rounds, K pages drawn from N: whether the mean is that of
/// ATC'09 section 3.5 at 1 %, for several K and seeds.
fn round_distances(seeds: &[u64]) -> Option<Measured> {
    const PAGES: u64 = 1 << 24;
    const BUFFERS: [u64; 4] = [5, 20, 100, 1000];
    const ROUNDS: usize = 400;
    let tests = (BUFFERS.len() * seeds.len()) as f64;
    let (mut least, mut ratio) = (1.0f64, 1.0f64);
    for seed in seeds {
        let mut random = Pcg64Mcg::seed_from_u64(*seed);
        for k in BUFFERS {
            let stated = 2.0 * PAGES as f64 * (k - 1) as f64 / (k * (k + 1)) as f64;
            let mut back = None;
            let means: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    let fetched = round(k, PAGES, &mut random);
                    let from = back.replace(*fetched.last()?).into_iter().chain(fetched.iter().copied());
                    let way: u64 = from.zip(fetched.iter().copied()).map(|(a, b)| a.abs_diff(b)).sum();
                    Some(way as f64 / k as f64)
                })
                .collect::<Option<_>>()?;
            // The first round has no seek back before it.
            let probability = two_sided(&means[1..], stated);
            let mean = means[1..].iter().sum::<f64>() / (ROUNDS - 1) as f64;
            if probability < least {
                (least, ratio) = (probability, mean / stated);
            }
        }
    }
    let shown = format!("p = {:.3}", (least * tests).min(1.0));
    Some(Measured::exact(ratio, shown, least >= 0.01 / tests))
}

/// The pages that libprefetch fetches in one round of `k` pages of `n`, in its order.
fn round(k: u64, n: u64, random: &mut Pcg64Mcg) -> Vec<u64> {
    let (stream, object) = (StreamId(0), ObjectId(0));
    let length = Pages(n).bytes();
    let now = Instant::ZERO;
    let settings =
        hints::Settings { share: Share::Percent(100), eviction_order: false, ..hints::Settings::paper() };
    let mut pump = Pump::new(settings);
    pump.open(now, (stream, object, ProcessId(1)), length, &[]);
    pump.watch(now, object, Span::at(ByteOffset::ZERO, length));
    let mut fetched = Vec::new();
    // Only pages of the round: the least buffer is larger than the least K.
    let accesses: Vec<Access> =
        (0..k).map(|_| Access { object, page: PageIndex(random.random_range(0..n)), mark: false }).collect();
    pump.hint(now, HintMode::Set, &accesses, true);
    pump.budget(now, Pages(k));
    let first = accesses.first().map_or(PageIndex::ZERO, |access| access.page);
    pump.read(now, stream, Span::at(first.offset(), Pages(1).bytes()));
    while let Next::Do(need) = pump.advance() {
        match need {
            Need::Fetch(_, pages) => {
                fetched.extend(pages.iter().map(PageIndex::get));
                pump.fetched(now, Ok(pages.len()));
            }
            Need::Forget(..) => pump.forgotten(now),
            Need::Resident(..) => pump.resident(now, Some(&[])),
        }
    }
    fetched
}

/// The probability of a mean as far from the stated one, by the normal distribution: there are hundreds of
/// values.
fn two_sided(values: &[f64], stated: f64) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let z = (mean - stated).abs() / (variance / count).sqrt();
    // Abramowitz and Stegun 26.2.17, to 1e-7.
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let polynomial = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    2.0 * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}
