//! Reads by io_uring: submitted in the requester's thread, completed in one thread.
//!
//! A read is put into the ring under a short lock and submitted outside of it. At most [`AT_A_TIME`] are in
//! flight; the others wait in two queues, of which that of urgent reads goes first. Each read in flight has
//! at most one entry, so the submission queue is never full.
//!
//! Reads that are passed together are submitted together, so that adjacent ones become one request of the
//! device. A read marked [`apart`](super::DiskRead::apart) ends a submission.
//!
//! The kernel cancels requests of a thread that exits. Reads should be requested by threads that live as long
//! as the mount; a read cancelled in this way is reported with that error.
//!
//! Limits: the kernel passes operations that would block (metadata that is not in memory, a full request
//! queue) to a few worker threads of its own.
#![allow(unsafe_code)]

use super::flight::{Next, ReadInFlight};
use super::read::{DiskRead, DiskReader, Ended, Sink};
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most reads in flight: the queue of a block device's scheduler (`nr_requests`, 256), so that the
/// scheduler has as many to choose from as it can hold.
const AT_A_TIME: usize = 256;
/// Entries of the submission queue: one for each read under way and one to wake the thread.
const ENTRIES: u32 = 2 * AT_A_TIME as u32;
/// The longest wait of the thread before it submits leftover entries: there are some only where the kernel
/// refused a submission for lack of memory.
const RESUBMIT: types::Timespec = types::Timespec::new().sec(1);
/// The number of no read: it wakes the thread.
const WAKE: u64 = u64::MAX;
/// `IORING_ENTER_GETEVENTS`, and `IORING_ENTER_EXT_ARG` for the time limit of the wait.
const WAIT: u32 = 1 << 0 | 1 << 3;

/// See the module's documentation.
pub struct UringReads {
    shared: Arc<Shared>,
}

struct Shared {
    ring: IoUring,
    table: Mutex<Table>,
    over: Condvar,
    sink: Sink,
}

#[derive(Default)]
struct Table {
    flights: Slab<ReadInFlight>,
    urgent: VecDeque<DiskRead>,
    patient: VecDeque<DiskRead>,
    /// Entries that the kernel has not accepted yet.
    left: u32,
    stopping: bool,
    over: bool,
}

impl UringReads {
    /// Makes a ring and starts its thread.
    ///
    /// # Errors
    /// The kernel has no io_uring or forbids it, or no thread could be started.
    pub fn start(sink: Sink) -> io::Result<Self> {
        let ring = IoUring::builder().setup_clamp().build(ENTRIES)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "older than Linux 5.11"));
        }
        let (table, over) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { ring, table, over, sink });
        let run = Arc::clone(&shared);
        std::thread::Builder::new().name("reads".to_owned()).spawn(move || run.serve())?;
        Ok(Self { shared })
    }
}

impl DiskReader for UringReads {
    fn start(&self, mut reads: Vec<DiskRead>) -> Vec<DiskRead> {
        let mut refused = Vec::new();
        while !reads.is_empty() {
            let apart = reads.iter().position(|read| read.apart);
            let rest = apart.map_or_else(Vec::new, |at| reads.split_off(at + 1));
            refused.extend(self.shared.accept(std::mem::replace(&mut reads, rest)));
        }
        refused
    }

    fn stop(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut table = self.shared.lock();
        if !table.stopping {
            table.stopping = true;
            let pushed = self.shared.push(&opcode::Nop::new().build().user_data(WAKE));
            drop(table);
            self.shared.submit(pushed);
            // Cancels what waits in the kernel's workers; requests at the device complete.
            let all = types::CancelBuilder::any();
            let _ = self.shared.ring.submitter().register_sync_cancel(Some(types::Timespec::new()), all);
            table = self.shared.lock();
        }
        while !table.over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            table = self.shared.over.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for UringReads {
    fn drop(&mut self) {
        // The thread owns the reads in flight, and ends with them.
        self.stop(Duration::ZERO);
    }
}

impl Shared {
    /// The table is consistent after every step.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts reads or queues them. Returns those that were not accepted.
    fn accept(&self, reads: Vec<DiskRead>) -> Vec<DiskRead> {
        let (mut failed, mut pushed) = (Vec::new(), 0);
        let mut table = self.lock();
        if table.stopping {
            return reads;
        }
        for read in reads {
            if table.flights.len() < AT_A_TIME {
                pushed += self.launch(&mut table, read, &mut failed);
            } else {
                let queue = if read.urgent { &mut table.urgent } else { &mut table.patient };
                queue.push_back(read);
            }
        }
        drop(table);
        self.submit(pushed);
        failed.into_iter().map(|ended| ended.read).collect()
    }

    /// Puts a read into the ring. Returns the number of entries added. A read whose file cannot be opened
    /// ends.
    fn launch(&self, table: &mut Table, read: DiskRead, ended: &mut Vec<Ended>) -> u32 {
        let others = table.flights.len();
        let slot = table.flights.insert(ReadInFlight::new(read, others));
        self.request(table, slot, ended)
    }

    /// Puts the next request of a flight into the ring.
    fn request(&self, table: &mut Table, slot: usize, ended: &mut Vec<Ended>) -> u32 {
        let entry = table.flights[slot].request().map(|request| {
            let vectors = request.vectors.len() as u32;
            let read = opcode::Readv::new(types::Fd(request.fd), request.vectors.as_ptr(), vectors);
            read.offset(request.offset.get()).ioprio(request.priority).build().user_data(slot as u64)
        });
        let error = match entry {
            Ok(entry) if self.push(&entry) > 0 => return 1,
            // The ring has an entry for each read in flight. Without one, this read would never end.
            Ok(_) => Errno::IO,
            Err(error) => error,
        };
        ended.push(table.flights.remove(slot).end(Some(error)));
        0
    }

    /// Puts an entry into the ring. Returns the number of entries added, which is one while there is room.
    /// The caller holds the table's lock.
    fn push(&self, entry: &io_uring::squeue::Entry) -> u32 {
        // SAFETY: the lock is held, so only one submission queue exists at a time. The memory and the
        // descriptor of the entry belong to a flight, which stays in its slot until the kernel has answered.
        let pushed = unsafe { self.ring.submission_shared().push(entry) };
        u32::from(pushed.is_ok())
    }

    /// Submits this many entries of the ring.
    fn submit(&self, entries: u32) {
        let mut left = entries;
        while left > 0 {
            // SAFETY: no argument is passed.
            match unsafe { self.ring.submitter().enter::<libc::sigset_t>(left, 0, 0, None) } {
                // Another thread has submitted them.
                Ok(0) => break,
                Ok(taken) => left = left.saturating_sub(taken as u32),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(_) => {
                    self.lock().left += left;
                    break;
                }
            }
        }
    }

    /// The main loop of the thread. It ends when all reads have ended after `stop`.
    fn serve(&self) {
        let mut answers = Vec::with_capacity(ENTRIES as usize);
        loop {
            // SAFETY: only this thread uses the completion queue.
            let completions = unsafe { self.ring.completion_shared() };
            answers.extend(completions.map(|entry| (entry.user_data(), entry.result())));
            if answers.is_empty() && self.wait() {
                return;
            }
            let ended = self.take(&mut answers);
            if !ended.is_empty() {
                (self.sink)(ended);
            }
        }
    }

    /// Takes answers, requests what is left and starts queued reads. Returns the reads that have ended.
    fn take(&self, answers: &mut Vec<(u64, i32)>) -> Vec<Ended> {
        let (mut ended, mut pushed) = (Vec::new(), 0);
        let mut table = self.lock();
        for (number, result) in answers.drain(..).filter(|(number, _)| *number != WAKE) {
            let slot = number as usize;
            let answer = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
            match table.flights[slot].answered(answer) {
                Next::Again => pushed += self.request(&mut table, slot, &mut ended),
                Next::Over(error) => ended.push(table.flights.remove(slot).end(error)),
            }
        }
        while table.stopping || table.flights.len() < AT_A_TIME {
            let next = table.urgent.pop_front();
            let Some(read) = next.or_else(|| table.patient.pop_front()) else { break };
            if table.stopping {
                ended.push(ReadInFlight::new(read, 0).end(Some(Errno::CANCELED)));
            } else {
                pushed += self.launch(&mut table, read, &mut ended);
            }
        }
        pushed += std::mem::take(&mut table.left);
        drop(table);
        self.submit(pushed);
        ended
    }

    /// Waits for answers. Returns whether there will be no more.
    fn wait(&self) -> bool {
        let mut table = self.lock();
        if table.stopping && table.flights.is_empty() && table.urgent.is_empty() && table.patient.is_empty() {
            table.over = true;
            self.over.notify_all();
            return true;
        }
        drop(table);
        let limit = types::SubmitArgs::new().timespec(&RESUBMIT);
        // SAFETY: the argument is the structure that the flags announce, and outlives the call. After an
        // early end or an error, the caller's loop tries again.
        let _ = unsafe { self.ring.submitter().enter(0, 1, WAIT, Some(&limit)) };
        false
    }
}
