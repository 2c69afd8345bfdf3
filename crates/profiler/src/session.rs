//! A measurement in progress: the device, the plan, the offsets, the time.

use super::offsets::{Offsets, PAGE, page_at};
use super::plan::Plan;
use super::probe::{Probe, Timed};
use crate::Error;
use foreseek_units::{ByteOffset, Bytes, Instant, Nanos};

/// Called now and then with the current part and the share of the whole that is done.
pub type Progress<'a> = &'a mut dyn FnMut(&'static str, f64);

/// The state that all parts of a measurement share.
pub(super) struct Session<'a> {
    pub(super) probe: &'a mut dyn Probe,
    pub(super) plan: Plan,
    pub(super) offsets: Offsets,
    progress: Progress<'a>,
    started: Instant,
    part: (&'static str, f64, f64),
}

impl<'a> Session<'a> {
    pub(super) fn new(probe: &'a mut dyn Probe, plan: Plan, seed: u64, progress: Progress<'a>) -> Self {
        let started = probe.now();
        Self { probe, plan, offsets: Offsets::new(seed), progress, started, part: ("", 0.0, 0.0) }
    }

    pub(super) fn capacity(&self) -> Bytes {
        self.probe.capacity()
    }

    pub(super) fn elapsed(&self) -> Nanos {
        self.probe.now() - self.started
    }

    /// Whether the plan's time is used up.
    pub(super) fn is_late(&self) -> bool {
        self.elapsed() >= self.plan.limit
    }

    /// Begins a part of the measurement, which is this share of the whole.
    pub(super) fn begin(&mut self, name: &'static str, share: f64) {
        self.part = (name, self.part.1 + self.part.2, share);
        self.at(0.0);
    }

    /// Reports the share of the current part that is done.
    pub(super) fn at(&mut self, share: f64) {
        let (name, before, whole) = self.part;
        (self.progress)(name, (before + whole * share.min(1.0)).min(1.0));
    }

    /// Reads the page at an offset.
    pub(super) fn page(&mut self, offset: ByteOffset) -> Result<Timed, Error> {
        self.probe.read(page_at(offset))
    }

    /// A random offset at which `length` bytes fit.
    pub(super) fn anywhere(&mut self, length: Bytes) -> ByteOffset {
        let last = self.capacity() - length.max(PAGE);
        self.offsets.between(Bytes::ZERO, last)
    }
}
