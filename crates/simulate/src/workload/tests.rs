//! What holds for every workload.

use super::*;
use crate::program::{Drive, FileNumber, Handle, Step};
use foreseek_units::{ByteSpan, Bytes, Nanos, PageIndex};
use rand::SeedableRng;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

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
    for _ in 0..5_000_000 {
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
            assert!(trail(&mut *workload, number, &mut random).finished > 0, "{name}");
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
