//! What a page replacement is told and what it is asked.

use super::zone::Pass;
use crate::machine::names::FrameNo;
use foreseek_seam::{ObjectId, ProcessId, StreamId};
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
    /// Private memory that its process touches for the first time, or touches while it is being swapped out.
    Private,
    /// Private memory that is read back.
    Swapped,
}

/// A page that has just been put into the cache. It is held until the machine says otherwise, but for private memory
/// that nothing is read for.
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
    pub who: ProcessId,
    /// For which of its open files.
    pub stream: StreamId,
}

impl Inserted {
    /// Whether it is held.
    pub(super) fn held(&self) -> bool {
        self.why != Why::Private
    }
}

/// Page replacement. Deterministic: the same calls, the same victims.
pub trait Reclaim: Send {
    /// A page is put into the cache.
    fn inserted(&mut self, now: Instant, inserted: Inserted);
    /// A page is used.
    fn referenced(&mut self, now: Instant, frame: FrameNo);
    /// A page may not be (or may again be) a victim: it is on its way, dirty or about to be used.
    fn held(&mut self, frame: FrameNo, held: bool);
    /// A page leaves the cache although nobody asked for a victim: its process gave it back, or the device could
    /// not read it. It is not held.
    fn removed(&mut self, frame: FrameNo);
    /// A page goes to where it would be if it had just been read (ATC'09 section 4.5). Page replacements that do not know
    /// such advice leave it where it is.
    fn renewed(&mut self, _now: Instant, _frame: FrameNo) {}
    /// Takes the page that goes first out of the lists; none where every page is held. Pages leave in no
    /// other way but [`removed`](Self::removed).
    fn victim(&mut self, now: Instant) -> Option<FrameNo>;

    /// A page is mapped into an address space from here on.
    fn mapped(&mut self, _frame: FrameNo) {}
    /// A mapped page is touched.
    fn touched(&mut self, _frame: FrameNo) {}
    /// Where private memory is on the lists ([`Memory::paged`](crate::machine::Memory::paged)) pages go by passes and
    /// not one by one: takes out what one pass of this priority finds, at most about so many pages.
    fn pass(&mut self, _now: Instant, _wanted: Pages, _priority: u32, _victims: &mut Vec<FrameNo>) -> Pass {
        Pass::default()
    }
    /// Balancing has ended, at this priority.
    fn rested(&mut self, _priority: u32) {}

    /// A page was wanted that is not in memory. `unused` tells that it had been read ahead for the
    /// same opening of the file and was evicted before its use.
    fn missed(&mut self, _now: Instant, _object: ObjectId, _page: PageIndex, _unused: bool) {}
    /// A process gets a processor.
    fn ran(&mut self, _now: Instant, _who: ProcessId) {}
    /// A process has ended.
    fn exited(&mut self, _now: Instant, _who: ProcessId) {}
    /// An open file is closed.
    fn closed(&mut self, _now: Instant, _stream: StreamId) {}
    /// How much memory there is for cached pages now.
    fn resized(&mut self, _now: Instant, _memory: Pages) {}
    /// When [`Reclaim::tick`] is to be called; asked before the first event and after each tick.
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// The deadline has come.
    fn tick(&mut self, _now: Instant) {}
    /// The most that one of so many open streams may read ahead (TR-840 section 4.2).
    fn bound(&mut self, _now: Instant, _streams: usize) -> Option<Pages> {
        None
    }
}
