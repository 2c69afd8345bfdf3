//! How the memory limit is divided among disks.
//!
//! A disk that holds data read ahead, or did so within [`LATELY`], has a part. All of these parts are equal. What one holds beyond
//! that, since it was alone when it fetched, the others have the less until it is used. All disks that have a part can therefore
//! fill it at the same time, and together hold no more than the limit.
//!
//! Any other disk may fetch as much as its part would be. Several that begin at the same moment may so hold more for a moment,
//! but no more than their first batches, which [`foreseek_walks`] keeps small.
//!
//! Pure.

use foreseek_units::{Bytes, Instant, Nanos};

/// A program that reads from the disk has used all at times, and a next batch follows.
const LATELY: Nanos = Nanos::from_secs(1);

/// A disk's part, and what it has of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// How much it may hold.
    pub(crate) part: Bytes,
    held: Bytes,
    /// When it last held something.
    last: Option<Instant>,
}

impl Share {
    /// Takes down how much the disk holds at present.
    pub(crate) fn look(&mut self, now: Instant, held: Bytes) {
        self.held = held;
        self.last = if held.is_zero() { self.last.filter(|last| *last + LATELY > now) } else { Some(now) };
    }

    fn is_part(&self) -> bool {
        self.last.is_some()
    }

    /// Whether this part takes the place of the last one: always if it is smaller, and if it is larger by an eighth.
    fn is_news(&self, part: Bytes) -> bool {
        part < self.part || part > self.part + self.part / 8
    }
}

/// Divides a limit by what each disk holds. Returns the disks whose part is another one after that.
pub(crate) fn divide(limit: Bytes, shares: &mut [&mut Share]) -> Vec<usize> {
    let mut all: Vec<Bytes> = shares.iter().filter(|it| it.is_part()).map(|it| it.held).collect();
    let (equal, level) = (limit / all.len().max(1) as u64, level(limit, &mut all));
    all.push(Bytes::ZERO);
    let next = self::level(limit, &mut all);
    let mut news = Vec::new();
    for (at, share) in shares.iter_mut().enumerate() {
        let part = match share.is_part() {
            true if share.held >= equal => equal,
            true => level,
            false => next,
        };
        if share.is_news(part) {
            share.part = part;
            news.push(at);
        }
    }
    news
}

/// The equal parts of disks that hold so much: the limit is the sum of these, or of what is held where that is more.
fn level(limit: Bytes, held: &mut [Bytes]) -> Bytes {
    held.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = limit;
    for (at, more) in held.iter().zip((1..=held.len() as u64).rev()) {
        let equal = left / more;
        if *at <= equal {
            return equal;
        }
        left = left.saturating_sub(*at);
    }
    Bytes::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: Bytes = Bytes::mib(96);

    /// The parts in MiB of disks that hold so many MiB, of `limit` MiB.
    fn parts(limit: u64, held: &[u64]) -> Vec<u64> {
        let mut shares = vec![Share::default(); held.len()];
        shares.iter_mut().zip(held).for_each(|(share, held)| share.look(Instant::ZERO, Bytes::mib(*held)));
        divide(Bytes::mib(limit), &mut shares.iter_mut().collect::<Vec<_>>());
        shares.iter().map(|share| share.part.get() >> 20).collect()
    }

    #[test]
    fn disks_that_hold_something_have_equal_parts() {
        assert_eq!(parts(96, &[]), Vec::<u64>::new());
        assert_eq!(parts(96, &[0, 0, 0]), [96, 96, 96]);
        assert_eq!(parts(96, &[0, 1, 0]), [48, 96, 48]);
        assert_eq!(parts(96, &[0, 1, 40]), [28, 48, 48]);
        assert_eq!(parts(16, &[1, 1, 1, 1]), [4; 4]);
    }

    #[test]
    fn what_one_holds_the_others_do_not_have_until_it_is_used() {
        assert_eq!(parts(96, &[90, 1]), [48, 6]);
        assert_eq!(parts(96, &[90, 0]), [96, 6]);
        assert_eq!(parts(96, &[60, 36]), [48, 36]);
        assert_eq!(parts(96, &[60, 1, 1]), [32, 18, 18]);
        assert_eq!(parts(96, &[60, 30, 1]), [32, 6, 6]);
        assert_eq!(parts(96, &[96, 0, 0]), [96, 0, 0]);
    }

    #[test]
    fn one_that_holds_more_than_the_limit_keeps_its_part() {
        // Several users hold a quarter more, and the limit shrinks.
        assert_eq!(parts(96, &[120]), [96]);
        assert_eq!(parts(96, &[120, 1]), [48, 0]);
    }

    #[test]
    fn a_part_is_kept_for_a_while() {
        let (mut one, mut other) = (Share::default(), Share::default());
        let mut at = |seconds, held: [u64; 2]| {
            let now = Instant::ZERO + Nanos::from_millis(seconds);
            one.look(now, Bytes::mib(held[0]));
            other.look(now, Bytes::mib(held[1]));
            let news = divide(LIMIT, &mut [&mut one, &mut other]);
            ([one.part, other.part].map(|part| part.get() >> 20), news.len())
        };
        assert_eq!(at(0, [1, 1]), ([48, 48], 2));
        assert_eq!(at(900, [1, 0]), ([48, 48], 0));
        assert_eq!(at(1900, [1, 0]), ([96, 48], 1));
        assert_eq!(at(2000, [50, 0]), ([96, 46], 1), "a smaller part is told at once");
        assert_eq!(at(2010, [45, 0]), ([96, 46], 0), "48 are hardly more");
        assert_eq!(at(2020, [45, 1]), ([48, 46], 1));
        assert_eq!(at(9000, [0, 0]), ([96, 96], 2));
    }

    proptest! {
            /// One disk after the other fetches or uses some: together they never hold more than the limit, also if all that have a
            /// part fill it.
            #[test]
            fn all_together_never_hold_more_than_the_limit(
                limit in 1..1u64 << 30,
                disks in 1..16usize,
                steps in prop::collection::vec((any::<prop::sample::Index>(), 0..=8u64, any::<bool>(), 0..2000u64), 1..200),
            ) {
                let limit = Bytes(limit);
                let (mut shares, mut held, mut now) = (vec![Share::default(); disks], vec![Bytes::ZERO; disks], Instant::ZERO);
                for (disk, eighths, fetches, later) in steps {
                    now += Nanos::from_millis(later);
    shares.iter_mut().zip(&held).for_each(|(share, held)| share.look(now, *held));
                    divide(limit, &mut shares.iter_mut().collect::<Vec<_>>());
                    let with_part = (0..disks).filter(|at| shares[*at].is_part());
                    let full: Bytes = with_part.map(|at| held[at].max(shares[at].part)).sum();
                    prop_assert!(full <= limit, "{full} of {limit}: {shares:?}");
                    let disk = disk.index(disks);
                    let more = shares[disk].part.saturating_sub(held[disk]);
                    held[disk] = if fetches { held[disk] + more / 8 * eighths } else { held[disk] / 8 * eighths };
                    let all: Bytes = held.iter().copied().sum();
                    prop_assert!(all <= limit, "{all} of {limit}: {shares:?}");
                }
            }
        }
}
