//! Drives as extraction tools describe them: `.model`, `.seek` and `.diskspecs` files.
//!
//! A `.model` file holds what was measured of a drive's mechanics: zones with their skews, spares and
//! defects, head switch, write settle, spindle. It names a `.seek` file with the measured seek times.
//! What the controller does (overheads, read-ahead, write cache, bus) is not part of it but of a
//! `.diskspecs` file; where that is missing, [`Controller`] offers what was published of the drive, or
//! the medians of what was published of such drives.
//!
//! The format is that of the DiskSim 4.0 disk parameter files, which DIXtrac writes: blocks of
//! `key = value` ([`block`]). The meaning of the keys is taken from the DiskSim and diskmodel manuals.
//! Everything here is pure: the caller reads the files.
//!
//! Traces that were measured on a drive show how near such a description is to it ([`validation`]).
//!
//! Layouts are described by zones ([`zones`]) or track by track, as an index tree ([`tree`]) or a list of
//! extents ([`map`]).
//!
//! Limits: slips do not rotate the tracks behind them. Constant access times, which model no mechanics, are
//! refused.
#![forbid(unsafe_code)]

mod block;
mod controller;
mod drive;
mod error;
mod links;
mod map;
mod profile;
mod published;
mod seek_file;
mod skew;
mod tree;
mod typical;
pub mod validation;
mod zones;

pub use controller::Controller;
pub use drive::Drive;
pub use error::ExtractedError;
pub use links::LINKS_LIMIT;
pub use seek_file::SeekFile;
