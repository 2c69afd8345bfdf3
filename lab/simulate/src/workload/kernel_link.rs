//! Linking a Linux 2.6.18 kernel that has been compiled (ATC'08 section 3.7).
//!
//! What the paper says: "executing `make vmlinux` in the kernel source directory after executing `make vmlinux` and `rm vmlinux`. The link
//! operation requires a high computational overhead and small reads that inspect the modification date of the source files."
//!
//! The assumptions for the rest: the tree is that of [`kernel_build`](super::kernel_build), with 1200 units.
//! Beside each object lies the file in which the build keeps its command and its dependencies: 12 KiB (150
//! headers, named twice in 40 bytes). `make` goes through the units: it reads that file and gets the attributes
//! of the object, of its source and of its 150 headers. That costs 8 ms of processor time for a unit: a build
//! with nothing to do took about ten seconds on such a machine. Then the linker reads all objects whole, 4 KiB
//! at a time, at 13 ns a byte (that of `kernel_build` at 3 GHz), and writes the image of 20 MiB. It does so
//! three times: a kernel that contains the names of its symbols is linked until their table fits
//! (`CONFIG_KALLSYMS`, two links before the last).

use super::WorkloadError;
use super::kernel_build::{HEADERS, INCLUDES, KERNEL, KernelTree, MEMORY, UNITS, header, object, source};
use super::parameters::Checked;
use super::script::{Reader, Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, Bytes, Nanos};
use rand_core::Rng;
use rand_distr::{Distribution, Zipf};

/// The assumptions; each is explained above.
const COMMAND: Bytes = Bytes::kib(12);
const MAKE_A_UNIT: Nanos = Nanos::from_millis(8);
const LINK_A_BYTE: Nanos = Nanos(13);
const LINKS: u32 = 3;
const CHUNK: Bytes = Bytes::kib(4);

pub(super) fn kernel_link(_: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    Ok(Box::new(KernelLink(KernelTree::new())))
}

struct KernelLink(KernelTree);

impl KernelLink {
    /// The numbers of files in the order in which they were written: sources and headers as in the tree, then
    /// each unit's object and the file of its command, finally the image.
    fn number(file: File) -> FileNumber {
        let first = object(0);
        FileNumber(match file {
            File::Tree(file) => file,
            File::Object(unit) => first + 2 * unit,
            File::Command(unit) => first + 2 * unit + 1,
            File::Image => first + 2 * UNITS,
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum File {
    Tree(u32),
    Object(u32),
    Command(u32),
    Image,
}

impl Workload for KernelLink {
    fn files(&self) -> Vec<FileSpec> {
        let tree = self.0.files();
        let mut files = tree[..object(0) as usize].to_vec();
        for unit in 0..UNITS {
            let object = tree[object(unit) as usize];
            files.extend([object, FileSpec { length: COMMAND, ..object }]);
        }
        files.extend(tree.last());
        files
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(1)
    }

    fn program(&mut self, _number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let lengths = self.files().into_iter().map(|file| file.length).collect();
        Script::boxed(Link {
            lengths,
            headers: Zipf::new(f64::from(HEADERS), 1.0).ok(),
            stage: Stage::Make(0),
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Make(u32),
    Link(u32, u32),
    Write(u32),
    Ended,
}

struct Link {
    lengths: Vec<Bytes>,
    headers: Option<Zipf<f64>>,
    stage: Stage,
}

const FILE: Handle = Handle(0);

impl Link {
    fn read_whole(&self, file: File, steps: &mut Steps) -> Bytes {
        let file = KernelLink::number(file);
        let length = self.lengths[file.0 as usize];
        let mut reader = Reader::new(FILE, length);
        steps.open(FILE, file, Some(length));
        while !reader.left().is_zero() {
            reader.read(CHUNK, steps);
        }
        steps.close(FILE);
        length
    }

    fn make(&self, unit: u32, random: &mut dyn Rng, steps: &mut Steps) {
        let stat = |file, steps: &mut Steps| steps.stat(KernelLink::number(file));
        self.read_whole(File::Command(unit), steps);
        stat(File::Object(unit), steps);
        stat(File::Tree(source(unit)), steps);
        for _ in 0..INCLUDES {
            let rank = self.headers.map_or(1.0, |ranks| ranks.sample(random)) as u32;
            stat(File::Tree(header(rank.clamp(1, HEADERS) - 1)), steps);
        }
        steps.compute(MAKE_A_UNIT);
    }

    fn write_image(&self, steps: &mut Steps) {
        steps.open(FILE, KernelLink::number(File::Image), None);
        let mut at = Bytes::ZERO;
        while at < KERNEL {
            steps.write(FILE, ByteOffset(at.get()), CHUNK);
            at += CHUNK;
        }
        steps.close(FILE);
    }
}

impl Source for Link {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        self.stage = match self.stage {
            Stage::Make(unit) => {
                self.make(unit, random, steps);
                if unit + 1 < UNITS { Stage::Make(unit + 1) } else { Stage::Link(0, 0) }
            }
            Stage::Link(link, unit) => {
                let read = self.read_whole(File::Object(unit), steps);
                steps.compute(LINK_A_BYTE * read.get());
                if unit + 1 < UNITS { Stage::Link(link, unit + 1) } else { Stage::Write(link) }
            }
            Stage::Write(link) => {
                self.write_image(steps);
                if link + 1 < LINKS {
                    Stage::Link(link + 1, 0)
                } else {
                    steps.finished();
                    Stage::Ended
                }
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
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;
    use std::collections::BTreeMap;

    #[test]
    fn each_object_is_read_in_each_link_and_the_image_written() {
        let mut link = KernelLink(KernelTree::new());
        let files = link.files();
        let trail = trail(&mut link, 0, &mut Pcg64Mcg::seed_from_u64(1));
        let mut opens = BTreeMap::new();
        trail.opens.iter().for_each(|(file, _)| *opens.entry(*file).or_insert(0) += 1);
        let times = |file| opens.get(&KernelLink::number(file)).copied().unwrap_or(0);
        assert!((0..UNITS).all(|unit| times(File::Object(unit)) == LINKS && times(File::Command(unit)) == 1));
        assert_eq!((times(File::Image), times(File::Tree(0))), (LINKS, 0));
        assert_eq!(files[KernelLink::number(File::Image).0 as usize].length, KERNEL);
        let written: Bytes = trail.writes.iter().map(|(_, range)| range.len()).sum();
        assert_eq!(written, KERNEL * u64::from(LINKS));
    }
}
