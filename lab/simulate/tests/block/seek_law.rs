//! The law of seek distances against the real C-SCAN (claim EU-seek-dist).

use foreseek_simulate::block::{Scheduler, scheduler, seek_law};
use foreseek_theory::seek_law::{Fit, fit};
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

fn judge(distances: &[Sectors], n: u32) -> Fit {
    let share = |distance: &Sectors| distance.get() as f64 / CAPACITY.get() as f64;
    fit(&distances.iter().map(share).collect::<Vec<_>>(), n)
}

#[test]
fn the_nearest_of_n_fresh_uniform_requests_follows_the_law() {
    for n in [1, 2, 4, 16, 64, 128] {
        let random = &mut Pcg64Mcg::new(u128::from(n));
        let distances = seek_law::fresh(&c_scan, CAPACITY, n, SAMPLES, random);
        assert_eq!(distances.len(), SAMPLES);
        let fit = judge(&distances, n);
        assert!(fit.holds(0.01), "n = {n}: {fit:?}");
        let ratio = mean(&distances) * f64::from(n + 1) / CAPACITY.get() as f64;
        assert!((ratio - 1.0).abs() < 0.03, "n = {n}: the mean is {ratio} of C/(n+1)");
        // The test can distinguish one n from the next.
        assert!(n > 16 || !judge(&distances, n + 1).holds(0.01), "n = {n}");
    }
}

#[test]
fn in_a_closed_loop_the_law_does_not_hold_and_the_mean_is_half_as_far() {
    for n in [16, 64, 128] {
        let random = &mut Pcg64Mcg::new(7);
        let distances = seek_law::closed_loop(c_scan(), CAPACITY, n, SAMPLES, random);
        assert!(judge(&distances, n).probability < 1e-9);
        let ratio = mean(&distances) * f64::from(2 * n) / CAPACITY.get() as f64;
        assert!((0.95..1.1).contains(&ratio), "n = {n}: the mean is {ratio} of C/2n");
    }
}
