//! The next rows of a join's outer side: those of a tree, leaf by leaf, or those that entries of an index name.

use crate::error::Result;
use crate::page::{Page, PageNo};
use crate::scan::ScanId;
use crate::schema::Table;
use crate::sequence::Sequence;
use crate::source::ReadPage;
use crate::tree::{Interior, Owned, RowKey};
use crate::walk::{Direction, Walk};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::sync::Arc;

/// The key of a row; `None` if the row is not looked up.
pub(crate) type Take<'a> = dyn Fn(&Page<'_>, usize) -> Option<Owned> + 'a;

/// Rows that are read at a time, if an index names them.
const ROWS: usize = 256;

/// Whether there are rows after the taken ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    Yes,
    /// Only after the scan that reads them has planned more.
    Later,
    No,
}

/// The coming rows.
#[derive(Debug)]
pub(crate) enum OuterRows {
    /// All rows of a tree.
    InOrder(InOrder),
    /// Those of a scan by an index.
    ByIndex(Box<ByIndex>),
}

impl OuterRows {
    /// The rows from the leaf of `walk` on, without those that were `passed` on it. Their tree is ordered by
    /// the column `order`.
    pub(crate) fn in_order(walk: Walk, passed: usize, order: usize) -> Self {
        Self::InOrder(InOrder { walk, passed: Some(passed), order })
    }

    /// The rows of `table` that entries of an index name. This scan has `planned` some of their pages.
    pub(crate) fn by_index(
        scan: ScanId,
        sequence: Sequence,
        table: Arc<Table>,
        planned: FxHashSet<PageNo>,
    ) -> Self {
        Self::ByIndex(Box::new(ByIndex { scan, sequence, table, known: VecDeque::new(), planned }))
    }

    /// The column by which they are ordered. Rows that an index names are ordered by none.
    pub(crate) fn order(&self) -> Option<usize> {
        match self {
            Self::InOrder(rows) => Some(rows.order),
            Self::ByIndex(_) => None,
        }
    }

    /// The scan that reads the rows, if an index names them.
    pub(crate) fn scan(&self) -> Option<ScanId> {
        match self {
            Self::InOrder(_) => None,
            Self::ByIndex(rows) => Some(rows.scan),
        }
    }

    /// The scan that reads the rows has planned these pages. Rows on others wait: to read them would take a
    /// seek each, and uncounted memory.
    pub(crate) fn planned(&mut self, pages: impl Iterator<Item = PageNo>) {
        if let Self::ByIndex(rows) = self {
            rows.planned = pages.collect();
        }
    }

    /// Takes the rest of a leaf, or the next one, or some rows that an index names. `leaves` and `rows`: how
    /// many the caller will request.
    pub(crate) fn take<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        (leaves, rows): (usize, usize),
        take: &Take<'_>,
        into: &mut VecDeque<Owned>,
    ) -> Result<Onward> {
        match self {
            Self::InOrder(all) => all.take(interior, source, leaves, take, into),
            Self::ByIndex(named) => named.take(interior, source, rows.clamp(1, ROWS), take, into),
        }
    }
}

/// The rows of a tree.
#[derive(Debug)]
pub(crate) struct InOrder {
    walk: Walk,
    /// The rows of the present leaf that were passed, in the order of the walk; `None` if all were.
    passed: Option<usize>,
    order: usize,
}

impl InOrder {
    fn take<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        leaves: usize,
        take: &Take<'_>,
        into: &mut VecDeque<Owned>,
    ) -> Result<Onward> {
        let usable = interior.header().usable();
        let passed = match self.passed.take() {
            Some(passed) => passed,
            None => {
                let Some(stop) = self.walk.next(interior, source)? else { return Ok(Onward::No) };
                if let Some((number, cell)) = stop.between {
                    let bytes = interior.get(source, number)?;
                    let page = Page::parse(number, &bytes, usable)?;
                    // In a table with rowids no row is between two leaves.
                    into.extend(page.kind().is_index().then(|| take(&page, cell)).flatten());
                }
                0
            }
        };
        self.walk.announce(interior, source, leaves.saturating_sub(1))?;
        let mut bytes = Vec::new();
        source.read(self.walk.leaf(), &mut bytes)?;
        let page = Page::parse(self.walk.leaf(), &bytes, usable)?;
        let cells = page.cells();
        into.extend((passed..cells).filter_map(|ordinal| match self.walk.direction() {
            Direction::Forward => take(&page, ordinal),
            Direction::Backward => take(&page, cells - 1 - ordinal),
        }));
        Ok(Onward::Yes)
    }
}

/// The rows of a scan by an index.
#[derive(Debug)]
pub(crate) struct ByIndex {
    scan: ScanId,
    sequence: Sequence,
    table: Arc<Table>,
    /// Rows whose pages are known, and that were not taken.
    known: VecDeque<(i64, PageNo)>,
    planned: FxHashSet<PageNo>,
}

impl ByIndex {
    fn take<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        rows: usize,
        take: &Take<'_>,
        into: &mut VecDeque<Owned>,
    ) -> Result<Onward> {
        if self.known.is_empty() {
            let Some(part) = self.sequence.next_targets(interior, source, &self.table, 1, rows)? else {
                return Ok(Onward::No);
            };
            let keys: Vec<RowKey> = part.targets.into_iter().map(|target| target.key).collect();
            let pages = interior.locate(source, &self.table, &keys)?;
            let rows = keys.iter().zip(pages).filter_map(|(key, page)| match key {
                RowKey::Rowid(rowid) => Some((*rowid, page?)),
                RowKey::Columns(_) => None,
            });
            self.known.extend(rows);
        }
        let usable = interior.header().usable();
        let (mut bytes, mut held) = (Vec::new(), None);
        for _ in 0..rows {
            let Some(&(rowid, number)) = self.known.front() else { break };
            if !self.planned.contains(&number) {
                return Ok(Onward::Later);
            }
            self.known.pop_front();
            if held != Some(number) {
                source.read(number, &mut bytes)?;
                held = Some(number);
            }
            let page = Page::parse(number, &bytes, usable)?;
            into.extend(cell_of(&page, rowid).and_then(|cell| take(&page, cell)));
        }
        Ok(Onward::Yes)
    }
}

/// The cell of a table's leaf that holds a row.
fn cell_of(page: &Page<'_>, rowid: i64) -> Option<usize> {
    let (mut low, mut high) = (0, page.cells());
    while low < high {
        let middle = usize::midpoint(low, high);
        match page.rowid(middle).ok()?.cmp(&rowid) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}
