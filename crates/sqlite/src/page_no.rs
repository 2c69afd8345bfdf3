//! The number of a database page.

use std::fmt;

/// Number of a page of a database; the first is 1. No page has the number zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u32);

impl PageNo {
    /// The page with the header and the root of the schema table.
    pub const FIRST: Self = Self(1);

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for PageNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
