//! The theory of competitive prefetching, in a form that can be run.
//!
//! The model (TR-840 section 3, EuroSys'07 section 4.1): a stream of unknown length is read from its
//! start in fetches. Each fetch costs a switch and its transfer; what it brings beyond the stream's
//! end is wasted. Knowing the length costs one switch and the transfer of just that. A rule is
//! *a-competitive* where it never costs more than `a` times as much, wherever the stream ends.
//!
//! - [`Model`] is the disk's time, [`Depths`](foreseek_readahead::depth::Depths) a sequence of fetches, [`Model::ratio`] the cost of a
//!   stream against its optimum, [`Model::worst`] the stream for which that is largest.
//! - Fetches of `C x R` are 2-competitive; fetches of any other constant size `d` cost up to
//!   `1 + max(d / CR, CR / d)`; with a slow start of P fetches the papers bound the cost by `2 + P`.
//! - [`adversary`] ends the stream where it hurts: no rule that does not know the length, and no
//!   [`Prefetcher`](foreseek_readahead::stream::Prefetcher) either, is better than 2-competitive (EuroSys'07
//!   section 4.2). Oracles and access lists are told what comes and are no such rules.
//! - [`trial`] reckons what a policy's streams cost where rates differ by zones and costs change while a stream is
//!   read, and [`search`] looks for the worst case by itself.
//! - [`seek_law`] is the distribution of the distance to the nearest of n random requests (EuroSys'07
//!   equation 5), with a test of fit.
//!
//! Limits: the bounds are about fetches that are made one by one, when the data of the one before
//! are used up, each with a switch of its own. A kernel that has a window ahead has fetched up to one
//! more depth when the stream ends; where that window costs a switch of its own too, twice becomes up
//! to four times, for streams of two pages. [`adversary::against_policy`] says how much for each.

#![forbid(unsafe_code)]

pub mod adversary;
mod model;
pub mod search;
pub mod seek_law;
pub mod trial;
mod zoned;

pub use model::{Model, Worst};
pub use zoned::Zoned;
