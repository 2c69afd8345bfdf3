//! Unmodified programs that read trees of files, over stock Linux and in the ways in which Foreseek makes them faster.
//!
//! An emulated disk holds [trees](tree::Tree) of several kinds. [Programs](program::Program) run over them in several [ways](way::Way), each run from
//! cold: unmounted, mounted, nothing in memory. Right after it the same program runs again, over what is in memory by then. All ways of a cell
//! follow each other, beginning with another one in each pair; a pair goes through all cells before the next begins. Beside each cell stands
//! what no prefetching can beat: one ascending pass by direct I/O over all that is needed, and the program's own second run. In some cells
//! something happens beside the program: how long that takes is measured, too.

mod beside;
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
