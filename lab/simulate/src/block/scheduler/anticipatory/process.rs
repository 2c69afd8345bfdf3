//! The data of the anticipatory scheduler on each process, and on new processes.

use super::super::habits::{Mean, ONE};
use crate::block::Request;
use foreseek_units::{Lba, Sectors};

/// Longer think times count as this: `HZ/50` (20 ms) less a tick. A longer pause would show little more, and
/// would be forgotten too slowly.
const THINK_LIMIT: u64 = 19;

/// Statistics of the second request of each new process, as the guess for a process without data; and how often
/// waiting for one was useless.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newcomers {
    think_total: u64,
    seek_total: u64,
    /// The probability, in 1/256, that a process that is waited for makes no second request.
    pub(super) gone: u64,
    /// 2.6.18: the probability, in 1/256, that no other process reads near one that has ended.
    pub(super) alone: u64,
}

impl Newcomers {
    pub(super) fn think_mean(&self) -> u64 {
        self.think_total / ONE
    }

    fn seek_mean(&self) -> u64 {
        self.seek_total / ONE
    }
}

/// A probability, in 1/256, updated by whether the event happened.
pub(super) fn after(probability: u64, came_true: bool) -> u64 {
    (7 * probability + if came_true { ONE } else { 0 }) / 8
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) running: bool,
    /// Its requests that wait.
    pub(super) queued: usize,
    /// Its requests in the device.
    pub(super) in_device: usize,
    /// The tick at which its last request was complete, if any was.
    pub(super) last_end: Option<u64>,
    started: bool,
    /// The end of its last request.
    position: Lba,
    think: Mean,
    seek: Mean,
}

impl Process {
    /// A process with this many requests already on their way: left by an earlier process of its number.
    pub(super) fn new(queued: usize, in_device: usize) -> Self {
        Self {
            running: true,
            queued,
            in_device,
            last_end: None,
            started: false,
            position: Lba::ZERO,
            think: Mean::default(),
            seek: Mean::default(),
        }
    }

    /// The mean think time in ticks, if there is data.
    pub(super) fn think_mean(&self) -> Option<u64> {
        self.think.get()
    }

    /// The mean seek; that of new processes if there is no data.
    pub(super) fn seek_mean(&self, newcomers: &Newcomers) -> Sectors {
        Sectors(self.seek.get().unwrap_or(newcomers.seek_mean()))
    }

    /// It makes a synchronous request (or another process does near it, which counts the same). The first one
    /// gives neither a think time nor a seek.
    pub(super) fn asks(&mut self, tick: u64, request: &Request, newcomers: &mut Newcomers) {
        if self.started || self.last_end.is_some() {
            let idle = self.queued + self.in_device == 0;
            let think = self.last_end.filter(|_| idle).map_or(0, |end| tick - end).min(THINK_LIMIT);
            let seek = self.position.distance(request.range.start).get();
            if self.think.get().is_none() {
                newcomers.think_total = (7 * newcomers.think_total + ONE * think) / 8;
                newcomers.seek_total = (7 * newcomers.seek_total + ONE * seek) / 8;
                newcomers.gone = after(newcomers.gone, false);
            }
            self.think.think(think);
            self.seek.seek(seek);
        }
        self.position = request.range.end;
        self.started = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::RequestId;
    use foreseek_device::Op;
    use foreseek_seam::ProcessId;
    use foreseek_units::{Instant, Span};

    fn request(start: u64) -> Request {
        let range = Span::at(Lba(start), Sectors(8));
        Request {
            id: RequestId(0),
            op: Op::Read,
            range,
            pid: ProcessId(1),
            synchronous: true,
            at: Instant::ZERO,
        }
    }

    /// A process that makes its second request this many ticks after the end of its first.
    fn second(think: u64, in_device: usize, newcomers: &mut Newcomers) -> Process {
        let mut process = Process::new(0, 0);
        process.asks(0, &request(0), newcomers);
        assert_eq!(process.think_mean(), None);
        process.last_end = Some(10);
        process.in_device = in_device;
        process.asks(10 + think, &request(808), newcomers);
        process
    }

    #[test]
    fn the_first_request_tells_nothing_and_the_second_its_think_time_and_seek() {
        let newcomers = &mut Newcomers::default();
        let process = second(5, 0, newcomers);
        // The rounding of one sample is four ticks.
        assert_eq!(process.think_mean(), Some(5 + 4));
        assert_eq!(process.seek_mean(newcomers), Sectors(800));
    }

    #[test]
    fn a_long_pause_counts_as_nineteen_ticks() {
        assert_eq!(second(5000, 0, &mut Newcomers::default()).think_mean(), Some(19 + 4));
    }

    #[test]
    fn a_think_time_is_nothing_while_a_request_is_in_flight() {
        assert_eq!(second(15, 1, &mut Newcomers::default()).think_mean(), Some(4));
    }

    #[test]
    fn new_processes_are_averaged_and_stand_for_one_that_is_unknown() {
        let newcomers = &mut Newcomers::default();
        second(8, 0, newcomers);
        second(8, 0, newcomers);
        // 8/8 = 1, then (7 * 1 + 8)/8 = 1.875; 100, then 187.5.
        assert_eq!(newcomers.think_mean(), 1);
        assert_eq!(Process::new(0, 0).seek_mean(newcomers), Sectors(187));
    }
}
