//! The theory of competitive prefetching, in a form that can be run.
//!
//! The model (TR-840 section 3, EuroSys'07 section 4.1): a stream of unknown length is read from its start in
//! fetches. Each fetch costs a switch (the positioning time, `C`) and its transfer at the rate `R`; what it
//! brings beyond the stream's end is wasted. A clairvoyant prefetcher pays one switch and the transfer of just
//! the stream. A rule is *a-competitive* if it never costs more than `a` times as much, wherever the stream
//! ends. The proofs are in `docs/internals/theory.md`.
//!
//! - [`Model`] is the disk's time, [`Depths`](foreseek_readahead::depth::Depths) a sequence of fetches, [`Model::ratio`] the cost of a
//!   stream against its optimum, [`Model::worst`] the stream for which that is largest.
//! - Fetches of `C x R` are 2-competitive; fetches of any other constant size `d` cost up to
//!   `1 + max(d / CR, CR / d)`; with a slow start of P fetches the papers bound the cost by `2 + P`.
//! - [`adversary`] ends the stream where the rule pays most: no rule that does not know the length, and no
//!   [`Prefetcher`](foreseek_readahead::stream::Prefetcher), is better than 2-competitive (EuroSys'07 section
//!   4.2). Oracles and access lists know what comes and are no such rules.
//! - [`trial`] computes the cost of a policy's streams where rates differ between zones and costs change while
//!   a stream is read. [`search`] looks for the worst case by itself.
//! - [`seek_law`] is the distribution of the distance to the nearest of n random requests (EuroSys'07
//!   equation 5), with a test of fit.
//!
//! Limits: the bounds hold for fetches that are made one by one, each when the data of the one before are used
//! up, and each with a switch of its own. A kernel that keeps a window ahead has fetched up to one more depth
//! when the stream ends. Where that window costs a switch of its own, the ratio of 2 becomes up to 4, for
//! streams of two pages. [`adversary::against_policy`] gives the ratio of each policy.

#![forbid(unsafe_code)]

pub mod adversary;
mod model;
pub mod search;
pub mod seek_law;
pub mod trial;
mod zoned;

pub use model::{Model, Worst};
pub use zoned::Zoned;
