//! The commands of an engine.

use crate::{Epoch, FetchId, FrameId, ObjectId, QueryId, RequestId};
use foreseek_units::{PageIndex, PageSpan};

/// The destination of fetched pages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// The kernel's page cache.
    PageCache,
    /// Frames of ours, one for each page in the order of the range; their numbers have no order.
    Frames(Vec<FrameId>),
}

/// The urgency of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// A reader waits for it.
    Demand,
    /// Read ahead.
    Prefetch,
}

/// A command of an engine to its driver: common ones, and those of one kind of engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Fetch a range.
    Fetch {
        /// Its id, for `Done` or `Refused`.
        fetch: FetchId,
        /// The object.
        object: ObjectId,
        /// The pages.
        range: PageSpan,
        /// The object's epoch as the engine knows it.
        epoch: Epoch,
        /// The destination.
        into: Destination,
        /// The urgency.
        urgency: Urgency,
        /// Whether it goes to the device at once and by itself, before those that follow: it is to end before
        /// they do. All others of one call are best passed on together.
        apart: bool,
    },
    /// Pass a read: it is made without the engine.
    Pass {
        /// The read.
        request: RequestId,
    },
    /// A command of an engine that follows hints.
    Hint(HintCommand),
    /// A command of an engine that serves reads.
    Serving(ServingCommand),
}

/// The commands of an engine that follows hints, to a kernel's page cache and to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintCommand {
    /// Request the application's next accesses; hints and then `Answered` follow (ATC'09 section 4.1: the
    /// callback and its arguments).
    Callback {
        /// The read that waits.
        request: RequestId,
        /// The most recently accessed marked entry.
        marked: Option<(ObjectId, PageIndex)>,
        /// The access that caused the request.
        requested: (ObjectId, PageIndex),
    },
    /// Give pages back to the kernel (`POSIX_FADV_DONTNEED`).
    Forget {
        /// The object.
        object: ObjectId,
        /// The pages.
        range: PageSpan,
    },
    /// Query which pages of a range are in the page cache.
    AskResident {
        /// Its id, for the answer.
        query: QueryId,
        /// The object.
        object: ObjectId,
        /// The pages.
        range: PageSpan,
    },
}

/// The commands of an engine that serves reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingCommand {
    /// Answer a read out of frames.
    Serve {
        /// The read.
        request: RequestId,
        /// One frame for each page of the read's range, from its first page on; fewer if the object ends
        /// before the range does. They are pinned until `Unpinned`.
        frames: Vec<FrameId>,
    },
    /// Answer a read with an error.
    Fail {
        /// The read.
        request: RequestId,
        /// The fetch that was made for it alone and failed; the driver knows the error.
        fetch: FetchId,
    },
    /// The memory of these frames may be given back; a later fetch may name them again.
    Drop {
        /// The frames.
        frames: Vec<FrameId>,
    },
}

/// The most commands for one event. Enough to fill a device's queue of 32 many times over; small enough that
/// a driver's buffer of them stays in a processor's cache.
pub const COMMANDS_LIMIT: usize = 1024;

/// The commands that answer one event.
pub type Commands = CommandBuffer<Command, COMMANDS_LIMIT>;

/// Commands of any kind that answer one event; at most `LIMIT`.
#[derive(Debug)]
pub struct CommandBuffer<C, const LIMIT: usize> {
    items: Vec<C>,
}

impl<C, const LIMIT: usize> Default for CommandBuffer<C, LIMIT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C, const LIMIT: usize> CommandBuffer<C, LIMIT> {
    /// Without commands.
    #[must_use]
    pub fn new() -> Self {
        Self { items: Vec::with_capacity(LIMIT) }
    }

    /// How many more fit.
    #[must_use]
    pub fn room(&self) -> usize {
        LIMIT - self.items.len()
    }

    /// Adds a command.
    ///
    /// # Panics
    /// There is no room: an engine checks that first. This is a bug in the engine.
    pub fn push(&mut self, command: C) {
        assert!(self.room() > 0, "an engine emitted more than {LIMIT} commands at once");
        self.items.push(command);
    }

    /// The commands so far.
    #[must_use]
    pub fn as_slice(&self) -> &[C] {
        &self.items
    }

    /// Takes all commands out, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, C> {
        self.items.drain(..)
    }
}
