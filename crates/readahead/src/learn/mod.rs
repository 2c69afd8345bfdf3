//! Learns the lengths of streams: by classes, followed, aged, saved and reported.
//!
//! A [`Follower`] follows one opening of a file. It updates the [`Classes`] of each stream: the stream has
//! come this far, has ended here, or was lost. Each class keeps [`Lengths`], a life table with ageing. A
//! stream's [survival function](Classes::survival) comes from the finest class with enough streams, smoothed
//! by the coarser ones that hold it. [`crate::depth::Plan`] turns it into depths within a bound that no
//! learnt number can break. The policy `adaptive` of [`crate::stream`] combines them.
//! `docs/internals/adaptive-depth.md` describes all of it.
//!
//! [`CLASSES_LIMIT`] bounds the memory. A touch costs a comparison, the start of a stream one look-up for
//! each level. Only the first stream of a class allocates.

mod class;
mod classes;
mod explain;
mod follow;
mod lengths;
mod saved;

pub use class::{Common, Feature, LEVELS_LIMIT, SCHEME, Scheme};
pub use classes::{CLASSES_LIMIT, Chain, Classes};
pub use explain::Explained;
pub use follow::{FinishedStream, Follower, Step};
pub use lengths::{Lengths, Retention};
pub use saved::{FORMAT, LoadError, Loaded, TEXT_LIMIT, check};

/// The interface of a policy that learns.
pub trait Learning {
    /// Everything learnt, as text for a file.
    fn save(&self) -> String;

    /// Loads saved text, in place of what is known of the same classes.
    ///
    /// # Errors
    /// The text is not in the format of [`Learning::save`]; the message names the line and the reason. The
    /// lines before it are kept: a damaged file loses only its damaged part.
    fn load(&mut self, text: &str) -> Result<Loaded, LoadError>;

    /// What it has learnt and would do, for each class. The classes of which most was read come first, at
    /// most `limit`.
    fn explain(&self, limit: usize) -> Vec<Explained>;

    /// How many classes have seen a stream.
    fn classes(&self) -> usize;
}
