//! The time of reads of each member beyond its profile, measured at run time.
//!
//! This is not in the paper, whose costs are those of a known disk. A profile gives the expected time of a
//! member. A member that retries, that other programs read as well, or that is another disk than assumed
//! takes more or less. The difference per read is added to each virtual cost of that member, so that the
//! [cost test](crate::Strips) uses the array's real behaviour.
//!
//! - *The time of a read*: from its start below, or from the end of the read before it on the same member if
//!   that is later. In the latter case it waited for that one, and the time between the two ends is the
//!   member's time for the read.
//! - *Not counted*: reads beside requests that touch several members (writes, discards, reads of several
//!   strips), and failed ones.
//! - *The mean* is over some [`MEAN_OF`] reads and begins at the profile. No read counts for more than
//!   [`BEYOND_LIMIT`] beyond it: a read that hangs for seconds is one read.
//!
//! Limits: one number for each member. It is the mean over sequential and random reads as they come, and does
//! not distinguish a slow seek from a slow transfer. While there is always a write in flight nothing is
//! measured, and the last numbers hold.

use crate::geometry::Member;
use foreseek_units::{Instant, Lba, Nanos};

/// The number of reads over which the mean is taken.
pub const MEAN_OF: i64 = 32;
/// The most that a single read counts beyond the profile, in either direction.
pub const BEYOND_LIMIT: Nanos = Nanos::from_millis(100);

#[derive(Clone, Copy, Debug, Default)]
struct OneMember {
    /// The end of the last read.
    head: Lba,
    /// When the last read ended.
    ended: Instant,
    beyond: i64,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    members: Vec<OneMember>,
    /// Requests in flight that touch several members.
    wide: u32,
    /// When the last of them ended.
    wide_ended: Instant,
}

impl Measured {
    pub(crate) fn new(members: u32) -> Self {
        let members = vec![OneMember::default(); members as usize];
        Self { members, wide: 0, wide_ended: Instant::ZERO }
    }

    /// A request that may touch several members begins.
    pub(crate) fn wide_begins(&mut self) {
        self.wide += 1;
    }

    /// Such a request has ended.
    pub(crate) fn wide_ends(&mut self, now: Instant) {
        self.wide = self.wide.saturating_sub(1);
        self.wide_ended = self.wide_ended.max(now);
    }

    #[cfg(test)]
    pub(crate) fn wide(&self) -> u32 {
        self.wide
    }

    /// A read of a member was sent at `begun` and has ended now, with the head at `end`. Returns the head's
    /// earlier position and the time of the read, if it is known.
    pub(crate) fn ended(
        &mut self,
        member: Member,
        end: Lba,
        begun: Instant,
        now: Instant,
    ) -> Option<(Lba, Nanos)> {
        let one = self.members.get_mut(member.0 as usize)?;
        let head = std::mem::replace(&mut one.head, end);
        let from = begun.max(one.ended);
        one.ended = one.ended.max(now);
        let alone = self.wide == 0 && self.wide_ended <= from;
        (alone && from <= now).then(|| (head, now - from))
    }

    /// Adds a read of a member that took `took`, and was expected to take `modelled`.
    pub(crate) fn learn(&mut self, member: Member, took: Nanos, modelled: Nanos) {
        let Some(one) = self.members.get_mut(member.0 as usize) else { return };
        let limit = BEYOND_LIMIT.get() as i64;
        let beyond = (took.get() as i64).saturating_sub(modelled.get() as i64).clamp(-limit, limit);
        one.beyond += (beyond - one.beyond) / MEAN_OF;
    }

    /// The time of a read of a member beyond its profile, in nanoseconds.
    pub(crate) fn beyond(&self, member: Member) -> i64 {
        self.members.get(member.0 as usize).map_or(0, |one| one.beyond)
    }

    /// The same for all members.
    pub(crate) fn all(&self) -> impl Iterator<Item = i64> + '_ {
        self.members.iter().map(|one| one.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn took(measured: &mut Measured, member: u32, begun: u64, now: u64) -> Option<u64> {
        let ended = measured.ended(Member(member), Lba(0), ms(begun), ms(now));
        ended.map(|(_, took)| took.get() / 1_000_000)
    }

    #[test]
    fn the_time_of_a_waiting_read_starts_at_the_end_of_the_read_before() {
        let mut measured = Measured::new(2);
        assert_eq!(took(&mut measured, 0, 10, 15), Some(5));
        assert_eq!(took(&mut measured, 0, 11, 22), Some(7), "it waited for 4 ms");
        assert_eq!(took(&mut measured, 1, 11, 22), Some(11), "another member");
        assert_eq!(took(&mut measured, 0, 30, 33), Some(3));
    }

    #[test]
    fn reads_beside_a_request_of_several_members_are_not_counted() {
        let mut measured = Measured::new(1);
        measured.wide_begins();
        assert_eq!(took(&mut measured, 0, 0, 4), None);
        measured.wide_ends(ms(6));
        assert_eq!(took(&mut measured, 0, 5, 9), None, "it began beside it");
        assert_eq!(took(&mut measured, 0, 9, 12), Some(3));
    }

    #[test]
    fn the_mean_approaches_the_measurements_and_a_hanging_read_is_one_read() {
        let mut measured = Measured::new(2);
        let us = Nanos::from_micros;
        (0..400).for_each(|_| measured.learn(Member(1), us(25_000), us(5_000)));
        assert_eq!(measured.beyond(Member(0)), 0);
        assert!((measured.beyond(Member(1)) - 20_000_000).abs() < 100_000, "{measured:?}");
        measured.learn(Member(1), Nanos::from_millis(30_000), us(5_000));
        assert!(measured.beyond(Member(1)) < 23_000_000, "{measured:?}");
        (0..400).for_each(|_| measured.learn(Member(1), us(1_000), us(5_000)));
        assert!((measured.beyond(Member(1)) + 4_000_000).abs() < 100_000, "{measured:?}");
    }
}
