//! The inner side of a join: look-ups whose keys are in the rows of the outer side.
//!
//! SQLite joins by nested loops: for each row of the outer table it looks a value of that row up in the inner
//! table, by rowid or by an index. No page of the inner table names the next look-up. The rows of the outer
//! side do, once it is known which of their columns holds the key. Therefore four things are determined:
//!
//! - *The column*, from [data](evidence): the looked-up value is between the first and the last key of the
//!   inner page that was read. The column is one that has such a value in the outer page again and again. The
//!   text of the statement decides between several; it is not required, so that views and triggers work, too.
//! - *The next rows*: the [outer side](outer) is the leaves of a tree one after the other, or the rows of a
//!   scan by an index.
//! - *Which of them are looked up*: those that pass the comparisons with literals in the [text](filter).
//! - *How far each look-up goes*: `EXISTS` stops at the first matching row. The estimate is how far the last
//!   ones [went](groups), and at first how many reads those before the scan took. Each row that is followed and not used
//!   may cost an own read: of a row's page the interior page above must be known.
//!
//! Then keys are read ahead in batches, and the leaves of all of them, and the rows, each in disk order (ATC'09
//! section 3.5). The reads are hinted in the order in which SQLite makes them.
//!
//! If an index names the outer rows, the scan of that index plans its step first. Its row pages are fetched
//! together and then read for their keys; the pages of the look-ups are fetched in a second pass. Rows that the
//! scan has not planned are not read.
//!
//! Limits:
//!
//! - Only the first column of an index is looked up.
//! - The outer side is a table in the order of its own tree, a covering index, or rows that an index names by
//!   rowid. It is not the inner side of another join.
//! - Both sides have trees of their own (a table is not joined with itself).
//! - If the text does not [show](crate::ends::joined) that all outer rows are visited, steps grow with their
//!   gain.

mod evidence;
mod filter;
mod groups;
mod outer;

pub(crate) use evidence::{JoinEvidence, Joined, KeyRange};
pub(crate) use filter::{Filter, compared_with};
pub(crate) use groups::{Extent, Groups};
use outer::Onward;
pub(crate) use outer::OuterRows;

use crate::error::Result;
use crate::page::{Page, PageNo};
use crate::record::Value;
use crate::scan::ScanId;
use crate::schema::{Index, Table};
use crate::sequence::{PageAccess, Sequence, reads};
use crate::source::ReadPage;
use crate::tree::{Interior, Owned, RowKey};
use crate::walk::Walk;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most followed entries of one key. A value with more is a scan of its own.
const ENTRIES_A_KEY: usize = 4096;
/// About how many rows are located at a time; the remaining look-ups then wait. Some 16 MiB.
const ROWS: usize = 1 << 18;
/// The most leaves of one key's entries.
const LEAVES_A_KEY: usize = 256;
/// The assumed reads of one look-up by an index before any was followed.
const READS_A_KEY: usize = 8;

/// How much may be read at a time for prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Leaves of the outer side. If its rows are seldom looked up, fewer keys are predicted, and not a whole
    /// table is read.
    leaves: usize,
    /// Keys that are looked up together: the leaves of all of them are fetched in one pass over their tree.
    keys: usize,
}

impl Reach {
    /// While it may end soon: 1 MiB of leaves of 4 KiB.
    pub(crate) const NEAR: Self = Self { leaves: 256, keys: 256 };

    /// If everything may be read, and memory holds this many pages: the outer rows leave room for the pages of
    /// their look-ups.
    pub(crate) fn all(pages: usize) -> Self {
        let pages = pages / 4;
        Self { leaves: pages.max(Self::NEAR.leaves), keys: pages.clamp(Self::NEAR.keys, 1 << 14) }
    }
}

/// A value of a row or an entry, if it is on its page: that of column `column - 1`, and the rowid for 0.
fn value<'a>(page: &Page<'a>, cell: usize, column: usize) -> Option<Value<'a>> {
    match column.checked_sub(1) {
        None => page.rowid(cell).ok().map(Value::Integer),
        Some(at) => page.columns(cell)?.nth(at),
    }
}

/// The look-ups' tree, and the reads of each look-up.
#[derive(Debug)]
pub(crate) enum Inner {
    /// Rows by rowid.
    Rows(Arc<Table>),
    /// Entries of an index, or rows of a table WITHOUT ROWID by its key: only leaves.
    Leaves(Arc<Index>),
    /// Entries of an index, then the rows that they name.
    Entries(Arc<Index>, Arc<Table>),
}

/// The reads of a join's inner side.
#[derive(Debug)]
pub(crate) struct JoinReads {
    outer: OuterRows,
    /// Root of the tree of the outer side.
    root: PageNo,
    /// The column of the key in a row of the outer side.
    column: usize,
    filter: Filter,
    inner: Inner,
    extent: Extent,
    /// Read ahead and not looked up yet.
    keys: VecDeque<Owned>,
    ended: bool,
    /// How much may be read until it is woken again.
    reach: Reach,
    /// These were read: it continues when it is woken.
    rests: bool,
    /// The pages of the file.
    pages: u32,
    /// Look-ups generated, and their reads; leaves of the outer side read, and keys found in them.
    looked_up: usize,
    reads: usize,
    leaves: usize,
    found: usize,
}

impl JoinReads {
    /// The look-ups of the values of `column` in the rows of `outer`, whose tree is at `root`.
    pub(crate) fn new(
        (outer, root): (OuterRows, PageNo),
        column: usize,
        filter: Filter,
        (inner, extent): (Inner, Extent),
        pages: u32,
    ) -> Self {
        let reads = if matches!(inner, Inner::Entries(..)) { READS_A_KEY } else { 1 };
        Self {
            outer,
            root,
            column,
            filter,
            inner,
            extent,
            keys: VecDeque::new(),
            ended: false,
            reach: Reach::NEAR,
            rests: false,
            pages,
            looked_up: 1,
            reads,
            leaves: 1,
            found: 1,
        }
    }

    /// How far its look-ups go, as far as the statement shows it.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Root of the tree of the outer side.
    pub(crate) fn outer_root(&self) -> PageNo {
        self.root
    }

    /// Root of the table whose rows are read, if an index names them.
    pub(crate) fn inner_root(&self) -> Option<PageNo> {
        match &self.inner {
            Inner::Entries(_, table) => Some(table.root),
            Inner::Rows(_) | Inner::Leaves(_) => None,
        }
    }

    /// The scan that reads the rows of the outer side, if an index names them.
    pub(crate) fn outer_scan(&self) -> Option<ScanId> {
        self.outer.scan()
    }

    /// That scan has planned these pages.
    pub(crate) fn planned(&mut self, pages: impl Iterator<Item = PageNo>) {
        self.outer.planned(pages);
        self.rests = false;
        self.reach.leaves = self.reach.leaves.max(Reach::NEAR.leaves);
    }

    /// Whether only leaves are read, and no rows behind them.
    pub(crate) fn is_of_leaves(&self) -> bool {
        !matches!(self.inner, Inner::Entries(..))
    }

    /// Whether there are no more reads, or none for now.
    pub(crate) fn finished(&self) -> bool {
        (self.ended || self.rests) && self.keys.is_empty()
    }

    /// Whether there are no more reads.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended && self.keys.is_empty()
    }

    /// The program has read further: this much may be read.
    pub(crate) fn extend_reach(&mut self, reach: Reach) {
        self.rests = false;
        self.reach = reach;
    }

    /// The reads of some look-ups: of as many as are likely to make `entries` reads, and at most `most` of
    /// each. The first of each is marked. `None` at the end.
    pub(crate) fn next_part<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        entries: usize,
        most: Option<usize>,
    ) -> Result<Option<Vec<PageAccess>>> {
        let entries = entries.min(self.reach.keys * self.reads.div_ceil(self.looked_up));
        let wanted = (entries * self.looked_up).div_ceil(self.reads).clamp(1, self.reach.keys);
        self.read_keys(interior, source, wanted);
        if self.finished() {
            return Ok(None);
        }
        let mut keys: Vec<Owned> = self.keys.drain(..wanted.min(self.keys.len())).collect();
        // The leaf is one of them.
        let rows = most.map_or(ENTRIES_A_KEY, |most| most.saturating_sub(1).max(1));
        let (reads, looked_up) = self.look_up(interior, source, &keys, rows)?;
        self.looked_up += looked_up;
        self.reads += reads.len();
        for key in keys.drain(looked_up..).rev() {
            self.keys.push_front(key);
        }
        if reads.is_empty() {
            // Keys that lead nowhere: only one batch of them at a time.
            self.keys.clear();
            self.rests = true;
        }
        Ok(Some(reads))
    }

    /// Reads rows of the outer side until so many keys are known. An unreadable page ends it.
    fn read_keys<R: ReadPage>(&mut self, interior: &mut Interior, source: &mut R, wanted: usize) {
        let (column, order, filter) = (self.column, self.outer.order(), &self.filter);
        let encoding = interior.header().encoding;
        let has_ended = Cell::new(false);
        let key = |page: &Page<'_>, cell: usize| {
            if !filter.passes(page, cell, encoding) {
                let is_beyond = |order| filter.has_ended(page, cell, order, encoding);
                has_ended.set(has_ended.get() || order.is_some_and(is_beyond));
                return None;
            }
            value(page, cell, column).filter(|key| *key != Value::Null).map(Owned::of)
        };
        while self.reach.leaves > 0 {
            if self.ended || self.rests || self.keys.len() >= wanted {
                return;
            }
            self.reach.leaves -= 1;
            let leaves =
                ((wanted - self.keys.len()) * self.leaves).div_ceil(self.found).min(Reach::NEAR.leaves);
            let before = self.keys.len();
            let onward = self.outer.take(interior, source, (leaves, wanted - before), &key, &mut self.keys);
            self.ended = !matches!(onward, Ok(Onward::Yes | Onward::Later)) || has_ended.get();
            self.leaves += 1;
            self.found += self.keys.len() - before;
            if matches!(onward, Ok(Onward::Later)) {
                break;
            }
        }
        self.rests = self.keys.len() < wanted;
    }

    /// The reads of these look-ups, and how many of the keys were followed.
    fn look_up<R: ReadPage>(
        &self,
        interior: &mut Interior,
        source: &mut R,
        keys: &[Owned],
        rows: usize,
    ) -> Result<(Vec<PageAccess>, usize)> {
        match &self.inner {
            Inner::Rows(table) => {
                let rowid = |key: &Owned| match key {
                    Owned::Integer(rowid) => Some(RowKey::Rowid(*rowid)),
                    _ => None,
                };
                let rowids: Vec<RowKey> = keys.iter().filter_map(rowid).collect();
                Ok((accesses(interior.locate(source, table, &rowids)?.into_iter().flatten()), keys.len()))
            }
            Inner::Leaves(index) => {
                let walks = self.seek(interior, source, index, keys)?;
                Ok((accesses(walks.iter().flatten().map(Walk::leaf)), keys.len()))
            }
            Inner::Entries(index, table) => self.entries(interior, source, index, table, keys, rows),
        }
    }

    /// The path to each key, whose interior pages are read level by level.
    fn seek<R: ReadPage>(
        &self,
        interior: &mut Interior,
        source: &mut R,
        index: &Index,
        keys: &[Owned],
    ) -> Result<Vec<Option<Walk>>> {
        let columns: Vec<RowKey> = keys.iter().map(|key| RowKey::Columns(vec![key.clone()])).collect();
        interior.locate(source, &index.as_table(1), &columns)?;
        let walk =
            |key: &Owned| Walk::sought(interior, source, index, std::slice::from_ref(key), self.pages).ok();
        Ok(keys.iter().map(walk).collect())
    }

    /// The leaf of each key, which is marked, and the rows of its entries, at most `rows`. Also returns how
    /// many keys were followed.
    fn entries<R: ReadPage>(
        &self,
        interior: &mut Interior,
        source: &mut R,
        index: &Arc<Index>,
        table: &Arc<Table>,
        keys: &[Owned],
        rows: usize,
    ) -> Result<(Vec<PageAccess>, usize)> {
        let walks = self.seek(interior, source, index, keys)?;
        let mut leaves: Vec<PageNo> = walks.iter().flatten().map(Walk::leaf).collect();
        leaves.sort_unstable();
        leaves.dedup();
        if leaves.len() > 1 {
            source.will_need(&leaves);
        }
        let (mut targets, mut leaves, mut first) = (Vec::new(), Vec::new(), Vec::new());
        let mut followed = 0;
        for (key, walk) in keys.iter().zip(walks) {
            if targets.len() >= ROWS {
                break;
            }
            followed += 1;
            let Some(walk) = walk else { continue };
            let mut entries = Sequence::of_value(index, table, walk, key.clone());
            let begin = targets.len();
            first.push(leaves.len());
            // A damaged leaf ends only its look-up.
            let mut parts = 0..LEAVES_A_KEY;
            while let Some(left) = (begin + rows).checked_sub(targets.len()).filter(|&left| left > 0)
                && parts.next().is_some()
                && let Ok(Some(part)) = entries.next_targets(interior, source, table, 0, left)
            {
                leaves.extend(part.leaf.map(|(at, leaf)| (targets.len() + at, leaf)));
                targets.extend(part.targets);
            }
        }
        let mut reads = reads(interior, source, table, targets, &leaves)?;
        // A look-up may continue from leaf to leaf.
        let mut leaf = 0..;
        for access in reads.iter_mut().filter(|access| access.mark) {
            access.mark = leaf.next().is_some_and(|leaf| first.binary_search(&leaf).is_ok());
        }
        Ok((reads, followed))
    }
}

/// Reads of these pages, each a look-up: the same page twice in a row counts once.
fn accesses(pages: impl Iterator<Item = PageNo>) -> Vec<PageAccess> {
    let mut accesses: Vec<PageAccess> = pages.map(|page| PageAccess { page, mark: true }).collect();
    accesses.dedup();
    accesses
}
