//! Finds the column of the rows that holds the keys of the look-ups in a tree.
//!
//! The newest leaf of each of a few trees is kept. When a leaf of another tree is read from storage, each
//! column of each kept row is compared with the keys of that leaf. If a value is between its first and its last
//! key, the row may have looked it up. By chance any column of a page of some 30 rows has such a value once in
//! `leaves / 30` look-ups; the column with the key has one each time. Several columns may fit: they are
//! returned in order, those first whose values fit the fewest other rows.

use super::value;
use crate::header::Encoding;
use crate::page::{Kind, Page, PageNo};
use crate::record::{Order, Value, compare};
use crate::tree::Owned;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

/// Trees whose newest leaf is kept: an outer table and two inner ones with an index each. Of a larger join, the
/// last ones are followed.
const TREES: usize = 5;
/// Pairs of trees that are judged at a time: each tree with each other.
const PAIRS: usize = TREES * (TREES - 1);
/// Columns of a row that are compared, the rowid among them.
const COLUMNS: usize = 32;
/// Rows of a page that are compared: the smallest take some ten bytes of 4 KiB.
const ROWS: usize = 512;
/// Look-ups that are judged if the text also names the column. Each costs the seeks of a look-up, and a named
/// column rarely fits twice by chance.
const NEEDED_NAMED: u32 = 2;
/// Look-ups that are judged otherwise: by chance one page in a hundred fits, eight of eight never do.
const NEEDED: u32 = 8;
/// After so many look-ups the rows count as in the order of their table, even if an index of it was read: a
/// scan of the index would have been recognised by then.
const SETTLED: u32 = 4;
/// Leaves of a tree that are remembered, to detect whether they are read one after the other.
const LEAVES: usize = 4;
/// Leaves in memory that are judged for each one that was not: neighbours that were read together with another
/// are in memory, and to judge one takes some 20 microseconds, a hundredth of a seek.
const SPARE: u32 = 4;
/// The most look-ups between two attempts to begin: so many seeks take a second or two.
const WAIT_LIMIT: u32 = 256;

/// The keys of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyRange {
    /// The first and the last rowid.
    Rowids(i64, i64),
    /// The first column of the first and of the last entry, and its order.
    Values(Owned, Owned, Order),
}

impl KeyRange {
    /// Those of a leaf of an index of this order, or of a table. `None` for an empty leaf.
    pub(crate) fn of(page: &Page<'_>, order: Order) -> Option<Self> {
        let last = page.cells().checked_sub(1)?;
        match page.kind() {
            Kind::TableLeaf => Some(Self::Rowids(page.rowid(0).ok()?, page.rowid(last).ok()?)),
            Kind::IndexLeaf => {
                let first = |cell| Some(Owned::of(page.columns(cell)?.next()?));
                Some(Self::Values(first(0)?, first(last)?, order))
            }
            Kind::TableInterior | Kind::IndexInterior => None,
        }
    }

    fn holds(&self, value: Value<'_>, encoding: Encoding) -> bool {
        match (self, value) {
            (Self::Rowids(first, last), Value::Integer(rowid)) => (*first..=*last).contains(&rowid),
            (Self::Rowids(..), _) | (_, Value::Null) => false,
            (Self::Values(first, last, order), value) => {
                compare(first.value(), value, *order, encoding).is_some_and(Ordering::is_le)
                    && compare(last.value(), value, *order, encoding).is_some_and(Ordering::is_ge)
            }
        }
    }
}

/// Columns, one of which holds the looked-up values.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    /// The tree of the outer side.
    pub(crate) outer: PageNo,
    /// Its last leaves that were read, the newest last.
    pub(crate) leaves: Vec<PageNo>,
    /// The newest.
    pub(crate) bytes: Arc<[u8]>,
    /// The columns that may hold the key, counted as in [`value`]; the likeliest first.
    pub(crate) columns: Vec<usize>,
    /// How many look-ups were judged.
    look_ups: u32,
    /// The keys of the inner leaf that was just read.
    keys: KeyRange,
}

impl Joined {
    /// Whether there is enough evidence without a column's name in the text.
    pub(crate) fn is_plain(&self) -> bool {
        self.look_ups >= NEEDED
    }

    /// Whether there were so many look-ups that an index with these rows would have begun a scan.
    pub(crate) fn is_settled(&self) -> bool {
        self.look_ups >= SETTLED
    }

    /// The cells of the newest leaf whose value in a column may have led to the last look-up, in their order.
    pub(crate) fn asking(&self, page: &Page<'_>, column: usize, encoding: Encoding) -> Vec<usize> {
        let asks =
            |cell: &usize| value(page, *cell, column).is_some_and(|held| self.keys.holds(held, encoding));
        (0..page.cells().min(ROWS)).filter(asks).collect()
    }
}

/// The leaves that a stream has read and that may be sides of a join.
#[derive(Debug, Default)]
pub(crate) struct JoinEvidence {
    trees: VecDeque<Tree>,
    pairs: VecDeque<Pair>,
    /// Leaves that may be judged although they were in memory.
    spare: u32,
}

#[derive(Debug)]
struct Tree {
    root: PageNo,
    leaves: VecDeque<PageNo>,
    bytes: Arc<[u8]>,
    /// How often a leaf was read.
    reads: usize,
}

#[derive(Debug)]
struct Pair {
    outer: PageNo,
    inner: PageNo,
    tries: u32,
    columns: Vec<Fit>,
    /// Look-ups until the next attempt, and their number at the last one.
    wait: u32,
    waited: u32,
}

/// How well a column has fitted.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    hits: u32,
    /// Rows that fitted, in total.
    rows: u32,
}

impl JoinEvidence {
    /// A leaf of a tree was read.
    pub(crate) fn read(&mut self, root: PageNo, leaf: PageNo, bytes: &[u8]) {
        let at = self.trees.iter().position(|tree| tree.root == root);
        let known = at.and_then(|at| self.trees.remove(at));
        let mut tree =
            known.unwrap_or_else(|| Tree { root, leaves: VecDeque::new(), bytes: Arc::from([]), reads: 0 });
        tree.reads += 1;
        if tree.leaves.back() != Some(&leaf) || *tree.bytes != *bytes {
            tree.bytes = bytes.into();
        }
        if tree.leaves.back() != Some(&leaf) {
            tree.leaves.push_back(leaf);
        }
        if tree.leaves.len() > LEAVES {
            tree.leaves.pop_front();
        }
        self.trees.push_front(tree);
        self.trees.truncate(TREES);
    }

    /// The newest leaf of a tree.
    pub(crate) fn newest(&self, root: PageNo) -> Option<(PageNo, Arc<[u8]>)> {
        let tree = self.trees.iter().find(|tree| tree.root == root)?;
        Some((*tree.leaves.back()?, Arc::clone(&tree.bytes)))
    }

    /// Whether a leaf of a tree was among the last ones.
    pub(crate) fn has(&self, root: PageNo) -> bool {
        self.trees.iter().any(|tree| tree.root == root)
    }

    /// How many leaves a look-up in an index and in its table has read on average.
    pub(crate) fn reads_a_look_up(&self, index: PageNo, table: PageNo) -> usize {
        let reads = |root| self.trees.iter().find(|tree| tree.root == root).map_or(0, |tree| tree.reads);
        1 + reads(table).div_ceil(reads(index).max(1)).max(1)
    }

    /// Whether to judge a leaf: if it `missed`, and for a few others.
    pub(crate) fn is_due(&mut self, missed: bool) -> bool {
        if missed {
            self.spare = SPARE;
            return true;
        }
        let is_due = self.spare > 0;
        self.spare = self.spare.saturating_sub(1);
        is_due
    }

    /// A leaf of the tree at `inner` was read, with these keys. `apart`: whether a tree may be the outer side.
    /// Once there is evidence, returns the columns, one of which holds the key.
    pub(crate) fn look_up(
        &mut self,
        inner: PageNo,
        keys: &KeyRange,
        encoding: Encoding,
        usable: usize,
        apart: impl Fn(PageNo) -> bool,
    ) -> Option<Joined> {
        let mut found = None;
        for tree in self.trees.iter().filter(|tree| tree.root != inner && apart(tree.root)) {
            let Some(&leaf) = tree.leaves.back() else { continue };
            let Ok(page) = Page::parse(leaf, &tree.bytes, usable) else { continue };
            let pair = pair_of(&mut self.pairs, tree.root, inner);
            if pair.wait > 0 {
                pair.wait -= 1;
                continue;
            }
            let columns = pair.judge(&fits(&page, keys, encoding));
            if columns.is_empty() || found.is_some() {
                continue;
            }
            let (bytes, leaves) = (Arc::clone(&tree.bytes), tree.leaves.iter().copied().collect());
            let look_ups = pair.tries;
            found = Some(Joined { outer: tree.root, leaves, bytes, columns, look_ups, keys: keys.clone() });
        }
        found
    }

    /// Nothing could begin by this evidence: the next attempt is after twice as many look-ups.
    pub(crate) fn refused(&mut self, outer: PageNo, inner: PageNo) {
        pair_of(&mut self.pairs, outer, inner).refuse();
    }
}

fn pair_of(pairs: &mut VecDeque<Pair>, outer: PageNo, inner: PageNo) -> &mut Pair {
    let at = pairs.iter().position(|pair| (pair.outer, pair.inner) == (outer, inner));
    if let Some(pair) = at.and_then(|at| pairs.remove(at)) {
        // The pairs that are not used any more are removed first.
        pairs.push_back(pair);
    } else {
        if pairs.len() == PAIRS {
            pairs.pop_front();
        }
        let columns = vec![Fit::default(); COLUMNS];
        pairs.push_back(Pair { outer, inner, tries: 0, columns, wait: 0, waited: 0 });
    }
    let last = pairs.len() - 1;
    &mut pairs[last]
}

impl Pair {
    fn refuse(&mut self) {
        self.waited = (self.waited * 2).clamp(NEEDED, WAIT_LIMIT);
        self.wait = self.waited;
    }

    /// Counts a look-up that these columns fit. Once there is evidence, returns the columns that may hold the
    /// keys, the likeliest first.
    fn judge(&mut self, fits: &[u32]) -> Vec<usize> {
        if self.tries == 2 * NEEDED {
            self.tries = NEEDED;
            self.columns.iter_mut().for_each(|fit| (fit.hits, fit.rows) = (fit.hits / 2, fit.rows / 2));
        }
        self.tries += 1;
        for (fit, new) in self.columns.iter_mut().zip(fits) {
            fit.hits += u32::from(*new > 0);
            fit.rows += new;
        }
        if self.tries < NEEDED_NAMED {
            return Vec::new();
        }
        // One look-up of eight may belong to another row.
        let least = self.tries - self.tries / NEEDED;
        let enough = |&column: &usize| self.columns[column].hits >= least && fits[column] > 0;
        let mut likely: Vec<usize> = (0..self.columns.len().min(fits.len())).filter(enough).collect();
        likely.sort_by_key(|&column| self.columns[column].rows);
        if likely.is_empty() && self.tries == 2 * NEEDED {
            self.refuse();
        }
        likely
    }
}

/// For each column of a page: how many rows have a value among these keys.
fn fits(page: &Page<'_>, keys: &KeyRange, encoding: Encoding) -> [u32; COLUMNS] {
    let mut fits = [0; COLUMNS];
    for cell in 0..page.cells().min(ROWS) {
        let rowid = value(page, cell, 0).unwrap_or(Value::Null);
        let columns = page.columns(cell).into_iter().flatten();
        for (fit, held) in fits.iter_mut().zip(std::iter::once(rowid).chain(columns)) {
            *fit += u32::from(keys.holds(held, encoding));
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Collation;

    const PLAIN: Order = Order { collation: Collation::Binary, descending: false };
    const OUTER: PageNo = PageNo(3);
    const INNER: PageNo = PageNo(9);

    /// A table leaf with rows (rowid, [column, constant]).
    fn leaf(rows: &[(u8, i16)]) -> Vec<u8> {
        let mut bytes = vec![0u8; 512];
        (bytes[0], bytes[4]) = (13, rows.len() as u8);
        for (index, (rowid, column)) in rows.iter().enumerate() {
            let at = 512 - 10 * (index + 1);
            bytes[8 + 2 * index..10 + 2 * index].copy_from_slice(&(at as u16).to_be_bytes());
            bytes[at..at + 5].copy_from_slice(&[6, *rowid, 3, 2, 1]);
            bytes[at + 5..at + 7].copy_from_slice(&column.to_be_bytes());
            bytes[at + 7] = 7;
        }
        bytes
    }

    /// The likeliest column for look-ups at each of these leaves of the inner tree, and whether it needs no
    /// name.
    fn columns(
        evidence: &mut JoinEvidence,
        look_ups: impl IntoIterator<Item = (i64, i64)>,
    ) -> Vec<Option<(usize, bool)>> {
        let mut look_up = |(first, last)| {
            evidence.look_up(INNER, &KeyRange::Rowids(first, last), Encoding::Utf8, 512, |_| true)
        };
        look_ups
            .into_iter()
            .map(|keys| look_up(keys).map(|joined| (joined.columns[0], joined.is_plain())))
            .collect()
    }

    #[test]
    fn the_column_whose_values_are_looked_up_is_found_at_the_second_and_needs_no_name_from_the_eighth_on() {
        let rows: Vec<(u8, i16)> = (0..20).map(|row| (row + 1, 500 + 40 * i16::from(row))).collect();
        let mut evidence = JoinEvidence::default();
        evidence.read(OUTER, PageNo(40), &leaf(&rows));
        let look_ups = rows.iter().map(|(_, key)| (i64::from(*key) - 3, i64::from(*key) + 9));
        let found = columns(&mut evidence, look_ups);
        assert_eq!(found[0], None);
        assert_eq!(found[1..7], [Some((1, false)); 6]);
        assert!(found[7..].iter().all(|found| *found == Some((1, true))), "{found:?}");
    }

    #[test]
    fn look_ups_of_other_values_are_no_evidence() {
        let rows: Vec<(u8, i16)> = (0..20).map(|row| (row + 1, 500 + 40 * i16::from(row))).collect();
        let mut evidence = JoinEvidence::default();
        evidence.read(OUTER, PageNo(40), &leaf(&rows));
        let look_ups = (0..40).map(|at| (510 + 40 * (at * 7 % 20), 530 + 40 * (at * 7 % 20)));
        assert_eq!(columns(&mut evidence, look_ups), vec![None; 40]);
    }

    #[test]
    fn of_two_columns_the_one_that_fits_fewer_rows_is_the_likelier() {
        // The constant column (7) and the rowid are both within each of these leaves.
        let rows: Vec<(u8, i16)> = (0..12).map(|row| (row + 1, 900)).collect();
        let mut evidence = JoinEvidence::default();
        evidence.read(OUTER, PageNo(40), &leaf(&rows));
        assert_eq!(columns(&mut evidence, vec![(6, 8); 8]).pop(), Some(Some((0, true))));
    }

    #[test]
    fn after_a_refusal_it_is_tried_ever_more_rarely() {
        let rows: Vec<(u8, i16)> = (0..4).map(|row| (row + 1, 500)).collect();
        let mut evidence = JoinEvidence::default();
        evidence.read(OUTER, PageNo(40), &leaf(&rows));
        let mut tried = Vec::new();
        for at in 0..100 {
            if columns(&mut evidence, [(490, 510)])[0].is_some() {
                tried.push(at);
                evidence.refused(OUTER, INNER);
            }
        }
        assert_eq!(tried, [1, 10, 27, 60]);
    }

    #[test]
    fn keys_of_an_index_are_compared_by_its_order() {
        let text = |text: &str| Owned::Text(text.as_bytes().into());
        let up = KeyRange::Values(text("b"), text("f"), PLAIN);
        let down = KeyRange::Values(text("f"), text("b"), Order { descending: true, ..PLAIN });
        for keys in [up, down] {
            assert!(
                keys.holds(Value::Text(b"d"), Encoding::Utf8)
                    && keys.holds(Value::Text(b"f"), Encoding::Utf8)
            );
            assert!(
                !keys.holds(Value::Text(b"g"), Encoding::Utf8) && !keys.holds(Value::Null, Encoding::Utf8)
            );
        }
    }
}
