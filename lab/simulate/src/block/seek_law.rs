//! The distance of the arm's moves when requests are uniform: the law that EuroSys'07 section 4.1 uses.
//!
//! Of n requests drawn afresh and uniformly over a disk of size C, C-SCAN takes the nearest ahead of the head.
//! All n lie farther than x with the probability `(1 - x/C)^n`; the mean is `C / (n + 1)`. Distances wrap
//! around at the end of the disk: the way back to the lowest sector does not count.
//!
//! The law does not hold in a closed loop, where each served request is replaced by one new one and the others
//! stay: there are none in the region that the head has just passed, and more in the region ahead. There the
//! mean is `C / 2n`.
//!
//! Both are drawn from a real scheduler here; `foreseek_theory::seek_law` has the law and the test of fit.

use super::{Request, RequestId, Scheduler};
use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Lba, SectorSpan, Sectors, Span};
use rand_core::Rng;

/// The length of the drawn requests: a page, which is a point compared with any disk.
const LENGTH: Sectors = Sectors(8);

/// Seek distances of a scheduler that orders by C-SCAN: each from an address drawn at random to the request
/// that it chooses of `n` requests drawn at random.
pub fn fresh(
    make: &dyn Fn() -> Box<dyn Scheduler>,
    capacity: Sectors,
    n: u32,
    samples: usize,
    random: &mut dyn Rng,
) -> Vec<Sectors> {
    (0..samples)
        .filter_map(|_| {
            let mut stage = Stage::new(make(), capacity);
            stage.add(random);
            stage.serve()?;
            (0..n).for_each(|_| stage.add(random));
            stage.serve()
        })
        .collect()
}

/// Seek distances of a scheduler with `n` requests waiting at any time: each served one is replaced by one
/// drawn at random. The first `n * n` do not count, while the loop settles.
pub fn closed_loop(
    scheduler: Box<dyn Scheduler>,
    capacity: Sectors,
    n: u32,
    samples: usize,
    random: &mut dyn Rng,
) -> Vec<Sectors> {
    let mut stage = Stage::new(scheduler, capacity);
    (0..n).for_each(|_| stage.add(random));
    let mut next = || {
        let distance = stage.serve();
        stage.add(random);
        distance
    };
    let settling = (n as usize).saturating_mul(n as usize);
    (0..settling).for_each(|_| _ = next());
    (0..samples).filter_map(|_| next()).collect()
}

/// A scheduler with requests at random addresses.
struct Stage {
    scheduler: Box<dyn Scheduler>,
    capacity: Sectors,
    head: Lba,
    made: u32,
}

impl Stage {
    fn new(scheduler: Box<dyn Scheduler>, capacity: Sectors) -> Self {
        Self { scheduler, capacity, head: Lba::ZERO, made: 0 }
    }

    fn add(&mut self, random: &mut dyn Rng) {
        let room = (self.capacity - LENGTH).get().max(1);
        // 64 bits against 2^40 sectors: the bias is below 2^-24.
        let range: SectorSpan = Span::at(Lba(random.next_u64() % room), LENGTH);
        let id = RequestId(self.made);
        self.made = self.made.wrapping_add(1);
        let request =
            Request { id, op: Op::Read, range, pid: ProcessId(0), synchronous: true, at: Instant::ZERO };
        self.scheduler.add(Instant::ZERO, request);
    }

    /// The distance to the request that is served next.
    fn serve(&mut self) -> Option<Sectors> {
        let request = self.scheduler.dispatch(Instant::ZERO)?;
        let from = std::mem::replace(&mut self.head, request.range.end);
        self.scheduler.completed(Instant::ZERO, &request, true);
        let start = request.range.start;
        Some(if start >= from { start - from } else { start + self.capacity - from })
    }
}
