//! Depths by learnt stream lengths: their gain, how fast they are learnt, and their worst cost.

use foreseek_readahead::depth::Depths;
use foreseek_readahead::depth::{Plan, RatioBound, Survival};
use foreseek_readahead::learn::{Lengths, Retention};
use foreseek_readahead::stream::{Found, Opened, Prefetcher, Served, Settings, Touch, View, by_name};
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_theory::Model;
use foreseek_theory::adversary::against_policy;
use foreseek_units::{DeviceCosts, Instant, Lba, Nanos, PageIndex, Pages, Rate, SectorSpan, Sectors};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;

const PAGE: f64 = 4096.0;
/// The files of the microbenchmarks: 4 MB.
const FILE: u64 = 1024;
/// Their calls: 64 KB.
const CALL: u64 = 16;

/// A disk whose positionings take 10.5 ms and that reads 51 MB/s: 131 pages.
fn disk() -> Model {
    Model { positioning: Nanos::from_millis_f64(10.5), rate: Rate::mb_per_second(51.0) }
}

fn unit(model: &Model) -> f64 {
    model.competitive_depth() / PAGE
}

/// Portions of a file of 64 KB to 4 MB, each multiple of 64 KB equally often.
fn uniform() -> Vec<u64> {
    (1..=64).map(|blocks| blocks * 16).collect()
}

/// Seven in ten streams of 64 KB, three of the whole file.
fn two_kinds() -> Vec<u64> {
    vec![16, 16, 1024, 16, 16, 1024, 16, 16, 1024, 16]
}

/// `count` of these lengths, mixed.
fn mixed(lengths: &[u64], count: usize) -> impl Iterator<Item = u64> + '_ {
    (0..count).map(|n| lengths[n * 7919 % lengths.len()])
}

/// The distribution learnt from this many of them in files of 4 MB. A length of 4 MB is the whole file.
fn survival(lengths: &[u64], count: usize) -> Survival {
    let mut learnt = Lengths::new(Retention::Lasting);
    mixed(lengths, count).for_each(|length| learnt.stream(Pages(length), length != FILE));
    learnt.survival()
}

/// The plan in the model's terms: each fetch costs a positioning.
fn solve(survival: Survival, ratio_bound: RatioBound, end: u64) -> Plan {
    Plan::solve(survival, ratio_bound, Pages(end), 1.0)
}

/// The fetches of a stream that does not end before `end`.
fn depths(plan: &Plan, fetches: usize, end: u64) -> Depths {
    let (mut at, mut all) = (0, Vec::new());
    for made in 0..fetches {
        let depth = plan.depth(made, Pages(at)).get().min(end.saturating_sub(at).max(1));
        all.push(depth as f64 * PAGE);
        at += depth;
    }
    Depths::given(&all).expect("at least one")
}

/// Throughput by disk time over streams of these lengths, as a share of the oracle's.
fn share(depths: &Depths, lengths: &[u64]) -> f64 {
    let bytes = |pages: &u64| *pages as f64 * PAGE;
    let optimum: f64 = lengths.iter().map(|pages| disk().optimum(bytes(pages))).sum();
    optimum / lengths.iter().map(|pages| disk().online(depths, bytes(pages))).sum::<f64>()
}

fn planned(lengths: &[u64], rho: f64) -> f64 {
    let plan = solve(survival(lengths, 5000), RatioBound::new(rho, unit(&disk())), FILE);
    share(&depths(&plan, 64, FILE), lengths)
}

/// By device time alone; the first three columns are Linux, slow start, and the competitive depth.
#[test]
fn golden_shares_of_the_oracle() {
    let cr = disk().competitive_depth();
    let fixed = [Depths::constant(131_072.0), Depths::slow_start(65_536.0, cr), Depths::constant(cr)];
    for (lengths, others, by_rho) in [
        (uniform(), [0.242, 0.454, 0.557], [0.557, 0.685, 0.700]),
        (two_kinds(), [0.268, 0.560, 0.554], [0.558, 0.792, 0.920]),
        (vec![FILE], [0.222, 0.495, 0.552], [0.558, 0.815, 1.000]),
        (vec![16], [0.902, 1.000, 0.561], [0.561, 1.000, 1.000]),
    ] {
        let shares = fixed.each_ref().map(|depths| share(depths, &lengths));
        let near = |one: &f64, other: &f64| (one - other).abs() < 0.002;
        assert!(shares.iter().zip(&others).all(|(one, other)| near(one, other)), "{shares:?} of {others:?}");
        let shares = [2.0, 3.0, 1000.0].map(|rho| planned(&lengths, rho));
        assert!(shares.iter().zip(&by_rho).all(|(one, other)| near(one, other)), "{shares:?} of {by_rho:?}");
    }
}

#[test]
fn with_a_bound_of_two_it_is_competitive_prefetching() {
    for lengths in [uniform(), two_kinds(), vec![1], vec![1 << 18]] {
        let plan = solve(survival(&lengths, 1000), RatioBound::new(2.0, 128.0), 1 << 20);
        let all: Vec<f64> = depths(&plan, 50, 1 << 20).iter().take(50).collect();
        assert_eq!(all, [128.0 * PAGE; 50], "{lengths:?}");
    }
}

/// A cold start does as well as slow start where reads are random.
#[test]
fn a_cold_start_fetches_no_more_than_slow_start_first() {
    for depth_in_kb in [393.0, 446.0, 540.0, 646.0] {
        let ratio_bound = RatioBound::new(3.0, depth_in_kb * 1e3 / PAGE);
        let first = solve(Lengths::default().survival(), ratio_bound, FILE).depth(0, Pages::ZERO);
        assert!((Pages(8)..=Pages(16)).contains(&first), "{depth_in_kb} KB: {first}");
    }
}

fn lengths() -> impl Strategy<Value = Vec<u64>> {
    let length = (0.0..18.0f64).prop_map(|power| power.exp2() as u64);
    prop::collection::vec(length, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// For any end of a stream and any distribution: within a page's transfer.
    #[test]
    fn the_bound_holds_for_every_rho_and_distribution(
        lengths in lengths(), rho in 2.0..9.0f64, unit in 1.0..3000.0f64, end in 1..1u64 << 18,
        continuing in 0.0..1.0f64,
    ) {
        let model = Model { positioning: Nanos(10_000_000), rate: Rate::bytes_per_second(unit * PAGE / 0.01) };
        let survival = survival(&lengths, lengths.len() * 3);
        let plan = Plan::solve(survival, RatioBound::new(rho, unit), Pages(end), continuing);
        // Beyond the planned end as well, as if that had been wrong.
        let worst = model.worst(&depths(&plan, 100, u64::MAX >> 16), 100);
        prop_assert!(worst.ratio <= rho + 1.0 / unit + 1e-4, "{worst:?} of {rho}, {unit}");
    }

    /// For the streams that it is planned for it costs no more than the competitive depth, which stays within
    /// every bound. (Nearer to 2 there is less freedom than the grid can resolve.)
    #[test]
    fn it_is_never_worse_than_the_competitive_depth(lengths in lengths(), rho in 2.5..9.0f64) {
        prop_assume!(!lengths.is_empty());
        let lengths: Vec<u64> = lengths.into_iter().map(|length| length.clamp(1, FILE)).collect();
        let competitive = share(&Depths::constant(disk().competitive_depth()), &lengths);
        let ours = planned(&lengths, rho);
        prop_assert!(ours >= competitive * 0.97, "{ours} of {competitive} at {rho}");
    }

    /// The policy as a black box, after misleading input, on a busy device and on an idle one, where it
    /// fetches early.
    #[test]
    fn no_adversary_gets_more_than_rho(lengths in lengths(), rho in 2.0..6.0f64, idle in any::<bool>()) {
        let mut reader = Reader::new("adaptive", rho);
        for length in mixed(&lengths, lengths.len() * 4) {
            // Files as large as the adversary's, so that it uses what was learnt.
            reader.read(1 << 19, length.clamp(1, 4000));
        }
        prop_assert_eq!(worst(&mut reader, rho, idle), Ok(()));
    }

    /// The same with numbers that no stream has produced: a damaged or forged file.
    #[test]
    fn no_forged_state_breaks_the_bound(
        cells in prop::collection::vec((0..70usize, 0.0..1e6f64, 0.0..1e6f64), 0..200),
        seen in 0..1u64 << 40, rho in 2.0..6.0f64, idle in any::<bool>(), announced in any::<bool>(),
    ) {
        let mut text = String::from("foreseek-learnt 1\n");
        for (class, cells) in ["", " size=19 start=yes", " size=19 start=yes kind="].iter().zip(cells.chunks(65)) {
            text += &format!("class{class} seen={seen}\n");
            cells.iter().for_each(|(cell, came, ended)| text += &format!("cell {cell} {came} {ended}\n"));
        }
        let mut reader = Reader::new(if announced { "adaptive-known-lengths" } else { "adaptive" }, rho);
        reader.policy.learning().expect("it learns").load(&text).expect("well-formed");
        prop_assert_eq!(worst(&mut reader, rho, idle), Ok(()));
    }

}

/// Checks that the adversary's gain is at most `rho` and the transfer of a page. Lengths are whole pages: a
/// stream that uses a byte of a page wants the page.
fn worst(reader: &mut Reader, rho: f64, idle: bool) -> Result<(), String> {
    if idle {
        reader.let_the_device_idle();
    }
    let ending = against_policy(&mut *reader.policy, &disk(), Pages(1 << 14));
    let page = 1.0 / unit(&disk());
    let bound = rho * (1.0 + page) + page + 1e-4;
    if ending.ratio > bound || ending.ratio < 1.99 {
        return Err(format!("{ending:?} of {rho}"));
    }
    Ok(())
}

/// Streams read one after another through a policy, and their costs.
struct Reader {
    policy: Box<dyn Prefetcher>,
    /// The page touched when each fetch was made, and the start of the fetch.
    made: Vec<(u64, u64)>,
    seconds: f64,
    optimum: f64,
}

/// Pages before the first field were fetched; pages in the range are in another cache.
struct Held(PageIndex, Range<u64>);

impl View for Held {
    fn cached(&self, page: PageIndex) -> bool {
        page < self.0 || self.1.contains(&page.get())
    }
    fn congested(&self) -> bool {
        false
    }
    fn lba(&self, _: PageIndex) -> Option<Lba> {
        None
    }
}

impl Reader {
    fn new(policy: &str, rho: f64) -> Self {
        let costs: Arc<dyn DeviceCosts> = Arc::new(disk());
        let policy = by_name(policy, &Settings { rho, ..Settings::default() }, &costs).expect("a policy");
        Self { policy, made: Vec::new(), seconds: 0.0, optimum: 0.0 }
    }

    /// The device has served one request each second lately.
    fn let_the_device_idle(&mut self) {
        for second in 0..300 {
            let served = Served { from: Lba(0), range: SectorSpan::at(Lba(1 << 20), Sectors(8)) };
            self.policy.served(Instant::ZERO + Nanos::from_secs(second), served);
        }
    }

    /// A new file of `file` pages, read from its start for `length` pages in calls of 64 KB.
    fn read(&mut self, file: u64, length: u64) {
        self.read_until(file, length, 0);
    }

    /// The same with the pages from `length` up to `elsewhere` in a cache whose hits are not visible.
    fn read_until(&mut self, file: u64, length: u64, elsewhere: u64) {
        let (now, stream) = (Instant::ZERO, StreamId(5));
        let opened =
            Opened { stream, object: ObjectId(1), pid: ProcessId(1), length: Pages(file), announced: None };
        self.policy.opened(now, opened);
        let (mut held, mut fetches, mut out) = (Held(PageIndex(0), length..elsewhere), 0, Vec::new());
        for page in (0..length).map(PageIndex) {
            let found = if page < held.0 { Found::Hit } else { Found::Miss };
            let begun = page.get() % CALL;
            let request = Pages((CALL - begun).min(length - page.get()));
            let first = begun == 0;
            let touch = Touch { stream, page, request, first, mapped: false, found, marker: false };
            self.policy.touch(now, touch, &held, &mut out);
            for ahead in out.drain(..) {
                fetches += 1;
                self.made.push((page.get(), ahead.range.start.get()));
                held.0 = ahead.range.end;
            }
        }
        self.policy.closed(now, stream);
        self.seconds += disk().cost(fetches, held.0.get() as f64 * PAGE);
        self.optimum += disk().optimum(length as f64 * PAGE);
    }

    /// The share of the oracle over `count` further streams of these lengths.
    fn share(&mut self, lengths: &[u64], count: usize) -> f64 {
        (self.seconds, self.optimum) = (0.0, 0.0);
        mixed(lengths, count).for_each(|length| self.read(FILE, length));
        self.optimum / self.seconds
    }
}

#[test]
fn after_200_streams_it_is_within_five_percent_of_the_known_distribution() {
    for lengths in [uniform(), two_kinds(), vec![FILE], vec![16]] {
        let mut reader = Reader::new("adaptive", 3.0);
        reader.share(&lengths, 200);
        let (learnt, known) = (reader.share(&lengths, 640), planned(&lengths, 3.0));
        assert!(learnt >= 0.95 * known, "{learnt} of {known}");
    }
}

#[test]
fn from_the_first_stream_on_it_is_no_worse_than_slow_start_on_random_reads() {
    let slow = share(&Depths::slow_start(65_536.0, disk().competitive_depth()), &[16]);
    let cold = Reader::new("adaptive", 3.0).share(&[16], 100);
    assert!(cold >= 0.99 * slow, "{cold} of {slow}");
}

#[test]
fn after_a_sudden_change_it_is_above_the_competitive_depth_within_100_streams() {
    for (before, after) in [(vec![16], vec![FILE]), (vec![FILE], vec![16]), (vec![16], uniform())] {
        let mut reader = Reader::new("adaptive", 3.0);
        reader.share(&before, 2000);
        reader.share(&after, 100);
        let competitive = share(&Depths::constant(disk().competitive_depth()), &after);
        let learnt = reader.share(&after, 64);
        assert!(learnt > competitive, "{learnt} of {competitive}, {before:?} to {after:?}");
    }
}

/// Reads a whole file; returns the pages that were touched when the fetches were made.
fn fetches_of_a_whole_file(reader: &mut Reader) -> Vec<(u64, u64)> {
    reader.made.clear();
    reader.read(FILE, FILE);
    reader.made.clone()
}

#[test]
fn where_the_device_is_idle_the_next_fetch_is_on_its_way_while_the_reader_computes() {
    let mut reader = Reader::new("adaptive", 3.0);
    reader.share(&[FILE], 100);
    let busy = fetches_of_a_whole_file(&mut reader);
    reader.let_the_device_idle();
    let idle = fetches_of_a_whole_file(&mut reader);
    // Each fetch but the first begins before the pages ahead are used up, though no earlier than the bound
    // permits.
    assert!(idle[1..].iter().all(|(touched, start)| touched < start), "{idle:?}");
    assert!(busy[0] == (0, 0) && idle[0] == (0, 0) && idle[1].0 > 0, "{busy:?}, {idle:?}");
}

#[test]
fn saved_state_makes_a_restart_warm() {
    let mut before = Reader::new("adaptive", 3.0);
    before.share(&uniform(), 400);
    let text = before.policy.learning().expect("it learns").save();
    let warm = before.share(&uniform(), 64);
    let mut after = Reader::new("adaptive", 3.0);
    let loaded = after.policy.learning().expect("it learns").load(&text).expect("just saved");
    assert!(loaded.classes >= 3 && loaded.left_out == 0, "{loaded:?}");
    let (restarted, cold) = (after.share(&uniform(), 64), Reader::new("adaptive", 3.0).share(&uniform(), 64));
    assert!((restarted - warm).abs() < 0.02 && restarted > cold, "{warm}, {restarted}, {cold}");
}

#[test]
fn with_known_lengths_it_learns_nothing() {
    let mut teacher = Reader::new("adaptive", 3.0);
    teacher.share(&[FILE], 100);
    let text = teacher.policy.learning().expect("it learns").save();
    let mut announced = Reader::new("adaptive-known-lengths", 3.0);
    announced.policy.learning().expect("it is given them").load(&text).expect("just saved");
    let before = announced.share(&[FILE], 16);
    announced.share(&[16], 300);
    assert_eq!(announced.policy.learning().expect("it is given them").save(), text);
    assert!((announced.share(&[FILE], 16) - before).abs() < 1e-9);
}

#[test]
fn it_explains_its_state_and_its_plans() {
    let mut reader = Reader::new("adaptive", 3.0);
    reader.share(&[FILE], 100);
    let all = reader.policy.learning().expect("it learns").explain(2);
    assert!(all.iter().all(|class| class.streams == 100 && class.changes == 0), "{all:?}");
    assert_eq!([&*all[0].class, &*all[1].class], ["all", "files of 4 MiB to 8 MiB, from the start"]);
    for class in &all {
        assert!(class.gain > 1.2 && class.depths_pages.len() <= 4, "{class:?}");
        assert_eq!(class.depths_pages.iter().sum::<u64>(), FILE);
    }
    let mut chunks = Reader::new("adaptive", 3.0);
    chunks.share(&[16], 100);
    let all = chunks.policy.learning().expect("it learns").explain(10);
    assert!(all.iter().all(|class| class.median_pages == 16 && class.depths_pages[0] == 16), "{all:?}");
}

/// A mount whose kernel keeps a cache sees only the pages of a stream that this cache lacks.
#[test]
fn streams_that_go_on_unseen_are_not_taken_for_short_ones() {
    let read = |unseen_hits| {
        let costs: Arc<dyn DeviceCosts> = Arc::new(disk());
        let settings = Settings { unseen_hits, ..Settings::default() };
        let mut reader = Reader::new("adaptive", 3.0);
        reader.policy = by_name("adaptive", &settings, &costs).expect("a policy");
        // Whole files of which the kernel has all pages except the first 32.
        (0..100).for_each(|_| reader.read_until(FILE, 32, FILE));
        reader.policy.learning().expect("it learns").explain(1)[0].nine_in_ten_pages
    };
    assert_eq!(read(false), 32);
    // Nothing was seen of the pages after that: the value is the prior's.
    assert!(read(true) > 100, "{}", read(true));
}
