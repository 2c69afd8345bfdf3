//! A loadable extension that prefetches an unmodified SQLite's scans by secondary index.
//!
//! `SELECT * FROM customer ORDER BY zip` by an index on `zip` reads the table's pages in the order of
//! zip codes, which on a disk is one seek a row. The order is no secret: the index holds it. This
//! crate decodes the b-tree pages that pass by, finds in them which table pages the scan will read,
//! and tells [`foreseek_libprefetch`], which fetches as many of them as memory holds in the order of
//! the disk (ATC'09 section 5.4; the file format is SQLite's own document, "Database File Format").
//!
//! - [`header`], [`page`], [`record`], [`sql`], [`schema`]: the file format, decoded defensively;
//! - [`source`]: where pages come from;
//! - [`tree`], [`walk`]: which leaf holds a row; the leaves of an index in key order;
//! - [`sequence`]: the reads of a scan, in order;
//! - [`recognise`], [`planner`]: which reads are a scan, and what it will read next.
//!
//! All of these are pure: they take no lock, read no file and hold no unsafe code. A damaged page is
//! an [`Error`] and leads to no prediction; SQLite meets it by itself and says so in its own words.

pub mod error;
pub mod header;
pub mod page;
pub mod planner;
pub mod recognise;
pub mod record;
pub mod schema;
pub mod sequence;
pub mod source;
pub mod sql;
pub mod tree;
pub mod walk;

pub use error::Error;
