//! Rows that a statement looks up by keys in its text: `id IN (5, 7, 9)`.
//!
//! SQLite sorts the keys of the list and descends the table's tree for each. The evidence is leaves of a tree
//! that are read in the order of [points](crate::points). The leaf of each coming key then follows from the
//! interior pages, which are read in batches. No leaf is read for it.

use crate::error::Result;
use crate::page::{Kind, Page, PageNo};
use crate::points::{PointAt, Points};
use crate::recognise::EVIDENCE;
use crate::record::Value;
use crate::schema::Table;
use crate::sequence::PageAccess;
use crate::source::ReadPage;
use crate::tree::{Interior, Owned, RowKey};
use crate::walk::Direction;
use std::sync::Arc;

/// The most keys that are searched at a time: for each level of the tree, as many interior pages.
const BATCH: usize = 1024;

/// The leaves of one tree that were read at points.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyedEvidence {
    root: Option<PageNo>,
    leaf: Option<PageNo>,
    last: Option<PointAt>,
    direction: Option<Direction>,
    leaves: usize,
}

impl KeyedEvidence {
    /// A leaf of the tree at `root` was read that [holds](points_on) this point. Once there is evidence,
    /// returns the direction of the look-ups.
    pub(crate) fn leaf(&mut self, root: PageNo, leaf: PageNo, point: PointAt) -> Option<Direction> {
        if self.root != Some(root) {
            *self = Self { root: Some(root), ..Self::default() };
        }
        if self.leaf.replace(leaf) == Some(leaf) {
            return None;
        }
        let direction = self.last.as_ref().and_then(|last| match point.cmp(last) {
            std::cmp::Ordering::Greater => Some(Direction::Forward),
            std::cmp::Ordering::Less => Some(Direction::Backward),
            std::cmp::Ordering::Equal => None,
        });
        if direction != self.direction {
            (self.direction, self.leaves) = (direction, 1);
        }
        self.last = Some(point);
        self.leaves += 1;
        direction.filter(|_| self.leaves >= EVIDENCE)
    }
}

/// The first of the points on a leaf, and the first after it. `None` if none is there.
pub(crate) fn points_on(leaf: &Page<'_>, points: &Points) -> Option<(PointAt, Option<PointAt>)> {
    let cells = leaf.cells().checked_sub(1)?;
    let (first, last) = match points.direction() {
        Direction::Forward => (0, cells),
        Direction::Backward => (cells, 0),
    };
    let from = |cell| match leaf.kind() {
        Kind::TableLeaf => {
            let rowid = [Value::Integer(leaf.rowid(cell).ok()?)];
            let point = points.from(rowid.into_iter());
            Some((point.clone(), point.is_some_and(|point| points.is_at(&point, rowid.into_iter()))))
        }
        Kind::IndexLeaf => {
            let record = leaf.columns(cell)?;
            let point = points.from(record.clone());
            Some((point.clone(), point.is_some_and(|point| points.is_at(&point, record))))
        }
        Kind::TableInterior | Kind::IndexInterior => None,
    };
    let begin = from(first)?.0?;
    let (end, is_on_end) = from(last)?;
    let next = match &end {
        Some(end) if is_on_end => points.after(end),
        end => end.clone(),
    };
    // If the first point from the leaf's beginning on is also the first behind it, none is on the leaf.
    (next.as_ref() != Some(&begin)).then_some((begin, next))
}

/// The leaves of a table that its coming look-ups will read.
#[derive(Clone, Debug)]
pub(crate) struct KeyedReads {
    table: Arc<Table>,
    points: Points,
    next: Option<PointAt>,
    last: Option<PageNo>,
}

impl KeyedReads {
    /// The look-ups from this point on; `None` if there are none left. `leaf`: the last read one.
    pub(crate) fn new(table: &Table, points: Points, next: Option<PointAt>, leaf: PageNo) -> Self {
        Self { table: Arc::new(table.clone()), points, next, last: Some(leaf) }
    }

    pub(crate) fn finished(&self) -> bool {
        self.next.is_none()
    }

    /// The leaves of at most so many keys. `None` at the end.
    pub(crate) fn next_part<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        entries: usize,
    ) -> Result<Option<Vec<PageAccess>>> {
        if self.next.is_none() {
            return Ok(None);
        }
        let mut keys = Vec::new();
        while let Some(point) = self.next.take_if(|_| keys.len() < entries.clamp(1, BATCH)) {
            self.next = self.points.after(&point);
            keys.push(match &self.points.values(&point)[..] {
                [Owned::Integer(rowid)] if self.table.kind.is_rowid() => RowKey::Rowid(*rowid),
                values => RowKey::Columns(values.to_vec()),
            });
        }
        let pages = interior.locate(source, &self.table, &keys)?.into_iter().flatten();
        // A leaf with several keys is read once.
        let pages = pages.filter(|&page| self.last.replace(page) != Some(page));
        Ok(Some(pages.map(|page| PageAccess { page, mark: true }).collect()))
    }
}
