//! The seam between what decides and what acts: what an [`Engine`] is told ([`Event`]), what it may ask
//! for ([`Command`]), and recordings of both that hold a real run to a virtual one.
//!
//! The crate holds no policy. `foreseek-hints` and `foreseek-readahead` implement [`Engine`];
//! drivers in real and in virtual time tell them what happens. [`PageCache`] is what the driver of
//! an engine that gives advice needs of a kernel. [`objects`] is the table of files that every engine
//! keeps.
#![forbid(unsafe_code)]

mod checks;
mod command;
mod engine;
mod event;
mod extent;
mod ids;
mod measured;
pub mod objects;
mod page_cache;
pub mod percent;
pub mod record;

pub use checks::Checks;
pub use command::{
    COMMANDS_LIMIT, Command, CommandBuffer, Commands, Destination, HintCommand, ServingCommand, Urgency,
};
pub use engine::Engine;
pub use event::{Access, Event, FetchOutcome, HintEvent, HintMode, Refusal, ServingEvent, StreamInfo};
pub use extent::{Extent, lba_of};
pub use ids::{Epoch, FetchId, FrameId, ObjectId, ProcessId, QueryId, RequestId, StreamId};
pub use measured::Measured;
pub use page_cache::PageCache;
pub use record::{Recorder, Recording, replay};
