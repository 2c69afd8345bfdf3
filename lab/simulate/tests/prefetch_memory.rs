//! The effect of a prefetch cache in a machine that is short of memory: golden numbers of 512 request handlers
//! in 512 MB (TR-840 section 5).

use foreseek_device::Profile;
use foreseek_simulate::experiment::{Experiment, Policy, SetUp, run};
use foreseek_simulate::machine::Counters;
use foreseek_units::{Nanos, Pages};

/// The queue is never congested: with its 128 requests, read-ahead would be cancelled all the time
/// (`docs/internals/simulator.md`), and nothing would be prefetched that could thrash.
const NEVER: usize = 1 << 20;

fn counters(policy: &str) -> Counters {
    let mut experiment = Experiment::new("prefetch-memory", SetUp::Tr840, "one-rand-10");
    experiment.devices = Profile::builtin("ibm-36g-51").into_iter().collect();
    experiment.policies = vec![Policy::from(policy)];
    experiment.concurrency = vec![512];
    experiment.seeds = vec![1];
    // All begin at once: it takes some three minutes until they are spread and the ceiling has settled.
    experiment.warm_up = Nanos::from_secs(200);
    experiment.duration = Nanos::from_secs(40);
    experiment.block.congested_above = NEVER;
    experiment.block.uncongested_below = NEVER;
    let results = run(&experiment, 1, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    results.points[0].runs[0].report.counters
}

#[test]
fn golden_a_prefetch_cache_ends_most_thrashing() {
    let lists = counters("competitive");
    let cpem = counters("competitive+cpem");
    let active = counters("competitive+cpem-active");
    let pages = |counters: Counters| [counters.thrashed, counters.used, counters.wasted].map(Pages::get);
    assert_eq!(
        [lists, cpem, active].map(pages),
        [[2989, 83857, 25435], [985, 88455, 30471], [642, 41146, 12149]]
    );
    assert!(cpem.thrashed * 2 < lists.thrashed, "{:?} of {:?}", cpem.thrashed, lists.thrashed);
}
