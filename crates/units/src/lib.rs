//! Typed quantities, so that a page is never mistaken for a sector nor a time for a rate.
//!
//! *Amounts* ([`Bytes`], [`Pages`], [`Sectors`], [`Nanos`]) add and scale; *positions*
//! ([`ByteOffset`], [`PageIndex`], [`Lba`], [`Instant`]) differ by an amount of their kind; a
//! [`Span`] is a half-open range of positions. Conversions between kinds are named methods and say
//! how they round. [`Stripes`] is where an array keeps its sectors. Nothing here reads a clock: an [`Instant`] is whatever the driver says it is.
//!
//! Arithmetic saturates where a difference would be negative and panics, as integers do in debug
//! builds, where a sum overflows: no quantity of real storage comes near 2^64.
#![forbid(unsafe_code)]

mod amount;
mod costs;
mod position;
mod rate;
mod size;
mod span;
mod stripes;
mod time;

pub use amount::{Bytes, PAGE_SIZE, Pages, SECTOR_SIZE, SECTORS_PER_PAGE, Sectors};
pub use costs::DeviceCosts;
pub use position::{ByteOffset, Lba, PageIndex, Position};
pub use rate::Rate;
pub use size::ParseSizeError;
pub use span::{ByteSpan, PageSpan, SectorSpan, Span};
pub use stripes::{Level, Located, Stripes};
pub use time::{Instant, Nanos};
