//! `cp` and BSD `diff`, alone and together (EuroSys'07 section 6.1 and 6.2).
//!
//! From the paper:
//!
//! - `cp5` and `cp50` copy a file of 5 or 50 MB chunk by chunk.
//! - `diff5` and `diff50` compare two files of 5 or 50 MB, reading them alternately, as BSD's diff does.
//! - `2cp5`, `2cp50`, `2diff5`, `2diff50`, `cp5+diff5` and `cp50+diff50` are two of them at once, each with
//!   its own files.
//!
//! Assumptions:
//!
//! - MB are binary. A chunk is 4 KiB, the block size that the file system reports and both programs use for
//!   their buffers.
//! - The compared files are equal, so that both are read to their end.
//! - Every file is in a separate directory (an old and a new tree, a source and a target): a new file system
//!   then places them apart.
//! - `cp` overwrites a target of the same length, whole pages at a time. The layout has chosen the target's
//!   place.
//! - `diff` costs 5 ns of processor time per byte for hashing lines (ten cycles); `cp` nothing beyond its
//!   system calls.
//! - A process has 1 MiB of private memory.
//! - An oracle knows that files are read whole.

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Reader, Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, Bytes, Nanos};
use rand_core::Rng;

/// A program's buffer (`st_blksize` of ext2 and ext3 with blocks of 4 KiB).
const CHUNK: Bytes = Bytes::kib(4);
/// Cost of a byte in `diff`: an assumption.
const DIFF_A_BYTE: Nanos = Nanos(5);
/// Private memory of a process: an assumption.
const MEMORY: Bytes = Bytes::mib(1);

/// One process of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// Copies a file of this length.
    Copy(Bytes),
    /// Compares two files of this length.
    Diff(Bytes),
}

const FIVE: Bytes = Bytes::mib(5);
const FIFTY: Bytes = Bytes::mib(50);

/// The batch of each name.
const BATCHES: &[(&str, &[Job])] = &[
    ("cp5", &[Job::Copy(FIVE)]),
    ("cp50", &[Job::Copy(FIFTY)]),
    ("diff5", &[Job::Diff(FIVE)]),
    ("diff50", &[Job::Diff(FIFTY)]),
    ("2cp5", &[Job::Copy(FIVE); 2]),
    ("2cp50", &[Job::Copy(FIFTY); 2]),
    ("2diff5", &[Job::Diff(FIVE); 2]),
    ("2diff50", &[Job::Diff(FIFTY); 2]),
    ("cp5+diff5", &[Job::Copy(FIVE), Job::Diff(FIVE)]),
    ("cp50+diff50", &[Job::Copy(FIFTY), Job::Diff(FIFTY)]),
];

pub(super) fn utilities(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let name = parameters.workload();
    let jobs = BATCHES.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, jobs)| jobs);
    Ok(Box::new(Utilities { jobs }))
}

#[derive(Debug)]
struct Utilities {
    jobs: &'static [Job],
}

impl Workload for Utilities {
    fn files(&self) -> Vec<FileSpec> {
        let two = |job: &Job| match job {
            Job::Copy(length) | Job::Diff(length) => [*length; 2],
        };
        let lengths = self.jobs.iter().flat_map(two);
        (0..).zip(lengths).map(|(directory, length)| FileSpec { length, directory }).collect()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.jobs.len() as u32)
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let at = number as usize % self.jobs.len();
        let files = [FileNumber(2 * at as u32), FileNumber(2 * at as u32 + 1)];
        match self.jobs[at] {
            Job::Copy(length) => Script::boxed(Copy { files, length, at: None }),
            Job::Diff(length) => {
                let readers = [0, 1].map(|handle| Reader::new(Handle(handle), length));
                Script::boxed(Diff { files, readers, begun: false })
            }
        }
    }
}

#[derive(Debug)]
struct Copy {
    files: [FileNumber; 2],
    length: Bytes,
    /// The current offset; `None` before the start.
    at: Option<Bytes>,
}

impl Source for Copy {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        let [from, to] = [Handle(0), Handle(1)];
        let at = self.at.unwrap_or_else(|| {
            steps.open(from, self.files[0], Some(self.length));
            steps.open(to, self.files[1], None);
            Bytes::ZERO
        });
        if at >= self.length {
            return;
        }
        let chunk = CHUNK.min(self.length - at);
        steps.read(from, ByteOffset(at.get()), chunk);
        steps.write(to, ByteOffset(at.get()), chunk);
        if at + chunk == self.length {
            steps.close(from);
            steps.close(to);
            steps.finished();
        }
        self.at = Some(at + chunk);
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}

#[derive(Debug)]
struct Diff {
    files: [FileNumber; 2],
    readers: [Reader; 2],
    begun: bool,
}

impl Source for Diff {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        if !self.begun {
            self.begun = true;
            for (reader, file) in self.readers.iter().zip(self.files) {
                steps.open(reader.handle, file, Some(reader.left()));
            }
        }
        if self.readers[0].left().is_zero() {
            return;
        }
        for reader in &mut self.readers {
            let read = reader.read(CHUNK, steps);
            steps.compute(DIFF_A_BYTE * read.get());
        }
        if self.readers[0].left().is_zero() {
            self.readers.iter().for_each(|reader| steps.close(reader.handle));
            steps.finished();
        }
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

    fn batch(name: &str) -> Utilities {
        Utilities { jobs: BATCHES.iter().find(|(known, _)| *known == name).expect(name).1 }
    }

    #[test]
    fn a_copy_reads_and_writes_every_byte_once() {
        let trail = trail(&mut batch("cp5"), 0, &mut Pcg64Mcg::seed_from_u64(1));
        assert_eq!((trail.reads.len(), trail.writes.len()), (1280, 1280));
        assert!(trail.reads.iter().zip(&trail.writes).all(|((_, read), (_, write))| read == write));
        assert!(trail.opens[0].0 != trail.opens[1].0 && trail.opens[0].1 == Some(FIVE));
    }

    #[test]
    fn a_diff_reads_both_files_alternately() {
        let trail = trail(&mut batch("diff50"), 0, &mut Pcg64Mcg::seed_from_u64(1));
        assert_eq!(trail.reads.len(), 2 * 12_800);
        for (n, (handle, range)) in trail.reads.iter().enumerate() {
            assert_eq!((handle.0 as usize, range.start.get()), (n % 2, n as u64 / 2 * 4096));
        }
        assert_eq!(trail.computed, Nanos(5 * 2 * FIFTY.get()));
    }

    #[test]
    fn two_at_once_share_no_file() {
        for (name, jobs) in BATCHES.iter().filter(|(_, jobs)| jobs.len() == 2) {
            let mut batch = batch(name);
            assert_eq!(batch.drive(), Drive::Jobs(2));
            let mut random = Pcg64Mcg::seed_from_u64(1);
            let mut opens: Vec<_> = (0..2).flat_map(|n| trail(&mut batch, n, &mut random).opens).collect();
            opens.sort_by_key(|(file, _)| *file);
            opens.dedup_by_key(|(file, _)| *file);
            assert_eq!(opens.len(), 4, "{name} {jobs:?}");
        }
    }
}
