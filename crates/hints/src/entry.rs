//! The entries of an access list, their positions in it, and how far from its own position it looks for one.

use crate::objects::PageKey;

/// A position in the list. Entries are numbered from the creation of the list, through all replacements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListIndex(pub(crate) u64);

impl ListIndex {
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub(crate) fn plus(self, entries: usize) -> Self {
        Self(self.0 + entries as u64)
    }

    pub(crate) fn minus(self, entries: usize) -> Self {
        Self(self.0.saturating_sub(entries as u64))
    }

    /// Entries from `earlier` to here; zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> usize {
        self.0.saturating_sub(earlier.0) as usize
    }
}

const MARK: u64 = 1 << 63;

/// A page and whether it is a landmark, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    pub(crate) fn new(page: PageKey, mark: bool) -> Self {
        Self(page.raw() | if mark { MARK } else { 0 })
    }

    pub(crate) fn page(self) -> PageKey {
        PageKey::from_raw(self.0 & !MARK)
    }

    pub(crate) fn mark(self) -> bool {
        self.0 & MARK != 0
    }
}

/// How far from its position a list looks for a match, in entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    pub(crate) near: usize,
    pub(crate) confirm: usize,
    pub(crate) behind: usize,
    pub(crate) ahead: usize,
}

impl Reach {
    /// - `near`: an application's cache rarely answers more reads than that in a row. Where every second read
    ///   is not on the list, chance matches this near do not move the position past the application's.
    /// - `confirm`: where the cache does answer more, the next match may again be some entries ahead.
    /// - `behind`: a mistaken jump costs nothing while it is at most this far, since the reads that follow at
    ///   the old position still count as on the list.
    /// - `ahead`: eight times SQLite's default cache of 2,000 pages; the index takes about 1 MB.
    pub(crate) const USUAL: Self = Self { near: 32, confirm: 256, behind: 1024, ahead: 16_384 };
}
