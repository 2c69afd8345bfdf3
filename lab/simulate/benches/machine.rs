//! The cost of the simulator: page accesses a second of processor time, by concurrency.
//!
//! `cargo bench -p foreseek-simulate --bench machine`. Each line is the best of three runs of one machine: a
//! microbenchmark under the competitive policy in TR-840's set-up, with enough memory for the handlers' private
//! memory beside the page cache. The thread's processor time is measured, so that other load matters little.
//!
//! The rule of congestion is TR-840's to the letter. With the kernel's pool of 128 requests all read-ahead is
//! cancelled as soon as more than 113 handlers wait, and every access becomes a request of its own; the second
//! table shows that regime. In the third table the pool grows with the concurrency, so that the work of an
//! access stays the same and only queues and tables grow. Its last columns compare the cost of an access with
//! that at 64, and that with log n.

use foreseek_device::Profile;
use foreseek_kernels::Congestion;
use foreseek_simulate::experiment::{Experiment, Metric, Policy, SetUp, run};
use foreseek_simulate::machine::Memory;
use foreseek_units::{Bytes, Nanos};
use rustix::time::{ClockId, clock_gettime};

/// Concurrency levels of the sweeps.
const LEVELS: [u32; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
/// Requests in the kernel's pool.
const POOL: usize = 128;
/// Requests for each handler where the pool grows: two streams, each with a fetch of five pieces ahead and one
/// that is waited for.
const REQUESTS_EACH: usize = 16;
/// Runs of each line.
const REPEATS: usize = 3;

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Page accesses of one machine and the best processor time for them.
fn measure(workload: &str, concurrency: u32, seconds: u64, pool: usize) -> (u64, f64) {
    let mut experiment = Experiment::new("bench", SetUp::Tr840, workload);
    experiment.devices = Profile::builtin("ibm-36g-51").into_iter().collect();
    experiment.policies = vec![Policy::new("competitive")];
    experiment.concurrency = vec![concurrency];
    experiment.seeds = vec![1];
    experiment.warm_up = Nanos::ZERO;
    experiment.duration = Nanos::from_secs(seconds);
    experiment.machine.memory = Memory::of(Bytes::mib(512) + Bytes::mib(3) * u64::from(concurrency));
    experiment.prefetch.congestion = Congestion::CancelsAll;
    experiment.block.requests = pool;
    experiment.block.congested_above = pool * 7 / 8 + 1;
    experiment.block.uncongested_below = pool * 7 / 8 - 1;
    let mut best = f64::INFINITY;
    let mut accesses = 0;
    for _ in 0..REPEATS {
        let begun = processor_seconds();
        let results = match run(&experiment, 1, &|_| {}) {
            Ok(results) => results,
            Err(error) => panic!("{error}"),
        };
        best = best.min(processor_seconds() - begun);
        let counters = results.points[0].runs[0].report.counters;
        accesses = (counters.hits + counters.late + counters.misses).get();
        assert!(results.points[0].summary(&Metric::THROUGHPUT).mean > 0.0);
    }
    (accesses, best)
}

#[allow(clippy::print_stdout, reason = "a benchmark reports to its caller")]
fn main() {
    println!("workload     concurrency  pool  accesses  seconds  accesses/s  ns/access");
    for workload in ["one-whole-0", "one-rand-10", "two-rand-0"] {
        let _ = line(workload, 64, POOL);
        println!();
    }
    println!();
    for concurrency in LEVELS {
        let _ = line("two-rand-0", concurrency, POOL);
        println!();
    }
    println!(
        "\nworkload     concurrency  pool  accesses  seconds  accesses/s  ns/access  to 64  that to log n"
    );
    let mut base = None;
    for concurrency in LEVELS {
        let ns = line("two-rand-0", concurrency, REQUESTS_EACH * concurrency as usize);
        let growth = ns / *base.get_or_insert(ns);
        let allowed = f64::from(concurrency).log2() / f64::from(LEVELS[0]).log2();
        println!(" {growth:>6.2} {:>14.2}", growth / allowed);
    }
}

/// Measures one line and prints it without its end; returns the nanoseconds of an access.
#[allow(clippy::print_stdout, reason = "a benchmark reports to its caller")]
fn line(workload: &str, concurrency: u32, pool: usize) -> f64 {
    let (accesses, seconds) = measure(workload, concurrency, 400, pool);
    let ns = seconds / accesses as f64 * 1e9;
    let rate = accesses as f64 / seconds;
    print!("{workload:12} {concurrency:>11} {pool:>5} {accesses:>9} {seconds:>8.3} {rate:>11.0} {ns:>10.0}");
    ns
}
