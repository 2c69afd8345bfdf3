//! The interface between decisions and actions: the events of an [`Engine`] ([`Event`]), its commands
//! ([`Command`]), and recordings of both that compare a real run with a virtual one.
//!
//! The crate contains no policy. `foreseek-hints` and `foreseek-readahead` implement [`Engine`]; drivers in
//! real and in virtual time send the events. [`PageCache`] is the part of a kernel that the driver of an
//! engine with advice needs. [`objects`] is the table of files that every engine keeps.
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
