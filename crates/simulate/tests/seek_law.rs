//! The law of seek distances (EuroSys'07 equation 5) against the choice that the C-SCAN scheduler
//! makes: it holds for requests that are drawn afresh, and not for a closed loop.

use foreseek_device::Op;
use foreseek_prefetch::competitive::seek_law;
use foreseek_prefetch::engine::Who;
use foreseek_simulate::block::{Request, RequestId, Scheduler, scheduler};
use foreseek_units::{Instant, Lba, SectorSpan, Sectors};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The stretch over which requests lie, in sectors: large against a request.
const STRETCH: u64 = 1 << 40;
/// How many choices are looked at: enough to tell n from n + n / 4 requests.
const CHOICES: usize = 3000;

fn request(id: u32, at: u64) -> Request {
    let range = SectorSpan::at(Lba(at), Sectors(1));
    let (op, who) = (Op::Read, Who(1));
    Request { id: RequestId(id), op, range, who, synchronous: true, at: Instant::ZERO }
}

/// How far the head goes from `from` to `to`, one way round, as a share of the stretch.
fn distance(from: u64, to: u64) -> f64 {
    ((to + STRETCH - from) % STRETCH) as f64 / STRETCH as f64
}

fn cscan() -> Box<dyn Scheduler> {
    scheduler::by_name("c-scan").expect("C-SCAN is known")
}

/// `n` requests drawn anew for each choice, the head anywhere.
fn fresh(n: u32, random: &mut Pcg64Mcg) -> Vec<f64> {
    let mut choice = || {
        let mut scheduler = cscan();
        let head = random.random_range(0..STRETCH);
        scheduler.add(Instant::ZERO, request(0, head));
        scheduler.dispatch(Instant::ZERO).expect("the only request");
        (1..=n).for_each(|id| scheduler.add(Instant::ZERO, request(id, random.random_range(0..STRETCH))));
        let chosen = scheduler.dispatch(Instant::ZERO).expect("one of them");
        distance(head, chosen.range.start.get())
    };
    (0..CHOICES).map(|_| choice()).collect()
}

/// `n` handlers, each with a new request as soon as its last one was chosen.
fn closed(n: u32, random: &mut Pcg64Mcg) -> Vec<f64> {
    let mut scheduler = cscan();
    (0..n).for_each(|id| scheduler.add(Instant::ZERO, request(id, random.random_range(0..STRETCH))));
    let mut head = 0;
    let mut choice = |_| {
        let chosen = scheduler.dispatch(Instant::ZERO).expect("there are always n");
        let far = distance(head, chosen.range.start.get());
        head = chosen.range.start.get();
        scheduler.add(Instant::ZERO, request(chosen.id.0, random.random_range(0..STRETCH)));
        far
    };
    let distances: Vec<f64> = (0..CHOICES + 500).map(&mut choice).collect();
    distances[500..].to_vec()
}

#[test]
fn fresh_requests_follow_the_law_at_one_in_a_hundred() {
    let mut random = Pcg64Mcg::seed_from_u64(2007);
    for n in [1, 2, 4, 16, 64] {
        let distances = fresh(n, &mut random);
        let fit = seek_law::fit(&distances, n);
        assert!(fit.holds(0.01), "{n} requests: {fit:?}");
        assert!(!seek_law::fit(&distances, n + 1 + n / 4).holds(0.01), "{n} requests: another law fits too");
    }
}

#[test]
fn a_closed_loop_moves_half_as_far_and_not_by_the_law() {
    let mut random = Pcg64Mcg::seed_from_u64(2007);
    for n in [16u32, 64] {
        let distances = closed(n, &mut random);
        let mean = distances.iter().sum::<f64>() / distances.len() as f64;
        let expected = 1.0 / (2.0 * f64::from(n));
        assert!((mean / expected - 1.0).abs() < 0.1, "{n} handlers: {mean} of {expected}");
        assert!(!seek_law::fit(&distances, n).holds(0.01), "{n} handlers");
    }
}
