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
//! A busy disk has few such moments. If others may have read, as far as the machine's counts tell, one is waited for: a
//! *check*. Checks that find nothing become rare.
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
/// A program that reads less often than this makes no request wait.
const WITHIN: Nanos = Nanos::from_secs(2);
/// The most time between two looks: a wait for an idle disk costs some rotations, which is a hundredth.
const RARELY: Nanos = Nanos::from_secs(2);

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Proof {
    /// What others have read at the looks since programs last changed.
    read: Option<Surplus>,
    /// How often that has grown, and when it last did.
    grown: u32,
    last: Instant,
    /// When others were last proven to read.
    proven: Option<Instant>,
    /// Others may have read since the last look.
    suspected: bool,
    looked: Instant,
    /// The time from a look to a check, if others may have read.
    pause: Nanos,
}

impl Default for Proof {
    fn default() -> Self {
        let (read, proven, last, looked) = (None, None, Instant(0), Instant(0));
        Self { read, grown: 0, last, proven, suspected: true, looked, pause: APART }
    }
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
            (self.looked, self.suspected) = (now, false);
        }
        is_idle
    }

    fn grows(&mut self, now: Instant) {
        let since = now - self.last;
        if self.grown > 0 && since < APART {
            return;
        }
        self.grown = if since > WITHIN { 1 } else { self.grown.saturating_add(1) };
        (self.last, self.pause) = (now, APART);
        if self.grown >= TIMES {
            self.proven = Some(now);
        }
    }

    /// Others may have read from some disk.
    pub fn suspect(&mut self) {
        self.suspected = true;
    }

    /// Whether to wait for an idle disk, and look.
    pub fn checks(&mut self, now: Instant) -> bool {
        let is_due = now >= self.looked + if self.suspected { self.pause } else { RARELY };
        if is_due {
            (self.looked, self.suspected) = (now, false);
            self.pause = (self.pause * 2).min(RARELY);
        }
        is_due
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
    fn checks_are_rare_but_if_others_may_have_read() {
        assert!(Proof::default().checks(Instant(1) + APART), "the first one begins the count");
        let mut model = model();
        assert!(
            !model.proof.clone().checks(model.now + APART) && model.proof.clone().checks(model.now + RARELY)
        );
        model.proof.suspect();
        assert!(!model.proof.clone().checks(model.now) && model.proof.clone().checks(model.now + APART));
        model.looks_beside_others(1, APART);
        assert!(!model.proof.checks(model.now + APART), "what was suspected was found");
    }

    #[test]
    fn checks_that_find_nothing_become_rare_until_one_finds_a_read() {
        let mut model = model();
        let waits = |model: &mut Model| {
            let (end, mut waits) = (model.now + RARELY * 2, 0);
            while model.now < end {
                model.now += Nanos::from_millis(1);
                model.proof.suspect();
                waits += u32::from(model.proof.checks(model.now));
            }
            waits
        };
        // After 50, 150, 350, 750, 1,550 and 3,150 ms.
        assert_eq!(waits(&mut model), 6);
        assert!(waits(&mut model) <= 2);
        model.looks_beside_others(1, APART);
        assert_eq!(waits(&mut model), 6);
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
