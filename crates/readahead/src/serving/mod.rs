//! Reads answered out of prefetched pages: the engine behind a mount, one for each device.
//!
//! In front of it stands a cache that keeps the pages it was given: the kernel's page cache before a FUSE
//! server. The engine sees only the misses of that cache. The two divide the work as the prefetch cache and
//! the LRU lists of TR-840 section 4.1 do. Pages that were prefetched and not yet read lie in our frames; a
//! page that is read is handed over and leaves them.
//!
//! # How a read is answered
//!
//! The engine looks up each page of the read in the prefetch cache and among the pages in flight, and calls
//! the [`Prefetcher`](crate::stream::Prefetcher) as a kernel would. Missing pages are fetched. What else the
//! prefetcher wants goes into the same fetches, so that the device seeks once. The read is answered when the
//! last of its pages has arrived. A page whose last byte was read leaves the prefetch cache and is remembered
//! as delivered.
//!
//! While one stream alone has fetches, the device gets little of them at a time, and the rest is cancelled
//! when the reader leaves. If the program's call is known to be longer than the read, the rest of the call is
//! [fetched with it](calls).
//!
//! # Memory
//!
//! Every page that is kept, in flight or in a reply has a frame.
//!
//! - Demand goes before prefetching: a read takes frames from the prefetch cache where none is free. Where
//!   that has none either, it waits, in order.
//! - Pages that are read ahead stay below the ceiling of the prefetch cache and leave a
//!   [reserve](state::RESERVE) of frames. No stream reads farther ahead than its share
//!   ([`depth_cap`](foreseek_cache::depth_cap)).
//! - To make room, pages are evicted by the second-chance rule of TR-840 section 4.1.
//! - Pages that are read again show the ceiling where memory is short. A page that was delivered before is a
//!   miss of the LRU lists. A page that was evicted unused is a prefetch miss.
//!
//! # Failures and changes
//!
//! A fetch that fails brings the pages before the error. A read that waited for it has its own pages fetched
//! once more, alone; the read fails only if that fails too. A change of the object drops the pages that it
//! concerns. Those in flight still answer the reads that waited for them before, and are then dropped.
//!
//! Invariants are always [checked](foreseek_seam::Checks). A read is passed in three cases:
//!
//! - one of its pages should be in flight and is not;
//! - its frames are not all filled;
//! - it would be answered with less than its object has.
//!
//! An error of the engine or of the driver thus costs time and is counted ([`Stats::internal_errors`]); no
//! program takes it for the end of a file.
//!
//! # What a driver does
//!
//! There is one driver ([`crate::driver`]). It keeps these rules.
//!
//! - It may begin with [`Restored`]. It sends [`Opened`] (and [`Described`], [`Placed`]), [`Closed`], and
//!   each [`Read`]. Before a read it sends the [`Called`] of which the read is a part, if that is
//!   [requested](ServingEngine::asks_for_call) and known.
//! - Every read is answered by one of [`Serve`], [`Fail`] and [`Pass`], at once or at a later event. The
//!   driver itself makes a passed read. Passed are reads that are longer than [`READ_LIMIT`], of a stream
//!   that is not open, or that fail a check.
//! - It carries out [`Fetch`], into the named frames, and answers each with one [`Done`] or [`Refused`].
//!   Fetches of one call that are adjacent on the device are best passed on together and in order, so that a
//!   block layer makes one request of them. One that is to go `apart` goes before those that follow.
//! - `got` counts whole pages from the start, including the page that the end of the object cuts. `Arrived`
//!   with less than was requested means that the object ends there. A driver therefore continues after a
//!   short read until it gets nothing.
//! - When the reply made of a `Serve` is sent, it sends [`Unpinned`] with the same frames.
//! - It sends [`Changed`] and [`Resized`] after the object has its new bytes, and before the program that
//!   changed them gets its answer. Later reads never get older bytes.
//! - It sends [`Budget`] when there is more or less memory; [`Drop`] names the frames whose memory may go.
//! - It sends [`Ran`] and [`Exited`] of reading processes, as often as it knows; and [`Tick`] at the
//!   deadline.
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
mod turns;

pub use callers::{FileOpening, LongCallers, SHORT, is_of_columns, window_of_share};
pub use calls::{Calls, Part, is_whole_window};
pub use settings::{IN_FLIGHT_LIMIT, MEMORY_LEAST, MEMORY_LIMIT, READ_LIMIT, Settings};
pub use state::ServingEngine;
pub use stats::Stats;
