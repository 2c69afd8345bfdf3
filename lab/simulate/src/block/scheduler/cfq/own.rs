//! The queue of one process, and the data on the process.

use super::super::habits::Mean;
use super::super::queue::RequestQueue;
use crate::block::Request;
use foreseek_seam::ProcessId;
use foreseek_units::Lba;

/// A queue: a process's, or that of all asynchronous requests.
pub(super) type Key = Option<ProcessId>;

/// Ticks for which the disk is kept idle.
pub(super) const IDLE: u64 = 8;
/// The same for a process that seeks far, which gains only its fair share by it.
const IDLE_SEEKY: u64 = 2;
/// A mean seek of more sectors than this is far.
const SEEKY: u64 = 128 * 1024;
/// A mean is used once it weighs more than this: from the third sample on.
const VALID: u64 = 80;

/// A queue's place among the others: its list, and its place in it.
pub(super) type QueueRank = (usize, (bool, u64));

/// The queue of a process, or of all asynchronous requests.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) queue: RequestQueue,
    pub(super) in_device: usize,
    pub(super) running: bool,
    /// Whether it pays to keep the disk idle for it.
    pub(super) idles: bool,
    /// Whether it has not been served yet.
    pub(super) new: bool,
    pub(super) place: Option<QueueRank>,
    /// The tick at which its last request was complete.
    pub(super) last_end: u64,
    position: Lba,
    think: Mean,
    seek: Mean,
}

impl Own {
    /// The queue of a new process: as if it had completed a request now.
    pub(super) fn new(tick: u64) -> Self {
        Self {
            queue: RequestQueue::default(),
            in_device: 0,
            running: true,
            idles: true,
            new: true,
            place: None,
            last_end: tick,
            position: Lba::ZERO,
            think: Mean::default(),
            seek: Mean::default(),
        }
    }

    /// A new process has the number of an ended one, whose requests are still here.
    pub(super) fn renew(&mut self, tick: u64) {
        let queue = std::mem::take(&mut self.queue);
        *self = Self { queue, in_device: self.in_device, place: self.place, ..Self::new(tick) };
    }

    /// Whether nothing is left of a process that has ended.
    pub(super) fn gone(&self, key: Key) -> bool {
        key.is_some() && !self.running && self.queue.is_empty() && self.in_device == 0
    }

    fn seeky(&self) -> bool {
        self.seek.get().is_some_and(|mean| mean > SEEKY)
    }

    /// The process makes a synchronous request. `tagged`: the device orders requests itself.
    pub(super) fn asks(&mut self, tick: u64, request: &Request, tagged: bool) {
        self.think.think((tick - self.last_end).min(2 * IDLE));
        self.seek.seek(self.position.distance(request.range.start).get());
        self.position = request.range.end;
        if tagged && self.seeky() {
            self.idles = false;
        } else if self.think.weight() > VALID {
            self.idles = self.think.get().is_some_and(|mean| mean <= IDLE);
        }
    }

    /// The tick until which the disk may be kept idle for it.
    pub(super) fn idle_until(&self) -> u64 {
        let seeky = self.seek.weight() > VALID && self.seeky();
        self.last_end + if seeky { IDLE_SEEKY } else { IDLE }
    }
}
