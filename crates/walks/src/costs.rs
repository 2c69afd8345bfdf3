//! Device times: the model in which the bound is stated.
//!
//! Requests are served one at a time. A request that begins where the last one ended costs its transfer time.
//! Any other request also costs its *positioning*: `seek(distance) + half a revolution`, or the time in which
//! the sectors between pass under the head, whichever is less. The transfer time is bytes over the rate at
//! their address. All values come from the profile of the device ([`DeviceCosts`]).
//!
//! Transfer times are differences of one function of the address, [`Model::until`]: the time to read everything
//! before it. They therefore add up exactly and are monotone for all zones of the disk, which the proof in
//! [`crate::ledger`] needs. Between two points of its grid the rate is constant.

use foreseek_units::{DeviceCosts, Lba, Nanos, Position, SectorSpan, Sectors};
use std::sync::Arc;

/// Points of the grid of rates: a disk has some 20 zones.
const POINTS: u64 = 1024;

/// The device's times.
#[derive(Clone)]
pub(crate) struct Model {
    costs: Arc<dyn DeviceCosts>,
    /// Sectors from one point of the grid to the next, as a power of two.
    shift: u32,
    /// The time before each point.
    before: Arc<[Nanos]>,
    average: Nanos,
    near: Nanos,
    far: Nanos,
}

impl Model {
    /// The model of a device.
    pub(crate) fn new(costs: Arc<dyn DeviceCosts>) -> Self {
        let capacity = costs.capacity().get().max(POINTS);
        let shift = capacity.div_ceil(POINTS).next_power_of_two().trailing_zeros();
        let cell = Sectors(1 << shift);
        let mut before = vec![Nanos::ZERO];
        for point in 0..=POINTS {
            let took = costs.rate_at(Lba(point << shift)).time_for(cell.bytes());
            before.push(before[point as usize] + took.max(Nanos(1)));
        }
        let half = costs.half_rotation();
        let average = costs.average_seek() + half;
        let near = costs.seek_time(Sectors(1)) + half;
        let far = costs.seek_time(costs.capacity()) + half;
        Self { costs, shift, before: before.into(), average, near, far: far.max(average) }
    }

    /// The time to read everything before an address.
    fn until(&self, place: Lba) -> Nanos {
        let last = self.before.len() - 2;
        let point = usize::try_from(place.get() >> self.shift).map_or(last, |point| point.min(last));
        let within = place.get() - ((point as u64) << self.shift);
        let cell = self.before[point + 1] - self.before[point];
        let part = (u128::from(cell.get()) * u128::from(within)) >> self.shift;
        self.before[point] + Nanos(u64::try_from(part).unwrap_or(u64::MAX >> 1))
    }

    /// The time to transfer these sectors.
    pub(crate) fn transfer(&self, span: SectorSpan) -> Nanos {
        self.until(span.end) - self.until(span.start)
    }

    /// The cost of a request before its transfer, if the head has to move this far.
    pub(crate) fn positioning(&self, distance: Sectors) -> Nanos {
        if distance.is_zero() {
            Nanos::ZERO
        } else {
            self.costs.seek_time(distance) + self.costs.half_rotation()
        }
    }

    /// The cost of moving from one address to another.
    pub(crate) fn step(&self, from: Lba, to: Lba) -> Nanos {
        let positioning = self.positioning(from.distance(to));
        if from <= to { positioning.min(self.transfer(SectorSpan::new(from, to))) } else { positioning }
    }

    /// Whether it is cheaper to read through a gap than to seek over it.
    pub(crate) fn passes(&self, from: Lba, to: Lba) -> bool {
        self.transfer(SectorSpan::new(from, to)) <= self.positioning(to.since(from))
    }

    /// The time to transfer so many sectors where that takes longest.
    pub(crate) fn slowest(&self, sectors: Sectors) -> Nanos {
        let cells = self.before.windows(2).map(|two| two[1] - two[0]);
        let cell = u128::from(cells.max().unwrap_or_default().get());
        let time = (cell * u128::from(sectors.get())) >> self.shift;
        Nanos(u64::try_from(time).unwrap_or(u64::MAX >> 1)) + Nanos(1)
    }

    /// The positioning between two random addresses.
    pub(crate) fn average(&self) -> Nanos {
        self.average
    }

    /// The shortest positioning.
    pub(crate) fn near(&self) -> Nanos {
        self.near
    }

    /// The longest positioning.
    pub(crate) fn far(&self) -> Nanos {
        self.far
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use foreseek_device::{Kind, Profile};

    pub(crate) fn model(name: &str) -> Model {
        Model::new(Arc::new(Profile::builtin(name).expect("a built-in profile")))
    }

    /// The properties of a device that the proof of the bound assumes.
    #[test]
    fn positioning_is_monotone_and_never_gains_by_a_stop_on_the_way() {
        let mut disks = 0;
        for name in Profile::builtin_names() {
            let profile = Profile::builtin(name).expect("built in");
            if profile.kind() != Kind::Disk {
                continue;
            }
            disks += 1;
            let model = Model::new(Arc::new(profile));
            let all = model.costs.capacity().get();
            let distances: Vec<u64> =
                (0..40).map(|octave| 1u64 << octave).chain((1..40).map(|part| all / 40 * part)).collect();
            for a in &distances {
                for b in distances.iter().filter(|b| *b + a <= all) {
                    let [one, other, both] = [*a, *b, a + b].map(|d| model.positioning(Sectors(d)));
                    assert!(both >= one.max(other), "{name}: {a} {b}: {one} {other} {both}");
                    assert!(both <= one + other, "{name}: {a} {b}: {one} {other} {both}");
                }
            }
        }
        assert!(disks >= 8, "{disks}");
    }

    #[test]
    fn transfers_add_up_and_follow_the_rate() {
        let model = model("barracuda-500g");
        let all = model.costs.capacity().get();
        for place in [0, all / 7, all / 2, all - 3000] {
            let [a, b, c] = [Lba(place), Lba(place + 1000), Lba(place + 2777)];
            let sum = model.transfer(SectorSpan::new(a, b)) + model.transfer(SectorSpan::new(b, c));
            assert_eq!(model.transfer(SectorSpan::new(a, c)), sum);
            let stated = model.costs.rate_at(a).time_for(Sectors(2777).bytes()).get() as f64;
            assert!((sum.get() as f64 / stated - 1.0).abs() < 0.02, "{place}: {sum} {stated}");
        }
    }
}
