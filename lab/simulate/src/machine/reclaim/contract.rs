//! The interface of page replacement.

use super::zone::Pass;
use crate::machine::names::FrameNo;
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_units::{Instant, PageIndex, Pages};

/// Why a page was put into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Its reader waits for it.
    Demand,
    /// It is read ahead.
    Ahead,
    /// A process writes it.
    Write,
    /// Private memory that its process touches for the first time, or touches while it is being swapped out.
    Private,
    /// Private memory that is read back.
    Swapped,
}

/// A page that has just been put into the cache. It is held until the machine releases it, except for private
/// memory that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// Its frame.
    pub frame: FrameNo,
    /// Its file.
    pub object: ObjectId,
    /// Its number in the file.
    pub page: PageIndex,
    /// The reason.
    pub why: Why,
    /// The process.
    pub pid: ProcessId,
    /// The open file.
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
    /// A page may not be a victim (or may again be one): it is in flight, dirty or about to be used.
    fn held(&mut self, frame: FrameNo, held: bool);
    /// A page leaves the cache without being a victim: its process gave it back, or the device could not read
    /// it. It is not held.
    fn removed(&mut self, frame: FrameNo);
    /// A page moves to where it would be if it had just been read (ATC'09 section 4.5). Page replacements
    /// without such advice leave it where it is.
    fn renewed(&mut self, _now: Instant, _frame: FrameNo) {}
    /// Takes the victim out of the lists; `None` where every page is held. Pages leave in no other way except
    /// [`removed`](Self::removed).
    fn victim(&mut self, now: Instant) -> Option<FrameNo>;

    /// A page is mapped into an address space from here on.
    fn mapped(&mut self, _frame: FrameNo) {}
    /// A mapped page is touched.
    fn touched(&mut self, _frame: FrameNo) {}
    /// Where private memory is on the lists ([`Memory::paged`](crate::machine::Memory::paged)) pages are
    /// reclaimed by passes, not one by one: takes out what one pass of this priority finds, about `wanted`
    /// pages at most.
    fn pass(&mut self, _now: Instant, _wanted: Pages, _priority: u32, _victims: &mut Vec<FrameNo>) -> Pass {
        Pass::default()
    }
    /// Balancing has ended, at this priority.
    fn rested(&mut self, _priority: u32) {}

    /// A page was touched that is not in memory. `unused`: it had been read ahead for the same opening of the
    /// file and was evicted before its use.
    fn missed(&mut self, _now: Instant, _object: ObjectId, _page: PageIndex, _unused: bool) {}
    /// A process gets a processor.
    fn ran(&mut self, _now: Instant, _who: ProcessId) {}
    /// A process has ended.
    fn exited(&mut self, _now: Instant, _who: ProcessId) {}
    /// An open file is closed.
    fn closed(&mut self, _now: Instant, _stream: StreamId) {}
    /// The memory for cached pages from now on.
    fn resized(&mut self, _now: Instant, _memory: Pages) {}
    /// When [`Reclaim::tick`] is to be called; asked before the first event and after each tick.
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// The deadline has come.
    fn tick(&mut self, _now: Instant) {}
    /// The most that one of this many open streams may read ahead (TR-840 section 4.2).
    fn bound(&mut self, _now: Instant, _streams: usize) -> Option<Pages> {
        None
    }
}
