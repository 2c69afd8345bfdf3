//! The behaviour of a network volume towards its driver.

mod common;

use common::{build, mb_per_s, one_by_one, random, read, run};
use foreseek_device::{Build, Profile};
use foreseek_units::Nanos;

#[test]
fn latencies_have_the_stated_median_and_99th_percentile() {
    // The object store does not cap operations, and its link is fast compared with its latency.
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
    let positioning = Profile::builtin("object-store").expect("built in").positioning_time().as_millis_f64();
    assert!((mean / positioning - 1.0).abs() < 0.03, "{mean} instead of {positioning} ms");
}

#[test]
fn parallel_requests_share_latency_and_the_link_caps_the_rate() {
    let time = |depth, pages| {
        let ios: Vec<_> = (0..2000).map(|i| read(i * 1000, pages)).collect();
        run(&mut *build("object-store", &Build { queue_depth: 256, ..Build::default() }), depth, &ios).0
    };
    let (one, many) = (time(1, 1).as_secs_f64(), time(64, 1).as_secs_f64());
    assert!((45.0..66.0).contains(&(one / many)), "{one}, {many}");
    // A deeper queue than it serves at a time gains nothing.
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
fn nearness_is_not_faster() {
    let time = |step: u64| {
        let ios: Vec<_> = (0..2000).map(|i| read(i * step, 1)).collect();
        run(&mut *build("object-store", &Build::default()), 8, &ios).0
    };
    assert_eq!(time(1), time(100_000));
}

/// A volume with credit for bytes and for operations.
fn with_credit(more: &str) -> Result<Profile, String> {
    let text = format!(
        "name = \"v\"\nkind = \"remote\"\ncapacity_bytes = 1099511627776\nlatency_median_ms = 0.5\nlatency_p99_ms = 0.5\n\
         rate_mb_per_s = 50.0\nparallel_requests = 32\noperations_per_s = 1000.0\n{more}"
    );
    let profile = Profile::parse("v.toml", &text).map_err(|error| error.to_string())?;
    assert_eq!(
        Profile::parse("again", &profile.to_toml()).map_err(|error| error.to_string())?.to_toml(),
        profile.to_toml()
    );
    Ok(profile)
}

#[test]
fn credit_is_spent_and_comes_back() {
    let profile = with_credit(
        "burst_operations_per_s = 4000.0\nburst_credit_operations = 6000.0\n\
         burst_rate_mb_per_s = 200.0\nburst_credit_mib = 300.0\n",
    )
    .expect("a profile");
    let device = || profile.build(&Build { queue_depth: 64, ..Build::default() }).expect("a volume");
    let pages = |count: u64| -> Vec<_> { (0..count).map(|i| read(i * 1000, 1)).collect() };
    // 6000 beyond the base last two seconds at 4000 per second: 8000 in all; then 1000 per second.
    let seconds = |count: u64| run(&mut *device(), 64, &pages(count)).0.as_secs_f64();
    assert!((seconds(8000) - 2.0).abs() < 0.01, "{}", seconds(8000));
    assert!((seconds(10_000) - 4.0).abs() < 0.01, "{}", seconds(10_000));
    // 300 MiB beyond 50 MB/s last 2.1 s at 200 MB/s: 420 MB in all.
    let large = |count: u64| -> Vec<_> { (0..count).map(|i| read(i * 1024, 256)).collect() };
    let megabytes = |count: u64| count as f64 * 1.048_576;
    let time = |count: u64| run(&mut *device(), 32, &large(count)).0.as_secs_f64();
    let credit = 300.0 * 1.048_576;
    assert!((time(300) - megabytes(300) / 200.0).abs() < 0.01, "{}", time(300));
    assert!((time(800) - (megabytes(800) - credit) / 50.0).abs() < 0.01, "{}", time(800));
    // A pause of a second restores a second of the base rate.
    let mut volume = device();
    let (spent, _) = run(&mut *volume, 64, &pages(8000));
    let mut done = Vec::new();
    volume.advance(foreseek_units::Instant::ZERO + spent + Nanos::from_millis(1000), &mut done);
    let (until, _) = run(&mut *volume, 64, &pages(1000));
    // 1000 with 1000 of credit save three quarters of a second.
    assert!((until.as_secs_f64() - spent.as_secs_f64() - 1.25).abs() < 0.02, "{until} after {spent}");
}

#[test]
fn credit_needs_its_keys_and_a_base() {
    for (more, what) in [
        ("burst_rate_mb_per_s = 100.0", "burst_rate_mb_per_s: is there without burst_credit_mib"),
        ("burst_credit_operations = 9.0", "burst_credit_operations: is there without burst_operations_per_s"),
        (
            "burst_rate_mb_per_s = 40.0\nburst_credit_mib = 1.0",
            "burst_rate_mb_per_s: must be above rate_mb_per_s",
        ),
        (
            "burst_operations_per_s = 999.0\nburst_credit_operations = 9.0",
            "burst_operations_per_s: must be above operations_per_s",
        ),
    ] {
        let error = with_credit(more).expect_err(more);
        assert!(error.contains(what), "{error}");
    }
}
