//! What an engine is notified of.

use crate::{Epoch, Extent, FetchId, FrameId, Measured, ObjectId, ProcessId, QueryId, RequestId, StreamId};
use foreseek_units::{ByteSpan, Bytes, PageIndex, PageSpan, Pages};

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
    /// The request was handed on; the driver cannot tell when the pages arrive (fadvise).
    Issued,
    /// An I/O error right after what arrived. Where the kernel reads, the reader will meet it by
    /// itself; who serves reads ([`ServingCommand::Serve`](crate::ServingCommand::Serve)) fetches what they want once more, alone.
    Failed,
}

/// Why a driver did not take a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Too much is in flight: try again later.
    Busy,
    /// The driver can't do it for this object at all.
    Unsupported,
    /// The object is gone, or shorter than the range.
    Gone,
}

/// What is known of a stream beside its length: whatever the driver can see, empty where it cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamInfo<'a> {
    /// The file's extension.
    pub kind: &'a str,
    /// Its directory.
    pub directory: &'a str,
    /// The program that reads.
    pub program: &'a str,
}

/// What happened. What every engine hears of stands here; what concerns one kind of engine alone is a kind of
/// its own, which the others pass over in one line.
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
        who: ProcessId,
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
    /// A reader asks for a range and waits for [`Command::Pass`](crate::Command::Pass) or `Serve`.
    Read {
        /// Names this read.
        request: RequestId,
        /// Who reads what.
        stream: StreamId,
        /// Which bytes.
        range: ByteSpan,
        /// Who reads, where that is known of each read; else it is who opened the stream.
        who: Option<ProcessId>,
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
    /// The driver did not take a fetch.
    Refused {
        /// Which.
        fetch: FetchId,
        /// Why.
        why: Refusal,
    },
    /// An object's contents changed; what was fetched before is stale. Sent when the object has the
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
    /// How much memory there is for what we fetch.
    Budget {
        /// In pages.
        pages: Pages,
    },
    /// What concerns an engine that follows hints.
    Hint(HintEvent<'a>),
    /// What concerns an engine that serves reads.
    Serving(ServingEvent<'a>),
    /// Time has come to the engine's deadline.
    Tick,
}

/// What happened, for an engine that follows hints and gives advice.
#[derive(Clone, Debug, PartialEq)]
pub enum HintEvent<'a> {
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
    /// The application tells what it will read, in order.
    Hinted {
        /// What it does to the list.
        mode: HintMode,
        /// The reads, in order of access.
        accesses: &'a [Access],
        /// Whether the application has no more to tell for now (ATC'09: `PF_DONE`).
        done: bool,
    },
    /// The application has answered [`HintCommand::Callback`](crate::HintCommand::Callback), with or without hints.
    Answered {
        /// The read that waits for it.
        request: RequestId,
    },
    /// The answer to [`HintCommand::AskResident`](crate::HintCommand::AskResident): the resident pages, ascending.
    Resident {
        /// The question.
        query: QueryId,
        /// The resident runs; `None` where the driver can't know.
        runs: Option<&'a [PageSpan]>,
    },
}

/// What happened, for an engine that answers reads out of its own frames.
#[derive(Clone, Debug, PartialEq)]
pub enum ServingEvent<'a> {
    /// More is known of an open stream: what learning policies use. Sent right after `Opened`, or never.
    Described {
        /// The stream.
        stream: StreamId,
        /// What is known.
        about: StreamInfo<'a>,
    },
    /// What an engine like this one had learnt before, in an earlier run. Sent before any stream, or never.
    Restored {
        /// What its policy had learnt, as it was saved. Of
        /// what cannot be read nothing after it counts.
        learnt: &'a str,
        /// What its device cost; `None` where that is known better.
        device: Option<Measured>,
    },
    /// A program waits in a call for bytes that come in several reads, as they are longer than what the cache in front asks
    /// for at a time: all of them will be read. Sent before one of those reads, or never.
    Called {
        /// The stream.
        stream: StreamId,
        /// The bytes of the call; they may go beyond the object's end.
        range: ByteSpan,
    },
    /// Replies are over: what [`ServingCommand::Serve`](crate::ServingCommand::Serve) gave them is used no longer.
    Unpinned {
        /// Which, each as often as it was served.
        frames: &'a [FrameId],
    },
    /// A process has run since it was last reported.
    Ran {
        /// Which.
        who: ProcessId,
    },
    /// A process has ended.
    Exited {
        /// Which.
        who: ProcessId,
    },
}
