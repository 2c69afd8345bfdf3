//! What can be wrong with a database, as far as its pages are decoded here.

use crate::page_no::PageNo;

/// Why a page or a whole database can't be followed. It is never an error of the host: whoever meets
/// it makes no prediction, and SQLite finds and reports the damage in its own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is not a plain SQLite 3 database, or of a version this crate does not know.
    #[error("not a database that can be followed: {what}; its reads are passed on untouched")]
    NotADatabase {
        /// What in the header says so.
        what: &'static str,
    },
    /// A page does not hold what its place in a tree demands.
    #[error("database page {page} cannot be decoded at byte {at}: {what}")]
    Damaged {
        /// The page.
        page: PageNo,
        /// Byte offset within it.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A page could not be read: past the end of the file, or an I/O error.
    #[error("database page {page} cannot be read")]
    Unreadable {
        /// The page.
        page: PageNo,
    },
    /// A bound of this crate was met (depth of a tree, length of a chain, size of a schema).
    #[error("{what}: more than {limit}, which no sound database needs")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// The schema has no table or index of this name, or one that can't be scanned by an index.
    #[error("{what} '{name}'")]
    Schema {
        /// What is missing or unusable.
        what: &'static str,
        /// The name looked for.
        name: String,
    },
}

/// Shorthand within the crate.
pub type Result<T> = std::result::Result<T, Error>;
