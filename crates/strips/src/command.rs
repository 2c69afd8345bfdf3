//! What the engine asks its driver to do.

use crate::blocks::Blocks;
use crate::geometry::StripNo;
use foreseek_seam::{CommandBuffer, FetchId, RequestId, Urgency};
use foreseek_units::PageSpan;

/// How many commands answer one event at most: more than a read of 1280 KiB and the prefetches that it starts need where
/// strips have 128 KiB.
pub const COMMANDS_LIMIT: usize = 256;

/// What to do. Commands are carried out in their order: what a `Serve` copies may be dropped by the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read blocks of one strip from its member into memory of their own; answered by [`Event::Done`](crate::Event::Done).
    Fetch {
        /// Names it in the answer.
        fetch: FetchId,
        /// Which strip.
        strip: StripNo,
        /// Which of its blocks are wanted. Those between them are there already: they may be read, so that it is one access, but
        /// what is there must not be overwritten.
        blocks: Blocks,
        /// The pages of the device from the first to the last of these blocks.
        pages: PageSpan,
        /// Whether a reader waits.
        urgency: Urgency,
    },
    /// Answer a read out of memory: all of its pages are there.
    Serve {
        /// The read.
        request: RequestId,
    },
    /// Read past the cache, from the device into the reader's memory, and answer with what comes of it.
    Pass {
        /// The read.
        request: RequestId,
    },
    /// The memory of these blocks is free.
    Drop {
        /// Of which strip.
        strip: StripNo,
        /// Which.
        blocks: Blocks,
    },
}

/// The commands that answer one event.
pub type Commands = CommandBuffer<Command, COMMANDS_LIMIT>;
