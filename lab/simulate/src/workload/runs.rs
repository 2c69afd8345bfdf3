//! Sequential runs of different lengths by several processes: no paper's.
//!
//! Each process has a file of its own, reads a run of blocks of 4 KiB from a random block on, then one from another, and so on until it has read its
//! share. Where runs end is known to nobody before. Lengths are uniform in blocks, and fit the array of ATC'08, whose stripes have 512 KiB of data:
//!
//! - `runs-short`: 1 to 8 stripes.
//! - `runs-long`: 16 to 64 stripes.
//! - `runs-mixed`: one or the other, each as often.
//!
//! All processes together read 2 GiB, as IOzone's do ([`super::array_reads`]). The files have 16 GiB together, so that little is read twice. As there,
//! they lie one behind the other, all caches are empty, and a program uses no processor time for a block beyond the call and the copy.

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, Bytes};
use rand::RngExt;
use rand_core::Rng;
use std::ops::RangeInclusive;

/// The size of a read.
const BLOCK: Bytes = Bytes::kib(4);
/// All files together, and what is read of them.
const DATA: Bytes = Bytes::gib(16);
const READ: Bytes = Bytes::gib(2);
/// Blocks of a run: a stripe has 128.
const SHORT: RangeInclusive<u64> = 128..=8 * 128;
const LONG: RangeInclusive<u64> = 16 * 128..=64 * 128;
/// Private memory of a process: an assumption.
const MEMORY: Bytes = Bytes::mib(1);

/// How long runs are.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Short,
    Long,
    Mixed,
}

pub(super) fn short(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    boxed(Kind::Short, parameters)
}

pub(super) fn long(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    boxed(Kind::Long, parameters)
}

pub(super) fn mixed(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    boxed(Kind::Mixed, parameters)
}

fn boxed(kind: Kind, parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let processes = parameters.processes(1)?;
    // Each file holds the longest run.
    let data = parameters.data_size(DATA, BLOCK * *LONG.end() * u64::from(processes))?;
    let blocks = data / BLOCK / u64::from(processes);
    Ok(Box::new(Runs { kind, processes, blocks }))
}

#[derive(Debug)]
struct Runs {
    kind: Kind,
    processes: u32,
    /// Blocks of each file.
    blocks: u64,
}

impl Workload for Runs {
    fn files(&self) -> Vec<FileSpec> {
        vec![FileSpec { length: BLOCK * self.blocks, directory: 0 }; self.processes as usize]
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.processes)
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let left = READ / BLOCK / u64::from(self.processes);
        let (kind, blocks, file) = (self.kind, self.blocks, FileNumber(number as u32));
        Script::boxed(RunReads { file, kind, blocks, left, opened: false })
    }
}

/// One process.
struct RunReads {
    file: FileNumber,
    kind: Kind,
    blocks: u64,
    /// Blocks that it is still to read.
    left: u64,
    opened: bool,
}

impl RunReads {
    fn length(&self, random: &mut dyn Rng) -> u64 {
        let long = match self.kind {
            Kind::Short => false,
            Kind::Long => true,
            Kind::Mixed => random.random_range(0..2) == 1,
        };
        random.random_range(if long { LONG } else { SHORT })
    }
}

impl Source for RunReads {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        if self.left == 0 {
            return;
        }
        if !self.opened {
            // What will be read is not known.
            steps.open(Handle(0), self.file, None);
            steps.begun();
            self.opened = true;
        }
        let length = self.length(random).min(self.left);
        let start = random.random_range(0..=self.blocks - length);
        for block in start..start + length {
            steps.read(Handle(0), ByteOffset(block * BLOCK.get()), BLOCK);
        }
        self.left -= length;
        if self.left == 0 {
            steps.close(Handle(0));
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}

#[cfg(test)]
mod tests {
    use crate::program::{Step, begin};
    use crate::workload::{Parameters, by_name};
    use foreseek_units::Instant;

    /// The lengths of the runs of a job, in blocks.
    fn lengths(name: &str, processes: u32) -> Vec<u64> {
        let parameters = Parameters { processes: Some(processes), ..Parameters::default() };
        let mut workload = by_name(name, &parameters).unwrap_or_else(|error| panic!("{error}"));
        let (mut program, mut random) = begin(&mut *workload, 1, 0);
        let (mut lengths, mut next) = (Vec::new(), u64::MAX);
        loop {
            match program.next(Instant::ZERO, &mut random) {
                Step::Exit => return lengths,
                Step::Read { range, .. } => {
                    if range.start.get() != next {
                        lengths.push(0);
                    }
                    *lengths.last_mut().expect("one began") += 1;
                    next = range.end.get();
                }
                _ => {}
            }
        }
    }

    #[test]
    fn runs_are_as_long_as_they_are_called_and_make_the_share_of_a_process() {
        for (name, least, most) in
            [("runs-short", 128, 1024), ("runs-long", 2048, 8192), ("runs-mixed", 128, 8192)]
        {
            let mut lengths = lengths(name, 4);
            assert_eq!(lengths.iter().sum::<u64>(), (512 << 20) / 4096, "{name}");
            // The last one is cut.
            lengths.pop();
            assert!(lengths.iter().all(|length| (least..=most).contains(length)), "{name}: {lengths:?}");
        }
        let mixed = lengths("runs-mixed", 1);
        let short = mixed.iter().filter(|length| **length <= 1024).count();
        assert!(short * 4 > mixed.len() && short * 4 < mixed.len() * 3, "{short} of {}", mixed.len());
    }
}
