//! How large a round may be after the list was right or wrong.
//!
//! A wrong list costs the time to fetch it. The paper trusts its applications. A library that is loaded into
//! any program, or that predicts a database's plan, should cost little when the prediction is wrong. Four
//! bounds ensure that:
//!
//! - *Ramp*: a client that is not sure begins with a small round, and each used round multiplies the next by
//!   the growth factor.
//! - *Abandoned rounds*: when the application changes its plan before the end of a round, the next round is at
//!   most twice what was read of this one. If it reads forty pages of each plan, eighty are fetched. Pages that
//!   are still listed and in memory do not count.
//! - *Wasted rounds*: if less than an eighth of a consumed round was read, the next one is a quarter of it.
//!   Between an eighth and a half, the application's own cache may have answered the rest, and nothing changes.
//! - *Pauses*: when a round at the floor was wasted as well, the next misses are ignored: two, then four, up to
//!   1024. A list that stays wrong costs one floor-sized sorted round in 1024 reads.
//!
//! Wrong lists therefore cost at most about one and a third buffers, and then almost nothing.
//!
//! Why an eighth: a page of a sorted round costs between an eighth (few pages, long jumps) and a fortieth of a
//! random read (ATC'09 figures 2 and 10). A round of which an eighth is used has about paid for itself.

use foreseek_units::Pages;

/// Rounds are judged by at least this many pages, smaller ones together. It is also the smallest size that a
/// round is cut to, and small beside 1024 random reads.
pub(crate) const SAMPLE: Pages = Pages(64);

/// A round is wasted if less than one page in this many was read.
const WASTED: u64 = 8;

/// A round is used if at least one page in this many was read. Not all, since an application's own cache
/// answers many reads.
const USED: u64 = 2;

/// The divisor for the round after a wasted one.
const CUT: u64 = 4;

/// The next round holds at most so many times the pages read of an abandoned round.
const ROOM: u64 = 2;

/// At most 2^10 misses are ignored in a row.
const DOUBTS_LIMIT: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Used,
    Fair,
    Wasted,
    /// Too few pages to judge; they count with the next round.
    Open,
}

#[derive(Clone, Debug)]
pub(crate) struct Trust {
    growth: u64,
    /// The most pages of a round; `None`: a full buffer.
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

    /// The largest round with this buffer.
    pub(crate) fn limit(&self, buffer: Pages) -> Pages {
        self.limit.map_or(buffer, |limit| limit.min(buffer))
    }

    /// Whether this miss may lead to a question or a round.
    pub(crate) fn may_act(&mut self) -> bool {
        let acts = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        acts
    }

    /// A round of `fetched` wanted pages is over and `used` of them were read. `consumed`: the application read
    /// to its end, and did not change its plan before.
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

    /// Ignores some misses if the wasted round was a small one.
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
    fn full_trust_from_the_start_unless_a_ramp_was_chosen() {
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
    fn a_list_that_is_always_wrong_costs_a_buffer_and_a_third_and_then_almost_nothing() {
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
    fn plans_that_are_hardly_read_get_small_rounds() {
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
    fn reads_that_the_applications_cache_answers_are_no_reason_to_doubt() {
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
