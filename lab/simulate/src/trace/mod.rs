//! Traces: what a real system asked of its storage, read from the files of other tools and replayed.
//!
//! A [`Reader`] streams [`Record`]s out of any text or binary that one of the [`Format`]s describes;
//! it finds out which by itself or is told. A malformed line is an error that names file, line and
//! reason; nothing is skipped but what the format says bears no request. [`Summary`] tells what a
//! trace holds. [`replay`] issues its requests again, to a device through the block layer or as
//! file accesses through a whole machine, at the recorded times or one after the other.
//!
//! Nothing here opens a file: whoever calls hands over a `BufRead` (decompressed).

mod detect;
mod error;
mod field;
pub mod format;
mod reader;
mod record;
pub mod replay;
mod summary;

pub use detect::HEAD;
pub use error::TraceError;
pub use format::Format;
pub use reader::{LINE_LIMIT, Reader};
pub use record::{PLACES_LIMIT, Record, TraceTarget, When};
pub use summary::{Summary, TargetSummary};
