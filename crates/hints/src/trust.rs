//! How far the list is believed.
//!
//! A wrong list costs the time to fetch it. The paper trusts its applications; a library that is
//! loaded into any program, or that guesses a database's plan, should not make it much slower when
//! the guess is bad. Four bounds see to that:
//!
//! - a client that is not sure begins with a small round, and each round that was used multiplies
//!   the next by the growth factor (a ramp);
//! - when the application turns to something else before it has come to the end of a round, the next
//!   round is at most twice what was read of this one: who reads forty pages of each plan is given
//!   eighty. What is still on the list and still there is not counted;
//! - a round that was gone through to its end and of which less than an eighth was read cuts the
//!   next to a quarter. Between an eighth and a half an application's own cache may have answered
//!   the rest, and nothing follows;
//! - when a round at the floor was wasted as well, the next misses are left to themselves: two, then
//!   four, up to 1024. A list that stays wrong costs one floor-sized sorted round in 1024 reads.
//!
//! So wrong lists cost at most about one and a third buffers, and then next to nothing.
//!
//! An eighth: a page of a sorted round costs between an eighth (few pages, long jumps) and a
//! fortieth of a random read (ATC'09 figures 2 and 10), so a round of which an eighth is used has
//! about paid for itself.

use foreseek_units::Pages;

/// Rounds are judged by at least this many pages; smaller ones together. As the size that a round is
/// cut to, small enough that 1024 random reads dwarf it.
pub(crate) const SAMPLE: Pages = Pages(64);

/// Less than one page in this many read: wasted.
const WASTED: u64 = 8;

/// At least one page in this many read: used. Not all, for an application's own cache answers many.
const USED: u64 = 2;

/// By what a wasted round cuts the next.
const CUT: u64 = 4;

/// How many times what was read of an abandoned round the next one may hold.
const ROOM: u64 = 2;

/// At most 2^10 misses are left to themselves in a row.
const DOUBTS_LIMIT: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Used,
    Fair,
    Wasted,
    /// Too little to tell; it is counted with the next.
    Open,
}

#[derive(Clone, Debug)]
pub(crate) struct Trust {
    growth: u64,
    /// At most so many pages a round; `None`: a full buffer.
    limit: Option<Pages>,
    doubts: u32,
    pause: u32,
    fetched: Pages,
    used: Pages,
}

impl Trust {
    pub(crate) fn new(first_round: Option<Pages>, growth: u32) -> Self {
        Self {
            growth: u64::from(growth),
            limit: first_round,
            doubts: 0,
            pause: 0,
            fetched: Pages::ZERO,
            used: Pages::ZERO,
        }
    }

    /// How large a round may be where the buffer would let it be `buffer`.
    pub(crate) fn limit(&self, buffer: Pages) -> Pages {
        self.limit.map_or(buffer, |limit| limit.min(buffer))
    }

    /// Whether this miss may lead to a question or a round.
    pub(crate) fn may_act(&mut self) -> bool {
        let acts = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        acts
    }

    /// A round of `fetched` wanted pages is over and `used` of them were read. `consumed`: the
    /// application went through all of it, and did not turn to something else before.
    pub(crate) fn judge(&mut self, fetched: Pages, used: Pages, consumed: bool, buffer: Pages) -> Verdict {
        self.fetched += fetched;
        self.used += used;
        if self.fetched < SAMPLE {
            return Verdict::Open;
        }
        let (fetched, used) = (std::mem::take(&mut self.fetched), std::mem::take(&mut self.used));
        let wasted = used * WASTED < fetched;
        let well_used = used * USED >= fetched;
        if wasted {
            self.doubt(fetched);
        }
        if !consumed && !well_used {
            self.limit = Some((used * ROOM).max(SAMPLE));
        } else if wasted {
            self.limit = Some((fetched / CUT).max(SAMPLE));
        } else if consumed && well_used {
            self.doubts = 0;
            let grown = |limit: Pages| Pages(limit.get().saturating_mul(self.growth));
            self.limit = self.limit.map(grown).filter(|limit| *limit < buffer);
        }
        match (wasted, well_used) {
            (true, _) => Verdict::Wasted,
            (_, true) => Verdict::Used,
            _ => Verdict::Fair,
        }
    }

    /// Leaves some misses to themselves, if the round that was wasted was a small one.
    fn doubt(&mut self, wasted: Pages) {
        if wasted <= SAMPLE * 2 {
            self.doubts = (self.doubts + 1).min(DOUBTS_LIMIT);
            self.pause = 1 << self.doubts;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: Pages = Pages(100_000);

    #[test]
    fn full_trust_from_the_start_unless_a_ramp_was_asked_for() {
        assert_eq!(Trust::new(None, 4).limit(BUFFER), BUFFER);
        let mut ramp = Trust::new(Some(Pages(64)), 4);
        let mut sizes = Vec::new();
        for _ in 0..8 {
            let size = ramp.limit(BUFFER);
            sizes.push(size.get());
            assert_eq!(ramp.judge(size, size, true, BUFFER), Verdict::Used);
        }
        assert_eq!(sizes, [64, 256, 1024, 4096, 16_384, 65_536, 100_000, 100_000]);
    }

    #[test]
    fn a_list_that_is_always_wrong_costs_a_buffer_and_a_third_and_then_next_to_nothing() {
        let mut trust = Trust::new(None, 4);
        let (mut fetched, mut rounds) = (0, 0);
        for _ in 0..1_000_000 {
            if trust.may_act() {
                let size = trust.limit(BUFFER);
                fetched += size.get();
                rounds += 1;
                assert_eq!(trust.judge(size, Pages::ZERO, true, BUFFER), Verdict::Wasted);
            }
        }
        assert!(fetched < BUFFER.get() * 4 / 3 + rounds * SAMPLE.get());
        assert!(rounds < 1_000_000 / 1000, "{rounds}");
    }

    #[test]
    fn plans_of_which_little_is_read_get_little_more() {
        let mut trust = Trust::new(None, 4);
        let mut sizes = Vec::new();
        for _ in 0..4 {
            let size = trust.limit(BUFFER);
            sizes.push(size.get());
            trust.judge(size, Pages(1000), false, BUFFER);
        }
        assert_eq!(sizes, [100_000, 2000, 2000, 2000]);
        assert_eq!(trust.judge(Pages(2000), Pages(2000), true, BUFFER), Verdict::Used);
        assert_eq!(trust.limit(BUFFER), Pages(8000));
    }

    #[test]
    fn what_a_cache_of_the_application_answers_is_no_reason_to_doubt() {
        let mut trust = Trust::new(None, 4);
        assert_eq!(trust.judge(Pages(8000), Pages(1000), true, BUFFER), Verdict::Fair);
        assert_eq!(trust.limit(BUFFER), BUFFER);
        assert_eq!(trust.judge(Pages(8000), Pages(999), true, BUFFER), Verdict::Wasted);
        assert_eq!(trust.limit(BUFFER), Pages(2000));
    }

    #[test]
    fn small_wrong_rounds_are_judged_together() {
        let mut trust = Trust::new(None, 4);
        let rounds = (0..10_000).filter(|_| {
            let acts = trust.may_act();
            if acts {
                trust.judge(Pages(4), Pages::ZERO, false, BUFFER);
            }
            acts
        });
        assert!(rounds.count() < 400);
    }

    #[test]
    fn trust_returns() {
        let mut trust = Trust::new(None, 4);
        for _ in 0..10 {
            while !trust.may_act() {}
            let size = trust.limit(BUFFER);
            trust.judge(size, Pages::ZERO, true, BUFFER);
        }
        assert_eq!(trust.limit(BUFFER), SAMPLE);
        while !trust.may_act() {}
        for _ in 0..6 {
            assert!(trust.may_act());
            let size = trust.limit(BUFFER);
            trust.judge(size, size, true, BUFFER);
        }
        assert_eq!(trust.limit(BUFFER), BUFFER);
    }
}
