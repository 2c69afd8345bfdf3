//! Reads of small blocks by several processes (ATC'08 sections 3.4 and 3.5): tiobench at random, IOzone forward, backward and with
//! strides.
//!
//! What the paper says: tiobench 0.3.3, four threads, 40,000 reads of 4 KiB, files with a given total size (the
//! workspace). IOzone 3.283, one to sixteen processes, files of 2 GiB together, blocks of 4 KiB; a stride read
//! is "a sequentially discontiguous read with a fixed stride distance that is defined by the number of blocks
//! between discontiguous reads".
//!
//! What it leaves open, and the assumptions:
//!
//! - Each thread or process has a file of its own, all of one length, in one directory; both programs do so. Files lie one behind
//!   the other from the start of the device: the outer zones.
//! - The 40,000 reads (or `reads`) are those of all threads together, at uniformly distributed addresses, with repetition.
//! - All caches are empty. (Both programs write their files before, and tiobench reads them sequentially.)
//! - A stride of distance d reads each d-th block, begins again one block further on at the end of the file,
//!   and so reads each block once, as IOzone does: its throughput counts what it reads.
//! - A program uses no processor time for a block beyond the call and the copy. IOzone and tiobench do not look
//!   at the data.
//! - Each random read is timed separately, for the latency of figure 8(d).

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, Bytes};
use rand::RngExt;
use rand_core::Rng;

/// The size of a read.
const BLOCK: Bytes = Bytes::kib(4);
/// All files of IOzone together.
const IOZONE: Bytes = Bytes::gib(2);
/// The smallest workspace of figure 8.
const WORKSPACE: Bytes = Bytes(6 * (1 << 30) / 10);
/// Threads of tiobench, and the reads of all of them.
const THREADS: u32 = 4;
const READS: u32 = 40_000;
/// Private memory of a process: an assumption.
const MEMORY: Bytes = Bytes::mib(1);
/// Steps that are made at a time.
const BATCH: u64 = 64;

/// The order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Random,
    Forward,
    Reverse,
    Stride(u64),
}

pub(super) fn tiobench(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    boxed(Pattern::Random, WORKSPACE, THREADS, parameters)
}

pub(super) fn forward(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    boxed(Pattern::Forward, IOZONE, 1, parameters)
}

pub(super) fn reverse(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    boxed(Pattern::Reverse, IOZONE, 1, parameters)
}

pub(super) fn stride(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let distance = parameters.stride(3)?;
    boxed(Pattern::Stride(u64::from(distance)), IOZONE, 1, parameters)
}

fn boxed(
    pattern: Pattern,
    data: Bytes,
    processes: u32,
    parameters: &mut Checked<'_>,
) -> Result<Box<dyn Workload>, WorkloadError> {
    let processes = parameters.processes(processes)?;
    let data = parameters.data_size(data, BLOCK * u64::from(processes))?;
    let blocks = data / BLOCK / u64::from(processes);
    let reads = if pattern == Pattern::Random { parameters.reads(READS)? } else { 0 };
    Ok(Box::new(Readers { pattern, processes, blocks, reads }))
}

#[derive(Debug)]
struct Readers {
    pattern: Pattern,
    processes: u32,
    /// Blocks of each file.
    blocks: u64,
    /// Random reads of all processes together.
    reads: u32,
}

impl Workload for Readers {
    fn files(&self) -> Vec<FileSpec> {
        vec![FileSpec { length: BLOCK * self.blocks, directory: 0 }; self.processes as usize]
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.processes)
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let (pattern, blocks) = (self.pattern, self.blocks);
        let reads = if pattern == Pattern::Random { u64::from(self.reads / self.processes) } else { blocks };
        Script::boxed(BlockReads { file: FileNumber(number as u32), pattern, blocks, reads, made: 0 })
    }
}

/// One process.
struct BlockReads {
    file: FileNumber,
    pattern: Pattern,
    blocks: u64,
    reads: u64,
    made: u64,
}

impl BlockReads {
    /// The block of a read.
    fn block(&self, read: u64, random: &mut dyn Rng) -> u64 {
        match self.pattern {
            Pattern::Random => random.random_range(0..self.blocks),
            Pattern::Forward => read,
            Pattern::Reverse => self.blocks - 1 - read,
            Pattern::Stride(distance) => nth_of_stride(read, distance, self.blocks),
        }
    }
}

/// The `n`-th block with a stride: those with the same remainder, from the lowest remainder on.
fn nth_of_stride(n: u64, distance: u64, blocks: u64) -> u64 {
    // The first remainders have a block more each.
    let (each, longer) = (blocks / distance, blocks % distance);
    let in_longer = longer * (each + 1);
    if n < in_longer {
        return n % (each + 1) * distance + n / (each + 1);
    }
    let n = n - in_longer;
    n % each * distance + longer + n / each
}

impl Source for BlockReads {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        if self.made == self.reads {
            return;
        }
        if self.made == 0 {
            steps.open(Handle(0), self.file, Some(BLOCK * self.blocks));
            steps.begun();
        }
        let until = (self.made + BATCH).min(self.reads);
        for read in self.made..until {
            steps.read(Handle(0), ByteOffset(self.block(read, random) * BLOCK.get()), BLOCK);
            if self.pattern == Pattern::Random {
                steps.finished();
            }
        }
        if until == self.reads {
            steps.close(Handle(0));
            if self.pattern != Pattern::Random {
                steps.finished();
            }
        }
        self.made = until;
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Step, begin};
    use crate::workload::{Parameters, by_name};
    use foreseek_units::Instant;

    fn blocks(name: &str, parameters: &Parameters, job: u64) -> Vec<u64> {
        let mut workload = by_name(name, parameters).unwrap_or_else(|error| panic!("{error}"));
        let (mut program, mut random) = begin(&mut *workload, 1, job);
        std::iter::from_fn(|| match program.next(Instant::ZERO, &mut random) {
            Step::Exit => None,
            step => Some(step),
        })
        .filter_map(|step| match step {
            Step::Read { range, .. } => Some(range.start.get() / 4096),
            _ => None,
        })
        .collect()
    }

    fn of(kib: u64, processes: u32) -> Parameters {
        Parameters { data_size: Some(Bytes::kib(kib)), processes: Some(processes), ..Parameters::default() }
    }

    #[test]
    fn each_order_reads_each_block_once() {
        for (name, stride, first) in [
            ("iozone-forward", None, [0, 1, 2]),
            ("iozone-reverse", None, [99, 98, 97]),
            ("iozone-stride", Some(3), [0, 3, 6]),
            ("iozone-stride", Some(7), [0, 7, 14]),
        ] {
            let read = blocks(name, &Parameters { stride, ..of(1600, 4) }, 2);
            assert_eq!(read[..3], first, "{name}");
            let mut sorted = read.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..100).collect::<Vec<_>>(), "{name}");
        }
        // The last block of the first pass, and the next.
        let read = blocks("iozone-stride", &Parameters { stride: Some(3), ..of(400, 1) }, 0);
        assert_eq!(read[33..36], [99, 1, 4]);
    }

    #[test]
    fn tiobench_reads_as_often_whatever_the_workspace() {
        let small = blocks("tiobench", &of(4 << 20, 4), 0);
        assert_eq!(small.len(), 10_000);
        assert!(small.iter().all(|block| *block < 1 << 18));
        assert_ne!(small[..100], blocks("tiobench", &of(4 << 20, 4), 1)[..100]);
        let longer = Parameters { reads: Some(60_000), ..of(4 << 20, 4) };
        let longer = blocks("tiobench", &longer, 0);
        assert_eq!((longer.len(), &longer[..10_000]), (15_000, &small[..]));
    }
}
