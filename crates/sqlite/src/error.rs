//! Errors of a database, as far as its pages are decoded here.

use crate::page_no::PageNo;

/// Why a page or a whole database cannot be followed. It is never an error of the host: it only ends the
/// prediction, and SQLite itself finds and reports the damage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is not a plain SQLite 3 database, or of an unknown version.
    #[error("not a database that can be followed: {what}; its reads are passed on untouched")]
    NotADatabase {
        /// The part of the header that shows it.
        what: &'static str,
    },
    /// The content of a page does not fit its position in a tree.
    #[error("database page {page} cannot be decoded at byte {at}: {what}")]
    Damaged {
        /// The page.
        page: PageNo,
        /// Byte offset within it.
        at: usize,
        /// The damage.
        what: &'static str,
    },
    /// A page could not be read: past the end of the file, or an I/O error.
    #[error("database page {page} cannot be read")]
    Unreadable {
        /// The page.
        page: PageNo,
    },
    /// A bound of this crate was reached (depth of a tree, length of a chain, size of a schema).
    #[error("{what}: more than {limit}, which no sound database needs")]
    TooMuch {
        /// The things.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// The schema has no table or index of this name, or one that cannot be scanned by an index.
    #[error("{what} '{name}'")]
    Schema {
        /// The missing or unusable object.
        what: &'static str,
        /// Its name.
        name: String,
    },
}

/// Shorthand within the crate.
pub type Result<T> = std::result::Result<T, Error>;
