//! Descents through b-trees: the leaf that holds a rowid or a key.
//!
//! Interior pages are kept in a bounded cache, since every row of a scan needs one again. The descents of many
//! rows go down together, level by level. The missing pages of a level are announced in ascending order, and
//! therefore fetched in one pass over the disk instead of in the order of the index (ATC'09 section 3.5 applied
//! to pages that only the extension needs).
//!
//! Limit: a WITHOUT ROWID table whose primary key extends to overflow pages is not followed past an interior
//! cell whose part on the page does not decide the comparison.

use crate::error::{Error, Result};
use crate::header::Header;
use crate::page::{Kind, Page, PageNo};
use crate::record::{Order, Value, columns, compare};
use crate::schema::{Table, TableKind};
use crate::source::ReadPage;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::sync::Arc;

/// Memory for interior pages. At some 400 children in a page of 4 KiB this covers a table of 13 GB; beyond it
/// pages are read again, mostly from the kernel's cache.
const CACHE_LIMIT: usize = 32 << 20;
/// Levels of a tree. SQLite's own cursors go no deeper than 20.
pub const DEPTH_LIMIT: usize = 20;

/// The interior pages of one database.
#[derive(Debug)]
pub struct Interior {
    header: Header,
    kept: FxHashMap<PageNo, Kept>,
    held: usize,
    clock: u64,
    /// Levels above the leaves, by root.
    heights: FxHashMap<PageNo, usize>,
}

#[derive(Debug)]
struct Kept {
    bytes: Arc<[u8]>,
    used: u64,
}

/// How a row is found in its table.
#[derive(Clone, Debug, PartialEq)]
pub enum RowKey {
    /// By rowid.
    Rowid(i64),
    /// By the values of its primary key, in the key's order.
    Columns(Vec<Owned>),
}

/// A value that outlives its page.
#[derive(Clone, Debug, PartialEq)]
pub enum Owned {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text, as stored.
    Text(Box<[u8]>),
    /// A blob.
    Blob(Box<[u8]>),
}

impl Owned {
    /// A copy of a value.
    #[must_use]
    pub fn of(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(value) => Self::Integer(value),
            Value::Real(value) => Self::Real(value),
            Value::Text(value) => Self::Text(value.into()),
            Value::Blob(value) => Self::Blob(value.into()),
        }
    }

    /// The value itself.
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(value) => Value::Integer(*value),
            Self::Real(value) => Value::Real(*value),
            Self::Text(value) => Value::Text(value),
            Self::Blob(value) => Value::Blob(value),
        }
    }
}

/// Where a descent continues from one page.
enum Down {
    Child(PageNo),
    /// The key is on this page itself.
    Here,
}

impl Interior {
    /// An empty cache for a database.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self { header, kept: FxHashMap::default(), held: 0, clock: 0, heights: FxHashMap::default() }
    }

    /// The database's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Drops everything: the database has changed.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.heights.clear();
        self.held = 0;
    }

    /// Whether a page is kept.
    #[must_use]
    pub fn holds(&self, page: PageNo) -> bool {
        self.kept.contains_key(&page)
    }

    /// A page's bytes, if it is kept.
    #[must_use]
    pub fn kept(&self, page: PageNo) -> Option<Arc<[u8]>> {
        self.kept.get(&page).map(|kept| Arc::clone(&kept.bytes))
    }

    /// Keeps a copy of an interior page that was read elsewhere. Returns whether its content was unknown.
    pub fn put(&mut self, page: PageNo, bytes: &[u8]) -> bool {
        self.clock += 1;
        if let Some(kept) = self.kept.get_mut(&page).filter(|kept| *kept.bytes == *bytes) {
            kept.used = self.clock;
            return false;
        }
        while self.held + bytes.len() > CACHE_LIMIT && !self.kept.is_empty() {
            self.shed();
        }
        let kept = Kept { bytes: bytes.into(), used: self.clock };
        self.held += bytes.len();
        if let Some(old) = self.kept.insert(page, kept) {
            self.held -= old.bytes.len();
        }
        true
    }

    /// Drops the half that was not used for longest.
    fn shed(&mut self) {
        let mut ages: Vec<u64> = self.kept.values().map(|kept| kept.used).collect();
        let middle = ages.len() / 2;
        let (_, &mut median, _) = ages.select_nth_unstable(middle);
        self.kept.retain(|_, kept| kept.used > median);
        self.held = self.kept.values().map(|kept| kept.bytes.len()).sum();
    }

    /// A page's bytes: kept ones, or read and kept.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn get<R: ReadPage>(&mut self, source: &mut R, page: PageNo) -> Result<Arc<[u8]>> {
        self.clock += 1;
        if let Some(kept) = self.kept.get_mut(&page) {
            kept.used = self.clock;
            return Ok(Arc::clone(&kept.bytes));
        }
        let mut bytes = Vec::new();
        source.read(page, &mut bytes)?;
        let bytes: Arc<[u8]> = bytes.into();
        if Page::parse(page, &bytes, self.header.usable())?.kind().is_interior() {
            self.put(page, &bytes);
        }
        Ok(bytes)
    }

    /// Levels of interior pages above the leaves: zero if the root is a leaf.
    ///
    /// # Errors
    /// The left-most path cannot be followed or has no end.
    pub fn height<R: ReadPage>(&mut self, source: &mut R, root: PageNo) -> Result<usize> {
        if let Some(&height) = self.heights.get(&root) {
            return Ok(height);
        }
        let mut at = root;
        for height in 0..DEPTH_LIMIT {
            let bytes = self.get(source, at)?;
            let page = Page::parse(at, &bytes, self.header.usable())?;
            if !page.kind().is_interior() {
                self.heights.insert(root, height);
                return Ok(height);
            }
            at = page.child(0)?;
        }
        Err(Error::TooMuch { what: "levels of a b-tree", limit: DEPTH_LIMIT })
    }

    /// Checks that a row of `table` is on `page`, which was just read. This shows how deep the tree is without
    /// reading its left-most path.
    ///
    /// # Errors
    /// The row is not there.
    pub fn confirm<R: ReadPage>(
        &mut self,
        source: &mut R,
        table: &Table,
        key: &RowKey,
        page: PageNo,
    ) -> Result<()> {
        let mut at = table.root;
        for height in 0..DEPTH_LIMIT {
            if at == page {
                self.heights.entry(table.root).or_insert(height);
                return Ok(());
            }
            let bytes = self.get(source, at)?;
            let interior = Page::parse(at, &bytes, self.header.usable())?;
            match self.down(&interior, &table.kind, key)? {
                Down::Child(child) => at = child,
                Down::Here => break,
            }
        }
        Err(Error::Damaged { page, at: 0, what: "not the page that holds the row" })
    }

    /// Sets the height of a tree, from a path that was followed to one of its leaves.
    pub fn learn(&mut self, root: PageNo, height: usize) {
        self.heights.insert(root, height);
    }

    /// The pages of a table that hold these rows, in their order. A row that cannot be found because a page is
    /// damaged or unreadable gets none; a row that does not exist gets the leaf on which it would be.
    ///
    /// # Errors
    /// The tree's root or left-most path cannot be read.
    pub fn locate<R: ReadPage>(
        &mut self,
        source: &mut R,
        table: &Table,
        keys: &[RowKey],
    ) -> Result<Vec<Option<PageNo>>> {
        let height = self.height(source, table.root)?;
        let mut at: Vec<Option<PageNo>> = vec![Some(table.root); keys.len()];
        let mut settled = vec![false; keys.len()];
        for _ in 0..height {
            let unsettled = (0..keys.len()).filter(|&key| !settled[key]);
            let mut order: Vec<(PageNo, usize)> =
                unsettled.filter_map(|key| at[key].map(|page| (page, key))).collect();
            order.sort_unstable();
            self.announce(source, order.iter().map(|&(page, _)| page));
            for group in order.chunk_by(|a, b| a.0 == b.0) {
                let number = group[0].0;
                let bytes = self.get(source, number);
                let page = bytes.as_ref().ok().map(|bytes| Page::parse(number, bytes, self.header.usable()));
                for &(_, key) in group {
                    let Some(Ok(page)) = &page else {
                        at[key] = None;
                        continue;
                    };
                    match self.down(page, &table.kind, &keys[key]) {
                        Ok(Down::Child(child)) => at[key] = Some(child),
                        Ok(Down::Here) => settled[key] = true,
                        Err(_) => at[key] = None,
                    }
                }
            }
        }
        Ok(at)
    }

    /// Announces the pages of an ascending sequence that are not kept.
    fn announce<R: ReadPage>(&self, source: &mut R, pages: impl Iterator<Item = PageNo>) {
        let mut missing: Vec<PageNo> = pages.filter(|page| !self.holds(*page)).collect();
        missing.dedup();
        if missing.len() > 1 {
            source.will_need(&missing);
        }
    }

    fn down(&self, page: &Page<'_>, kind: &TableKind, key: &RowKey) -> Result<Down> {
        let wrong = |what| Error::Damaged { page: page.number(), at: 0, what };
        match (kind, key, page.kind()) {
            (TableKind::Rowid, RowKey::Rowid(rowid), Kind::TableInterior) => {
                let index = lower_bound(page.cells(), |index| Ok(page.rowid(index)?.cmp(rowid)))?.0;
                Ok(Down::Child(page.child(index)?))
            }
            (TableKind::Key(orders), RowKey::Columns(key), Kind::IndexInterior) => {
                let (index, here) =
                    lower_bound(page.cells(), |index| self.compare_cell(page, index, key, orders))?;
                if here { Ok(Down::Here) } else { Ok(Down::Child(page.child(index)?)) }
            }
            _ => Err(wrong("a page of the wrong kind for its table")),
        }
    }

    /// How the cell at `index` compares with a key.
    fn compare_cell(
        &self,
        page: &Page<'_>,
        index: usize,
        key: &[Owned],
        orders: &[Order],
    ) -> Result<Ordering> {
        let damaged = Error::Damaged { page: page.number(), at: 0, what: "a key that can't be compared" };
        let payload = page.cell(index)?.payload.ok_or(damaged.clone())?;
        compare_record(payload.local, key, orders, &self.header).ok_or(damaged)
    }
}

/// How a record's first columns compare with a key. `None` if they are not all on the page or an unknown
/// collation decides.
#[must_use]
pub fn compare_record(record: &[u8], key: &[Owned], orders: &[Order], header: &Header) -> Option<Ordering> {
    let mut columns = columns(record)?;
    for (wanted, &order) in key.iter().zip(orders) {
        let ordering = compare(columns.next()?, wanted.value(), order, header.encoding)?;
        if ordering != Ordering::Equal {
            return Some(ordering);
        }
    }
    Some(Ordering::Equal)
}

/// The first of `count` ascending items that is not less than the wanted one, and whether it is equal to it.
///
/// # Errors
/// The first error of `compare`.
pub fn lower_bound(
    count: usize,
    mut compare: impl FnMut(usize) -> Result<Ordering>,
) -> Result<(usize, bool)> {
    let (mut low, mut high, mut equal) = (0, count, false);
    while low < high {
        let middle = low.midpoint(high);
        match compare(middle)? {
            Ordering::Less => low = middle + 1,
            ordering => {
                high = middle;
                equal = ordering == Ordering::Equal;
            }
        }
    }
    Ok((low, equal && low < count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_lower_bound_is_the_first_not_less(mut items in proptest::collection::vec(0i32..40, 0..40), wanted in 0i32..40) {
            items.sort_unstable();
            let found = lower_bound(items.len(), |index| Ok(items[index].cmp(&wanted)));
            let naive = items.iter().position(|&item| item >= wanted).unwrap_or(items.len());
            let equal = items.get(naive) == Some(&wanted);
            prop_assert_eq!(found, Ok((naive, equal)));
        }
    }

    #[test]
    fn the_cache_stays_within_its_limit_and_keeps_used_pages() {
        let mut header = [0u8; 100];
        header[..16].copy_from_slice(b"SQLite format 3\0");
        header[16..24].copy_from_slice(&[0, 1, 1, 1, 0, 64, 32, 32]);
        let mut interior = Interior::new(Header::parse(&header).expect("sound"));
        let page = vec![0u8; 65_536];
        for number in 1..2000 {
            interior.put(PageNo(number), &page);
            if let Some(kept) = interior.kept.get_mut(&PageNo(1)) {
                kept.used = interior.clock;
            }
            assert!(interior.held <= CACHE_LIMIT);
        }
        assert!(interior.holds(PageNo(1)) && interior.holds(PageNo(1999)));
    }
}
