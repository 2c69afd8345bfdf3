//! Memory: its users, and how room is made in it.
//!
//! *Where private memory consists of pages* ([`Memory::paged`](super::Memory::paged), the papers' machines),
//! all memory except the system's own part is pages on the lists ([`super::private`]). Room is made as in 2.6.3
//! (`balance_pgdat`, `try_to_free_pages`). When no more than `low` pages are free, kswapd makes passes until
//! `high` are. Their priority rises from 12 to 1 while that does not suffice, with a nap of 100 ms after each
//! (`blk_congestion_wait`; that a queue of writes which is no longer congested ends the nap is left out). Where
//! no more than `min` are free, a process that needs a page makes a pass for 32 itself, with kswapd's priority,
//! and waits if that frees nothing.
//!
//! *Elsewhere* the page cache has what the system's own part and private memory leave. Private memory displaces
//! page cache up to its share (`Memory::private_share`). What exceeds that counts as swapped out: the kernel
//! takes the least recently used pages, which in a request handler are those that it will not need again before
//! it ends. There is no swap traffic. Pages are reclaimed one by one when no more than `low` are free, until
//! `high` are.

use super::events::Event;
use super::files::PageEntry;
use super::names::FrameNo;
use super::reclaim::PRIORITY;
use super::{Machine, MachineError};
use foreseek_units::{Instant, Nanos, Pages};

/// Pages that a process frees for itself: `SWAP_CLUSTER_MAX`.
const FOR_ITSELF: Pages = Pages(32);
/// How long kswapd naps between two passes: `HZ/10`.
const NAP: Nanos = Nanos::from_millis(100);

/// The present use of the memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// The processes' private memory, swapped or not.
    pub(super) private: Pages,
    /// The rest, for the page cache.
    pub(super) limit: Pages,
    /// Nothing could be reclaimed, and nothing has changed since.
    pub(super) stuck: bool,
    /// The priority of kswapd's next pass, while it balances.
    balancing: Option<u32>,
}

impl Machine {
    /// How much the page cache may hold.
    pub(super) fn cache_limit(&self) -> Pages {
        self.memory.limit
    }

    /// A process takes private memory.
    pub(super) fn take(&mut self, process: u32, memory: Pages) -> Result<(), MachineError> {
        if self.settings.memory.paged {
            return self.own(process, memory);
        }
        self.memory.private += memory;
        self.resized();
        self.room();
        Ok(())
    }

    /// A process's private memory is free again.
    pub(super) fn give_back(&mut self, memory: Pages) {
        if self.settings.memory.paged {
            return;
        }
        self.memory.private -= memory;
        self.resized();
    }

    /// Private memory has changed.
    pub(super) fn resized(&mut self) {
        let memory = &self.settings.memory;
        let total = memory.total.pages_floor();
        if memory.paged {
            self.memory.limit = total - memory.system.pages_ceil();
            return self.reclaim.resized(self.now, self.cache_limit());
        }
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

    /// Whether a page can be had; reclaims where few are free.
    pub(super) fn room(&mut self) -> bool {
        let memory = self.settings.memory;
        if memory.paged {
            return self.room_by_passes();
        }
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

    /// The same where pages are reclaimed by passes.
    fn room_by_passes(&mut self) -> bool {
        let low = self.settings.memory.low;
        let min = low / 2;
        if self.free() > low {
            return true;
        }
        if self.memory.balancing.is_none() {
            self.memory.balancing = Some(PRIORITY);
            self.balance();
        }
        if self.free() <= min && !self.memory.stuck {
            self.shrink(FOR_ITSELF, self.memory.balancing.unwrap_or(PRIORITY));
            self.memory.stuck = self.free() <= min;
        }
        self.free() > min
    }

    /// One pass of kswapd. Ends the balancing, or schedules the next pass.
    fn balance(&mut self) {
        let Some(priority) = self.memory.balancing else { return };
        let high = self.settings.memory.high;
        self.shrink(high - self.free(), priority);
        if self.free() >= high || priority == 1 {
            self.memory.balancing = None;
            self.reclaim.rested(priority);
        } else {
            self.memory.balancing = Some(priority - 1);
            self.events.arrange(self.now + NAP, Event::Balance);
        }
    }

    /// Kswapd's nap is over.
    pub(super) fn balance_on(&mut self) {
        if let Some(priority) = self.memory.balancing {
            if self.free() >= self.settings.memory.high {
                self.memory.balancing = None;
                self.reclaim.rested(priority + 1);
            } else {
                self.balance();
            }
        }
        self.memory_came();
        self.work_of_kernel();
    }

    fn shrink(&mut self, wanted: Pages, priority: u32) {
        let mut victims = Vec::new();
        let pass = self.reclaim.pass(self.now, wanted, priority, &mut victims);
        self.bill += self.settings.costs.reclaim * pass.scanned.get();
        self.metrics.counters.reclaimed += Pages(victims.len() as u64);
        let swap = self.swap.as_ref().map(|swap| swap.file);
        let private = victims.extract_if(.., |frame| Some(self.frames.get(*frame).file) == swap).collect();
        self.swap_out(private);
        for victim in victims {
            self.evict(victim);
        }
        if pass.freed.is_zero() {
            self.write_back_for_memory();
        }
    }

    /// A page that page replacement has removed from its lists leaves the cache.
    pub(super) fn evict(&mut self, victim: FrameNo) {
        let frame = self.frames.remove(victim);
        let entry = if frame.ahead {
            self.metrics.counters.wasted += Pages(1);
            PageEntry::Evicted(frame.opening)
        } else {
            PageEntry::Absent
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

    /// One reason less: a process may have waited for that.
    pub(super) fn let_go(&mut self, frame: FrameNo) {
        let page = self.frames.get_mut(frame);
        page.holds -= 1;
        if page.holds > 0 {
            return;
        }
        self.reclaim.held(frame, false);
        self.memory_came();
    }

    /// A page may be available again.
    pub(super) fn memory_came(&mut self) {
        self.memory.stuck = false;
        while let Some(process) = self.short_of_memory.pop_front() {
            if let Some(one) = self.processes.get_mut(process as usize) {
                one.retrying = true;
            }
            self.ready(process);
        }
    }

    /// Schedules the next call of page replacement.
    pub(super) fn arrange_reclaim(&mut self) {
        if let Some(at) = self.reclaim.deadline().filter(|at| *at > self.now) {
            self.events.arrange(at.max(Instant::ZERO), super::events::Event::Reclaim);
        }
    }
}
