//! The planner of one database file: page reads go in, and the reads to come are asked of it.
//!
//! It watches every page that SQLite reads. Interior index pages tell which leaf belongs to which
//! tree; the [recogniser](crate::recognise) finds scans; each scan then holds its [`Sequence`] and the
//! part of it that was generated but not yet read. Before a read, [`Planner::expects`] tells whether
//! a scan has predicted it; only such reads count as progress, so that overflow pages, interior pages
//! and other statements pass by untouched. When the prefetcher wants the list to go on,
//! [`Planner::plan`] generates more of it.
//!
//! How much is planned follows what is known (the rent-or-buy rule that also bounds competitive
//! prefetching): a scan that began at the first entry of its index is taken to be a full scan and
//! planned without limit; any other has shown no more than that it exists, so its first round is as
//! large as its evidence, and each round that was read through allows the next one to be [`GROWTH`]
//! times as large.
//!
//! A scan ends when its transaction does, when it has been read to its end, when other row pages
//! come again and again instead of its own, or when the file has changed. Everything here is
//! bounded, and no error leaves it: a page that can't be followed ends the prediction.

use crate::error::Result;
use crate::header::Header;
use crate::page::{Kind, Page, PageNo};
use crate::recognise::{EVIDENCE, Found, Leads, Recogniser};
use crate::schema::{Index, Schema, Table, TableKind};
use crate::sequence::{PageAccess, Sequence};
use crate::source::ReadPage;
use crate::tree::Interior;
use crate::walk::{Direction, Walk, target};
use std::collections::{HashMap, HashSet, VecDeque};

/// By what a ramp grows with each round that was read through. A sorted round costs about half a
/// random read a page, so that a scan that ends where a round begins has cost at most about half as
/// much again as without prefetching; small ranges are many, and must not lose.
pub const GROWTH: usize = 2;
/// By what it grows from [`LARGE`] on. The pages of such a round cost a fifth of a random read and
/// less, and a long scan must not spend its time in the ramp.
pub const GROWTH_LARGE: usize = 4;
/// See [`GROWTH_LARGE`].
pub const LARGE: usize = 64;
/// Scans at a time in one file. A statement rarely scans more than two tables by index, and a
/// process with more such statements at a time has no memory to prefetch for each.
pub const SCANS_LIMIT: usize = 4;
/// Streams (descriptors) of one file whose reads are watched: the connections of a large pool.
const STREAMS_LIMIT: usize = 64;
/// Index leaves whose tree is remembered; 16 bytes each. Enough for 4 GB of indexes in 4 KiB pages.
const OWNERS_LIMIT: usize = 1 << 20;
/// How far ahead of its place a scan looks for a page that is read: what SQLite's own cache may
/// answer at a stretch, and a bound on the cost of a look.
const REACH: usize = 4096;
/// How far ahead one read alone moves a scan. A read further ahead may be another statement's that
/// met a page of the list by chance: it counts when a second one follows it.
const NEAR: usize = 64;
/// Row pages of no scan's prediction, in a row and on its own stream, after which a scan is over. A
/// join may read some of another table for each row; a scan that is still there is recognised anew.
const STRAYS_LIMIT: u32 = 64;
/// Entries generated and not yet read, at most: 32 MiB of them.
const AHEAD_LIMIT: usize = 4 << 20;
/// Entries that a young scan keeps ahead, so that it knows its next pages when the told list has
/// ended. Few, since an index leaf and interior pages must be read for them, in vain where the scan
/// ends; an older one keeps up to [`NEAR`], so that it is not lost where SQLite's cache answers some.
const LOW: usize = 4;
/// The most evidence that is asked for after scans of an index have been wasted again and again.
const EVIDENCE_LIMIT: usize = 64;

/// Names a scan as long as it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScanId(pub u64);

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

/// What becomes of a scan's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The reads to come, beginning with the one that is about to be made.
    pub accesses: Vec<PageAccess>,
    /// Whether there is no more to tell for now.
    pub done: bool,
}

#[derive(Debug)]
struct Scan {
    id: ScanId,
    stream: u64,
    index: PageNo,
    sequence: Sequence,
    /// Generated and not yet read.
    ahead: VecDeque<PageAccess>,
    /// The last ones before those: read, or passed over, perhaps too soon.
    behind: VecDeque<PageNo>,
    /// Distinct pages that the next round may hold; nothing: no limit.
    allowance: Option<usize>,
    /// How many of `ahead` were told.
    told: usize,
    /// Entries passed since the beginning.
    passed: u64,
    /// The same when it was last planned.
    passed_at_plan: u64,
    /// Where in terms of `passed` a single read far ahead was.
    far: Option<u64>,
    strays: u32,
    failed: bool,
}

impl Scan {
    /// How many entries to keep ahead at least.
    fn low(&self) -> usize {
        LOW + usize::try_from(self.passed).unwrap_or(NEAR).min(NEAR)
    }

    /// Whether this page is the one that it has come to.
    fn is_at(&self, page: PageNo) -> bool {
        self.ahead.front().is_some_and(|front| front.page == page)
    }

    /// Moves on to a page that is read, where it is ahead. An interior page (of a table WITHOUT ROWID)
    /// moves nothing but from the very next place: it is mostly read on the way down.
    fn meets(&mut self, page: PageNo, interior: bool) -> bool {
        let Some(at) = self.ahead.iter().take(REACH).position(|access| access.page == page) else {
            return false;
        };
        let place = self.passed + at as u64;
        if interior && at > 1 {
            return false;
        }
        if at > NEAR && self.far.is_none_or(|far| far >= place) {
            self.far = Some(place);
            return false;
        }
        self.far = None;
        self.behind.extend(self.ahead.drain(..at).map(|access| access.page));
        let old = self.behind.len().saturating_sub(NEAR);
        self.behind.drain(..old);
        self.told = self.told.saturating_sub(at);
        self.passed = place;
        self.strays = 0;
        true
    }
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
            self.catch_up(source, stream, number);
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

    /// A leaf has been read that no scan of the stream is at: one that knows little of what comes may
    /// find it a little further on.
    fn catch_up<R: ReadPage>(&mut self, source: &mut R, stream: u64, number: PageNo) {
        for at in 0..self.scans.len() {
            let scan = &self.scans[at];
            let (short, is_here) = (scan.ahead.len() < 2 * scan.low(), scan.is_at(number));
            if scan.stream == stream && short && !is_here {
                self.extend(source, at, 2 * self.scans[at].low(), 1);
                self.scans[at].meets(number, false);
            }
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
                let low = scan.low();
                if scan.ahead.len() < low {
                    self.extend(source, at, 2 * low, 1);
                }
            } else if !scan.behind.contains(&page.number()) {
                scan.strays += 1;
                if scan.strays > STRAYS_LIMIT {
                    self.end(at);
                }
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
        let full = found.from_edge && walk.leaves_before() == Some(found.leaves_ago);
        let sequence = Sequence::from_walk(index, table, walk, ordinal(found.last) + 1);
        self.make_room(stream, index.root);
        let id = ScanId(self.next_id);
        self.next_id += 1;
        self.counters.scans += 1;
        self.counters.full_scans += u64::from(full);
        self.scans.push(Scan {
            id,
            stream,
            index: index.root,
            sequence,
            ahead: VecDeque::new(),
            behind: VecDeque::new(),
            allowance: Some(EVIDENCE),
            told: 0,
            passed: 0,
            passed_at_plan: 0,
            far: None,
            strays: 0,
            failed: false,
        });
        let at = self.scans.len() - 1;
        self.extend(source, at, LOW, 1);
        if full {
            self.scans[at].allowance = None;
        }
        Ok(id)
    }

    /// Ends the scan of the same index on the same stream, or the oldest where there are too many.
    fn make_room(&mut self, stream: u64, index: PageNo) {
        let same = self.scans.iter().position(|scan| scan.stream == stream && scan.index == index);
        if let Some(at) = same {
            self.end(at);
        }
        if self.scans.len() >= SCANS_LIMIT {
            self.end(0);
        }
    }

    fn end(&mut self, at: usize) {
        let scan = self.scans.remove(at);
        if scan.ahead.len() <= 1 && scan.sequence.finished() {
            self.counters.finished += 1;
        }
        if self.caution.len() >= INDEXES_TRIED {
            self.caution.clear();
        }
        // A list of which most was not read: be slower to believe the next scan of this index.
        let left = scan.told.min(scan.ahead.len()).saturating_sub(1) as u64;
        let read = scan.passed - scan.passed_at_plan;
        if left > read {
            let evidence = self.caution.entry(scan.index).or_insert(EVIDENCE);
            *evidence = (*evidence * 2).min(EVIDENCE_LIMIT);
        } else if read > EVIDENCE_LIMIT as u64 {
            self.caution.remove(&scan.index);
        }
    }

    /// Generates more of a scan until `entries` are ahead, or its sequence ends: whole leaves of a full
    /// scan, no more than is asked for of another.
    /// `leaves` are about to be generated, this call and the next ones together.
    fn extend<R: ReadPage>(&mut self, source: &mut R, at: usize, entries: usize, leaves: usize) {
        let scan = &mut self.scans[at];
        let entries = entries.min(AHEAD_LIMIT);
        while scan.ahead.len() < entries && !scan.failed {
            let part = if scan.allowance.is_some() { entries - scan.ahead.len() } else { usize::MAX };
            match scan.sequence.next_part(&mut self.interior, source, leaves, part) {
                Ok(Some(reads)) => {
                    self.counters.planned += reads.len() as u64;
                    scan.ahead.extend(reads);
                }
                Ok(None) => break,
                Err(_) => {
                    scan.failed = true;
                    self.counters.failed += 1;
                }
            }
        }
    }

    /// The scan is known to read only a part of its index (a statement with LIMIT): let it begin
    /// small.
    pub fn restrict(&mut self, id: ScanId) {
        if let Some(scan) = self.scans.iter_mut().find(|scan| scan.id == id) {
            scan.allowance.get_or_insert(EVIDENCE);
        }
    }

    /// The reads that a scan will make, from the one that is about to be made: as many as hold
    /// `distinct` pages where it is a full scan, fewer while it is not sure. Nothing where the scan
    /// is over.
    pub fn plan<R: ReadPage>(&mut self, source: &mut R, id: ScanId, distinct: usize) -> Option<Plan> {
        let at = self.scans.iter().position(|scan| scan.id == id)?;
        let wanted = self.scans[at].allowance.map_or(distinct, |allowance| allowance.min(distinct)).max(1);
        let mut pages = HashSet::new();
        let mut counted = 0;
        loop {
            let scan = &self.scans[at];
            while counted < scan.ahead.len() && pages.len() < wanted {
                pages.insert(scan.ahead[counted].page);
                counted += 1;
            }
            if pages.len() >= wanted || scan.sequence.finished() || scan.failed || counted >= AHEAD_LIMIT {
                break;
            }
            // How many leaves the rest takes, going by those that were counted.
            let marks = scan.ahead.iter().filter(|access| access.mark).count();
            let leaf = (counted / marks.max(1)).max(1);
            let missing = wanted - pages.len();
            let more = if scan.allowance.is_some() { missing } else { 1 };
            self.extend(source, at, counted + more, missing.div_ceil(leaf));
        }
        let scan = &mut self.scans[at];
        scan.told = counted;
        scan.passed_at_plan = scan.passed;
        if let Some(allowance) = &mut scan.allowance {
            let growth = if *allowance < LARGE { GROWTH } else { GROWTH_LARGE };
            *allowance = allowance.saturating_mul(growth);
        }
        let ended = counted == scan.ahead.len() && (scan.sequence.finished() || scan.failed);
        let done = ended || wanted < distinct;
        Some(Plan { accesses: scan.ahead.iter().take(counted).copied().collect(), done })
    }
}

/// Indexes that are tried for a leaf whose tree is not known. Each costs a descent of a page or two.
const INDEXES_TRIED: usize = 16;
