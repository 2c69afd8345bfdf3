//! The page reads of a scan by an index, in order.
//!
//! For each leaf of the index, in key order: the leaf (a landmark), then for each of its entries the overflow
//! pages of the entry itself and the table page of its row. Interior entries come between the leaves. Interior
//! pages of both trees are not listed: the planner has just read them, and SQLite keeps them in its own cache.

use crate::ends::Bounds;
use crate::error::Result;
use crate::header::{HEADER_LEN, Header};
use crate::page::{Page, PageNo};
use crate::points::{PointAt, Points};
use crate::schema::{Index, Schema, Table};
use crate::source::ReadPage;
use crate::tree::{Interior, Owned, RowKey};
use crate::walk::{Direction, NextLeaf, Target, Walk, target};
use std::cmp::Ordering;
use std::sync::Arc;

/// One page read of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageAccess {
    /// The page.
    pub page: PageNo,
    /// Whether it is a leaf of the index: each is read once and in order, and is therefore a landmark of
    /// progress.
    pub mark: bool,
}

/// The most leaves of the index announced before they are read. 64 leaves of 4 KiB refer to some 10,000 rows,
/// which is more than most buffers hold, and cost a tenth of a second at a disk's pace.
const LEAVES_AHEAD: usize = 64;

/// Generates the reads of a scan, leaf by leaf or in smaller parts. To find an entry's row may take an interior
/// page of the table, which is useless if the scan ends before.
#[derive(Clone, Debug)]
pub struct Sequence {
    index: Arc<Index>,
    /// The table whose rows are read; `None` if only leaves are.
    table: Option<Arc<Table>>,
    walk: Walk,
    /// The leaf that is being generated.
    leaf: Option<Leaf>,
    /// The one after it; `None` at the end.
    next: Option<NextLeaf>,
    /// Where the scan continues in the next leaf.
    from: Resume,
    until: Option<Until>,
    looks: Option<Looks>,
}

/// The entries of a part of a leaf.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// The rows that they name.
    pub(crate) targets: Vec<Target>,
    /// The leaf itself, if it begins with this part, and the position of its read among the targets.
    pub(crate) leaf: Option<(usize, PageNo)>,
}

/// Where a scan continues in a leaf.
#[derive(Clone, Debug)]
enum Resume {
    /// After so many entries.
    Entry(usize),
    /// At the first entry that does not come before these columns.
    Columns(Vec<Owned>),
}

impl Default for Resume {
    fn default() -> Self {
        Self::Entry(0)
    }
}

/// Where a scan continues after a part of a leaf.
enum Onward {
    /// On this leaf, if it has more.
    Here,
    /// On the next one.
    Next,
    /// Where these columns are looked up.
    At(Vec<Owned>),
    Nowhere,
}

/// The look-ups of a statement with several values.
#[derive(Clone, Debug)]
struct Looks {
    points: Points,
    /// The present one.
    at: PointAt,
    /// The first after it that was not announced.
    announced: Option<PointAt>,
    /// How many were passed, and how many entries they had.
    passed: usize,
    entries: usize,
}

impl Looks {
    /// About how many look-ups find so many entries.
    fn for_entries(&self, entries: usize) -> usize {
        entries.saturating_mul(self.passed + 1).div_ceil(self.entries + 1)
    }
}

/// The end of a sequence before that of its index.
#[derive(Clone, Debug)]
pub struct Until {
    /// The bounds of the statement.
    pub bounds: Bounds,
    /// The columns of an entry that the scan has passed.
    pub from: Vec<Owned>,
    /// Whether two entries of the first column's value were passed.
    pub run: bool,
}

#[derive(Clone, Debug)]
struct Leaf {
    number: PageNo,
    bytes: Vec<u8>,
    /// The next entry, counted in the scan's direction.
    ordinal: usize,
    cells: usize,
}

impl Sequence {
    /// The reads of a whole scan, from the first entry in its direction.
    ///
    /// # Errors
    /// The path to the first leaf cannot be followed.
    pub fn full<R: ReadPage>(
        interior: &mut Interior,
        source: &mut R,
        index: &Index,
        table: &Table,
        direction: Direction,
        pages: u32,
    ) -> Result<Self> {
        let walk = Walk::from_end(interior, source, index.root, direction, pages)?;
        Ok(Self::from_walk(index, table, walk, 0))
    }

    /// The reads after `skip` entries of the leaf of `walk`.
    #[must_use]
    pub fn from_walk(index: &Index, table: &Table, walk: Walk, skip: usize) -> Self {
        Self::of_rows(&Arc::new(index.clone()), &Arc::new(table.clone()), walk, Resume::Entry(skip))
    }

    /// The reads of entries and their rows, from this position on the leaf of `walk`.
    fn of_rows(index: &Arc<Index>, table: &Arc<Table>, walk: Walk, from: Resume) -> Self {
        let next = Some(NextLeaf { between: None, leaf: walk.leaf() });
        let (index, table) = (Arc::clone(index), Some(Arc::clone(table)));
        Self { index, table, walk, leaf: None, next, from, until: None, looks: None }
    }

    /// The reads of the entries whose first column has this value. `walk` is at the first leaf that may have
    /// one.
    pub(crate) fn of_value(index: &Arc<Index>, table: &Arc<Table>, walk: Walk, value: Owned) -> Self {
        let from = Resume::Columns(vec![value.clone()]);
        let until = Until { bounds: Bounds::of_one_value(), from: vec![value], run: true };
        Self::of_rows(index, table, walk, from).until(until)
    }

    /// The same reads from another position on: after `skip` entries of the leaf of `walk`. `None` if only
    /// leaves are read, or values are looked up.
    pub(crate) fn resumed(&self, walk: Walk, skip: usize) -> Option<(Self, Arc<Table>)> {
        let table = self.table.clone().filter(|_| self.looks.is_none())?;
        let resumed = Self::of_rows(&self.index, &table, walk, Resume::Entry(skip));
        Some((Self { until: self.until.clone(), ..resumed }, table))
    }

    /// The direction of the scan.
    pub(crate) fn direction(&self) -> Direction {
        self.walk.direction()
    }

    /// The leaves after that of `walk`, without rows.
    ///
    /// # Errors
    /// The path to the next leaf cannot be read.
    pub fn leaves<R: ReadPage>(
        index: &Index,
        mut walk: Walk,
        interior: &mut Interior,
        source: &mut R,
    ) -> Result<Self> {
        let next = walk.next(interior, source)?;
        let (index, from) = (Arc::new(index.clone()), Resume::default());
        Ok(Self { index, table: None, walk, leaf: None, next, from, until: None, looks: None })
    }

    /// Root of the table whose rows are read.
    pub(crate) fn table_root(&self) -> Option<PageNo> {
        self.table.as_ref().map(|table| table.root)
    }

    /// Whether only leaves are read.
    #[must_use]
    pub fn is_of_leaves(&self) -> bool {
        self.table.is_none()
    }

    /// The same up to the first entry beyond these bounds.
    #[must_use]
    pub fn until(mut self, until: Until) -> Self {
        self.until = Some(until);
        self
    }

    /// The same for a statement that looks up only these values. The sequence must be at one of them, by the
    /// columns of the entry that the scan has passed; otherwise they are not followed.
    #[must_use]
    pub fn at_points(mut self, points: Points) -> Self {
        let passed = self.until.as_ref().map(|until| until.from.iter().map(Owned::value));
        let at = passed.and_then(|passed| Some((points.from(passed.clone())?, passed)));
        self.looks = at.filter(|(at, passed)| points.is_at(at, passed.clone())).map(|(at, _)| Looks {
            points,
            at,
            announced: None,
            passed: 0,
            entries: 0,
        });
        self
    }

    /// The number of entries of the leaf that is being generated.
    #[must_use]
    pub fn leaf_entries(&self) -> Option<usize> {
        self.leaf.as_ref().map(|leaf| leaf.cells)
    }

    /// Whether the entry in a cell is beyond the end, or beyond the looked-up value.
    fn is_beyond(&self, page: &Page<'_>, cell: usize, header: &Header) -> bool {
        let Some(columns) = page.columns(cell) else { return false };
        if let Some(looks) = &self.looks {
            return !looks.points.is_at(&looks.at, columns);
        }
        let Some(until) = &self.until else { return false };
        let later = match self.walk.direction() {
            Direction::Forward => Ordering::Greater,
            Direction::Backward => Ordering::Less,
        };
        let order = |position| self.index.order(position);
        until.bounds.is_beyond(&until.from, columns, order, header.encoding, later, until.run)
    }

    /// Whether all reads have been generated.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.leaf.is_none() && self.next.is_none()
    }

    /// Generates the reads of at most `entries` entries of the present leaf, or of the next one after it.
    /// `leaves` is the number of leaves that the caller will request, so that they can be fetched together. An
    /// entry whose row cannot be found is left out. `None` at the end.
    ///
    /// # Errors
    /// The leaf or the path to it cannot be read; the sequence has ended then.
    pub fn next_part<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        leaves: usize,
        entries: usize,
    ) -> Result<Option<Vec<PageAccess>>> {
        let Some(table) = self.table.clone() else { return self.next_leaf(interior, source) };
        let Some(part) = self.next_targets(interior, source, &table, leaves, entries)? else {
            return Ok(None);
        };
        reads(interior, source, &table, part.targets, part.leaf.as_slice()).map(Some)
    }

    /// The entries of such a part, with the rows of this table that they name. `None` at the end.
    ///
    /// # Errors
    /// As [`Sequence::next_part`].
    pub(crate) fn next_targets<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        table: &Table,
        leaves: usize,
        entries: usize,
    ) -> Result<Option<Part>> {
        let usable = interior.header().usable();
        let mut targets: Vec<Target> = Vec::new();
        let (mut leaf, mark_at) = match self.leaf.take() {
            Some(leaf) => (leaf, None),
            None => {
                let Some(stop) = self.next.take() else { return Ok(None) };
                if let Some((number, cell)) = stop.between {
                    let bytes = interior.get(source, number)?;
                    let page = Page::parse(number, &bytes, usable)?;
                    if self.is_beyond(&page, cell, interior.header()) {
                        let Some(columns) = self.look_up(&page, cell) else { return Ok(None) };
                        self.seek(interior, source, columns)?;
                        return Ok(Some(Part::default()));
                    }
                    targets.extend(target(source, &page, cell, &self.index, table, usable));
                }
                match self.looks.as_ref().map(|looks| looks.for_entries(entries)) {
                    Some(looks) => self.announce_points(interior, source, looks.clamp(1, LEAVES_AHEAD))?,
                    None => self.walk.announce(interior, source, leaves.min(LEAVES_AHEAD))?,
                }
                let mut bytes = Vec::new();
                source.read(stop.leaf, &mut bytes)?;
                let page = Page::parse(stop.leaf, &bytes, usable)?;
                let cells = page.cells();
                let ordinal = match std::mem::take(&mut self.from) {
                    Resume::Entry(passed) => passed.min(cells),
                    Resume::Columns(columns) => {
                        self.walk.cells_before(&page, &self.index, &columns, interior.header())?
                    }
                };
                (Leaf { number: stop.leaf, bytes, ordinal, cells }, Some(targets.len()))
            }
        };
        let page = Page::parse(leaf.number, &leaf.bytes, usable)?;
        let most = targets.len().saturating_add(entries.max(1));
        let mut onward = Onward::Here;
        while targets.len() < most {
            if leaf.ordinal == leaf.cells {
                onward = Onward::Next;
                break;
            }
            let cell = match self.walk.direction() {
                Direction::Forward => leaf.ordinal,
                Direction::Backward => leaf.cells - 1 - leaf.ordinal,
            };
            if !self.is_beyond(&page, cell, interior.header()) {
                targets.extend(target(source, &page, cell, &self.index, table, usable));
                leaf.ordinal += 1;
                continue;
            }
            let Some(columns) = self.look_up(&page, cell) else {
                onward = Onward::Nowhere;
                break;
            };
            leaf.ordinal = self.walk.cells_before(&page, &self.index, &columns, interior.header())?;
            if leaf.ordinal == leaf.cells {
                onward = Onward::At(columns);
                break;
            }
        }
        if let Some(looks) = &mut self.looks {
            looks.entries += targets.len();
        }
        let mark = mark_at.map(|at| (at, leaf.number));
        match onward {
            Onward::Here if leaf.ordinal < leaf.cells => self.leaf = Some(leaf),
            Onward::Here | Onward::Next => self.next = self.walk.next(interior, source)?,
            Onward::At(columns) => {
                self.seek(interior, source, columns)?;
                // If it would be on this leaf, it is the entry after it, or there is none.
                if self.walk.leaf() == leaf.number {
                    self.from = Resume::default();
                    self.next = self.walk.next(interior, source)?;
                }
            }
            Onward::Nowhere => {}
        }
        Ok(Some(Part { targets, leaf: mark }))
    }

    /// Advances to the first looked-up value that does not come before the entry in a cell. Returns its
    /// columns.
    fn look_up(&mut self, page: &Page<'_>, cell: usize) -> Option<Vec<Owned>> {
        let looks = self.looks.as_mut()?;
        // In a damaged tree entries may come in any order.
        let next = looks.points.from(page.columns(cell)?).filter(|next| *next > looks.at)?;
        looks.at = next;
        looks.passed += 1;
        Some(looks.points.values(&looks.at))
    }

    /// Moves to the leaf where these columns are looked up.
    fn seek<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        columns: Vec<Owned>,
    ) -> Result<()> {
        self.walk.seek(interior, source, &self.index, &columns)?;
        self.next = Some(NextLeaf { between: None, leaf: self.walk.leaf() });
        self.from = Resume::Columns(columns);
        Ok(())
    }

    /// Announces the leaves of so many coming values, in ascending order of pages, once the announced ones are
    /// passed.
    fn announce_points<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        count: usize,
    ) -> Result<()> {
        let Some(looks) = &mut self.looks else { return Ok(()) };
        if looks.announced.as_ref().is_some_and(|until| looks.at < *until) {
            return Ok(());
        }
        let mut keys = Vec::new();
        let mut at = Some(looks.at.clone());
        while let Some(point) = at.take_if(|_| keys.len() < count) {
            keys.push(RowKey::Columns(looks.points.values(&point)));
            at = looks.points.after(&point);
        }
        looks.announced = Some(at.unwrap_or_else(PointAt::end));
        let tree = self.index.as_table(looks.points.width());
        let mut leaves: Vec<PageNo> = interior.locate(source, &tree, &keys)?.into_iter().flatten().collect();
        leaves.sort_unstable();
        leaves.dedup();
        if leaves.len() > 1 {
            source.will_need(&leaves);
        }
        Ok(())
    }

    /// The next leaf, if only leaves are read.
    fn next_leaf<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
    ) -> Result<Option<Vec<PageAccess>>> {
        let Some(stop) = self.next.take() else { return Ok(None) };
        if let Some((number, cell)) = stop.between {
            let bytes = interior.get(source, number)?;
            let page = Page::parse(number, &bytes, interior.header().usable())?;
            if self.is_beyond(&page, cell, interior.header()) {
                return Ok(None);
            }
        }
        self.next = self.walk.next(interior, source)?;
        Ok(Some(vec![PageAccess { page: stop.leaf, mark: true }]))
    }
}

/// The reads for these entries; `leaves`: the leaves of the index, which are landmarks, and the entry before
/// which each is read.
pub(crate) fn reads<R: ReadPage>(
    interior: &mut Interior,
    source: &mut R,
    table: &Table,
    targets: Vec<Target>,
    leaves: &[(usize, PageNo)],
) -> Result<Vec<PageAccess>> {
    let (keys, chains): (Vec<_>, Vec<_>) =
        targets.into_iter().map(|target| (target.key, target.chain)).unzip();
    let pages = interior.locate(source, table, &keys)?;
    let mut reads = Vec::with_capacity(pages.len() + leaves.len());
    let read = |page| PageAccess { page, mark: false };
    let mut leaves = leaves.iter().copied().peekable();
    let mut landmarks = |at, reads: &mut Vec<PageAccess>| {
        while let Some((_, page)) = leaves.next_if(|&(before, _)| before <= at) {
            reads.push(PageAccess { page, mark: true });
        }
    };
    let entries = pages.len();
    for (ordinal, (page, chain)) in pages.into_iter().zip(chains).enumerate() {
        landmarks(ordinal, &mut reads);
        reads.extend(chain.into_iter().map(read));
        // The same page twice in a row is one read: SQLite still holds it.
        if let Some(page) = page.filter(|&page| reads.last() != Some(&read(page))) {
            reads.push(read(page));
        }
    }
    landmarks(entries, &mut reads);
    Ok(reads)
}

/// The whole of `SELECT * FROM table ORDER BY index`: every read, in order, as an iterator. It ends at the
/// first page that cannot be followed.
#[derive(Debug)]
pub struct Scan<R> {
    source: R,
    interior: Interior,
    sequence: Sequence,
    ready: std::vec::IntoIter<PageAccess>,
}

impl<R: ReadPage> Scan<R> {
    /// The scan by the index of this name. `pages` is the number of pages of the file.
    ///
    /// # Errors
    /// The source is no database, has no such index, or its tree cannot be followed.
    pub fn new(mut source: R, index: &str, direction: Direction, pages: u32) -> Result<Self> {
        let mut first = Vec::new();
        source.read(PageNo::FIRST, &mut first)?;
        let header = Header::parse(&first[..first.len().min(HEADER_LEN)])?;
        let schema = Schema::read(&mut source, &header)?;
        let index = schema.index(index)?;
        let mut interior = Interior::new(header);
        let table = schema.table_of(index);
        let sequence = Sequence::full(&mut interior, &mut source, index, table, direction, pages)?;
        Ok(Self { source, interior, sequence, ready: Vec::new().into_iter() })
    }

    /// The database's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.interior.header()
    }
}

impl<R: ReadPage> Iterator for Scan<R> {
    type Item = PageAccess;

    fn next(&mut self) -> Option<PageAccess> {
        loop {
            if let Some(access) = self.ready.next() {
                return Some(access);
            }
            self.ready = self
                .sequence
                .next_part(&mut self.interior, &mut self.source, LEAVES_AHEAD, usize::MAX)
                .ok()??
                .into_iter();
        }
    }
}
