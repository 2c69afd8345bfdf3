//! What lies below a driver.

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

/// A read that is not answered.
#[derive(Debug)]
pub struct WaitingRead<A> {
    /// Of what.
    pub object: ObjectId,
    /// Which bytes.
    pub range: ByteSpan,
    /// How its answer gets to its reader.
    pub answer: A,
}

/// A fetch into frames.
#[derive(Debug)]
pub struct Fetch<F> {
    /// Its name.
    pub id: FetchId,
    /// Of what.
    pub object: ObjectId,
    /// Its file.
    pub file: F,
    /// Which pages.
    pub range: PageSpan,
    /// Where to, one a page.
    pub frames: Vec<FrameId>,
    /// How soon.
    pub urgency: Urgency,
    /// Whether it goes to the device at once and by itself.
    pub apart: bool,
}

/// A read's answer, out of frames.
#[derive(Debug)]
pub struct Reply<A> {
    /// How it gets to its reader.
    pub answer: A,
    /// Where the bytes are: pinned until the driver is told that the reply [is over](super::ServingDriver::unpinned).
    pub frames: Vec<FrameId>,
    /// How many bytes of the frames come before those that were asked for.
    pub skip: usize,
    /// How many bytes there are.
    pub length: usize,
}

/// What lies below a driver: memory, files, readers. None of its calls waits for I/O.
pub trait Backing {
    /// How a read's answer gets to its reader.
    type Answer;
    /// An open file.
    type File: Clone;
    /// The state of a file's bytes.
    type Version: Version;
    /// Why something failed.
    type Error: Copy;

    /// Why a read of a file that is not open fails.
    const NOT_OPEN: Self::Error;
    /// Why something failed where no reason is known.
    const UNKNOWN: Self::Error;

    /// Begins a fetch. Fetches of one call that lie together are best handed on together.
    ///
    /// # Errors
    /// It is not taken.
    fn fetch(&mut self, fetch: Fetch<Self::File>) -> Result<(), Refusal>;

    /// Answers a read out of frames.
    ///
    /// # Errors
    /// The frames cannot be read: the reply comes back.
    fn serve(&mut self, reply: Reply<Self::Answer>) -> Result<(), Reply<Self::Answer>>;

    /// Makes a read as it is, and [takes](super::ServingDriver::take) it when that is over.
    ///
    /// # Errors
    /// It cannot be made at all: the read is answered with that.
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
