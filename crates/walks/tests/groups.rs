//! Walks over directories of a dozen files in groups far apart, whose blocks have no known address, as on xfs.

#![expect(clippy::print_stderr, reason = "ratios and gains are printed")]

mod common;

use common::{Act, Layout, Reading, Tree, World, walk};
use foreseek_device::Profile;
use foreseek_units::{Bytes, Pages};
use foreseek_walks::{InodeReads, Settings};
use std::sync::Arc;

/// A cluster of xfs.
const CLUSTER: InodeReads = InodeReads::alone(Pages(4));
const SEEDS: u64 = 16;

/// Stock's device time over that with an engine, for a program that opens all files or looks all of them up.
fn gain(layout: Layout, files: usize, seed: u64, opens: bool, inodes: InodeReads) -> f64 {
    let costs = Arc::new(Profile::builtin("barracuda-500g").expect("built in"));
    let tree = Tree::new(files, layout, seed);
    let mut acts: Vec<Act> = walk(&tree, Reading::Listing, false);
    for act in acts.iter_mut().filter(|_| !opens) {
        if let Act::File(at, nth) = *act {
            *act = Act::Look(at, nth);
        }
    }
    let settings = Settings { budget: Bytes::gib(1), ..Settings::default() };
    let mut stock = World::new(costs.clone(), tree.clone(), None);
    let mut with_engine = World::new(costs, tree, Some(settings));
    for world in [&mut stock, &mut with_engine] {
        (world.inodes, world.blind, world.tells) = (inodes, true, true);
        acts.iter().for_each(|act| world.act(*act));
    }
    let gain = stock.own.time.get() as f64 / (with_engine.own.time + with_engine.fetches.time).get() as f64;
    eprintln!(
        "{layout:?}, opens {opens}: stock {} ({} requests), own {} ({}), fetches {} ({}) in batches {:?}, optimum {}; gain {gain:.2}",
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
        [Layout::Groups, Layout::Mixed, Layout::Scattered].map(|layout| gain(layout, 2500, 1, true, CLUSTER));
    // There a program reads in the order of the disk, other than from group to group.
    assert!(fresh > 1.1, "{fresh}");
    assert!(mixed > 5.0, "{mixed}");
    assert!(scattered > 2.0, "{scattered}");
}

/// Programs that only look inodes up, in the mean of some trees.
#[test]
fn look_ups_of_clusters_gain() {
    for layout in [Layout::Groups, Layout::Mixed, Layout::Scattered] {
        let gains = (1..=SEEDS).map(|seed| gain(layout, 2500, seed, false, CLUSTER));
        let mean = gains.sum::<f64>() / SEEDS as f64;
        assert!(mean > 1.1, "{layout:?}: {mean}");
    }
    // The bound allows four passes over all clusters, which is less than the program's own reads.
    let large = gain(Layout::Mixed, 20_000, 1, false, CLUSTER);
    assert!(large > 1.05, "{large}");
}
