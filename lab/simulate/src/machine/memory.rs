//! Memory: what is left for the page cache, and making room in it.
//!
//! The page cache has what the system's own part and the processes' private memory leave. Private
//! memory displaces page cache up to its share (`Memory::private_share`). What exceeds that is
//! swapped out: the kernel takes the pages that have not been used for longest, which of a request
//! handler are those it will not need again before it ends. Swap traffic itself is not modelled (the
//! papers' machines had a second disk), only counted; a machine whose handlers touch all of
//! their memory all the time would do worse than this.
//!
//! Room is made as kswapd does it: when no more than `low` pages are free, until `high` are.

use super::Machine;
use super::files::Entry;
use super::names::FrameNo;
use foreseek_units::{Instant, Pages};

/// Who has the memory now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// The processes' private memory, swapped or not.
    pub(super) private: Pages,
    /// What that leaves for the page cache.
    pub(super) limit: Pages,
    /// Nothing could be reclaimed, and nothing has changed since.
    pub(super) stuck: bool,
}

impl Machine {
    /// How much the page cache may hold.
    pub(super) fn cache_limit(&self) -> Pages {
        self.memory.limit
    }

    /// A process takes private memory.
    pub(super) fn take(&mut self, memory: Pages) {
        self.memory.private += memory;
        self.resized();
        self.room();
    }

    /// A process's private memory is free again.
    pub(super) fn give_back(&mut self, memory: Pages) {
        self.memory.private -= memory;
        self.resized();
    }

    /// Private memory has changed.
    pub(super) fn resized(&mut self) {
        let memory = &self.settings.memory;
        let total = memory.total.pages_floor();
        let share = total.scale(memory.private_share);
        self.memory.limit = total - memory.system.pages_ceil() - self.memory.private.min(share);
        let swapped = self.memory.private - share;
        self.metrics.counters.swapped_most = self.metrics.counters.swapped_most.max(swapped);
        self.reclaim.resized(self.now, self.cache_limit());
        self.memory_came();
    }

    fn free(&self) -> Pages {
        self.cache_limit() - self.frames.used()
    }

    /// Whether there is a page to be had; reclaims where few are left.
    pub(super) fn room(&mut self) -> bool {
        let memory = self.settings.memory;
        if self.free() > memory.low {
            return true;
        }
        if !self.memory.stuck {
            while self.free() < memory.high {
                self.bill += self.settings.costs.reclaim;
                let Some(victim) = self.reclaim.victim(self.now) else {
                    self.memory.stuck = true;
                    self.write_back_for_memory();
                    break;
                };
                self.metrics.counters.reclaimed += Pages(1);
                self.evict(victim);
            }
        }
        !self.free().is_zero()
    }

    /// A page that page replacement knows no longer leaves the cache.
    pub(super) fn evict(&mut self, victim: FrameNo) {
        let frame = self.frames.remove(victim);
        let entry = if frame.ahead {
            self.metrics.counters.wasted += Pages(1);
            Entry::Evicted(frame.opening)
        } else {
            Entry::Absent
        };
        self.files[frame.file.0 as usize].set(frame.page(), entry);
    }

    /// One more reason not to reclaim a page.
    pub(super) fn hold(&mut self, frame: FrameNo) {
        let page = self.frames.get_mut(frame);
        page.holds += 1;
        if page.holds == 1 {
            self.reclaim.held(frame, true);
        }
    }

    /// One reason less: somebody may have waited for it.
    pub(super) fn let_go(&mut self, frame: FrameNo) {
        let page = self.frames.get_mut(frame);
        page.holds -= 1;
        if page.holds > 0 {
            return;
        }
        self.reclaim.held(frame, false);
        self.memory_came();
    }

    /// There may be a page to be had again.
    pub(super) fn memory_came(&mut self) {
        self.memory.stuck = false;
        while let Some(process) = self.short_of_memory.pop_front() {
            if let Some(one) = self.processes.get_mut(process as usize) {
                one.retrying = true;
            }
            self.ready(process);
        }
    }

    /// Arranges the next call of page replacement.
    pub(super) fn arrange_reclaim(&mut self) {
        if let Some(at) = self.reclaim.deadline().filter(|at| *at > self.now) {
            self.events.arrange(at.max(Instant::ZERO), super::events::Event::Reclaim);
        }
    }
}
