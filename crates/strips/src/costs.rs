//! The two virtual read costs (section 2.4): the disk time for the cached blocks if strips had always been
//! prefetched, and if nothing had ever been.
//!
//! The paper's rules, each O(1):
//!
//! 1. A read of a strip without a strip cache adds the cost of the whole strip to the cost *with* prefetching.
//! 2. A read of a block that is prefetched or missing adds the cost of the block to the cost *without*,
//!    although the block may be present.
//! 3. A strip cache that is evicted removes its own parts from both sums.
//!
//! A miss prefetches its strip unless the cost without prefetching is *less* than the cost with. The
//! comparison is made before the request's own costs are added ("all recent I/Os that have affected the
//! current cache").
//!
//! MSP's reads change neither sum. The first reference of a strip that MSP made counts by rule 1, that of a
//! block from MSP by rule 2 (section 2.5).
//!
//! Inferred, since the paper states only "virtual disk cost" and "online disk simulation":
//!
//! - *A cost* is that of a command, positioning and transfer on one member. It is the sum of the profile's
//!   overhead, the seek time from that member's virtual head, half a revolution, and the transfer at the rate
//!   of the address. Each of the two sums has its own heads, one for each member: without prefetching, heads
//!   are at the last single blocks.
//! - *A block right behind* the head costs no positioning ([`Following::Streams`]: the drive reads ahead), or
//!   a whole missed revolution ([`Following::MissesRotation`]). Consecutive blocks of one request are one access.
//! - *A strip's transfer* is that of its blocks, one by one. A strip whose blocks are all read one after the
//!   other costs the same either way, less the commands that strip prefetching saves, without a rounding
//!   error.
//!
//! If the rules say so, each cost includes the time of reads of that member beyond the profile, as
//! [measured](crate::measured).
//!
//! Memory: 48 bytes for each member, 24 bytes for each strip (kept with the strip).

use crate::blocks::Blocks;
use crate::geometry::{Geometry, MemberAddress, StripNo};
use crate::measured::Measured;
use foreseek_units::{DeviceCosts, Instant, Lba, Nanos, Pages};
use std::fmt;
use std::sync::Arc;

/// The cost of a block right behind the last one read on its member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Following {
    /// Its transfer: the drive has read ahead.
    #[default]
    Streams,
    /// A revolution more: the block has already passed under the head.
    MissesRotation,
}

/// One strip cache's parts of the two sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StripCosts {
    pub(crate) with: Nanos,
    pub(crate) without: Nanos,
    /// Whether the strip itself has been counted.
    pub(crate) counted: bool,
}

/// The two sums, and the virtual heads.
#[derive(Clone)]
pub(crate) struct VirtualCosts {
    geometry: Geometry,
    member: Arc<dyn DeviceCosts>,
    following: Following,
    measured: Option<Measured>,
    with: Nanos,
    without: Nanos,
    heads_with: Vec<Lba>,
    heads_without: Vec<Lba>,
}

impl VirtualCosts {
    /// For an array with these costs of a member.
    pub(crate) fn new(geometry: Geometry, member: Arc<dyn DeviceCosts>, following: Following) -> Self {
        let heads = vec![Lba::ZERO; geometry.members() as usize];
        Self {
            geometry,
            member,
            following,
            measured: None,
            with: Nanos::ZERO,
            without: Nanos::ZERO,
            heads_with: heads.clone(),
            heads_without: heads,
        }
    }

    /// The same, with measurements beyond those costs.
    pub(crate) fn measured(mut self) -> Self {
        self.measured = Some(Measured::new(self.geometry.members()));
        self
    }

    /// The measurements, if there are any.
    pub(crate) fn measuring(&mut self) -> Option<&mut Measured> {
        self.measured.as_mut()
    }

    /// The time of a read of each member beyond its profile, in nanoseconds.
    pub(crate) fn beyond(&self) -> impl Iterator<Item = i64> + '_ {
        self.measured.iter().flat_map(Measured::all)
    }

    /// A read of these blocks of a strip was sent at `begun` and has succeeded.
    pub(crate) fn took(&mut self, strip: StripNo, (start, end): (u64, u64), begun: Instant, now: Instant) {
        let MemberAddress { member, lba } = self.geometry.address_of(strip, start);
        let behind = lba + Pages(end - start).sectors();
        let timed = self.measured.as_mut().and_then(|measured| measured.ended(member, behind, begun, now));
        let Some((head, took)) = timed else { return };
        let modelled = self.modelled(head, strip, (start, end));
        self.measured.iter_mut().for_each(|measured| measured.learn(member, took, modelled));
    }

    /// The sums with and without prefetching.
    pub(crate) fn sums(&self) -> (Nanos, Nanos) {
        (self.with, self.without)
    }

    /// Whether strips are to be prefetched.
    pub(crate) fn favour_strips(&self) -> bool {
        self.with <= self.without
    }

    /// The host references a strip; counts it once in its life (rule 1).
    pub(crate) fn strip(&mut self, strip: StripNo, costs: &mut StripCosts) {
        if costs.counted {
            return;
        }
        costs.counted = true;
        let Some((start, end)) = self.geometry.blocks_of(strip).hull() else { return };
        let cost = self.access(strip, start, end, true);
        costs.with += cost;
        self.with += cost;
    }

    /// The host references blocks of a strip for the first time in its life: those from `start` to `end` (rule 2).
    /// Returns their cost.
    pub(crate) fn blocks(
        &mut self,
        strip: StripNo,
        (start, end): (u64, u64),
        costs: &mut StripCosts,
    ) -> Nanos {
        let cost = self.access(strip, start, end, false);
        costs.without += cost;
        self.without += cost;
        cost
    }

    /// The time to transfer blocks of a strip, without positioning.
    pub(crate) fn transfer(&self, strip: StripNo, blocks: Blocks) -> Nanos {
        let rate = self.member.rate_at(self.geometry.address_of(strip, 0).lba);
        rate.time_for(Pages(1).bytes()) * blocks.count()
    }

    /// A strip cache is evicted (rule 3).
    pub(crate) fn forget(&mut self, costs: &mut StripCosts) {
        self.with -= costs.with;
        self.without -= costs.without;
        *costs = StripCosts::default();
    }

    /// One access of a member; moves the head.
    fn access(&mut self, strip: StripNo, start: u64, end: u64, with: bool) -> Nanos {
        let MemberAddress { member, lba } = self.geometry.address_of(strip, start);
        let heads = if with { &mut self.heads_with } else { &mut self.heads_without };
        let head = std::mem::replace(&mut heads[member.0 as usize], lba + Pages(end - start).sectors());
        let modelled = self.modelled(head, strip, (start, end));
        let beyond = self.measured.as_ref().map_or(0, |measured| measured.beyond(member));
        // A member that is faster than its profile still has to move its head.
        Nanos(modelled.get().saturating_add_signed(beyond).max(modelled.get() / 8))
    }

    /// The cost of blocks of a strip by the profile, from this position of the head.
    fn modelled(&self, head: Lba, strip: StripNo, (start, end): (u64, u64)) -> Nanos {
        let half_rotation = self.member.half_rotation();
        let distance = head.distance(self.geometry.address_of(strip, start).lba);
        let positioning = match self.following {
            _ if !distance.is_zero() => self.member.seek_time(distance) + half_rotation,
            Following::Streams => Nanos::ZERO,
            Following::MissesRotation => half_rotation * 2,
        };
        // The rate at the strip's start, for all of its blocks.
        let rate = self.member.rate_at(self.geometry.address_of(strip, 0).lba);
        self.member.command_overhead() + positioning + rate.time_for(Pages(1).bytes()) * (end - start)
    }
}

impl fmt::Debug for VirtualCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualCosts")
            .field("with", &self.with)
            .field("without", &self.without)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Simple, array};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn costs(following: Following) -> VirtualCosts {
        VirtualCosts::new(array(4, 1000), Arc::new(Simple), following)
    }

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// By hand: strips of 4 blocks; a seek takes 5 ms, half a revolution 2, a block 1.
    #[test]
    fn the_costs_of_a_strip_and_its_blocks() {
        let mut costs = costs(Following::Streams);
        let mut one = StripCosts::default();
        // Strip 8 is the first of stripe 2, on member 3, away from the head's initial position.
        costs.strip(StripNo(8), &mut one);
        assert_eq!(one, StripCosts { with: MS(5 + 2 + 4), without: Nanos::ZERO, counted: true });
        costs.strip(StripNo(8), &mut one);
        assert_eq!(costs.sums(), (MS(11), MS(0)), "a strip is counted once");
        assert!(!costs.favour_strips());
        costs.blocks(StripNo(8), (1, 2), &mut one);
        assert_eq!(costs.sums(), (MS(11), MS(8)));
        // The block behind it needs no positioning; the one before it does.
        costs.blocks(StripNo(8), (2, 3), &mut one);
        assert_eq!(costs.sums(), (MS(11), MS(9)));
        costs.blocks(StripNo(8), (0, 1), &mut one);
        assert_eq!(costs.sums(), (MS(11), MS(17)));
        assert!(costs.favour_strips());
        costs.forget(&mut one);
        assert_eq!((costs.sums(), one), ((MS(0), MS(0)), StripCosts::default()));
        assert!(costs.favour_strips(), "equal costs are no reason to refuse");
    }

    #[test]
    fn a_missed_revolution_costs_both_halves() {
        let mut costs = costs(Following::MissesRotation);
        let mut one = StripCosts::default();
        costs.blocks(StripNo(8), (1, 2), &mut one);
        costs.blocks(StripNo(8), (2, 4), &mut one);
        assert_eq!(costs.sums(), (MS(0), MS(8 + 4 + 2)));
    }

    /// By hand as above, with member 3 slower by 16 ms and member 0 as in its profile.
    #[test]
    fn measured_time_is_added_to_each_access_of_that_member() {
        let mut costs = costs(Following::Streams).measured();
        let mut now = Instant::ZERO;
        for strip in (0..2000).map(|n| 8 + n % 2 * 40) {
            // Strips 8 and 48 are on member 3, 40 blocks apart: a seek each.
            let begun = now;
            now += MS(5 + 2 + 4 + 16);
            costs.took(StripNo(strip), (0, 4), begun, now);
        }
        let beyond: Vec<i64> = costs.beyond().map(|ns| (ns as f64 / 1e6).round() as i64).collect();
        assert_eq!(beyond, [0, 0, 0, 16, 0]);
        let (mut slow, mut well) = (StripCosts::default(), StripCosts::default());
        costs.strip(StripNo(8), &mut slow);
        costs.strip(StripNo(9), &mut well);
        let rounded = |cost: Nanos| cost.as_millis_f64().round();
        assert_eq!((rounded(slow.with), rounded(well.with)), (27.0, 11.0));
        costs.blocks(StripNo(8), (1, 2), &mut slow);
        assert_eq!(rounded(slow.without), 24.0);
        costs.forget(&mut slow);
        assert_eq!(costs.sums(), (MS(11), MS(0)), "a strip takes with it what it was charged");
    }

    /// To the nanosecond, on a profile with real numbers.
    #[test]
    fn a_sequential_reader_saves_commands_and_nothing_else() {
        let profile = foreseek_device::Profile::builtin("raid5-5x-15k").expect("built in");
        let member = profile.member().expect("an array");
        let geometry =
            Geometry::new(profile.stripes().expect("an array"), Lba(0), Pages(100_000)).expect("valid");
        let command = member.command_overhead();
        assert!(!command.is_zero());
        let mut costs = VirtualCosts::new(geometry, Arc::new(member), Following::Streams);
        for strip in 0..64 {
            assert!(costs.favour_strips(), "strip {strip}");
            let mut one = StripCosts::default();
            costs.strip(StripNo(strip), &mut one);
            (0..32).for_each(|block| {
                costs.blocks(StripNo(strip), (block, block + 1), &mut one);
            });
        }
        assert_eq!(costs.sums().0 + command * (31 * 64), costs.sums().1);
    }

    proptest! {
        /// Compared with sums over all strip caches, the definition of section 2.4 (equation 8).
        #[test]
        fn the_sums_are_those_of_all_strip_caches(ops in proptest::collection::vec((0..4u8, 0..20u64, 0..4u64), 0..200)) {
            let mut costs = costs(Following::Streams);
            let mut all: BTreeMap<u64, StripCosts> = BTreeMap::new();
            for (op, strip, block) in ops {
                let one = all.entry(strip).or_default();
                match op {
                    0 => costs.strip(StripNo(strip), one),
                    1 | 2 => {
                        costs.blocks(StripNo(strip), (block, block + 1), one);
                    }
                    _ => {
                        costs.forget(one);
                        all.remove(&strip);
                    }
                }
                let sums = (all.values().map(|one| one.with).sum(), all.values().map(|one| one.without).sum());
                prop_assert_eq!(costs.sums(), sums);
            }
        }
    }
}
