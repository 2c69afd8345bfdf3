//! The bounds of the access-list engine under any events: a naive page cache with random lists, reads,
//! evictions, refusals and changes.

mod common;

use common::{FILE, STREAM, World, fetched, forgotten, pages, settings};
use foreseek_hints::{AccessListEngine, Mode, Settings};
use foreseek_seam::{
    Access, Command, Commands, Engine, Epoch, Event, Extent, FetchId, FetchOutcome, HintCommand, HintEvent,
    HintMode, ObjectId, ProcessId, QueryId, Refusal, RequestId, StreamId,
};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, Lba, PageIndex, Pages, Span};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

#[derive(Clone, Debug)]
enum Op {
    Hint(HintMode, Vec<u64>, bool),
    Read(u64, u64),
    /// Reads the entry this much later on the list.
    Next(usize),
    Evict(u64),
    EvictAll,
    Budget(u64),
    Changed(u64, u64),
    Refuse(Option<Refusal>),
    Clamp(u64),
    Reopen(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let mode = prop_oneof![Just(HintMode::Set), Just(HintMode::Append), Just(HintMode::SetFromMark)];
    let list = proptest::collection::vec(0..400u64, 0..300);
    let op = prop_oneof![
        2 => (mode, list, any::<bool>()).prop_map(|(mode, list, done)| Op::Hint(mode, list, done)),
        4 => (0..400u64, 0..40_000u64).prop_map(|(page, bytes)| Op::Read(page, bytes)),
        20 => (0..3usize).prop_map(Op::Next),
        3 => (0..400u64).prop_map(Op::Evict),
        1 => Just(Op::EvictAll),
        1 => (0..400u64).prop_map(Op::Budget),
        1 => (0..400u64, 1..20_000u64).prop_map(|(page, bytes)| Op::Changed(page, bytes)),
        1 => prop_oneof![Just(None), Just(Some(Refusal::Busy)), Just(Some(Refusal::Gone))].prop_map(Op::Refuse),
        1 => prop_oneof![Just(u64::MAX), 1..4u64].prop_map(Op::Clamp),
        1 => (0..450u64).prop_map(Op::Reopen),
    ];
    proptest::collection::vec(op, 0..150)
}

/// Checks the commands of one read, given all pages that were ever listed.
type Check<'a> = dyn FnMut(&World, &[Command], &BTreeSet<u64>) + 'a;

fn run(world: &mut World, ops: &[Op], check: &mut Check<'_>) {
    // The announced reads that are still to come; only to choose reads from.
    let mut list: VecDeque<u64> = VecDeque::new();
    let mut ever: BTreeSet<u64> = BTreeSet::new();
    let mut epoch = 0;
    for op in ops {
        match op {
            Op::Hint(mode, pages, done) => {
                if *mode != HintMode::Append {
                    list.clear();
                }
                list.extend(pages);
                ever.extend(pages);
                world.hint(*mode, pages, *done);
            }
            Op::Read(page, bytes) => {
                let commands = world.read(Span::at(PageIndex(*page).offset(), Bytes(*bytes)));
                check(world, &commands, &ever);
            }
            Op::Next(skip) => {
                list.drain(..list.len().min(*skip));
                if let Some(page) = list.pop_front() {
                    let commands = world.read_page(page);
                    check(world, &commands, &ever);
                }
            }
            Op::Evict(page) => drop(world.cached.remove(page)),
            Op::EvictAll => world.cached.clear(),
            Op::Budget(pages) => drop(world.notify(Event::Budget { pages: Pages(*pages) })),
            Op::Changed(page, bytes) => {
                epoch += 1;
                let range = Span::at(PageIndex(*page).offset(), Bytes(*bytes));
                world.notify(Event::Changed { object: FILE, range, epoch: Epoch(epoch) });
            }
            Op::Refuse(why) => world.refuse = *why,
            Op::Clamp(pages) => world.clamp = Pages(*pages),
            Op::Reopen(pages) => {
                let length = Pages(*pages).bytes();
                let (stream, pid) = (STREAM, ProcessId(1));
                world.notify(Event::Closed { stream });
                world.notify(Event::Opened { stream, object: FILE, length, pid });
            }
        }
    }
}

proptest! {
    #[test]
    fn the_engine_keeps_its_bounds_under_any_events(ops in ops(), infill in 0..20u64, ramp in any::<bool>()) {
        let settings = Settings {
            infill: Pages(infill),
            mode: Mode::Blocking,
            first_round: ramp.then_some(Pages(10)),
            ..Settings::default()
        };
        let mut world = World::new(settings, 400, 200);
        run(&mut world, &ops, &mut |world, commands, listed| {
            let spans = fetched(commands);
            let all = pages(&spans);
            let unique: BTreeSet<u64> = all.iter().copied().collect();
            assert_eq!(unique.len(), all.len(), "a page is fetched once a round");
            assert!(unique.len() as u64 <= world.engine.stats().buffer.0, "a round is at most a buffer");
            let last_forget = commands.iter().rposition(|command| matches!(command, Command::Hint(HintCommand::Forget { .. })));
            let first_fetch = commands.iter().position(|command| matches!(command, Command::Fetch { .. }));
            if let (Some(last), Some(first)) = (last_forget, first_fetch) {
                assert!(last < first, "releases come before fetches");
            }
            assert!(forgotten(commands).iter().all(|page| !unique.contains(page)), "a needed page is released");
            for span in spans {
                assert!(span.len() <= Pages(320));
                let wanted: Vec<u64> = span.iter().map(|page| page.0).filter(|page| listed.contains(page)).collect();
                assert_eq!(wanted.first(), Some(&span.start.0), "a run begins and ends with a listed page");
                assert_eq!(wanted.last(), Some(&(span.end.0 - 1)));
                assert!(wanted.windows(2).all(|pair| pair[1] - pair[0] - 1 <= infill), "a gap is too wide");
            }
        });
    }

    #[test]
    fn a_pipelined_engine_keeps_its_bounds(ops in ops(), ramp in any::<bool>()) {
        let settings = Settings {
            infill: Pages::ZERO,
            mode: Mode::Pipelined,
            first_round: ramp.then_some(Pages(10)),
            ..Settings::default()
        };
        let mut world = World::new(settings, 400, 180);
        run(&mut world, &ops, &mut |world, commands, listed| {
            let spans = fetched(commands);
            let all = pages(&spans);
            let unique: BTreeSet<u64> = all.iter().copied().collect();
            assert_eq!(unique.len(), all.len(), "a page is fetched once at a read");
            assert!(unique.iter().all(|page| listed.contains(page)), "a page that is not listed is fetched");
            assert!(unique.len() as u64 <= world.engine.stats().buffer.0, "more than a buffer at a read");
            let mut fetched = BTreeSet::new();
            for command in commands {
                match command {
                    Command::Fetch { range, .. } => fetched.extend(range.iter()),
                    Command::Hint(HintCommand::Forget { range, .. }) => {
                        assert!(!range.iter().any(|page| fetched.contains(&page)), "fetched and released at once");
                    }
                    _ => {}
                }
            }
        });
    }

    #[test]
    fn two_engines_with_the_same_events_give_the_same_commands(ops in ops()) {
        for mode in [Mode::Blocking, Mode::Pipelined] {
            let settings = Settings { mode, ..settings() };
            let mut first = World::new(settings.clone(), 400, 200);
            run(&mut first, &ops, &mut |_, _, _| {});
            let mut second = World::new(settings, 400, 200);
            run(&mut second, &ops, &mut |_, _, _| {});
            prop_assert_eq!(first.commands, second.commands);
        }
    }

    /// Events with any numbers in any order, as in a damaged recording.
    #[test]
    fn no_event_makes_it_panic(
        events in proptest::collection::vec((0..13u8, any::<[u64; 4]>(), 0..4u64, any::<bool>()), 0..60),
    ) {
        let mut engine = AccessListEngine::new(Settings::default());
        let mut out = Commands::new();
        for (now, (kind, [a, b, c, d], small, flag)) in events.into_iter().enumerate() {
            let object = ObjectId(small);
            let stream = StreamId(small);
            let range: ByteSpan = Span::new(ByteOffset(a), ByteOffset(if flag { b } else { a.saturating_add(c % 70_000) }));
            let small_range: ByteSpan = Span::at(ByteOffset(a % 100_000), Bytes(b % 100_000));
            let range = if d % 2 == 0 { small_range } else { range };
            let length = Bytes(if flag { b } else { b % 1_000_000 });
            let accesses: Vec<Access> = (0..c % 50)
                .map(|n| Access { object, page: PageIndex(if flag { a.wrapping_add(n) } else { a % 100 + n }), mark: d % 3 == n % 3 })
                .collect();
            let extents = [
                Extent { page: PageIndex(a), pages: Pages(b), lba: Lba(c) },
                Extent { page: PageIndex(a % 100), pages: Pages(b % 100), lba: Lba(c % 10_000) },
            ];
            let runs = [Span::new(PageIndex(a), PageIndex(b)), Span::new(PageIndex(b % 9), PageIndex(c % 9))];
            let event = match kind {
                0 => Event::Opened { stream, object, length, pid: ProcessId(1) },
                1 => Event::Placed { object, extents: &extents[usize::from(flag)..] },
                2 => Event::Hint(HintEvent::Watched { object, range }),
                3 | 4 => Event::Read { request: RequestId(small), stream, range: small_range, pid: None },
                5 => Event::Hint(HintEvent::Hinted { mode: HintMode::Append, accesses: &accesses, done: flag }),
                6 => Event::Hint(HintEvent::Answered { request: RequestId(small) }),
                7 => Event::Hint(HintEvent::Resident { query: QueryId(small), runs: flag.then_some(&runs) }),
                8 => Event::Done {
                    fetch: FetchId(small),
                    epoch: Epoch(0),
                    got: Pages(a),
                    outcome: FetchOutcome::Issued,
                    in_flight: 0,
                },
                9 => Event::Budget { pages: Pages(if flag { a } else { a % 1000 }) },
                10 => Event::Changed { object, range, epoch: Epoch(b as u32) },
                11 => Event::Hint(HintEvent::Unwatched { object, range }),
                _ => Event::Tick,
            };
            engine.on(Instant(now as u64), event, &mut out);
            out.drain();
        }
    }
}
