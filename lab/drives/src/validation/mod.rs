//! How near a model is to a drive: a trace with measured response times is replayed, and the distributions of
//! the response times are compared.
//!
//! Source: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994
//! (the demerit figure); Ganger, Schindler and others, DiskSim 4.0 (the traces).

mod demerit;
mod replay;
mod trace;

pub use demerit::Demerit;
pub use replay::{Replay, ReplayError, replay};
pub use trace::{Measured, TraceError, parse_request, parse_trace};
