//! What an engine asks for.

use crate::{Epoch, FetchId, FrameId, ObjectId, QueryId, RequestId};
use foreseek_units::{PageIndex, PageSpan};

/// Where fetched pages go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// The kernel's page cache.
    PageCache,
    /// Frames of ours, one a page in the order of the range, in no particular order themselves.
    Frames(Vec<FrameId>),
}

/// How soon a fetch is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// A reader waits for it.
    Demand,
    /// Read ahead of need.
    Prefetch,
}

/// What an engine asks its driver to do: what any may ask, and what one kind of engine alone may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bring a range in.
    Fetch {
        /// Names it in `Done` or `Refused`.
        fetch: FetchId,
        /// Of what.
        object: ObjectId,
        /// Which pages.
        range: PageSpan,
        /// The object's epoch as the engine knows it.
        epoch: Epoch,
        /// Where to.
        into: Destination,
        /// How soon.
        urgency: Urgency,
        /// Hand it to the device at once and by itself, before those that follow: it is to be over before
        /// they are. All others of one call are best handed on together.
        apart: bool,
    },
    /// Let a read go its ordinary way.
    Pass {
        /// The read.
        request: RequestId,
    },
    /// What an engine that follows hints asks.
    Hint(HintCommand),
    /// What an engine that serves reads asks.
    Serving(ServingCommand),
}

/// What an engine that follows hints asks of a kernel's page cache and of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintCommand {
    /// Ask the application for its coming accesses; hints and then `Answered` follow (ATC'09
    /// section 4.1: the callback and its arguments).
    Callback {
        /// The read that waits.
        request: RequestId,
        /// The most recently accessed marked entry.
        marked: Option<(ObjectId, PageIndex)>,
        /// The access that led to the question.
        requested: (ObjectId, PageIndex),
    },
    /// Give pages back to the kernel (`POSIX_FADV_DONTNEED`).
    Forget {
        /// Of what.
        object: ObjectId,
        /// Which pages.
        range: PageSpan,
    },
    /// Say which pages of a range are in the page cache.
    AskResident {
        /// Names the answer.
        query: QueryId,
        /// Of what.
        object: ObjectId,
        /// Which pages.
        range: PageSpan,
    },
}

/// What an engine that serves reads asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingCommand {
    /// Answer a read out of frames.
    Serve {
        /// The read.
        request: RequestId,
        /// One frame a page of the read's range, from its first page on; fewer where the object ends
        /// before the range does. They are pinned until `Unpinned`.
        frames: Vec<FrameId>,
    },
    /// Answer a read with an error.
    Fail {
        /// The read.
        request: RequestId,
        /// The fetch that was made for it alone and failed; the driver knows how.
        fetch: FetchId,
    },
    /// The memory of these frames may be given back; a later fetch may name them again.
    Drop {
        /// Which.
        frames: Vec<FrameId>,
    },
}

/// How many commands an engine may emit at one event. Enough to keep a device's queue of 32 full
/// many times over; small enough that a driver's buffer of them stays in a processor's cache.
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
    /// None yet.
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
    /// When there is no room: an engine asks first. This is a bug in the engine.
    pub fn push(&mut self, command: C) {
        assert!(self.room() > 0, "an engine emitted more than {LIMIT} commands at once");
        self.items.push(command);
    }

    /// What was added so far.
    #[must_use]
    pub fn as_slice(&self) -> &[C] {
        &self.items
    }

    /// Takes all of them out, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, C> {
        self.items.drain(..)
    }
}
