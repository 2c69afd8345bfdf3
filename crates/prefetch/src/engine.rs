//! The seam: what an engine is told and what it may ask for.
//!
//! An engine is one actor a device. Its driver turns what happens into [`Event`]s, hands them over
//! with the time, and carries out the [`Command`]s that come back. What an engine can see is its
//! [`Door`]: a kernel sees every reference, a mount only misses and read-ahead, the tuner only
//! block requests, and the fadvise door sees every read of a watched range but clamps silently what
//! it is asked to fetch.
//!
//! Rules that every engine and driver keep:
//!
//! - *In flight is a state of a page.* A read of a page in flight joins it; a write overtakes it:
//!   the object's [`Epoch`] rises, and a completion that bears an older one is thrown away.
//! - *A fetch may come short, be refused or fail.* That is a counter, never an error of the reader,
//!   unless the very pages that it asked for fail when they are fetched for it alone: then it gets
//!   that error ([`Command::Fail`]), and nobody else.
//! - *The engine owns frame numbers, the driver owns the memory.* A frame stays pinned until its I/O
//!   and the reply that it feeds are over: [`Event::Done`] ends the one, [`Event::Unpinned`] the other.
//! - *Commands are bounded.* An engine that has more to say sets its [`deadline`](Engine::deadline)
//!   to now, and the driver sends [`Event::Tick`] when it has carried out what it has.

use crate::depth::Measured;
use crate::learn::About;
use foreseek_units::{ByteSpan, Bytes, Instant, Lba, PageIndex, PageSpan, Pages, SectorSpan};

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident($raw:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $raw);
    )*};
}

id! {
    /// A file, block device or remote object: what page numbers count within.
    ObjectId(u64);
    /// One opener's way through one object: an open file description.
    StreamId(u64);
    /// A read that waits for an answer.
    RequestId(u64);
    /// A fetch that the engine asked for.
    FetchId(u64);
    /// A question about residency.
    QueryId(u64);
    /// A page-sized buffer; the engine owns the number, the driver the memory.
    FrameId(u32);
    /// A reader: a process id where the door can see it.
    Who(u32);
    /// A version of an object's contents. It rises with each change that overtakes fetches.
    Epoch(u32);
}

/// Through which opening an engine sees its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Door {
    /// Every reference to every page (a simulated kernel).
    Kernel,
    /// Misses of the kernel's page cache and its read-ahead (a FUSE mount).
    Fuse,
    /// Every read of a watched range, before it is made; fetches are clamped silently (libprefetch).
    Fadvise,
    /// Requests to a block device that we serve (array, emulated disk).
    Block,
    /// Requests to a block device, seen from beside (tune).
    Tune,
}

/// How much of the truth a [`Event::Read`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Saw {
    /// Every read is reported.
    All,
    /// Only reads that missed a cache in front.
    Misses,
    /// A sample.
    Sampled,
}

/// A piece of an object that lies in one piece on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First page within the object.
    pub page: PageIndex,
    /// Length.
    pub pages: Pages,
    /// Where it starts on the device.
    pub lba: Lba,
}

/// One intended read of a page (ATC'09 figure 6: `struct access_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The object.
    pub object: ObjectId,
    /// The page of it.
    pub page: PageIndex,
    /// Whether it is a landmark for the application's callback.
    pub mark: bool,
}

/// What a batch of hints does to the access list (ATC'09 figure 6: `PF_SET` and so on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HintMode {
    /// Replace the list.
    Set,
    /// Extend the list.
    Append,
    /// Replace what follows the most recently accessed marked entry.
    SetFromMark,
}

/// How a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchOutcome {
    /// The pages are there.
    Arrived,
    /// The request was handed on; the door cannot tell when the pages arrive (fadvise).
    Issued,
    /// An I/O error right after what arrived. Through the kernel's doors the reader will meet it by
    /// itself; who serves reads ([`Command::Serve`]) fetches what they want once more, alone.
    Failed,
}

/// Why a door did not take a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Too much is in flight: try again later.
    Busy,
    /// This door can't do it for this object at all.
    Unsupported,
    /// The object is gone, or shorter than the range.
    Gone,
}

/// Where fetched pages go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Into {
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

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// A stream was opened on an object of `length` bytes.
    Opened {
        /// The new stream.
        stream: StreamId,
        /// What it reads.
        object: ObjectId,
        /// Length of the object.
        length: Bytes,
        /// Who opened it.
        who: Who,
        /// Through which door.
        door: Door,
    },
    /// More is known of an open stream: what those who learn go by. Told right after `Opened`, or never.
    Described {
        /// The stream.
        stream: StreamId,
        /// What is known.
        about: About<'a>,
    },
    /// What an engine like this one had learnt before, in another life. Told before any stream, or never.
    Recalled {
        /// What its policy had learnt, as [`Learning::save`](crate::learn::Learning::save) wrote it. Of
        /// what cannot be read nothing after it counts.
        learnt: &'a str,
        /// What its device cost; `None` where that is known better.
        device: Option<Measured>,
    },
    /// A stream was closed.
    Closed {
        /// The stream.
        stream: StreamId,
    },
    /// Where an object lies on the device, in pages ascending; pages in no extent are unplaced.
    Placed {
        /// The object.
        object: ObjectId,
        /// Its extents.
        extents: &'a [Extent],
    },
    /// Reads of this range are to be watched (ATC'09: `register_region`).
    Watched {
        /// The object.
        object: ObjectId,
        /// The range.
        range: ByteSpan,
    },
    /// Reads of this range are no longer to be watched.
    Unwatched {
        /// The object.
        object: ObjectId,
        /// The range, as it was given when it was watched.
        range: ByteSpan,
    },
    /// A reader asks for a range and waits for [`Command::Pass`] or `Serve`.
    Read {
        /// Names this read.
        request: RequestId,
        /// Who reads what.
        stream: StreamId,
        /// Which bytes.
        range: ByteSpan,
        /// How complete the picture is.
        saw: Saw,
        /// Who reads, where that is known of each read; else it is who opened the stream.
        who: Option<Who>,
    },
    /// The application tells what it will read, in order.
    Hint {
        /// What it does to the list.
        mode: HintMode,
        /// The reads, in order of access.
        accesses: &'a [Access],
        /// Whether the application has no more to tell for now (ATC'09: `PF_DONE`).
        done: bool,
    },
    /// The application has answered [`Command::Want`], with or without hints.
    Answered {
        /// The read that waits for it.
        request: RequestId,
    },
    /// A fetch ended.
    Done {
        /// Which.
        fetch: FetchId,
        /// The object's epoch when it was asked for.
        epoch: Epoch,
        /// How much of it arrived, from its start: a page that the end of the object cuts counts. Less
        /// than was asked for, and no failure: the object ends there.
        got: Pages,
        /// How.
        outcome: FetchOutcome,
        /// How many fetches are still under way.
        in_flight: u32,
    },
    /// The door did not take a fetch.
    Refused {
        /// Which.
        fetch: FetchId,
        /// Why.
        why: Refusal,
    },
    /// An object's contents changed; what was fetched before is stale. Told when the object has the
    /// new contents and before the change is acknowledged.
    Changed {
        /// The object.
        object: ObjectId,
        /// Where.
        range: ByteSpan,
        /// Its epoch from now on.
        epoch: Epoch,
    },
    /// An object has this length from now on, for all its streams.
    Resized {
        /// The object.
        object: ObjectId,
        /// Its length.
        length: Bytes,
    },
    /// The answer to [`Command::AskResident`]: the resident pages, ascending.
    Resident {
        /// The question.
        query: QueryId,
        /// The resident runs; `None` where the door can't know.
        runs: Option<&'a [PageSpan]>,
    },
    /// Replies are over: what [`Command::Serve`] gave them is used no longer.
    Unpinned {
        /// Which, each as often as it was served.
        frames: &'a [FrameId],
    },
    /// How much memory there is for what we fetch.
    Budget {
        /// In pages.
        pages: Pages,
    },
    /// A process has run since it was last reported.
    Ran {
        /// Which.
        who: Who,
    },
    /// A process has ended.
    Exited {
        /// Which.
        who: Who,
    },
    /// Time has come to the engine's deadline.
    Tick,
}

/// What an engine asks its driver to do.
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
        into: Into,
        /// How soon.
        urgency: Urgency,
        /// Hand it to the device at once and by itself, before those that follow: it is to be over before
        /// they are. All others of one call are best handed on together.
        apart: bool,
    },
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
    /// Let a read go its ordinary way.
    Pass {
        /// The read.
        request: RequestId,
    },
    /// Ask the application for its coming accesses; hints and then `Answered` follow (ATC'09
    /// section 4.1: the callback and its arguments).
    Want {
        /// The read that waits.
        request: RequestId,
        /// The most recently accessed marked entry.
        marked: Option<(ObjectId, PageIndex)>,
        /// The access that led to the question.
        requested: (ObjectId, PageIndex),
    },
    /// The memory of these frames may be given back; a later fetch may name them again.
    Drop {
        /// Which.
        frames: Vec<FrameId>,
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

/// How many commands an engine may emit at one event. Enough to keep a device's queue of 32 full
/// many times over; small enough that a driver's buffer of them stays in a processor's cache.
pub const COMMANDS_LIMIT: usize = 1024;

/// The commands that answer one event; at most [`COMMANDS_LIMIT`].
#[derive(Debug, Default)]
pub struct Commands {
    items: Vec<Command>,
}

impl Commands {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self { items: Vec::with_capacity(COMMANDS_LIMIT) }
    }

    /// How many more fit.
    #[must_use]
    pub fn room(&self) -> usize {
        COMMANDS_LIMIT - self.items.len()
    }

    /// Adds a command.
    ///
    /// # Panics
    /// When there is no room: an engine asks first. This is a bug in the engine.
    pub fn push(&mut self, command: Command) {
        assert!(self.room() > 0, "an engine emitted more than {COMMANDS_LIMIT} commands at once");
        self.items.push(command);
    }

    /// What was added so far.
    #[must_use]
    pub fn as_slice(&self) -> &[Command] {
        &self.items
    }

    /// Takes all of them out, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Command> {
        self.items.drain(..)
    }
}

/// A prefetching policy: events and the time in, bounded commands out.
///
/// It does no I/O, reads no clock, takes no lock and starts no thread; two engines that are told the
/// same say the same.
pub trait Engine: Send {
    /// Something happened. The commands that follow from it are added to `out`, which the driver
    /// hands over empty.
    fn on(&mut self, now: Instant, event: Event<'_>, out: &mut Commands);

    /// When the engine wants [`Event::Tick`]; a time that has come means at once.
    fn deadline(&self) -> Option<Instant>;
}

/// Where a page of an object lies on the device, for sorting in disk order.
#[must_use]
pub fn lba_of(extents: &[Extent], page: PageIndex) -> Option<Lba> {
    let at = extents.partition_point(|extent| extent.page <= page).checked_sub(1)?;
    let extent = extents[at];
    let within = page - extent.page;
    (within < extent.pages).then(|| extent.lba + within.sectors())
}

/// The sectors of an extent.
#[must_use]
pub fn sectors_of(extent: Extent) -> SectorSpan {
    SectorSpan::at(extent.lba, extent.pages.sectors())
}
