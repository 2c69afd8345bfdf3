//! Walks over directories of a dozen files in groups far apart, whose blocks have no known address, as on xfs.

#![expect(clippy::print_stderr, reason = "ratios and gains are printed")]

mod common;

use common::{Act, Layout, Reading, Tree, World, walk};
use foreseek_device::Profile;
use foreseek_units::Bytes;
use foreseek_walks::Settings;
use std::sync::Arc;

/// Stock's device time over that with an engine.
fn gain(layout: Layout, files: usize) -> f64 {
    let costs = Arc::new(Profile::builtin("barracuda-500g").expect("built in"));
    let tree = Tree::new(files, layout, 1);
    let acts: Vec<Act> = walk(&tree, Reading::Listing, false);
    let settings = Settings { budget: Bytes::gib(1), ..Settings::default() };
    let mut stock = World::new(costs.clone(), tree.clone(), None);
    let mut with_engine = World::new(costs, tree, Some(settings));
    for world in [&mut stock, &mut with_engine] {
        (world.table_blocks, world.blind, world.tells) = (4, true, true);
        acts.iter().for_each(|act| world.act(*act));
    }
    let gain = stock.own.time.get() as f64 / (with_engine.own.time + with_engine.fetches.time).get() as f64;
    eprintln!(
        "{layout:?}: stock {} ({} requests), own {} ({}), fetches {} ({}) in batches {:?}, optimum {}; gain {gain:.2}",
        stock.own.time,
        stock.own.requests,
        with_engine.own.time,
        with_engine.own.requests,
        with_engine.fetches.time,
        with_engine.fetches.requests,
        with_engine.batches,
        stock.optimum(),
    );
    gain
}

#[test]
fn small_directories_in_groups_far_apart_gain() {
    let [fresh, mixed, scattered] =
        [Layout::Groups, Layout::Mixed, Layout::Scattered].map(|layout| gain(layout, 2500));
    // Where a program reads in the order of the disk there is little to gain.
    assert!(fresh > 1.0, "{fresh}");
    assert!(mixed > 5.0, "{mixed}");
    assert!(scattered > 2.0, "{scattered}");
}
