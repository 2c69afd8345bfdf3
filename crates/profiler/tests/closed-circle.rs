//! A modelled device is measured in virtual time, and the result must equal the model.
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing where a test fails")]

use foreseek_device::{Build, Kind, Profile};
use foreseek_profiler::{
    self as profiler, Error, Findings, Label, ModelProbe, Plan, Probe, Timed, Verdict, Zone,
};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, Rate};

/// The time of a response from the device to the reader. For a network volume it counts as latency, but no
/// profile has it.
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

/// The thoroughness of a measurement.
#[derive(Clone, Copy, Debug)]
enum How {
    Full,
    Quick,
}

impl How {
    fn plan(self) -> Plan {
        match self {
            Self::Full => Plan::full(),
            Self::Quick => Plan::quick(),
        }
    }

    fn limit(self) -> Nanos {
        match self {
            Self::Full => Nanos::from_secs(120),
            Self::Quick => Nanos::from_secs(15),
        }
    }
}

/// A line of measured over modelled values, as the benchmark through the kernel writes it.
struct Line {
    text: String,
    bar: f64,
}

impl Line {
    fn new(name: &str, kind: &str, how: How, seed: u64, bar: f64) -> Self {
        let how = format!("{how:?}").to_lowercase();
        Self { text: format!("measured / modelled, {how}, seed {seed}\n{name} {kind}"), bar }
    }

    fn ratio(&mut self, what: &str, measured: f64, model: f64) {
        self.text += &format!(" {what} {:.4}", measured / model);
        assert_near(&self.text, measured, model, self.bar);
    }

    fn end(self, elapsed: Nanos) {
        println!("{} in {:.2} s", self.text, elapsed.as_secs_f64());
    }
}

fn assert_near(what: &str, measured: f64, model: f64, bar: f64) {
    assert!((measured / model - 1.0).abs() < bar, "{what}: {measured} of {model}");
}

/// A number in the model's own text; the disks of arrays have theirs in a table.
fn key(name: &str, key: &str) -> f64 {
    let text = Profile::builtin_text(name).expect(name);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = "))).expect(key);
    line.split('#').next().and_then(|number| number.trim().parse().ok()).expect(key)
}

fn disk_is_found(name: &str, how: How, seed: u64, bar: f64) {
    let model = Profile::builtin(name).expect(name);
    let found = measure(&model, how.plan(), seed);
    assert_eq!(found.verdict, Verdict::Disk);
    assert!(found.elapsed < how.limit(), "{}", found.elapsed);
    let profile = &found.profile;
    let mut line = Line::new(name, "disk", how, seed, bar);
    let ms = |time: Option<Nanos>| time.map_or(0.0, Nanos::as_millis_f64);
    line.ratio("seek", ms(profile.modelled_seek()), ms(model.modelled_seek()));
    line.ratio("turn", model.rotation_rpm().unwrap_or(0.0), profile.rotation_rpm().unwrap_or(0.0));
    let edge = |which: &str| key(name, which).min(key(name, "bus_rate_mb_per_s"));
    let rate = |at: Option<&Zone>| at.map_or(0.0, |zone| zone.rate.as_mb_per_second());
    line.ratio("outer", rate(found.zones.first()), edge("outer_rate_mb_per_s"));
    line.ratio("inner", rate(found.zones.last()), edge("inner_rate_mb_per_s"));
    costs(&mut line, profile, &model);
    line.end(found.elapsed);
}

/// The costs that the papers use: rate, and competitive depth.
fn costs(line: &mut Line, profile: &Profile, model: &Profile) {
    let mean = |profile: &Profile| profile.sequential_rate().as_mb_per_second();
    line.ratio("rate", mean(profile), mean(model));
    let depth = |profile: &Profile| profile.competitive_depth().get() as f64;
    line.ratio("depth", depth(profile), depth(model));
}

/// The same for a device that is no single disk, with its positioning time.
fn costs_are_found(name: &str, verdict: Verdict, how: How, seed: u64, bar: f64) {
    let model = Profile::builtin(name).expect(name);
    let found = measure(&model, how.plan(), seed);
    assert_eq!(found.verdict, verdict, "{:?}", found.latency_bound);
    assert!(found.elapsed < how.limit(), "{}", found.elapsed);
    let kind = if verdict == Verdict::Array { "array" } else { "remote" };
    let mut line = Line::new(name, kind, how, seed, bar);
    let positioning = |profile: &Profile| profile.positioning_time().as_millis_f64();
    line.ratio("switch", positioning(&found.profile), positioning(&model));
    costs(&mut line, &found.profile, &model);
    line.end(found.elapsed);
}

fn of_kind(kind: Kind) -> impl Iterator<Item = &'static str> {
    let is_of = move |name: &&str| Profile::builtin(name).is_some_and(|profile| profile.kind() == kind);
    Profile::builtin_names().filter(is_of)
}

#[test]
fn every_built_in_disk_is_found_again() {
    for name in of_kind(Kind::Disk) {
        for seed in 0..4 {
            disk_is_found(name, How::Full, seed, 0.05);
        }
    }
}

/// A disk of one zone has one rate, and no findings that its zones would explain.
#[test]
fn a_disk_of_one_zone_is_found_with_one() {
    let text = Profile::builtin_text("barracuda-500g").expect("built in");
    let lines = text.lines().map(|line| match line.split(' ').next() {
        Some("inner_rate_mb_per_s") => "inner_rate_mb_per_s = 105.0",
        Some("zones") => "zones = 1",
        _ => line,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let model = Profile::parse("one zone", &text).expect("a disk");
    for (how, bar) in [(How::Full, 0.05), (How::Quick, 0.07)] {
        for seed in 0..4 {
            let found = measure(&model, how.plan(), seed);
            assert_eq!((found.verdict, found.zones.len()), (Verdict::Disk, 1), "{:?}", found.zones);
            assert!(found.elapsed < how.limit(), "{}", found.elapsed);
            let profile = &found.profile;
            let mut line = Line::new("one zone", "disk", how, seed, bar);
            let ms = |time: Option<Nanos>| time.map_or(0.0, Nanos::as_millis_f64);
            line.ratio("seek", ms(profile.modelled_seek()), ms(model.modelled_seek()));
            line.ratio("turn", profile.rotation_rpm().unwrap_or(0.0), model.rotation_rpm().unwrap_or(0.0));
            line.ratio("zone", found.zones[0].rate.as_mb_per_second(), 105.0);
            costs(&mut line, profile, &model);
            line.end(found.elapsed);
        }
    }
}

/// Fewer repetitions scatter more: a standard deviation of 1.7 % in the average seek.
#[test]
fn and_quickly_too() {
    for name in of_kind(Kind::Disk) {
        for seed in 0..4 {
            disk_is_found(name, How::Quick, seed, 0.07);
        }
    }
}

#[test]
fn arrays_cost_what_the_model_says() {
    for name in of_kind(Kind::Array) {
        for seed in 0..4 {
            costs_are_found(name, Verdict::Array, How::Full, seed, 0.05);
            costs_are_found(name, Verdict::Array, How::Quick, seed, 0.10);
        }
    }
}

#[test]
fn a_device_without_a_head_has_a_latency_and_a_rate() {
    for name in of_kind(Kind::Remote) {
        for seed in 0..4 {
            costs_are_found(name, Verdict::DoesNotSeek, How::Full, seed, 0.05);
            costs_are_found(name, Verdict::DoesNotSeek, How::Quick, seed, 0.10);
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
        assert_eq!(found.verdict, Verdict::DoesNotSeek, "{median} ms: {:?}", found.rotation_period);
        let ratio =
            found.profile.positioning_time().as_millis_f64() / model.positioning_time().as_millis_f64();
        assert!((ratio - 1.0).abs() < 0.05, "{median} ms: {ratio}");
    }
}

/// A small disk onto which the full stroke is scaled, and the outer part of a large one.
#[test]
fn small_ones_are_measured_too() {
    let model = Profile::builtin("barracuda-500g").expect("built in");
    for (size, fit) in [(256, false), (256, true), (1024, true), (8192, false), (8192, true)] {
        let options = Build { size: Some(Bytes::mib(size)), fit, ..Build::default() };
        let mut probe = ModelProbe::new(model.build(&options).expect("possible"), PATH);
        let label =
            Label { name: "small".to_owned(), description: String::new(), source: "a test".to_owned() };
        let found = profiler::profile(&mut probe, Plan::quick(), &label, 3, &mut |_, _| {})
            .unwrap_or_else(|error| panic!("{size} MiB: {error}"));
        assert_eq!(found.verdict, Verdict::Disk, "{size} MiB");
        assert!(
            (found.rotation_period.map_or(0.0, |rotation_period| rotation_period.as_millis_f64()) - 8.333)
                .abs()
                < 0.01,
            "{size} MiB"
        );
        let seek = |profile: &Profile| profile.average_seek().map_or(0.0, Nanos::as_millis_f64);
        println!("{size} MiB, fit {fit}: {} of {} ms", seek(&found.profile), seek(&model));
        if fit && size > 256 {
            assert_near("average seek ms", seek(&found.profile), seek(&model), 0.15);
        } else if !fit {
            assert!(seek(&found.profile) < 3.0, "the outer part alone has short ways");
        }
    }
}

/// A volume that starts a request every third of a millisecond while it has credit, and one a
/// millisecond afterwards; each takes a millisecond.
struct Volume {
    now: Instant,
    may_start: Instant,
    credit: u64,
}

impl Probe for Volume {
    fn capacity(&self) -> Bytes {
        Bytes::gib(100)
    }

    fn block(&self) -> Bytes {
        Bytes(512)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn read(&mut self, range: ByteSpan) -> Result<Timed, Error> {
        Ok(self.read_all(&[range], 1)?[0])
    }

    fn read_all(&mut self, ranges: &[ByteSpan], depth: usize) -> Result<Vec<Timed>, Error> {
        let mut times: Vec<Timed> = Vec::with_capacity(ranges.len());
        for (at, range) in ranges.iter().enumerate() {
            // All take equally long, so that they end in order.
            let issued = at.checked_sub(depth).map_or(self.now, |before| times[before].finished);
            let started = issued.max(self.may_start);
            let apart = if self.credit > 0 { Nanos(333_333) } else { Nanos::from_millis(1) };
            self.credit = self.credit.saturating_sub(1);
            self.may_start = started + apart;
            let transfer = Rate::mb_per_second(200.0).time_for(range.len());
            self.may_start = self.may_start.max(started + transfer);
            times.push(Timed { issued, finished: started + Nanos::from_millis(1) + transfer });
        }
        self.now = times.last().map_or(self.now, |last| last.finished);
        Ok(times)
    }

    fn pause(&mut self, time: Nanos) {
        self.now += time;
    }
}

#[test]
fn credit_that_runs_out_is_seen_and_the_base_is_written() {
    let mut volume = Volume { now: Instant::ZERO, may_start: Instant::ZERO, credit: 20_000 };
    let label = Label { name: "volume".to_owned(), description: String::new(), source: String::new() };
    let found = profiler::profile(&mut volume, Plan::full(), &label, 1, &mut |_, _| {}).expect("readable");
    assert_eq!(found.verdict, Verdict::DoesNotSeek);
    let credit = found.latency_bound.and_then(|bound| bound.operation_credit).expect("it ran out");
    assert!((credit.burst_per_second / 3000.0 - 1.0).abs() < 0.05, "{credit:?}");
    assert!((credit.base_per_second / 1000.0 - 1.0).abs() < 0.05, "{credit:?}");
    assert!(
        found.warnings.iter().any(|warning| warning.contains("credit for reads")),
        "{:?}",
        found.warnings
    );
}

/// The measured profile has the model's credit for bytes and for operations.
#[test]
fn credit_of_a_model_is_found_and_written() {
    let text = "name = \"v\"\nkind = \"remote\"\ncapacity_bytes = 1099511627776\nlatency_median_ms = 0.6\n\
        latency_p99_ms = 1.5\nrate_mb_per_s = 60.0\nburst_rate_mb_per_s = 240.0\nburst_credit_mib = 600.0\n\
        operations_per_s = 1000.0\nburst_operations_per_s = 4000.0\nburst_credit_operations = 12000.0\n\
        parallel_requests = 64\n";
    let model = Profile::parse("v", text).expect("a profile");
    let device = model.build(&Build { queue_depth: 128, ..Build::default() }).expect("a volume");
    let label = Label { name: "v".to_owned(), description: String::new(), source: String::new() };
    let mut probe = ModelProbe::new(device, Nanos::ZERO);
    let found = profiler::profile(&mut probe, Plan::full(), &label, 1, &mut |_, _| {}).expect("readable");
    println!("{:?}", found.latency_bound);
    let written = found.profile.to_toml();
    let value = |key: &str| -> f64 {
        let line = written.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
        let line = line.unwrap_or_else(|| panic!("{key} in\n{written}"));
        line.split('#').next().unwrap_or(line).trim().parse().expect("a number")
    };
    for (key, is, within) in [
        ("rate_mb_per_s", 60.0, 0.05),
        ("burst_rate_mb_per_s", 240.0, 0.05),
        ("operations_per_s", 1000.0, 0.05),
        ("burst_operations_per_s", 4000.0, 0.05),
        // Some is spent before it is measured.
        ("burst_credit_mib", 600.0, 0.25),
        ("burst_credit_operations", 12_000.0, 0.25),
    ] {
        assert_near(key, value(key), is, within);
    }
}
