//! What follows from what the engine said and is done after its lock is given up.

use super::pass::Pass;
use crate::read_path::Answer;
use foreseek_seam::FrameId;
use foreseek_storage::{Reading, reads};
use rustix::io::Errno;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Work {
    /// Fetches to be made, those of one call together.
    pub(super) reads: Vec<reads::Read>,
    /// Reads to be made as they are.
    pub(super) passes: Vec<Pass>,
    /// Reads to be answered.
    pub(super) replies: Vec<Reply>,
    /// Frames that were served and are used no longer.
    pub(super) unpinned: Vec<FrameId>,
    /// Whether memory of frames may go.
    pub(super) dropped: bool,
}

/// An answer that is ready.
pub(super) enum Reply {
    /// Bytes out of frames.
    Frames {
        answer: Answer,
        reading: Reading,
        /// Which of their bytes.
        skip: usize,
        length: usize,
        frames: Vec<FrameId>,
    },
    /// An error.
    Error(Answer, Errno),
}

impl Reply {
    /// Sends it; the frames that are used no longer.
    pub(super) fn send(self) -> Option<Vec<FrameId>> {
        match self {
            Self::Frames { answer, reading, skip, length, frames } => {
                answer.parts(&reading.slices(skip, length));
                Some(frames)
            }
            Self::Error(answer, errno) => {
                answer.fail(errno);
                None
            }
        }
    }
}
