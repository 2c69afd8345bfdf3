//! What the engine is told.

use foreseek_seam::{FetchId, RequestId};
use foreseek_units::PageSpan;

/// How a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All of it is there.
    Arrived,
    /// An error: nothing of it is.
    Failed,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The host reads pages and waits for [`Command::Serve`](crate::Command::Serve) or [`Command::Pass`](crate::Command::Pass).
    Read {
        /// Names this read.
        request: RequestId,
        /// Which pages of the device.
        pages: PageSpan,
    },
    /// A fetch ended.
    Done {
        /// Which.
        fetch: FetchId,
        /// How.
        outcome: Outcome,
    },
    /// The device's contents changed here, other than through this engine. Told when the device has the new contents and
    /// before the change is acknowledged.
    Changed {
        /// Where.
        pages: PageSpan,
    },
    /// Time for what did not fit into the commands of the last event.
    Tick,
}
