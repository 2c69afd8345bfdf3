//! What a driver sees of a disk: rates, random access times, order.

use foreseek_device::{Build, Device, Finished, Io, IoId, Op, Outcome, Profile, Queue};
use foreseek_units::{Instant, Lba, Nanos, Pages, SectorSpan};

fn build(name: &str, options: &Build) -> Box<dyn Device> {
    Profile::builtin(name).expect("a built-in profile").build(options).expect("a device")
}

/// Keeps `depth` requests in the queue until all are done; answers the time and the completions.
fn run(device: &mut dyn Device, depth: usize, ios: &[(Op, SectorSpan)]) -> (Nanos, Vec<Finished>) {
    let (mut now, mut next, mut all, mut done) = (Instant::ZERO, 0, Vec::new(), Vec::new());
    let mut flying = 0;
    while next < ios.len() || flying > 0 {
        while flying < depth && next < ios.len() {
            let (op, range) = ios[next];
            device.submit(now, Io { id: IoId(next as u64), op, range }).expect("room in the queue");
            (next, flying) = (next + 1, flying + 1);
        }
        now = device.next().expect("requests are under way");
        device.advance(now, &mut done);
        flying -= done.len();
        all.append(&mut done);
    }
    assert_eq!(device.next(), None);
    (now - Instant::ZERO, all)
}

fn read(page: u64, pages: u64) -> (Op, SectorSpan) {
    (Op::Read, SectorSpan::at(Lba(page * 8), Pages(pages).sectors()))
}

/// A generator good enough for tests.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn a_sequential_reader_of_small_requests_runs_at_the_medias_rate() {
    let mut disk = build("barracuda-500g", &Build::default());
    let ios: Vec<_> = (0..4000).map(|i| read(i * 32, 32)).collect();
    let (time, _) = run(&mut *disk, 1, &ios);
    let rate = 4000.0 * 131_072.0 / time.as_secs_f64() / 1e6;
    assert!((rate - 105.0).abs() < 2.0, "{rate} MB/s");
}

#[test]
fn an_ascending_pass_costs_what_reading_everything_costs() {
    for density in [20, 25, 30, 63] {
        let region = 64 << 8;
        let mut state = 7;
        let mut whole = build("barracuda-500g", &Build::default());
        let (sequential, _) =
            run(&mut *whole, 32, &(0..region / 32).map(|i| read(i * 32, 32)).collect::<Vec<_>>());
        let wanted: Vec<u64> = (0..region).filter(|_| random(&mut state) % 100 < density).collect();
        // A kernel merges requests for neighbouring pages.
        let pages: Vec<_> =
            wanted.chunk_by(|one, next| one + 1 == *next).map(|run| read(run[0], run.len() as u64)).collect();
        let mut disk = build("barracuda-500g", &Build::default());
        let (sparse, _) = run(&mut *disk, 32, &pages);
        let ratio = sparse.as_secs_f64() / sequential.as_secs_f64();
        assert!(ratio < 1.15, "{density} %: {ratio}");
    }
}

#[test]
fn random_reads_take_the_switch_time() {
    let mut disk = build("barracuda-500g", &Build { queue: Queue::Fifo, ..Build::default() });
    let pages = disk.capacity().get() / 8;
    let mut state = 1;
    let ios: Vec<_> =
        (0..4000).map(|_| read(((random(&mut state) << 31) | random(&mut state)) % pages, 1)).collect();
    let (time, done) = run(&mut *disk, 1, &ios);
    assert!(done.iter().all(|one| one.outcome == Outcome::Done));
    let each = time.as_millis_f64() / 4000.0;
    let expected = Profile::builtin("barracuda-500g").unwrap().switch_time().as_millis_f64() + 0.1;
    assert!((each / expected - 1.0).abs() < 0.02, "{each} ms, {expected} ms");
}
