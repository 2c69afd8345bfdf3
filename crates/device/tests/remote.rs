//! What a driver sees of a network volume.

mod common;

use common::{build, mb_per_s, one_by_one, random, read, run};
use foreseek_device::{Build, Profile};
use foreseek_units::Nanos;

#[test]
fn latencies_have_the_stated_median_and_99th_percentile() {
    // The object store caps no operations, and its link is fast against its latency.
    let mut store = build("object-store", &Build::default());
    let pages = random(1, 1 << 20, 20_000);
    let ios: Vec<_> = pages.into_iter().map(|page| read(page, 1)).collect();
    let mut times: Vec<f64> =
        one_by_one(&mut *store, Nanos::ZERO, &ios).iter().map(|time| time.as_millis_f64()).collect();
    times.sort_by(f64::total_cmp);
    let (median, p99) = (times[10_000], times[19_800]);
    assert!((median / 30.0 - 1.0).abs() < 0.03, "{median} ms");
    assert!((p99 / 200.0 - 1.0).abs() < 0.08, "{p99} ms");
    let mean = times.iter().sum::<f64>() / 20_000.0;
    let switch = Profile::builtin("object-store").expect("built in").switch_time().as_millis_f64();
    assert!((mean / switch - 1.0).abs() < 0.03, "{mean} instead of {switch} ms");
}

#[test]
fn parallel_requests_share_latency_and_the_link_caps_the_rate() {
    let time = |depth, pages| {
        let ios: Vec<_> = (0..2000).map(|i| read(i * 1000, pages)).collect();
        run(&mut *build("object-store", &Build { queue_depth: 256, ..Build::default() }), depth, &ios).0
    };
    let (one, many) = (time(1, 1).as_secs_f64(), time(64, 1).as_secs_f64());
    assert!((45.0..66.0).contains(&(one / many)), "{one}, {many}");
    // Deeper than it works on at a time gains nothing.
    let deeper = time(256, 1).as_secs_f64();
    assert!((0.85..1.15).contains(&(deeper / many)), "{deeper}, {many}");
    let rate = mb_per_s(2000 * 1000, time(64, 1000));
    assert!((rate / 1250.0 - 1.0).abs() < 0.1, "{rate} MB/s");
}

#[test]
fn operations_a_second_are_capped() {
    let ios: Vec<_> = random(1, 1 << 20, 9000).into_iter().map(|page| read(page, 1)).collect();
    let (time, _) = run(&mut *build("network-volume", &Build::default()), 64, &ios);
    assert!((time.as_secs_f64() / 3.0 - 1.0).abs() < 0.02, "{time} for 9000 at 3000 a second");
}

#[test]
fn what_is_near_is_not_faster() {
    let time = |step: u64| {
        let ios: Vec<_> = (0..2000).map(|i| read(i * step, 1)).collect();
        run(&mut *build("object-store", &Build::default()), 8, &ios).0
    };
    assert_eq!(time(1), time(100_000));
}
