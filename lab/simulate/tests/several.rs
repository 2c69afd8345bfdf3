//! Several processes with libprefetch in one machine, beside neighbours, under different schedulers.

mod common;

use common::{List, page, random_pages};
use foreseek_device::{Build, Profile};
use foreseek_hints::{CallbackRequest, Pump, Settings};
use foreseek_seam::{Access, Extent, HintMode, ObjectId};
use foreseek_simulate::block::{self, BlockLayer, scheduler};
use foreseek_simulate::directed::{Hint, Hinted};
use foreseek_simulate::machine::{Machine, Parts, Period, Report};
use foreseek_simulate::program::{Drive, FileNumber, FileSpec, Handle, Program, Step, Workload};
use foreseek_units::{Bytes, Lba, Nanos, PageIndex, Pages, Span};
use rand_core::Rng;

const FILE: Bytes = Bytes::mib(64);
const READS: usize = 4000;
const HANDLE: Handle = Handle(0);

/// A number of readers of random pages, each of a file of its own, and one that writes and reads in sequence.
struct Readers {
    readers: u32,
    prefetch: bool,
}

impl Workload for Readers {
    fn files(&self) -> Vec<FileSpec> {
        (0..=self.readers).map(|_| FileSpec { length: FILE, directory: 0 }).collect()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.readers + 1)
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let file = FileNumber(number as u32);
        let mut steps = vec![Step::Open { handle: HANDLE, file, announced: None }];
        if number == u64::from(self.readers) {
            for at in (0..FILE.pages_floor().get()).step_by(8) {
                let range = Span::at(PageIndex(at).offset(), Pages(8).bytes());
                steps.extend([Step::Read { handle: HANDLE, range }, Step::Write { handle: HANDLE, range }]);
            }
            return Box::new(List::bare(steps));
        }
        let pages = random_pages(number + 1, READS, FILE);
        steps.extend(pages.iter().map(|at| Step::Read { handle: HANDLE, range: page(*at) }));
        if !self.prefetch {
            return Box::new(List::bare(steps));
        }
        let object = ObjectId(u64::from(file.0));
        let list: Vec<Access> = pages.iter().map(|at| Access { object, page: *at, mark: false }).collect();
        let tells = move |hint: &mut Hint<'_>, reads: usize, _: CallbackRequest| {
            hint(HintMode::Set, &list[reads.min(list.len())..], true);
        };
        let lengths = vec![FILE; self.readers as usize + 1];
        Box::new(Hinted::new(List::bare(steps), tells, Pump::new(Settings::default()), lengths))
    }
}

fn run(readers: u32, prefetch: bool, scheduler: &str) -> Report {
    let profile = Profile::builtin("barracuda-500g").expect("built in");
    let build = Build { size: Some(Bytes::gib(8)), ..Build::default() };
    let extents = (0..=u64::from(readers))
        .map(|file| {
            let lba = Lba(2048 + file * Bytes::gib(1).sectors_floor().get());
            vec![Extent { page: PageIndex::ZERO, pages: FILE.pages_floor(), lba }]
        })
        .collect();
    let workload = Box::new(Readers { readers, prefetch });
    let mut parts =
        Parts::stock(Bytes::mib(96).pages_floor(), profile.build(&build).expect("fits"), workload, extents);
    let scheduler = scheduler::by_name(scheduler).expect("a scheduler");
    let device = profile.build(&build).expect("fits");
    parts.block = BlockLayer::new(block::Settings::LINUX_2_6_18, scheduler, device);
    let period = Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(100_000) };
    Machine::new(parts).expect("a machine").run(period, &mut |_| {}).expect("it runs")
}

#[test]
fn each_of_several_readers_gains_beside_a_neighbour_that_writes() {
    // Without a scheduler the device gets the requests of the three in turn, whatever order each has.
    for (scheduler, least) in [("noop", 1.5), ("deadline", 10.0), ("anticipatory", 10.0), ("cfq", 4.0)] {
        let (stock, prefetched) = (run(3, false, scheduler), run(3, true, scheduler));
        for reader in 0..3 {
            let (before, with) = (stock.jobs[reader].1, prefetched.jobs[reader].1);
            let gain = before.as_secs_f64() / with.as_secs_f64();
            assert!(gain > least, "{scheduler}, reader {reader}: {before} -> {with}");
        }
    }
}

#[test]
fn a_run_repeats_to_the_last_bit() {
    assert_eq!(run(2, true, "cfq"), run(2, true, "cfq"));
}
