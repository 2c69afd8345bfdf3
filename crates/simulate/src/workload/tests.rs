//! What holds for every workload.

use super::*;
use crate::program::{Drive, FileNumber, Handle, Step};
use foreseek_units::{ByteSpan, Bytes, Nanos, PageIndex};
use rand::SeedableRng;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Longer than the longest program that ends, the first half of the TPC-H series.
const STEPS_LIMIT: u32 = 20_000_000;

/// What a program did.
#[derive(Debug, Default)]
pub(super) struct Trail {
    pub(super) memory: Bytes,
    pub(super) opens: Vec<(FileNumber, Option<Bytes>)>,
    pub(super) reads: Vec<(Handle, ByteSpan)>,
    pub(super) touches: Vec<(Handle, PageIndex)>,
    pub(super) writes: Vec<(Handle, ByteSpan)>,
    pub(super) computed: Nanos,
    pub(super) slept: Nanos,
    pub(super) finished: u32,
}

/// Runs a program to its end (or for a good while) and checks that it keeps the rules.
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
        match program.next(random) {
            Step::Open { handle, file, told } => {
                assert!(open.iter().all(|(of, _)| *of != handle), "{handle:?} is open already");
                open.push((handle, file));
                trail.opens.push((file, told));
            }
            Step::Read { handle, range } => {
                assert!(!range.is_empty() && range.end.get() <= end_of(&open, handle).get());
                trail.reads.push((handle, range));
            }
            Step::Touch { handle, page } => {
                assert!(page.offset().get() < end_of(&open, handle).get());
                trail.touches.push((handle, page));
            }
            Step::Write { handle, range } => {
                assert!(!range.is_empty() && range.end.get() <= end_of(&open, handle).get());
                trail.writes.push((handle, range));
            }
            Step::Close { handle } => {
                let before = open.len();
                open.retain(|(of, _)| *of != handle);
                assert_eq!(open.len() + 1, before, "{handle:?} is not open");
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
            assert_eq!(finished > 0, name != "small-read" || number == probe::PROBE, "{name}");
        }
    }
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

/// The first steps of the first program with seed 1, as the FNV hash of how they are shown. They
/// change only when a workload is meant to change: results of different versions then differ.
const HEADS: &[(&str, u64)] = &[
    ("one-whole-0", 0x8184_a712_c18f_c431),
    ("one-rand-10", 0x5ffd_a148_c6d6_9e3f),
    ("two-rand-0", 0x37ec_0e16_b125_6d59),
    ("four-64kb-0", 0x665c_90f1_1f19_ff9b),
    ("index-search", 0x99b1_2c3a_4d5a_c15a),
    ("media-server", 0x358e_7ec1_c959_1339),
    ("sequence-search", 0x195b_0cbe_39d1_9a10),
    ("small-read", 0x34d5_8386_9df2_0207),
    ("cp5", 0xff91_8a0c_6abf_5563),
    ("cp50", 0x2552_1625_fec2_9505),
    ("diff5", 0x6f85_5ec2_1c4b_518a),
    ("diff50", 0x73d9_ee76_8cb7_077a),
    ("2cp5", 0xff91_8a0c_6abf_5563),
    ("2cp50", 0x2552_1625_fec2_9505),
    ("2diff5", 0x6f85_5ec2_1c4b_518a),
    ("2diff50", 0x73d9_ee76_8cb7_077a),
    ("cp5+diff5", 0xff91_8a0c_6abf_5563),
    ("cp50+diff50", 0x2552_1625_fec2_9505),
    ("kernel-build", 0x5050_acc2_48a6_a465),
    ("tpch", 0xa021_74b3_7c53_c33d),
    ("2tpch", 0xa021_74b3_7c53_c33d),
    ("tpch-q2", 0xa021_74b3_7c53_c33d),
    ("tpch-q3", 0x6d13_5180_536b_83fb),
    ("tpch-q4", 0x3eb_ed0e_aaf7_ea84),
    ("tpch-q5", 0x5ae4_a6df_993d_03a6),
    ("tpch-q6", 0xaf29_6196_5aca_91f1),
    ("tpch-q7", 0xbddb_3016_d08f_286b),
    ("tpch-q8", 0x6630_41e2_8f71_a232),
    ("tpch-q9", 0xe7f_47f4_ade3_c8ae),
    ("tpch-q10", 0x2cdf_f7c7_44dd_585e),
    ("tpch-q11", 0x1d7a_085c_d976_d534),
    ("tpch-q12", 0x286c_5820_c57e_a5ef),
    ("tpch-q13", 0xab3f_0867_df9d_936a),
    ("tpch-q14", 0x609c_2a5d_c73a_064e),
    ("tpch-q15", 0xb2cf_bc5c_7019_a9ce),
    ("tpch-q16", 0xc4e_cc93_5834_39e5),
    ("tpch-q17", 0x6680_2a32_fbdd_f01a),
    ("tpch-q18", 0x673d_f17f_d264_4a67),
    ("tpch-q19", 0x575f_4f17_7ebb_bc51),
    ("tpch-q20", 0x942f_2188_5932_33c2),
    ("tpch-q21", 0x1011_5882_96f3_084b),
    ("tpch-q22", 0x624f_6d01_d66f_74f0),
];

#[test]
fn a_seed_fixes_every_workload() {
    let head = |name: &str| {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut workload = by_name(name, &Parameters::default()).expect(name);
        let mut program = workload.program(0, &mut random);
        let steps: Vec<Step> =
            (0..200).map(|_| program.next(&mut random)).take_while(|s| *s != Step::Exit).collect();
        format!("{steps:?}").bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    };
    let heads: Vec<(&str, u64)> = names().map(|name| (name, head(name))).collect();
    assert_eq!(heads, HEADS, "{heads:#x?}");
}
