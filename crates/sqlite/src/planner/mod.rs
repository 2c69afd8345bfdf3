//! The planner of one database file: its inputs are page reads, its output is the coming reads.
//!
//! It observes every page that SQLite reads. Interior index pages show which leaf belongs to which tree; the
//! [recogniser](crate::recognise) finds scans; each [scan](crate::scan) then holds its coming reads. Before a
//! read, [`Planner::expects`] returns whether a scan has predicted it. Only such reads count as progress, so
//! that overflow pages, interior pages and other statements do not affect it. When the prefetcher needs more of
//! the list, [`Planner::plan`] generates it.
//!
//! A scan ends when its transaction does, when it has been read to its end, when other row pages are read again
//! and again instead of its own, or when the file has changed. Everything here is bounded, and no error leaves
//! it: a page that cannot be followed ends the prediction.

mod joins;

pub use crate::counters::Counters;

use crate::ends::{Bounds, RowLimit, ScanLimits};
use crate::error::Result;
use crate::header::{Encoding, Header};
use crate::join::JoinEvidence;
use crate::keyed::{KeyedEvidence, KeyedReads, points_on};
use crate::neighbours::Neighbours;
use crate::page::{Kind, Page, PageNo};
use crate::points::Points;
use crate::recognise::{EVIDENCE, RecognisedScan, Recogniser, RowRef};
use crate::record::{Collation, Order, compare};
use crate::scan::{FollowedScan, ScanReads};
pub use crate::scan::{Lookahead, Plan, ScanId};
use crate::schema::{Index, Schema, Table, TableKind};
use crate::sequence::{Sequence, Until};
use crate::source::ReadPage;
pub use crate::statements::{ReadTimes, Why};
use crate::tree::{DEPTH_LIMIT, Interior, Owned};
use crate::walk::{Direction, Walk, target};
use foreseek_hints::allowance::{Allowance, End, ReadKind, SEEK_PAGES, SEEK_PAGES_DISK, STEP_FLOOR};
use foreseek_hints::in_order::{are_forward, sorting_gains};
use foreseek_units::{ByteOffset, Bytes, Nanos, PAGE_SIZE, PageSpan, Pages, Span};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Ordering;

/// Scans at a time in one file. A statement rarely scans more than two tables by index, and a process with more
/// such statements at a time has no memory to prefetch for each.
pub const SCANS_LIMIT: usize = 4;
/// Streams (descriptors) of one file whose reads are observed: the connections of a large pool.
const STREAMS_LIMIT: usize = 64;
/// Leaves whose tree is remembered; 24 bytes each. Enough for 4 GB in 4 KiB pages.
const OWNERS_LIMIT: usize = 1 << 20;
/// Indexes that are tried for a leaf whose tree is not known. Each costs a descent of a page or two.
const INDEXES_TRIED: usize = 16;
/// For leaves with this many entries, twice the evidence is needed: by chance, four pages of a small table fit
/// somewhere among so many. More pages than that have been read when a scan is first searched.
const MANY: usize = 256;
/// Reads that must be left if the end is visible. To create a client takes some milliseconds. A sorted batch of
/// four reads, which is a quarter cheaper than four single ones, saves one seek.
const WORTH: usize = 16;
/// The same if it is not: no more of them are searched than a first step holds.
const LEAST: usize = STEP_FLOOR as usize;
/// Missing reads before rows are compared with look-ups, which takes some 20 microseconds each. A statement of
/// ten rows has some 22 with its way down, and must cost almost nothing.
const JOINS_FROM: u64 = 16;
/// Own reads that are remembered until a statement reads the same page: 2 MiB. The prediction of a step of a
/// million reads needs a tenth of that.
const OWN_LIMIT: usize = 1 << 16;
/// The most leaves between two queries for looked-up values: so many seeks take a second or two.
const WAIT_LIMIT: usize = 256;
/// Reads of a step that show whether it gains.
const JUDGED: usize = 1024;
/// The most evidence that is needed after scans of an index have been wasted again and again.
const EVIDENCE_LIMIT: usize = 64;

/// The planner of one database file.
#[derive(Debug)]
pub struct Planner {
    interior: Interior,
    pages: u32,
    schema: Option<Schema>,
    /// The position in its tree of each page that is not a root.
    owners: FxHashMap<PageNo, Owner>,
    streams: FxHashMap<u64, DescriptorReads>,
    scans: Vec<FollowedScan>,
    /// The needed evidence, by root of the index, if it is more than [`EVIDENCE`].
    caution: FxHashMap<PageNo, usize>,
    next_id: u64,
    counters: Counters,
    /// Pages that prediction has read and no statement has read since, with the time of each read.
    own: FxHashMap<PageNo, Nanos>,
    /// The time of a read of the whole file, as a multiple of a single read.
    sweep: u64,
    /// Pages of the kernel that are transferred in the time of a single read.
    seek_pages: u64,
    /// How much of the file memory may hold.
    memory: Bytes,
}

/// The position of a page in its tree.
#[derive(Clone, Copy, Debug)]
struct Owner {
    root: PageNo,
    parent: PageNo,
}

/// The cost of one page read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The time that the reader waited for it, and for the prediction before it.
    pub time: Nanos,
    /// It went to storage.
    pub missed: bool,
}

/// The state of the reads through one descriptor.
#[derive(Debug, Default)]
struct DescriptorReads {
    recogniser: Recogniser,
    neighbours: Neighbours,
    allowance: Allowance,
    /// Missing reads before the stream was bypassed, or before a transaction whose beginning was not seen.
    misses: u64,
    /// A scan was found whose end is not visible: another is searched when that may have a step.
    unseen: bool,
    /// The time that read-around has saved.
    saved: Nanos,
    /// Whether a scan of this statement was entered, and whether one was skipped because it had little to read.
    entered: bool,
    left: bool,
    /// The page that a scan expects to be read now.
    expected: Option<PageNo>,
    /// Whether the statement looks values up in an index, and whether in a table's own tree.
    look_ups: LookUps,
    key_look_ups: LookUps,
    keyed: KeyedEvidence,
    joins: JoinEvidence,
    /// Pages of the present step that were not used yet. They are pages of the database: a page of the kernel
    /// may hold several small ones, each of which is a read of the statement.
    fresh: FxHashSet<PageNo>,
}

/// How often a statement is queried for its looked-up values, which costs its text.
#[derive(Clone, Copy, Debug, Default)]
struct LookUps {
    /// Leaves until the next query, and their number at the last one.
    wait: usize,
    waited: usize,
}

impl LookUps {
    /// A leaf was read. Returns whether to query.
    fn is_due(&mut self) -> bool {
        let is_due = self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        is_due
    }

    /// The statement was queried: if it looks up nothing, the next query is after twice as many leaves.
    fn answered(&mut self, any: bool) {
        self.waited = if any { 0 } else { (self.waited * 2).clamp(EVIDENCE, WAIT_LIMIT) };
        self.wait = self.waited;
    }
}

impl DescriptorReads {
    fn new(sweep: u64) -> Self {
        let mut stream = Self::default();
        stream.allowance.set_sweep(sweep);
        stream
    }

    /// Whether to search for a scan. A search costs own reads, therefore it waits until a scan may have a step.
    fn may_look(&self) -> bool {
        self.may_step(if self.unseen { End::Unknown } else { End::Known })
    }

    /// Whether a scan with this visibility of its end may have a step now.
    fn may_step(&self, end: End) -> bool {
        self.allowance.allowed_reads(end) >= STEP_FLOOR
    }
}

/// The time of a read of a whole file, as a multiple of a single read, if so many pages of the kernel are
/// transferred in the time of one.
fn sweep(header: &Header, pages: u32, seek_pages: u64) -> u64 {
    (header.page_size().get() * u64::from(pages) / PAGE_SIZE).div_ceil(seek_pages)
}

/// The role of an index page in its schema.
enum Role<'a> {
    Secondary(&'a Index, &'a Table),
    Rows,
    Unknown,
}

impl Planner {
    /// A planner for a database with this header, in a file of `pages` pages.
    #[must_use]
    pub fn new(header: Header, pages: u32) -> Self {
        Self {
            interior: Interior::new(header),
            pages,
            schema: None,
            owners: FxHashMap::default(),
            streams: FxHashMap::default(),
            scans: Vec::new(),
            caution: FxHashMap::default(),
            next_id: 0,
            counters: Counters::default(),
            own: FxHashMap::default(),
            sweep: sweep(&header, pages, SEEK_PAGES),
            seek_pages: SEEK_PAGES,
            memory: Bytes(u64::MAX),
        }
    }

    /// The same for a file on a rotating disk.
    #[must_use]
    pub fn on_rotational_disk(self) -> Self {
        let sweep = sweep(self.header(), self.pages, SEEK_PAGES_DISK);
        Self { sweep, seek_pages: SEEK_PAGES_DISK, ..self }
    }

    /// Sets how much of the file memory may hold.
    pub fn set_memory(&mut self, memory: Bytes) {
        self.memory = memory;
    }

    /// The database's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.interior.header()
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The time of a stream's reads since its transaction began, and the reason why it gains no more.
    #[must_use]
    pub fn state(&self, stream: u64) -> (ReadTimes, Why) {
        let Some(known) = self.streams.get(&stream) else { return Default::default() };
        let (stock, actual) = known.allowance.read_times();
        let stock = stock + known.saved;
        let mut scans = self.scans.iter().filter(|scan| scan.stream == stream).peekable();
        let why = if known.entered {
            match known.unseen {
                _ if scans.peek().is_some() && scans.all(FollowedScan::is_resting) => Why::InOrder,
                _ if known.allowance.is_unprofitable() => Why::Unprofitable,
                true => Why::EndUnknown,
                false => Why::Unlimited,
            }
        } else if known.left {
            Why::ShortScan
        } else if known.may_look() {
            Why::Unrecognised
        } else {
            Why::FewMisses
        };
        (ReadTimes { stock, actual }, why)
    }

    /// The tree of a page, by its root, as far as its interior pages were read.
    #[must_use]
    pub fn tree_of(&self, page: PageNo) -> Option<PageNo> {
        self.owners.get(&page).map(|owner| owner.root)
    }

    /// The kernel's pages of the file.
    #[must_use]
    pub fn extent(&self) -> PageSpan {
        Span::new(ByteOffset::ZERO, self.header().span_of(PageNo(self.pages)).end).pages()
    }

    /// Whether a page holds rows whose look-ups a scan of this stream follows: if it is in memory, this shows
    /// nothing about the looked-up pages.
    #[must_use]
    pub fn is_of_outer(&self, stream: u64, page: PageNo) -> bool {
        let is_followed = |scan: &&FollowedScan| scan.stream == stream && !scan.is_resting();
        let mut roots = self.scans.iter().filter(is_followed).filter_map(FollowedScan::outer_root).peekable();
        roots.peek().is_some() && self.tree_of(page).is_some_and(|tree| roots.any(|root| root == tree))
    }

    /// How many reads of a stream's transaction have missed, and whether its end is visible.
    #[must_use]
    pub fn misses_and_end(&self, stream: u64) -> (u64, End) {
        let goes_on = |scan: &&FollowedScan| {
            scan.stream == stream && scan.end().0 == End::Known && !scan.remains_less_than(WORTH)
        };
        let end = if self.scans.iter().any(|scan| goes_on(&scan)) { End::Known } else { End::Unknown };
        (self.streams.get(&stream).map_or(0, |stream| stream.misses + stream.allowance.misses()), end)
    }

    /// Read-around saved a read this much time, as its page was in memory.
    pub fn add_saved(&mut self, stream: u64, time: Nanos) {
        self.stream(stream).saved += time;
    }

    /// Another statement of a stream begins, in the same transaction.
    pub fn begin_statement(&mut self, stream: u64) {
        let known = self.stream(stream);
        (known.entered, known.left) = (false, false);
    }

    /// The live scans.
    pub fn scans(&self) -> impl Iterator<Item = ScanId> {
        self.scans.iter().map(|scan| scan.id)
    }

    /// The file was changed: all data about its pages is invalid.
    pub fn changed(&mut self, header: Header, pages: u32) {
        let counters = self.counters;
        let next_id = self.next_id;
        let (seek_pages, sweep, memory) =
            (self.seek_pages, sweep(&header, pages, self.seek_pages), self.memory);
        *self = Self { counters, next_id, seek_pages, sweep, memory, ..Self::new(header, pages) };
    }

    /// A stream begins a transaction: its scans are over.
    pub fn begin_transaction(&mut self, stream: u64) {
        self.end_scans(stream);
        if let Some(stream) = self.streams.get_mut(&stream) {
            *stream = DescriptorReads::new(self.sweep);
        }
    }

    /// The same where only the running statements have shown it. What has missed so far still counts for
    /// read-around, since a program that asks for one row in each statement has no other future.
    pub fn begin_unseen_transaction(&mut self, stream: u64) {
        self.end_scans(stream);
        self.keep_misses(stream);
    }

    /// A stream is bypassed from here on, as it finds all in memory. Its later scans are recognised again.
    pub fn bypassed(&mut self, stream: u64) {
        for scan in self.scans.iter_mut().filter(|scan| scan.stream == stream) {
            scan.discard_plan_use();
        }
        self.end_scans(stream);
        let entered = self.streams.get(&stream).is_some_and(|stream| stream.entered);
        if let Some(stream) = self.keep_misses(stream) {
            stream.entered = entered;
        }
    }

    /// Forgets a stream but for how many of its reads have missed.
    fn keep_misses(&mut self, stream: u64) -> Option<&mut DescriptorReads> {
        let stream = self.streams.get_mut(&stream)?;
        let misses = stream.misses + stream.allowance.misses();
        *stream = DescriptorReads { misses, ..DescriptorReads::new(self.sweep) };
        Some(stream)
    }

    fn end_scans(&mut self, stream: u64) {
        for at in (0..self.scans.len()).rev() {
            if self.scans[at].stream == stream {
                self.end(at);
            }
        }
    }

    /// A stream was closed.
    pub fn closed(&mut self, stream: u64) {
        self.begin_transaction(stream);
        self.streams.remove(&stream);
    }

    /// Whether a scan of this stream has predicted this page, which is about to be read. It counts as progress:
    /// call it once for each read, before it is made.
    pub fn expects(&mut self, stream: u64, page: PageNo) -> Option<ScanId> {
        let interior = self.interior.holds(page);
        let mut mine = self.scans.iter_mut().filter(|scan| scan.stream == stream);
        let scan = mine.find_map(|scan| scan.advance_to(page, interior).then_some(scan.id));
        self.counters.predicted += u64::from(scan.is_some());
        if let Some(id) = scan {
            let has_step =
                self.scans.iter().any(|scan| scan.id == id && (scan.is_hinted() || self.step(scan).0 > 0));
            self.stream(stream).expected = Some(page);
            return Some(id).filter(|_| has_step);
        }
        scan
    }

    /// How many reads the next step of a scan may hold, and whether its end is visible.
    fn step(&self, scan: &FollowedScan) -> (usize, End) {
        let (end, left) = scan.end();
        if scan.is_resting() {
            return (0, end);
        }
        let allowed = self.streams.get(&scan.stream).map_or(0, |stream| stream.allowance.allowed_reads(end));
        (usize::try_from(allowed).unwrap_or(usize::MAX).min(left), end)
    }

    /// Prediction took `time`, while the stream's reader waited.
    pub fn add_overhead(&mut self, stream: u64, time: Nanos) {
        self.stream(stream).allowance.add_overhead(time);
    }

    /// Prediction has read a page from storage in `time`.
    pub fn own_read(&mut self, page: PageNo, time: Nanos) {
        if self.own.len() >= OWN_LIMIT {
            self.own.clear();
        }
        self.own.insert(page, time);
    }

    /// A stream has read a page, at this cost. Returns a scan that it has shown. `texts` returns the texts of
    /// the running statements on the stream's connection; it is called when a scan is about to begin.
    pub fn observe<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        number: PageNo,
        bytes: &[u8],
        cost: Cost,
        texts: &mut dyn FnMut() -> Vec<String>,
    ) -> Option<ScanId> {
        self.counters.pages += 1;
        let usable = self.header().usable();
        let page = Page::parse(number, bytes, usable).ok();
        let predicted = self.count(stream, number, page.as_ref(), cost);
        let page = page?;
        self.counters.leaves += u64::from(!page.kind().is_interior());
        if !page.kind().is_interior() {
            let allowance = self.streams.get(&stream).map(|stream| &stream.allowance);
            for scan in self.scans.iter_mut().filter(|scan| scan.stream == stream) {
                let allowed = ahead(scan, allowance);
                scan.catch_up(&mut self.interior, source, number, allowed, &mut self.counters);
            }
        }
        match page.kind() {
            Kind::TableInterior | Kind::IndexInterior => {
                let is_new = self.interior.put(number, bytes);
                if is_new || page.child(0).is_ok_and(|child| !self.owners.contains_key(&child)) {
                    self.own_children(source, &page);
                }
                None
            }
            Kind::TableLeaf => self.row_page(source, stream, &page, cost.missed, texts),
            Kind::IndexLeaf => self.index_leaf(source, stream, (&page, bytes), cost.missed, texts),
        }
        // Reads that a scan has predicted are no evidence of another.
        .or_else(|| if predicted { None } else { self.next_to_last(source, stream, &page, texts) })
        .or_else(|| {
            if predicted { None } else { self.looked_up_by_key(source, stream, &page, cost.missed, texts) }
        })
        .or_else(|| if predicted { None } else { self.joined(source, stream, &page, cost.missed, texts) })
        .or_else(|| self.remember(stream, &page, bytes))
    }

    /// A leaf was read that may be the outer side of a join. Nothing begins by it.
    fn remember(&mut self, stream: u64, page: &Page<'_>, bytes: &[u8]) -> Option<ScanId> {
        let root = self.owners.get(&page.number()).filter(|_| !page.kind().is_interior())?.root;
        let known = self.stream(stream);
        // A leaf that was read a little earlier is then still available.
        if known.allowance.misses() * 2 >= JOINS_FROM {
            known.joins.read(root, page.number(), bytes);
        }
        None
    }

    /// Counts the cost of a read. Returns whether a scan has predicted it.
    fn count(&mut self, stream: u64, number: PageNo, page: Option<&Page<'_>>, cost: Cost) -> bool {
        let own = self.own.remove(&number).filter(|_| !cost.missed);
        let known = self.scans.iter().filter(|scan| scan.stream == stream).map(FollowedScan::known).sum();
        let kind = match page.map(Page::kind) {
            // A page that does not belong to a tree belongs to a chain.
            None => ReadKind::Overflow,
            Some(kind) if kind.is_interior() => ReadKind::Interior,
            Some(_) => ReadKind::Row,
        };
        let DescriptorReads { allowance, expected, fresh, .. } = self.stream(stream);
        allowance.set_known_reads(known);
        // The count of a page of a step includes the cost of its prediction.
        if let Some(own) = own.filter(|_| !fresh.contains(&number)) {
            allowance.credit_own_read(kind, own);
        }
        if expected.take() == Some(number) {
            allowance.predicted(cost.time, fresh.remove(&number));
            return true;
        }
        allowance.read(kind, cost.time, cost.missed);
        false
    }

    /// Records the tree of an interior page's children, and of their children if those came first.
    fn own_children<R: ReadPage>(&mut self, source: &mut R, page: &Page<'_>) {
        let Some(root) = self.root_of(source, page.number()) else { return };
        if self.owners.len() > OWNERS_LIMIT {
            self.owners.clear();
        }
        let usable = self.header().usable();
        let children = |page: &Page<'_>| {
            let parent = page.number();
            (0..=page.cells()).filter_map(|child| Some((page.child(child).ok()?, parent))).collect::<Vec<_>>()
        };
        let mut waiting = children(page);
        while let Some((number, parent)) = waiting.pop() {
            // Entered once each: a cycle ends here.
            if self.owners.insert(number, Owner { root, parent }).is_some() {
                continue;
            }
            if let Some(bytes) = self.interior.kept(number)
                && let Ok(page) = Page::parse(number, &bytes, usable)
            {
                waiting.extend(children(&page));
            }
        }
    }

    /// The pages from a root down to this one, if they are known.
    fn path_to(&self, page: PageNo) -> Option<Vec<PageNo>> {
        let mut way = vec![page];
        let root = self.owners.get(&page)?.root;
        while way.last() != Some(&root) {
            if way.len() > DEPTH_LIMIT {
                return None;
            }
            way.push(self.owners.get(way.last()?)?.parent);
        }
        way.reverse();
        Some(way)
    }

    /// The root of an index page's tree, if it is known.
    fn root_of<R: ReadPage>(&mut self, source: &mut R, page: PageNo) -> Option<PageNo> {
        if let Some(owner) = self.owners.get(&page) {
            return Some(owner.root);
        }
        let schema = self.schema(source);
        let mut roots =
            schema.indexes.iter().map(|index| index.root).chain(schema.tables.iter().map(|table| table.root));
        roots.find(|&root| root == page)
    }

    fn schema<R: ReadPage>(&mut self, source: &mut R) -> &Schema {
        let header = *self.interior.header();
        // An unreadable schema is an empty one: nothing is recognised.
        self.schema.get_or_insert_with(|| Schema::read(source, &header).unwrap_or_default())
    }

    fn index_leaf<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        (page, bytes): (&Page<'_>, &[u8]),
        missed: bool,
        texts: &mut dyn FnMut() -> Vec<String>,
    ) -> Option<ScanId> {
        let root = self.root_of(source, page.number());
        let leads = match self.role(root) {
            Role::Rows => return self.row_page(source, stream, page, missed, texts),
            Role::Secondary(index, table) => match &table.kind {
                TableKind::Rowid => RowRef::Rowid,
                TableKind::Key(orders) => RowRef::Key { at: index.key_at.clone(), orders: orders.clone() },
            },
            Role::Unknown => RowRef::Rowid,
        };
        // A leaf that a scan has predicted is the scan's own, and no candidate for another. A scan of leaves
        // may turn out to read rows, too.
        let planned =
            |scan: &FollowedScan| scan.stream == stream && !scan.is_of_leaves() && scan.is_at(page.number());
        let is_planned = self.scans.iter().any(planned);
        self.follow(source, stream, page.number(), FollowedScan::is_of_leaves);
        if !is_planned {
            // The text costs time, and is only queried if a read has cost more.
            let known = self.stream(stream);
            let is_asked = missed && known.may_look() && known.look_ups.is_due();
            let cells = root.filter(|_| is_asked).and_then(|root| self.looked_up(page, root, &texts()));
            if is_asked {
                self.stream(stream).look_ups.answered(cells.is_some());
            }
            let cells = cells.unwrap_or_else(|| (0..page.cells()).collect());
            let least = if cells.len() > MANY { 2 * EVIDENCE } else { EVIDENCE };
            let evidence = root.and_then(|root| self.caution.get(&root)).copied().unwrap_or(least).max(least);
            self.stream(stream).recogniser.leaf(page, bytes, cells, leads, evidence);
        }
        None
    }

    /// The cells of a leaf that a statement looks up, if it looks up several values of this index.
    fn looked_up(&self, leaf: &Page<'_>, root: PageNo, statements: &[String]) -> Option<Vec<usize>> {
        let schema = self.schema.as_ref()?;
        let index = schema.indexes.iter().find(|index| index.root == root)?;
        let limits = ScanLimits::from_statements_by_index(statements, &schema.table_of(index).name, index);
        let points = self.points(&limits.bounds, index, Direction::Forward)?;
        let is_wanted = |cell: &usize| leaf.columns(*cell).is_some_and(|entry| points.contain(entry));
        let cells = (0..leaf.cells()).filter(is_wanted);
        Some(cells.collect())
    }

    /// The values of an index that a statement looks up.
    fn points(&self, bounds: &Bounds, index: &Index, direction: Direction) -> Option<Points> {
        let encoding = self.header().encoding;
        Points::new(bounds.points()?, |position| index.order(position), encoding, direction)
    }

    fn role(&self, root: Option<PageNo>) -> Role<'_> {
        let (Some(root), Some(schema)) = (root, &self.schema) else { return Role::Unknown };
        if let Some(index) = schema.indexes.iter().find(|index| index.root == root) {
            return Role::Secondary(index, schema.table_of(index));
        }
        if schema.tables.iter().any(|table| table.root == root) { Role::Rows } else { Role::Unknown }
    }

    fn stream(&mut self, stream: u64) -> &mut DescriptorReads {
        if self.streams.len() >= STREAMS_LIMIT && !self.streams.contains_key(&stream) {
            self.streams.clear();
        }
        let sweep = self.sweep;
        self.streams.entry(stream).or_insert_with(|| DescriptorReads::new(sweep))
    }

    fn row_page<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        page: &Page<'_>,
        missed: bool,
        texts: &mut dyn FnMut() -> Vec<String>,
    ) -> Option<ScanId> {
        if self.follow(source, stream, page.number(), |_| true) {
            return None;
        }
        self.counters.unpredicted += u64::from(self.scans.iter().any(|scan| scan.stream == stream));
        let header = *self.header();
        let known = self.streams.get_mut(&stream)?;
        // A judgement takes some 30 us, and is only made if a read has cost more.
        let wanted = missed && known.may_look();
        let found = known.recogniser.row_page(page, &header, wanted)?;
        let begun = self.begin(source, stream, &found, texts);
        self.counters.failed += u64::from(begun.is_err());
        begun.ok().flatten()
    }

    /// Advances those of the stream's scans that have reached a page; for the others the read is a stray one.
    /// Returns whether a scan has reached it.
    fn follow<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        page: PageNo,
        of: impl Fn(&FollowedScan) -> bool,
    ) -> bool {
        let expected = self.scans.iter().any(|scan| scan.stream == stream && of(scan) && scan.is_at(page));
        let root = self.tree_of(page);
        let is_outer = |scan: &FollowedScan| root.is_some() && scan.outer_root() == root;
        for at in (0..self.scans.len()).rev() {
            let scan = &mut self.scans[at];
            if scan.stream != stream || !of(scan) {
                continue;
            }
            if scan.is_at(page) {
                let allowed = ahead(scan, self.streams.get(&stream).map(|stream| &stream.allowance));
                scan.keep_ahead(&mut self.interior, source, allowed, &mut self.counters);
                continue;
            }
            if root.is_some() && scan.inner_root() == root {
                scan.add_unpredicted_row();
            }
            if !expected && !is_outer(scan) && scan.ends_after_other_row(page) {
                // A page that another scan has reached is that one's.
                self.end(at);
            }
        }
        expected
    }

    /// A page was read. If it is a leaf next to the last one, as were earlier ones, a scan of leaves begins.
    fn next_to_last<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        page: &Page<'_>,
        texts: &mut dyn FnMut() -> Vec<String>,
    ) -> Option<ScanId> {
        if page.kind().is_interior() {
            return None;
        }
        let number = page.number();
        let above = |owner: Owner| Some((owner, self.interior.kept(owner.parent)?));
        let Some((owner, bytes)) = self.owners.get(&number).copied().and_then(above) else {
            self.stream(stream).neighbours.other_page_read();
            return None;
        };
        let parent = Page::parse(owner.parent, &bytes, self.header().usable()).ok()?;
        let known = self.streams.get_mut(&stream)?;
        let direction = known.neighbours.leaf(&parent, number)?;
        let followed =
            |scan: &FollowedScan| scan.stream == stream && (scan.index == owner.root || scan.is_at(number));
        if !known.may_look() || self.scans.iter().any(followed) {
            return None;
        }
        let statements = texts();
        let schema = self.schema.take()?;
        let begun = schema.tree(owner.root).map(|(index, table)| {
            self.begin_leaves(source, stream, page, direction, (&index, table), &statements)
        });
        self.schema = Some(schema);
        self.counters.failed += u64::from(begun.as_ref().is_some_and(Result::is_err));
        let begun = begun.and_then(Result::ok).flatten();
        // One whose end is not visible waits for its allowance anyway.
        let known = self.stream(stream);
        if begun.is_none() && known.may_look() {
            known.neighbours.refused();
        }
        begun
    }

    /// A page was read. If it is a leaf with keys from a list in a statement, as were earlier ones, a scan of
    /// the other keys begins.
    fn looked_up_by_key<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        leaf: &Page<'_>,
        missed: bool,
        texts: &mut dyn FnMut() -> Vec<String>,
    ) -> Option<ScanId> {
        let root = self.owners.get(&leaf.number())?.root;
        let schema = self.schema.as_ref()?;
        let table = schema.tables.iter().find(|table| table.root == root)?;
        let known = self.streams.get_mut(&stream)?;
        let mine = |scan: &FollowedScan| scan.stream == stream && scan.index == root;
        if leaf.kind().is_interior()
            || !missed
            || !known.may_look()
            || self.scans.iter().any(mine)
            || !known.key_look_ups.is_due()
        {
            return None;
        }
        let statements = texts();
        let found = key_points(table, &statements, self.header().encoding);
        let on = found.as_ref().and_then(|(points, _)| points_on(leaf, points));
        let known = self.streams.get_mut(&stream)?;
        known.key_look_ups.answered(on.is_some());
        let direction = known.keyed.leaf(root, leaf.number(), on?.0)?;
        let table = table.clone();
        let (points, limits) = found?;
        let points = points.in_direction(direction);
        let (_, next) = points_on(leaf, &points)?;
        let believed = if self.caution.contains_key(&root) { End::Unknown } else { limits.end };
        // A LIMIT counts rows that pass a filter: the rest of the list is the most.
        let end = if limits.rows.is_some() { End::Unknown } else { believed };
        if !self.may_begin(stream, end) {
            return None;
        }
        let reads = KeyedReads::new(&table, points, next, leaf.number());
        self.enter(source, stream, root, ScanReads::ByKey(reads), (end, None))
    }

    /// Begins a scan of a tree's leaves, which has reached this one.
    fn begin_leaves<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        leaf: &Page<'_>,
        direction: Direction,
        (index, table): (&Index, &Table),
        statements: &[String],
    ) -> Result<Option<ScanId>> {
        let mut limits = ScanLimits::from_statements_by_index(statements, &table.name, index);
        // A LIMIT counts rows, of which a leaf holds many.
        if self.caution.contains_key(&index.root) || limits.rows.is_some() {
            limits.end = End::Unknown;
        }
        if !self.may_begin(stream, limits.end) {
            return Ok(None);
        }
        let unknown = crate::Error::Damaged { page: leaf.number(), at: 0, what: "a leaf of no known tree" };
        let way = self.path_to(leaf.number()).ok_or(unknown)?;
        let walk = Walk::along(&mut self.interior, source, &way, direction, self.pages)?;
        let last = match direction {
            Direction::Forward => leaf.cells().saturating_sub(1),
            Direction::Backward => 0,
        };
        let until = self.until(leaf, last, direction, index, limits.bounds);
        let sequence = Sequence::leaves(index, walk, &mut self.interior, source)?.until(until);
        Ok(self.enter(source, stream, index.root, ScanReads::ByIndex(Box::new(sequence)), (limits.end, None)))
    }

    /// Whether a scan with this visibility of its end may begin.
    fn may_begin(&mut self, stream: u64, end: End) -> bool {
        let known = self.stream(stream);
        known.unseen |= end == End::Unknown;
        known.may_step(end)
    }

    /// A scan that continues after its evidence, if enough of it is left.
    fn enter<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        index: PageNo,
        reads: ScanReads,
        (end, rows): (End, Option<RowLimit>),
    ) -> Option<ScanId> {
        let id = ScanId(self.next_id);
        let mut scan = FollowedScan::new(id, stream, index, reads, (end, rows));
        let worth = match end {
            // Its rows are known as far as the scan that reads them has planned, which may be a few.
            _ if scan.outer_scan().is_some() => 1,
            End::Known => WORTH,
            End::Unknown => LEAST,
        };
        scan.look_ahead(&mut self.interior, source, worth, &mut self.counters);
        if scan.remains_less_than(worth) {
            self.stream(stream).left = true;
            return None;
        }
        // For other scans this is checked when they are planned. The look-ups of rows take long to predict, and
        // are checked here if enough of them are known.
        if scan.outer_root().is_some()
            && are_forward(scan.known_pages().map(|page| self.span(page)), Pages(self.seek_pages))
        {
            return None;
        }
        self.make_room(stream, index);
        if let Some(outer) = scan.outer_scan() {
            // The scan that reads the outer rows may have been removed to make room: nothing would plan them.
            let outer = self.scans.iter_mut().find(|scan| scan.id == outer)?;
            outer.end_rest();
        }
        self.stream(stream).entered = true;
        self.next_id += 1;
        self.counters.scans += 1;
        self.counters.ends_known += u64::from(end == End::Known);
        self.scans.push(scan);
        Some(id)
    }

    /// The pages of the kernel that hold a page.
    fn span(&self, page: PageNo) -> PageSpan {
        self.header().span_of(page).pages()
    }

    /// Finds the index of a recognised leaf and begins its scan.
    fn begin<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        found: &RecognisedScan,
        texts: &mut dyn FnMut() -> Vec<String>,
    ) -> Result<Option<ScanId>> {
        let root = self.root_of(source, found.leaf);
        if root.is_some_and(|root| self.is_joined(stream, root)) {
            return Ok(None);
        }
        let statements = texts();
        let schema = self.schema.take().unwrap_or_default();
        let known = root.and_then(|root| schema.indexes.iter().find(|index| index.root == root));
        let begun = match known {
            Some(index) => self.begin_by(source, stream, found, index, schema.table_of(index), &statements),
            // Its interior pages were read before this planner existed: try every index.
            None => schema
                .indexes
                .iter()
                .take(INDEXES_TRIED)
                .filter(|index| schema.table_of(index).kind == TableKind::Rowid)
                .find_map(|index| {
                    self.begin_by(source, stream, found, index, schema.table_of(index), &statements).ok()
                })
                .ok_or(crate::Error::Damaged { page: found.leaf, at: 0, what: "a leaf of no known index" }),
        };
        self.schema = Some(schema);
        begun
    }

    fn begin_by<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        found: &RecognisedScan,
        index: &Index,
        table: &Table,
        statements: &[String],
    ) -> Result<Option<ScanId>> {
        let mut limits = ScanLimits::from_statements_by_index(statements, &table.name, index);
        // A program that has abandoned a statement is likely to do it again.
        if self.caution.contains_key(&index.root) {
            limits.end = End::Unknown;
        }
        if !self.may_begin(stream, limits.end) {
            return Ok(None);
        }
        let known = self.stream(stream);
        // These of the LIMIT's rows have been read.
        let read = known.allowance.rows().max(EVIDENCE as u64);
        let rows = limits.rows.map(|rows| RowLimit { count: rows.count.saturating_sub(read), ..rows });
        known.recogniser.accept(found.leaf);
        let usable = self.header().usable();
        let leaf = Page::parse(found.leaf, &found.bytes, usable)?;
        let walk = Walk::at_leaf(&mut self.interior, source, index, &leaf, found.direction, self.pages)?;
        let key = target(source, &leaf, found.last, index, table, usable)?.key;
        self.interior.confirm(source, table, &key, found.page)?;
        let ordinal = |cell: usize| match found.direction {
            Direction::Forward => cell,
            Direction::Backward => leaf.cells() - 1 - cell,
        };
        let points = self.points(&limits.bounds, index, found.direction);
        let until = self.until(&leaf, found.last, found.direction, index, limits.bounds);
        let mut sequence = Sequence::from_walk(index, table, walk, ordinal(found.last) + 1).until(until);
        if let Some(points) = points {
            sequence = sequence.at_points(points);
        }
        Ok(self.enter(source, stream, index.root, ScanReads::ByIndex(Box::new(sequence)), (limits.end, rows)))
    }

    /// The end of a scan that has reached the entry in this cell.
    fn until(
        &self,
        leaf: &Page<'_>,
        last: usize,
        direction: Direction,
        index: &Index,
        bounds: Bounds,
    ) -> Until {
        let before = match direction {
            Direction::Forward => last.checked_sub(1),
            Direction::Backward => Some(last + 1).filter(|&cell| cell < leaf.cells()),
        };
        let value = |cell| entry(leaf, cell).into_iter().next();
        let run = before.and_then(value).zip(value(last)).is_some_and(|(before, last)| {
            let encoding = self.header().encoding;
            compare(before.value(), last.value(), index.order(0), encoding) == Some(Ordering::Equal)
        });
        Until { bounds, from: entry(leaf, last), run }
    }

    /// Ends a scan of the same index on the same stream that seems to be lost or reads only leaves, and the
    /// oldest if there are too many. One that continues belongs to another cursor.
    fn make_room(&mut self, stream: u64, index: PageNo) {
        let lost = |scan: &FollowedScan| {
            scan.stream == stream && scan.index == index && (scan.is_lost() || scan.is_of_leaves())
        };
        if let Some(at) = self.scans.iter().position(lost) {
            self.end(at);
        }
        if self.scans.len() >= SCANS_LIMIT {
            self.end(0);
        }
    }

    fn end(&mut self, at: usize) {
        let scan = self.scans.remove(at);
        // The rows with the keys of its look-ups are not read any more. It began later, and is therefore
        // behind: a loop over the scans from the last to the first has passed it.
        while let Some(inner) = self.scans.iter().position(|inner| inner.outer_scan() == Some(scan.id)) {
            self.end(inner);
        }
        if scan.is_planned() {
            self.stream(scan.stream).allowance.end();
        }
        self.counters.finished += u64::from(scan.is_finished());
        if self.caution.len() >= INDEXES_TRIED {
            self.caution.clear();
        }
        // Most of a list was not read: require more evidence for the next scan of this index.
        let (read, left) = scan.use_of_plan();
        // Predicted pages were not read: the look-ups of the rows are other ones.
        if let Some(outer) = scan.outer_root().filter(|_| !scan.is_planned() || left > read) {
            self.stream(scan.stream).joins.refused(outer, scan.index);
        }
        if left > read {
            let evidence = self.caution.entry(scan.index).or_insert(EVIDENCE);
            *evidence = (*evidence * 2).min(EVIDENCE_LIMIT);
        } else if read > EVIDENCE_LIMIT as u64 {
            self.caution.remove(&scan.index);
        }
    }

    /// Whether a stream's scans need not be followed: the client has hints of all their reads.
    #[must_use]
    pub fn is_fully_hinted(&self, stream: u64) -> bool {
        self.scans
            .iter()
            .filter(|scan| scan.stream == stream)
            .all(|scan| scan.is_resting() || scan.is_fully_hinted())
    }

    /// Whether a scan was ever planned: then its pages may be in memory because of it.
    #[must_use]
    pub fn is_planned(&self, id: ScanId) -> bool {
        self.scans.iter().any(|scan| scan.id == id && scan.is_planned())
    }

    /// The coming reads of a scan, from the one that is about to be made: as many as requested and as the
    /// stream's allowance permits. `None` if the scan is over.
    pub fn plan<R: ReadPage>(&mut self, source: &mut R, id: ScanId, lookahead: Lookahead) -> Option<Plan> {
        self.plan_one(source, id, lookahead, false)
    }

    /// The same for this scan and the others that have advanced since they were last planned, or never were;
    /// this one's plan is the first. They share the requested reads. Each may take the whole step of its
    /// stream's allowance, therefore a step of several may cost so many times as much.
    pub fn plan_together<R: ReadPage>(
        &mut self,
        source: &mut R,
        id: ScanId,
        lookahead: Lookahead,
    ) -> Vec<Option<Plan>> {
        let moves = |scan: &&FollowedScan| scan.id == id || scan.is_moving();
        let mut scans: Vec<&FollowedScan> = self.scans.iter().filter(moves).collect();
        scans.sort_by_key(|scan| scan.id != id);
        let lookahead = lookahead.shared(scans.len());
        let streams: Vec<u64> = scans.iter().map(|scan| scan.stream).collect();
        // The look-ups of a scan's rows are known once the rows are planned.
        let mut order: Vec<(usize, ScanId)> = scans.iter().map(|scan| scan.id).enumerate().collect();
        order.sort_by_key(|&(at, _)| scans[at].outer_scan().is_some());
        let mut plans: Vec<Option<Plan>> = vec![None; streams.len()];
        for (at, id) in order {
            // A scan without a step has begun nothing that another could extend.
            let has_begun = |(stream, plan): (&u64, &Option<Plan>)| {
                *stream == streams[at] && plan.as_ref().is_some_and(|plan| !plan.accesses.is_empty())
            };
            let beside = streams.iter().zip(&plans).any(has_begun);
            plans[at] = self.plan_one(source, id, lookahead, beside);
        }
        plans
    }

    /// The plan of one scan. `beside`: another scan of its stream has just been planned.
    fn plan_one<R: ReadPage>(
        &mut self,
        source: &mut R,
        id: ScanId,
        lookahead: Lookahead,
        beside: bool,
    ) -> Option<Plan> {
        let at = self.scans.iter().position(|scan| scan.id == id)?;
        let (step, _) = self.step(&self.scans[at]);
        let scan = &mut self.scans[at];
        if step == 0 {
            return Some(Plan { accesses: Vec::new(), done: true });
        }
        let (stream, was_planned) = (scan.stream, scan.is_planned());
        // A part of its reads shows the gain of all: to predict all of them takes long.
        let first = if step > JUDGED {
            Lookahead { pages: lookahead.pages.min(JUDGED), ..lookahead }
        } else {
            lookahead
        };
        let mut plan = scan.plan(&mut self.interior, source, first, step, &mut self.counters);
        // The look-ups of another scan's rows are known by this plan.
        let is_outer = self.scans.iter().any(|inner| inner.outer_scan() == Some(id));
        let spans = plan.accesses.iter().map(|access| self.span(access.page));
        if !is_outer && !sorting_gains(spans, Pages(self.seek_pages)) {
            self.scans[at].rest(was_planned);
            return Some(Plan { accesses: Vec::new(), done: true });
        }
        if first != lookahead {
            plan = self.scans[at].plan(&mut self.interior, source, lookahead, step, &mut self.counters);
        }
        if is_outer {
            // Their keys are needed at once: all of them are fetched before the first is read.
            let mut pages: Vec<PageNo> = plan.accesses.iter().map(|access| access.page).collect();
            for inner in self.scans.iter_mut().filter(|inner| inner.outer_scan() == Some(id)) {
                inner.outer_planned(pages.iter().copied());
            }
            pages.sort_unstable();
            pages.dedup();
            source.will_need(&pages);
        }
        let DescriptorReads { allowance, fresh, .. } = self.stream(stream);
        if !beside {
            fresh.clear();
        }
        let before = fresh.len();
        fresh.extend(plan.accesses.iter().map(|access| access.page));
        let reads = (fresh.len() - before) as u64;
        if beside {
            allowance.extend(reads)
        } else {
            allowance.begin(reads)
        }
        Some(plan)
    }
}

/// How far a scan may look ahead for its next reads. If its end is visible, it keeps its position while no step
/// is made: the statement reads the same pages next.
fn ahead(scan: &FollowedScan, allowance: Option<&Allowance>) -> u64 {
    let (end, left) = scan.end();
    let allowed = allowance.map_or(0, |allowance| allowance.allowed_reads(end));
    let least = if end == End::Known { STEP_FLOOR * 2 } else { 0 };
    allowed.max(least).min(left as u64)
}

/// The keys of a table in a statement, and the limits of its scan.
fn key_points(table: &Table, statements: &[String], encoding: Encoding) -> Option<(Points, ScanLimits)> {
    let plain = Order { collation: Collation::Binary, descending: false };
    let points = |names: &[Option<String>], order: &dyn Fn(usize) -> Order| {
        let limits = ScanLimits::from_statements(statements, &table.name, names);
        let columns = limits.bounds.points()?;
        let is_sound = |value: &Owned| !table.kind.is_rowid() || matches!(value, Owned::Integer(_));
        columns.iter().flatten().all(is_sound).then_some(())?;
        Some((Points::new(columns, order, encoding, Direction::Forward)?, limits))
    };
    match &table.kind {
        TableKind::Rowid => table.key.iter().find_map(|name| points(&[Some(name.clone())], &|_| plain)),
        TableKind::Key(orders) => {
            let names: Vec<_> = table.key.iter().cloned().map(Some).collect();
            points(&names, &|position| orders.get(position).copied().unwrap_or(plain))
        }
    }
}

/// The columns of an index entry, as far as they are on its page.
fn entry(page: &Page<'_>, cell: usize) -> Vec<Owned> {
    page.columns(cell).map_or_else(Vec::new, |columns| columns.map(Owned::of).collect())
}
