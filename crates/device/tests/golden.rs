//! Golden numbers: a short script of requests for each kind of device, to the nanosecond. They keep the model
//! constant: a change here changes every result, and needs a reason in the changelog.

mod common;

use common::{build, one_by_one, read, run, write};
use foreseek_device::{Build, Op};
use foreseek_units::{Bytes, Nanos, SectorSpan};

/// Near and far, in a row and back, a write and buffered data.
fn script() -> Vec<(Op, SectorSpan)> {
    vec![
        read(0, 1),
        read(1, 1),
        read(2, 32),
        read(100, 4),
        read(50_000, 1),
        write(50_002, 2),
        read(50_004, 1),
        read(3, 8),
        write(90_000, 64),
        read(120_000, 256),
        read(34, 1),
    ]
}

fn micros(times: &[Nanos]) -> Vec<f64> {
    times.iter().map(|time| time.as_micros_f64()).collect()
}

fn alone(name: &str) -> Vec<f64> {
    let options = Build { size: Some(Bytes::gib(8)), ..Build::default() };
    micros(&one_by_one(&mut *build(name, &options), Nanos::from_micros(100), &script()))
}

/// The order in which queued requests finish, and the end of the last.
fn queued(name: &str) -> (Vec<u64>, f64) {
    let options = Build { size: Some(Bytes::gib(8)), ..Build::default() };
    let (time, done) = run(&mut *build(name, &options), 32, &script());
    (done.iter().map(|one| one.id.0).collect(), time.as_micros_f64())
}

/// Name, microseconds of each request alone, order and microseconds when all are queued at once.
type Golden = (&'static str, [f64; 11], [u64; 11], f64);

const GOLDEN: [Golden; 6] = [
    (
        "barracuda-500g",
        [
            6_398.654, 113.653, 860.933, 2_391.547, 4_825.253, 8_340.114, 8_268.926, 209.227, 4_044.412,
            11_183.146, 113.653,
        ],
        [0, 1, 2, 10, 7, 3, 9, 8, 4, 5, 6],
        31_799.08,
    ),
    (
        "barracuda-500g-oldfw",
        [
            6_398.654, 113.653, 860.933, 2_391.547, 4_825.253, 8_340.114, 8_268.926, 209.227, 4_044.412,
            11_183.146, 113.653,
        ],
        [0, 1, 2, 10, 3, 7, 9, 8, 4, 5, 6],
        31_799.08,
    ),
    (
        "seagate-146g",
        [
            3_447.764, 62.8, 1_562.085, 3_770.968, 3_300.921, 6_065.899, 5_955.299, 152.4, 7_596.909,
            21_784.793, 62.8,
        ],
        [0, 1, 2, 10, 7, 4, 5, 6, 3, 8, 9],
        36_599.838,
    ),
    (
        "raid0-2x-seagate",
        [
            3_447.764, 62.8, 4_818.528, 202.522, 2_873.976, 6_065.898, 5_955.3, 3_873.971, 8_257.826,
            13_537.566, 2_347.005,
        ],
        [0, 1, 2, 10, 7, 3, 8, 9, 4, 5, 6],
        24_026.788,
    ),
    (
        "raid5-5x-15k",
        [
            1_433.074, 62.8, 4_029.644, 1_956.911, 1_648.034, 5_472.759, 2_489.677, 4_046.266, 8_842.19,
            6_214.721, 62.8,
        ],
        [0, 1, 4, 6, 10, 2, 7, 3, 9, 8, 5],
        15_103.222,
    ),
    (
        "network-volume",
        [
            661.169, 241.276, 3_337.536, 452.091, 561.91, 454.574, 1_147.613, 717.288, 4_080.554, 8_982.601,
            1_123.936,
        ],
        [1, 0, 3, 4, 5, 7, 2, 6, 9, 10, 8],
        14_650.491,
    ),
];

#[test]
fn a_script_takes_what_it_took() {
    for (name, times, order, end) in GOLDEN {
        // The latencies of a network volume use the platform's `ln` and `exp`.
        let near =
            |one: f64, other: f64| (one - other).abs() <= if name == "network-volume" { 0.01 } else { 0.0 };
        let alone = alone(name);
        let same = alone.iter().zip(times).all(|(one, other)| near(*one, other));
        assert!(same, "{name} alone: {alone:?}");
        let (finished, time) = queued(name);
        assert!(finished == order && near(time, end), "{name} queued: {finished:?}, {time:?}");
    }
}
