//! The parts of the window that disks have.
//!
//! A disk has the whole window where no other one needs memory. Several have equal parts. If one held more when another
//! began to need memory, it keeps that until its program has used it, and the parts are what remains. So all disks together
//! never hold more than the window.
//!
//! A window that is too small to gain anything in parts ([`MEMORY_LEAST`]) is for the first disks alone.
//!
//! A disk that needs no memory has the part that it would get, so that its first round does not wait for it.
//!
//! Pure.

use crate::engine::Demand;
use crate::options::MEMORY_LEAST;
use foreseek_units::Bytes;

/// Changes of less than this part of the window are ignored: a sixteenth.
const CHANGE: u64 = 16;

/// The part of each disk, by their demands.
pub(crate) fn parts(window: Bytes, demands: &[Demand]) -> Vec<Bytes> {
    let most = usize::try_from(window / MEMORY_LEAST).unwrap_or(usize::MAX).max(1);
    let mut order: Vec<usize> = (0..demands.len()).filter(|at| demands[*at].takes_part()).collect();
    // What is held stays where it is.
    order.sort_by_key(|at| demands[*at].held.is_zero());
    let (served, waiting) = order.split_at(order.len().min(most));
    let held = |of: &[usize]| of.iter().map(|at| demands[*at].held).collect::<Vec<_>>();
    let level = level(window.saturating_sub(held(waiting).into_iter().sum()), held(served));
    let next = window / (served.len() + 1).min(most) as u64;
    let mut parts = vec![next; demands.len()];
    served.iter().for_each(|at| parts[*at] = level);
    waiting.iter().for_each(|at| parts[*at] = Bytes::ZERO);
    parts
}

/// The equal parts of disks that hold so much: the window is the sum of these, or of what is held where that is more.
fn level(window: Bytes, mut held: Vec<Bytes>) -> Bytes {
    held.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = window;
    for (more, held) in held.iter().enumerate().map(|(at, it)| (held.len() - at, *it)) {
        let equal = left / more as u64;
        if held <= equal {
            return equal;
        }
        left = left.saturating_sub(held);
    }
    Bytes::ZERO
}

/// Whether a disk is to be told of its part.
pub(crate) fn is_news(window: Bytes, told: Bytes, part: Bytes) -> bool {
    let change = if part > told { part - told } else { told - part };
    change > window / CHANGE || (part.is_zero() != told.is_zero())
}

impl Demand {
    fn takes_part(&self) -> bool {
        self.needs_memory || !self.held.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Bytes = Bytes::mib(96);
    const IDLE: Demand = Demand { held: Bytes::ZERO, needs_memory: false };

    fn walks(held: u64) -> Demand {
        Demand { held: Bytes::mib(held), needs_memory: true }
    }

    fn mib(window: Bytes, demands: &[Demand]) -> Vec<u64> {
        parts(window, demands).iter().map(|part| part.get() >> 20).collect()
    }

    #[test]
    fn disks_on_which_programs_walk_share_the_window() {
        assert_eq!(mib(WINDOW, &[IDLE, IDLE, IDLE]), [96, 96, 96]);
        assert_eq!(mib(WINDOW, &[IDLE, walks(0), IDLE]), [48, 96, 48]);
        assert_eq!(mib(WINDOW, &[IDLE, walks(0), walks(40)]), [32, 48, 48]);
        assert_eq!(mib(WINDOW, &[]), Vec::<u64>::new());
    }

    #[test]
    fn what_one_holds_the_others_do_not_have_until_it_is_used() {
        assert_eq!(mib(WINDOW, &[walks(90), walks(0)]), [6, 6]);
        assert_eq!(mib(WINDOW, &[walks(60), walks(36)]), [36, 36]);
        assert_eq!(mib(WINDOW, &[walks(40), walks(36)]), [48, 48]);
        assert_eq!(mib(WINDOW, &[walks(60), walks(0), walks(0)]), [18, 18, 18]);
        assert_eq!(mib(WINDOW, &[walks(60), walks(30), walks(0)]), [6, 6, 6]);
        // A program that has ended may have left something.
        let left = Demand { held: Bytes::mib(72), needs_memory: false };
        assert_eq!(mib(WINDOW, &[left, walks(0)]), [24, 24]);
    }

    #[test]
    fn no_part_is_too_small_to_gain_anything() {
        let small = MEMORY_LEAST * 2;
        assert_eq!(mib(small, &[walks(0), walks(0), walks(0)]), [16, 16, 0]);
        assert_eq!(mib(small, &[walks(0), walks(0), walks(1)]), [16, 0, 16]);
        assert_eq!(mib(small, &[walks(1), walks(1), IDLE]), [16, 16, 16]);
        assert_eq!(mib(MEMORY_LEAST, &[walks(1), walks(0)]), [16, 0]);
    }

    #[test]
    fn small_changes_are_no_news() {
        assert!(!is_news(WINDOW, Bytes::mib(48), Bytes::mib(50)));
        assert!(
            is_news(WINDOW, Bytes::mib(48), Bytes::mib(55))
                && is_news(WINDOW, Bytes::mib(48), Bytes::mib(40))
        );
        assert!(is_news(WINDOW, Bytes::mib(1), Bytes::ZERO));
    }

    proptest! {
        /// Whatever disks hold: what they hold and may fetch in addition is no more than the window, if they held no more.
        #[test]
        fn all_parts_together_are_no_more_than_the_window(
            mib in 1..4096u64,
            drawn in prop::collection::vec((0..1024u64, any::<bool>(), any::<bool>()), 0..16),
        ) {
            let window = Bytes::mib(mib).max(MEMORY_LEAST);
            let mut left = window;
            let demands: Vec<Demand> = drawn.iter().map(|(held, holds, needs_memory)| {
                let held = if *holds { Bytes::mib(*held).min(left) } else { Bytes::ZERO };
                left = left.saturating_sub(held);
                Demand { held, needs_memory: *needs_memory }
            }).collect();
            let parts = parts(window, &demands);
            let taking = demands.iter().zip(&parts).filter(|(demand, _)| demand.takes_part());
            let all: Bytes = taking.map(|(demand, part)| demand.held.max(*part)).sum();
            prop_assert!(all <= window, "{all} of {window}");
            for (demand, part) in demands.iter().zip(&parts) {
                prop_assert!(demand.takes_part() || *part >= MEMORY_LEAST);
            }
        }
    }
}
