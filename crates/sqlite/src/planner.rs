//! The planner of one database file: page reads go in, and the reads to come are asked of it.
//!
//! It watches every page that SQLite reads. Interior index pages tell which leaf belongs to which
//! tree; the [recogniser](crate::recognise) finds scans; each [scan](crate::scan) then holds the reads
//! that it will make. Before a read, [`Planner::expects`] tells whether a scan has predicted it; only
//! such reads count as progress, so that overflow pages, interior pages and other statements pass by
//! untouched. When the prefetcher wants the list to go on, [`Planner::plan`] generates more of it.
//!
//! A scan ends when its transaction does, when it has been read to its end, when other row pages
//! come again and again instead of its own, or when the file has changed. Everything here is
//! bounded, and no error leaves it: a page that can't be followed ends the prediction.

use crate::error::Result;
use crate::header::Header;
use crate::page::{Kind, Page, PageNo};
use crate::recognise::{EVIDENCE, Found, Leads, Recogniser};
use crate::scan::Scan;
pub use crate::scan::{Much, Plan, ScanId};
use crate::schema::{Index, Schema, Table, TableKind};
use crate::sequence::Sequence;
use crate::source::ReadPage;
use crate::tree::Interior;
use crate::walk::{Direction, Walk, target};
use std::collections::HashMap;

/// Scans at a time in one file. A statement rarely scans more than two tables by index, and a
/// process with more such statements at a time has no memory to prefetch for each.
pub const SCANS_LIMIT: usize = 4;
/// Streams (descriptors) of one file whose reads are watched: the connections of a large pool.
const STREAMS_LIMIT: usize = 64;
/// Index leaves whose tree is remembered; 16 bytes each. Enough for 4 GB of indexes in 4 KiB pages.
const OWNERS_LIMIT: usize = 1 << 20;
/// Indexes that are tried for a leaf whose tree is not known. Each costs a descent of a page or two.
const INDEXES_TRIED: usize = 16;
/// The most evidence that is asked for after scans of an index have been wasted again and again.
const EVIDENCE_LIMIT: usize = 64;

/// What the planner has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read by SQLite.
    pub pages: u64,
    /// Among them leaves of tables and indexes: what can be predicted.
    pub leaves: u64,
    /// Scans recognised.
    pub scans: u64,
    /// Among them those taken to be full scans.
    pub full_scans: u64,
    /// Scans that were read to their end.
    pub finished: u64,
    /// Pages read that a scan had predicted.
    pub predicted: u64,
    /// Row pages read on a scan's stream that no scan had predicted.
    pub strays: u64,
    /// Accesses generated.
    pub planned: u64,
    /// Evidence that led to no index, and sequences that a damaged or changed page ended.
    pub failed: u64,
}

/// The planner of one database file.
#[derive(Debug)]
pub struct Planner {
    interior: Interior,
    pages: u32,
    schema: Option<Schema>,
    /// Root of the tree that an index leaf or interior index page belongs to.
    owners: HashMap<PageNo, PageNo>,
    streams: HashMap<u64, Recogniser>,
    scans: Vec<Scan>,
    /// Evidence asked for, by root of the index, where it is more than [`EVIDENCE`].
    caution: HashMap<PageNo, usize>,
    next_id: u64,
    counters: Counters,
}

/// What an index page is in its schema.
enum Role<'a> {
    Secondary(&'a Index, &'a Table),
    Rows,
    Unknown,
}

impl Planner {
    /// A planner for a database of this header, in a file of so many pages.
    #[must_use]
    pub fn new(header: Header, pages: u32) -> Self {
        Self {
            interior: Interior::new(header),
            pages,
            schema: None,
            owners: HashMap::new(),
            streams: HashMap::new(),
            scans: Vec::new(),
            caution: HashMap::new(),
            next_id: 0,
            counters: Counters::default(),
        }
    }

    /// The database's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.interior.header()
    }

    /// What it has seen and done.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The scans that go on.
    pub fn scans(&self) -> impl Iterator<Item = ScanId> {
        self.scans.iter().map(|scan| scan.id)
    }

    /// The file was changed by somebody: nothing known of its pages holds.
    pub fn changed(&mut self, header: Header, pages: u32) {
        let counters = self.counters;
        let next_id = self.next_id;
        *self = Self { counters, next_id, ..Self::new(header, pages) };
    }

    /// A stream begins a transaction: its scans are over.
    pub fn transaction(&mut self, stream: u64) {
        if let Some(recogniser) = self.streams.get_mut(&stream) {
            recogniser.clear();
        }
        for at in (0..self.scans.len()).rev() {
            if self.scans[at].stream == stream {
                self.end(at);
            }
        }
    }

    /// A stream is gone.
    pub fn closed(&mut self, stream: u64) {
        self.transaction(stream);
        self.streams.remove(&stream);
    }

    /// Whether a scan of this stream has predicted that this page is read about now. It counts as
    /// progress: to be asked once for each read, before it is made.
    pub fn expects(&mut self, stream: u64, page: PageNo) -> Option<ScanId> {
        let interior = self.interior.holds(page);
        let mut mine = self.scans.iter_mut().filter(|scan| scan.stream == stream);
        let scan = mine.find_map(|scan| scan.meets(page, interior).then_some(scan.id));
        self.counters.predicted += u64::from(scan.is_some());
        scan
    }

    /// A page has been read by a stream. Answers a scan that it has made known.
    pub fn observe<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        number: PageNo,
        bytes: &[u8],
    ) -> Option<ScanId> {
        self.counters.pages += 1;
        let usable = self.header().usable();
        let page = Page::parse(number, bytes, usable).ok()?;
        self.counters.leaves += u64::from(!page.kind().is_interior());
        if !page.kind().is_interior() {
            for scan in self.scans.iter_mut().filter(|scan| scan.stream == stream) {
                scan.catch_up(&mut self.interior, source, number, &mut self.counters);
            }
        }
        match page.kind() {
            Kind::TableInterior => {
                self.interior.put(number, bytes);
                None
            }
            Kind::IndexInterior => {
                self.interior.put(number, bytes);
                self.own_children(source, &page);
                None
            }
            Kind::TableLeaf => self.row_page(source, stream, &page),
            Kind::IndexLeaf => self.index_leaf(source, stream, &page, bytes),
        }
    }

    /// Remembers which tree the children of an interior index page belong to, and theirs where they
    /// came before it.
    fn own_children<R: ReadPage>(&mut self, source: &mut R, page: &Page<'_>) {
        let Some(root) = self.root_of(source, page.number()) else { return };
        if self.owners.len() > OWNERS_LIMIT {
            self.owners.clear();
        }
        let usable = self.header().usable();
        let mut waiting: Vec<PageNo> =
            (0..=page.cells()).filter_map(|child| page.child(child).ok()).collect();
        while let Some(number) = waiting.pop() {
            // Entered once each: a cycle ends here.
            if self.owners.insert(number, root).is_some() {
                continue;
            }
            if let Some(bytes) = self.interior.kept(number)
                && let Ok(page) = Page::parse(number, &bytes, usable)
            {
                waiting.extend((0..=page.cells()).filter_map(|child| page.child(child).ok()));
            }
        }
    }

    /// The root of the tree that an index page belongs to, as far as it is known.
    fn root_of<R: ReadPage>(&mut self, source: &mut R, page: PageNo) -> Option<PageNo> {
        if let Some(&root) = self.owners.get(&page) {
            return Some(root);
        }
        let schema = self.schema(source);
        let mut roots =
            schema.indexes.iter().map(|index| index.root).chain(schema.tables.iter().map(|table| table.root));
        roots.find(|&root| root == page)
    }

    fn schema<R: ReadPage>(&mut self, source: &mut R) -> &Schema {
        let header = *self.interior.header();
        // A schema that can't be read is an empty one: nothing is recognised.
        self.schema.get_or_insert_with(|| Schema::read(source, &header).unwrap_or_default())
    }

    fn index_leaf<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        page: &Page<'_>,
        bytes: &[u8],
    ) -> Option<ScanId> {
        let root = self.root_of(source, page.number());
        let leads = match self.role(root) {
            Role::Rows => return self.row_page(source, stream, page),
            Role::Secondary(index, table) => match &table.kind {
                TableKind::Rowid => Leads::Rowid,
                TableKind::Key(orders) => Leads::Key { at: index.key_at.clone(), orders: orders.clone() },
            },
            Role::Unknown => Leads::Rowid,
        };
        // A leaf that a scan has predicted is its own, and no candidate for another.
        let planned = |scan: &Scan| scan.stream == stream && scan.is_at(page.number());
        if !self.scans.iter().any(planned) {
            let evidence = root.and_then(|root| self.caution.get(&root)).copied().unwrap_or(EVIDENCE);
            self.recogniser(stream).leaf(page, bytes, leads, evidence);
        }
        None
    }

    fn role(&self, root: Option<PageNo>) -> Role<'_> {
        let (Some(root), Some(schema)) = (root, &self.schema) else { return Role::Unknown };
        if let Some(index) = schema.indexes.iter().find(|index| index.root == root) {
            return Role::Secondary(index, schema.table_of(index));
        }
        if schema.tables.iter().any(|table| table.root == root) { Role::Rows } else { Role::Unknown }
    }

    fn recogniser(&mut self, stream: u64) -> &mut Recogniser {
        if self.streams.len() >= STREAMS_LIMIT && !self.streams.contains_key(&stream) {
            self.streams.clear();
        }
        self.streams.entry(stream).or_default()
    }

    fn row_page<R: ReadPage>(&mut self, source: &mut R, stream: u64, page: &Page<'_>) -> Option<ScanId> {
        let mut expected = false;
        for at in (0..self.scans.len()).rev() {
            let scan = &mut self.scans[at];
            if scan.stream != stream {
                continue;
            }
            if scan.is_at(page.number()) {
                expected = true;
                scan.keep_ahead(&mut self.interior, source, &mut self.counters);
            } else if scan.strays_on(page.number()) {
                self.end(at);
            }
        }
        if expected {
            return None;
        }
        self.counters.strays += u64::from(self.scans.iter().any(|scan| scan.stream == stream));
        let header = *self.header();
        let found = self.streams.get_mut(&stream)?.row_page(page, &header)?;
        let begun = self.begin(source, stream, &found);
        self.counters.failed += u64::from(begun.is_err());
        begun.ok()
    }

    /// Finds the index that a recognised leaf belongs to and begins its scan.
    fn begin<R: ReadPage>(&mut self, source: &mut R, stream: u64, found: &Found) -> Result<ScanId> {
        let root = self.root_of(source, found.leaf);
        let schema = self.schema.take().unwrap_or_default();
        let known = root.and_then(|root| schema.indexes.iter().find(|index| index.root == root));
        let begun = match known {
            Some(index) => self.begin_by(source, stream, found, index, schema.table_of(index)),
            // Its interior pages were read before this planner was there: try every index.
            None => schema
                .indexes
                .iter()
                .take(INDEXES_TRIED)
                .filter(|index| schema.table_of(index).kind == TableKind::Rowid)
                .find_map(|index| self.begin_by(source, stream, found, index, schema.table_of(index)).ok())
                .ok_or(crate::Error::Damaged { page: found.leaf, at: 0, what: "a leaf of no known index" }),
        };
        self.schema = Some(schema);
        begun
    }

    fn begin_by<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        found: &Found,
        index: &Index,
        table: &Table,
    ) -> Result<ScanId> {
        let usable = self.header().usable();
        let leaf = Page::parse(found.leaf, &found.bytes, usable)?;
        let walk = Walk::at_leaf(&mut self.interior, source, index, &leaf, found.direction, self.pages)?;
        let key = target(source, &leaf, found.last, index, table, usable)?.key;
        self.interior.confirm(source, table, &key, found.page)?;
        let ordinal = |cell: usize| match found.direction {
            Direction::Forward => cell,
            Direction::Backward => leaf.cells() - 1 - cell,
        };
        // Where scans of this index were given up before, this one has to show that it goes on.
        let trusted = !self.caution.contains_key(&index.root);
        let full = trusted && found.from_edge && walk.leaves_before() == Some(found.leaves_ago);
        let sequence = Sequence::from_walk(index, table, walk, ordinal(found.last) + 1);
        self.make_room(stream, index.root);
        let id = ScanId(self.next_id);
        self.next_id += 1;
        self.counters.scans += 1;
        self.counters.full_scans += u64::from(full);
        let mut scan = Scan::new(id, stream, index.root, sequence);
        scan.keep_ahead(&mut self.interior, source, &mut self.counters);
        if full {
            scan.trust(self.interior.header());
        }
        self.scans.push(scan);
        Ok(id)
    }

    /// Ends a scan of the same index on the same stream that seems to be lost, and the oldest where
    /// there are too many. One that goes on is another cursor's.
    fn make_room(&mut self, stream: u64, index: PageNo) {
        let lost = |scan: &Scan| scan.stream == stream && scan.index == index && scan.is_lost();
        if let Some(at) = self.scans.iter().position(lost) {
            self.end(at);
        }
        if self.scans.len() >= SCANS_LIMIT {
            self.end(0);
        }
    }

    fn end(&mut self, at: usize) {
        let scan = self.scans.remove(at);
        self.counters.finished += u64::from(scan.is_finished());
        if self.caution.len() >= INDEXES_TRIED {
            self.caution.clear();
        }
        // A list of which most was not read: be slower to believe the next scan of this index.
        let (read, left) = scan.use_of_plan();
        if left > read {
            let evidence = self.caution.entry(scan.index).or_insert(EVIDENCE);
            *evidence = (*evidence * 2).min(EVIDENCE_LIMIT);
        } else if read > EVIDENCE_LIMIT as u64 {
            self.caution.remove(&scan.index);
        }
    }

    /// The scans besides this one that have been read on since they were last planned, or never were.
    pub fn moving_besides(&self, id: ScanId) -> Vec<ScanId> {
        let moves = |scan: &&Scan| scan.id != id && scan.is_moving();
        self.scans.iter().filter(moves).map(|scan| scan.id).collect()
    }

    /// The scan is known to read only a part of its index (a statement with LIMIT): let it begin
    /// small.
    pub fn restrict(&mut self, id: ScanId) {
        if let Some(scan) = self.scans.iter_mut().find(|scan| scan.id == id) {
            scan.restrict();
        }
    }

    /// Whether a scan was ever planned, so that what it reads may be in memory on its behalf.
    #[must_use]
    pub fn is_planned(&self, id: ScanId) -> bool {
        self.scans.iter().any(|scan| scan.id == id && scan.is_planned())
    }

    /// The reads that a scan will make, from the one that is about to be made: as many as are asked
    /// for where it is a full scan, fewer while it is not sure. Nothing where the scan is over.
    pub fn plan<R: ReadPage>(&mut self, source: &mut R, id: ScanId, much: Much) -> Option<Plan> {
        let scan = self.scans.iter_mut().find(|scan| scan.id == id)?;
        Some(scan.plan(&mut self.interior, source, much, &mut self.counters))
    }
}
