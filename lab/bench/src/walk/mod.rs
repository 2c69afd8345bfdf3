//! Unmodified programs that read trees of files, over stock Linux and in the ways in which Foreseek makes them
//! faster.
//!
//! An emulated disk holds [trees](tree::Tree) of several kinds. Each pair has a new disk with new trees of a seed of its
//! own, since trees of one kind differ by chance; or they are made once. [Programs](program::Program) run over them in
//! several [ways](way::Way), each from cold: unmounted, mounted, nothing in memory. Right after it the same
//! program runs again, over what is in memory by then. All ways of a cell follow each other, and each pair
//! begins with another one; a pair goes through all cells before the next begins. For each cell two lower
//! bounds are measured over the same trees: one ascending pass by direct I/O over all that is needed, and the program's own second
//! run. Some cells have load beside the program, whose time is measured, too.

mod asked;
mod beside;
mod filler;
mod judge;
mod options;
mod pass;
pub mod program;
mod record;
mod report;
mod run;
pub mod tree;
pub mod way;

pub use options::{FileSystem, Options, PAIRS, PROFILE};
pub use report::{Report, write};
pub use run::run;
