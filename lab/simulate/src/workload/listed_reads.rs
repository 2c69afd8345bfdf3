//! Programs that know all of their reads: the sequential read and the table scan by a secondary index of ATC'09
//! sections 5.2 and 5.4.
//!
//! `file-read`: "reads a file from beginning to end. It is similar to `cat file > /dev/null`."
//!
//! `table-scan`: SQLite's `SELECT * FROM customer ORDER BY c_zip` over TPC-C's customer table with an index by zip code, in
//! pages of 4 KiB. Each process has a database of its own. What the paper says:
//!
//! - 7 to 218 warehouses make 132 to 4110 MB. By TPC-C a warehouse has 30,000 customers.
//! - Rows lie in the order of loading: "each resulting row will be in a random file location relative to the previous row".
//! - A process takes about 20 MB (section 5.6).
//! - With libprefetch the callback "iterates the index and tells libprefetch about the table data that the index points to",
//!   marking index pages.
//!
//! What it leaves open, and the assumptions:
//!
//! - MB are binary, as the machine's memory. A row then takes 659 bytes of the file, 19 of them in the index:
//!   220 entries fill one of its pages, as in the demonstration's database, which SQLite itself wrote. The
//!   index lies behind the table.
//! - A row lies in one page. Interior pages of both trees are part of the process's 20 MB; so is SQLite's own
//!   cache, which with random access holds hardly any leaf that is needed again.
//! - A row costs 45 us of processor time beside its call: libprefetch took 11.6 s for 210,000 rows that are
//!   read from the disk in 1.3 s (section 5.4 and figure 10), and a call with its checks takes 4 us. The row
//!   LP-sqlite-fits is marked for that.
//! - A read of the file has 4 KiB, as that of `cat` at the time, and costs nothing beside its call and copy.

use super::WorkloadError;
use super::parameters::Checked;
use crate::directed::{Application, Hint, Pair};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Step, Workload};
use foreseek_hints::CallbackRequest;
use foreseek_seam::{Access, HintMode, ObjectId};
use foreseek_units::{Bytes, Instant, Nanos, PAGE_SIZE, PageIndex, Pages, Span};
use rand::RngExt;
use rand_core::Rng;
use std::sync::Arc;

/// The file and the database of figures 8 and 10 at their largest and smallest.
const FILE: Bytes = Bytes::gib(1);
const DATABASE: Bytes = Bytes::mib(132);
/// Bytes of a row in a database, and entries of a page of its index.
const A_ROW: Bytes = Bytes(659);
const ENTRIES: u64 = 220;
/// Processor time of a row.
const ROW: Nanos = Nanos::from_micros(45);
/// Private memory of a scan and of a plain reader.
const SCANS_MEMORY: Bytes = Bytes::mib(20);
const READERS_MEMORY: Bytes = Bytes::mib(1);
/// Accesses of one hint.
const BATCH: usize = 4096;

pub(super) fn file_read(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let length = parameters.data_size(FILE, Bytes(PAGE_SIZE))?;
    Ok(Box::new(Listed { length, processes: 1, scan: None }))
}

pub(super) fn table_scan(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let length = parameters.data_size(DATABASE, Bytes::mib(1))?;
    let processes = parameters.processes(1)?;
    let (row, cost) = parameters.row(A_ROW, ROW)?;
    let memory = parameters.handler_memory(SCANS_MEMORY);
    Ok(Box::new(Listed { length, processes, scan: Some(Scan { row, cost, memory }) }))
}

#[derive(Debug)]
struct Listed {
    length: Bytes,
    processes: u32,
    /// Of a scan, not of a plain reader.
    scan: Option<Scan>,
}

/// What a scan is.
#[derive(Clone, Copy, Debug)]
struct Scan {
    /// Bytes of a row, and its processor time.
    row: Bytes,
    cost: Nanos,
    /// Private memory.
    memory: Bytes,
}

impl Listed {
    fn reads(&self, number: u64, random: &mut dyn Rng) -> ListedReads {
        let pages = self.length.pages_floor();
        let file = FileNumber(number as u32);
        let Some(scan) = self.scan else {
            let pages = (0..pages.get() as u32).collect();
            return ListedReads { file, pages, scan: None, at: 0, doing: Doing::Open };
        };
        let database = Database::of(pages, scan.row);
        let pages = database.accesses(random);
        ListedReads { file, pages, scan: Some((scan, database.table)), at: 0, doing: Doing::Open }
    }
}

impl Workload for Listed {
    fn files(&self) -> Vec<FileSpec> {
        vec![FileSpec { length: self.length, directory: 0 }; self.processes as usize]
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.processes)
    }

    fn program(&mut self, number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        Box::new(self.reads(number, random))
    }

    fn directed(&mut self, number: u64, random: &mut dyn Rng) -> Option<Pair> {
        let reads = self.reads(number, random);
        let index = reads.scan.map(|(_, index)| index);
        let list = List { file: reads.file, pages: Arc::clone(&reads.pages), index };
        Some((Box::new(reads), Box::new(list)))
    }
}

/// The structure of a database.
#[derive(Clone, Copy, Debug)]
struct Database {
    rows: u64,
    /// Pages of the table; those of the index follow.
    table: u32,
}

impl Database {
    fn of(pages: Pages, row: Bytes) -> Self {
        let rows = pages.bytes().get() / row.get();
        let index = rows.div_ceil(ENTRIES);
        Self { rows, table: (pages.get() - index) as u32 }
    }

    /// Every page that the scan reads: one of the index, then those of the rows to which its entries point.
    fn accesses(&self, random: &mut dyn Rng) -> Arc<[u32]> {
        let page = |row: u64| (row * u64::from(self.table) / self.rows) as u32;
        let mut rows: Vec<u32> = (0..self.rows).map(page).collect();
        for last in (1..rows.len()).rev() {
            rows.swap(last, random.random_range(0..=last));
        }
        let mut accesses = Vec::with_capacity(rows.len() + rows.len() / ENTRIES as usize + 1);
        for (number, entries) in rows.chunks(ENTRIES as usize).enumerate() {
            accesses.push(self.table + number as u32);
            accesses.extend_from_slice(entries);
        }
        accesses.into()
    }
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    Open,
    Begin,
    Read,
    Row(Nanos),
    End,
    Exit,
}

/// A program.
struct ListedReads {
    file: FileNumber,
    pages: Arc<[u32]>,
    /// Of a scan, and the first page of its index.
    scan: Option<(Scan, u32)>,
    at: usize,
    doing: Doing,
}

impl Program for ListedReads {
    fn next(&mut self, _now: Instant, _random: &mut dyn Rng) -> Step {
        let handle = Handle(0);
        match self.doing {
            Doing::Open => {
                self.doing = Doing::Begin;
                Step::Open { handle, file: self.file, announced: None }
            }
            Doing::Begin => {
                self.doing = Doing::Read;
                Step::Begun
            }
            Doing::Read => {
                let Some(&page) = self.pages.get(self.at) else {
                    self.doing = Doing::End;
                    return Step::Finished;
                };
                self.at += 1;
                let of_row = self.scan.filter(|(_, index)| page < *index);
                self.doing = of_row.map_or(Doing::Read, |(scan, _)| Doing::Row(scan.cost));
                let start = PageIndex(u64::from(page)).offset();
                Step::Read { handle, range: Span::at(start, Bytes(PAGE_SIZE)) }
            }
            Doing::Row(cost) => {
                self.doing = Doing::Read;
                Step::Compute(cost)
            }
            Doing::End => {
                self.doing = Doing::Exit;
                Step::Close { handle }
            }
            Doing::Exit => Step::Exit,
        }
    }

    fn memory(&self) -> Bytes {
        self.scan.map_or(READERS_MEMORY, |(scan, _)| scan.memory)
    }
}

/// The application that answers for it: all remaining reads, until the list is full.
struct List {
    file: FileNumber,
    pages: Arc<[u32]>,
    index: Option<u32>,
}

impl Application for List {
    fn asked(&mut self, reads: usize, _want: CallbackRequest, hint: &mut Hint<'_>) {
        let object = ObjectId(u64::from(self.file.0));
        let left = &self.pages[reads.min(self.pages.len())..];
        let last = left.len().saturating_sub(1) / BATCH;
        let mut mode = HintMode::Set;
        for (number, batch) in left.chunks(BATCH).enumerate() {
            let access = |page: &u32| {
                let mark = self.index.is_some_and(|index| *page >= index);
                Access { object, page: PageIndex(u64::from(*page)), mark }
            };
            let accesses: Vec<Access> = batch.iter().map(access).collect();
            let taken = hint(mode, &accesses, number == last);
            mode = HintMode::Append;
            if taken < accesses.len() {
                // As in the paper's figure 7: the list is full, and that is all for now.
                hint(mode, &[], true);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn a_scan_reads_each_row_once_and_each_page_of_the_index() {
        let database = Database::of(Bytes::mib(132).pages_floor(), A_ROW);
        // 7 warehouses.
        assert!((209_000..211_000).contains(&database.rows), "{database:?}");
        let pages = database.accesses(&mut Pcg64Mcg::seed_from_u64(1));
        let index: Vec<u32> = pages.iter().copied().filter(|page| *page >= database.table).collect();
        assert_eq!(pages.len() as u64, database.rows + index.len() as u64);
        assert!(index.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        assert!(u64::from(*index.last().expect("an index")) < Bytes::mib(132).pages_floor().get());
        let rows = pages.iter().filter(|page| **page < database.table);
        let mut of_page = vec![0u32; database.table as usize];
        rows.for_each(|page| of_page[*page as usize] += 1);
        assert!(of_page.iter().all(|rows| (6..=7).contains(rows)), "{:?}", &of_page[..20]);
    }
}
