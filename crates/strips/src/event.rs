//! The events of the engine.

use foreseek_seam::{FetchId, RequestId};
use foreseek_units::PageSpan;

/// How a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All of it has arrived.
    Arrived,
    /// An error: none of it has arrived.
    Failed,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The host reads pages and waits for [`Command::Serve`](crate::Command::Serve) or [`Command::Pass`](crate::Command::Pass).
    Read {
        /// Its id.
        request: RequestId,
        /// The pages of the device.
        pages: PageSpan,
    },
    /// A fetch ended.
    Done {
        /// The fetch.
        fetch: FetchId,
        /// How it ended.
        outcome: Outcome,
    },
    /// The device's contents have changed, other than through this engine. Sent once the device has the new
    /// contents, and before the change is acknowledged.
    Changed {
        /// The changed pages.
        pages: PageSpan,
    },
    /// Time for commands that did not fit after the last event.
    Tick,
}
