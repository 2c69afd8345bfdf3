//! What a switch costs a device that has nothing else to do: the cost by which depths go.
//!
//! Under a queue a switch is cheaper: an elevator shortens seeks, and a drive chooses among its requests by
//! the turn. Competitive prefetching by that *marginal* cost is within twice the optimum of the same
//! queue, and by the cost of an *unloaded* switch, which is more, within twice the optimum of a device of one's own:
//! `k C + k D / R <= 2 (C + S / R)` for `D = C R` needs only that no switch costs more than `C`. Both
//! are guarantees; depths go by the unloaded cost, for it is the better one on streams longer than a depth, which
//! are those that are worth reading ahead. By the marginal cost half of the disk's time goes into switches
//! however long streams are, and the more readers there are the shorter they are read. (Virtual time, a drive of TR-840
//! under mq-deadline, 4 to 256 readers: docs/lab/bench-mount.md.)
//!
//! The unloaded cost is learnt from visits that were alone with the device. A device that is never without a
//! queue shows none: then it is what it was guessed to be, but no more than [`SAVED`] times what is measured
//! under the queue, and no less than that.

use super::measured::{CostLearner, Visit};
use foreseek_seam::Measured;

/// A queue makes a switch cheaper by no more than this factor. Over a disk's surface 64 requests in order lie a
/// sixty-fourth of it apart in place of a third, which saves most of a seek, and leave the turn: 3.8 of 10.5 ms
/// were left on the drive of TR-840, 3.1 with 256.
const SAVED: f64 = 3.0;

/// Learns what a switch costs under the load as it is, and alone.
#[derive(Clone, Debug)]
pub struct UnloadedCosts {
    all: CostLearner,
    alone: CostLearner,
}

impl UnloadedCosts {
    /// A learner that begins with a guess. `overlapping`: the device serves several at once.
    #[must_use]
    pub fn new(guess: Measured, overlapping: bool) -> Self {
        let alone = CostLearner::overlapping(guess);
        Self { all: if overlapping { alone.clone() } else { CostLearner::new(guess) }, alone }
    }

    /// The device has completed a fetch. To be told in the order of completion.
    pub fn completed(&mut self, visit: Visit) {
        self.all.completed(visit);
        self.alone.completed(visit);
    }

    /// What was learnt of the device under the load that it has.
    #[must_use]
    pub fn marginal(&self) -> Measured {
        self.all.costs()
    }

    /// The cost of an unloaded switch, and the rate.
    #[must_use]
    pub fn unloaded(&self) -> Measured {
        let Measured { switch, rate } = self.all.costs();
        let unloaded = self.alone.costs().switch.clamp(switch, switch.scale(SAVED));
        Measured { switch: unloaded, rate }
    }

    /// From how many visits.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.all.visits()
    }
}
