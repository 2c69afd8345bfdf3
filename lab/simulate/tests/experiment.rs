//! Experiments: from TOML to results.

use foreseek_device::Profile;
use foreseek_kernels::Congestion;
use foreseek_simulate::experiment::{Experiment, Metric, Policy, Results, SetUp, run};
use foreseek_units::Nanos;

fn parse(text: &str) -> Result<Experiment, String> {
    let device = |name: &str| Profile::builtin(name).ok_or_else(|| format!("there is no '{name}'"));
    Experiment::parse("x.toml", text, &device).map_err(|error| error.to_string())
}

fn small(scheduler: &str) -> Experiment {
    let mut experiment = Experiment::new("small", SetUp::Tr840, "two-rand-0");
    experiment.scheduler = scheduler.to_owned();
    experiment.concurrency = vec![1, 4];
    experiment.seeds = vec![7, 8];
    experiment.warm_up = Nanos::from_secs(2);
    experiment.duration = Nanos::from_secs(5);
    experiment
}

fn results(experiment: &Experiment, workers: usize) -> Results {
    run(experiment, workers, &|_| {}).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_same_experiment_gives_the_same_bytes_on_any_number_of_threads() {
    let experiment = small("noop");
    let (one, many) = (results(&experiment, 1), results(&experiment, 3));
    assert_eq!(one.to_json().to_string(), many.to_json().to_string());
    assert_eq!(one.to_csv(), many.to_csv());
    // Three policies, two levels, two seeds, and a line of names.
    assert_eq!(one.to_csv().lines().count(), 13);
}

#[test]
fn points_come_in_the_order_of_the_sweep_with_their_seeds() {
    let experiment = small("noop");
    let results = results(&experiment, 2);
    let order: Vec<(String, u32)> =
        results.points.iter().map(|point| (point.policy.to_string(), point.concurrency)).collect();
    let policies = ["linux-2.6.3", "competitive", "aggressive"];
    let expected: Vec<(String, u32)> =
        policies.iter().flat_map(|policy| [1, 4].map(|level| ((*policy).to_owned(), level))).collect();
    assert_eq!(order, expected);
    for point in &results.points {
        assert_eq!(point.runs.iter().map(|run| run.seed).collect::<Vec<_>>(), [7, 8]);
        let summary = point.summary(&Metric::THROUGHPUT);
        assert!(summary.low <= summary.mean && summary.mean <= summary.high);
        assert!(summary.mean > 1.0, "{point:?}");
    }
    let level = results.point("ibm-36g-51", &Policy::new("linux-2.6.3"), 4).expect("it was run");
    let ratio = level.ratio(level, &Metric::THROUGHPUT);
    assert_eq!((ratio.low, ratio.mean, ratio.high), (1.0, 1.0, 1.0));
}

#[test]
fn many_handlers_warm_up_for_longer() {
    let text = "concurrency = [1, 512]\nwarm_up_s = 60\nwarm_up_a_handler_s = 1\nduration_s = 5\n[workload]\n\
                name = \"two-rand-0\"";
    let experiment = parse(text).expect("an experiment");
    let seconds = |level| experiment.period(level).warm_up.as_secs_f64();
    assert_eq!([1, 60, 61, 512].map(seconds), [60.0, 60.0, 61.0, 512.0]);
    assert_eq!(experiment.period(512).whole(), Nanos::from_secs(517));
    let quick = experiment.quick().period(512);
    assert_eq!((quick.warm_up, quick.duration), (Nanos::from_secs(512), Nanos::from_secs(1)));
}

#[test]
fn the_rule_of_congestion_is_the_set_ups_unless_it_is_told() {
    let rule = |text: &str| {
        parse(&format!("{text}\n[workload]\nname = \"two-rand-0\"")).map(|it| it.prefetch.congestion)
    };
    let announced = "[prefetch]\ncongestion = \"ignored\"";
    assert_eq!(rule("set_up = \"tr840\""), Ok(Congestion::CancelsAhead));
    assert_eq!(rule("set_up = \"eurosys\""), Ok(Congestion::Stock));
    assert_eq!(rule(announced), Ok(Congestion::Ignored));
    let error = rule("[prefetch]\ncongestion = \"never\"").expect_err("no rule");
    assert!(error.contains("x.toml") && error.contains("cancels-ahead"), "{error}");
}

const SWEPT: &str = r#"
    policies = ["linux-2.6.18@32K", "linux-2.6.18@512K", "linux-2.6.18"]
    seeds = [1, 2]
    concurrency = [4]
    scheduler = "noop"
    warm_up_s = 1
    duration_s = 4
    [sweep]
    "machine.memory" = ["256M", "1G"]
    [workload]
    name = "one-whole-0"
    "#;

#[test]
fn any_key_can_be_swept_beside_windows_that_policies_name() {
    let swept = results(&parse(SWEPT).expect("an experiment"), 2);
    let order: Vec<(Option<&str>, String)> =
        swept.points.iter().map(|point| (point.value.as_deref(), point.policy.to_string())).collect();
    let policies = ["linux-2.6.18@32K", "linux-2.6.18@512K", "linux-2.6.18"];
    let expected: Vec<(Option<&str>, String)> = ["256M", "1G"]
        .iter()
        .flat_map(|memory| policies.map(|one| (Some(*memory), one.to_owned())))
        .collect();
    assert_eq!(order, expected);
    let csv = swept.to_csv();
    assert!(csv.starts_with("experiment,machine.memory,device,policy,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 12);
    assert_eq!(swept.to_json()["points"][3]["value"], "1G");
    // The windows differ, and each variant gives the same as that experiment without a sweep.
    let rate = |at: usize| swept.points[at].summary(&Metric::THROUGHPUT).mean;
    assert!(rate(1) > 1.02 * rate(0), "{} {}", rate(0), rate(1));
    let alone = SWEPT
        .replace("[sweep]", "[machine]")
        .replace("\"machine.memory\" = [\"256M\", \"1G\"]", "memory = \"1G\"");
    let alone = results(&parse(&alone).expect("an experiment"), 2);
    assert_eq!(alone.points[1].runs, swept.points[4].runs);
}

#[test]
fn the_scheduler_can_be_swept() {
    let swept = parse(
        &SWEPT.replace("\"machine.memory\" = [\"256M\", \"1G\"]", "scheduler = [\"noop\", \"deadline\"]"),
    );
    let variants = swept.expect("an experiment").axis.expect("a sweep").variants;
    let schedulers: Vec<&str> =
        variants.iter().map(|variant| variant.experiment.scheduler.as_str()).collect();
    assert_eq!(schedulers, ["noop", "deadline"]);
    let unknown = parse(&SWEPT.replace("\"machine.memory\" = [\"256M\", \"1G\"]", "scheduler = [\"fifo\"]"));
    assert!(unknown.expect_err("no such scheduler").contains("fifo"));
}

#[test]
fn a_sweep_that_cannot_be_says_why() {
    for (sweep, complaint) in [
        ("\"machine.memory\" = [\"256M\"]\n\"block.batch\" = [1]", "give one key"),
        ("\"machine.memory\" = \"256M\"", "a list of values"),
        ("seeds = [1, 2]", "is not a key of a table"),
        ("\"machine.memery\" = [\"256M\"]", "memery"),
        ("\"machine.memory\" = [\"256M\", \"much\"]", "'machine.memory' = much"),
        ("\"machine.memory\" = []", "has 0 values"),
    ] {
        let text = SWEPT.replace("\"machine.memory\" = [\"256M\", \"1G\"]", sweep);
        let error = parse(&text).expect_err(complaint);
        assert!(error.contains("x.toml") || error.contains("one-whole-0"), "{error}");
        assert!(error.contains(complaint), "{error}");
    }
    let error = parse(&SWEPT.replace("@32K", "@1K")).expect_err("no window");
    assert!(error.contains("4 KiB to 1 GiB"), "{error}");
}

#[test]
fn jobs_are_timed_to_their_end() {
    let mut experiment = small("noop");
    experiment.workload = "diff5".to_owned();
    experiment.concurrency = vec![1];
    experiment.policies.truncate(1);
    experiment.duration = Nanos::from_secs(600);
    let results = results(&experiment, 1);
    let report = &results.points[0].runs[0].report;
    assert_eq!(report.jobs.len(), 1);
    assert_eq!(report.time, report.jobs[0].1, "the last job ends the run");
    // Two files of 5 MB at the drive's rate, and not a hundred times that.
    assert!((0.2..20.0).contains(&report.time.as_secs_f64()), "{}", report.time);
}

#[test]
fn a_file_overrides_its_set_up_key_by_key() {
    let experiment = parse(
        r#"
        name = "n"
        set_up = "eurosys"
        devices = ["seagate-146g", "ibm-36g-37"]
        scheduler = "noop"
        policies = ["none", "oracle"]
        concurrency = [1, 2]
        seeds = [5]
        duration_s = 1.5
        [workload]
        name = "one-rand-10"
        file_size = "2 MiB"
        [machine]
        memory = "1 GiB"
        processors = 1
        [costs]
        copy_us = 2.5
        [block]
        largest_sectors = 512
        [prefetch]
        aggressive_pages = 99
        "#,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(experiment.devices.len(), 2);
    assert_eq!(experiment.machine.memory.total, foreseek_units::Bytes::gib(1));
    assert_eq!(experiment.machine.processors, 1);
    assert_eq!(experiment.machine.costs.copy, Nanos(2500));
    assert_eq!(experiment.block.largest.get(), 512);
    assert_eq!(experiment.prefetch.stream.aggressive.get(), 99);
    assert_eq!(experiment.duration, Nanos::from_millis(1500));
    // Keys that are not in the file have the set-up's values.
    assert_eq!(experiment.block.requests, SetUp::EuroSys.block().requests);
    assert_eq!(experiment.prefetch.stream.generation, SetUp::EuroSys.prefetch().stream.generation);
}

#[test]
fn what_is_wrong_is_said_with_file_key_and_reason() {
    let workload = "[workload]\nname = \"one-whole-0\"\n";
    for (text, words) in [
        ("concurency = [1]\n", ["x.toml", "line 1", "concurency"]),
        ("duration_s = \"long\"\n", ["x.toml", "duration_s", "string"]),
        ("duration_s = -1\n", ["x.toml", "duration_s", "-1"]),
        ("concurrency = []\n", ["x.toml", "concurrency", "0 entries"]),
        ("concurrency = [0]\n", ["x.toml", "concurrency", "give 1 to"]),
        ("scheduler = \"elevators\"\n", ["x.toml", "scheduler", "noop"]),
        ("policies = [\"linux\"]\n", ["x.toml", "policies", "linux-2.6.3"]),
        ("policies = [\"none+lru\"]\n", ["x.toml", "policies", "linux-2.6"]),
        ("devices = [\"floppy\"]\n", ["x.toml", "devices", "floppy"]),
        ("set_up = \"tr841\"\n", ["x.toml", "set_up", "tr840"]),
    ] {
        let text = format!("{text}{workload}");
        let error = parse(&text).expect_err(&text);
        for word in words {
            assert!(error.contains(word), "{text}: {error}");
        }
    }
    let error = parse("[workload]\nname = \"one\"\n").expect_err("no such workload");
    assert!(error.contains("x.toml: workload") && error.contains("one-whole-0"), "{error}");
    let error = parse(&format!("{workload}data_size = \"9 PiB\"\n")).expect_err("no such device");
    assert!(error.contains("x.toml: workload.data_size") && error.contains("9 PiB"), "{error}");
    let error = parse(&format!("{workload}[machine]\nmemory = \"lots\"\n")).expect_err("no size");
    assert!(error.contains("line 4") && error.contains("memory") && error.contains("lots"), "{error}");
}

#[test]
fn a_machine_beyond_its_limits_is_refused_with_the_remedy() {
    let mut experiment = small("noop");
    experiment.machine.memory = foreseek_simulate::machine::Memory::of(foreseek_units::Bytes::mib(64));
    let error = run(&experiment, 1, &|_| {}).expect_err("too small").to_string();
    assert!(error.contains("64 MiB") && error.contains("at least"), "{error}");
    experiment.machine.memory = foreseek_simulate::machine::Memory::of(foreseek_units::Bytes::gib(4096));
    let error = run(&experiment, 1, &|_| {}).expect_err("too much").to_string();
    assert!(error.contains("4 TiB") && error.contains("at most"), "{error}");
    let mut experiment = small("noop");
    experiment.machine.processors = u32::MAX;
    let error = run(&experiment, 1, &|_| {}).expect_err("too many").to_string();
    assert!(error.contains("processors") && error.contains("1 to"), "{error}");
}

#[test]
fn another_amount_of_memory_leaves_its_rules_as_the_set_up_has_them() {
    let of = |text: &str| parse(text).expect("an experiment").machine.memory;
    let workload = "[workload]\nname = \"two-rand-0\"";
    let (given, more) = (of(workload), of(&format!("{workload}\n[machine]\nmemory = \"1GiB\"")));
    assert_eq!(more.total, given.total * 2);
    assert!(given.paged && more.paged && given.marks_beginning && more.marks_beginning);
    assert!(more.system > given.system && more.high > given.high);
}
