//! The device's peak rate, learnt from the dispatched requests: the largest budget is what it transfers at that
//! rate in the time of a budget.

use super::rules::TIMEOUT;
use crate::block::Request;
use foreseek_units::{Instant, Lba, Nanos, Sectors};

/// The largest budget until enough budgets have been given for a better one.
const BUDGET: Sectors = Sectors(16 * 1024);
/// The weight (1/256) of given budgets that is enough: the twelfth.
const ENOUGH: u64 = 194;
/// Rates are in sectors a microsecond, times 2^16.
const SHIFT: u32 = 16;
/// The rate with which learning begins: two thirds of that of a disk of the authors.
const FIRST: u64 = 14_000 * 2 / 3;
/// The upper limit: 20 sectors a microsecond.
const HIGHEST: u64 = 20 << SHIFT;
/// The least requests and time of an estimate.
const SAMPLES: u64 = 32;
const SHORTEST: Nanos = Nanos::from_millis(300);
/// An estimate is made after this time, or when the device has been idle.
const LONG: Nanos = Nanos::from_secs(1);
const PAUSE: Nanos = Nanos::from_millis(100);
/// A request that follows this soon, and at most this far, is sequential.
const SOON: Nanos = Nanos::from_millis(2);
pub(super) const SEEK: Sectors = Sectors(800);

/// The estimate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    rate: u64,
    budget: Sectors,
    /// Weight of the budgets given so far.
    given: u64,
    samples: u64,
    sequential: u64,
    sectors: u64,
    first: Instant,
    last: Instant,
    position: Lba,
    pub(super) last_end: Instant,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            rate: FIRST,
            budget: BUDGET,
            given: 0,
            samples: 0,
            sequential: 0,
            sectors: 0,
            first: Instant::ZERO,
            last: Instant::ZERO,
            position: Lba::ZERO,
            last_end: Instant::ZERO,
        }
    }
}

impl Rate {
    /// The largest budget.
    pub(super) fn budget(&self) -> Sectors {
        if self.given < ENOUGH { BUDGET } else { self.budget }
    }

    /// A budget has been given.
    pub(super) fn gave(&mut self) {
        self.given = (7 * self.given + 256) / 8;
    }

    /// A request goes to the device, which holds `in_device` others.
    pub(super) fn dispatched(&mut self, now: Instant, request: &Request, in_device: usize) {
        let far = self.position.distance(request.range.start) > SEEK;
        let idle = self.samples > 0 && now - self.last > PAUSE && in_device == 0;
        if self.samples == 0 || idle {
            if idle {
                self.estimate(self.last - self.first);
            }
            self.restart(now, request);
        } else {
            self.samples += 1;
            let busy = in_device > 0 || now - self.last_end < SOON;
            self.sequential += u64::from(busy && !far);
            self.sectors += request.range.len().get();
            if now - self.first >= LONG {
                self.estimate(now - self.first);
                self.restart(now, request);
            }
        }
        self.position = request.range.end;
        self.last = now;
    }

    fn restart(&mut self, now: Instant, request: &Request) {
        (self.first, self.samples, self.sequential) = (now, 1, 0);
        self.sectors = request.range.len().get();
    }

    /// Takes the observations as a sample of the rate. The sample weighs the more, the more of it was
    /// sequential and the longer it took; if it was not sequential it can only raise the rate.
    fn estimate(&mut self, time: Nanos) {
        if self.samples < SAMPLES || time < SHORTEST {
            return;
        }
        let time = time.max(self.last_end - self.first);
        let rate = (self.sectors << SHIFT) / (time.get() / 1000).max(1);
        if (self.sequential < 3 * self.samples / 4 && rate <= self.rate) || rate > HIGHEST {
            return;
        }
        let weight = (9 * self.sequential / self.samples * time.get() / LONG.get()).min(8);
        let part = 10 - weight;
        self.rate = (self.rate * (part - 1) / part + rate / part).max(1);
        self.budget = Sectors((self.rate * 1000 * TIMEOUT) >> SHIFT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::RequestId;
    use foreseek_device::Op;
    use foreseek_seam::ProcessId;
    use foreseek_units::Span;

    /// The largest budget after this many requests of 256 sectors, one every two milliseconds.
    fn learnt(requests: u64, apart: u64) -> Sectors {
        let mut rate = Rate::default();
        for n in 0..requests {
            let now = Instant(n * 2_000_000);
            let range = Span::at(Lba(n * (256 + apart)), Sectors(256));
            let request = Request {
                id: RequestId(0),
                op: Op::Read,
                range,
                pid: ProcessId(0),
                synchronous: true,
                at: now,
            };
            rate.last_end = now;
            rate.gave();
            rate.dispatched(now, &request, 0);
        }
        rate.budget()
    }

    #[test]
    fn the_largest_budget_is_16384_sectors_until_something_is_known() {
        assert_eq!(learnt(11, 0), Sectors(16_384));
        assert_eq!(learnt(400, 0), Sectors(16_384));
    }

    #[test]
    fn then_it_is_what_the_device_transfers_in_125_ms() {
        // 128 sectors a millisecond: each estimate takes half of the difference.
        let budget = learnt(10_000, 0).get();
        assert!(budget.abs_diff(125 * 128) < 125 * 2, "{budget}");
    }

    #[test]
    fn what_is_not_sequential_does_not_lower_it() {
        assert_eq!(learnt(10_000, 100_000), Sectors(16_384));
    }
}
