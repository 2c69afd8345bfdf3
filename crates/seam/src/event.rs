//! The events of an engine.

use crate::{Epoch, Extent, FetchId, FrameId, Measured, ObjectId, ProcessId, QueryId, RequestId, StreamId};
use foreseek_units::{ByteSpan, Bytes, PageIndex, PageSpan, Pages};

/// One intended read of a page (ATC'09 figure 6: `struct access_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The object.
    pub object: ObjectId,
    /// Its page.
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
    /// The pages have arrived.
    Arrived,
    /// The pages have arrived, and some of them came out of the page cache: how long it took says nothing about
    /// the device.
    FromMemory,
    /// The request was passed on; the driver does not see when the pages arrive (fadvise).
    Issued,
    /// An I/O error right after the pages that arrived. If the kernel reads, the reader itself meets the
    /// error. An engine that serves reads ([`ServingCommand::Serve`](crate::ServingCommand::Serve)) fetches
    /// the pages of each read once more, alone.
    Failed,
}

/// Why a driver refused a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Too much is in flight: try again later.
    Busy,
    /// The driver cannot do it for this object.
    Unsupported,
    /// The object is gone, or shorter than the range.
    Gone,
}

/// What is known about a stream beside its length: as far as the driver can see it, otherwise empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamInfo<'a> {
    /// The file's extension.
    pub kind: &'a str,
    /// Its directory.
    pub directory: &'a str,
    /// The program that reads.
    pub program: &'a str,
}

/// An event. Common events are listed here. Events of one kind of engine have a type of their own, which the
/// others ignore in one line.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// A stream was opened on an object of `length` bytes.
    Opened {
        /// The new stream.
        stream: StreamId,
        /// The object that it reads.
        object: ObjectId,
        /// Length of the object.
        length: Bytes,
        /// The process that opened it.
        pid: ProcessId,
    },
    /// A stream was closed.
    Closed {
        /// The stream.
        stream: StreamId,
    },
    /// The location of an object on its device, in pages ascending; pages in no extent have no known address.
    Placed {
        /// The object.
        object: ObjectId,
        /// Its extents.
        extents: &'a [Extent],
    },
    /// A reader requests a range and waits for [`Command::Pass`](crate::Command::Pass) or `Serve`.
    Read {
        /// Its id.
        request: RequestId,
        /// Its stream.
        stream: StreamId,
        /// The bytes.
        range: ByteSpan,
        /// The process that reads, if it is known for each read; otherwise it is the opener of the stream.
        pid: Option<ProcessId>,
    },
    /// A fetch ended.
    Done {
        /// The fetch.
        fetch: FetchId,
        /// The object's epoch when the fetch was requested.
        epoch: Epoch,
        /// How many pages of it arrived, from its start; a page that the end of the object cuts counts. Fewer
        /// than requested without a failure: the object ends there.
        got: Pages,
        /// How it ended.
        outcome: FetchOutcome,
        /// How many fetches are still in flight.
        in_flight: u32,
    },
    /// The driver refused a fetch.
    Refused {
        /// The fetch.
        fetch: FetchId,
        /// The reason.
        why: Refusal,
    },
    /// An object's contents have changed; pages fetched before are stale. Sent once the object has the new
    /// contents, and before the change is acknowledged.
    Changed {
        /// The object.
        object: ObjectId,
        /// The changed bytes.
        range: ByteSpan,
        /// Its new epoch.
        epoch: Epoch,
    },
    /// The length of an object has changed, for all its streams.
    Resized {
        /// The object.
        object: ObjectId,
        /// Its length.
        length: Bytes,
    },
    /// The memory for fetched pages.
    Budget {
        /// In pages.
        pages: Pages,
    },
    /// An event of an engine that follows hints.
    Hint(HintEvent<'a>),
    /// An event of an engine that serves reads.
    Serving(ServingEvent<'a>),
    /// The engine's deadline has passed.
    Tick,
}

/// The events of an engine that follows hints and gives advice.
#[derive(Clone, Debug, PartialEq)]
pub enum HintEvent<'a> {
    /// Begin to watch reads of this range (ATC'09: `register_region`).
    Watched {
        /// The object.
        object: ObjectId,
        /// The range.
        range: ByteSpan,
    },
    /// Stop watching reads of this range.
    Unwatched {
        /// The object.
        object: ObjectId,
        /// The range, as it was given for watching.
        range: ByteSpan,
    },
    /// The application announces its reads, in order.
    Hinted {
        /// The effect on the list.
        mode: HintMode,
        /// The reads, in order of access.
        accesses: &'a [Access],
        /// Whether the application has no more hints for now (ATC'09: `PF_DONE`).
        done: bool,
    },
    /// The application has answered [`HintCommand::Callback`](crate::HintCommand::Callback), with or without hints.
    Answered {
        /// The read that waits for it.
        request: RequestId,
    },
    /// The answer to [`HintCommand::AskResident`](crate::HintCommand::AskResident): the resident pages, ascending.
    Resident {
        /// The query.
        query: QueryId,
        /// The resident runs; `None` if the driver cannot know them.
        runs: Option<&'a [PageSpan]>,
    },
}

/// The events of an engine that answers reads out of its own frames.
#[derive(Clone, Debug, PartialEq)]
pub enum ServingEvent<'a> {
    /// More is known about an open stream, for learning policies. Sent right after `Opened`, or never.
    Described {
        /// The stream.
        stream: StreamId,
        /// What is known.
        about: StreamInfo<'a>,
    },
    /// The state that such an engine has learnt in an earlier run. Sent before any stream, or never.
    Restored {
        /// The learnt state of its policy, as it was saved. If a line is invalid, it and all lines after it
        /// are ignored.
        learnt: &'a str,
        /// The costs of its device; `None` if they are known better.
        device: Option<Measured>,
    },
    /// A program waits in a call for bytes that arrive in several reads, since the call is longer than a
    /// request of the cache in front. All of the bytes will be read. Sent before one of those reads, or
    /// never.
    Called {
        /// The stream.
        stream: StreamId,
        /// The bytes of the call; they may exceed the object's end.
        range: ByteSpan,
    },
    /// Replies are over: the frames of their [`ServingCommand::Serve`](crate::ServingCommand::Serve) are not
    /// used any more.
    Unpinned {
        /// The frames, each as often as it was served.
        frames: &'a [FrameId],
    },
    /// A process has run since it was last reported.
    Ran {
        /// The process.
        pid: ProcessId,
    },
    /// A process has ended.
    Exited {
        /// The process.
        pid: ProcessId,
    },
}
