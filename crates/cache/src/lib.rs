//! Caches and their controllers: which pages stay in memory.
//!
//! - [`TwoLists`] are the active and the inactive list by which Linux reclaims pages.
//! - [`PrefetchCache`] holds pages that were prefetched and not referenced yet, separate from those lists
//!   (TR-840 section 4.1): recency predicts the next use only for pages that have been referenced.
//! - [`Ceiling`] controls the size of the prefetch cache by the misses that an [`EvictionHistory`]
//!   distinguishes.
//! - [`depth_cap`] divides that size among the streams (section 4.2) that a [`StreamCount`] counts.
//!
//! It has no clock, no I/O, no page or frame type: keys and values are the caller's, time is an argument. One
//! access costs O(1) in each of them.
#![forbid(unsafe_code)]

mod activity;
mod ceiling;
mod history;
mod index;
mod prefetch_cache;
mod queue;
mod streams;
mod two_lists;

pub use activity::{Activity, PROCESSES_LIMIT, Process};
pub use ceiling::{Ceiling, Direction, Misses, Settings as CeilingSettings};
pub use history::{EvictionHistory, Status};
pub use prefetch_cache::{Evicted, Mark, PrefetchCache, Reason};
pub use streams::{ActiveStreams, STREAMS_LIMIT, StreamCount, depth_cap};
pub use two_lists::{Balance, TwoLists};
