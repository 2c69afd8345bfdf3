//! What storage costs: a device as an event machine in virtual or real time.
//!
//! A [`Device`] takes requests into its own queue, decides in which order to serve them and says
//! when each is finished. It reads no clock: the driver hands it the time. The simulator and the
//! emulator drive the same object, so a modelled disk and an emulated disk cannot differ.
#![forbid(unsafe_code)]

mod io;

pub use io::{Counters, Device, Finished, Full, Io, IoId, Op, Outcome};
