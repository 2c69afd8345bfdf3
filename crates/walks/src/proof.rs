//! Whether others read from a disk, as far as that is certain.
//!
//! While a disk has no read in flight, all that was requested of it is over. What it has completed, less what was
//! requested by this process and by the programs that it helps, is then exactly what others have read. A *look* at such a
//! moment costs no wait. If that difference grows from look to look, others read.
//!
//! Single looks may err. A program that is helped is known some milliseconds after its first read. A read counts for the
//! program a moment before it is in flight, and for the disk a moment after. So the difference must grow [`TIMES`] times,
//! [`APART`] from each other. What others have read before a program came or went is not known, and does not count.
//!
//! Limits: others are not seen where the disk is never idle at a look, where programs come and go all the time, and while
//! helped programs read more from another disk than others do from this one.
//!
//! It is pure: its inputs are counts and times.

use crate::bursts::{Counted, QUIET, Surplus};
use foreseek_units::{Instant, Nanos};

/// One read of another program is no reason to hold back, nor are a few side by side.
const TIMES: u32 = 3;
/// The time in which a program that is helped becomes known, twice that in all.
const APART: Nanos = Nanos::from_millis(50);
/// A program that reads less often than this is not held back for.
const WITHIN: Nanos = Nanos::from_secs(2);
/// The most time between two looks: a wait for an idle disk costs a rotation, which is a two-hundredth.
const RARELY: Nanos = Nanos::from_secs(2);

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// What others have read at the looks since programs last changed.
    read: Option<Surplus>,
    /// How often that has grown, and when it last did.
    grown: u32,
    last: Instant,
    /// When others were last proven to read.
    proven: Option<Instant>,
    due: Instant,
}

impl Proof {
    /// Looks at what was read until now. Returns whether the disk was idle, so that it counts.
    pub fn look(&mut self, now: Instant, counted: Counted) -> bool {
        let is_idle = counted.idle && counted.before == counted.own + counted.helped;
        if is_idle {
            let others = counted.others();
            // The first one begins the count.
            if self.read.get_or_insert(Surplus::new(others)).grows(others) {
                self.grows(now);
            }
            self.looked(now);
        }
        is_idle
    }

    fn grows(&mut self, now: Instant) {
        let since = now - self.last;
        if self.grown > 0 && since < APART {
            return;
        }
        self.grown = if since > WITHIN { 1 } else { self.grown.saturating_add(1) };
        self.last = now;
        if self.grown >= TIMES {
            self.proven = Some(now);
        }
    }

    /// A look was made, or the wait for one was in vain.
    pub fn looked(&mut self, now: Instant) {
        let is_likely = (1..TIMES).contains(&self.grown);
        // A pause that doubles: one read that is no proof must not bring waits all the time.
        self.due = now + if is_likely { (now - self.last).clamp(APART, RARELY) } else { RARELY };
    }

    /// Whether to wait for an idle disk, and look.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// A program is helped from now on, or one that was has ended: some of its reads do not count as its own.
    pub fn programs_change(&mut self) {
        (self.read, self.grown) = (None, 0);
    }

    /// When others were last proven to read, if they still do.
    #[must_use]
    pub fn others_read(&self, now: Instant) -> Option<Instant> {
        self.proven.filter(|proven| now - *proven <= QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::{Bytes, PAGE_SIZE};
    use proptest::prelude::*;

    const PAGE: Bytes = Bytes(PAGE_SIZE);

    /// A disk in virtual time, and those who read from it.
    #[derive(Default)]
    struct Model {
        proof: Proof,
        now: Instant,
        own: Bytes,
        helped: Bytes,
        others: Bytes,
        /// What this process and the programs that it helps have in flight.
        in_flight: Bytes,
    }

    impl Model {
        fn counted(&self) -> Counted {
            let disk = self.own + self.helped + self.others - self.in_flight;
            let (before, idle) = (self.own + self.helped, self.in_flight.is_zero());
            Counted { before, idle, machine: None, disk, own: self.own, helped: self.helped }
        }

        fn look(&mut self) -> bool {
            self.proof.look(self.now, self.counted())
        }

        /// Others read before each look.
        fn looks_beside_others(&mut self, number: u32, apart: Nanos) {
            for _ in 0..number {
                self.now += apart;
                self.others += PAGE;
                assert!(self.look());
            }
        }

        fn holds(&self) -> bool {
            self.proof.others_read(self.now).is_some()
        }
    }

    /// A model whose first look was made.
    fn model() -> Model {
        let mut model = Model { others: Bytes::gib(1), now: Instant(1), ..Model::default() };
        assert!(model.look());
        model
    }

    #[test]
    fn others_are_proven_to_read_by_some_looks_and_until_they_have_not_for_a_while() {
        let mut model = model();
        model.looks_beside_others(TIMES - 1, APART);
        assert!(!model.holds());
        model.looks_beside_others(1, APART);
        assert!(model.holds());
        model.now += QUIET;
        assert!(model.look() && model.holds());
        model.now += Nanos(1);
        assert!(!model.holds());
    }

    #[test]
    fn a_look_at_a_busy_disk_does_not_count() {
        let mut model = model();
        for _ in 0..TIMES * 2 {
            model.now += APART;
            model.others += PAGE;
            let counted = model.counted();
            assert!(!model.proof.look(model.now, Counted { idle: false, ..counted }), "a read is in flight");
            let before = counted.before - PAGE;
            let counted =
                Counted { before, helped: counted.helped + PAGE, disk: counted.disk + PAGE, ..counted };
            assert!(!model.proof.look(model.now, counted), "one was requested meanwhile");
        }
        assert!(!model.holds());
    }

    #[test]
    fn a_look_is_due_rarely_and_soon_after_others_have_read() {
        let mut model = model();
        assert!(Proof::default().is_due(model.now) && !model.proof.is_due(model.now));
        assert!(model.proof.is_due(model.now + RARELY));
        model.looks_beside_others(1, RARELY);
        assert!(!model.proof.is_due(model.now) && model.proof.is_due(model.now + APART));
        model.proof.looked(model.now + APART);
        assert!(!model.proof.is_due(model.now + APART));
        model.looks_beside_others(TIMES - 1, APART);
        assert!(model.holds() && !model.proof.is_due(model.now + APART));
    }

    #[test]
    fn one_read_of_others_brings_few_waits() {
        let mut model = model();
        model.looks_beside_others(1, APART);
        let (end, mut waits) = (model.now + RARELY * 2, 0);
        while model.now < end {
            model.now += Nanos::from_millis(1);
            if model.proof.is_due(model.now) {
                model.proof.looked(model.now);
                waits += 1;
            }
        }
        // After 50, 100, 200, 400, 800, 1,600 and 3,200 ms.
        assert_eq!(waits, 7);
    }

    proptest! {
        /// Whatever this process and the programs that it helps read, and however much of it is in flight at a look.
        /// Programs that are not known yet read as well, for twice [`APART`] at most, as do others a few times.
        #[test]
        fn alone_it_never_holds(
            few in 1..TIMES,
            steps in prop::collection::vec((0..50u64, 0..50u64, 0..=100u64, 0..60u64, prop::bool::weighted(0.1)), 1..300),
        ) {
            let mut model = model();
            model.looks_beside_others(few, APART);
            model.now += WITHIN + APART;
            let mut unknown_since = None;
            for (own, helped, arrives, pause_ms, begins) in steps {
                model.now += Nanos::from_millis(pause_ms);
                model.own += PAGE * own;
                model.helped += PAGE * helped;
                model.in_flight += PAGE * (own + helped);
                model.in_flight -= (model.in_flight * arrives / 100).pages_floor().bytes();
                if begins && unknown_since.is_none() {
                    unknown_since = Some(model.now);
                }
                if let Some(since) = unknown_since {
                    if model.now - since < APART * 2 {
                        model.others += PAGE;
                    } else {
                        model.proof.programs_change();
                        unknown_since = None;
                    }
                }
                model.look();
                prop_assert!(!model.holds());
            }
        }

        /// Beside a reader it holds after some looks, whatever else is read. It does not hold before.
        #[test]
        fn beside_others_it_holds_after_some_looks(
            steps in prop::collection::vec((0..50u64, 0..50u64, 0..=100u64, 50..400u64), 10..100),
        ) {
            let (mut model, mut idle_looks) = (model(), 0);
            for (own, helped, arrives, pause_ms) in steps {
                model.now += Nanos::from_millis(pause_ms);
                model.own += PAGE * own;
                model.helped += PAGE * helped;
                model.in_flight += PAGE * (own + helped);
                // All of it has arrived at every second look or so.
                model.in_flight -= (model.in_flight * (2 * arrives).min(100) / 100).pages_floor().bytes();
                model.others += PAGE;
                let long_ago = model.now - model.proof.last > WITHIN && model.proof.grown > 0;
                idle_looks = if model.look() { if long_ago { 1 } else { idle_looks + 1 } } else { idle_looks };
                prop_assert!(idle_looks >= TIMES || !model.holds());
                prop_assert!(idle_looks < TIMES || model.holds() || model.now - model.proof.last > QUIET);
            }
        }
    }
}
