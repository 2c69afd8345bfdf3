//! The properties of a layout, against naive counts.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const DISK: Sectors = Bytes(36_400_000_000).sectors_floor();

fn files(count: usize, length: Bytes, a_directory: usize) -> Vec<FileSpec> {
    (0..count).map(|n| FileSpec { length, directory: (n / a_directory) as u32 }).collect()
}

fn place(files: &[FileSpec], settings: &LayoutSettings) -> Layout {
    Layout::place(files, DISK, settings).expect("it fits")
}

fn group(extent: &Extent) -> u64 {
    extent.lba.offset().page().get() / group::BLOCKS
}

#[test]
fn indirect_blocks_come_where_ext2_has_them() {
    let with: Vec<(u64, u32)> =
        (0..4000).map(|page| (page, indirect_before(page))).filter(|(_, count)| *count > 0).collect();
    assert_eq!(with, [(12, 1), (1036, 2), (2060, 1), (3084, 1)]);
    let triple = 12 + 1024 + 1024 * 1024;
    assert_eq!((indirect_before(triple), indirect_before(triple + 1024)), (3, 1));
    assert_eq!(indirect_before(triple + 1024 * 1024), 2);
    assert_eq!([next_indirect(0), next_indirect(12), next_indirect(1036)], [12, 1036, 2060]);
}

#[test]
fn a_file_of_four_mebibytes_is_interrupted_once() {
    let layout = place(&files(1, Bytes::mib(4), 1), &LayoutSettings::default());
    let [head, rest] = layout.extents(FileNumber(0)) else { panic!("two extents") };
    assert_eq!((head.pages, rest.pages), (Pages(12), Pages(1012)));
    // One indirect block of eight sectors lies between.
    assert_eq!(rest.lba - (head.lba + head.pages.sectors()), Sectors(8));
}

#[test]
fn files_of_a_directory_lie_together_and_directories_apart() {
    let files = files(200, Bytes::mib(4), 20);
    let layout = place(&files, &LayoutSettings::default());
    let mut of_directories = BTreeSet::new();
    for directory in 0..10u32 {
        let groups: BTreeSet<u64> =
            (0..20).map(|n| group(&layout.extents(FileNumber(directory * 20 + n))[0])).collect();
        assert_eq!(groups.len(), 1, "80 MiB fit into one group");
        of_directories.extend(groups);
    }
    assert_eq!(of_directories.len(), 10);
}

#[test]
fn the_papers_data_set_spreads_over_the_disk() {
    let files = files(6000, Bytes::mib(4), 100);
    let layout = place(&files, &LayoutSettings::default());
    let quarters = (0..6000).fold([0; 4], |mut counts, n| {
        let lba = layout.extents(FileNumber(n))[0].lba;
        counts[(lba.get() * 4 / DISK.get()) as usize] += 1;
        counts
    });
    // 24 of 34 GiB are used: no quarter is empty, and none exceeds its capacity.
    assert!(quarters.iter().all(|files| (800..=2200).contains(files)), "{quarters:?}");
}

#[test]
fn aging_fragments_as_it_says() {
    let files = files(300, Bytes::mib(4), 100);
    let aging = Some(Aging { used: 0.5, free_run: Pages(64) });
    let aged = place(&files, &LayoutSettings { aging, ..LayoutSettings::default() });
    let extents: Vec<Extent> = (0..300).flat_map(|n| aged.extents(FileNumber(n)).to_vec()).collect();
    let mean = 300.0 * 1024.0 / extents.len() as f64;
    // A file's extents end where free runs do, at its indirect block and at its end.
    assert!((32.0..80.0).contains(&mean), "{mean}");
    let again = place(&files, &LayoutSettings { aging, ..LayoutSettings::default() });
    assert_eq!(aged, again);
}

#[test]
fn what_does_not_fit_is_refused_with_its_size() {
    let error = Layout::place(&files(9000, Bytes::mib(4), 100), DISK, &LayoutSettings::default());
    let text = error.expect_err("36 GB hold less").to_string();
    assert!(text.contains("of 9000") && text.contains("33.9 GiB"), "{text}");
    let tiny = Layout::place(&[], Sectors(100), &LayoutSettings::default());
    assert!(matches!(tiny, Err(WorkloadError::DeviceTooSmall { .. })));
    let colour = LayoutSettings { colour: 16, ..LayoutSettings::default() };
    assert!(matches!(Layout::place(&[], DISK, &colour), Err(WorkloadError::Setting { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_page_has_a_place_of_its_own(
        lengths in prop::collection::vec((0..6_000_000u64, 0..6u32), 1..60),
        seed in any::<u64>(),
        colour in 0..16u32,
        aged in any::<bool>(),
        run in 1..200u64,
    ) {
        let files: Vec<FileSpec> = lengths
            .iter()
            .map(|(length, directory)| FileSpec { length: Bytes(*length), directory: *directory })
            .collect();
        let aging = aged.then_some(Aging { used: 0.4, free_run: Pages(run) });
        let capacity = Bytes::gib(1).sectors_floor();
        let settings = LayoutSettings { seed, colour, journal: aged, aging, ..LayoutSettings::default() };
        let layout = Layout::place(&files, capacity, &settings).expect("a quarter of it is needed");
        let mut taken = BTreeSet::new();
        for (number, file) in files.iter().enumerate() {
            let mut page = PageIndex(0);
            for extent in layout.extents(FileNumber(number as u32)) {
                prop_assert_eq!(extent.page, page);
                prop_assert!(!extent.pages.is_zero());
                page += extent.pages;
                for n in 0..extent.pages.get() {
                    let block = extent.lba.get() / 8 + n;
                    prop_assert!(block < capacity.get() / 8);
                    // Never in the metadata at the start of its group.
                    prop_assert!(block % group::BLOCKS >= 514);
                    prop_assert!(taken.insert(block), "block {} is given twice", block);
                }
            }
            prop_assert_eq!(page.get(), file.length.pages_ceil().get());
        }
    }
}

#[test]
fn without_a_file_system_files_lie_one_behind_the_other() {
    let files = [Bytes::kib(8), Bytes::mib(300)].map(|length| FileSpec { length, directory: 0 });
    let settings = LayoutSettings { raw: true, ..LayoutSettings::default() };
    let layout = Layout::place(&files, Bytes::gib(1).sectors_floor(), &settings).expect("room");
    let places: Vec<(u64, u64)> = (0..2)
        .flat_map(|file| layout.extents(FileNumber(file)).iter().map(|one| (one.lba.get(), one.pages.get())))
        .collect();
    assert_eq!(places, [(0, 2), (16, 76_800)]);
    let error = Layout::place(&files, Bytes::mib(300).sectors_floor(), &settings).expect_err("no room");
    assert!(matches!(error, WorkloadError::NoRoom { file: 1, .. }), "{error}");
}
