//! Joins in the planner: when the look-ups of an inner side are followed, and from which outer row on.

use super::{JOINS_FROM, Planner};
use crate::ends::{self, Loop};
use crate::join::{Extent, Filter, Inner, JoinReads, Joined, KeyRange, OuterRows, compared_with};
use crate::page::{Page, PageNo};
use crate::record::Value;
use crate::scan::{FollowedScan, ScanId, ScanReads};
use crate::schema::{Index, Schema, Table};
use crate::source::ReadPage;
use crate::walk::{Direction, Walk};
use foreseek_hints::allowance::End;
use foreseek_units::Bytes;
use std::sync::Arc;

impl Planner {
    /// A page was read from storage. If it is a leaf that rows of another tree look up, as were earlier ones,
    /// the scan of the coming look-ups begins.
    pub(super) fn joined<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        leaf: &Page<'_>,
        missed: bool,
        texts: &mut dyn FnMut() -> Vec<String>,
    ) -> Option<ScanId> {
        let root = self.owners.get(&leaf.number())?.root;
        let is_side = |scan: &FollowedScan| {
            scan.stream == stream
                && (scan.outer_root() == Some(root) || scan.index == root && scan.outer_root().is_some())
        };
        let is_followed = leaf.kind().is_interior() || self.scans.iter().any(is_side);
        let known = self.stream(stream);
        if is_followed || known.allowance.misses() < JOINS_FROM || !known.joins.is_due(missed) {
            return None;
        }
        let schema = self.schema.take()?;
        let begun = self.joined_by(source, stream, (root, leaf), &schema, texts);
        self.schema = Some(schema);
        begun
    }

    /// Whether the look-ups in this tree are followed as the inner side of a join.
    pub(super) fn is_joined(&self, stream: u64, root: PageNo) -> bool {
        self.scans
            .iter()
            .any(|scan| scan.stream == stream && scan.index == root && scan.outer_root().is_some())
    }

    fn joined_by<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        (root, leaf): (PageNo, &Page<'_>),
        schema: &Schema,
        texts: &mut dyn FnMut() -> Vec<String>,
    ) -> Option<ScanId> {
        let (index, table) = schema.tree(root)?;
        let keys = KeyRange::of(leaf, index.order(0))?;
        let header = *self.header();
        // An index and its table, or two indexes of one table, are a scan by index and no join.
        let of = |root: PageNo| schema.tree(root).map(|(_, table)| table.root);
        let apart = |outer: PageNo| of(outer).is_some_and(|outer| outer != table.root);
        let known = self.stream(stream);
        let joined = known.joins.look_up(root, &keys, header.encoding, header.usable(), apart)?;
        if !known.may_step(End::Known) {
            return None;
        }
        let statements = texts();
        let (_, outer) = schema.tree(joined.outer)?;
        let (goes, tables) = match self.caution.contains_key(&root) {
            true => (Loop::Unknown, 0),
            false => ends::joined(&statements, &outer.name, &table.name),
        };
        // The path to this leaf shows how deep the tree is.
        if let Some(way) = self.path_to(leaf.number()) {
            self.interior.learn(root, way.len() - 1);
        }
        let begun = self.begin_joined(
            source,
            stream,
            (&joined, (goes, tables), leaf.number()),
            (index, table),
            schema,
            &statements,
        );
        if begun.is_none() {
            self.stream(stream).joins.refused(joined.outer, root);
        }
        begun.flatten()
    }

    /// Begins the scan of a join. `None` if it cannot begin; `Some(None)` if it waits for its allowance, after
    /// which attempts do not become rarer.
    fn begin_joined<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        (joined, (goes, tables), leaf_of_inner): (&Joined, (Loop, usize), PageNo),
        (index, table): (Index, &Table),
        schema: &Schema,
        statements: &[String],
    ) -> Option<Option<ScanId>> {
        let header = *self.header();
        let &leaf = joined.leaves.last()?;
        let page = Page::parse(leaf, &joined.bytes, header.usable()).ok()?;
        let (outer_index, outer_table) = schema.tree(joined.outer)?;
        let names = numbered(&outer_index, outer_table);
        let compared = compared_with(statements, &first_names(&index, table));
        let is_named =
            |&column: &usize| names.iter().any(|(name, at)| *at == column && compared.contains(name));
        let column = joined.columns.iter().copied().find(is_named);
        let column = column.or_else(|| joined.columns.first().copied().filter(|_| joined.is_plain()));
        let Some(column) = column else {
            // The text names none of them: more look-ups are needed.
            return if joined.is_plain() { None } else { Some(None) };
        };
        let mut filter = Filter::by(statements, &outer_table.name, &names);
        let asking = joined.asking(&page, column, header.encoding);
        let asks = |cell: &&usize| filter.passes(&page, **cell, header.encoding);
        let (first, last) = match (asking.iter().find(asks), asking.iter().rfind(asks)) {
            (Some(&first), Some(&last)) => (first, last),
            // A row was looked up that fails the filter: a condition was misread.
            _ => {
                filter = Filter::default();
                (*asking.first()?, *asking.last()?)
            }
        };
        let root = index.root;
        let is_table = root == table.root;
        let inner = if is_table && table.kind.is_rowid() {
            Inner::Rows(Arc::new(table.clone()))
        } else if is_table || !self.stream(stream).joins.has(table.root) {
            Inner::Leaves(Arc::new(index))
        } else {
            Inner::Entries(Arc::new(index), Arc::new(table.clone()))
        };
        // Of a key with several rows, the later ones are still to be read.
        let done = usize::from(!matches!(inner, Inner::Entries(..)));
        let by_index =
            |scan: &&FollowedScan| scan.stream == stream && scan.table_root() == Some(joined.outer);
        let by_index = self.scans.iter().find(by_index).map(|scan| (scan.id, scan.end().0));
        // If the end of the outer rows is not visible, that of their look-ups is not either.
        let order = first_column(&outer_index, outer_table);
        let ordered: Vec<&str> =
            names.iter().filter(|(_, at)| *at == order).map(|(name, _)| name.as_str()).collect();
        let goes = match by_index {
            Some((_, End::Unknown)) => Loop::Unknown,
            None if filter.hides_end(statements, &ordered, order) => Loop::Unknown,
            // Of several tables, one that is read in its own order may itself be looked up, and not to its end.
            None if tables > 2 => Loop::Unknown,
            _ => goes,
        };
        let end = goes.end();
        if !self.may_begin(stream, end) {
            return Some(None);
        }
        let outer = match by_index.map(|(scan, _)| scan) {
            Some(_) if !matches!(inner, Inner::Entries(..)) && self.is_better_cached(leaf_of_inner) => {
                return None;
            }
            Some(scan) => {
                let asks = |cell: &usize| filter.passes(&page, *cell, header.encoding);
                let asking = asking.into_iter().filter(asks).filter_map(|cell| page.rowid(cell).ok());
                let asking: Vec<i64> = asking.collect();
                self.rows_of_scan(source, stream, scan, &asking, done)?
            }
            // An index of the outer table was read: it may name the rows.
            None if !joined.is_settled() && self.has_index_of(stream, outer_table.root, schema) => {
                return Some(None);
            }
            None => {
                let direction = self.leaf_after_leaf(&joined.leaves)?;
                let way = self.path_to(leaf)?;
                let walk = Walk::along(&mut self.interior, source, &way, direction, self.pages).ok()?;
                let passed = match direction {
                    Direction::Forward => first + done,
                    Direction::Backward => page.cells() - 1 - last + done,
                };
                OuterRows::in_order(walk, passed, order)
            }
        };
        let expected =
            (goes != Loop::All).then(|| self.stream(stream).joins.reads_a_look_up(root, table.root));
        let extent = Extent { stops: goes == Loop::Stops, expected };
        let reads = JoinReads::new((outer, joined.outer), column, filter, (inner, extent), self.pages);
        let begun = self.enter(source, stream, root, ScanReads::Joined(Box::new(reads)), (end, None))?;
        // The scans that were recognised in each look-up alone are part of it.
        for at in (0..self.scans.len()).rev() {
            let scan = &self.scans[at];
            if scan.stream == stream && scan.index == root && scan.id != begun {
                self.end(at);
            }
        }
        Some(Some(begun))
    }

    /// Whether a leaf of an index of this table was among the last ones that a stream has read.
    fn has_index_of(&self, stream: u64, table: PageNo, schema: &Schema) -> bool {
        let Some(known) = self.streams.get(&stream) else { return false };
        let of_table = |index: &&Index| schema.table_of(index).root == table;
        schema.indexes.iter().filter(of_table).any(|index| index.root != table && known.joins.has(index.root))
    }

    /// Whether the tree of a leaf fits into memory and the file does not. Its pages are read again and again:
    /// batches of outer rows and their look-ups would evict them, while read-around fetches them once.
    fn is_better_cached(&self, leaf: PageNo) -> bool {
        let children = |page: &PageNo| {
            let bytes = self.interior.kept(*page)?;
            Some(Page::parse(*page, &bytes, self.header().usable()).ok()?.cells() as u64 + 1)
        };
        let Some(way) = self.path_to(leaf) else { return false };
        let size = self.header().page_size().get();
        let bytes = |pages: u64| Bytes(pages.saturating_mul(size));
        // The pages above count as full as those on the path.
        let leaves: Option<u64> = way[..way.len() - 1]
            .iter()
            .map(children)
            .try_fold(1u64, |product, children| Some(product.saturating_mul(children?)));
        bytes(u64::from(self.pages)) > self.memory
            && leaves.is_some_and(|leaves| bytes(leaves) <= self.memory)
    }

    /// The rows of a scan by an index, from the one of these that was read last, which is skipped if it is
    /// `done`. `None` if they are not on the newest leaf of that index.
    fn rows_of_scan<R: ReadPage>(
        &mut self,
        source: &mut R,
        stream: u64,
        id: ScanId,
        asking: &[i64],
        done: usize,
    ) -> Option<OuterRows> {
        let scan = self.scans.iter().find(|scan| scan.id == id)?;
        let sequence = scan.by_index()?.clone();
        let planned = scan.hinted_pages().collect();
        let (leaf, bytes) = self.streams.get(&stream)?.joins.newest(scan.index)?;
        let page = Page::parse(leaf, &bytes, self.header().usable()).ok()?;
        let names = |cell: &usize| {
            let rowid = page.columns(*cell).and_then(Iterator::last);
            matches!(rowid, Some(Value::Integer(rowid)) if asking.contains(&rowid))
        };
        let mut cells = (0..page.cells()).filter(names);
        let (cell, None) = (cells.next()?, cells.next()) else { return None };
        let direction = sequence.direction();
        let skip = done
            + match direction {
                Direction::Forward => cell,
                Direction::Backward => page.cells() - 1 - cell,
            };
        let way = self.path_to(leaf)?;
        let walk = Walk::along(&mut self.interior, source, &way, direction, self.pages).ok()?;
        let (sequence, table) = sequence.resumed(walk, skip)?;
        Some(OuterRows::by_index(id, sequence, table, planned))
    }

    /// The direction of leaves that were read one after the other. `None` if they are not neighbours.
    fn leaf_after_leaf(&self, leaves: &[PageNo]) -> Option<Direction> {
        // The parent of a leaf, its position there, and the last position.
        let place = |leaf: PageNo| {
            let parent = self.owners.get(&leaf)?.parent;
            let bytes = self.interior.kept(parent)?;
            let page = Page::parse(parent, &bytes, self.header().usable()).ok()?;
            Some((parent, page.position(leaf)?, page.cells()))
        };
        let mut direction = None;
        for pair in leaves.windows(2) {
            let ((before, left, last_left), (after, right, last_right)) = (place(pair[0])?, place(pair[1])?);
            let step = match before == after {
                true if left + 1 == right => Direction::Forward,
                true if right + 1 == left => Direction::Backward,
                // From the last leaf of a parent to the first of another, or back.
                false if left == last_left && right == 0 => Direction::Forward,
                false if left == 0 && right == last_right => Direction::Backward,
                _ => return None,
            };
            if direction.is_some_and(|direction| direction != step) {
                return None;
            }
            direction = Some(step);
        }
        Some(direction.unwrap_or(Direction::Forward))
    }
}

/// The names of the columns of a tree's rows, each with its number: 0 is the rowid.
fn numbered(index: &Index, table: &Table) -> Vec<(String, usize)> {
    let numbered = |names: &mut dyn Iterator<Item = Option<String>>| {
        let numbered = names.enumerate().filter_map(|(at, name)| Some((name?, at + 1)));
        numbered.collect::<Vec<_>>()
    };
    if index.root != table.root {
        return numbered(&mut index.columns.iter().cloned());
    }
    let mut columns = numbered(&mut table.columns.iter().cloned().map(Some));
    if table.kind.is_rowid() {
        columns.retain(|(name, _)| !table.key.contains(name));
        columns.extend(table.key.iter().map(|name| (name.clone(), 0)));
    }
    columns
}

/// The number of the column by which rows of a tree are ordered.
fn first_column(index: &Index, table: &Table) -> usize {
    usize::from(index.root != table.root || !table.kind.is_rowid())
}

/// The names of the column by which rows of a tree are looked up.
fn first_names(index: &Index, table: &Table) -> Vec<String> {
    if index.root != table.root {
        return index.columns.first().cloned().flatten().into_iter().collect();
    }
    let names = if table.kind.is_rowid() { table.key.len() } else { 1 };
    table.key.iter().take(names).cloned().collect()
}
