//! Credit: a service that is fast until its allowance is spent, and slower from then on.
//!
//! It is a token bucket. It fills at the base rate until it is full, and each byte or operation takes a
//! token. While there are tokens the service runs at the burst rate, otherwise at the base rate. Measured in
//! the time that serving at the base rate would take, the bucket fills with the time that passes, and a fast
//! service spends the time that it saves. All of it is exact in nanoseconds: however a load without a pause
//! is split into requests, it ends when the base rate would have ended it, less the credit spent.
//!
//! Source: the burst buckets that providers of network volumes describe (a size, a base rate, a burst rate).

use foreseek_units::{Instant, Nanos};

/// A bucket, full at the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    full: Nanos,
    left: Nanos,
    /// The time up to which it is computed.
    until: Instant,
}

impl Credit {
    /// A bucket that saves `full` at most.
    pub(crate) fn new(full: Nanos) -> Self {
        Self { full, left: full, until: Instant::ZERO }
    }

    /// The duration of a service that begins at `start`, or when the one before has ended, and takes `slow`
    /// at the base rate and `quick` at the burst rate.
    pub(crate) fn spend(&mut self, start: Instant, quick: Nanos, slow: Nanos) -> Nanos {
        let idle = Nanos(start.get().saturating_sub(self.until.get()));
        self.left = (self.left + idle).min(self.full);
        let saved = slow.saturating_sub(quick).min(self.left);
        self.left -= saved;
        let time = slow.max(quick) - saved;
        self.until = start + time;
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_fast_until_the_credit_is_spent_and_fills_again() {
        let mut credit = Credit::new(Nanos(100));
        // Each saves 30 of the 100; the fourth saves the rest.
        let mut at = 0;
        for time in [10, 10, 10, 30, 40, 40] {
            assert_eq!(credit.spend(Instant(at), Nanos(10), Nanos(40)), Nanos(time));
            at += time;
        }
        // A pause of 45 gives 45.
        assert_eq!(credit.spend(Instant(at + 45), Nanos(10), Nanos(40)), Nanos(10));
        assert_eq!(credit.spend(Instant(at + 55), Nanos(10), Nanos(40)), Nanos(25));
        // However long the pause, at most the bucket's capacity.
        assert_eq!(credit.spend(Instant(1_000_000), Nanos(10), Nanos(400)), Nanos(300));
    }

    proptest! {
        /// By token: at the base rate this many arrive each nanosecond, each unit takes one, and it is served
        /// at the burst rate while there is one.
        #[test]
        fn it_serves_as_a_bucket_of_tokens(
            base in 2..20u64,
            times in 1..5u64,
            full in 0..500u64,
            load in prop::collection::vec((0..300u64, 1..40u64), 1..20),
        ) {
            let quick = base.div_ceil(times + 1);
            let mut credit = Credit::new(Nanos(full));
            // In units of a nanosecond of base service: a unit of the load is `base` of them.
            let (mut now, mut tokens) = (0u64, full);
            for (pause, units) in load {
                tokens = (tokens + pause).min(full);
                now += pause;
                let took = credit.spend(Instant(now), Nanos(quick * units), Nanos(base * units));
                let mut naive = 0;
                for _ in 0..units {
                    let saves = (base - quick).min(tokens);
                    tokens -= saves;
                    naive += base - saves;
                }
                prop_assert_eq!(took, Nanos(naive));
                now += naive;
            }
        }
    }
}
