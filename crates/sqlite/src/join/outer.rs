//! The rows of a join's outer side that come next: those of a tree, leaf by leaf.

use crate::error::Result;
use crate::page::Page;
use crate::source::ReadPage;
use crate::tree::{Interior, Owned};
use crate::walk::{Direction, Walk};
use std::collections::VecDeque;

/// What is taken of a row: nothing where it is not looked up.
pub(crate) type Take<'a> = dyn Fn(&Page<'_>, usize) -> Option<Owned> + 'a;

/// The rows to come.
#[derive(Debug)]
pub(crate) struct OuterRows {
    walk: Walk,
    /// The rows of the present leaf that were passed, in the order of the walk; nothing where all were.
    passed: Option<usize>,
}

impl OuterRows {
    /// The rows from the leaf on at which `walk` stands, without those that were `passed` on it.
    pub(crate) fn new(walk: Walk, passed: usize) -> Self {
        Self { walk, passed: Some(passed) }
    }

    /// Reads the rest of a leaf, or the next one. `leaves`: how many the caller is going to ask for. Answers whether
    /// there was one.
    pub(crate) fn next_leaf<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        leaves: usize,
        take: &Take<'_>,
        into: &mut VecDeque<Owned>,
    ) -> Result<bool> {
        let usable = interior.header().usable();
        let passed = match self.passed.take() {
            Some(passed) => passed,
            None => {
                let Some(stop) = self.walk.next(interior, source)? else { return Ok(false) };
                if let Some((number, cell)) = stop.between {
                    let bytes = interior.get(source, number)?;
                    let page = Page::parse(number, &bytes, usable)?;
                    // In a table with rowids no row lies between two leaves.
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
        Ok(true)
    }
}
