//! Properties of every workload.

use super::*;
use crate::program::{Drive, FileNumber, Handle, Step};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, PageIndex};
use rand::SeedableRng;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Longer than the longest program that ends, the first half of the TPC-H series.
const STEPS_LIMIT: u32 = 20_000_000;

/// The steps of a program.
#[derive(Debug, Default)]
pub(super) struct Trail {
    pub(super) memory: Bytes,
    pub(super) opens: Vec<(FileNumber, Option<Bytes>)>,
    pub(super) reads: Vec<(Handle, ByteSpan)>,
    pub(super) touches: Vec<(Handle, PageIndex)>,
    pub(super) writes: Vec<(Handle, ByteSpan)>,
    pub(super) unlinked: Vec<FileNumber>,
    pub(super) computed: Nanos,
    pub(super) slept: Nanos,
    pub(super) finished: u32,
}

/// Runs a program to its end (or for a long time) and checks that it keeps the rules.
pub(super) fn trail(workload: &mut dyn Workload, number: u64, random: &mut dyn Rng) -> Trail {
    let files = workload.files();
    let mut program = workload.program(number, random);
    let mut trail = Trail { memory: program.memory(), ..Trail::default() };
    let mut open: Vec<(Handle, FileNumber)> = Vec::new();
    let end_of = |open: &[(Handle, FileNumber)], handle: Handle| {
        let (_, file) = open.iter().find(|(of, _)| *of == handle).expect("an open handle");
        files[file.0 as usize].length
    };
    for _ in 0..STEPS_LIMIT {
        match program.next(Instant::ZERO, random) {
            Step::Open { handle, file, announced } => {
                assert!(open.iter().all(|(of, _)| *of != handle), "{handle:?} is open already");
                open.push((handle, file));
                trail.opens.push((file, announced));
            }
            Step::Read { handle, range } => {
                assert!(!range.is_empty() && range.end.get() <= end_of(&open, handle).get());
                trail.reads.push((handle, range));
            }
            Step::Direct { handle, pages } => {
                assert!(!pages.is_empty() && pages.end.get() <= end_of(&open, handle).pages_ceil().get());
                trail.reads.push((handle, pages.bytes()));
            }
            Step::Touch { handle, page } => {
                assert!(page.offset().get() < end_of(&open, handle).get());
                trail.touches.push((handle, page));
            }
            Step::Write { handle, range } => {
                assert!(!range.is_empty() && range.end.get() <= end_of(&open, handle).get());
                trail.writes.push((handle, range));
            }
            Step::DirectWrite { handle, pages } => {
                assert!(!pages.is_empty() && pages.end.get() <= end_of(&open, handle).pages_ceil().get());
                trail.writes.push((handle, pages.bytes()));
            }
            Step::Unlink { file } => {
                assert!(open.iter().all(|(_, of)| *of != file), "{file:?} is open");
                trail.unlinked.push(file);
            }
            Step::Sync { handle } => assert!(open.iter().any(|(of, _)| *of == handle)),
            Step::Close { handle } => {
                let before = open.len();
                open.retain(|(of, _)| *of != handle);
                assert_eq!(open.len() + 1, before, "{handle:?} is not open");
            }
            Step::Stat { .. } | Step::List { .. } => {}
            Step::Await => unreachable!("no workload has daemons"),
            Step::Advise { .. } | Step::Forget { .. } | Step::Ask { .. } | Step::Hold(_) => {
                unreachable!("the papers' workloads give no advice")
            }
            Step::Compute(time) => trail.computed += time,
            Step::Sleep(time) => trail.slept += time,
            Step::Begun => {}
            Step::Finished => trail.finished += 1,
            Step::Exit => break,
        }
    }
    trail
}

#[test]
fn every_workload_keeps_the_rules() {
    for name in names() {
        let mut workload = by_name(name, &Parameters::default()).expect(name);
        let programs = match workload.drive() {
            Drive::Closed => 20,
            Drive::Jobs(jobs) => u64::from(jobs),
        };
        let mut random = Pcg64Mcg::seed_from_u64(3);
        for number in 0..programs {
            let finished = trail(&mut *workload, number, &mut random).finished;
            let timed = match name {
                "small-read" => number == probe::PROBE,
                // Only the program beside.
                _ if name.starts_with("tile-blur+") => number + 1 == programs,
                _ => true,
            };
            assert_eq!(finished > 0, timed, "{name}");
        }
    }
}

/// Programs with parts of their own: none opens a file of another's directory, and together they open all.
#[test]
fn programs_beside_each_other_have_parts_of_the_tree() {
    let walk = Walk { threads: 3, apart: true, ..Walk::default() };
    let parameters =
        Parameters { walk: Some(walk), data_size: Some(Bytes::mib(12)), ..Parameters::default() };
    let mut workload = by_name("walk", &parameters).expect("a walk");
    let files = workload.files();
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let mut walkers = std::collections::BTreeMap::<u32, u64>::new();
    let mut opened: Vec<u32> = Vec::new();
    for number in 0..3 {
        for (file, _) in trail(&mut *workload, number, &mut random).opens {
            assert_eq!(*walkers.entry(files[file.0 as usize].directory).or_insert(number), number);
            opened.push(file.0);
        }
    }
    opened.sort_unstable();
    assert!(opened.iter().copied().eq(0..files.len() as u32));
    let of_each = (0..3).map(|number| walkers.values().filter(|by| **by == number).count());
    assert!(of_each.clone().max() <= of_each.min().map(|least| least + 1), "{walkers:?}");
}

/// Two programs that walk in random order: each file of the tree is opened by one of them, once, and hardly one
/// lies in the directory of the file before.
#[test]
fn a_walk_in_random_order_opens_each_file_once() {
    let walk = Walk { order: ReadingOrder::Random, threads: 2, ..Walk::default() };
    let parameters =
        Parameters { walk: Some(walk), data_size: Some(Bytes::mib(12)), ..Parameters::default() };
    let mut workload = by_name("walk", &parameters).expect("a walk");
    let files = workload.files();
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let mut opened: Vec<u32> = Vec::new();
    for number in 0..2 {
        opened.extend(trail(&mut *workload, number, &mut random).opens.iter().map(|(file, _)| file.0));
    }
    let directory = |file: u32| files[file as usize].directory;
    let near = opened.windows(2).filter(|two| directory(two[0]) == directory(two[1])).count();
    assert!(near * 10 < opened.len(), "{near} of {}", opened.len());
    opened.sort_unstable();
    assert!(opened.iter().copied().eq(0..files.len() as u32));
}

#[test]
fn unknown_names_and_foreign_parameters_are_refused() {
    let error = by_name("one-half-0", &Parameters::default()).err().expect("unknown").to_string();
    assert!(error.contains("'one-half-0'") && error.contains("one-whole-0"), "{error}");
    let mapped = Parameters { mapped: Some(true), ..Parameters::default() };
    let error = by_name("one-whole-0", &mapped).err().expect("not one of its own").to_string();
    assert!(error.contains("one-whole-0") && error.contains("mapping"), "{error}");
    let small = Parameters { file_size: Some(Bytes::kib(4)), ..Parameters::default() };
    let error = by_name("one-whole-0", &small).err().expect("too small").to_string();
    assert!(error.contains("4 KiB") && error.contains("at least 64 KiB"), "{error}");
}

/// The first steps of the first program with seed 1, as the FNV hash of their text. They change only when a
/// workload is changed on purpose: results of different versions then differ.
const HEADS: &[(&str, u64)] = &[
    ("one-whole-0", 0x32fb_71a6_3d8a_7d3d),
    ("one-rand-10", 0xff1f_53c9_c493_9b5b),
    ("two-rand-0", 0xed0e_dae7_2c58_56a3),
    ("four-64kb-0", 0xc2c3_dcb8_6a54_089f),
    ("index-search", 0xd4b0_f14a_7842_842a),
    ("media-server", 0xcb0d_cdc9_ba4e_8ad3),
    ("sequence-search", 0x1837_1c9e_e7b7_f9ba),
    ("desktop-mix", 0xdb1f_221f_10d2_8a81),
    ("small-read", 0xe0fd_1e14_0575_b925),
    ("walk", 0xea2f_9cc9_942f_fc1c),
    ("cp5", 0x7352_c6c4_f7d6_e977),
    ("cp50", 0xd53f_e33d_bf7e_2c7d),
    ("diff5", 0x547b_a49b_df6c_57d6),
    ("diff50", 0x0a54_904d_54e9_61f2),
    ("2cp5", 0x7352_c6c4_f7d6_e977),
    ("2cp50", 0xd53f_e33d_bf7e_2c7d),
    ("2diff5", 0x547b_a49b_df6c_57d6),
    ("2diff50", 0x0a54_904d_54e9_61f2),
    ("cp5+diff5", 0x7352_c6c4_f7d6_e977),
    ("cp50+diff50", 0xd53f_e33d_bf7e_2c7d),
    ("tiobench", 0xf75d_69a9_d2c6_2fc9),
    ("iozone-forward", 0xf13d_4270_d2d7_847a),
    ("iozone-reverse", 0x7fb1_ccdb_9bf8_aa69),
    ("iozone-stride", 0xe07d_dc3c_f91c_b2a7),
    ("runs-short", 0x0f5d_a027_356f_c6c6),
    ("runs-long", 0xe113_fe1d_4eaf_9e1d),
    ("runs-mixed", 0x24a3_bef2_ef20_7951),
    ("direct-seeks", 0xf581_925b_679a_b836),
    ("direct-random", 0x0512_e69f_c98b_26a5),
    ("direct-sequential", 0x4697_fa1b_18c3_16f0),
    ("file-read", 0x2e15_5ec5_8d6a_8ef0),
    ("table-scan", 0xb455_97ac_9676_808a),
    ("tile-blur", 0x96bf_a6eb_b971_e483),
    ("tile-blur+md5sum", 0x96bf_a6eb_b971_e483),
    ("tile-blur+mem-walk", 0x96bf_a6eb_b971_e483),
    ("kernel-build", 0x6a03_1387_3dcf_ea81),
    ("kernel-link", 0x034a_dc67_f28b_2412),
    ("boot-1", 0xddc4_0b2c_1889_2f2e),
    ("boot-2", 0x9524_f64d_6625_4b86),
    ("desktop-trace", 0x1d81_3123_43ce_bb40),
    ("dbench", 0x60e2_7576_8a7e_2f0f),
    ("dbench-synced", 0xa335_45cf_3d56_b274),
    ("tpch", 0xf883_3638_3e63_576f),
    ("2tpch", 0xf883_3638_3e63_576f),
    ("tpch-q1", 0xef8b_2576_2af2_63dd),
    ("tpch-q2", 0xf883_3638_3e63_576f),
    ("tpch-q3", 0x2105_76f8_38e1_9c5e),
    ("tpch-q4", 0x6eed_cfe5_d374_fd79),
    ("tpch-q5", 0x0da3_bcd2_8217_d7ae),
    ("tpch-q6", 0xef8b_2576_2af2_63dd),
    ("tpch-q7", 0xed92_4618_ce75_d9d0),
    ("tpch-q8", 0x9708_4448_713d_7f4a),
    ("tpch-q9", 0x36ca_8301_9099_d402),
    ("tpch-q10", 0xd174_c48c_6ff7_9d8e),
    ("tpch-q11", 0x0f9c_2239_ac22_ae40),
    ("tpch-q12", 0x9ec5_b821_3b5d_fcf6),
    ("tpch-q13", 0x0064_bfe8_e3c3_8ccf),
    ("tpch-q14", 0x246a_8750_aab2_85da),
    ("tpch-q15", 0x67a8_e9b2_0f18_94e3),
    ("tpch-q16", 0x0796_1c26_84b4_afb0),
    ("tpch-q17", 0x39bb_cd4b_d1fa_cf3e),
    ("tpch-q18", 0x0053_02bd_438f_8878),
    ("tpch-q19", 0x08af_5548_6be8_9c26),
    ("tpch-q20", 0x5cbe_8e6e_c90d_ba30),
    ("tpch-q21", 0x4ce9_bdbd_1878_a050),
    ("tpch-q22", 0x8081_a5fb_599d_c879),
];

#[test]
fn a_seed_fixes_every_workload() {
    let head = |name: &str| {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut workload = by_name(name, &Parameters::default()).expect(name);
        let mut program = workload.program(0, &mut random);
        let steps: Vec<Step> = (0..200)
            .map(|_| program.next(Instant::ZERO, &mut random))
            .take_while(|s| *s != Step::Exit)
            .collect();
        format!("{steps:?}").bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    };
    let heads: Vec<(&str, u64)> = names().map(|name| (name, head(name))).collect();
    assert_eq!(heads, HEADS, "{heads:#x?}");
}
