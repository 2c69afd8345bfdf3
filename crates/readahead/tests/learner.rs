//! The costs of a device as learnt from completed fetches, compared with the modelled devices that serve
//! them.

use foreseek_device::{Build, Device, Io, IoId, Kind, Op, Profile};
use foreseek_readahead::depth::{CostLearner, UnloadedCosts, Visit};
use foreseek_seam::Measured;
use foreseek_units::{Bytes, Instant, Lba, Nanos, Pages, Rate, SectorSpan};
use std::collections::{BTreeMap, VecDeque};

/// Requests after which the costs must be right.
const FEW: usize = 400;
/// The largest permitted error.
const WITHIN: f64 = 0.15;

/// Random numbers that are the same in every run (Knuth's MMIX generator, upper bits).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = u128::from(self.0 >> 33) << 31;
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((high | u128::from(self.0 >> 33)) * u128::from(end)) >> 62) as u64
    }
}

/// A reader of random places that keeps a queue of requests with a device.
struct Load {
    device: Box<dyn Device>,
    random: Random,
    depth: usize,
    /// The lengths in pages, from which it draws.
    lengths: Vec<u64>,
    now: Instant,
    pending: BTreeMap<IoId, (Instant, SectorSpan)>,
    next: u64,
}

impl Load {
    fn new(profile: &Profile, depth: usize, lengths: &[u64]) -> Self {
        let device = profile.build(&Build { queue_depth: 64, ..Build::default() }).expect("a device");
        let (random, lengths) = (Random(7), lengths.to_vec());
        Self { device, random, depth, lengths, now: Instant::ZERO, pending: BTreeMap::new(), next: 0 }
    }

    /// Serves this many requests more; returns the visits in the order of completion.
    fn serve(&mut self, requests: usize) -> Vec<Visit> {
        let mut visits = Vec::new();
        let mut finished = Vec::new();
        while visits.len() < requests {
            while self.pending.len() < self.depth {
                self.submit();
            }
            self.now = self.device.next().expect("a busy device");
            self.device.advance(self.now, &mut finished);
            for one in finished.drain(..) {
                let (issued, range) = self.pending.remove(&one.id).expect("a request of ours");
                visits.push(Visit { issued, completed: one.at, range, alone: self.depth == 1 });
            }
        }
        visits
    }

    fn submit(&mut self) {
        let length = Pages(self.lengths[self.random.below(self.lengths.len() as u64) as usize]);
        let room = self.device.capacity().get() - length.sectors().get();
        let range = SectorSpan::at(Lba(self.random.below(room) & !7), length.sectors());
        let id = IoId(self.next);
        self.next += 1;
        self.device.submit(self.now, Io { id, op: Op::Read, range }).expect("room");
        self.pending.insert(id, (self.now, range));
    }
}

/// Lengths as read-ahead makes them, from a page to a megabyte.
const MIX: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// A disk that differs from the tested ones.
fn guess() -> Measured {
    Measured { positioning: Nanos::from_millis(5), rate: Rate::mb_per_second(400.0) }
}

fn learnt(visits: &[Visit]) -> Measured {
    let mut learner = CostLearner::new(guess());
    visits.iter().for_each(|visit| learner.completed(*visit));
    learner.costs()
}

fn off(is: f64, should: f64) -> f64 {
    (is / should - 1.0).abs()
}

fn profile(name: &str) -> Profile {
    Profile::builtin(name).expect("a built-in profile")
}

/// The predicted time of visits.
fn predicted(costs: Measured, visits: &[Visit]) -> f64 {
    let bytes: u64 = visits.iter().map(|visit| visit.range.len().bytes().get()).sum();
    costs.positioning.as_secs_f64() * visits.len() as f64 + costs.rate.time_for(Bytes(bytes)).as_secs_f64()
}

#[test]
fn alone_a_disk_shows_its_positioning_time_and_rate() {
    for name in ["ibm-36g-51", "ibm-36g-37", "seagate-146g", "barracuda-500g", "wd-500g", "exos-18t"] {
        let profile = profile(name);
        assert_eq!(profile.kind(), Kind::Disk);
        let costs = learnt(&Load::new(&profile, 1, &MIX).serve(FEW));
        // A command's overhead is a part of the positioning time.
        let positioning = profile.positioning_time().as_secs_f64();
        let rate = profile.sequential_rate().as_mb_per_second();
        let (positioning_off, rate_off) =
            (off(costs.positioning.as_secs_f64(), positioning), off(costs.rate.as_mb_per_second(), rate));
        assert!(
            positioning_off < WITHIN,
            "{name}: {} instead of {:.2} ms",
            costs.positioning,
            positioning * 1e3
        );
        assert!(rate_off < WITHIN, "{name}: {} instead of {rate} MB/s", costs.rate);
    }
}

/// At any queue depth it predicts the time of the next requests, of all of them and of either half of the
/// lengths.
#[test]
fn with_a_queue_it_predicts_the_next_requests() {
    for name in ["ibm-36g-51", "seagate-146g", "barracuda-500g", "exos-18t"] {
        for depth in [1, 2, 4, 8, 16, 32] {
            let mut load = Load::new(&profile(name), depth, &MIX);
            let costs = learnt(&load.serve(FEW));
            let begun = load.now;
            let next = load.serve(4 * FEW);
            let took = (load.now - begun).as_secs_f64();
            let prediction = predicted(costs, &next);
            assert!(off(prediction, took) < WITHIN, "{name} at {depth}: {prediction} instead of {took} s");
        }
    }
}

/// Several requests at once hide how long each takes: the costs learnt from single ones stay.
#[test]
fn an_array_is_learnt_while_its_visits_are_alone() {
    for name in ["raid0-2x-seagate", "raid5-5x-15k", "network-volume"] {
        let profile = profile(name);
        let mut learner = CostLearner::overlapping(guess());
        let mut load = Load::new(&profile, 1, &MIX);
        load.serve(FEW).into_iter().for_each(|visit| learner.completed(visit));
        let alone = learner.costs();
        let begun = load.now;
        let next = load.serve(4 * FEW);
        let took = (load.now - begun).as_secs_f64();
        let prediction = predicted(alone, &next);
        assert!(off(prediction, took) < WITHIN, "{name}: {prediction} instead of {took} s");
        load.depth = 16;
        load.serve(FEW).into_iter().for_each(|visit| learner.completed(visit));
        assert!(learner.visits() <= FEW as u64, "one at most was open when the queue filled");
        assert!(off(learner.costs().positioning.as_secs_f64(), alone.positioning.as_secs_f64()) < 0.01);
    }
}

/// The competitive depth under a queue: equal time goes into positionings and into transfers, as measured by
/// loads of only short and of only long requests.
#[test]
fn the_depth_is_that_of_loads_of_one_length() {
    for name in ["ibm-36g-51", "seagate-146g", "barracuda-500g", "exos-18t"] {
        for depth in [1, 4, 32] {
            let profile = profile(name);
            let each = |pages: u64| {
                let mut load = Load::new(&profile, depth, &[pages]);
                load.serve(200);
                let begun = load.now;
                load.serve(2000);
                (load.now - begun).as_secs_f64() / 2000.0
            };
            let (short, long) = (each(16), each(256));
            let rate = Pages(240).bytes().get() as f64 / (long - short);
            let positioning = short - Pages(16).bytes().get() as f64 / rate;
            let costs = learnt(&Load::new(&profile, depth, &MIX).serve(FEW));
            let (is, should) = (costs.depth().get() as f64, positioning * rate);
            assert!(off(is, should) < 2.0 * WITHIN, "{name} at {depth}: {is} instead of {should} bytes");
        }
    }
}

#[test]
fn stalls_and_coarse_clocks_do_not_mislead_it() {
    for depth in [1, 8] {
        let profile = profile("barracuda-500g");
        let visits = Load::new(&profile, depth, &MIX).serve(2 * FEW);
        let right = learnt(&visits);
        // Every fiftieth request stalls for a second, and all after it are later by as much.
        let stall = |at: usize| Nanos::from_secs((at / 50) as u64);
        let stalled = visits.iter().enumerate().map(|(at, visit)| Visit {
            issued: visit.issued + stall(at.saturating_sub(depth)),
            completed: visit.completed + stall(at),
            ..*visit
        });
        // The driver checks every 5 ms.
        let coarse = |at: Instant| Instant(at.get().div_ceil(5_000_000) * 5_000_000);
        let coarse = visits.iter().map(|visit| Visit {
            issued: coarse(visit.issued),
            completed: coarse(visit.completed),
            ..*visit
        });
        for (what, visits) in [("stalls", stalled.collect::<Vec<_>>()), ("clock", coarse.collect())] {
            let costs = learnt(&visits);
            assert!(
                off(costs.positioning.as_secs_f64(), right.positioning.as_secs_f64()) < WITHIN,
                "{what} at {depth}: {costs:?} instead of {right:?}"
            );
            assert!(
                off(costs.depth().get() as f64, right.depth().get() as f64) < 2.0 * WITHIN,
                "{what} at {depth}: {costs:?} instead of {right:?}"
            );
        }
    }
}

/// A fetch in adjacent pieces is one visit.
#[test]
fn pieces_of_a_visit_are_one() {
    let profile = profile("seagate-146g");
    let whole = Load::new(&profile, 1, &MIX).serve(FEW);
    let pieces: VecDeque<Visit> = whole
        .iter()
        .flat_map(|visit| {
            let count = visit.range.len().get().div_ceil(64);
            let part = visit.completed.get() - visit.issued.get();
            (0..count).map(move |piece| Visit {
                alone: true,
                issued: visit.issued,
                completed: Instant(visit.issued.get() + part * (piece + 1) / count),
                range: SectorSpan::new(
                    visit.range.start + visit.range.len() * piece / count,
                    visit.range.start + visit.range.len() * (piece + 1) / count,
                ),
            })
        })
        .collect();
    assert!(pieces.len() > 2 * whole.len());
    assert_eq!(learnt(&whole), learnt(pieces.into_iter().collect::<Vec<_>>().as_slice()));
}

/// A block layer makes one request of fetches that are adjacent, or nearly so, and reports their ends at once
/// in any order.
#[test]
fn pieces_that_end_at_once_are_one_visit_in_any_order() {
    let profile = profile("seagate-146g");
    let whole = Load::new(&profile, 4, &[64, 256]).serve(FEW);
    // The middle one of three lacks its first page, which was cached.
    let pieces: Vec<Visit> = whole
        .iter()
        .enumerate()
        .flat_map(|(at, visit)| {
            let third = |n: u64| visit.range.start + visit.range.len() * n / 4 * 2;
            let middle = third(1) + Pages(1).sectors();
            let mut parts = [
                SectorSpan::new(visit.range.start, third(1)),
                SectorSpan::new(middle, middle + Pages(8).sectors()),
                SectorSpan::new(middle + Pages(8).sectors(), visit.range.end),
            ];
            parts.rotate_left(at % 3);
            if at % 2 == 0 {
                parts.swap(0, 1);
            }
            parts.map(|range| Visit { range, ..*visit })
        })
        .collect();
    assert_eq!(learnt(&whole), learnt(&pieces));
}

/// The order of visits that end together is unknown.
#[test]
fn a_driver_that_checks_seldom_shows_their_mean() {
    let profile = profile("ibm-36g-51");
    let visits = Load::new(&profile, 16, &MIX).serve(4 * FEW);
    let right = learnt(&visits);
    let together = visits.chunks(3).flat_map(|three| {
        let last = three[three.len() - 1].completed;
        three.iter().map(move |visit| Visit { completed: last, ..*visit })
    });
    let costs = learnt(&together.collect::<Vec<_>>());
    let (is, should) = (costs.depth().get() as f64, right.depth().get() as f64);
    assert!(off(is, should) < 3.0 * WITHIN, "{costs:?} instead of {right:?}");
}

/// The cost of an unloaded positioning. If it was learnt alone, it stays under a queue. Under a queue from the
/// beginning it is the guess, within what a queue can save.
#[test]
fn an_unloaded_positioning_is_distinguished_from_one_of_a_queue() {
    let profile = profile("ibm-36g-51");
    let alone = profile.positioning_time().as_secs_f64();
    let learn = |costs: &mut UnloadedCosts, load: &mut Load, requests| {
        load.serve(requests).into_iter().for_each(|visit| costs.completed(visit));
    };
    let mut costs = UnloadedCosts::new(guess(), false);
    let mut load = Load::new(&profile, 1, &MIX);
    learn(&mut costs, &mut load, FEW);
    assert!(off(costs.unloaded().positioning.as_secs_f64(), alone) < WITHIN, "{costs:?}");
    load.depth = 32;
    learn(&mut costs, &mut load, 2 * FEW);
    let (unloaded, marginal) =
        (costs.unloaded().positioning.as_secs_f64(), costs.marginal().positioning.as_secs_f64());
    assert!(
        marginal < 0.7 * alone && off(unloaded, alone) < WITHIN,
        "{unloaded} and {marginal} of {alone} s"
    );
    // A guess that is far too long, or too short, under a queue from the beginning.
    for guessed in [Nanos::from_secs(1), Nanos::from_micros(10)] {
        let mut costs = UnloadedCosts::new(Measured { positioning: guessed, ..guess() }, false);
        learn(&mut costs, &mut Load::new(&profile, 32, &MIX), 2 * FEW);
        let (unloaded, marginal) =
            (costs.unloaded().positioning.as_secs_f64(), costs.marginal().positioning.as_secs_f64());
        assert!((marginal..=3.001 * marginal).contains(&unloaded), "{unloaded} and {marginal} s");
    }
}

/// Random blocks of 64 KiB, one in 64 of them read as 128 KiB since it is at the start of its file, show next
/// to nothing of the rate. By chance the rate may come out slower than it is, but not much faster than the
/// guess.
#[test]
fn chance_makes_no_device_fast() {
    let profile = profile("ibm-36g-51");
    let guess = Measured { positioning: Nanos::from_micros(12_700), rate: Rate::mb_per_second(126.0) };
    let lengths: Vec<u64> = (0..64).map(|at| if at == 0 { 32 } else { 16 }).collect();
    for depth in [1, 4, 16, 64] {
        for seed in 0..10 {
            let mut load = Load::new(&profile, depth, &lengths);
            load.random = Random(seed);
            let mut learner = CostLearner::new(guess);
            for (at, visit) in load.serve(4 * FEW).into_iter().enumerate() {
                learner.completed(visit);
                let rate = learner.costs().rate;
                let most = 1.5 * guess.rate.as_mb_per_second();
                assert!(
                    rate.as_mb_per_second() < most,
                    "{rate} of {depth} at a time, seed {seed}, visit {at}"
                );
            }
        }
    }
}

/// Measurements outweigh a guess, however slow it is.
#[test]
fn a_device_is_as_fast_as_it_shows() {
    let guess = Measured { positioning: Nanos::from_millis(5), rate: Rate::mb_per_second(5.0) };
    for name in ["seagate-146g", "barracuda-500g", "exos-18t"] {
        let profile = profile(name);
        let mut learner = CostLearner::new(guess);
        Load::new(&profile, 1, &MIX).serve(FEW).into_iter().for_each(|visit| learner.completed(visit));
        let (is, should) = (learner.costs().rate, profile.sequential_rate().as_mb_per_second());
        assert!(off(is.as_mb_per_second(), should) < WITHIN, "{name}: {is} instead of {should} MB/s");
    }
}

/// Another device in its place is learnt within some hundred requests.
#[test]
fn a_change_is_followed() {
    let mut learner = CostLearner::new(guess());
    let mut begun = Instant::ZERO;
    for name in ["exos-18t", "ibm-36g-37", "barracuda-500g", "seagate-146g"] {
        let profile = profile(name);
        let visits = Load::new(&profile, 1, &MIX).serve(2 * FEW);
        for visit in &visits {
            let later = |at: Instant| begun + (at - Instant::ZERO);
            learner.completed(Visit {
                issued: later(visit.issued),
                completed: later(visit.completed),
                ..*visit
            });
        }
        begun += visits[visits.len() - 1].completed - Instant::ZERO;
        let alone = learnt(&visits);
        let (is, should) = (learner.costs().depth().get() as f64, alone.depth().get() as f64);
        assert!(off(is, should) < WITHIN, "{name}: {is} instead of {should} bytes");
    }
}

#[test]
fn invalid_visits_teach_nothing_and_cause_no_panic() {
    let mut learner = CostLearner::new(guess());
    let visit = |issued, completed, lba, pages: u64| Visit {
        issued: Instant(issued),
        completed: Instant(completed),
        range: SectorSpan::at(Lba(lba), Pages(pages).sectors()),
        alone: true,
    };
    for at in 0..100 {
        learner.completed(visit(5, 5, 800, 0));
        learner.completed(visit(at, 0, at, 1));
        learner.completed(visit(u64::MAX / 2, u64::MAX / 2 + at, 800 * at, 1 << 30));
    }
    let costs = learner.costs();
    assert!(costs.positioning > Nanos::ZERO && costs.rate.as_bytes_per_second() > 0.0, "{costs:?}");
    assert!(costs.rate.as_bytes_per_second().is_finite());
}
