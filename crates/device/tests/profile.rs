//! Bad profiles are refused with file, key and reason; impossible devices with their limits.

use foreseek_device::{Build, BuildError, Kind, Profile, ProfileError, QUEUE_DEPTH_LIMIT, UNREADABLE_LIMIT};
use foreseek_units::{Bytes, Lba, Nanos, SectorSpan, Sectors};
use proptest::prelude::*;

fn text(name: &str) -> &'static str {
    Profile::builtin_text(name).expect("built in")
}

/// A built-in profile with one text replaced by another.
fn with(name: &str, old: &str, new: &str) -> Result<Profile, ProfileError> {
    assert!(text(name).contains(old), "{name} has no '{old}'");
    Profile::parse("my.toml", &text(name).replace(old, new))
}

fn complaint(result: Result<Profile, ProfileError>) -> String {
    result.map(|profile| profile.to_toml()).expect_err("a bad profile").to_string()
}

const DISK: &str = "barracuda-500g";

#[test]
fn an_error_names_file_key_and_reason() {
    for (old, new, expected) in [
        (
            "rotation_rpm = 7200.0",
            "rotation_rpm = \"fast\"",
            "my.toml: rotation_rpm: is a string, must be a number",
        ),
        (
            "rotation_rpm = 7200.0",
            "rotation_rpm = nan",
            "my.toml: rotation_rpm: is NaN, must be from 360 to 150000",
        ),
        (
            "rotation_rpm = 7200.0",
            "rotation_rpm = 0",
            "my.toml: rotation_rpm: is 0, must be from 360 to 150000",
        ),
        ("rotation_rpm = 7200.0", "rotation_rpm = -7200", "rotation_rpm: is -7200"),
        ("rotation_rpm = 7200.0", "rotation_rpm = 1e300", "rotation_rpm: is 1e300, must"),
        ("rotation_rpm = 7200.0", "rotation_rpm = 1e-300", "rotation_rpm: is 1e-300, must"),
        ("rotation_rpm = 7200.0", "rotation_rpm = inf", "rotation_rpm: is inf"),
        ("rotation_rpm = 7200.0", "rpm = 7200", "my.toml: rotation_rpm: is missing"),
        ("heads = 4 ", "heads = 0 ", "heads: is 0, must be from 1 to 64"),
        ("heads = 4 ", "heads = 4.5 ", "heads: is a float, must be a whole number"),
        ("heads = 4 ", "heads = 9999999999 ", "heads: is 9999999999"),
        ("heads = 4 ", "heads = 4\ncolour = 1 ", "my.toml: colour: is not a key here; the keys are"),
        ("track_to_track_ms = 0.8 ", "track_ms = 0.8 ", "my.toml: seek.track_to_track_ms: is missing"),
        ("track_to_track_ms = 0.8 ", "track_to_track_ms = 0.8\nx = 1 ", "seek.x: is not a key here"),
        (
            "model = \"calibrated\" ",
            "model = \"linear\" ",
            "seek.model: is 'linear', must be 'calibrated', 'lee'",
        ),
        (
            "full_stroke_ms = 17.0 ",
            "full_stroke_ms = 9.0 ",
            "seek.full_stroke_ms: makes no curve with an average of 8.5 ms: must be from 15.44 to 24.47",
        ),
        (
            "full_stroke_ms = 17.0 ",
            "full_stroke_ms = 40.0 ",
            "seek.full_stroke_ms: makes no curve with an average of 8.5 ms: must be from 15.44 to 24.47",
        ),
        (
            "full_stroke_ms = 17.0 ",
            "full_stroke_ms = 0.0 ",
            "seek.full_stroke_ms: makes no curve with an average of 8.5 ms: must be from 15.44 to 24.47",
        ),
        (
            "capacity_bytes = 500_107_862_016 ",
            "capacity_bytes = 500_107_862_017 ",
            "capacity_bytes: must be a multiple of 512",
        ),
        ("capacity_bytes = 500_107_862_016 ", "capacity_bytes = 0 ", "capacity_bytes: is 0"),
        (
            "capacity_bytes = 500_107_862_016 ",
            "capacity_bytes = 9223372036854775807 ",
            "capacity_bytes: is 9223372036854775807",
        ),
        (
            "capacity_bytes = 500_107_862_016 ",
            "capacity_bytes = 9223372036854775808 ",
            "the whole number is too large, the largest is 9223372036854775807",
        ),
        (
            "capacity_bytes = 500_107_862_016 ",
            "capacity_bytes = 99999999999999999999 ",
            "the whole number is too large, the largest is 9223372036854775807",
        ),
        (
            "outer_rate_mb_per_s = 105.0 ",
            "outer_rate_mb_per_s = 90000.0 ",
            "outer_rate_mb_per_s: a track would hold",
        ),
        (
            "inner_rate_mb_per_s = 52.5 ",
            "inner_rate_mb_per_s = 0.01 ",
            "inner_rate_mb_per_s: a track would hold",
        ),
        (
            "inner_rate_mb_per_s = 52.5 ",
            "inner_rate_mb_per_s = 105.5 ",
            "inner_rate_mb_per_s: is 105.5, must not be above outer_rate_mb_per_s, which is 105",
        ),
        ("zones = 24 ", "zonse = 24 ", "my.toml: zones: is missing; is 'zonse' meant to be it?"),
        (
            "full_stroke_ms = 17.0 ",
            "full_stoke_ms = 17.0 ",
            "seek.full_stroke_ms: is missing; is 'full_stoke_ms'",
        ),
        ("zones = 24 ", "zones = 1000000 ", "zones: is 1000000, must be from 1 to 1024"),
        ("cache_segments = 16 ", "cache_segments = 1000000000000 ", "cache_segments: is 1000000000000"),
        ("name = \"barracuda-500g\"", "name = \"a b\"", "name: must be 1 to 64 letters"),
        ("name = \"barracuda-500g\"", "", "name: is missing"),
        ("kind = \"disk\"", "kind = \"tape\"", "kind: is 'tape', must be 'disk', 'array' or 'remote'"),
        ("kind = \"disk\"", "kind = 7", "kind: is an integer, must be a string"),
    ] {
        let complaint = complaint(with(DISK, old, new));
        assert!(complaint.starts_with("my.toml: ") && complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn the_other_kinds_report_the_same_errors() {
    for (name, old, new, expected) in [
        ("raid5-5x-15k", "members = 5 ", "members = 2 ", "members: is 2, must be from 3 to 32"),
        (
            "raid5-5x-15k",
            "level = \"raid5\" ",
            "level = \"raid6\" ",
            "level: is 'raid6', must be 'raid0' or 'raid5'",
        ),
        ("raid5-5x-15k", "strip_kib = 128 ", "strip_kib = 0 ", "strip_kib: is 0"),
        ("raid5-5x-15k", "heads = 4 ", "heads = 400 ", "disk.heads: is 400"),
        (
            "raid5-5x-15k",
            "full_stroke_ms = 7.4 ",
            "full_stroke_ms = 3.0 ",
            "disk.seek.full_stroke_ms: makes no curve",
        ),
        ("raid5-5x-15k", "heads = 4 ", "heads = 4\nmembers = 4 ", "disk.members: is not a key here"),
        (
            "raid0-2x-seagate",
            "member = \"seagate-146g\" ",
            "member = \"none\" ",
            "member: 'none' is no built-in disk",
        ),
        (
            "raid0-2x-seagate",
            "member = \"seagate-146g\" ",
            "member = \"raid0-2x-seagate\" ",
            "is no built-in disk",
        ),
        ("raid0-2x-seagate", "member = \"seagate-146g\" ", "", "member: is missing"),
        (
            "raid0-2x-seagate",
            "sequential_rate_mb_per_s = 80.9 ",
            "sequential_rate_mb_per_s = 111.6 ",
            "sequential_rate_mb_per_s: is 111.6, but the rest of the profile gives 80.9",
        ),
        (
            "network-volume",
            "latency_p99_ms = 3.0 ",
            "latency_p99_ms = 0.1 ",
            "latency_p99_ms: must not be below",
        ),
        ("network-volume", "parallel_requests = 64 ", "parallel_requests = 0 ", "parallel_requests: is 0"),
        ("network-volume", "rate_mb_per_s = 125.0 ", "rate_mb_per_s = nan ", "rate_mb_per_s: is NaN"),
    ] {
        let complaint = complaint(with(name, old, new));
        assert!(complaint.starts_with("my.toml: ") && complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_line() {
    let complaint = complaint(Profile::parse("x.toml", "name = \"a\"\nkind = disk\n"));
    assert!(complaint.starts_with("x.toml: line 2: "), "{complaint}");
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(matches!(Profile::parse("x", &deep), Err(ProfileError::Syntax { .. })));
    let long = "#".repeat(9 << 20);
    assert!(matches!(Profile::parse("x", &long), Err(ProfileError::TooLong { .. })));
    assert!(matches!(Profile::parse("x", ""), Err(ProfileError::Key { .. })));
}

/// A disk with each of the seek curves and with explicit zones.
fn drawn(seek: &str) -> Result<Profile, ProfileError> {
    let text = format!(
        "name = \"own\"\nkind = \"disk\"\ncapacity_bytes = 9_100_000_256\nrotation_rpm = 7200\naverage_seek_ms = 7.2\n\
         command_overhead_ms = 0.2\nbus_rate_mb_per_s = 40\nhead_switch_ms = 0.06\nheads = 5\ncache_segments = 4\n\
         cache_segment_kib = 256\n[[zone]]\ncylinders = 6000\nsectors_per_track = 390\n[[zone]]\ncylinders = 5474\n\
         sectors_per_track = 247\n[seek]\n{seek}"
    );
    Profile::parse("own.toml", &text)
}

#[test]
fn each_seek_curve_can_be_given() {
    for seek in [
        "model = \"calibrated\"\ntrack_to_track_ms = 1.06\nfull_stroke_ms = 15.0",
        "model = \"lee\"\ntrack_to_track_ms = 1.06\nfull_stroke_ms = 13.5",
        "model = \"ruemmler-wilkes\"\nshort_ms = 1.0\nshort_ms_per_sqrt_cylinder = 0.08\nlong_ms = 4.0\n\
         long_ms_per_cylinder = 0.00075\ncrossover_cylinders = 1500",
        "model = \"table\"\ndistance_cylinders = [1, 10, 100, 1000, 11473]\ntime_ms = [1.06, 1.8, 2.6, 4.4, 12.85]",
    ] {
        let profile = drawn(seek).unwrap_or_else(|error| panic!("{error}"));
        let seek_ms = profile.modelled_seek().expect("a disk").as_millis_f64();
        assert!((5.5..9.0).contains(&seek_ms), "{seek}: {seek_ms} ms");
        let written = profile.to_toml();
        assert_eq!(Profile::parse("again", &written).expect("what was written").to_toml(), written);
        assert_eq!(profile.build(&Build::default()).expect("a disk").capacity().bytes(), profile.capacity());
    }
}

#[test]
fn bad_seek_curves_are_refused() {
    for (seek, expected) in [
        (
            "model = \"lee\"\ntrack_to_track_ms = 1.0\nfull_stroke_ms = 9.0",
            "seek.full_stroke_ms: makes no curve with an average of 7.2 ms: must be from 12.63 to 19.6",
        ),
        (
            "model = \"lee\"\ntrack_to_track_ms = 1.0\nfull_stroke_ms = 25.0",
            "seek.full_stroke_ms: makes no curve with an average of 7.2 ms: must be from 12.63 to 19.6",
        ),
        (
            "model = \"table\"\ndistance_cylinders = [1, 10]\ntime_ms = [1.0]",
            "seek.time_ms: has 1 entries, distance_cylinders has 2",
        ),
        (
            "model = \"table\"\ndistance_cylinders = [10, 10]\ntime_ms = [1, 2]",
            "seek.distance_cylinders: must ascend",
        ),
        (
            "model = \"table\"\ndistance_cylinders = [1.5]\ntime_ms = [1]",
            "seek.distance_cylinders: must be whole numbers",
        ),
        (
            "model = \"table\"\ndistance_cylinders = []\ntime_ms = []",
            "seek.distance_cylinders: has 0 entries",
        ),
        ("model = \"table\"\ndistance_cylinders = [1, 2]\ntime_ms = [1, nan]", "seek.time_ms[1]: is NaN"),
        (
            "model = \"table\"\ndistance_cylinders = [1, \"a\"]\ntime_ms = [1, 2]",
            "seek.distance_cylinders[1]: is a string",
        ),
        (
            "model = \"ruemmler-wilkes\"\nshort_ms = 1\nshort_ms_per_sqrt_cylinder = 200\nlong_ms = 1\nlong_ms_per_cylinder = 200\ncrossover_cylinders = 9",
            "the full stroke would take",
        ),
    ] {
        let complaint = complaint(drawn(seek));
        assert!(complaint.contains(expected), "{complaint}");
    }
    let small = text(DISK).replace("capacity_bytes = 500_107_862_016", "capacity_bytes = 1_048_576");
    assert!(complaint(Profile::parse("small", &small)).contains("needs three cylinders, the disk has 1"));
}

#[test]
fn zones_that_hold_too_little_are_refused() {
    let complaint = complaint(Profile::parse(
        "own.toml",
        &drawn("model = \"calibrated\"\ntrack_to_track_ms = 1.06\nfull_stroke_ms = 15.0")
            .expect("a disk")
            .to_toml()
            .replace("capacity_bytes = 9100000256", "capacity_bytes = 9_900_000_256"),
    ));
    assert!(complaint.contains("capacity_bytes: is 9.2 GiB, but the zones hold only"), "{complaint}");
}

#[test]
fn impossible_devices_are_refused_with_their_limits() {
    let profile = Profile::builtin(DISK).expect("built in");
    let refuse = |build: Build| profile.build(&build).map(|_| ()).expect_err("impossible").to_string();
    let size = |size| Build { size: Some(size), ..Build::default() };
    let bad = |range: SectorSpan| Build { unreadable: vec![range], ..size(Bytes::mib(1)) };
    for (build, expected) in [
        (size(Bytes::gib(1 << 20)), "barracuda-500g: the device holds 465.8 GiB, 1 PiB were asked for"),
        (size(Bytes(0)), "a size of 0 B is too small, it must be at least 1 MiB"),
        (size(Bytes((1 << 20) + 1)), "a size of 1048577 bytes is no multiple of 512"),
        (Build { fit: true, ..size(Bytes::mib(1)) }, "is too small, it must be at least 29"),
        (Build { queue_depth: 0, ..Build::default() }, "a queue depth of 0 is not from 1 to 256"),
        (Build { queue_depth: QUEUE_DEPTH_LIMIT + 1, ..Build::default() }, "a queue depth of 257"),
        (
            Build { failed_member: Some(0), ..Build::default() },
            "member 0 cannot have failed: a disk has no members",
        ),
        (
            bad(SectorSpan::at(Lba(2048), Sectors(1))),
            "unreadable sectors 2048..2049: the device has 2048 sectors",
        ),
        (bad(SectorSpan::at(Lba(5), Sectors(0))), "unreadable sectors 5..5: holds no sector"),
        (
            Build {
                unreadable: (0..=UNREADABLE_LIMIT as u64)
                    .map(|i| SectorSpan::at(Lba(i * 2), Sectors(1)))
                    .collect(),
                ..Build::default()
            },
            "there may be 4096 ranges",
        ),
    ] {
        let complaint = refuse(build);
        assert!(complaint.contains(expected), "{complaint}");
    }
    let array = Profile::builtin("raid5-5x-15k").expect("built in");
    let error = array.build(&Build { failed_member: Some(5), ..Build::default() }).map(|_| ());
    assert!(matches!(error, Err(BuildError::Member { member: 5, .. })));
    assert_eq!(array.kind(), Kind::Array);
}

#[test]
fn the_figures_of_each_kind() {
    let profile = |name| Profile::builtin(name).expect("built in");
    assert_eq!(profile("ibm-36g-51").positioning_time(), Nanos(10_530_000));
    assert_eq!(profile("seagate-146g").positioning_time(), Nanos(7_980_000));
    assert_eq!(profile("raid0-2x-seagate").positioning_time(), Nanos(7_980_000));
    let raid0 = profile("raid0-2x-seagate").capacity().get() as f64;
    assert!((raid0 / (2.0 * profile("seagate-146g").capacity().get() as f64) - 1.0).abs() < 1e-5);
    assert_eq!(profile("network-volume").average_seek(), None);
}

/// Changes a built-in text at random places.
fn mangled() -> impl Strategy<Value = String> {
    let names: Vec<_> = Profile::builtin_names().collect();
    let value = prop_oneof![
        Just("0".to_owned()),
        Just("-1".to_owned()),
        Just("nan".to_owned()),
        Just("1e308".to_owned()),
        Just("9223372036854775807".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("\"x\"".to_owned()),
        (0.0..300.0f64).prop_map(|number| format!("{number:?}")),
        (1..2000u64).prop_map(|number| number.to_string()),
        (0..50u32).prop_map(|bits| (1u64 << bits).to_string()),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), value), 0..4);
    (prop::sample::select(names), changes).prop_map(|(name, changes)| {
        let mut lines: Vec<String> = text(name).lines().map(str::to_owned).collect();
        for (at, value) in changes {
            let at = at.index(lines.len());
            if let Some((key, _)) = lines[at].split_once('=') {
                lines[at] = format!("{key}= {value}");
            }
        }
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any text, reading does not panic, and a profile that was read is a device that works.
    #[test]
    fn no_text_makes_reading_or_building_panic(text in mangled(), size in 0..1u64 << 45, fit in any::<bool>()) {
        let Ok(profile) = Profile::parse("mangled", &text) else { return Ok(()) };
        let written = profile.to_toml();
        let again = Profile::parse("written", &written).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(again.to_toml(), written);
        for size in [None, Some(Bytes(size / 512 * 512))] {
            let Ok(mut device) = profile.build(&Build { size, fit, ..Build::default() }) else { continue };
            let pages = device.capacity().get() / 8;
            let ios = [0, pages / 3, pages / 2, pages - 1].map(|page| common::read(page, 1));
            let (_, done) = common::run(&mut *device, 3, &ios);
            prop_assert_eq!(done.len(), ios.len());
        }
    }

    #[test]
    fn arbitrary_text_is_no_profile(text in "\\PC{0,200}") {
        prop_assert!(Profile::parse("arbitrary", &text).is_err());
    }
}

mod common;
