//! Memory for data in flight: one aligned region, allocated and touched at the start.
//!
//! A server of a block device must not wait for memory: reclaiming memory may wait for that very device to
//! write. All data buffers therefore come from a region of fixed size. When it is used up, a request waits
//! for a buffer in order of arrival, until another request is answered and frees its own. The wait is
//! bounded: a request that holds a buffer waits for no other request. A caller that must not wait uses
//! [`Arena::try_take`].
//!
//! First fit over a list of free runs sorted by address; a freed run is merged with its neighbours. The list
//! has as many entries as there are gaps between a few dozen buffers.
#![allow(unsafe_code)]

use crate::region::{PAGE, Region};
use foreseek_units::Bytes;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A region of page-aligned buffers.
#[derive(Debug)]
pub struct Arena {
    region: Region,
    free: Mutex<Free>,
    returned: Condvar,
}

#[derive(Debug)]
struct Free {
    runs: Vec<PageRun>,
    /// The ticket that may take next, and the next ticket to hand out.
    serving: u64,
    next_ticket: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageRun {
    page: usize,
    pages: usize,
}

/// A buffer, freed when dropped. It is not zeroed: it holds what its last user wrote.
#[derive(Debug)]
pub struct Buffer {
    arena: Arc<Arena>,
    run: PageRun,
    length: usize,
}

impl Arena {
    /// A region of this size, touched so that its pages exist. `None` where there is no memory.
    #[must_use]
    pub fn new(size: Bytes) -> Option<Arc<Self>> {
        Some(Self::over(Region::touched(size)?))
    }

    /// A region of this size whose pages take memory once they are used. `None` where there is no
    /// address space.
    #[must_use]
    pub fn untouched(size: Bytes) -> Option<Arc<Self>> {
        Some(Self::over(Region::reserve(size)?))
    }

    fn over(region: Region) -> Arc<Self> {
        let runs = vec![PageRun { page: 0, pages: region.pages() }];
        let free = Free { runs, serving: 0, next_ticket: 0 };
        Arc::new(Self { region, free: Mutex::new(free), returned: Condvar::new() })
    }

    /// Takes a buffer of `length` bytes; waits until one is free. `None` where the region is smaller than
    /// that.
    #[must_use]
    pub fn take(self: &Arc<Self>, length: usize) -> Option<Buffer> {
        let pages = length.div_ceil(PAGE).max(1);
        if pages > self.region.pages() {
            return None;
        }
        let mut free = self.lock();
        let ticket = free.next_ticket;
        free.next_ticket += 1;
        loop {
            if free.serving == ticket
                && let Some(run) = free.take(pages)
            {
                free.serving += 1;
                if free.serving < free.next_ticket {
                    self.returned.notify_all();
                }
                return Some(Buffer { arena: Arc::clone(self), run, length });
            }
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes a buffer of `length` bytes if one is free and no other caller waits for it.
    #[must_use]
    pub fn try_take(self: &Arc<Self>, length: usize) -> Option<Buffer> {
        let mut free = self.lock();
        if free.serving < free.next_ticket {
            return None;
        }
        let run = free.take(length.div_ceil(PAGE).max(1))?;
        Some(Buffer { arena: Arc::clone(self), run, length })
    }

    fn give_back(&self, run: PageRun) {
        let mut free = self.lock();
        free.give_back(run);
        if free.serving < free.next_ticket {
            self.returned.notify_all();
        }
    }

    /// The list is consistent after every step, so a panic of a thread that held the lock does no harm.
    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Free {
    fn take(&mut self, pages: usize) -> Option<PageRun> {
        let index = self.runs.iter().position(|run| run.pages >= pages)?;
        let run = &mut self.runs[index];
        let taken = PageRun { page: run.page, pages };
        run.page += pages;
        run.pages -= pages;
        if run.pages == 0 {
            self.runs.remove(index);
        }
        Some(taken)
    }

    fn give_back(&mut self, run: PageRun) {
        let index = self.runs.partition_point(|other| other.page < run.page);
        self.runs.insert(index, run);
        if self.runs.get(index + 1).is_some_and(|next| next.page == run.page + run.pages) {
            self.runs[index].pages += self.runs.remove(index + 1).pages;
        }
        if index > 0 && self.runs[index - 1].page + self.runs[index - 1].pages == run.page {
            self.runs[index - 1].pages += self.runs.remove(index).pages;
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the run lies within the region, was zeroed at first, and is this Buffer's alone.
        unsafe { std::slice::from_raw_parts(self.arena.region.page(self.run.page), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the Buffer is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.arena.region.page(self.run.page), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.arena.give_back(self.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buffers_do_not_overlap_and_all_comes_back(
            steps in prop::collection::vec((any::<bool>(), 1..40_000usize, any::<prop::sample::Index>()), 1..80)
        ) {
            let arena = Arena::new(Bytes::mib(4)).expect("memory");
            let mut held: Vec<(Buffer, u8)> = Vec::new();
            for (mark, (give_back, length, which)) in steps.into_iter().enumerate() {
                if give_back && !held.is_empty() {
                    let (buffer, mark) = held.swap_remove(which.index(held.len()));
                    prop_assert!(buffer.iter().all(|byte| *byte == mark), "another buffer overlaps it");
                } else {
                    let mut buffer = arena.take(length).expect("80 buffers of 10 pages fit");
                    prop_assert_eq!(buffer.len(), length);
                    prop_assert_eq!(buffer.as_ptr() as usize % PAGE, 0);
                    buffer.fill(mark as u8);
                    held.push((buffer, mark as u8));
                }
            }
            for (buffer, mark) in &held {
                prop_assert!(buffer.iter().all(|byte| byte == mark));
            }
            drop(held);
            prop_assert_eq!(&arena.lock().runs, &[PageRun { page: 0, pages: arena.region.pages() }]);
        }
    }

    #[test]
    fn a_taker_waits_until_a_buffer_is_freed() {
        let arena = Arena::new(Bytes::kib(8)).expect("memory");
        let held = arena.take(5000).expect("it fits");
        let taker = std::thread::spawn({
            let arena = Arc::clone(&arena);
            move || arena.take(1).map(|buffer| buffer.len())
        });
        while arena.lock().next_ticket < 2 {
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!(taker.join().expect("no panic"), Some(1));
    }

    #[test]
    fn try_take_gets_nothing_that_another_waits_for() {
        let arena = Arena::untouched(Bytes::kib(8)).expect("memory");
        let held = arena.try_take(4096).expect("it fits");
        assert!(arena.try_take(8192).is_none());
        let taker = std::thread::spawn({
            let arena = Arc::clone(&arena);
            move || arena.take(8192).map(|buffer| buffer.len())
        });
        while arena.lock().next_ticket < 1 {
            std::thread::yield_now();
        }
        assert!(arena.try_take(4096).is_none(), "the other came first");
        drop(held);
        assert_eq!(taker.join().expect("no panic"), Some(8192));
        assert!(arena.try_take(8192).is_some());
    }

    #[test]
    fn a_length_beyond_the_region_is_refused_at_once() {
        let arena = Arena::new(Bytes::kib(8)).expect("memory");
        assert!(arena.take(8193).is_none());
        assert!(arena.try_take(8193).is_none());
    }
}
