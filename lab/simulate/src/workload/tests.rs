//! What holds for every workload.

use super::*;
use crate::program::{Drive, FileNumber, Handle, Step};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, PageIndex};
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
    pub(super) unlinked: Vec<FileNumber>,
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
                // Only what runs beside.
                _ if name.starts_with("tile-blur+") => number + 1 == programs,
                _ => true,
            };
            assert_eq!(finished > 0, timed, "{name}");
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
    ("sequence-search", 0x88b7_314c_fe18_f2f6),
    ("desktop-mix", 0x0a09_50d0_6c94_4d03),
    ("small-read", 0x34d5_8386_9df2_0207),
    ("walk", 0xb0a4_a281_c352_7e68),
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
    ("tiobench", 0xef0e_8934_f6ee_5905),
    ("iozone-forward", 0xf151_a706_3600_767e),
    ("iozone-reverse", 0x4415_9b13_7efe_6c4d),
    ("iozone-stride", 0x4d87_8a1f_3ff7_2443),
    ("direct-seeks", 0x9138_b582_738b_15f2),
    ("direct-random", 0xf63d_cee6_e055_f491),
    ("direct-sequential", 0xbd05_a9d5_742e_9abc),
    ("file-read", 0xc843_6a7c_239f_543c),
    ("table-scan", 0x0093_8316_9cf4_30e6),
    ("tile-blur", 0xf6ca_a31d_97a2_791f),
    ("tile-blur+md5sum", 0xf6ca_a31d_97a2_791f),
    ("tile-blur+mem-walk", 0xf6ca_a31d_97a2_791f),
    ("kernel-build", 0x5050_acc2_48a6_a465),
    ("kernel-link", 0xcbef_f436_ff51_6000),
    ("boot-1", 0x8612_43e7_d5db_d482),
    ("boot-2", 0xa6bd_60f7_7108_650c),
    ("desktop-trace", 0xf642_02fb_be1d_b9c8),
    ("dbench", 0xe677_1494_8d68_509f),
    ("dbench-synced", 0x6fb3_c078_ddd4_1664),
    ("tpch", 0x81ed_a748_5986_23c7),
    ("2tpch", 0x81ed_a748_5986_23c7),
    ("tpch-q1", 0xaf29_6196_5aca_91f1),
    ("tpch-q2", 0x81ed_a748_5986_23c7),
    ("tpch-q3", 0x13a1_62ee_3436_db64),
    ("tpch-q4", 0xa207_85fe_5df6_cc21),
    ("tpch-q5", 0xa8ad_13f5_026b_3970),
    ("tpch-q6", 0xaf29_6196_5aca_91f1),
    ("tpch-q7", 0xda13_7a7d_3b92_b312),
    ("tpch-q8", 0x3cd9_ddf7_aa3c_0258),
    ("tpch-q9", 0x87c4_0309_80c5_5554),
    ("tpch-q10", 0x90c2_7b7f_22b0_e20c),
    ("tpch-q11", 0x0195_bef5_f46d_1c4c),
    ("tpch-q12", 0x7192_87ba_969e_1372),
    ("tpch-q13", 0x402c_3ccc_40ca_75e3),
    ("tpch-q14", 0x3e25_b689_c494_13b6),
    ("tpch-q15", 0xb721_ba12_5cf6_5523),
    ("tpch-q16", 0x37a6_a27c_ffd1_2678),
    ("tpch-q17", 0xb010_f8f3_fa30_8a4a),
    ("tpch-q18", 0x1874_1eb3_565c_c666),
    ("tpch-q19", 0x14d7_cd96_c108_8e82),
    ("tpch-q20", 0x0f89_f875_03a7_a2ee),
    ("tpch-q21", 0xca78_f397_5adf_f478),
    ("tpch-q22", 0xe509_f882_97b8_78f5),
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
