//! Recognises a scan by an index from observed reads.
//!
//! SQLite does not report its plan, but a scan by an index leaves a trace: a leaf of the index is read, then
//! table pages with the rows of its entries, in the order of the entries. Each index leaf that is read becomes
//! a *candidate*. The table pages read after it are kept as ranges of keys. The candidate is a scan when
//! [`EVIDENCE`] of them follow its entries in order, in either direction. Reads from SQLite's own cache leave
//! gaps, and a join reads other tables in between: both are allowed within bounds.

use crate::header::Header;
use crate::page::{Kind, Page, PageNo};
use crate::record::Order;
use crate::record::{columns, last_integer};
use crate::tree::{Owned, compare_record};
use crate::walk::Direction;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Table pages that must have been read in the order of an index leaf's entries. By chance a page fits one of
/// the next `GAP` entries of a table of 4,000 pages in one case of a hundred; four in order are no chance.
/// Point queries and scans of fewer rows are never affected.
pub const EVIDENCE: usize = 4;
/// Entries between two table page reads that SQLite's cache may have answered.
const GAP: usize = 32;
/// Entries at the edge of a leaf whose rows need not have been read for a scan to have begun there: they may be
/// in SQLite's cache, or on interior pages (WITHOUT ROWID).
const EDGE: usize = 4;
/// Table pages kept for one candidate. A join that reads three other pages for each row of the scan still shows
/// [`EVIDENCE`] among them.
const READS_KEPT: usize = 4 * EVIDENCE;
/// Index leaves that are candidates at a time: a join by several indexes reads them in turn.
const CANDIDATES_LIMIT: usize = 8;
/// Leaves of few entries that are judged together: enough for the evidence in leaves of a few entries each, as
/// with long keys.
const LEAVES_LINKED: usize = 8;
/// Table pages after which a candidate is dropped: those of a leaf whose rows are mostly cached.
const READS_LIMIT: u32 = 256;

/// The keys on a table page, first and last.
#[derive(Clone, Debug, PartialEq)]
pub enum Extent {
    /// Of a rowid table.
    Rowids(i64, i64),
    /// Of a table WITHOUT ROWID: the records of its first and last row.
    Records(Box<[u8]>, Box<[u8]>),
}

impl Extent {
    /// The keys of a page that may hold rows; `None` for an interior, empty or damaged one.
    #[must_use]
    pub fn of(page: &Page<'_>) -> Option<Self> {
        let last = page.cells().checked_sub(1)?;
        match page.kind() {
            Kind::TableLeaf => Some(Self::Rowids(page.rowid(0).ok()?, page.rowid(last).ok()?)),
            Kind::IndexLeaf => {
                let record = |cell| Some(page.cell(cell).ok()?.payload?.local.into());
                Some(Self::Records(record(0)?, record(last)?))
            }
            Kind::TableInterior | Kind::IndexInterior => None,
        }
    }

    fn holds_rowid(&self, rowid: i64) -> bool {
        matches!(self, Self::Rowids(first, last) if (*first..=*last).contains(&rowid))
    }

    fn holds_key(&self, key: &[Owned], orders: &[Order], header: &Header) -> bool {
        let Self::Records(first, last) = self else { return false };
        let compare = |record| compare_record(record, key, orders, header);
        compare(first).is_some_and(Ordering::is_le) && compare(last).is_some_and(Ordering::is_ge)
    }
}

/// How the entries of an index leaf refer to rows.
#[derive(Clone, Debug)]
pub enum RowRef {
    /// By the rowid at the end of each entry.
    Rowid,
    /// By a primary key: its position in the entry, and its order.
    Key {
        /// Position of each key column in the entry.
        at: Vec<usize>,
        /// Order of each key column.
        orders: Vec<Order>,
    },
}

#[derive(Debug)]
enum Entries {
    Rowids(Vec<Option<i64>>),
    Keys(Vec<Option<Vec<Owned>>>, Vec<Order>),
}

impl Entries {
    fn of(page: &Page<'_>, cells: &[usize], row_ref: &RowRef) -> Self {
        let record =
            |cell| Some(page.cell(cell).ok()?.payload.filter(|payload| payload.overflow.is_none())?.local);
        let cells = cells.iter().copied();
        match row_ref {
            RowRef::Rowid => Self::Rowids(cells.map(|cell| record(cell).and_then(last_integer)).collect()),
            RowRef::Key { at, orders } => {
                let key = |cell| {
                    let values: Vec<_> = columns(record(cell)?)?.collect();
                    at.iter().map(|&at| values.get(at).map(|&value| Owned::of(value))).collect()
                };
                Self::Keys(cells.map(key).collect(), orders.clone())
            }
        }
    }

    fn leads_to(&self, entry: usize, extent: &Extent, header: &Header) -> bool {
        match self {
            Self::Rowids(rowids) => {
                rowids.get(entry).copied().flatten().is_some_and(|rowid| extent.holds_rowid(rowid))
            }
            Self::Keys(keys, orders) => {
                let key = keys.get(entry).and_then(Option::as_ref);
                key.is_some_and(|key| extent.holds_key(key, orders, header))
            }
        }
    }
}

#[derive(Debug)]
struct Leaf {
    number: PageNo,
    bytes: Arc<[u8]>,
    /// The cells whose rows may be read.
    cells: Vec<usize>,
    /// Decoded when there is enough to compare with.
    entries: Option<Entries>,
}

/// An index leaf, perhaps with earlier ones, and the reads since.
#[derive(Debug)]
struct Candidate {
    /// The newest last.
    leaves: VecDeque<Leaf>,
    row_ref: RowRef,
    reads: VecDeque<(PageNo, Arc<Extent>)>,
    seen: u32,
    evidence: usize,
}

/// A scan that was recognised.
#[derive(Clone, Debug)]
pub struct RecognisedScan {
    /// The index leaf that it has reached.
    pub leaf: PageNo,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// The direction of the scan.
    pub direction: Direction,
    /// The cell of `leaf` that refers to the page just read.
    pub last: usize,
    /// That page.
    pub page: PageNo,
    /// The number of leaves since the first entry that was followed.
    pub leaves_ago: usize,
    /// Whether that entry was the first in its leaf in the scan's direction, or nearly.
    pub from_edge: bool,
}

/// The candidates of one stream of reads.
#[derive(Debug, Default)]
pub struct Recogniser {
    candidates: VecDeque<Candidate>,
}

impl Recogniser {
    /// A recogniser without candidates.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops all candidates: another transaction has begun.
    pub fn clear(&mut self) {
        self.candidates.clear();
    }

    /// An index leaf was read. `cells`: those whose rows may be read, all of them or those that a statement
    /// looks up. `evidence`: how many table pages must follow it, at least [`EVIDENCE`].
    pub fn leaf(
        &mut self,
        page: &Page<'_>,
        bytes: &[u8],
        cells: Vec<usize>,
        row_ref: RowRef,
        evidence: usize,
    ) {
        let number = page.number();
        let again = |candidate: &Candidate| candidate.leaves.back().is_some_and(|leaf| leaf.number == number);
        self.candidates.retain(|candidate| !again(candidate));
        // A leaf of few entries may be passed before there is evidence: the reads for it count for the next
        // leaf, too.
        let few = |leaf: &Leaf| leaf.cells.len() < READS_KEPT;
        let (mut leaves, mut reads) = (VecDeque::new(), VecDeque::new());
        let linked = self.candidates.back().is_some_and(|before| before.leaves.back().is_some_and(few));
        if let Some(before) = linked.then(|| self.candidates.pop_back()).flatten() {
            (leaves, reads) = (before.leaves, before.reads);
        }
        if leaves.len() == LEAVES_LINKED {
            leaves.pop_front();
        }
        leaves.push_back(Leaf { number, bytes: bytes.into(), cells, entries: None });
        if self.candidates.len() == CANDIDATES_LIMIT {
            self.candidates.pop_front();
        }
        self.candidates.push_back(Candidate { leaves, row_ref, reads, seen: 0, evidence });
    }

    /// A page with rows was read. If a scan is `wanted` now, returns the one that it completes the evidence
    /// for; its candidate stays until it is [accepted](Self::accept).
    pub fn row_page(&mut self, page: &Page<'_>, header: &Header, wanted: bool) -> Option<RecognisedScan> {
        if self.candidates.is_empty() {
            return None;
        }
        let extent = Arc::new(Extent::of(page)?);
        for candidate in &mut self.candidates {
            candidate.seen += 1;
            if candidate.reads.len() >= READS_KEPT.max(2 * candidate.evidence) {
                candidate.reads.pop_front();
            }
            candidate.reads.push_back((page.number(), Arc::clone(&extent)));
        }
        let mut judged = self.candidates.iter_mut().rev().filter(|_| wanted);
        let found = judged.find_map(|candidate| candidate.judge(header));
        self.candidates.retain(|candidate| candidate.seen < READS_LIMIT);
        found
    }

    /// The scan found at this leaf is followed from now on.
    pub fn accept(&mut self, leaf: PageNo) {
        let is = |candidate: &Candidate| candidate.leaves.back().is_some_and(|newest| newest.number == leaf);
        self.candidates.retain(|candidate| !is(candidate));
    }
}

impl Candidate {
    fn judge(&mut self, header: &Header) -> Option<RecognisedScan> {
        if self.reads.len() < self.evidence {
            return None;
        }
        for leaf in &mut self.leaves {
            if leaf.entries.is_none() {
                let page = Page::parse(leaf.number, &leaf.bytes, header.usable()).ok()?;
                leaf.entries = Some(Entries::of(&page, &leaf.cells, &self.row_ref));
            }
        }
        // In a small table the reads may fit in several ways: the likeliest is the one in which most of them
        // do, and the tightest of those.
        [Direction::Forward, Direction::Backward]
            .into_iter()
            .filter_map(|direction| self.judge_direction(header, direction))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, found)| found)
    }

    /// A scan in this direction, and its rank: how many reads do not fit, and how many entries the others span.
    fn judge_direction(
        &self,
        header: &Header,
        direction: Direction,
    ) -> Option<((usize, usize), RecognisedScan)> {
        // All entries in reading order: the leaf of each, and its cell there.
        let order: Vec<(usize, usize)> = (0..self.leaves.len())
            .flat_map(|leaf| {
                let cells = self.leaves[leaf].cells.len();
                (0..cells).map(move |ordinal| match direction {
                    Direction::Forward => (leaf, ordinal),
                    Direction::Backward => (leaf, cells - 1 - ordinal),
                })
            })
            .collect();
        let row_ref = |place: usize, extent: &Extent| {
            let (leaf, cell) = order[place];
            self.leaves[leaf].entries.as_ref().is_some_and(|entries| entries.leads_to(cell, extent, header))
        };
        // The page just read must be part of the evidence, on the newest leaf: it shows the scan's position.
        let &(page, ref newest) = self.reads.back()?;
        let leaf = self.leaves.back()?;
        let of_newest = order.len() - leaf.cells.len()..order.len();
        let chains = of_newest.filter(|&last| row_ref(last, newest)).filter_map(|last| {
            let (first, fits) = self.chain_back(last, &row_ref)?;
            Some(((self.reads.len() - fits, last - first), first, last))
        });
        let (rank, first, last) = chains.min()?;
        let first = self.extend_back(first, &row_ref);
        let (first_leaf, _) = order[first];
        let from_edge = first.checked_sub(EDGE).is_none_or(|before| order[before].0 != first_leaf);
        let leaves_ago = self.leaves.len() - 1 - first_leaf;
        let bytes = Arc::clone(&leaf.bytes);
        let last = leaf.cells[order[last].1];
        Some((
            rank,
            RecognisedScan { leaf: leaf.number, bytes, direction, last, page, leaves_ago, from_edge },
        ))
    }

    /// Follows the reads backwards from position `last`, which the newest fits: each earlier read may fit an
    /// earlier position. Returns the earliest position and how many reads fit, if these are enough.
    fn chain_back(&self, last: usize, row_ref: &impl Fn(usize, &Extent) -> bool) -> Option<(usize, usize)> {
        let mut at = last;
        let mut fits = 1;
        let mut previous = self.reads.back()?.0;
        for (page, extent) in self.reads.iter().rev().skip(1) {
            // A page read twice in a row shows nothing new about the order.
            if *page == previous {
                continue;
            }
            let places = at.saturating_sub(GAP)..at;
            if let Some(place) = places.rev().find(|&place| row_ref(place, extent)) {
                at = place;
                fits += 1;
                previous = *page;
            }
        }
        (fits >= self.evidence).then_some((at, fits))
    }

    /// Earlier entries whose rows are on pages that were read as well may have begun the scan.
    fn extend_back(&self, first: usize, row_ref: &impl Fn(usize, &Extent) -> bool) -> usize {
        let read = |place: usize| self.reads.iter().any(|(_, extent)| row_ref(place, extent));
        let mut at = first;
        while let Some(earlier) = at.checked_sub(1).filter(|&place| read(place)) {
            at = earlier;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let mut bytes = [0u8; 100];
        bytes[..16].copy_from_slice(b"SQLite format 3\0");
        bytes[16..24].copy_from_slice(&[16, 0, 1, 1, 0, 64, 32, 32]);
        Header::parse(&bytes).expect("sound")
    }

    /// An index leaf with entries (i, rowid).
    fn index_leaf(rowids: &[i32]) -> Vec<u8> {
        let mut bytes = vec![0u8; 4096];
        bytes[0] = 10;
        bytes[3..5].copy_from_slice(&(rowids.len() as u16).to_be_bytes());
        for (index, rowid) in rowids.iter().enumerate() {
            let at = 4096 - 12 * (index + 1);
            bytes[8 + 2 * index..10 + 2 * index].copy_from_slice(&(at as u16).to_be_bytes());
            bytes[at..at + 5].copy_from_slice(&[8, 3, 1, 4, index as u8]);
            bytes[at + 5..at + 9].copy_from_slice(&rowid.to_be_bytes());
        }
        bytes
    }

    /// A table leaf whose rows run from `first` to `last`.
    fn table_leaf(first: u8, last: u8) -> Vec<u8> {
        let mut bytes = vec![0u8; 4096];
        bytes[0] = 13;
        bytes[4] = 2;
        bytes[8..12].copy_from_slice(&[15, 200, 15, 210]);
        bytes[0xfc8..0xfcc].copy_from_slice(&[2, first, 2, 0]);
        bytes[0xfd2..0xfd6].copy_from_slice(&[2, last, 2, 0]);
        bytes
    }

    fn leaf(recogniser: &mut Recogniser, number: u32, rowids: &[i32]) {
        let bytes = index_leaf(rowids);
        let page = Page::parse(PageNo(number), &bytes, 4096).expect("sound");
        recogniser.leaf(&page, &bytes, (0..page.cells()).collect(), RowRef::Rowid, EVIDENCE);
    }

    fn read(recogniser: &mut Recogniser, rows: u8) -> Option<RecognisedScan> {
        let bytes = table_leaf(rows, rows + 4);
        let page = Page::parse(PageNo(100 + u32::from(rows)), &bytes, 4096).expect("sound");
        {
            let found = recogniser.row_page(&page, &header(), true)?;
            recogniser.accept(found.leaf);
            Some(found)
        }
    }

    // Rows 10.. 15.. 20.. each on pages of five.
    const ORDER: [i32; 16] = [51, 12, 93, 34, 75, 16, 57, 98, 39, 71, 11, 55, 72, 13, 91, 54];

    #[test]
    fn a_scan_is_recognised_in_either_direction_at_its_fourth_page() {
        let mut recogniser = Recogniser::new();
        leaf(&mut recogniser, 7, &ORDER);
        assert!(read(&mut recogniser, 50).is_none());
        assert!(read(&mut recogniser, 10).is_none());
        assert!(read(&mut recogniser, 90).is_none());
        let found = read(&mut recogniser, 30).expect("recognised");
        assert_eq!((found.direction, found.from_edge, found.last), (Direction::Forward, true, 3));
        assert_eq!((found.leaf, found.page), (PageNo(7), PageNo(130)));

        leaf(&mut recogniser, 7, &ORDER);
        for rows in [50, 90, 10] {
            assert!(read(&mut recogniser, rows).is_none());
        }
        let found = read(&mut recogniser, 70).expect("recognised");
        assert_eq!((found.direction, found.from_edge, found.last), (Direction::Backward, true, 12));
    }

    #[test]
    fn cached_rows_and_other_tables_may_lie_between() {
        let mut recogniser = Recogniser::new();
        leaf(&mut recogniser, 7, &ORDER);
        for rows in [50, 1, 90, 2, 75, 3] {
            assert!(read(&mut recogniser, rows).is_none());
        }
        assert_eq!(read(&mut recogniser, 95).map(|found| (found.from_edge, found.last)), Some((true, 7)));
    }

    #[test]
    fn a_scan_from_the_middle_is_not_from_the_edge() {
        let mut recogniser = Recogniser::new();
        leaf(&mut recogniser, 7, &ORDER);
        for rows in [16, 56, 98] {
            assert!(read(&mut recogniser, rows).is_none());
        }
        assert_eq!(read(&mut recogniser, 37).map(|found| (found.from_edge, found.last)), Some((false, 8)));
    }

    #[test]
    fn leaves_of_few_entries_are_looked_at_together() {
        let mut recogniser = Recogniser::new();
        for (number, rows) in [(7, 10u8), (9, 40), (3, 20)] {
            leaf(&mut recogniser, number, &[i32::from(rows)]);
            assert!(read(&mut recogniser, rows).is_none());
        }
        leaf(&mut recogniser, 5, &[52, 33]);
        let found = read(&mut recogniser, 50).expect("recognised");
        assert_eq!((found.leaf, found.leaves_ago, found.from_edge, found.last), (PageNo(5), 3, true, 0));
    }

    #[test]
    fn reads_in_another_order_are_no_scan() {
        let mut recogniser = Recogniser::new();
        leaf(&mut recogniser, 7, &ORDER);
        for rows in [120, 115, 110, 105, 100, 10, 120, 115, 50, 100, 105, 10, 115, 50, 105] {
            assert!(read(&mut recogniser, rows).is_none());
        }
    }

    #[test]
    fn one_page_read_again_and_again_is_no_scan() {
        let mut recogniser = Recogniser::new();
        leaf(&mut recogniser, 7, &[11, 12, 13, 14, 11, 12, 13, 14]);
        for _ in 0..20 {
            assert!(read(&mut recogniser, 10).is_none());
        }
    }
}
