//! A modelled device in virtual time, measured like a real one.

use super::probe::{Probe, Timed};
use crate::Error;
use foreseek_device::{Device, Finished, Io, IoId, Op, Outcome};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos};
use std::path::PathBuf;

/// A [`Device`] with its own clock. `path` is the time that each response takes from the device to the
/// reader: the host's part on a real machine.
pub struct ModelProbe {
    device: Box<dyn Device>,
    path: Nanos,
    now: Instant,
    submitted: u64,
    done: Vec<Finished>,
}

impl std::fmt::Debug for ModelProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelProbe").field("now", &self.now).finish_non_exhaustive()
    }
}

impl ModelProbe {
    /// Starts at time zero.
    #[must_use]
    pub fn new(device: Box<dyn Device>, path: Nanos) -> Self {
        Self { device, path, now: Instant::ZERO, submitted: 0, done: Vec::new() }
    }

    /// Submits as many of `ranges`, from `next` on, as the device accepts. Returns how many.
    fn submit(&mut self, ranges: &[ByteSpan], flight: &mut Vec<(u64, usize, Instant)>, next: usize) -> usize {
        self.device.advance(self.now, &mut self.done);
        let mut submitted = 0;
        for (index, range) in ranges.iter().enumerate().skip(next) {
            let io = Io { id: IoId(self.submitted), op: Op::Read, range: range.sectors() };
            if self.device.submit(self.now, io).is_err() {
                break;
            }
            flight.push((self.submitted, index, self.now));
            self.submitted += 1;
            submitted += 1;
        }
        submitted
    }
}

impl Probe for ModelProbe {
    fn capacity(&self) -> Bytes {
        self.device.capacity().bytes()
    }

    fn block(&self) -> Bytes {
        Bytes(foreseek_units::SECTOR_SIZE)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn read(&mut self, range: ByteSpan) -> Result<Timed, Error> {
        let timed = self.read_all(&[range], 1)?;
        Ok(timed.first().copied().unwrap_or(Timed { issued: self.now, finished: self.now }))
    }

    fn read_all(&mut self, ranges: &[ByteSpan], depth: usize) -> Result<Vec<Timed>, Error> {
        let mut times = vec![Timed { issued: self.now, finished: self.now }; ranges.len()];
        let mut flight: Vec<(u64, usize, Instant)> = Vec::with_capacity(depth);
        let mut next = 0;
        let mut failed = None;
        loop {
            let room = depth.saturating_sub(flight.len()).min(ranges.len() - next);
            next += self.submit(&ranges[..next + room], &mut flight, next);
            if self.done.is_empty() {
                let Some(at) = self.device.next().filter(|_| !flight.is_empty()) else { break };
                self.device.advance(at, &mut self.done);
            }
            for finished in std::mem::take(&mut self.done) {
                self.now = self.now.max(finished.at + self.path);
                let Some(at) = flight.iter().position(|(id, ..)| *id == finished.id.0) else { continue };
                let (_, index, issued) = flight.swap_remove(at);
                times[index] = Timed { issued, finished: finished.at + self.path };
                if finished.outcome == Outcome::Failed {
                    failed = failed.or(Some(index));
                }
            }
        }
        match failed {
            None => Ok(times),
            Some(index) => Err(Error::Unreadable {
                path: PathBuf::from("the modelled device"),
                offset: ranges[index].start,
                length: ranges[index].len(),
                cause: std::io::Error::other("a sector cannot be read"),
            }),
        }
    }

    fn pause(&mut self, time: Nanos) {
        self.now += time;
        self.device.advance(self.now, &mut self.done);
    }
}
