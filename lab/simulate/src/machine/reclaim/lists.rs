//! The active and the inactive list of Linux.

use super::contract::{Inserted, Reclaim, Why};
use super::zone::{Entering, Pass, Zone};
use crate::machine::names::FrameNo;
use crate::machine::settings::Memory;
use foreseek_cache::{Balance, TwoLists};
use foreseek_units::{Instant, Pages};

/// The lists of a kernel, with private memory on them or without it.
#[derive(Debug)]
pub(super) enum Lists {
    /// Only pages of files; private memory is a share of all ([`Memory::private_share`]).
    Files(TwoLists),
    /// All pages ([`Memory::paged`]).
    All(Zone),
}

impl Lists {
    pub(super) fn linux_2_6(memory: &Memory) -> Self {
        if memory.paged {
            Self::All(Zone::new(memory.total.pages_floor()))
        } else {
            Self::Files(TwoLists::new(Balance::Proportional))
        }
    }

    pub(super) fn insert(&mut self, frame: u32, why: Why, held: bool) {
        match self {
            Self::Files(lists) => lists.insert(frame, held),
            Self::All(zone) => {
                let private = matches!(why, Why::Private | Why::Swapped);
                let mapped = why == Why::Private;
                zone.insert(frame, Entering { active: private, private, mapped, held });
            }
        }
    }

    pub(super) fn referenced(&mut self, frame: u32) {
        match self {
            Self::Files(lists) => lists.referenced(frame),
            Self::All(zone) => zone.referenced(frame),
        }
    }

    pub(super) fn hold(&mut self, frame: u32, held: bool) {
        match self {
            Self::Files(lists) => lists.hold(frame, held),
            Self::All(zone) => zone.hold(frame, held),
        }
    }

    pub(super) fn remove(&mut self, frame: u32) {
        match self {
            Self::Files(lists) => lists.remove(frame),
            Self::All(zone) => zone.remove(frame),
        }
    }

    pub(super) fn renew(&mut self, frame: u32) {
        if let Self::Files(lists) = self {
            lists.renew(frame);
        }
    }

    pub(super) fn mapped(&mut self, frame: u32) {
        if let Self::All(zone) = self {
            zone.map(frame);
        }
    }

    pub(super) fn touched(&mut self, frame: u32) {
        if let Self::All(zone) = self {
            zone.touched(frame);
        }
    }

    pub(super) fn frames(&self) -> u64 {
        match self {
            Self::Files(lists) => lists.frames(),
            Self::All(zone) => zone.frames(),
        }
    }

    /// The victim, for lists without private memory.
    pub(super) fn victim(&mut self) -> Option<FrameNo> {
        match self {
            Self::Files(lists) => lists.victim().map(FrameNo),
            Self::All(_) => None,
        }
    }

    /// A pass; lists without passes return single victims.
    pub(super) fn pass(&mut self, wanted: Pages, priority: u32, victims: &mut Vec<FrameNo>) -> Pass {
        match self {
            Self::Files(lists) => {
                let first = victims.len();
                victims.extend((0..wanted.get()).map_while(|_| lists.victim()).map(FrameNo));
                let taken = Pages((victims.len() - first) as u64);
                Pass { freed: taken, scanned: taken }
            }
            Self::All(zone) => zone.pass(wanted, priority, victims),
        }
    }

    pub(super) fn rest(&mut self, priority: u32) {
        if let Self::All(zone) = self {
            zone.rest(priority);
        }
    }
}

/// The active and the inactive list of Linux: pages that are read enter the inactive list, the second use makes
/// them active. Kernels differ in the allowed length of the active list ([`Balance`]).
#[derive(Debug)]
pub struct LinuxLists {
    lists: Lists,
}

impl LinuxLists {
    /// Those of Linux 2.6 in a machine with this memory, empty.
    #[must_use]
    pub fn linux_2_6(memory: &Memory) -> Self {
        Self { lists: Lists::linux_2_6(memory) }
    }

    /// Those of Linux 6, empty.
    #[must_use]
    pub fn linux_6() -> Self {
        Self { lists: Lists::Files(TwoLists::new(Balance::Equal)) }
    }
}

impl Reclaim for LinuxLists {
    fn inserted(&mut self, _now: Instant, inserted: Inserted) {
        self.lists.insert(inserted.frame.0, inserted.why, inserted.held());
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

    fn renewed(&mut self, _now: Instant, frame: FrameNo) {
        self.lists.renew(frame.0);
    }

    fn victim(&mut self, _now: Instant) -> Option<FrameNo> {
        self.lists.victim()
    }

    fn mapped(&mut self, frame: FrameNo) {
        self.lists.mapped(frame.0);
    }

    fn touched(&mut self, frame: FrameNo) {
        self.lists.touched(frame.0);
    }

    fn pass(&mut self, _now: Instant, wanted: Pages, priority: u32, victims: &mut Vec<FrameNo>) -> Pass {
        self.lists.pass(wanted, priority, victims)
    }

    fn rested(&mut self, priority: u32) {
        self.lists.rest(priority);
    }
}
