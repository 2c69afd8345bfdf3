//! Whole walks over large trees in virtual time: device time and requests with the engine and without it.

#![expect(clippy::print_stderr, reason = "ratios and gains are printed")]

mod common;

use common::{Act, Layout, Reading, Tree, Work, World, walk};
use foreseek_device::Profile;
use foreseek_units::{Bytes, Nanos};
use foreseek_walks::Settings;
use std::sync::Arc;

struct Result {
    stock: Work,
    own: Work,
    fetches: Work,
    optimum: Nanos,
    batches: usize,
}

impl Result {
    fn gain(&self) -> f64 {
        self.stock.time.get() as f64 / (self.own.time + self.fetches.time).get() as f64
    }
}

fn run(name: &str, tree: &Tree, acts: &[Act], settings: Settings) -> Result {
    let costs = Arc::new(Profile::builtin("barracuda-500g").expect("built in"));
    let mut stock = World::new(costs.clone(), tree.clone(), None);
    let mut with_engine = World::new(costs, tree.clone(), Some(settings));
    for world in [&mut stock, &mut with_engine] {
        acts.iter().for_each(|act| world.act(*act));
    }
    assert!(with_engine.most_held <= settings.budget);
    let result = Result {
        stock: stock.own,
        own: with_engine.own,
        fetches: with_engine.fetches,
        optimum: stock.optimum(),
        batches: with_engine.batches.len(),
    };
    let status = with_engine.engine.as_ref().expect("an engine").status();
    // As benches/results/walks has them.
    eprintln!(
        "{{\"walk\": \"{name}\", \"files\": {}, \"stock_s\": {:.3}, \"stock_requests\": {}, \"own_s\": {:.3}, \
         \"fetches_s\": {:.3}, \"optimum_s\": {:.3}, \"gain\": {:.3}}}",
        tree.files(),
        result.stock.time.as_secs_f64(),
        result.stock.requests,
        result.own.time.as_secs_f64(),
        result.fetches.time.as_secs_f64(),
        result.optimum.as_secs_f64(),
        result.gain(),
    );
    eprintln!(
        "{} files: stock {} ({} requests), own {} ({}), fetches {} ({}) in {} batches {:?}, optimum {}; gain {:.1}, {:.2} optima\n{:?}",
        tree.files(),
        result.stock.time,
        result.stock.requests,
        result.own.time,
        result.own.requests,
        result.fetches.time,
        result.fetches.requests,
        result.batches,
        with_engine.batches,
        result.optimum,
        result.gain(),
        (result.own.time + result.fetches.time).get() as f64 / result.optimum.get() as f64,
        status
    );
    // Golden: about 2.5 on either layout. The least possible value is 1.
    let done = (result.own.time + result.fetches.time).get();
    assert!(done * 10 <= result.optimum.get() * 26, "{done} ns, optimum {}", result.optimum);
    assert!(result.own.requests * 20 <= result.stock.requests, "{} requests of its own", result.own.requests);
    result
}

fn large() -> Settings {
    Settings { budget: Bytes::gib(1), ..Settings::default() }
}

#[test]
fn a_fresh_tree_of_30_000_files_in_hash_order() {
    let tree = Tree::new(30_000, Layout::Fresh, 1);
    let result = run("whole fresh", &tree, &walk(&tree, Reading::Listing, false), large());
    assert!(result.gain() > 10.0, "{}", result.gain());
}

#[test]
fn an_aged_tree_of_30_000_files() {
    let tree = Tree::new(30_000, Layout::Aged(10), 2);
    let result = run("whole aged", &tree, &walk(&tree, Reading::Listing, false), large());
    assert!(result.gain() > 5.0, "{}", result.gain());
}
