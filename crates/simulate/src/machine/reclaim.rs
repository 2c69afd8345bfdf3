//! Which page goes when memory is short.
//!
//! The machine tells a [`Reclaim`] what happens to each frame and asks it for victims. The lists of
//! Linux 2.6 are one implementation ([`Linux26`]); a prefetch cache (TR-840 section 4) is another:
//! what it needs to know of processes, misses and time is in the methods that the lists leave at
//! their defaults.

use super::frames::FrameNo;
use foreseek_cache::{Balance, TwoLists};
use foreseek_prefetch::engine::{ObjectId, Who};
use foreseek_units::{Instant, PageIndex, Pages};

/// Why a page was put into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Its reader waits for it.
    Demand,
    /// Ahead of its use.
    Ahead,
    /// A process writes it.
    Write,
}

/// A page that has just been put into the cache. It is held until the machine says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// Where it is.
    pub frame: FrameNo,
    /// Of which file.
    pub object: ObjectId,
    /// Which page of it.
    pub page: PageIndex,
    /// Why.
    pub why: Why,
    /// For which process.
    pub who: Who,
}

/// The names that [`by_name`] knows, with what they mean.
pub const NAMES: &[(&str, &str)] = &[("linux-2.6", "an active and an inactive list")];

/// The page replacement of a name.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Reclaim>> {
    Some(match name {
        "linux-2.6" => Box::new(Linux26::new()),
        _ => return None,
    })
}

/// Page replacement. Deterministic: the same calls, the same victims.
pub trait Reclaim: Send {
    /// A page is put into the cache.
    fn inserted(&mut self, now: Instant, inserted: Inserted);
    /// A page is used.
    fn referenced(&mut self, now: Instant, frame: FrameNo);
    /// A page may not be (or may again be) a victim: it is on its way, dirty or about to be used.
    fn held(&mut self, frame: FrameNo, held: bool);
    /// Takes the page that goes first out of the lists; none where every page is held. Pages leave in no
    /// other way.
    fn victim(&mut self, now: Instant) -> Option<FrameNo>;

    /// A page was wanted that is not in memory. `unused` tells that it had been read ahead for the
    /// same opening of the file and was evicted before its use.
    fn missed(&mut self, _now: Instant, _object: ObjectId, _page: PageIndex, _unused: bool) {}
    /// A process gets a processor.
    fn ran(&mut self, _now: Instant, _who: Who) {}
    /// A process has ended.
    fn exited(&mut self, _now: Instant, _who: Who) {}
    /// How much memory there is for cached pages now.
    fn resized(&mut self, _now: Instant, _memory: Pages) {}
    /// When [`Reclaim::tick`] is to be called; asked before the first event and after each tick.
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// The deadline has come.
    fn tick(&mut self, _now: Instant) {}
    /// The most that one of so many open streams may read ahead (TR-840 section 4.2).
    fn bound(&self, _streams: usize) -> Option<Pages> {
        None
    }
}

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
