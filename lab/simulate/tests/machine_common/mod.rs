//! A machine for tests, with the simplest possible prefetcher.

use foreseek_device::{Build, Profile};
use foreseek_readahead::stream::{Ahead, Found, Opened, Prefetcher, Served, Touch, View};
use foreseek_seam::StreamId;
use foreseek_simulate::block::{self, BlockLayer, scheduler};
use foreseek_simulate::machine::reclaim::LinuxLists;
use foreseek_simulate::machine::{Machine, Parts, Period, Report, Settings};
use foreseek_simulate::program::FileNumber;
use foreseek_simulate::workload::{self, Layout, LayoutSettings, Parameters};
use foreseek_units::{Bytes, Instant, Nanos, PageIndex, Pages, Span};

/// Reads this many pages from each missing one on.
pub(crate) struct Window(pub(crate) u64);

impl Prefetcher for Window {
    fn opened(&mut self, _now: Instant, _opened: Opened) {}

    fn closed(&mut self, _now: Instant, _stream: StreamId) {}

    fn touch(&mut self, _now: Instant, touch: Touch, _view: &dyn View, out: &mut Vec<Ahead>) {
        let pages = match touch.found {
            Found::Hit | Found::InFlight => return,
            Found::Miss => self.0,
            Found::Thrashed => 1,
        };
        let range = Span::at(PageIndex(touch.page.get()), Pages(pages));
        out.push(Ahead { range, marker: None, demand: true });
    }

    fn served(&mut self, _now: Instant, _served: Served) {}
}

/// What differs between the tests.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) workload: &'static str,
    pub(crate) concurrency: u32,
    pub(crate) memory: Bytes,
    pub(crate) warm_up: Nanos,
    pub(crate) duration: Nanos,
    pub(crate) seed: u64,
}

impl Setup {
    pub(crate) fn new(workload: &'static str) -> Self {
        Self {
            workload,
            concurrency: 1,
            memory: Bytes::mib(512),
            warm_up: Nanos::from_secs(5),
            duration: Nanos::from_secs(30),
            seed: 1,
        }
    }
}

pub(crate) fn run(setup: &Setup, prefetcher: impl Prefetcher + 'static) -> Report {
    let workload = workload::by_name(setup.workload, &Parameters::default()).expect("a workload");
    let profile = Profile::builtin("ibm-36g-51").expect("a profile");
    let device = profile.build(&Build { seed: setup.seed, ..Build::default() }).expect("a device");
    let files = workload.files();
    let layout = Layout::place(&files, device.capacity(), &LayoutSettings::default()).expect("room");
    let extents = (0..files.len()).map(|file| layout.extents(FileNumber(file as u32)).to_vec()).collect();
    let scheduler = scheduler::by_name("noop").expect("a scheduler");
    let machine = Machine::new(Parts {
        settings: Settings::xeons(setup.memory),
        block: BlockLayer::new(block::Settings::LINUX_2_6_3, scheduler, device),
        prefetcher: Box::new(prefetcher),
        reclaim: Box::new(LinuxLists::linux_2_6(&Settings::xeons(setup.memory).memory)),
        workload,
        extents,
        concurrency: setup.concurrency,
        seed: setup.seed,
    });
    let period = Period { warm_up: setup.warm_up, duration: setup.duration };
    let run = machine.and_then(|machine| machine.run(period, &mut |_| {}));
    run.unwrap_or_else(|error| panic!("{error}"))
}
