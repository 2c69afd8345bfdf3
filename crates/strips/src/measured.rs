//! What reads of each member take beyond its profile, measured while they run.
//!
//! Not in the paper, whose costs are those of a disk that is known. A profile says what a member should take. A member that retries,
//! that others read as well, or that is another disk than was said takes more or less. The difference per read is added to each virtual
//! cost of that member, so that the [cost test](crate::Strips) decides by what the array does.
//!
//! - *What a read took*: from its start below, or from the end of the read before it on the same member if that is later. Then it waited for
//!   that one, and the time between two ends is what the member works on a read.
//! - *What is not counted*: reads beside others that touch several members (writes, discards, reads of several strips), and failed ones.
//! - *The mean* is over some [`MEAN_OF`] reads, begins at the profile, and takes no read for more than [`BEYOND_LIMIT`] beyond it: a read that
//!   hangs for seconds is one read.
//!
//! Limits: one number a member. It is the mean over sequential and random reads as they come, and does not tell a slow seek from a slow
//! transfer. While there is always a write under way nothing is measured, and the last numbers hold.

use crate::geometry::Member;
use foreseek_units::{Instant, Lba, Nanos};

/// Over how many reads the mean goes.
pub const MEAN_OF: i64 = 32;
/// The most that a single read counts beyond the profile, in either direction.
pub const BEYOND_LIMIT: Nanos = Nanos::from_millis(100);

#[derive(Clone, Copy, Debug, Default)]
struct OneMember {
    /// Behind the last read.
    head: Lba,
    /// When the last read ended.
    ended: Instant,
    beyond: i64,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    members: Vec<OneMember>,
    /// Requests under way that touch several members.
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

    /// A read of a member went below at `begun` and ended now, with the head at `end`. Answers where the head was and what the read took, if that
    /// is known.
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

    /// A read of a member took so long, and should have taken `modelled`.
    pub(crate) fn learn(&mut self, member: Member, took: Nanos, modelled: Nanos) {
        let Some(one) = self.members.get_mut(member.0 as usize) else { return };
        let limit = BEYOND_LIMIT.get() as i64;
        let beyond = (took.get() as i64).saturating_sub(modelled.get() as i64).clamp(-limit, limit);
        one.beyond += (beyond - one.beyond) / MEAN_OF;
    }

    /// What a read of a member takes beyond its profile, in nanoseconds.
    pub(crate) fn beyond(&self, member: Member) -> i64 {
        self.members.get(member.0 as usize).map_or(0, |one| one.beyond)
    }

    /// That of all members.
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
    fn a_read_that_waits_behind_another_took_what_the_member_worked_on_it() {
        let mut measured = Measured::new(2);
        assert_eq!(took(&mut measured, 0, 10, 15), Some(5));
        assert_eq!(took(&mut measured, 0, 11, 22), Some(7), "it waited for 4 ms");
        assert_eq!(took(&mut measured, 1, 11, 22), Some(11), "another member");
        assert_eq!(took(&mut measured, 0, 30, 33), Some(3));
    }

    #[test]
    fn what_runs_beside_a_request_of_several_members_is_not_counted() {
        let mut measured = Measured::new(1);
        measured.wide_begins();
        assert_eq!(took(&mut measured, 0, 0, 4), None);
        measured.wide_ends(ms(6));
        assert_eq!(took(&mut measured, 0, 5, 9), None, "it began beside it");
        assert_eq!(took(&mut measured, 0, 9, 12), Some(3));
    }

    #[test]
    fn the_mean_goes_to_what_is_measured_and_one_read_that_hangs_is_one_read() {
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
