//! The parameters of a workload.

use super::WorkloadError;
use foreseek_units::{Bytes, Nanos, PAGE_SIZE};
use serde::Deserialize;

/// The most threads of a program.
const THREADS_LIMIT: u32 = 1024;

/// Parameters; `None` keeps the paper's value. A workload refuses a parameter that it does not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// Length of a file (microbenchmarks: 4 MiB; sequence search: a volume; blur: what the program beside it reads).
    pub file_size: Option<Bytes>,
    /// Length of all files together (microbenchmarks: 6000 files; servers: see each).
    pub data_size: Option<Bytes>,
    /// Private memory of a request handler, a scan or a blur.
    pub handler_memory: Option<Bytes>,
    /// Whether the main data are mapped into memory rather than read (index search, sequence search).
    pub mapped: Option<bool>,
    /// How much of a list is read before the next one's turn (index search).
    pub turn: Option<Bytes>,
    /// Whether a list is opened when it is first read and closed when it ends (index search).
    pub opens_late: Option<bool>,
    /// Whether a query scans all data, from a random place on (sequence search).
    pub whole: Option<bool>,
    /// Whether the queries with which a run begins are under way (sequence search).
    pub under_way: Option<bool>,
    /// Processor time of a row of a scan (TPC-H, table scan).
    pub row_cost: Option<Nanos>,
    /// Bytes of a row of a database (table scan).
    pub row: Option<Bytes>,
    /// Processor time of a look-up (TPC-H).
    pub look_up_cost: Option<Nanos>,
    /// The program's own cache (blur).
    pub cache: Option<Bytes>,
    /// Processor time of a tile in a pass (blur).
    pub tile_cost: Option<Nanos>,
    /// Processor time of the walk through memory beside a blur.
    pub walk_time: Option<Nanos>,
    /// How a tree is walked.
    pub walk: Option<Walk>,
    /// Processes or threads of a batch.
    pub processes: Option<u32>,
    /// The distance of successive blocks, in blocks (stride reads).
    pub stride: Option<u32>,
    /// Reads of all processes together (random reads).
    pub reads: Option<u32>,
    /// Reads past the page cache.
    pub direct: Option<DirectReads>,
}

/// Reads past the page cache (ATC'09 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectReads {
    /// The distance between successive reads.
    pub distance: Bytes,
    /// Whether they go towards the start of the device.
    pub backward: bool,
    /// How much is reordered at a time.
    pub reorder: Bytes,
    /// The largest gap between two reads that is read with them.
    pub infill: Bytes,
    /// The size of a read.
    pub request: Bytes,
    /// The offset of the first read.
    pub offset: Bytes,
}

impl Default for DirectReads {
    fn default() -> Self {
        Self {
            distance: Bytes::mib(1),
            backward: false,
            reorder: Bytes::mib(16),
            infill: Bytes::ZERO,
            request: Bytes::kib(128),
            offset: Bytes::ZERO,
        }
    }
}

/// The order in which a program uses the entries of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadingOrder {
    /// That of the listing.
    #[default]
    Listing,
    /// By inode number.
    Inode,
    /// By name.
    Name,
    /// None: all directories are listed first, and then their files are used anywhere.
    Random,
}

/// How a tree is walked, and how it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Walk {
    /// The order of the entries of a directory.
    pub order: ReadingOrder,
    /// Whether that order is reversed.
    pub reversed: bool,
    /// Threads, which take directories in turn.
    pub threads: u32,
    /// Whether each of them takes a part of the tree of its own: programs that know nothing of each other.
    pub apart: bool,
    /// The share of files that are opened; of the others only the attributes are read.
    pub opened: f64,
    /// The share of an opened file that is read.
    pub read: f64,
    /// Processor time between two files.
    pub think: Nanos,
    /// Whether files were created in turn all over the tree, not directory by directory.
    pub scattered: bool,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            order: ReadingOrder::Listing,
            reversed: false,
            threads: 1,
            apart: false,
            opened: 1.0,
            read: 1.0,
            think: Nanos::ZERO,
            scattered: false,
        }
    }
}

/// Parameters that a workload takes one by one; those left over are refused.
pub(super) struct Checked<'a> {
    workload: &'a str,
    left: Parameters,
}

impl<'a> Checked<'a> {
    pub(super) fn new(workload: &'a str, parameters: &Parameters) -> Self {
        Self { workload, left: parameters.clone() }
    }

    /// The requested name of the workload.
    pub(super) fn workload(&self) -> &'a str {
        self.workload
    }

    /// Length of a file, from `least` on.
    pub(super) fn file_size(&mut self, default: Bytes, least: Bytes) -> Result<Bytes, WorkloadError> {
        let given = self.left.file_size.take();
        self.within("file size", given, default, least)
    }

    /// Length of all files, from `least` on.
    pub(super) fn data_size(&mut self, default: Bytes, least: Bytes) -> Result<Bytes, WorkloadError> {
        let given = self.left.data_size.take();
        self.within("data size", given, default, least)
    }

    /// Private memory of a handler.
    pub(super) fn handler_memory(&mut self, default: Bytes) -> Bytes {
        self.left.handler_memory.take().unwrap_or(default)
    }

    /// Whether data are mapped.
    pub(super) fn mapped(&mut self, default: bool) -> bool {
        self.left.mapped.take().unwrap_or(default)
    }

    /// How much is read in turn: at least a page.
    pub(super) fn turn(&mut self, default: Bytes) -> Result<Bytes, WorkloadError> {
        let given = self.left.turn.take();
        self.within("turn", given, default, Bytes(PAGE_SIZE))
    }

    /// Whether files are opened late.
    pub(super) fn opens_late(&mut self) -> bool {
        self.left.opens_late.take().unwrap_or(false)
    }

    /// Whether all data are scanned.
    pub(super) fn whole(&mut self) -> bool {
        self.left.whole.take().unwrap_or(false)
    }

    /// Whether a run begins with queries that are under way.
    pub(super) fn under_way(&mut self) -> bool {
        self.left.under_way.take().unwrap_or(false)
    }

    /// Processor time of a row of a scan, and of a look-up.
    pub(super) fn row_and_look_up_costs(&mut self, row: Nanos, look_up: Nanos) -> (Nanos, Nanos) {
        let Parameters { row_cost, look_up_cost, .. } = &mut self.left;
        (row_cost.take().unwrap_or(row), look_up_cost.take().unwrap_or(look_up))
    }

    /// Bytes of a row, and its processor time.
    pub(super) fn row(&mut self, default: Bytes, cost: Nanos) -> Result<(Bytes, Nanos), WorkloadError> {
        let given = self.left.row.take();
        let row = self.within("bytes of a row", given, default, Bytes(1))?;
        if row.get() > PAGE_SIZE {
            let (workload, reason) = (self.workload.to_owned(), "a row lies in one page".to_owned());
            let given = row.to_string();
            return Err(WorkloadError::Range { workload, parameter: "bytes of a row", given, reason });
        }
        Ok((row, self.left.row_cost.take().unwrap_or(cost)))
    }

    /// The program's own cache: at least `least`.
    pub(super) fn cache(&mut self, default: Bytes, least: Bytes) -> Result<Bytes, WorkloadError> {
        let given = self.left.cache.take();
        self.within("cache", given, default, least)
    }

    /// Processor time of a tile.
    pub(super) fn tile_cost(&mut self, default: Nanos) -> Nanos {
        self.left.tile_cost.take().unwrap_or(default)
    }

    /// Processor time of a walk through memory.
    pub(super) fn walk_time(&mut self, default: Nanos) -> Nanos {
        self.left.walk_time.take().unwrap_or(default)
    }

    /// How a tree is walked.
    pub(super) fn walk(&mut self) -> Result<Walk, WorkloadError> {
        let walk = self.left.walk.take().unwrap_or_default();
        let wrong = |parameter, given: String, reason: &str| {
            let workload = self.workload.to_owned();
            Err(WorkloadError::Range { workload, parameter, given, reason: reason.to_owned() })
        };
        let share = 0.0..=1.0;
        if !(1..=THREADS_LIMIT).contains(&walk.threads) {
            return wrong("threads", walk.threads.to_string(), "give 1 to 1024");
        }
        if !share.contains(&walk.opened) {
            return wrong("share of files opened", walk.opened.to_string(), "give 0 to 1");
        }
        if !share.contains(&walk.read) {
            return wrong("share read", walk.read.to_string(), "give 0 to 1");
        }
        Ok(walk)
    }

    /// Processes of a batch.
    pub(super) fn processes(&mut self, default: u32) -> Result<u32, WorkloadError> {
        let given = self.left.processes.take().unwrap_or(default);
        self.positive("number of processes", given, THREADS_LIMIT)
    }

    /// The distance of a stride in blocks.
    pub(super) fn stride(&mut self, default: u32) -> Result<u32, WorkloadError> {
        /// A block in each MiB.
        const LONGEST: u32 = 256;
        let given = self.left.stride.take().unwrap_or(default);
        self.positive("stride", given, LONGEST)
    }

    /// Reads of all processes together.
    pub(super) fn reads(&mut self, default: u32) -> Result<u32, WorkloadError> {
        /// A read of each page of 400 GB.
        const MOST: u32 = 100_000_000;
        let given = self.left.reads.take().unwrap_or(default);
        self.positive("number of reads", given, MOST)
    }

    /// Reads past the page cache, of whole pages.
    pub(super) fn direct(&mut self) -> Result<DirectReads, WorkloadError> {
        let direct = self.left.direct.take().unwrap_or_default();
        for (parameter, given) in [
            ("distance", direct.distance),
            ("reorder buffer", direct.reorder),
            ("request size", direct.request),
        ] {
            self.within(parameter, Some(given), given, Bytes(PAGE_SIZE))?;
        }
        Ok(direct)
    }

    fn positive(&self, parameter: &'static str, given: u32, most: u32) -> Result<u32, WorkloadError> {
        if (1..=most).contains(&given) {
            return Ok(given);
        }
        let (workload, reason) = (self.workload.to_owned(), format!("give 1 to {most}"));
        Err(WorkloadError::Range { workload, parameter, given: given.to_string(), reason })
    }

    /// Refuses parameters that were not taken.
    pub(super) fn all_taken(self) -> Result<(), WorkloadError> {
        let Parameters {
            file_size,
            data_size,
            handler_memory,
            mapped,
            turn,
            opens_late,
            whole,
            under_way,
            row_cost,
            row,
            look_up_cost,
            cache,
            tile_cost,
            walk_time,
            walk,
            processes,
            stride,
            reads,
            direct,
        } = self.left;
        let left = [
            ("file size", file_size.is_some()),
            ("data size", data_size.is_some()),
            ("handler memory", handler_memory.is_some()),
            ("choice of mapping", mapped.is_some()),
            ("turn", turn.is_some()),
            ("choice of opening late", opens_late.is_some()),
            ("choice of scanning all", whole.is_some()),
            ("choice of queries under way", under_way.is_some()),
            ("cost of a row", row_cost.is_some()),
            ("bytes of a row", row.is_some()),
            ("cost of a look-up", look_up_cost.is_some()),
            ("cache", cache.is_some()),
            ("cost of a tile", tile_cost.is_some()),
            ("time of a walk", walk_time.is_some()),
            ("way to walk", walk.is_some()),
            ("number of processes", processes.is_some()),
            ("stride", stride.is_some()),
            ("number of reads", reads.is_some()),
            ("way to read past the page cache", direct.is_some()),
        ];
        match left.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((parameter, _)) => {
                Err(WorkloadError::Parameter { workload: self.workload.to_owned(), parameter })
            }
        }
    }

    fn within(
        &self,
        parameter: &'static str,
        given: Option<Bytes>,
        default: Bytes,
        least: Bytes,
    ) -> Result<Bytes, WorkloadError> {
        match given {
            Some(size) if size < least => Err(WorkloadError::Range {
                workload: self.workload.to_owned(),
                parameter,
                given: size.to_string(),
                reason: format!("it must be at least {least}"),
            }),
            Some(size) => Ok(size),
            None => Ok(default),
        }
    }
}
