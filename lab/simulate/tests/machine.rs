//! The machine, end to end: microbenchmarks on a modelled drive.

mod machine_common;

use foreseek_simulate::experiment::{self, Experiment, Policy, SetUp};
use foreseek_simulate::machine::{Memory, Report};
use foreseek_units::{Bytes, Nanos, Pages};
use machine_common::{Setup, Window, run};

/// TR-840 section 5.2: the optimal throughput of streams of length S is S / (S / R + C). Files of 4 MB that are
/// read whole by fetches of that length come near it on a drive with known R and C.
#[test]
fn whole_files_in_one_fetch_come_near_the_analytic_optimum() {
    let setup = Setup { concurrency: 1, ..Setup::new("one-whole-0") };
    let report = run(&setup, Window(1024));
    let (rate, positioning, size) = (51.3e6, 10.53e-3, 4.0 * 1024.0 * 1024.0);
    let optimum = size / (size / rate + positioning) / 1e6;
    let got = report.throughput_mb_per_s();
    // The processor's work and the gap of an indirect block come on top, and the files are in different zones.
    assert!((0.85 * optimum..1.05 * optimum).contains(&got), "{got} MB/s, optimum {optimum}");
}

#[test]
fn short_fetches_of_many_streams_cost_a_positioning_each() {
    let setup = Setup { concurrency: 16, ..Setup::new("one-whole-0") };
    let (rate, positioning, size) = (51.3e6, 10.53e-3, 16.0 * 4096.0);
    let expected = size / (size / rate + positioning) / 1e6;
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

/// One run of an experiment of one policy, device and seed.
fn report(experiment: &Experiment) -> Report {
    let results = experiment::run(experiment, 1, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    results.points[0].runs[0].report.clone()
}

fn tr840(workload: &str, policy: &str) -> Experiment {
    let mut experiment = Experiment::new("test", SetUp::Tr840, workload);
    experiment.policies = vec![Policy::new(policy)];
    experiment.seeds = vec![1];
    experiment.warm_up = Nanos::from_secs(10);
    experiment.duration = Nanos::from_secs(30);
    experiment
}

/// TR-840 section 2.3: a page that was read ahead and evicted before its use is read again alone.
#[test]
fn a_thrashed_page_is_read_again_alone() {
    let mut experiment = tr840("two-rand-0", "linux-2.6.3");
    experiment.machine.memory = Memory::of(Bytes::mib(288));
    experiment.concurrency = vec![192];
    experiment.duration = Nanos::from_secs(120);
    let report = report(&experiment);
    let (thrashed, single) = (report.counters.thrashed.get(), report.fetch_sizes[1]);
    assert!(thrashed > 100, "{:?}", report.counters);
    assert!(single >= thrashed, "{single} fetches of one page, {thrashed} thrashed");
}

/// TR-840 section 5.5: with data that fit into memory the processors are the limit, and concurrent requests use
/// both of them.
#[test]
fn data_in_memory_are_read_as_fast_as_two_processors_copy() {
    let throughput = |concurrency| {
        let mut experiment = tr840("one-whole-0", "linux-2.6.3");
        experiment.parameters.data_size = Some(Bytes::mib(64));
        experiment.concurrency = vec![concurrency];
        experiment.machine.client_delay = Nanos::ZERO;
        experiment.duration = Nanos::from_secs(5);
        report(&experiment).throughput_mb_per_s()
    };
    let [one, two, four] = [1, 2, 4].map(throughput);
    // 4.3 us a page on one processor.
    assert!((700.0..1000.0).contains(&one), "{one}");
    assert!((1.9..2.1).contains(&(two / one)), "{two} / {one}");
    assert!((0.95..1.05).contains(&(four / two)), "{four} / {two}");
}

#[test]
fn what_is_written_goes_to_the_device_when_there_is_too_much_of_it() {
    let copy = |limit| {
        let mut experiment = tr840("cp50", "linux-2.6.3");
        experiment.machine.write_back.background = limit / 2.0;
        experiment.machine.write_back.limit = limit;
        experiment.duration = Nanos::from_secs(600);
        report(&experiment)
    };
    // 50 MB are a ninth of the page cache.
    let (lazy, eager) = (copy(0.4), copy(0.05));
    let length = lazy.counters.written;
    assert_eq!(length, eager.counters.written);
    assert!(length >= Bytes(50_000_000), "{length}");
    assert_eq!(lazy.block.written.bytes(), Bytes::ZERO);
    // The writer waits until no more than a twentieth of some 470 MB is dirty.
    assert!(eager.block.written.bytes() > length - Bytes::mib(25), "{}", eager.block.written.bytes());
    assert!(eager.time > lazy.time, "writes take the disk's time");
}

/// A competitive reader beside others gives the disk longer requests than Linux's 128 KiB.
#[test]
fn alternating_streams_gain_from_the_competitive_depth() {
    let throughput = |policy| {
        let mut experiment = tr840("two-rand-0", policy);
        experiment.concurrency = vec![4];
        // With more the disk takes the pieces of several fetches in its own order, and a fetch is more than one
        // access.
        experiment.block.in_device = 1;
        report(&experiment).throughput_mb_per_s()
    };
    let [linux, competitive, oracle] = ["linux-2.6.3", "competitive", "oracle"].map(throughput);
    assert!(competitive > 1.1 * linux, "{competitive} / {linux}");
    assert!(oracle > competitive && competitive > 0.5 * oracle, "{competitive} / {oracle}");
}
