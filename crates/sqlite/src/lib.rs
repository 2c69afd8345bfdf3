//! A loadable extension that prefetches the scans of an unmodified SQLite.
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
//! - [`recognise`], `neighbours`, `keyed`, [`scan`], [`planner`]: which reads are a scan, and what it will read next;
//! - `join`: the inner side of a join, whose keys stand in the rows of the outer side;
//! - [`ends`], [`points`]: how far the running statement reads, and at which values it looks its index up, as far as
//!   its text shows it.
//!
//! All of these are pure: they take no lock, read no file and hold no unsafe code. A damaged page is
//! an [`Error`] and leads to no prediction; SQLite meets it by itself and says so in its own words.
//! The rest is the loadable extension around them: `watch` (one file, its planner and its client),
//! `bypass` (streams whose pages are all cached), `statements` (what each gained), `hook` (the system calls of SQLite's VFS), `functions` (entry points, `foreseek_status()`).
//!
//! # Use
//!
//! `.load ./libforeseek_sqlite` in the stock shell, `enable_load_extension(True)` and
//! `load_extension(...)` in Python; from then on for every connection of the process, until it ends. For programs that
//! load no extension there is the crate `sqlite-preload`.
//!
//! # What it may cost
//!
//! Nothing before 24 reads of a transaction have missed where the statement's text shows its end, and 32 where it
//! does not. From then on each step is as large as [`foreseek_hints::allowance`] permits:
//!
//! - The end is visible: nothing beyond it is fetched, and nothing is begun for fewer than 16 reads. One small step
//!   leads to all that is left, as far as memory holds it. A program that abandons such a
//!   statement loses one sweep of the file at most, and may take 8 times as long. It pays for that once: steps by that
//!   index are as where no end is visible until one of its scans was read.
//! - It is not: what is fetched is expected to cost at most 1.05 times what stock would have cost, wherever
//!   the statement ends. That is a bound on time that passes; wasted pages may be more, where steps before
//!   have saved the time for them.
//!
//! - A read that misses and that no scan predicts may bring neighbours, by the rules of
//!   [`foreseek_hints::read_around`]: 24 misses alone first, then 1.05 times what misses cost, or 1.25 times while a scan goes on whose end is visible.
//!   What neighbours drive out of memory is not in that sum; a share of the memory bounds it.
//!
//! Own reads count. Overflow pages count with the row that they belong to: where steps over
//! such rows gain nothing, none are made. Use is counted by pages of the database, whatever their size.
//!
//! # Limits
//!
//! - In WAL mode and with exclusive locks SQLite does not show where a transaction begins: what is counted of a
//!   statement is counted of the connection.
//! - The end of a scan is not visible in triggers, views, joins, subqueries, bounds that
//!   are computed, and LIKE: steps begin after some 80 rows then. After a bound that was none, a scan is
//!   recognised again at the next leaf of its index.
//! - Reads through a memory map (`PRAGMA mmap_size`) or a VFS that is none of SQLite's own for unix are
//!   not seen; `foreseek_status()` says so. Encrypted files are not understood: the status does not
//!   list them among its files.
//! - In WAL mode pages that lie in the log are not prefetched, and where the log holds newer index
//!   pages the predictions are those of the last checkpoint.
//! - Overflow pages of rows are read as ever; their leaves are prefetched where that pays.
//! - The keys of a WITHOUT ROWID table are not followed where they reach overflow pages.

mod api;
mod bypass;
mod counters;
pub mod ends;
pub mod error;
mod functions;
pub mod header;
mod hook;
mod join;
mod json;
mod keyed;
mod neighbours;
pub mod page;
mod page_no;
pub mod planner;
pub mod points;
pub mod recognise;
pub mod record;
mod report;
pub mod scan;
pub mod schema;
pub mod sequence;
mod settings;
pub mod source;
pub mod sql;
mod statements;
mod tokens;
pub mod tree;
pub mod walk;
mod watch;

pub use api::Routines;
pub use error::Error;
pub use functions::{attach, sqlite3_extension_init, sqlite3_foreseeksqlite_init, warn_unfollowed};
pub use report::report_at_exit;
