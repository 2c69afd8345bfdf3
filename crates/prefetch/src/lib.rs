//! What to read next: policies as state machines, without I/O, clock, thread or random source.
//!
//! Everything that decides implements [`Engine`]: events and the time go in, bounded commands come
//! out. The same object runs in real time behind the real doors and in virtual time in the
//! simulator; a recorder holds the two to each other.
#![forbid(unsafe_code)]

pub mod engine;
pub mod page_cache;

pub use engine::{Command, Commands, Engine, Event};
pub use page_cache::PageCache;
