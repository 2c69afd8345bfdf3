//! The BLAST genetic sequence server of TR-840 section 5.1.
//!
//! What the paper says: nucleotide sequences of 10.9 GB, based on GenBank; each request is a process
//! that runs the unchanged BLAST on one of 1000 synthetic queries; whole files are read (table 1).
//! The paper's text says nothing of file sizes or of how much a query searches.
//!
//! What is taken instead: NCBI's `formatdb` cuts a database into volumes of at most a billion
//! letters, which two bits a letter make 250 MB; there are 44 of 248 MB, and a query scans one of
//! them from start to end: a scan of all would take five minutes of a disk. BLAST maps a volume where
//! it can and reads it through stdio, 4 KiB at a time, where it cannot. The paper's 32-bit Xeons can
//! map 3 GB of address space and not 10.9 GB, so that most volumes are read; here all are, and
//! `mapped` maps them all instead. (What the paper measured fits only reading: a fault of Linux 2.6.3
//! reads a fixed cluster, whatever the depth of read-ahead.) Scanning costs 25 ns a byte, or 6 ns a
//! letter: some 13 cycles of the 2 GHz Xeon, most of them for the look-up of each word of 8 letters.
//! A process has 4 MiB of its own (look-up table and alignments). Volumes lie in one directory. An
//! oracle is told the volume's length.

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{Bytes, Nanos, PAGE_SIZE, PageIndex, Pages};
use rand::RngExt;
use rand_core::Rng;

/// TR-840 section 5.1.
const DATA: Bytes = Bytes(10_900_000_000);
/// The assumptions; each is explained above.
const VOLUME: Bytes = Bytes(248_000_000);
const MEMORY: Bytes = Bytes::mib(4);
const COST_A_PAGE: Nanos = Nanos(25 * PAGE_SIZE);
/// Starting the process, reading the query and building its table of words.
const COST_A_QUERY: Nanos = Nanos::from_millis(5);
/// Pages whose steps are made at a time.
const BATCH: Pages = Pages(16);

pub(super) fn sequence_search(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let volume = parameters.file_size(VOLUME, Bytes(PAGE_SIZE))?;
    let data = parameters.data_size(DATA, volume)?;
    let memory = parameters.handler_memory(MEMORY);
    let mapped = parameters.mapped(false);
    let volumes = u32::try_from(data.get().div_ceil(volume.get())).unwrap_or(u32::MAX);
    Ok(Box::new(SequenceSearch { volume, volumes, memory, mapped }))
}

#[derive(Debug)]
struct SequenceSearch {
    volume: Bytes,
    volumes: u32,
    memory: Bytes,
    mapped: bool,
}

impl Workload for SequenceSearch {
    fn files(&self) -> Vec<FileSpec> {
        vec![FileSpec { length: self.volume, directory: 0 }; self.volumes as usize]
    }

    fn drive(&self) -> Drive {
        Drive::Closed
    }

    fn program(&mut self, _number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        let file = FileNumber(random.random_range(0..self.volumes));
        Script::boxed(Scan { file, length: self.volume, at: None, memory: self.memory, mapped: self.mapped })
    }
}

/// Scans one volume.
#[derive(Debug)]
struct Scan {
    file: FileNumber,
    length: Bytes,
    /// The next page; `None` before the start.
    at: Option<PageIndex>,
    memory: Bytes,
    mapped: bool,
}

impl Source for Scan {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        let handle = Handle(0);
        let at = self.at.unwrap_or_else(|| {
            steps.compute(COST_A_QUERY);
            steps.open(handle, self.file, Some(self.length));
            PageIndex::ZERO
        });
        let end = PageIndex(self.length.pages_ceil().get());
        if at >= end {
            return;
        }
        let next = (at + BATCH).min(end);
        for page in foreseek_units::Span::new(at, next).iter() {
            if self.mapped {
                steps.touch(handle, page);
            } else {
                let left = self.length - Bytes(page.offset().get());
                steps.read(handle, page.offset(), left.min(Bytes(PAGE_SIZE)));
            }
            steps.compute(COST_A_PAGE);
        }
        if next == end {
            steps.close(handle);
            steps.finished();
        }
        self.at = Some(next);
    }

    fn memory(&self) -> Bytes {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::trail;
    use super::super::{Parameters, by_name};
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn the_data_are_the_papers_and_a_query_scans_a_volume() {
        let mapped = Parameters { mapped: Some(true), ..Parameters::default() };
        let mut search = by_name("sequence-search", &mapped).expect("known");
        let files = search.files();
        let total = files.iter().map(|file| file.length).sum::<Bytes>().get() as f64;
        assert!((total / 10.9e9 - 1.0).abs() < 0.01, "{total}");
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..3 {
            let trail = trail(&mut *search, number, &mut random);
            let pages: Vec<u64> = trail.touches.iter().map(|(_, page)| page.get()).collect();
            assert!(pages.iter().copied().eq(0..VOLUME.pages_ceil().get()));
            assert_eq!(trail.computed, COST_A_QUERY + COST_A_PAGE * pages.len() as u64);
            seen.insert(trail.opens[0].0);
        }
        assert!(seen.len() > 1);
        let mut read = by_name("sequence-search", &Parameters::default()).expect("known");
        let trail = trail(&mut *read, 0, &mut random);
        assert_eq!(trail.reads.iter().map(|(_, range)| range.len()).sum::<Bytes>(), VOLUME);
        assert!(trail.touches.is_empty());
    }
}
