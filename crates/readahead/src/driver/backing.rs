//! The interface below a driver.

use foreseek_seam::{FetchId, FrameId, ObjectId, Refusal, RequestId, Urgency};
use foreseek_units::{ByteSpan, Bytes, PageSpan};

/// The state of a file's bytes: equal versions have equal bytes.
pub trait Version: Copy + PartialEq {
    /// The file's length.
    fn length(&self) -> Bytes;
}

impl Version for Bytes {
    fn length(&self) -> Bytes {
        *self
    }
}

/// A read that is not answered yet.
#[derive(Debug)]
pub struct WaitingRead<A> {
    /// Its object.
    pub object: ObjectId,
    /// Its bytes.
    pub range: ByteSpan,
    /// The way of its answer to its reader.
    pub answer: A,
}

/// A fetch into frames.
#[derive(Debug)]
pub struct FrameFetch<F> {
    /// Its id.
    pub id: FetchId,
    /// Its object.
    pub object: ObjectId,
    /// Its file.
    pub file: F,
    /// Its pages.
    pub range: PageSpan,
    /// Its frames, one for each page.
    pub frames: Vec<FrameId>,
    /// Its urgency.
    pub urgency: Urgency,
    /// Whether it goes to the device at once and by itself.
    pub apart: bool,
}

/// An answer to a read, out of frames.
#[derive(Debug)]
pub struct Reply<A> {
    /// The way to its reader.
    pub answer: A,
    /// The frames with the bytes, pinned until [`unpinned`](super::ServingDriver::unpinned) is called for the
    /// reply.
    pub frames: Vec<FrameId>,
    /// The bytes of the frames before the requested ones.
    pub skip: usize,
    /// The number of bytes requested.
    pub length: usize,
}

/// What a driver needs: memory, files, readers. None of the calls waits for I/O.
pub trait Backing {
    /// The way of an answer to its reader.
    type Answer;
    /// An open file.
    type File: Clone;
    /// The state of a file's bytes.
    type Version: Version;
    /// The reason of a failure.
    type Error: Copy;

    /// The error of a read of a file that is not open.
    const NOT_OPEN: Self::Error;
    /// The error where no reason is known.
    const UNKNOWN: Self::Error;

    /// Begins a fetch. Adjacent fetches of one call are best passed on together.
    ///
    /// # Errors
    /// It is not accepted.
    fn fetch(&mut self, fetch: FrameFetch<Self::File>) -> Result<(), Refusal>;

    /// Answers a read out of frames.
    ///
    /// # Errors
    /// The frames cannot be read: the reply is returned.
    fn serve(&mut self, reply: Reply<Self::Answer>) -> Result<(), Reply<Self::Answer>>;

    /// Makes a read without the engine, and [takes](super::ServingDriver::take) it when that is over.
    ///
    /// # Errors
    /// It cannot be made at all: the read is answered with this error.
    fn pass(
        &mut self,
        request: RequestId,
        asked: &WaitingRead<Self::Answer>,
        file: Self::File,
    ) -> Result<(), Self::Error>;

    /// Answers a read with an error.
    fn fail(&mut self, answer: Self::Answer, error: Self::Error);

    /// The memory of these frames may go.
    fn drop_frames(&mut self, frames: &[FrameId]);
}
