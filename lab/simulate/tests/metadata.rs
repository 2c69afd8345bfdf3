//! Inodes, directories and indirect blocks are read before the data that they lead to.

mod common;

use common::{HANDLE, List, page};
use foreseek_device::{Build, Profile};
use foreseek_simulate::machine::{Machine, Parts, Period, Report};
use foreseek_simulate::program::{Drive, FileNumber, FileSpec, Program, Step, Workload};
use foreseek_simulate::workload::{Aging, FileSystem, Layout, LayoutSettings};
use foreseek_units::{Bytes, Nanos, PageIndex, Pages};
use rand_core::Rng;
use std::collections::BTreeSet;

/// 600 small files in three directories and a large one.
fn files() -> Vec<FileSpec> {
    let small = (0..600).map(|n| FileSpec { length: Bytes::kib(8), directory: n / 200 });
    small.chain([FileSpec { length: Bytes::mib(20), directory: 3 }]).collect()
}

const LARGE: FileNumber = FileNumber(600);

struct Steps(Option<Vec<Step>>);

impl Workload for Steps {
    fn files(&self) -> Vec<FileSpec> {
        files()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(1)
    }

    fn program(&mut self, _number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        Box::new(List::bare(self.0.take().expect("one job")))
    }
}

fn layout(settings: LayoutSettings) -> Layout {
    Layout::place(&files(), Bytes::gib(8).sectors_floor(), &settings).expect("room")
}

fn on(system: FileSystem) -> LayoutSettings {
    LayoutSettings { metadata: Some(system), ..LayoutSettings::default() }
}

fn run_with(settings: LayoutSettings, steps: Vec<Step>) -> Report {
    let layout = layout(settings);
    let profile = Profile::builtin("barracuda-500g").expect("built in");
    let build = Build { size: Some(Bytes::gib(8)), ..Build::default() };
    let extents = (0..files().len()).map(|file| layout.extents(FileNumber(file as u32)).to_vec()).collect();
    let workload = Box::new(Steps(Some(steps)));
    let parts = Parts::stock(Pages(20_000), profile.build(&build).expect("fits"), workload, extents);
    let mut machine = Machine::new(parts).expect("a machine").logging(10_000);
    if let Some(metadata) = layout.metadata() {
        machine = machine.with_metadata(metadata.clone());
    }
    let period = Period { warm_up: Nanos::ZERO, duration: Nanos::from_secs(1000) };
    machine.run(period, &mut |_| {}).expect("it runs")
}

fn run(system: FileSystem, steps: Vec<Step>) -> Report {
    run_with(on(system), steps)
}

fn stats(files: impl Iterator<Item = u32>) -> Vec<Step> {
    files.map(|file| Step::Stat { file: FileNumber(file) }).collect()
}

#[test]
fn a_file_is_opened_through_its_directory_and_its_inode() {
    let open = Step::Open { handle: HANDLE, file: FileNumber(0), announced: None };
    let close = Step::Close { handle: HANDLE };
    let report = run(FileSystem::Ext3, vec![open, close, open]);
    // The directory's inode shares a block with the file's; the second time both are in memory.
    assert_eq!(report.counters.metadata, Pages(2));
    assert_eq!(report.device.requests, 2);
    let without = run_with(LayoutSettings::default(), vec![open, close, open]);
    assert_eq!((without.counters.metadata, without.device.requests), (Pages::ZERO, 0));
}

#[test]
fn ext4_reads_inodes_32_blocks_at_a_time_and_ext3_one() {
    // 200 inodes in 7 blocks, or in 13; one block of the directory names 128.
    let ext3 = run(FileSystem::Ext3, stats(0..200));
    let ext4 = run(FileSystem::Ext4, stats(0..200));
    assert_eq!(ext3.counters.metadata, Pages(7 + 2));
    assert_eq!(ext4.counters.metadata, Pages(1 + 2));
    assert!(ext4.device.read > ext3.device.read);
}

#[test]
fn a_directory_has_a_block_for_128_entries() {
    let report = run(FileSystem::Ext3, vec![Step::List { directory: 1 }, Step::List { directory: 1 }]);
    assert_eq!(report.counters.metadata, Pages(3), "its inode and two blocks");
}

#[test]
fn a_page_behind_an_indirect_block_waits_for_it() {
    let open = Step::Open { handle: HANDLE, file: LARGE, announced: None };
    let read = |at| Step::Read { handle: HANDLE, range: page(PageIndex(at)) };
    let metadata = |steps: Vec<Step>| run(FileSystem::Ext3, [vec![open], steps].concat()).counters.metadata;
    let opened = metadata(vec![]);
    assert_eq!(metadata(vec![read(5)]), opened, "named by the inode itself");
    assert_eq!(metadata(vec![read(500)]), opened + Pages(1));
    assert_eq!(metadata(vec![read(500), read(700)]), opened + Pages(1));
    assert_eq!(metadata(vec![read(3000)]), opened + Pages(2), "double indirect, indirect");
    assert_eq!(metadata(vec![read(3000), read(1500)]), opened + Pages(3));
    let ext4 = run(FileSystem::Ext4, vec![open, read(500), read(3000)]);
    assert_eq!(ext4.counters.metadata, run(FileSystem::Ext4, vec![open]).counters.metadata);
}

#[test]
fn a_sequential_read_asks_for_the_next_indirect_block_ahead() {
    let open = Step::Open { handle: HANDLE, file: LARGE, announced: None };
    let read = |at| Step::Read { handle: HANDLE, range: page(PageIndex(at)) };
    let report = run(FileSystem::Ext3, [vec![open], (0..4000).map(read).collect()].concat());
    let opened = run(FileSystem::Ext3, vec![open]).counters.metadata;
    // At most the first, after 12 pages, and the double indirect one are waited for.
    assert!(report.counters.metadata <= opened + Pages(2), "{:?}", report.counters.metadata);
}

/// No two extents of the file system share a block, and all lie within the device.
#[test]
fn metadata_and_data_lie_apart() {
    let aging = Some(Aging { used: 0.6, free_run: Pages(8) });
    for settings in [
        on(FileSystem::Ext3),
        on(FileSystem::Ext4),
        LayoutSettings { aging, ..on(FileSystem::Ext3) },
        LayoutSettings { aging, ..on(FileSystem::Ext4) },
    ] {
        let layout = layout(settings);
        let metadata = layout.metadata().expect("asked for");
        let mut seen: BTreeSet<u64> = BTreeSet::new();
        for file in 0..files().len() as u32 {
            for extent in layout.extents(FileNumber(file)) {
                let first = extent.lba.get() / 8;
                assert!((first..first + extent.pages.get()).all(|block| seen.insert(block)), "{settings:?}");
            }
        }
        let data = seen.len();
        let mut blocks: BTreeSet<u64> = BTreeSet::new();
        for file in 0..files().len() as u32 {
            blocks.extend(metadata.path(FileNumber(file)).iter().map(|page| page.get()));
            for at in [12, 1036, 3000] {
                blocks
                    .extend(metadata.mapping(FileNumber(file), PageIndex(at)).iter().map(|page| page.get()));
            }
        }
        assert!(blocks.len() > 20 && blocks.iter().all(|block| seen.insert(*block)), "{settings:?}");
        assert!(
            seen.len() == data + blocks.len() && seen.iter().all(|block| *block < metadata.pages().get())
        );
    }
}

/// The basis of reading walks ahead: in the order of inodes a tree's metadata are read in a fraction of the
/// time.
#[test]
fn inodes_in_their_order_cost_less_than_in_the_order_of_hashes() {
    let aging = Some(Aging { used: 0.5, free_run: Pages(16) });
    let settings = LayoutSettings { aging, ..on(FileSystem::Ext3) };
    let ordered = run_with(settings, stats(0..600));
    let hashed = run_with(settings, stats((0..600).map(|n| n * 367 % 600)));
    assert_eq!(ordered.counters.metadata, hashed.counters.metadata);
    let (hashed, ordered) = (hashed.device.seek_distance, ordered.device.seek_distance);
    assert!(hashed > ordered, "{hashed:?} {ordered:?}");
}
