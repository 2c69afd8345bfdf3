//! The mount in virtual time: a kernel's read-ahead in front, the serving engine, the modelled disk.

use foreseek_readahead::stream::Generation;
use foreseek_simulate::experiment::{Experiment, Point, Policy, SetUp, run};
use foreseek_units::{Nanos, Sectors};

/// Today's kernel on the IBM drive, for a quarter of a minute of disk time.
fn experiment(workload: &str, concurrency: &[u32], policies: &[&str]) -> Vec<Point> {
    let mut experiment = Experiment::new("mount", SetUp::Tr840, workload);
    experiment.policies = policies.iter().map(|policy| Policy::from(*policy)).collect();
    experiment.concurrency = concurrency.to_vec();
    experiment.scheduler = "mq-deadline".to_owned();
    experiment.prefetch.stream.generation = Generation::ON_DEMAND;
    experiment.block.largest = Sectors(2560);
    experiment.block.in_device = 32;
    experiment.seeds.truncate(1);
    experiment.warm_up = Nanos::from_secs(5);
    experiment.duration = Nanos::from_secs(15);
    run(&experiment, 2, &|_| {}).expect("a run").points
}

fn rate(points: &[Point], policy: &str, concurrency: u32) -> f64 {
    let point =
        points.iter().find(|point| point.policy.to_string() == policy && point.concurrency == concurrency);
    point.expect("a point").runs[0].report.throughput_mb_per_s()
}

/// Random blocks lose 1 to 3 %: blocks at the start of a file look like the beginning of a sequence.
#[test]
fn streams_gain_and_random_reads_lose_little() {
    for (workload, at_least) in
        [("one-whole-0", 1.3), ("two-rand-0", 1.1), ("one-rand-10", 1.02), ("four-64kb-0", 0.97)]
    {
        let points = experiment(workload, &[16], &["on-demand", "mount:competitive", "mount:adaptive"]);
        let stock = rate(&points, "on-demand", 16);
        for policy in ["mount:competitive", "mount:adaptive"] {
            let mount = rate(&points, policy, 16);
            assert!(mount >= at_least * stock, "{workload}, {policy}: {mount:.2} MB/s, stock {stock:.2}");
        }
        let stats = points.iter().filter_map(|point| point.runs[0].report.mount);
        assert!(stats.clone().count() == 2 && stats.map(|stats| stats.internal_errors).sum::<u64>() == 0);
    }
}

#[test]
fn a_mount_that_reads_nothing_ahead_does_what_the_kernel_asks() {
    let points = experiment("four-64kb-0", &[4], &["mount:none"]);
    let stats = points[0].runs[0].report.mount.expect("a mount");
    assert_eq!(stats.fetched_ahead.get(), 0);
    assert!(stats.reads > 100 && stats.fetched_on_demand == stats.missed, "{stats:?}");
}

/// What is learnt of the drive during the run lies near its profile: 10.5 ms and 51 MB/s, the first less what
/// its queue and its buffer save.
#[test]
fn the_drive_is_learnt() {
    let points = experiment("four-64kb-0", &[1], &["mount:competitive"]);
    let stats = points[0].runs[0].report.mount.expect("a mount");
    assert!(stats.learnt_from > 300 && (6.0..12.0).contains(&stats.positioning.as_millis_f64()), "{stats:?}");
}
