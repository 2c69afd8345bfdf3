//! Reads answered out of prefetched pages: the engine behind a mount, one for each device.
//!
//! In front of it stands a cache that keeps what it was given, the kernel's page cache before a FUSE
//! server; the engine is told only of what misses there. The two divide the labour as
//! the prefetch cache and the LRU lists of TR-840 section 4.1 do: pages that were prefetched and not
//! yet read lie in frames of ours, and a page that is read is handed over and leaves them.
//!
//! # How a read is answered
//!
//! Page by page the read is looked up in the prefetch cache and among the pages on their way, and the
//! [`Prefetcher`](crate::stream::Prefetcher) is asked, as a kernel would ask it. What is missing is fetched; what the prefetcher wants
//! beside that goes into the same fetches, so that the device is sent to a place once. The read is
//! answered when the last of its pages has come. A page whose last byte was read leaves the prefetch cache with
//! that; it is remembered as delivered.
//!
//! While one stream alone has something fetched, the device is given little of it at a time, and the rest is taken
//! back when its reader leaves. What is known of a program's call beyond the read is
//! [fetched with it](calls).
//!
//! # Memory
//!
//! Every page that is kept, on its way or in a reply has a frame. Demand goes before prefetching: a read
//! takes frames from the prefetch cache where none is free, and waits, in order, where there is none. What is
//! read ahead stays below the ceiling of the prefetch cache and leaves a [reserve](state::RESERVE) of frames, and
//! no stream reads farther ahead than its share ([`depth_cap`](foreseek_cache::depth_cap)); to make room, pages are dropped by the
//! second-chance rule of TR-840 section 4.1. Pages that are read again tell the ceiling where memory is
//! short: one that was delivered before is a miss of the LRU lists, one that was dropped unused a prefetch miss.
//!
//! # Failures and changes
//!
//! A fetch that fails brings what came before the error and is otherwise forgotten. A read that waited
//! for it has its own pages fetched once more, alone; only if that fails too is it failed. A change of the object
//! drops the pages that it concerns; those on their way still answer the reads that waited for them
//! before, and are then dropped.
//!
//! What must hold is [checked](foreseek_seam::Checks) always. A read of which a page should be on its way and is not, whose
//! frames are not all filled, or that would be answered with less than its object has, is passed: an error of ours or of
//! the driver's costs time and is counted ([`Stats::internal_errors`]), and nobody takes it for the end of a file.
//!
//! # What a driver does
//!
//! There is one ([`crate::driver`]). These are the rules that it keeps.
//!
//! - It may begin with [`Restored`]. It tells [`Opened`] (and [`Described`], [`Placed`]), [`Closed`], and each [`Read`], the
//!   [`Called`] of which it is a part before it, if that is [asked for](ServingEngine::asks_for_call) and known. Every read is answered by one
//!   of [`Serve`], [`Fail`] and [`Pass`], at once or at a later event. A passed read is the driver's to
//!   make; it is one that is longer than [`READ_LIMIT`], of a stream that is not open, or one of which something
//!   contradicts itself.
//! - It carries out [`Fetch`], into the named frames, and answers each with one [`Done`] or [`Refused`].
//!   Fetches of one call that lie together on the device are best handed on together and in order, so that
//!   a block layer makes one request of them; one that is to go `apart` goes before those that follow. `got` counts whole pages from the start, the one that
//!   the end of the object cuts among them; `Arrived` with less than was asked for means that the object
//!   ends there, so a driver goes on after a short read until it gets nothing.
//! - When the reply made of a `Serve` is out, it tells [`Unpinned`] with the same frames.
//! - It tells [`Changed`] and [`Resized`] when the object has its new bytes and before who changed
//!   them hears of it. Reads that are told after that never get older ones.
//! - It tells [`Budget`] when there is more or less memory; [`Drop`] names the frames whose memory may go.
//! - It tells [`Ran`] and [`Exited`] of readers, as often as it knows; and [`Tick`] at the deadline.
//!
//! [`Opened`]: foreseek_seam::Event::Opened
//! [`Restored`]: foreseek_seam::ServingEvent::Restored
//! [`Described`]: foreseek_seam::ServingEvent::Described
//! [`Placed`]: foreseek_seam::Event::Placed
//! [`Called`]: foreseek_seam::ServingEvent::Called
//! [`Closed`]: foreseek_seam::Event::Closed
//! [`Read`]: foreseek_seam::Event::Read
//! [`Serve`]: foreseek_seam::ServingCommand::Serve
//! [`Fail`]: foreseek_seam::ServingCommand::Fail
//! [`Pass`]: foreseek_seam::Command::Pass
//! [`Fetch`]: foreseek_seam::Command::Fetch
//! [`Done`]: foreseek_seam::Event::Done
//! [`Refused`]: foreseek_seam::Event::Refused
//! [`Unpinned`]: foreseek_seam::ServingEvent::Unpinned
//! [`Changed`]: foreseek_seam::Event::Changed
//! [`Resized`]: foreseek_seam::Event::Resized
//! [`Budget`]: foreseek_seam::Event::Budget
//! [`Drop`]: foreseek_seam::ServingCommand::Drop
//! [`Ran`]: foreseek_seam::ServingEvent::Ran
//! [`Exited`]: foreseek_seam::ServingEvent::Exited
//! [`Tick`]: foreseek_seam::Event::Tick

mod arrive;
mod callers;
mod calls;
mod engine;
mod fetch;
mod flight;
mod frames;
mod header;
mod look;
mod pace;
mod pages;
mod reads;
mod serve;
mod settings;
mod sight;
mod state;
mod stats;

pub use callers::{FileOpening, LongCallers, SHORT, is_of_columns, window_of_share};
pub use calls::{Calls, Part, is_whole_window};
pub use settings::{IN_FLIGHT_LIMIT, MEMORY_LEAST, MEMORY_LIMIT, READ_LIMIT, Settings};
pub use state::ServingEngine;
pub use stats::Stats;
