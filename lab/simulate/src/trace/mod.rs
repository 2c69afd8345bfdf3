//! Traces: requests of a real system to its storage, read from the files of other tools and replayed.
//!
//! A [`Reader`] streams [`Record`]s from text or binary in one of the [`Format`]s, which is detected or given.
//! A malformed line is an error with file, line and reason; nothing is skipped except what the format defines
//! as no request. [`Summary`] describes a trace. [`replay`] issues its requests again, to a device through the
//! block layer or as file accesses through a whole machine, at the recorded times or one after the other.
//!
//! Nothing here opens a file: the caller passes a `BufRead` (decompressed).

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
pub use record::{Record, TARGETS_LIMIT, TraceTarget, When};
pub use summary::{Summary, TargetSummary};
