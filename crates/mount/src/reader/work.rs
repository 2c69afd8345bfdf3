//! The effects of the driver's calls in real time: queued under its lock, done after its release.

use super::pass::Pass;
use super::token::Token;
use crate::read_path::{Answer, Version};
use foreseek_readahead::driver::{self, Backing, FrameFetch, WaitingRead};
use foreseek_seam::{FrameId, Refusal, RequestId, Urgency};
use foreseek_storage::reads::{self, ReadFile, Target};
use foreseek_storage::{Frames, Reading};
use foreseek_units::Bytes;
use rustix::io::Errno;
use std::sync::Arc;

/// The queued work.
#[derive(Default)]
pub(super) struct Work {
    /// Fetches to start, those of one call together.
    pub(super) reads: Vec<reads::DiskRead>,
    /// Passed reads to start.
    pub(super) passes: Vec<Pass>,
    /// Replies to send.
    pub(super) replies: Vec<Reply>,
    /// Frames whose memory may go.
    pub(super) dropped: Vec<FrameId>,
}

/// The interface below the driver.
pub(super) struct Below {
    frames: Arc<Frames>,
    pub(super) work: Work,
}

/// A reply to send.
pub(super) enum Reply {
    /// Bytes out of frames.
    Frames(driver::Reply<Answer>, Reading),
    /// An error.
    Error(Answer, Errno),
}

impl Below {
    pub(super) fn new(frames: Arc<Frames>) -> Self {
        Self { frames, work: Work::default() }
    }
}

impl driver::Version for Version {
    fn length(&self) -> Bytes {
        self.length
    }
}

impl Backing for Below {
    type Answer = Answer;
    type File = Arc<ReadFile>;
    type Version = Version;
    type Error = Errno;

    const NOT_OPEN: Errno = Errno::BADF;
    const UNKNOWN: Errno = Errno::IO;

    fn fetch(&mut self, fetch: FrameFetch<Arc<ReadFile>>) -> Result<(), Refusal> {
        let FrameFetch { id, file, range, frames, urgency, apart, .. } = fetch;
        let filling = self.frames.fill(&frames).ok_or(Refusal::Gone)?;
        let (token, offset) = (Token::of_fetch(id), range.start.offset());
        let (into, urgent) = (Target::Frames(filling), urgency == Urgency::Demand);
        self.work.reads.push(reads::DiskRead { token, file, offset, into, urgent, apart });
        Ok(())
    }

    fn serve(&mut self, reply: driver::Reply<Answer>) -> Result<(), driver::Reply<Answer>> {
        match self.frames.read(&reply.frames) {
            Some(reading) => {
                self.work.replies.push(Reply::Frames(reply, reading));
                Ok(())
            }
            None => Err(reply),
        }
    }

    fn pass(
        &mut self,
        request: RequestId,
        asked: &WaitingRead<Answer>,
        file: Arc<ReadFile>,
    ) -> Result<(), Errno> {
        self.work.passes.push(Pass::new(request, asked.range, file).ok_or(Errno::INVAL)?);
        Ok(())
    }

    fn fail(&mut self, answer: Answer, error: Errno) {
        self.work.replies.push(Reply::Error(answer, error));
    }

    fn drop_frames(&mut self, frames: &[FrameId]) {
        self.frames.empty(frames);
        self.work.dropped.extend(frames);
    }
}

impl Reply {
    /// Sends it; returns the frames that are not used any more.
    pub(super) fn send(self) -> Option<Vec<FrameId>> {
        match self {
            Self::Frames(driver::Reply { answer, frames, skip, length }, reading) => {
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
