//! The leaves of a tree in key order, forward or backward, with the interior entries between them.
//!
//! An index is a b-tree, not a b+tree: each interior cell is an entry too, and a scan reads it after the last
//! entry of the leaf to its left. A table's tree has rows only in its leaves. A walk holds a path from the
//! root. It can begin at either end or at any leaf, and bounds the effects of a damaged tree.

use crate::error::{Error, Result};
use crate::header::Header;
use crate::page::{Kind, Page, PageNo};
use crate::record::{Order, Value, columns, compare};
use crate::schema::{Index, Table, TableKind};
use crate::source::{CHAIN_LIMIT, ReadPage, full_payload};
use crate::tree::{DEPTH_LIMIT, Interior, Owned, RowKey, compare_record, lower_bound};
use std::cmp::Ordering;
use std::collections::VecDeque;

/// Interior pages searched for the parent of a leaf when its keys cannot be compared. Enough for an index of
/// 25,000 leaves of 4 KiB; beyond it the search would cost more than a small scan gains.
const SEARCH_LIMIT: usize = 64;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// In the index's own order.
    Forward,
    /// Against it (`ORDER BY ... DESC` on an ascending index).
    Backward,
}

/// A position in an interior page: a child, numbered as in [`Page::child`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    page: PageNo,
    child: usize,
    cells: usize,
}

/// A walk over the leaves of one tree.
#[derive(Clone, Debug)]
pub struct Walk {
    direction: Direction,
    /// From the root down to the parent of the current leaf; empty if the root is the leaf.
    path: Vec<Step>,
    leaf: PageNo,
    /// Leaves that may still come before the tree must have a cycle.
    left: u32,
    /// Children of the current parent announced so far, in walking order.
    announced: usize,
}

/// The next position of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextLeaf {
    /// The interior entry between the last leaf and this one: page and cell.
    pub between: Option<(PageNo, usize)>,
    /// The leaf.
    pub leaf: PageNo,
}

impl Walk {
    /// A walk from the first leaf in its direction. `pages`, the number of pages of the file, bounds it.
    ///
    /// # Errors
    /// The path to it cannot be followed.
    pub fn from_end<R: ReadPage>(
        interior: &mut Interior,
        source: &mut R,
        root: PageNo,
        direction: Direction,
        pages: u32,
    ) -> Result<Self> {
        let mut walk = Self { direction, path: Vec::new(), leaf: root, left: pages, announced: 0 };
        let height = interior.height(source, root)?;
        walk.descend(interior, source, root, height)?;
        Ok(walk)
    }

    /// A walk at `leaf`, whose bytes are given.
    ///
    /// # Errors
    /// The index has no such leaf, or it cannot be found with bounded effort.
    pub fn at_leaf<R: ReadPage>(
        interior: &mut Interior,
        source: &mut R,
        index: &Index,
        leaf: &Page<'_>,
        direction: Direction,
        pages: u32,
    ) -> Result<Self> {
        let path = match path_by_key(interior, source, index, leaf) {
            Ok(path) => path,
            Err(_) => path_by_search(interior, source, index.root, leaf.number())?,
        };
        interior.learn(index.root, path.len());
        Ok(Self { direction, path, leaf: leaf.number(), left: pages, announced: 0 })
    }

    /// A walk at the last page of this path: pages from the root on, each the parent of the next one.
    ///
    /// # Errors
    /// A page of it cannot be read or is not the parent of the next one.
    pub fn along<R: ReadPage>(
        interior: &mut Interior,
        source: &mut R,
        way: &[PageNo],
        direction: Direction,
        pages: u32,
    ) -> Result<Self> {
        let Some(&leaf) = way.last() else {
            return Err(Error::TooMuch { what: "levels of a b-tree", limit: DEPTH_LIMIT });
        };
        let mut path = Vec::with_capacity(way.len());
        for pair in way.windows(2) {
            let bytes = interior.get(source, pair[0])?;
            let page = interior_page(pair[0], &bytes, interior.header())?;
            let child = page.position(pair[1]).ok_or(Error::Damaged {
                page: pair[0],
                at: 0,
                what: "not the parent of the page below it",
            })?;
            path.push(Step { page: pair[0], child, cells: page.cells() });
        }
        Ok(Self { direction, path, leaf, left: pages, announced: 0 })
    }

    /// A walk at the position where these columns are looked up.
    ///
    /// # Errors
    /// As [`Walk::seek`].
    pub(crate) fn sought<R: ReadPage>(
        interior: &mut Interior,
        source: &mut R,
        index: &Index,
        columns: &[Owned],
        pages: u32,
    ) -> Result<Self> {
        let direction = Direction::Forward;
        let mut walk = Self { direction, path: Vec::new(), leaf: index.root, left: pages, announced: 0 };
        walk.seek(interior, source, index, columns)?;
        Ok(walk)
    }

    /// Moves to the leaf of the first entry that does not come before these columns. Neither that leaf nor the
    /// leaves between are read.
    ///
    /// # Errors
    /// An interior page cannot be read, is damaged or cannot be compared with them.
    pub fn seek<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        index: &Index,
        columns: &[Owned],
    ) -> Result<()> {
        let height = interior.height(source, index.root)?;
        let header = *interior.header();
        let (mut path, mut at) = (Vec::with_capacity(height), index.root);
        for _ in 0..height {
            let bytes = interior.get(source, at)?;
            let page = index_interior(at, &bytes, &header)?;
            let before = self.cells_before(&page, index, columns, &header)?;
            let child = match self.direction {
                Direction::Forward => before,
                Direction::Backward => page.cells() - before,
            };
            path.push(Step { page: at, child, cells: page.cells() });
            at = page.child(child)?;
        }
        (self.path, self.leaf, self.announced) = (path, at, 0);
        Ok(())
    }

    /// How many cells of an index page come before these columns, in the direction of the walk.
    ///
    /// # Errors
    /// A cell is damaged or cannot be compared with them.
    pub fn cells_before(
        &self,
        page: &Page<'_>,
        index: &Index,
        columns: &[Owned],
        header: &Header,
    ) -> Result<usize> {
        let damaged = Error::Damaged { page: page.number(), at: 0, what: "a key that can't be compared" };
        let orders: Vec<Order> = (0..columns.len()).map(|position| index.order(position)).collect();
        let (cells, _) = lower_bound(page.cells(), |cell| {
            let payload = page.cell(cell)?.payload.ok_or(damaged.clone())?;
            let ordering = compare_record(payload.local, columns, &orders, header).ok_or(damaged.clone())?;
            // Against the index's order the last of equal entries comes first.
            let is_passed = ordering == Ordering::Equal && self.direction == Direction::Backward;
            Ok(if is_passed { Ordering::Less } else { ordering })
        })?;
        Ok(match self.direction {
            Direction::Forward => cells,
            Direction::Backward => page.cells() - cells,
        })
    }

    /// The present leaf.
    #[must_use]
    pub fn leaf(&self) -> PageNo {
        self.leaf
    }

    /// Its direction.
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// How many leaves come before the present one, if they are under the same parent: zero at the leaf where a
    /// full scan begins.
    #[must_use]
    pub fn leaves_before(&self) -> Option<usize> {
        let before = |step: &Step| match self.direction {
            Direction::Forward => step.child,
            Direction::Backward => step.cells - step.child,
        };
        let Some((parent, above)) = self.path.split_last() else { return Some(0) };
        above.iter().all(|step| before(step) == 0).then(|| before(parent))
    }

    /// Advances to the next leaf; `None` at the end. The leaf itself is not read.
    ///
    /// # Errors
    /// An interior page cannot be read or is damaged, or the tree has a cycle.
    pub fn next<R: ReadPage>(&mut self, interior: &mut Interior, source: &mut R) -> Result<Option<NextLeaf>> {
        self.left = self.left.checked_sub(1).ok_or(Error::TooMuch {
            what: "leaves of an index: its tree has a cycle",
            limit: u32::MAX as usize,
        })?;
        let depth = self.path.len();
        while let Some(step) = self.path.last_mut() {
            let between = match self.direction {
                Direction::Forward if step.child < step.cells => {
                    step.child += 1;
                    step.child - 1
                }
                Direction::Backward if step.child > 0 => {
                    step.child -= 1;
                    step.child
                }
                _ => {
                    self.path.pop();
                    continue;
                }
            };
            let step = *step;
            let bytes = interior.get(source, step.page)?;
            let child = Page::parse(step.page, &bytes, interior.header().usable())?.child(step.child)?;
            let height = depth - self.path.len();
            if height > 0 {
                self.announced = 0;
            }
            self.descend(interior, source, child, height)?;
            return Ok(Some(NextLeaf { between: Some((step.page, between)), leaf: self.leaf }));
        }
        Ok(None)
    }

    /// Announces the next `count` leaves under the current parent, in ascending order of pages.
    ///
    /// # Errors
    /// The parent is damaged or cannot be read.
    pub fn announce<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        count: usize,
    ) -> Result<()> {
        let Some(&step) = self.path.last() else { return Ok(()) };
        let (passed, last) = match self.direction {
            Direction::Forward => (step.child, step.cells),
            Direction::Backward => (step.cells - step.child, step.cells),
        };
        // Announce again only when less than half of the last batch is left: the batches stay large.
        if self.announced > passed + count / 2 || self.announced > last {
            return Ok(());
        }
        let from = self.announced.max(passed + 1);
        let until = (passed + 1 + count).min(last + 1);
        let bytes = interior.get(source, step.page)?;
        let page = Page::parse(step.page, &bytes, interior.header().usable())?;
        let mut leaves = Vec::with_capacity(until.saturating_sub(from));
        for ordinal in from..until {
            leaves.push(page.child(match self.direction {
                Direction::Forward => ordinal,
                Direction::Backward => step.cells - ordinal,
            })?);
        }
        self.announced = until.max(from);
        leaves.sort_unstable();
        leaves.dedup();
        if !leaves.is_empty() {
            source.will_need(&leaves);
        }
        Ok(())
    }

    /// Descends to the first leaf under `page`, which has `height` levels of interior pages.
    fn descend<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        page: PageNo,
        height: usize,
    ) -> Result<()> {
        let mut at = page;
        for _ in 0..height {
            let bytes = interior.get(source, at)?;
            let page = interior_page(at, &bytes, interior.header())?;
            let child = match self.direction {
                Direction::Forward => 0,
                Direction::Backward => page.cells(),
            };
            self.path.push(Step { page: at, child, cells: page.cells() });
            at = page.child(child)?;
        }
        self.leaf = at;
        Ok(())
    }
}

fn interior_page<'a>(number: PageNo, bytes: &'a [u8], header: &Header) -> Result<Page<'a>> {
    let page = Page::parse(number, bytes, header.usable())?;
    if !page.kind().is_interior() {
        return Err(Error::Damaged { page: number, at: 0, what: "not an interior page" });
    }
    Ok(page)
}

fn index_interior<'a>(number: PageNo, bytes: &'a [u8], header: &Header) -> Result<Page<'a>> {
    let page = Page::parse(number, bytes, header.usable())?;
    if page.kind() != Kind::IndexInterior {
        return Err(Error::Damaged { page: number, at: 0, what: "not an interior index page" });
    }
    Ok(page)
}

/// The path to a leaf by its first key. Ends at the leaf itself, so that no other leaf is read.
fn path_by_key<R: ReadPage>(
    interior: &mut Interior,
    source: &mut R,
    index: &Index,
    leaf: &Page<'_>,
) -> Result<Vec<Step>> {
    let damaged = |page, what| Error::Damaged { page, at: 0, what };
    let number = leaf.number();
    let first = leaf.cell(0)?.payload.ok_or(damaged(number, "a leaf without keys"))?;
    let key: Vec<Value<'_>> = columns(first.local).ok_or(damaged(number, "no record"))?.collect();
    let header = *interior.header();
    let mut path = Vec::new();
    let mut at = index.root;
    while at != number {
        if path.len() == DEPTH_LIMIT {
            return Err(Error::TooMuch { what: "levels of a b-tree", limit: DEPTH_LIMIT });
        }
        let bytes = interior.get(source, at)?;
        let page = index_interior(at, &bytes, &header)?;
        let (child, _) = lower_bound(page.cells(), |cell| {
            let payload = page.cell(cell)?.payload.ok_or(damaged(at, "no key"))?;
            let mut columns = columns(payload.local).ok_or(damaged(at, "no record"))?;
            for (position, &wanted) in key.iter().enumerate() {
                let held = columns.next().ok_or(damaged(at, "a key on overflow pages"))?;
                match compare(held, wanted, index.order(position), header.encoding) {
                    Some(Ordering::Equal) => {}
                    Some(ordering) => return Ok(ordering),
                    None => return Err(damaged(at, "an unknown collation")),
                }
            }
            Ok(Ordering::Equal)
        })?;
        path.push(Step { page: at, child, cells: page.cells() });
        at = page.child(child)?;
    }
    Ok(path)
}

/// The path to a leaf by a breadth-first search of the children of interior pages.
fn path_by_search<R: ReadPage>(
    interior: &mut Interior,
    source: &mut R,
    root: PageNo,
    leaf: PageNo,
) -> Result<Vec<Step>> {
    let mut waiting = VecDeque::from([(root, Vec::<Step>::new())]);
    for _ in 0..SEARCH_LIMIT {
        let Some((number, path)) = waiting.pop_front() else { break };
        if number == leaf {
            return Ok(path);
        }
        let bytes = interior.get(source, number)?;
        let page = index_interior(number, &bytes, interior.header())?;
        for child in 0..=page.cells() {
            let below = page.child(child)?;
            if below != leaf && waiting.len() >= SEARCH_LIMIT {
                continue;
            }
            let mut path = path.clone();
            path.push(Step { page: number, child, cells: page.cells() });
            if below == leaf {
                return Ok(path);
            }
            if path.len() < DEPTH_LIMIT {
                waiting.push_back((below, path));
            }
        }
    }
    Err(Error::Damaged { page: leaf, at: 0, what: "no leaf of this index, as far as was searched" })
}

/// How an index entry refers to its row, and the overflow pages that had to be read for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The row.
    pub key: RowKey,
    /// Overflow pages of the entry itself: SQLite reads them too before it finds the row.
    pub chain: Vec<PageNo>,
}

/// The row of the entry in cell `cell` of an index page.
///
/// # Errors
/// The entry is damaged or its overflow chain too long or unreadable.
pub fn target<R: ReadPage>(
    source: &mut R,
    page: &Page<'_>,
    cell: usize,
    index: &Index,
    table: &Table,
    usable: usize,
) -> Result<Target> {
    let damaged = |what| Error::Damaged { page: page.number(), at: 0, what };
    let payload = page.cell(cell)?.payload.ok_or(damaged("no index entry"))?;
    let row_key = |record: &[u8]| match &table.kind {
        TableKind::Rowid => crate::record::last_integer(record).map(RowKey::Rowid),
        TableKind::Key(_) => {
            let values: Vec<Value<'_>> = columns(record)?.collect();
            let owned = |&at: &usize| values.get(at).map(|&value| Owned::of(value));
            index.key_at.iter().map(owned).collect::<Option<Vec<Owned>>>().map(RowKey::Columns)
        }
    };
    if payload.overflow.is_none() {
        let key = row_key(payload.local).ok_or(damaged("an index entry without its row's key"))?;
        return Ok(Target { key, chain: Vec::new() });
    }
    let whole = full_payload(source, payload, usable, CHAIN_LIMIT)?;
    let key = row_key(&whole.bytes).ok_or(damaged("an index entry without its row's key"))?;
    Ok(Target { key, chain: whole.chain })
}
