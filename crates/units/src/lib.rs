//! Typed quantities, so that a page is never mistaken for a sector nor a time for a rate.
//!
//! *Amounts* ([`Bytes`], [`Pages`], [`Sectors`], [`Nanos`]) add and scale. *Positions* ([`ByteOffset`],
//! [`PageIndex`], [`Lba`], [`Instant`]) differ by an amount of their kind. A [`Span`] is a half-open range of
//! positions. Conversions between kinds are named methods and state how they round. [`Stripes`] is the layout
//! of an array. Nothing here reads a clock: the driver provides each [`Instant`].
//!
//! Arithmetic saturates if a difference would be negative. It panics if a sum overflows, as integers do in
//! debug builds: no quantity of real storage approaches 2^64.
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
