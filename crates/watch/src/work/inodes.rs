//! Fetches of inodes.

use super::{Answer, IDLE, Job, LISTERS, Metadata, Worker, has_reader};
use crate::file_system::FileSystem;
use foreseek_seam::FetchId;
use foreseek_storage::{reclaimed, thread_reads};
use foreseek_units::{ByteSpan, Bytes, Pages};
use foreseek_walks::{InodeFetch, Node, Outcome};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};

/// Threads that look inodes up at a time, each the next one in the order of the disk: as many requests are in
/// the disk's queue.
const LOOKERS: usize = LISTERS;
/// After so many look-ups it looks again whether others read.
const LOOKS_EVERY: usize = 32;
/// Blocks in a row that are requested at a time: one call beside others (256 KiB). At the end of a burst a request waits
/// for others, and an unmounted device stays in use for as long.
const TOGETHER: usize = 64;

impl Worker {
    pub(super) fn fetch_metadata_jobs(&self, jobs: &Receiver<Job<InodeFetch>>) {
        let mut metadata = Metadata::default();
        loop {
            let job = jobs.recv_timeout(IDLE);
            self.close_left(&mut metadata);
            match job {
                Ok(Job::Fetch(fetch, nodes)) => {
                    let (before, others) = (metadata.bytes, reclaimed());
                    let (looked_up, outcome) = self.request_inodes(fetch, &nodes, &mut metadata);
                    self.close_left(&mut metadata);
                    // The engine learns how long it took.
                    metadata.wait();
                    let fetched_bytes = metadata.bytes - before + looked_up;
                    self.count_reclaimed(others, fetched_bytes);
                    self.shared.counters.metadata_bytes.add(fetched_bytes.get());
                    self.notify(Answer::Done(fetch, fetched_bytes, outcome));
                }
                Ok(Job::CloseLeft) => {}
                // Nothing is kept open without work.
                Err(RecvTimeoutError::Timeout) => metadata = Metadata::default(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Requests inodes; returns how many bytes were read to look them up.
    fn request_inodes(
        &self,
        fetch: FetchId,
        nodes: &[InodeFetch],
        metadata: &mut Metadata,
    ) -> (Bytes, Outcome) {
        let mut looked_up = Bytes::ZERO;
        let mut outcome = Outcome::Arrived;
        let same = |a: &InodeFetch, b: &InodeFetch| a.which.node.device == b.which.node.device;
        for part in nodes.chunk_by(same) {
            let file_system = self.shared.file_system(part[0].which.node.device);
            let Some(file_system) = file_system.filter(|it| !it.is_left() && !self.is_cancelled(fetch))
            else {
                outcome = Outcome::Partly;
                continue;
            };
            let reach = self.shared.reach(&file_system);
            let mut searched: FxHashMap<Node, bool> = FxHashMap::default();
            let may_look = |InodeFetch { which, .. }: &InodeFetch| {
                which.node == which.directory
                    || *searched.entry(which.directory).or_insert_with(|| reach.may_search(which.directory))
            };
            let mut permitted = part.to_vec();
            permitted.retain(may_look);
            let number = file_system.number;
            if has_reader(metadata, &file_system) {
                permitted.retain(|it| {
                    let block = metadata.address_of(number, it.which.node.inode);
                    block.is_some_and(|block| !metadata.holds(number, block))
                });
                self.disk.look();
                if self.disk.others_read() {
                    self.request_blocks(fetch, &file_system, &permitted, metadata);
                } else {
                    let blocks = Mutex::new(&mut *metadata);
                    looked_up +=
                        self.look_up(fetch, &file_system, Pages(1).bytes(), &permitted, Some(&blocks));
                }
            } else if let Some(geometry) = &file_system.inodes {
                looked_up += self.look_up(fetch, &file_system, geometry.cluster(), &permitted, None);
            }
            if file_system.is_left() || self.is_cancelled(fetch) {
                outcome = Outcome::Partly;
            }
        }
        (looked_up, outcome)
    }

    /// Requests the blocks of inodes, and nothing else: in bursts, and none any more once the fetch is cancelled or the file
    /// system left.
    fn request_blocks(
        &self,
        fetch: FetchId,
        file_system: &FileSystem,
        nodes: &[InodeFetch],
        metadata: &mut Metadata,
    ) {
        let number = file_system.number;
        let blocks = nodes.iter().filter_map(|it| metadata.address_of(number, it.which.node.inode)).collect();
        let goes_on = || !file_system.is_left() && !self.is_cancelled(fetch);
        in_runs(blocks, goes_on, |run| metadata.prefetch(number, run));
    }

    /// Looks inodes up in their order, which is that of the disk; returns how many bytes were read for that. `least` is
    /// read for one. Those that are wanted without their neighbours, those that are not found by their names, and all
    /// once others read, are requested as blocks of the device instead, if they can be.
    fn look_up(
        &self,
        fetch: FetchId,
        file_system: &FileSystem,
        least: Bytes,
        nodes: &[InodeFetch],
        blocks: Option<&Mutex<&mut Metadata>>,
    ) -> Bytes {
        let reach = self.shared.reach(file_system);
        let (next, read) = (AtomicUsize::new(0), AtomicU64::new(0));
        let request_block = |blocks: &Mutex<&mut Metadata>, inode: u64| {
            let metadata = &mut *blocks.lock().unwrap_or_else(PoisonError::into_inner);
            let before = metadata.bytes;
            metadata.prefetch_inodes(file_system.number, [inode]);
            metadata.bytes - before
        };
        let look = || {
            let before = thread_reads();
            let (mut asked, mut as_blocks) = (Bytes::ZERO, Bytes::ZERO);
            loop {
                let at = next.fetch_add(1, Relaxed);
                let Some(InodeFetch { which, together }) = nodes.get(at) else { break };
                if self.is_cancelled(fetch) || file_system.is_left() {
                    break;
                }
                if at.is_multiple_of(LOOKS_EVERY) {
                    self.disk.look();
                }
                let as_block = blocks.filter(|_| !together || self.disk.others_read());
                if as_block.is_none() && reach.look_up(*which).is_ok() {
                    asked += least;
                } else if let Some(blocks) = blocks {
                    // The block of one that is gone by now holds inodes of others.
                    as_blocks += request_block(blocks, which.node.inode);
                }
            }
            // A kernel that does not account for reads: what was requested.
            let bytes =
                thread_reads().zip(before).map_or(asked, |(after, before)| after - before - as_blocks);
            read.fetch_add(bytes.get(), Relaxed);
        };
        std::thread::scope(|scope| {
            for _ in 1..LOOKERS.min(nodes.len()) {
                // With fewer threads it takes longer.
                let _ = std::thread::Builder::new().name("watch-look".to_owned()).spawn_scoped(scope, look);
            }
            look();
        });
        Bytes(read.into_inner())
    }
}

/// Requests blocks in the order of the disk, those in a row together, for as long as `goes_on` says so.
fn in_runs(mut blocks: Vec<ByteSpan>, goes_on: impl Fn() -> bool, request: impl FnMut(Vec<ByteSpan>)) {
    blocks.sort_unstable_by_key(|block| block.start);
    blocks.dedup();
    let rows = blocks.chunk_by(|one, next| one.end == next.start);
    let runs = rows.flat_map(|row| row.chunks(TOGETHER)).take_while(|_| goes_on());
    runs.map(<[ByteSpan]>::to_vec).for_each(request);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_disk::{TestDisk, until};
    use foreseek_units::ByteOffset;
    use foreseek_walks::InDirectory;
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    fn block(number: u64) -> ByteSpan {
        ByteSpan::at(ByteOffset(number * 4096), Bytes(4096))
    }

    #[test]
    fn blocks_in_a_row_go_out_together_and_none_once_they_are_not_wanted() {
        let numbers = [9, 3, 4, 9, 1000].into_iter().chain(100..230);
        let blocks: Vec<ByteSpan> = numbers.map(block).collect();
        let (left, mut runs) = (Cell::new(usize::MAX), Vec::new());
        let goes_on = || left.replace(left.get().saturating_sub(1)) > 0;
        in_runs(blocks.clone(), goes_on, |run| runs.push(run));
        let rows = [3..5, 9..10, 100..164, 164..228, 228..230, 1000..1001];
        assert_eq!(runs, rows.map(|row| row.map(block).collect::<Vec<_>>()));
        left.set(2);
        runs.clear();
        in_runs(blocks, goes_on, |run| runs.push(run));
        assert_eq!(runs.len(), 2);
    }

    #[test]
    fn of_a_file_system_that_is_left_no_inodes_are_requested_and_its_device_is_closed() {
        let Some(disk) = TestDisk::new(true) else { return };
        disk.cold();
        let file_system = disk.file_system(0);
        let worker = Worker::for_tests(&[&file_system], channel().0);
        let inodes = (1000..20_000).step_by(100);
        let nodes: Vec<InodeFetch> = inodes
            .map(|inode| {
                let node = file_system.node(inode);
                InodeFetch { which: InDirectory { node, directory: node }, together: true }
            })
            .collect();
        let mut metadata = Metadata::default();
        assert!(has_reader(&mut metadata, &file_system));
        let (wanted, cancelled) = (FetchId(1), FetchId(2));
        worker.cancelled.lock().unwrap().insert(cancelled);
        worker.request_blocks(cancelled, &file_system, &nodes, &mut metadata);
        assert_eq!(metadata.bytes, Bytes::ZERO);
        let (half, rest) = nodes.split_at(nodes.len() / 2);
        worker.request_blocks(wanted, &file_system, half, &mut metadata);
        let requested = metadata.bytes;
        assert!(requested >= Bytes::kib(100), "{requested}");
        disk.unmount();
        assert!(!disk.is_free(), "its device is open");
        file_system.leave();
        worker.request_blocks(wanted, &file_system, rest, &mut metadata);
        assert_eq!(metadata.bytes, requested);
        assert_eq!(worker.request_inodes(wanted, rest, &mut metadata).1, Outcome::Partly);
        // Before it waits for what was requested.
        worker.close_left(&mut metadata);
        assert!(until(|| disk.is_free()));
    }
}
