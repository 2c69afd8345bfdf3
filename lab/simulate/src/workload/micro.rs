//! The four microbenchmarks of TR-840 section 5.1 and EuroSys'07 section 6.1.
//!
//! A server has 6000 files of 4 MB. Each request is a handler of its own with 1 MB of private memory:
//!
//! - `one-whole-0` reads one random file in blocks of 64 KB to its end.
//! - `one-rand-10` reads one random file in blocks of 64 KB from its start up to a random total,
//!   evenly distributed between 64 KB and the file's length, and pauses for 10 ms at four random
//!   points of that.
//! - `two-rand-0` reads blocks of 64 KB in turn from two random files, of each a random portion as
//!   above. When one portion has ended, the rest of the other follows.
//! - `four-64kb-0` reads a random block of 64 KB of each of four random files.
//!
//! What the papers leave open: KB and MB are taken as binary, since the programs read 16 pages at a time (the
//! data set then has 25.2 GB, the papers say 24.0). Totals are uniform over bytes, so that the last read is
//! short. The points of a pause are drawn from the reads of a request, with repetition, and a pause follows its
//! read; it is a wait without the processor ("think time", TR-840). Files of one request differ from each
//! other. Files lie in directories of 100 (assumption; on a new file system one directory of 6000 would be as
//! full). An oracle knows the portion, as through the extended `open` of EuroSys'07 section 6.2.

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Reader, Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, Bytes, Nanos};
use rand::RngExt;
use rand_core::Rng;

/// The size of a handler's read.
const BLOCK: Bytes = Bytes::kib(64);
/// A file, and how many there are.
const FILE: Bytes = Bytes::mib(4);
const FILES: u64 = 6000;
/// Private memory of a handler.
const MEMORY: Bytes = Bytes::mib(1);
/// Files of a directory: an assumption.
const A_DIRECTORY: u64 = 100;
/// Pauses of a request, and how long one is.
const PAUSES: usize = 4;
const PAUSE: Nanos = Nanos::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    OneWhole,
    OneRand,
    TwoRand,
    FourChunks,
}

impl Kind {
    fn files(self) -> u64 {
        match self {
            Self::OneWhole | Self::OneRand => 1,
            Self::TwoRand => 2,
            Self::FourChunks => 4,
        }
    }
}

pub(super) fn one_whole(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    Micro::boxed(Kind::OneWhole, parameters)
}

pub(super) fn one_rand(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    Micro::boxed(Kind::OneRand, parameters)
}

pub(super) fn two_rand(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    Micro::boxed(Kind::TwoRand, parameters)
}

pub(super) fn four_chunks(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    Micro::boxed(Kind::FourChunks, parameters)
}

#[derive(Debug)]
struct Micro {
    kind: Kind,
    file: Bytes,
    files: u64,
    memory: Bytes,
}

impl Micro {
    fn boxed(kind: Kind, parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
        let file = parameters.file_size(FILE, BLOCK)?;
        let data = parameters.data_size(FILE * FILES, file * kind.files())?;
        let memory = parameters.handler_memory(MEMORY);
        Ok(Box::new(Self { kind, file, files: data / file, memory }))
    }
}

impl Workload for Micro {
    fn files(&self) -> Vec<FileSpec> {
        let directory = |n| u32::try_from(n / A_DIRECTORY).unwrap_or(u32::MAX);
        (0..self.files).map(|n| FileSpec { length: self.file, directory: directory(n) }).collect()
    }

    fn drive(&self) -> Drive {
        Drive::Closed
    }

    fn program(&mut self, _number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        let mut files: Vec<FileNumber> = Vec::new();
        while (files.len() as u64) < self.kind.files() {
            let file = FileNumber(random.random_range(0..self.files) as u32);
            if !files.contains(&file) {
                files.push(file);
            }
        }
        let (file, memory) = (self.file, self.memory);
        match self.kind {
            Kind::FourChunks => Script::boxed(Chunks { files, blocks: file / BLOCK, memory, at: 0 }),
            Kind::OneWhole => Script::boxed(Portions::new(&files, memory, |_| file, &[])),
            Kind::TwoRand => {
                let mut total = |_| Bytes(random.random_range(BLOCK.get()..=file.get()));
                Script::boxed(Portions::new(&files, memory, &mut total, &[]))
            }
            Kind::OneRand => {
                let total = Bytes(random.random_range(BLOCK.get()..=file.get()));
                let reads = total.get().div_ceil(BLOCK.get());
                let pauses: [u64; PAUSES] = std::array::from_fn(|_| random.random_range(0..reads));
                Script::boxed(Portions::new(&files, memory, |_| total, &pauses))
            }
        }
    }
}

/// Reads the first part of one or two files, a block of each in turn.
struct Portions {
    /// The files to be opened, and how much of each will be read.
    opens: Vec<(FileNumber, Bytes)>,
    readers: Vec<Reader>,
    /// The reads after which there is a pause.
    pauses: Vec<u64>,
    reads: u64,
    memory: Bytes,
    ended: bool,
}

impl Portions {
    fn new(
        files: &[FileNumber],
        memory: Bytes,
        mut total: impl FnMut(usize) -> Bytes,
        pauses: &[u64],
    ) -> Self {
        let opens: Vec<_> = files.iter().enumerate().map(|(n, file)| (*file, total(n))).collect();
        let reader = |(n, (_, total)): (usize, &(FileNumber, Bytes))| Reader::new(Handle(n as u32), *total);
        let readers = opens.iter().enumerate().map(reader).collect();
        Self { opens, readers, pauses: pauses.to_vec(), reads: 0, memory, ended: false }
    }
}

impl Source for Portions {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        for (n, (file, total)) in self.opens.drain(..).enumerate() {
            steps.open(Handle(n as u32), file, Some(total));
        }
        let before = self.reads;
        for reader in self.readers.iter_mut().filter(|reader| !reader.left().is_zero()) {
            reader.read(BLOCK, steps);
            let pauses = self.pauses.iter().filter(|at| **at == self.reads).count();
            (0..pauses).for_each(|_| steps.sleep(PAUSE));
            self.reads += 1;
        }
        if self.reads == before && !self.ended {
            self.readers.iter().for_each(|reader| steps.close(reader.handle));
            steps.finished();
            self.ended = true;
        }
    }

    fn memory(&self) -> Bytes {
        self.memory
    }
}

/// Reads one random block of each of some files.
struct Chunks {
    files: Vec<FileNumber>,
    blocks: u64,
    memory: Bytes,
    at: usize,
}

impl Source for Chunks {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        let handle = Handle(self.at as u32);
        let Some(file) = self.files.get(self.at) else { return };
        let block = random.random_range(0..self.blocks);
        steps.open(handle, *file, Some(BLOCK));
        steps.read(handle, ByteOffset(block * BLOCK.get()), BLOCK);
        steps.close(handle);
        self.at += 1;
        if self.at == self.files.len() {
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        self.memory
    }
}

#[cfg(test)]
mod tests;
