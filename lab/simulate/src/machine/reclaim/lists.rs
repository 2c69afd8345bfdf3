//! The active and the inactive list of Linux.

use super::contract::{Inserted, Reclaim};
use crate::machine::names::FrameNo;
use foreseek_cache::{Balance, TwoLists};
use foreseek_units::Instant;

/// The active and the inactive list of Linux: pages that are read enter the inactive list, the second
/// use makes them active. Kernels differ in how long they let the active list become ([`Balance`]).
#[derive(Debug)]
pub struct LinuxLists {
    lists: TwoLists,
}

impl LinuxLists {
    /// Those of Linux 2.6, empty.
    #[must_use]
    pub fn linux_2_6() -> Self {
        Self { lists: TwoLists::new(Balance::Proportional) }
    }

    /// Those of Linux 6, empty.
    #[must_use]
    pub fn linux_6() -> Self {
        Self { lists: TwoLists::new(Balance::Equal) }
    }
}

impl Reclaim for LinuxLists {
    fn inserted(&mut self, _now: Instant, inserted: Inserted) {
        self.lists.insert(inserted.frame.0, true);
    }

    fn referenced(&mut self, _now: Instant, frame: FrameNo) {
        self.lists.referenced(frame.0);
    }

    fn held(&mut self, frame: FrameNo, held: bool) {
        self.lists.hold(frame.0, held);
    }

    fn removed(&mut self, frame: FrameNo) {
        self.lists.remove(frame.0);
    }

    fn victim(&mut self, _now: Instant) -> Option<FrameNo> {
        self.lists.victim().map(FrameNo)
    }
}
