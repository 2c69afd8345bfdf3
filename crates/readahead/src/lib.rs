//! Unknown futures: reading ahead of programs that say nothing of what they will read.
//!
//! [`stream`] holds the prefetchers: a *window machine* decides when and where to read, a *depth rule*
//! ([`depth`]) how much at a time. [`learn`] is what past streams tell of coming ones. [`serving`] answers
//! reads out of frames: an [`Engine`](foreseek_seam::Engine) with a prefetch cache and a prefetcher of streams. [`driver`]
//! turns what happens to files, reads and fetches into events, and commands into calls. [`benefit`] says whether all that pays.
//!
//! All of it is pure: no I/O, clock, thread or random source. The same objects run behind a mount in
//! real time and in the simulator in virtual time.
#![forbid(unsafe_code)]

pub mod benefit;
pub mod depth;
pub mod driver;
pub mod learn;
pub mod serving;
pub mod stream;

pub use driver::ServingDriver;
pub use serving::ServingEngine;
