//! Work on many items by several threads, with the results in the order of the items.
//!
//! Threads take the items in order, a few at a time: a disk's queue then holds several requests that lie near
//! each other. No thread outlives the call.

use crate::Halt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of threads that wait for a disk at a time. Half of a SATA disk's queue (32): enough for the disk
/// to choose the nearest request, and other programs' requests have room.
pub(crate) const THREADS: usize = 16;

/// How many items a thread takes at a time: few, so that the threads' present items lie close together.
const TAKEN: usize = 4;

/// For fewer items one thread is as fast.
const FEW: usize = 8;

/// Applies `work` to every item. If `stop` is set meanwhile, the rest is left out.
pub(crate) fn map<T: Sync, R: Send>(things: &[T], stop: &Halt, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let stopped = || stop.is_set();
    if things.len() < FEW {
        return things.iter().take_while(|_| !stopped()).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        loop {
            let start = next.fetch_add(TAKEN, Ordering::Relaxed);
            if start >= things.len() || stopped() {
                return done;
            }
            let end = things.len().min(start + TAKEN);
            done.push((start, things[start..end].iter().map(&work).collect()));
        }
    };
    let mut done: Vec<(usize, Vec<R>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        threads
            .into_iter()
            .flat_map(|thread| match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    done.sort_unstable_by_key(|(start, _)| *start);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_things() {
        let stop = Halt::default();
        for count in [0, 1, 7, 8, 9, 1000] {
            let things: Vec<usize> = (0..count).collect();
            let doubled = map(&things, &stop, |thing| thing * 2);
            assert_eq!(doubled, things.iter().map(|thing| thing * 2).collect::<Vec<_>>());
        }
        stop.end();
        assert!(map(&[1; 100], &stop, |thing| *thing).is_empty());
    }
}
