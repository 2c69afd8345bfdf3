//! Compiling and linking a Linux 2.6.10 kernel (EuroSys'07 section 6.1).
//!
//! What the paper says: the build "involves reading from and writing to many small files"; cp,
//! kernel build and Apache "follow a simple sequential access pattern to access whole files".
//!
//! The assumptions for the rest (after the size of that kernel: some 200 MB in 16,500 files, and a default
//! configuration for a PC): 1200 units are compiled, one after the other (`make` without `-j`). A unit has a
//! source of 15 KiB on average (exponential, at least 500 bytes). It includes 150 of 2000 headers of 5 KiB on
//! average, by Zipf's law. Compiling it costs 250 ms of processor time, spread over its reads. It writes an
//! object of 30 KiB on average. Then the linker reads all objects and writes a kernel of 20 MiB. Files are read
//! and written in chunks of 4 KiB, to their end; sources lie in 60 directories, headers in 20, objects beside
//! their sources. The compiler has 16 MiB of its own.

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Reader, Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, Bytes, Nanos};
use rand::SeedableRng;
use rand_core::Rng;
use rand_distr::{Distribution, Exp, Zipf};
use rand_pcg::Pcg64Mcg;

/// The assumptions; each is explained above.
pub(super) const UNITS: u32 = 1200;
pub(super) const HEADERS: u32 = 2000;
pub(super) const INCLUDES: u32 = 150;
const SOURCE_MEAN: f64 = 15.0 * 1024.0;
const HEADER_MEAN: f64 = 5.0 * 1024.0;
const OBJECT_MEAN: f64 = 30.0 * 1024.0;
const LENGTH_LEAST: f64 = 500.0;
pub(super) const KERNEL: Bytes = Bytes::mib(20);
const UNIT_COST: Nanos = Nanos::from_millis(250);
/// Cost of linking a byte: copying and relocating.
const LINK_A_BYTE: Nanos = Nanos(20);
const SOURCE_DIRECTORIES: u32 = 60;
const HEADER_DIRECTORIES: u32 = 20;
const CHUNK: Bytes = Bytes::kib(4);
pub(super) const MEMORY: Bytes = Bytes::mib(16);
/// The seed of the tree; fixed, so that all runs have the same.
const DATA_SEED: u64 = 2610;

pub(super) fn kernel_build(_: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    Ok(Box::new(KernelTree::new()))
}

/// Files: the sources, the headers, the objects, the kernel.
pub(super) struct KernelTree {
    lengths: Vec<Bytes>,
}

impl KernelTree {
    pub(super) fn new() -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(DATA_SEED);
        let mut draw = |mean: f64| {
            let beyond = Exp::new(1.0 / (mean - LENGTH_LEAST)).map_or(0.0, |e| e.sample(&mut random));
            Bytes((LENGTH_LEAST + beyond) as u64)
        };
        let mut lengths: Vec<Bytes> = (0..UNITS).map(|_| draw(SOURCE_MEAN)).collect();
        lengths.extend((0..HEADERS).map(|_| draw(HEADER_MEAN)));
        lengths.extend((0..UNITS).map(|_| draw(OBJECT_MEAN)));
        lengths.push(KERNEL);
        Self { lengths }
    }
}

pub(super) fn source(unit: u32) -> u32 {
    unit
}

pub(super) fn header(rank: u32) -> u32 {
    UNITS + rank
}

pub(super) fn object(unit: u32) -> u32 {
    UNITS + HEADERS + unit
}

const KERNEL_FILE: u32 = UNITS + HEADERS + UNITS;

impl Workload for KernelTree {
    fn files(&self) -> Vec<FileSpec> {
        let directory = |file: u32| match file {
            _ if file < header(0) => file * SOURCE_DIRECTORIES / UNITS,
            _ if file < object(0) => SOURCE_DIRECTORIES + file % HEADER_DIRECTORIES,
            KERNEL_FILE => 0,
            _ => (file - object(0)) * SOURCE_DIRECTORIES / UNITS,
        };
        (0..)
            .zip(&self.lengths)
            .map(|(n, length)| FileSpec { length: *length, directory: directory(n) })
            .collect()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(1)
    }

    fn program(&mut self, _number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let headers = Zipf::new(f64::from(HEADERS), 1.0).ok();
        Script::boxed(Build { lengths: self.lengths.clone(), headers, stage: Stage::Compile(0) })
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Compile(u32),
    Link(u32),
    Write,
    Ended,
}

struct Build {
    lengths: Vec<Bytes>,
    headers: Option<Zipf<f64>>,
    stage: Stage,
}

impl Build {
    fn read_whole(&self, file: u32, steps: &mut Steps) {
        let length = self.lengths[file as usize];
        let mut reader = Reader::new(Handle(0), length);
        steps.open(reader.handle, FileNumber(file), Some(length));
        while !reader.left().is_zero() {
            reader.read(CHUNK, steps);
        }
        steps.close(reader.handle);
    }

    fn write_whole(&self, file: u32, steps: &mut Steps) {
        let (length, handle) = (self.lengths[file as usize], Handle(1));
        steps.open(handle, FileNumber(file), None);
        let mut at = Bytes::ZERO;
        while at < length {
            let chunk = CHUNK.min(length - at);
            steps.write(handle, ByteOffset(at.get()), chunk);
            at += chunk;
        }
        steps.close(handle);
    }

    fn compile(&self, unit: u32, random: &mut dyn Rng, steps: &mut Steps) {
        let part = UNIT_COST / u64::from(INCLUDES + 1);
        self.read_whole(source(unit), steps);
        steps.compute(part);
        for _ in 0..INCLUDES {
            let rank = self.headers.map_or(1.0, |ranks| ranks.sample(random)) as u32;
            self.read_whole(header(rank.clamp(1, HEADERS) - 1), steps);
            steps.compute(part);
        }
        self.write_whole(object(unit), steps);
    }
}

impl Source for Build {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        self.stage = match self.stage {
            Stage::Compile(unit) => {
                self.compile(unit, random, steps);
                if unit + 1 < UNITS { Stage::Compile(unit + 1) } else { Stage::Link(0) }
            }
            Stage::Link(unit) => {
                self.read_whole(object(unit), steps);
                steps.compute(LINK_A_BYTE * self.lengths[object(unit) as usize].get());
                if unit + 1 < UNITS { Stage::Link(unit + 1) } else { Stage::Write }
            }
            Stage::Write => {
                self.write_whole(KERNEL_FILE, steps);
                steps.finished();
                Stage::Ended
            }
            Stage::Ended => Stage::Ended,
        };
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::trail;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_build_reads_whole_small_files_and_writes_each_object_once() {
        let mut build = KernelTree::new();
        let lengths = build.lengths.clone();
        let trail = trail(&mut build, 0, &mut Pcg64Mcg::seed_from_u64(1));
        assert_eq!(trail.finished, 1);
        let mut opens = BTreeMap::new();
        for (file, announced) in &trail.opens {
            let (reads, writes) = opens.entry(file.0).or_insert((0, 0));
            match announced {
                Some(announced) => {
                    assert_eq!(*announced, lengths[file.0 as usize]);
                    *reads += 1;
                }
                None => *writes += 1,
            }
        }
        assert!((0..UNITS).all(|unit| opens[&source(unit)] == (1, 0) && opens[&object(unit)] == (1, 1)));
        assert_eq!(opens[&KERNEL_FILE], (0, 1));
        let includes: u32 =
            (0..HEADERS).filter_map(|rank| opens.get(&header(rank))).map(|(reads, _)| reads).sum();
        assert_eq!(includes, UNITS * INCLUDES);
        let mean = lengths[..UNITS as usize].iter().copied().sum::<Bytes>().get() as f64 / f64::from(UNITS);
        assert!((mean / SOURCE_MEAN - 1.0).abs() < 0.1, "{mean}");
        let written: Bytes = trail.writes.iter().map(|(_, range)| range.len()).sum();
        assert_eq!(written, lengths[object(0) as usize..].iter().copied().sum());
    }
}
