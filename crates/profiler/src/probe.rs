//! What a measurement needs of the thing that it measures.

use crate::Error;
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos};

/// When a read was asked for and when its data were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When it was asked for.
    pub issued: Instant,
    /// When it was answered.
    pub finished: Instant,
}

impl Timed {
    /// How long it took.
    #[must_use]
    pub fn response(self) -> Nanos {
        self.finished - self.issued
    }
}

/// Something that can be read and timed: a real device or file ([`Target`](super::Target)), or a
/// modelled device in virtual time ([`ModelProbe`](super::ModelProbe)). The measurement is the same
/// for both, so that it is tested without waiting.
pub trait Probe {
    /// How much there is to read.
    fn capacity(&self) -> Bytes;

    /// Offsets and lengths of reads must be multiples of this; it divides a page.
    fn block(&self) -> Bytes;

    /// The time now, on the clock of [`Timed`].
    fn now(&self) -> Instant;

    /// Reads one range.
    ///
    /// # Errors
    /// What the device answered, with the offset.
    fn read(&mut self, range: ByteSpan) -> Result<Timed, Error>;

    /// Reads ranges in this order, at most `depth` of them at a time; answers in the same order.
    /// A device that holds fewer requests gets fewer.
    ///
    /// # Errors
    /// What the device answered to the first that failed, with the offset.
    fn read_all(&mut self, ranges: &[ByteSpan], depth: usize) -> Result<Vec<Timed>, Error>;

    /// Lets time pass without reading.
    fn pause(&mut self, time: Nanos);
}
