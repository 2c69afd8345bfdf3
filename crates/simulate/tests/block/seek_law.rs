//! The law of seek distances against the real C-SCAN (claim EU-seek-dist).

use foreseek_simulate::block::{Scheduler, scheduler, seek_law};
use foreseek_units::Sectors;
use rand_pcg::Pcg64Mcg;

/// A disk of 36.7 GB, as EuroSys'07's.
const CAPACITY: Sectors = Sectors(71_687_340);
const SAMPLES: usize = 20_000;

fn c_scan() -> Box<dyn Scheduler> {
    scheduler::by_name("c-scan").expect("known")
}

fn mean(distances: &[Sectors]) -> f64 {
    distances.iter().map(|distance| distance.get() as f64).sum::<f64>() / distances.len() as f64
}

#[test]
fn the_nearest_of_n_fresh_uniform_requests_follows_the_law() {
    for n in [1, 2, 4, 16, 64, 128] {
        let random = &mut Pcg64Mcg::new(u128::from(n));
        let distances = seek_law::fresh(&c_scan, CAPACITY, n, SAMPLES, random);
        assert_eq!(distances.len(), SAMPLES);
        let deviation = seek_law::deviation(&distances, CAPACITY, n);
        let critical = seek_law::critical(SAMPLES);
        assert!(deviation <= critical, "n = {n}: {deviation} exceeds {critical}");
        let ratio = mean(&distances) * f64::from(n + 1) / CAPACITY.get() as f64;
        assert!((ratio - 1.0).abs() < 0.03, "n = {n}: the mean is {ratio} of C/(n+1)");
        // The test can tell one n from the next.
        assert!(n > 16 || seek_law::deviation(&distances, CAPACITY, n + 1) > critical, "n = {n}");
    }
}

#[test]
fn in_a_closed_loop_the_law_does_not_hold_and_the_mean_is_half_as_far() {
    for n in [16, 64, 128] {
        let random = &mut Pcg64Mcg::new(7);
        let distances = seek_law::closed_loop(c_scan(), CAPACITY, n, SAMPLES, random);
        assert!(seek_law::deviation(&distances, CAPACITY, n) > 5.0 * seek_law::critical(SAMPLES));
        let ratio = mean(&distances) * f64::from(2 * n) / CAPACITY.get() as f64;
        assert!((0.95..1.1).contains(&ratio), "n = {n}: the mean is {ratio} of C/2n");
    }
}

#[test]
fn the_law_by_itself() {
    let half = CAPACITY / 2;
    assert!((seek_law::at_least(half, CAPACITY, 3) - 0.125).abs() < 1e-12);
    assert!((seek_law::at_least(Sectors::ZERO, CAPACITY, 3) - 1.0).abs() < 1e-12);
    assert_eq!(seek_law::at_least(CAPACITY * 2, CAPACITY, 3), 0.0);
    // One sample at the median deviates by one half from any continuous law.
    assert!((seek_law::deviation(&[half], CAPACITY, 1) - 0.5).abs() < 1e-6);
}
