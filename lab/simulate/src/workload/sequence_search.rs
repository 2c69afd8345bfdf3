//! The BLAST genetic sequence server of TR-840 section 5.1.
//!
//! What the paper says: nucleotide sequences of 10.9 GB, based on GenBank; each request is a process
//! that runs the unchanged BLAST on one of 1000 synthetic queries; whole files are read (table 1).
//! The paper's text says nothing of file sizes or of how much a query searches.
//!
//! The assumptions: NCBI's `formatdb` cuts a database into volumes of at most a billion letters, which take 250
//! MB at two bits a letter. There are 44 of 248 MB, and a query scans one of them from start to end: a scan of
//! all would take five minutes of a disk. BLAST maps a volume where it can and reads it through stdio, 4 KiB at
//! a time, where it cannot. The paper's 32-bit Xeons can map 3 GB of address space and not 10.9 GB, so that
//! most volumes are read; here all are, and `mapped` maps them all instead. (What the paper measured fits only
//! reading: a fault of Linux 2.6.3 reads a fixed cluster, whatever the size of read-ahead.) Scanning costs 25
//! ns a byte, or 6 ns a letter: some 13 cycles of the 2 GHz Xeon, most of them for the look-up of each word of
//! 8 letters. A process has 4 MiB of its own (look-up table and alignments). Volumes lie in one directory. An
//! oracle knows the volume's length.
//!
//! With `whole` a query scans all volumes, as BLAST does where the database is not divided among queries. It
//! begins and ends at a random place in them, like one of many queries that began at different times.
//!
//! With `under_way` the queries with which a run begins have a part of their scan behind them, each another one: they
//! begin at a random place and end where they would. Otherwise all begin at once, and hundreds of queries end together
//! after many minutes.

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
/// Pages of one batch of steps.
const BATCH: Pages = Pages(16);

pub(super) fn sequence_search(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let volume = parameters.file_size(VOLUME, Bytes(PAGE_SIZE))?;
    let data = parameters.data_size(DATA, volume)?;
    let memory = parameters.handler_memory(MEMORY);
    let mapped = parameters.mapped(false);
    let whole = parameters.whole();
    let under_way = parameters.under_way();
    let volumes = u32::try_from(data.get().div_ceil(volume.get())).unwrap_or(u32::MAX);
    Ok(Box::new(SequenceSearch { volume, volumes, memory, mapped, whole, under_way, first: 0 }))
}

#[derive(Debug)]
struct SequenceSearch {
    volume: Bytes,
    volumes: u32,
    memory: Bytes,
    mapped: bool,
    whole: bool,
    under_way: bool,
    /// Requests with which a run begins.
    first: u64,
}

impl Workload for SequenceSearch {
    fn files(&self) -> Vec<FileSpec> {
        vec![FileSpec { length: self.volume, directory: 0 }; self.volumes as usize]
    }

    fn drive(&self) -> Drive {
        Drive::Closed
    }

    fn begins_with(&mut self, requests: u32) {
        self.first = u64::from(requests);
    }

    fn program(&mut self, number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        let Self { volume: length, volumes, memory, mapped, whole, under_way, first } = *self;
        let under_way = under_way && number < first;
        let file = FileNumber(random.random_range(0..volumes));
        let pages = length.pages_ceil().get();
        let anywhere = whole || under_way;
        let begin = if anywhere { PageIndex(random.random_range(0..pages)) } else { PageIndex::ZERO };
        let parts = match whole {
            false => 1,
            true => volumes + u32::from(begin > PageIndex::ZERO),
        };
        let parts = if under_way { random.random_range(1..=parts) } else { parts };
        Script::boxed(Scan { file, length, volumes, begin, parts, at: None, first: true, memory, mapped })
    }
}

/// Scans one volume, or all of them in turn: from a place in one of them on, with the beginning of that one
/// last.
#[derive(Debug)]
struct Scan {
    file: FileNumber,
    length: Bytes,
    volumes: u32,
    /// The page at which the scan begins.
    begin: PageIndex,
    /// Volumes and parts of one that are left, with this one.
    parts: u32,
    /// The next page; `None` before this part.
    at: Option<PageIndex>,
    /// Whether this is the first part.
    first: bool,
    memory: Bytes,
    mapped: bool,
}

impl Source for Scan {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        if self.parts == 0 {
            return;
        }
        let handle = Handle(0);
        let at = self.at.unwrap_or_else(|| {
            if self.first {
                steps.compute(COST_A_QUERY);
            }
            steps.open(handle, self.file, Some(self.length));
            if self.first { self.begin } else { PageIndex::ZERO }
        });
        let comes_back = !self.first && self.parts == 1 && self.begin > PageIndex::ZERO;
        let end = if comes_back { self.begin } else { PageIndex(self.length.pages_ceil().get()) };
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
        self.at = Some(next);
        if next == end {
            steps.close(handle);
            self.parts -= 1;
            (self.at, self.first) = (None, false);
            self.file = FileNumber((self.file.0 + 1) % self.volumes);
            if self.parts == 0 {
                steps.finished();
            }
        }
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

    #[test]
    fn a_run_begins_with_queries_that_end_one_by_one() {
        let under_way = Parameters { under_way: Some(true), ..Parameters::default() };
        let mut search = by_name("sequence-search", &under_way).expect("known");
        search.begins_with(40);
        let mut random = Pcg64Mcg::seed_from_u64(2);
        let mut read = |number| {
            let trail = trail(&mut *search, number, &mut random);
            let last = trail.reads.last().map(|(_, range)| range.end.get());
            assert_eq!((trail.opens.len(), last), (1, Some(VOLUME.get())));
            trail.reads.iter().map(|(_, range)| range.len()).sum::<Bytes>()
        };
        let left: std::collections::BTreeSet<Bytes> = (0..40).map(&mut read).collect();
        assert!(left.len() == 40, "{left:?}");
        let mean = left.iter().copied().sum::<Bytes>().get() as f64 / 40.0;
        assert!((mean / (VOLUME.get() as f64 / 2.0) - 1.0).abs() < 0.3, "{mean}");
        assert_eq!(read(40), VOLUME, "those that follow scan all");
    }

    #[test]
    fn a_query_of_the_whole_scans_each_page_of_each_volume_once() {
        let small = Parameters {
            whole: Some(true),
            file_size: Some(Bytes::kib(100)),
            data_size: Some(Bytes::kib(300)),
            ..Parameters::default()
        };
        let mut search = by_name("sequence-search", &small).expect("known");
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let mut begins = std::collections::BTreeSet::new();
        for number in 0..40 {
            let trail = trail(&mut *search, number, &mut random);
            assert_eq!(trail.reads.iter().map(|(_, range)| range.len()).sum::<Bytes>(), Bytes::kib(300));
            let volumes: std::collections::BTreeSet<_> = trail.opens.iter().map(|open| open.0).collect();
            assert_eq!(volumes.len(), 3);
            begins.insert(trail.reads[0].1.start);
        }
        assert!(begins.len() > 10, "{begins:?}");
    }
}
