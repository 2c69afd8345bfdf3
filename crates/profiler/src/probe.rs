//! The interface of a device to be measured.

use crate::Error;
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos};

/// When a read was issued and when its data had arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When it was issued.
    pub issued: Instant,
    /// When its data had arrived.
    pub finished: Instant,
}

impl Timed {
    /// Its response time.
    #[must_use]
    pub fn response(self) -> Nanos {
        self.finished - self.issued
    }
}

/// A device that can be read and timed: a real device or file ([`Target`](super::Target)), or a modelled
/// device in virtual time ([`ModelProbe`](super::ModelProbe)). The measurement is the same for both, so that
/// it is tested without waiting.
pub trait Probe {
    /// The capacity.
    fn capacity(&self) -> Bytes;

    /// Offsets and lengths of reads must be multiples of this; it divides a page.
    fn block(&self) -> Bytes;

    /// The time now, on the clock of [`Timed`].
    fn now(&self) -> Instant;

    /// Reads one range.
    ///
    /// # Errors
    /// The device's error, with the offset.
    fn read(&mut self, range: ByteSpan) -> Result<Timed, Error>;

    /// Reads ranges in this order, at most `depth` of them at a time; returns their times in the same order.
    /// A device with a shorter queue gets fewer at a time.
    ///
    /// # Errors
    /// The error of the first read that failed, with the offset.
    fn read_all(&mut self, ranges: &[ByteSpan], depth: usize) -> Result<Vec<Timed>, Error>;

    /// Lets time pass without reading.
    fn pause(&mut self, time: Nanos);
}
