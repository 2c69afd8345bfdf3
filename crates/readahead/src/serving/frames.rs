//! The frames and their users.
//!
//! Each user of a frame *holds* it: the I/O that fills it, the prefetch cache, every read that will be or is
//! being answered out of it. When the last user releases it, it is free. Frames beyond the budget lose their
//! memory and get it again when they are next used. The number of frames with memory stays within the budget,
//! as far as holds permit. Each operation is O(1) for a frame.

use foreseek_seam::{Checks, FrameId};
use foreseek_units::Pages;

/// The users of one frame.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    holds: u32,
    /// How many of them are replies: only these the driver ends.
    lent: u32,
    /// Whether the page for which it was taken has arrived.
    filled: bool,
}

/// All frames.
#[derive(Debug)]
pub(super) struct FrameTable {
    uses: Vec<Uses>,
    /// Free and with memory, the last used at the end.
    free: Vec<FrameId>,
    /// Without memory, except those that were never used.
    bare: Vec<FrameId>,
    /// Frames whose memory the driver has yet to drop.
    dropped: Vec<FrameId>,
    budget: usize,
    backed: usize,
    most: usize,
    checks: Checks,
}

impl FrameTable {
    /// This many frames, all usable.
    pub(super) fn new(most: Pages) -> Self {
        let most = usize::try_from(most.get()).unwrap_or(usize::MAX).min(u32::MAX as usize);
        let (uses, free, bare, dropped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { uses, free, bare, dropped, budget: most, backed: 0, most, checks: Checks::default() }
    }

    /// How often a frame was released that had no holder, or unpinned that was not lent.
    pub(super) fn internal_errors(&self) -> u64 {
        self.checks.internal_errors()
    }

    /// How many can be taken now.
    pub(super) fn available(&self) -> usize {
        self.free.len() + self.budget.saturating_sub(self.backed)
    }

    /// How many have memory beyond the budget.
    pub(super) fn excess(&self) -> usize {
        self.backed.saturating_sub(self.budget)
    }

    pub(super) fn free(&self) -> Pages {
        Pages(self.available() as u64)
    }

    pub(super) fn backed(&self) -> Pages {
        Pages(self.backed as u64)
    }

    pub(super) fn budget(&self) -> Pages {
        Pages(self.budget as u64)
    }

    /// Takes a free frame, held once.
    pub(super) fn take(&mut self) -> Option<FrameId> {
        let frame = match self.free.pop() {
            Some(frame) => frame,
            None if self.backed < self.budget => {
                self.backed += 1;
                self.bare.pop().unwrap_or_else(|| {
                    self.uses.push(Uses::default());
                    FrameId(self.uses.len() as u32 - 1)
                })
            }
            None => return None,
        };
        self.uses[frame.0 as usize] = Uses { holds: 1, ..Uses::default() };
        Some(frame)
    }

    /// Adds a holder.
    pub(super) fn hold(&mut self, frame: FrameId) {
        self.uses[frame.0 as usize].holds += 1;
    }

    /// Removes a holder.
    pub(super) fn release(&mut self, frame: FrameId) {
        let uses = &mut self.uses[frame.0 as usize];
        // A frame that is free must not become free twice: two users would get it.
        let Some(holds) = self.checks.some(uses.holds.checked_sub(1)) else { return };
        uses.holds = holds;
        if holds == 0 {
            self.freed(frame);
        }
    }

    /// Its page has arrived.
    pub(super) fn fill(&mut self, frame: FrameId) {
        self.uses[frame.0 as usize].filled = true;
    }

    pub(super) fn is_filled(&self, frame: FrameId) -> bool {
        self.uses[frame.0 as usize].filled
    }

    /// A hold of a read becomes one of its reply.
    pub(super) fn lend(&mut self, frame: FrameId) {
        self.uses[frame.0 as usize].lent += 1;
    }

    /// A reply is over. A frame that was not lent is the driver's error, and changes nothing.
    pub(super) fn unpin(&mut self, frame: FrameId) {
        let lent = self.uses.get_mut(frame.0 as usize).filter(|uses| uses.lent > 0);
        if let Some(uses) = self.checks.some(lent) {
            uses.lent -= 1;
            self.release(frame);
        }
    }

    /// Sets how many frames may have memory. Free frames beyond lose theirs at once.
    pub(super) fn set_budget(&mut self, budget: Pages) {
        self.budget = usize::try_from(budget.get()).unwrap_or(usize::MAX).min(self.most);
        while self.excess() > 0
            && let Some(frame) = self.free.pop()
        {
            self.bare(frame);
        }
    }

    /// The frames whose memory is to go, since the last call.
    pub(super) fn take_dropped(&mut self) -> Vec<FrameId> {
        // A frame that was taken again has its memory back.
        let mut dropped = std::mem::take(&mut self.dropped);
        dropped.retain(|frame| self.uses[frame.0 as usize].holds == 0);
        dropped
    }

    pub(super) fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    fn freed(&mut self, frame: FrameId) {
        if self.excess() > 0 {
            self.bare(frame);
        } else {
            self.free.push(frame);
        }
    }

    fn bare(&mut self, frame: FrameId) {
        self.backed -= 1;
        self.bare.push(frame);
        self.dropped.push(frame);
    }
}
