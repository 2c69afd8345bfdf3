//! Fetches of inodes.

use super::{Answer, IDLE, Job, LISTERS, Metadata, Worker, has_reader};
use crate::file_system::FileSystem;
use foreseek_seam::FetchId;
use foreseek_storage::{reclaimed, thread_reads};
use foreseek_units::{Bytes, Pages};
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
                    // In bursts, and nothing but their own blocks.
                    metadata.prefetch_inodes(number, permitted.iter().map(|it| it.which.node.inode));
                } else {
                    let blocks = Mutex::new(&mut *metadata);
                    looked_up +=
                        self.look_up(fetch, &file_system, Pages(1).bytes(), &permitted, Some(&blocks));
                }
            } else if let Some(geometry) = &file_system.inodes {
                looked_up += self.look_up(fetch, &file_system, geometry.cluster(), &permitted, None);
            }
        }
        (looked_up, outcome)
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
