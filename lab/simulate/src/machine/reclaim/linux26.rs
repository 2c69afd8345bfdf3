//! The lists of Linux 2.6.

use super::contract::{Inserted, Reclaim};
use crate::machine::names::FrameNo;
use foreseek_cache::{Balance, TwoLists};
use foreseek_units::Instant;

/// The active and the inactive list of Linux 2.6: pages that are read enter the inactive list, the
/// second use makes them active.
#[derive(Debug)]
pub struct Linux26 {
    lists: TwoLists,
}

impl Linux26 {
    /// Empty lists.
    #[must_use]
    pub fn new() -> Self {
        Self { lists: TwoLists::new(Balance::Proportional) }
    }
}

impl Default for Linux26 {
    fn default() -> Self {
        Self::new()
    }
}

impl Reclaim for Linux26 {
    fn inserted(&mut self, _now: Instant, inserted: Inserted) {
        self.lists.insert(inserted.frame.0, true);
    }

    fn referenced(&mut self, _now: Instant, frame: FrameNo) {
        self.lists.referenced(frame.0);
    }

    fn held(&mut self, frame: FrameNo, held: bool) {
        self.lists.hold(frame.0, held);
    }

    fn victim(&mut self, _now: Instant) -> Option<FrameNo> {
        self.lists.victim().map(FrameNo)
    }
}
