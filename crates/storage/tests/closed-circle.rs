//! The circle closed in virtual time: a modelled device is measured, and what is found must be the
//! model.
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing where a test fails")]

use foreseek_device::{Build, Kind, Profile};
use foreseek_storage::profiler::{self, Findings, Label, ModelProbe, Plan, Verdict, Zone};
use foreseek_units::Nanos;

/// What an answer takes from the device to the reader: of the latency of a network volume it is a
/// part that no profile has.
const PATH: Nanos = Nanos::from_micros(15);

fn measure(profile: &Profile, plan: Plan, seed: u64) -> Findings {
    let device = profile.build(&Build { seed, ..Build::default() }).expect("a built-in profile");
    let mut probe = ModelProbe::new(device, PATH);
    let label = Label {
        name: format!("measured-{}", profile.name()),
        description: String::new(),
        source: "measured in virtual time".to_owned(),
    };
    profiler::profile(&mut probe, plan, &label, seed, &mut |_, _| {})
        .unwrap_or_else(|error| panic!("{error}"))
}

fn ratio(measured: f64, model: f64, what: &str, bar: f64) {
    println!("    {what:<16} {measured:>9.3} of {model:>9.3}  {:.4}", measured / model);
    assert!((measured / model - 1.0).abs() < bar, "{what}: {measured} of {model}");
}

/// A number of the model's own text; of the arrays' disks it is in their table.
fn key(name: &str, key: &str) -> f64 {
    let text = Profile::builtin_text(name).expect(name);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = "))).expect(key);
    line.split('#').next().and_then(|number| number.trim().parse().ok()).expect(key)
}

fn disk_is_found(name: &str, plan: Plan, seed: u64, limit: Nanos, bar: f64) {
    let model = Profile::builtin(name).expect(name);
    let found = measure(&model, plan, seed);
    println!("{name}: {}, {} zones", found.elapsed, found.zones.len());
    assert_eq!(found.verdict, Verdict::Disk);
    assert!(found.elapsed < limit, "{}", found.elapsed);
    let profile = &found.profile;
    let ms = |time: Option<Nanos>| time.map_or(0.0, Nanos::as_millis_f64);
    ratio(ms(profile.modelled_seek()), ms(model.modelled_seek()), "average seek ms", bar);
    ratio(profile.rotation_rpm().unwrap_or(0.0), model.rotation_rpm().unwrap_or(0.0), "rpm", bar);
    let edge = |which: &str| key(name, which).min(key(name, "bus_rate_mb_per_s"));
    let rate = |at: Option<&Zone>| at.map_or(0.0, |zone| zone.rate.as_mb_per_second());
    ratio(rate(found.zones.first()), edge("outer_rate_mb_per_s"), "outer MB/s", bar);
    ratio(rate(found.zones.last()), edge("inner_rate_mb_per_s"), "inner MB/s", bar);
    let mean = |profile: &Profile| profile.sequential_rate().as_mb_per_second();
    ratio(mean(profile), mean(&model), "mean MB/s", bar);
    let depth = |profile: &Profile| profile.competitive_depth().get() as f64 / 1e3;
    ratio(depth(profile), depth(&model), "depth KB", bar);
}

/// What the papers reckon with: switch cost, rate, and their product.
fn costs_are_found(name: &str, verdict: Verdict, plan: Plan, seed: u64, limit: Nanos, bar: f64) {
    let model = Profile::builtin(name).expect(name);
    let found = measure(&model, plan, seed);
    println!("{name}: {}, {:?}", found.elapsed, found.headless);
    assert_eq!(found.verdict, verdict);
    assert!(found.elapsed < limit, "{}", found.elapsed);
    let profile = &found.profile;
    ratio(profile.switch_time().as_millis_f64(), model.switch_time().as_millis_f64(), "switch ms", bar);
    let mean = |profile: &Profile| profile.sequential_rate().as_mb_per_second();
    ratio(mean(profile), mean(&model), "mean MB/s", bar);
    let depth = |profile: &Profile| profile.competitive_depth().get() as f64 / 1e3;
    ratio(depth(profile), depth(&model), "depth KB", bar);
}

fn of_kind(kind: Kind) -> impl Iterator<Item = &'static str> {
    let is_of = move |name: &&str| Profile::builtin(name).is_some_and(|profile| profile.kind() == kind);
    Profile::builtin_names().filter(is_of)
}

#[test]
fn every_built_in_disk_is_found_again() {
    for name in of_kind(Kind::Disk) {
        for seed in 0..4 {
            disk_is_found(name, Plan::full(), seed, Nanos::from_secs(120), 0.05);
        }
    }
}

/// Fewer repetitions scatter more: a standard deviation of 1.7 % in the average seek.
#[test]
fn and_quickly_too() {
    for name in of_kind(Kind::Disk) {
        for seed in 0..4 {
            disk_is_found(name, Plan::quick(), seed, Nanos::from_secs(15), 0.07);
        }
    }
}

#[test]
fn arrays_cost_what_the_model_says() {
    for name in of_kind(Kind::Array) {
        for seed in 0..4 {
            costs_are_found(name, Verdict::Array, Plan::full(), seed, Nanos::from_secs(120), 0.05);
            costs_are_found(name, Verdict::Array, Plan::quick(), seed, Nanos::from_secs(15), 0.10);
        }
    }
}

#[test]
fn what_has_no_head_is_told_by_latency_and_rate() {
    for name in of_kind(Kind::Remote) {
        for seed in 0..4 {
            costs_are_found(name, Verdict::DoesNotSeek, Plan::full(), seed, Nanos::from_secs(120), 0.05);
            costs_are_found(name, Verdict::DoesNotSeek, Plan::quick(), seed, Nanos::from_secs(15), 0.10);
        }
    }
}

/// A volume as steady as a platter, at the pace of one: reads that descend through it look alike.
#[test]
fn a_steady_network_is_no_disk() {
    let text = |median: f64| {
        format!(
            "name = \"steady\"\nkind = \"remote\"\ncapacity_bytes = 107374182400\nlatency_median_ms = {median}\n\
             latency_p99_ms = {}\nrate_mb_per_s = 125.0\nparallel_requests = 16\n",
            median * 1.03
        )
    };
    for (seed, median) in [0.8, 2.0, 4.0, 5.0, 6.0, 8.33, 11.0, 16.0].into_iter().enumerate() {
        let model = Profile::parse("steady", &text(median)).unwrap_or_else(|error| panic!("{error}"));
        let found = measure(&model, Plan::quick(), seed as u64);
        assert_eq!(found.verdict, Verdict::DoesNotSeek, "{median} ms: {:?}", found.turn);
        let ratio = found.profile.switch_time().as_millis_f64() / model.switch_time().as_millis_f64();
        assert!((ratio - 1.0).abs() < 0.05, "{median} ms: {ratio}");
    }
}
