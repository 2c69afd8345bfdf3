//! Unknown futures: reading ahead for programs that do not announce what they will read.
//!
//! - [`stream`] holds the prefetchers: a *window machine* decides when and where to read, a *depth rule*
//!   ([`depth`]) how much at a time.
//! - [`learn`] predicts streams from past ones.
//! - [`serving`] answers reads out of frames: an [`Engine`](foreseek_seam::Engine) with a prefetch cache and
//!   a prefetcher of streams.
//! - [`driver`] turns operations on files, reads and completed fetches into events, and commands into calls.
//! - [`benefit`] decides whether prefetching pays.
//!
//! All of it is pure: no I/O, clock, thread or random source. The same objects run behind a mount in real
//! time and in the simulator in virtual time.
#![forbid(unsafe_code)]

pub mod benefit;
pub mod depth;
pub mod driver;
pub mod learn;
pub mod serving;
pub mod stream;

pub use driver::ServingDriver;
pub use serving::ServingEngine;
