//! Any sequence of reads, changes, failures and shortages: nothing wrong is served, no read is lost, no frame
//! is used twice.

use crate::world::{World, bytes, settings};
use foreseek_readahead::ServingEngine;
use foreseek_readahead::serving::Settings;
use foreseek_seam::record::Text;
use foreseek_seam::{Event, ProcessId, Recording, Refusal, ServingEvent, replay};
use foreseek_units::Pages;
use proptest::prelude::*;

const STREAMS: u64 = 6;
const OBJECTS: u64 = 3;

#[derive(Clone, Debug)]
enum Op {
    Read {
        stream: u64,
        start: u64,
        bytes: u64,
    },
    /// At the end of the stream's last read.
    GoOn {
        stream: u64,
        pages: u64,
    },
    /// The next read may or may not be a part of this.
    Call {
        stream: u64,
        start: u64,
        pages: u64,
    },
    Complete {
        nth: usize,
        late: bool,
    },
    CompleteAll,
    /// Only this stream continues, this often.
    Alone {
        stream: u64,
        pages: u64,
        reads: u64,
    },
    Break {
        nth: usize,
        after: u64,
    },
    Refuse {
        nth: usize,
        busy: bool,
    },
    Unpin(usize),
    Change {
        object: u64,
        first: u64,
        pages: u64,
    },
    Resize {
        object: u64,
        bytes: u64,
    },
    Budget(u64),
    Close(u64),
    Open {
        stream: u64,
        object: u64,
    },
    Ran(u64),
    Exited(u64),
    Wait(u64),
}

fn ops(memory: u64) -> impl Strategy<Value = Vec<Op>> {
    let start = prop_oneof![0..bytes(2000), (0..2000u64).prop_map(bytes)];
    let length = prop_oneof![1..bytes(40), (1..33u64).prop_map(bytes), bytes(200)..bytes(257)];
    let op = prop_oneof![
        6 => (0..STREAMS, start, length).prop_map(|(stream, start, bytes)| Op::Read { stream, start, bytes }),
        20 => (0..STREAMS, 1..65u64).prop_map(|(stream, pages)| Op::GoOn { stream, pages }),
        2 => (0..STREAMS, 0..2000u64, 0..600u64).prop_map(|(stream, start, pages)| Op::Call { stream, start, pages }),
        16 => (0..20usize, any::<bool>()).prop_map(|(nth, late)| Op::Complete { nth, late }),
        4 => Just(Op::CompleteAll),
        3 => (0..STREAMS, 1..65u64, 2..8u64).prop_map(|(stream, pages, reads)| Op::Alone { stream, pages, reads }),
        2 => (0..20usize, 0..70u64).prop_map(|(nth, after)| Op::Break { nth, after }),
        1 => (0..20usize, any::<bool>()).prop_map(|(nth, busy)| Op::Refuse { nth, busy }),
        10 => (1..9usize).prop_map(Op::Unpin),
        2 => (0..OBJECTS, 0..2000u64, 1..300u64).prop_map(|(object, first, pages)| Op::Change { object, first, pages }),
        1 => (0..OBJECTS, 0..bytes(2500)).prop_map(|(object, bytes)| Op::Resize { object, bytes }),
        1 => (0..memory * 5 / 4).prop_map(Op::Budget),
        1 => (0..STREAMS).prop_map(Op::Close),
        2 => (0..STREAMS, 0..OBJECTS).prop_map(|(stream, object)| Op::Open { stream, object }),
        1 => (0..STREAMS).prop_map(Op::Ran),
        1 => (0..STREAMS).prop_map(Op::Exited),
        2 => (0..5_000_000u64).prop_map(Op::Wait),
    ];
    proptest::collection::vec(op, 1..300)
}

fn apply(world: &mut World, at: &mut [u64], op: &Op) {
    let nth = |world: &World, nth: usize| world.flying.keys().nth(nth % world.flying.len().max(1)).copied();
    match *op {
        Op::Read { stream, start, bytes } => {
            world.read(stream, start, bytes);
            at[stream as usize] = (start + bytes) / foreseek_units::PAGE_SIZE;
        }
        Op::GoOn { stream, pages } => {
            world.read(stream, bytes(at[stream as usize]), bytes(pages));
            at[stream as usize] += pages;
        }
        Op::Call { stream, start, pages } => world.call(stream, start, pages),
        Op::Complete { nth: at, late } => {
            if let Some(id) = nth(world, at) {
                world.complete(id, None, late);
            }
        }
        Op::CompleteAll => world.complete_all(),
        Op::Alone { stream, pages, reads } => {
            world.complete_all();
            for _ in 0..reads {
                world.read(stream, bytes(at[stream as usize]), bytes(pages));
                at[stream as usize] += pages;
                world.complete_first();
            }
        }
        Op::Break { nth: at, after } => {
            if let Some(id) = nth(world, at) {
                let pages = world.flying[&id].pages.len().get();
                world.complete(id, Some(after.min(pages - 1)), false);
            }
        }
        Op::Refuse { nth: at, busy } => {
            if let Some(id) = nth(world, at) {
                world.refuse(id, if busy { Refusal::Busy } else { Refusal::Unsupported });
            }
        }
        Op::Unpin(replies) => (0..replies).for_each(|_| world.unpin_first()),
        Op::Change { object, first, pages } => world.change(object, first, pages),
        Op::Resize { object, bytes } => world.resize(object, bytes),
        Op::Budget(pages) => world.budget(pages),
        Op::Close(stream) => world.close(stream),
        Op::Open { stream, object } => {
            world.open(stream, object);
            at[stream as usize] = 0;
        }
        Op::Ran(pid) => world.send(Event::Serving(ServingEvent::Ran { pid: ProcessId(pid as u32) })),
        Op::Exited(pid) => world.send(Event::Serving(ServingEvent::Exited { pid: ProcessId(pid as u32) })),
        Op::Wait(nanos) => world.pass_time(nanos),
    }
}

/// `taught`: the engine has measured the pace and may pace a single reader.
fn begin(settings: Settings, taught: bool) -> World {
    let mut world = World::new(settings);
    if taught {
        world.create(OBJECTS, bytes(12_000));
        world.teach(STREAMS, OBJECTS);
    }
    for object in 0..OBJECTS {
        world.create(object, bytes(700 * object + 300) + 100 * object);
    }
    (0..STREAMS).for_each(|stream| world.open(stream, stream % OBJECTS));
    world
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let policy = proptest::sample::select(vec!["competitive", "on-demand", "aggressive", "none", "adaptive"]);
    (policy, 1024..3000u64, 1..80u64, 1..40u32, 0..3000u64).prop_map(
        |(policy, memory, fetch, in_flight, history)| Settings {
            policy: policy.to_owned(),
            memory: Pages(memory),
            machine: Pages(2 * memory),
            fetch: Pages(fetch),
            in_flight,
            history: Pages(history),
            ..settings()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn in_any_sequence_every_read_gets_a_right_answer(settings in any_settings(), taught in any::<bool>(), ops in ops(1024)) {
        let mut world = begin(settings, taught);
        let mut at = [0; STREAMS as usize];
        ops.iter().for_each(|op| apply(&mut world, &mut at, op));
        world.finish();
        // A read that waits while its file is closed may need pages that are gone.
        let breaks = |op: &Op| {
            matches!(op, Op::Break { .. } | Op::Refuse { busy: false, .. } | Op::Close(_) | Op::Open { .. })
        };
        let breaks = ops.iter().any(breaks);
        prop_assert!(breaks || world.stats().failed_reads == 0);
    }

    /// The same sequence is run twice, the second time from a recording.
    #[test]
    fn a_recorded_run_gives_the_same_commands(settings in any_settings(), ops in ops(1024)) {
        let text = Text::default();
        let mut world = World::recorded(settings, Some(text.recorder()));
        world.create(OBJECTS, bytes(12_000));
        world.teach(STREAMS, OBJECTS);
        (0..OBJECTS).for_each(|object| world.create(object, bytes(700 * object + 300)));
        (0..STREAMS).for_each(|stream| world.open(stream, stream % OBJECTS));
        let mut at = [0; STREAMS as usize];
        ops.iter().for_each(|op| apply(&mut world, &mut at, op));
        world.finish();
        let text = text.so_far();
        let recording = Recording::<Settings>::open(&text).expect("a recording");
        prop_assert_eq!(recording.settings(), world.driver.engine().settings());
        let mut engine = ServingEngine::new(recording.settings().clone(), &crate::world::costs()).expect("a policy");
        let replayed = replay(&mut engine, &recording);
        prop_assert!(replayed.as_ref().is_ok_and(|replayed| replayed.commands as u64 >= world.stats().reads), "{replayed:?}");
        prop_assert_eq!(engine.stats(), world.stats());
    }
}
