//! The adversary that searches, for as long as a test may take; `foreseek lab reproduce --adaptive --only
//! adversary` searches longer.

use foreseek_readahead::stream::{Settings, by_name};
use foreseek_theory::search::{FoundWorst, worst};
use foreseek_units::DeviceCosts;
use std::sync::Arc;

fn search(policy: &str, rho: f64, seed: u64, runs: usize) -> FoundWorst {
    let settings = Settings { rho, ..Settings::default() };
    let make = |costs: &Arc<dyn DeviceCosts>| by_name(policy, &settings, costs).ok();
    worst(&make, &settings, seed, runs)
}

#[test]
fn the_adversary_gets_no_more_than_rho() {
    for (rho, seed) in [(2.0, 1), (2.5, 2), (3.0, 3)] {
        let found = search("adaptive", rho, seed, 150);
        assert!(found.costly.but_a_page <= rho + 1e-6, "{:?} of {rho} with {}", found.costly, found.case);
        // It does find the ratio that every rule can be made to pay.
        assert!(found.costly.but_a_page >= 1.9 && found.runs == 150, "{found:?}");
    }
}

/// A policy without a bound pays more than three times the optimum.
#[test]
fn the_adversary_finds_what_others_pay() {
    let found = search("on-demand", 3.0, 1, 100);
    assert!(found.costly.ratio > 5.0, "{:?} with {}", found.costly, found.case);
}

#[test]
fn the_same_seed_finds_the_same() {
    assert_eq!(search("adaptive", 3.0, 7, 40), search("adaptive", 3.0, 7, 40));
}
