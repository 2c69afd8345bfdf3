//! A loadable extension that prefetches the scans of an unmodified SQLite.
//!
//! `SELECT * FROM customer ORDER BY zip` by an index on `zip` reads the table's pages in the order of zip
//! codes, which on a disk is one seek a row. The index holds this order. This crate decodes the b-tree pages
//! that SQLite reads, and finds the table pages that the scan will read. It passes them to
//! [`foreseek_libprefetch`], which fetches as many of them as memory holds in disk order (ATC'09 section 5.4;
//! the file format is SQLite's own document, "Database File Format").
//!
//! - [`header`], [`page`], [`record`], [`sql`], [`schema`]: the file format, decoded defensively;
//! - [`source`]: the source of pages;
//! - [`tree`], [`walk`]: the leaf that holds a row; the leaves of an index in key order;
//! - [`sequence`]: the reads of a scan, in order;
//! - [`recognise`], `neighbours`, `keyed`, [`scan`], [`planner`]: which reads are a scan, and its next reads;
//! - `join`: the inner side of a join, whose keys are in the rows of the outer side;
//! - [`ends`], [`points`]: how far the running statement reads, and the values of its look-ups by an index, as
//!   far as its text shows them.
//!
//! All of these are pure: they take no lock, read no file and hold no unsafe code. A damaged page is an
//! [`Error`] and ends the prediction; SQLite itself finds and reports the damage. The rest is the loadable
//! extension around them: `watch` (one file, its planner and its client), `bypass` (streams whose pages are all
//! cached), `statements` (the gain of each), `hook` (the system calls of SQLite's VFS), `functions` (entry
//! points, `foreseek_status()`).
//!
//! # Use
//!
//! `.load ./libforeseek_sqlite` in the stock shell, `enable_load_extension(True)` and `load_extension(...)` in
//! Python. It then works for every connection of the process, until the process ends. For programs that load no
//! extension there is the crate `sqlite-preload`.
//!
//! # Cost
//!
//! Nothing before 24 reads of a transaction have missed if the statement's text shows its end, and 32
//! otherwise. Then each step is as large as [`foreseek_hints::allowance`] permits:
//!
//! - Visible end: nothing beyond it is fetched, and nothing is begun for fewer than 16 reads. After some
//!   steps that paid everything that is left is fetched, as far as memory holds it. A program that abandons such a
//!   statement loses at most one sweep of the file, and may take twice as long. It pays for that once:
//!   steps by that index are as if no end were visible, until a scan of it reads most of its predicted pages and
//!   more than 64 of them.
//! - Otherwise: fetches are expected to cost at most 1.05 times the reads without prefetching, wherever the
//!   statement ends. That is a bound on elapsed time. More pages may be wasted if earlier steps have saved the
//!   time for them.
//!
//! - A missing read that no scan predicts may be read with its neighbours, by the rules of
//!   [`foreseek_hints::read_around`]. The first 24 misses are read alone. Then the cost is at most 1.05 times
//!   that of the misses, or 1.25 times during a scan whose end is visible. That sum does not include the pages
//!   that the neighbours evict; a share of the memory bounds these.
//!
//! Own reads count. Overflow pages count with their row: if steps over such rows gain nothing, none are made.
//! Use is counted by pages of the database, of any size.
//!
//! # Limits
//!
//! - In WAL mode and with exclusive locks SQLite does not show where a transaction begins. Then it begins where
//!   none of the statements runs on that ran at the last miss; between BEGIN and COMMIT, and from one such pair to
//!   the next, it goes on. The misses before it count for read-around.
//! - The end of a scan is not visible in triggers, views, joins, subqueries, computed bounds, and LIKE: steps
//!   then begin after some 80 rows. After a wrong bound, a scan is recognised again at the next leaf of its
//!   index.
//! - Reads through a memory map (`PRAGMA mmap_size`) or a VFS other than SQLite's own for unix are not visible;
//!   `foreseek_status()` reports that. Encrypted files cannot be decoded: the status does not list them among
//!   its files.
//! - In WAL mode pages in the log are not prefetched. If the log holds newer index pages, the predictions are
//!   those of the last checkpoint.
//! - Overflow pages of rows are not prefetched; their leaves are if that pays.
//! - The keys of a WITHOUT ROWID table are not followed if they extend to overflow pages.

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
