//! What holds for every policy in every machine, whatever its readers, memory and queue do. The
//! contract of [`Prefetcher`](foreseek_readahead::stream::Prefetcher) itself is checked at each touch by [`World`].

use crate::testing::{Window, World, announced as reading_announced};
use crate::{Congestion, Kernel, Settings, names};
use foreseek_readahead::stream::{Generation, Served};
use foreseek_units::{Lba, Pages, SectorSpan, Sectors};
use proptest::prelude::*;

/// Pages of the file that is read.
const LENGTH: u64 = 600;

#[derive(Clone, Debug)]
enum Op {
    Call(u64, u64),
    /// Goes on where the last call ended.
    GoOn(u64),
    Fault(u64),
    Evict(u64, u64),
    Cached(u64, u64),
    Congested(bool),
    Bound(Option<u64>),
    Served(u64, u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0..LENGTH + 50, 1..70u64).prop_map(|(page, pages)| Op::Call(page, pages)),
        12 => (1..40u64).prop_map(Op::GoOn),
        2 => (0..LENGTH).prop_map(Op::Fault),
        2 => (0..LENGTH, 1..80u64).prop_map(|(page, pages)| Op::Evict(page, pages)),
        1 => (0..LENGTH, 1..80u64).prop_map(|(page, pages)| Op::Cached(page, pages)),
        2 => any::<bool>().prop_map(Op::Congested),
        1 => prop_oneof![Just(None), (0..100u64).prop_map(Some)].prop_map(Op::Bound),
        2 => (any::<u64>(), 0..1u64 << 27).prop_map(|(from, to)| Op::Served(from, to)),
    ];
    proptest::collection::vec(op, 0..60)
}

fn settings() -> impl Strategy<Value = Settings> {
    let kernels = Kernel::ALL.into_iter().map(|kernel| kernel.under(Congestion::default()));
    let generation = proptest::sample::select(kernels.chain(Generation::ALL).collect::<Vec<_>>());
    let congestion = proptest::sample::select(Congestion::ALL.to_vec());
    (generation, 1..80u64, 1..80u64, 1..300u64, congestion).prop_map(
        |(generation, window, slow_start, aggressive, congestion)| {
            let mut settings = Settings { congestion, ..Settings::default() };
            settings.stream.generation = generation;
            settings.stream.window = Pages(window);
            settings.stream.slow_start = Pages(slow_start);
            settings.stream.aggressive = Pages(aggressive);
            settings
        },
    )
}

fn run(world: &mut World, ops: &[Op]) -> Vec<Window> {
    let mut at = 0;
    let mut windows = Vec::new();
    for op in ops {
        match *op {
            Op::Call(page, pages) => {
                windows.extend(world.call(page, pages));
                at = page + pages;
            }
            Op::GoOn(pages) => {
                windows.extend(world.call(at, pages));
                at += pages;
            }
            Op::Fault(page) => windows.extend(world.faults([page])),
            Op::Evict(page, pages) => world.evict(page..page + pages),
            Op::Cached(page, pages) => world.memory.cached.extend(page..(page + pages).min(LENGTH)),
            Op::Congested(congested) => world.memory.congested = congested,
            Op::Bound(bound) => world.memory.bound = bound.map(Pages),
            Op::Served(from, to) => {
                world.served(Served { from: Lba(from), range: SectorSpan::at(Lba(to), Sectors(8)) });
            }
        }
    }
    windows
}

proptest! {
    // Each case runs every policy.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_policy_keeps_the_contract(ops in ops(), settings in settings(), announced in 1..LENGTH) {
        for policy in names() {
            let first = run(&mut reading_announced(policy, &settings, LENGTH, Some(announced)), &ops);
            let again = run(&mut reading_announced(policy, &settings, LENGTH, Some(announced)), &ops);
            prop_assert_eq!(first, again, "{}: the same story twice", policy);
        }
    }

    /// Where nothing stays in memory only the demanded page is requested again. A sequential reader of an idle
    /// disk with enough memory gets every page once.
    #[test]
    fn a_sequential_reader_gets_every_page_once(settings in settings(), pages in 1..LENGTH, call in 1..40u64) {
        for policy in names() {
            let mut world = reading_announced(policy, &settings, LENGTH, Some(pages));
            let calls = (0..pages.div_ceil(call)).map(|n| (n * call, call.min(pages - n * call)));
            let windows: Vec<Window> = calls.flat_map(|(page, pages)| world.call(page, pages)).collect();
            let mut at = 0;
            for (start, len) in &windows {
                prop_assert_eq!(*start, at, "{}: {:?}", policy, windows);
                at += len;
            }
            prop_assert!(at >= pages && at <= LENGTH);
            if policy == "none" || policy == "oracle" {
                prop_assert_eq!(at, pages, "{} reads no more than is read", policy);
            }
        }
    }

    /// No window is deeper than a policy may read, except for a call that asks for more itself.
    #[test]
    fn no_window_is_deeper_than_the_rule_and_memory_allow(
        ops in ops(), settings in settings(), bound in 1..60u64,
    ) {
        let ops: Vec<Op> = ops.into_iter().filter(|op| !matches!(op, Op::Bound(_) | Op::Fault(_))).collect();
        for policy in names() {
            let mut world = reading_announced(policy, &settings, LENGTH, Some(LENGTH));
            world.memory.bound = Some(Pages(bound));
            let windows = run(&mut world, &ops);
            let longest_call = 70;
            prop_assert!(windows.iter().all(|window| window.1 <= bound.max(longest_call)), "{}", policy);
            let stock = ["linux-2.6.3", "linux-2.6.10"].contains(&policy);
            let most = bound.min(settings.stream.window.get());
            prop_assert!(!stock || windows.iter().all(|window| window.1 <= most), "{}: {:?}", policy, windows);
        }
    }
}
