//! The theory of competitive prefetching against random streams, random rules, and our own policies.

use foreseek_kernels::{Settings, by_name, generation, names};
use foreseek_readahead::depth::Depths;
use foreseek_theory::adversary::{self, against, against_policy, fetches_needed};
use foreseek_theory::{Model, seek_law};
use foreseek_units::{Bytes, DeviceCosts, Nanos, Pages, Rate};
use proptest::prelude::*;
use std::sync::Arc;

/// The 393 KB drive of EuroSys'07.
fn ibm() -> Model {
    Model { positioning: Nanos::from_millis_f64(10.53), rate: Rate::mb_per_second(37.3) }
}

/// Switches from 0.1 to 100 ms, rates from 1 MB/s to 1 GB/s.
fn model() -> impl Strategy<Value = Model> {
    (100_000..100_000_000u64, 1.0..1000.0f64).prop_map(|(positioning, rate)| Model {
        positioning: Nanos(positioning),
        rate: Rate::mb_per_second(rate),
    })
}

/// From a byte to a terabyte, uniform in the logarithm.
fn length() -> impl Strategy<Value = f64> {
    (0.0..40.0f64).prop_map(|power| power.exp2().round())
}

/// Depths from a thousandth of CR to a thousand times that.
fn depth() -> impl Strategy<Value = f64> {
    (-10.0..10.0f64).prop_map(f64::exp2)
}

proptest! {
    /// EuroSys'07 equation 8, for workloads of many streams with a rate each and one mean switch cost.
    #[test]
    fn fetches_of_switch_times_rate_cost_less_than_twice_the_optimum(
        model in model(),
        streams in prop::collection::vec((length(), 0.3..1.0f64), 1..40),
    ) {
        let (mut online, mut optimum) = (0.0, 0.0);
        for (length, share) in streams {
            let rate = Rate::bytes_per_second(model.rate.as_bytes_per_second() * share);
            let model = Model { rate, ..model };
            let depths = Depths::constant(model.competitive_depth());
            prop_assert!(model.ratio(&depths, length) < 2.0, "{length} bytes");
            online += model.online(&depths, length);
            optimum += model.optimum(length);
        }
        prop_assert!(online < 2.0 * optimum);
    }

    /// EuroSys'07 equation 15.
    #[test]
    fn with_slow_start_of_p_fetches_it_is_less_than_2_and_p(
        model in model(), first in depth(), length in length(),
    ) {
        let depth = model.competitive_depth();
        let depths = Depths::slow_start(first.min(1.0) * depth, depth);
        let bound = 2.0 + depths.starting() as f64;
        prop_assert!(model.ratio(&depths, length) < bound);
        // A supremum that no stream reaches; without slow start it is the bound itself.
        prop_assert!(model.worst(&depths, 200).ratio <= bound + 1e-9);
    }

    #[test]
    fn the_bound_of_a_constant_depth_holds_and_is_tight(
        model in model(), share in depth(), length in length(),
    ) {
        let depth = model.competitive_depth() * share;
        let depths = Depths::constant(depth);
        let bound = model.bound(depth);
        prop_assert!(model.ratio(&depths, length) <= bound * (1.0 + 1e-12));
        // A stream of next to nothing for large fetches, one of a billion fetches for small ones.
        let near = if share >= 1.0 { 0.0 } else { depth * 1e9 };
        let worst = model.ratio(&depths, near + model.competitive_depth() * 1e-9);
        prop_assert!(worst > bound * 0.999, "{worst} of {bound}");
    }

    /// EuroSys'07 section 4.2: against any sequence of fetches.
    #[test]
    fn no_sequence_of_depths_is_better_than_two(
        model in model(),
        shares in prop::collection::vec(depth(), 1..40),
        magnitude in 1.0..10.0f64,
    ) {
        let epsilon = (-magnitude).exp2();
        let cr = model.competitive_depth();
        let depths: Vec<f64> = shares.iter().map(|share| share * cr).collect();
        let depths = Depths::given(&depths).expect("at least one");
        let worst = against(&depths, &model, epsilon);
        prop_assert!(worst.ratio >= 2.0 - epsilon, "{worst:?}, {epsilon}");
        // The constructed stream does cost that much.
        let length = worst.length + cr * 1e-9;
        prop_assert!(model.ratio(&depths, length) >= worst.ratio * (1.0 - 1e-6), "{worst:?}");
    }

    /// The rules that come nearest to 2: each fetch as large as a ratio of 2 allows.
    #[test]
    fn not_even_a_sequence_that_is_made_for_it(model in model(), magnitude in 1.0..10.0f64, slack in 0.0..1.0f64) {
        let epsilon = (-magnitude).exp2();
        let cr = model.competitive_depth();
        let (mut sum, mut depths) = (0.0, Vec::new());
        for fetch in 1..=20 {
            // D(k) just below (2 - e)(1 + D(k - 1)) - k, and always something to read.
            let room = (2.0 - epsilon) * (1.0 + sum) - f64::from(fetch) - sum;
            let depth = room.max(1e-3) * (1.0 - slack * 1e-3);
            sum += depth;
            depths.push(depth * cr);
        }
        let depths = Depths::given(&depths).expect("at least one");
        prop_assert!(against(&depths, &model, epsilon).ratio >= 2.0 - epsilon);
    }

    #[test]
    fn our_own_policies_are_no_better(positioning in 1_000_000..50_000_000u64, rate in 20.0..300.0f64, window in 1..2000u64) {
        let model = Model { positioning: Nanos(positioning), rate: Rate::mb_per_second(rate) };
        let mut settings = Settings::default();
        settings.stream.window = Pages(window);
        settings.stream.aggressive = Pages(window);
        for name in online() {
            prop_assert!(ending(name, &settings, &model).ratio >= 1.99, "{name}");
        }
    }
}

/// The oracle knows the length and is no online rule.
fn online() -> impl Iterator<Item = &'static str> {
    names().filter(|name| *name != "oracle")
}

fn ending(name: &str, settings: &Settings, model: &Model) -> adversary::Ending {
    let costs: Arc<dyn DeviceCosts> = Arc::new(*model);
    let mut policy = by_name(name, settings, &costs).expect("a policy");
    against_policy(&mut *policy, model, Bytes::mib(64).pages_floor())
}

#[test]
fn an_adversary_needs_few_fetches() {
    for (epsilon, fetches) in [(1.0, 1), (0.5, 2), (0.25, 3), (0.01, 8), (0.001, 11)] {
        assert_eq!(fetches_needed(epsilon), fetches, "{epsilon}");
    }
}

/// The competitive depth costs 2 at worst, and any other constant depth more.
#[test]
fn the_competitive_depth_costs_two_at_worst_and_others_more() {
    let model = ibm();
    let depth = model.competitive_depth();
    assert!((depth - 392_769.0).abs() < 1.0, "{depth}");
    let worst = |depth| model.worst(&Depths::constant(depth), 10_000).ratio;
    assert!((worst(depth) - 2.0).abs() < 1e-9);
    assert!(worst(depth * 1.1) > 2.09 && worst(depth / 1.1) > 2.09);
    // 32 pages: CR / d + 1; 200 pages: d / CR + 1.
    assert!((worst(131_072.0) - 3.99).abs() < 0.01, "{}", worst(131_072.0));
    assert!((worst(819_200.0) - 3.09).abs() < 0.01, "{}", worst(819_200.0));
}

/// Slow start's own worst case is well below the papers' 2 + P = 5: streams that end within it.
#[test]
fn golden_slow_start_of_the_393_kb_drive() {
    let model = ibm();
    let depths = Depths::slow_start(65_536.0, model.competitive_depth());
    assert_eq!(depths.starting(), 3);
    assert_eq!(
        depths.iter().take(4).map(f64::round).collect::<Vec<_>>(),
        [65_536.0, 131_072.0, 262_144.0, 392_769.0]
    );
    let worst = model.worst(&depths, 1000);
    // Right after the 112 pages of slow start: four switches and 208 pages for one and 112.
    assert!((worst.ratio - 2.845).abs() < 0.001, "{worst:?}");
    assert_eq!((worst.fetches, worst.length), (4, 458_752.0));
}

/// The machine of the analysis keeps the bounds up to whole pages; one with a window ahead does not.
#[test]
fn golden_what_each_policy_can_be_made_to_pay() {
    let model = ibm();
    let on = |name| {
        let mut settings = Settings::default();
        settings.stream.generation = generation(name).expect("known");
        settings
    };
    let demand = ending("competitive-without-slow-start", &on("demand"), &model);
    assert!(demand.ratio <= model.bound(95.0 * 4096.0) + 1e-4 && demand.ratio > 1.99, "{demand:?}");
    let slow = ending("competitive", &on("demand"), &model);
    assert!(slow.ratio < 5.0 && slow.ratio > 2.8, "{slow:?}");
    // 2.6.3 has a window ahead from the second page on: two depths and two switches for two pages.
    let eager = ending("competitive-without-slow-start", &on("linux-2.6.3"), &model);
    assert_eq!((eager.fetches, eager.length), (2, Bytes(4097)));
    assert!(eager.ratio > 3.9 && eager.ratio < 4.0, "{eager:?}");
    // Stock Linux for a long stream: a switch for each 32 pages.
    let linux = ending("linux-2.6.3", &on("linux-2.6.3"), &model);
    assert!(linux.ratio > 3.5 && linux.ratio < 4.0, "{linux:?}");
}

#[test]
fn an_oracle_that_is_told_nothing_reads_page_by_page() {
    let model = ibm();
    assert!(ending("oracle", &Settings::default(), &model).ratio > 90.0);
}

/// A small generator for the test of the law (SplitMix64, Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn distances_to_the_nearest_of_fresh_requests_follow_the_law() {
    for n in [1, 2, 8, 64] {
        let mut random = Random(42);
        let nearest = |random: &mut Random| (0..n).map(|_| random.uniform()).fold(1.0, f64::min);
        let distances: Vec<f64> = (0..2000).map(|_| nearest(&mut random)).collect();
        let fit = seek_law::fit(&distances, n);
        assert!(fit.holds(0.01), "{n}: {fit:?}");
        let mean = distances.iter().sum::<f64>() / 2000.0;
        assert!((mean / seek_law::mean(n) - 1.0).abs() < 0.06, "{n}: {mean}");
        // Neighbouring laws are rejected: another number of requests, or the mean of a closed loop.
        assert!(!seek_law::fit(&distances, n + 1 + n / 4).holds(0.01), "{n}");
        let halved: Vec<f64> = distances.iter().map(|distance| distance * 0.8).collect();
        assert!(!seek_law::fit(&halved, n).holds(0.01), "{n}");
    }
}

#[test]
fn a_true_law_is_rejected_about_as_often_as_the_significance_says() {
    let mut random = Random(7);
    let rejected = (0..1000)
        .filter(|_| {
            let distances: Vec<f64> = (0..100).map(|_| random.uniform()).collect();
            !seek_law::fit(&distances, 1).holds(0.05)
        })
        .count();
    assert!((25..=80).contains(&rejected), "{rejected} of 1000 at 5 %");
}

#[test]
fn the_law_at_its_ends() {
    assert_eq!(seek_law::at_least(4, 0.0), 1.0);
    assert_eq!(seek_law::at_least(4, 1.0), 0.0);
    assert_eq!(seek_law::at_least(2, 0.5), 0.25);
    // One sample at the median deviates by one half from any continuous law.
    assert!((seek_law::fit(&[0.5], 1).difference - 0.5).abs() < 1e-12);
    assert!(seek_law::fit(&[], 3).holds(0.01), "nothing was seen that speaks against it");
}
