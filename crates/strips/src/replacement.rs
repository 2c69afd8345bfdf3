//! The choice of the strip cache that is evicted under memory pressure.
//!
//! "ACC does not determine a cache replacement policy" (section 2.2): any policy can be used. The paper's
//! implementation evicts the least recently used of all, [`Lru`].

use crate::geometry::StripNo;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt;

/// A replacement policy.
pub trait Replacement: Send + fmt::Debug {
    /// A strip has a strip cache from now on.
    fn admitted(&mut self, _strip: StripNo) {}

    /// The host has referenced a strip.
    fn used(&mut self, _strip: StripNo) {}

    /// A strip has no strip cache any more.
    fn gone(&mut self, _strip: StripNo) {}

    /// The strip to evict. `from_bottom` is the global list, least recently used first. Only a strip that
    /// `may_go` can be evicted: the others are being read.
    fn victim(
        &mut self,
        from_bottom: &mut dyn Iterator<Item = StripNo>,
        may_go: &dyn Fn(StripNo) -> bool,
    ) -> Option<StripNo>;
}

/// The least recently used of all: the bottom of the global list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lru;

impl Replacement for Lru {
    fn victim(
        &mut self,
        mut from_bottom: &mut dyn Iterator<Item = StripNo>,
        may_go: &dyn Fn(StripNo) -> bool,
    ) -> Option<StripNo> {
        Iterator::find(&mut from_bottom, |strip| may_go(*strip))
    }
}

/// The oldest one. O(log n) for each strip.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    order: BTreeMap<u64, StripNo>,
    at: FxHashMap<StripNo, u64>,
    next: u64,
}

impl Replacement for Fifo {
    fn admitted(&mut self, strip: StripNo) {
        self.order.insert(self.next, strip);
        self.at.insert(strip, self.next);
        self.next += 1;
    }

    fn gone(&mut self, strip: StripNo) {
        if let Some(at) = self.at.remove(&strip) {
            self.order.remove(&at);
        }
    }

    fn victim(
        &mut self,
        _from_bottom: &mut dyn Iterator<Item = StripNo>,
        may_go: &dyn Fn(StripNo) -> bool,
    ) -> Option<StripNo> {
        self.order.values().copied().find(|strip| may_go(*strip))
    }
}
