//! Learning how long streams are: lengths by classes, followed, aged, saved and explained.
//!
//! A [`Follower`] follows one opening of a file and tells the [`Classes`] to which each of its streams
//! belongs what it sees: that a stream has come so far, that it ended there, that it was lost sight of.
//! Each class keeps [`Lengths`], a life table that forgets. Asked for a stream's [survival
//! function](Classes::survival), the classes answer by the finest one that knows enough, smoothed by
//! the coarser ones that hold it. What is then done with it is not decided here:
//! [`crate::depth::Plan`] makes depths of it within a bound that no learnt number can break, and
//! the policy `adaptive` of [`crate::stream`] brings them together. `docs/internals/adaptive-depth.md` describes all of it.
//!
//! Memory is bounded by [`CLASSES_LIMIT`]; a touch costs a comparison, the start of a stream one look-up
//! a level, nothing allocates but the first stream of a class.

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

/// What a policy that learns can be asked for beside its answers.
pub trait Learning {
    /// All that it knows, as text: for a file that outlives it.
    fn save(&self) -> String;

    /// Takes up what was saved, in place of what it knows of the same classes.
    ///
    /// # Errors
    /// The text is not what [`Learning::save`] writes; the message names the line and the reason. What
    /// was read before that line is kept: a damaged file costs what it lost and no more.
    fn load(&mut self, text: &str) -> Result<Loaded, LoadError>;

    /// What it knows and would do, a class each, those of which most was read first, at most
    /// `limit`.
    fn explain(&self, limit: usize) -> Vec<Explained>;

    /// How many classes it tells apart that have seen a stream.
    fn classes(&self) -> usize;
}
