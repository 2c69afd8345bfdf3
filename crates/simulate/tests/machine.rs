//! The machine, end to end: microbenchmarks on a modelled drive.

mod machine_common;

use foreseek_units::{Bytes, Nanos, Pages};
use machine_common::{Setup, Window, run};

/// TR-840 section 5.2: the optimal throughput of streams of length S is S / (S / R + C). Files of 4 MB
/// read whole by fetches as long as the file come near it on the drive of which R and C are known.
#[test]
fn whole_files_in_one_fetch_come_near_the_analytic_optimum() {
    let setup = Setup { concurrency: 1, ..Setup::new("one-whole-0") };
    let report = run(&setup, Window(1024));
    let (rate, switch, size) = (51.3e6, 10.53e-3, 4.0 * 1024.0 * 1024.0);
    let optimum = size / (size / rate + switch) / 1e6;
    let got = report.throughput_mb_per_s();
    // The processor's work and the gap of an indirect block come on top, and the files' zones differ.
    assert!((0.85 * optimum..1.05 * optimum).contains(&got), "{got} MB/s, optimum {optimum}");
}

#[test]
fn short_fetches_of_many_streams_cost_a_switch_each() {
    let setup = Setup { concurrency: 16, ..Setup::new("one-whole-0") };
    let (rate, switch, size) = (51.3e6, 10.53e-3, 16.0 * 4096.0);
    let expected = size / (size / rate + switch) / 1e6;
    let got = run(&setup, Window(16)).throughput_mb_per_s();
    // Requests of 16 processes wait: first come first served here, so that every fetch seeks.
    assert!((0.8 * expected..1.3 * expected).contains(&got), "{got} MB/s, expected {expected}");
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_one_another() {
    let setup = Setup { concurrency: 8, ..Setup::new("two-rand-0") };
    let first = run(&setup, Window(32));
    assert_eq!(first, run(&setup, Window(32)));
    assert_ne!(first, run(&Setup { seed: 2, ..setup }, Window(32)));
}

#[test]
fn a_memory_that_is_too_small_thrashes() {
    let setup = Setup {
        concurrency: 128,
        memory: Bytes::mib(288),
        duration: Nanos::from_secs(60),
        ..Setup::new("two-rand-0")
    };
    let small = run(&setup, Window(256));
    let large = run(&Setup { memory: Bytes::gib(1), ..setup }, Window(256));
    assert_eq!(large.counters.thrashed, Pages::ZERO);
    assert!(small.counters.thrashed > Pages(100), "{:?}", small.counters);
    assert!(small.throughput_mb_per_s() < 0.7 * large.throughput_mb_per_s());
}
