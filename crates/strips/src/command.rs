//! The commands of the engine to its driver.

use crate::blocks::Blocks;
use crate::geometry::StripNo;
use foreseek_seam::{CommandBuffer, FetchId, RequestId, Urgency};
use foreseek_units::PageSpan;

/// The most commands for one event: more than a read of 1280 KiB and its prefetches need with strips of 128
/// KiB.
pub const COMMANDS_LIMIT: usize = 256;

/// A command. Commands are carried out in order: the memory that a `Serve` copies may be freed by the next
/// command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read blocks of one strip from its member into new memory; answered by
    /// [`Event::Done`](crate::Event::Done).
    Fetch {
        /// Its id, for the answer.
        fetch: FetchId,
        /// The strip.
        strip: StripNo,
        /// The wanted blocks. The blocks between them are present: they may be read, so that it is one
        /// access, but present blocks must not be overwritten.
        blocks: Blocks,
        /// The pages of the device from the first to the last of these blocks.
        pages: PageSpan,
        /// Whether a reader waits.
        urgency: Urgency,
    },
    /// Answer a read out of memory: all of its pages are present.
    Serve {
        /// The read.
        request: RequestId,
    },
    /// Read from the device into the reader's memory, without the cache, and answer with the result.
    Pass {
        /// The read.
        request: RequestId,
    },
    /// The memory of these blocks is free.
    Drop {
        /// The strip.
        strip: StripNo,
        /// The blocks.
        blocks: Blocks,
    },
}

/// The commands that answer one event.
pub type Commands = CommandBuffer<Command, COMMANDS_LIMIT>;
