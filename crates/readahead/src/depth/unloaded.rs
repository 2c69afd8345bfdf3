//! The cost of a positioning of a device that has nothing else to do: the cost from which depths are computed.
//!
//! Under a queue a positioning is cheaper: an elevator shortens seeks, and a drive orders its requests by
//! rotation. Two costs can size a fetch:
//!
//! - the *marginal* cost under the queue. Competitive prefetching with it is within twice the optimum of the
//!   same queue;
//! - the higher cost of an *unloaded* positioning. Competitive prefetching with it is within twice the optimum of
//!   a device without other load: `k C + k D / R <= 2 (C + S / R)` for `D = C R` needs only that no positioning
//!   costs more than `C`.
//!
//! Depths use the unloaded cost. It is better for streams longer than a depth, which are those worth reading
//! ahead. With the marginal cost half of the disk's time goes into positionings however long streams are, and
//! more readers make the fetches shorter. (Virtual time, a drive of TR-840 under mq-deadline, 4 to 256
//! readers: docs/lab/bench-mount.md.)
//!
//! The unloaded cost is learnt from visits that were alone with the device. A device that always has a queue
//! has no such visits. The cost is then the initial guess, limited to between the cost measured under the
//! queue and [`SAVED`] times that.

use super::measured::CostLearner;
use super::visits::Visit;
use foreseek_seam::Measured;

/// A queue makes a positioning cheaper by at most this factor. Over a disk's surface 64 requests in order are a
/// sixty-fourth of it apart instead of a third. That saves most of a seek and leaves the rotation: 3.8 of
/// 10.5 ms on the drive of TR-840, and 3.1 ms with 256 requests.
const SAVED: f64 = 3.0;

/// Learns the cost of a positioning under the current load, and unloaded.
#[derive(Clone, Debug)]
pub struct UnloadedCosts {
    all: CostLearner,
    alone: CostLearner,
}

impl UnloadedCosts {
    /// A learner that starts from a guess. `overlapping`: the device serves several requests at once.
    #[must_use]
    pub fn new(guess: Measured, overlapping: bool) -> Self {
        let alone = CostLearner::overlapping(guess);
        Self { all: if overlapping { alone.clone() } else { CostLearner::new(guess) }, alone }
    }

    /// The device has completed a fetch. Call it in the order of completion.
    pub fn completed(&mut self, visit: Visit) {
        self.all.completed(visit);
        self.alone.completed(visit);
    }

    /// The learnt costs under the current load.
    #[must_use]
    pub fn marginal(&self) -> Measured {
        self.all.costs()
    }

    /// The cost of an unloaded positioning, and the rate.
    #[must_use]
    pub fn unloaded(&self) -> Measured {
        let Measured { positioning, rate } = self.all.costs();
        let unloaded = self.alone.costs().positioning.clamp(positioning, positioning.scale(SAVED));
        Measured { positioning: unloaded, rate }
    }

    /// The number of visits learnt from.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.all.visits()
    }
}
