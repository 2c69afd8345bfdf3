//! Whether others read from a disk, as far as that is certain.
//!
//! Counts tell it, at a *look*, in two ways:
//!
//! - *Requests.* What was requested on the whole machine, less what was requested by this process and by the programs
//!   that it helps, was requested by others. While no other disk has a read in flight, all that was requested of the
//!   others is over. Less that too, it is what others have requested of this disk, or less.
//! - *Completions.* While this disk has no read in flight, all that was requested of it is over. What it has completed,
//!   less what was requested by this process and by the programs that it helps, is what others have read.
//!
//! If such a difference grows from look to look, others read. The first way does where the machine counts its requests and
//! other disks are idle at times, however busy this one is. Without it a moment is needed in which this disk is idle. A
//! busy disk has few. If others may have read, one is waited for: a *check*. Checks that find nothing become rare.
//!
//! Single looks may err. A program that is helped is known some milliseconds after its first read. A read counts for the
//! program a moment before it is in flight, and for the disk a moment after. So the difference must grow [`TIMES`] times,
//! [`APART`] from each other. What others have read before a program came or went is not known, and does not count.
//!
//! Limits. Others are not seen where neither this disk nor the others are ever idle at a look, and where programs come and
//! go all the time. Nor are they while this process and the programs that it helps read more from other disks than others
//! do from this one.
//!
//! It is pure: its inputs are counts and times.

use crate::bursts::{Counted, QUIET, Surplus};
use foreseek_units::{Bytes, Instant, Nanos};

/// One read of another program is no reason to hold back, nor are a few side by side.
const TIMES: u32 = 3;
/// The time in which a program that is helped becomes known, twice that in all.
const APART: Nanos = Nanos::from_millis(50);
/// A program that reads less often than this makes no request wait.
const WITHIN: Nanos = Nanos::from_secs(2);
/// The most time between two looks: a wait for an idle disk costs some rotations, which is a hundredth.
const RARELY: Nanos = Nanos::from_secs(2);

/// What one of both ways has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    /// What others have read at the looks since programs last changed.
    read: Option<Surplus>,
    /// How often that has grown, and when it last did.
    grown: u32,
    last: Instant,
}

impl Evidence {
    /// Whether others have read since the last look. The first one begins the count.
    fn grows(&mut self, now: Instant, others: i128) -> bool {
        let grows = self.read.get_or_insert(Surplus::new(others)).grows(others);
        let since = now - self.last;
        if grows && (self.grown == 0 || since >= APART) {
            self.grown = if since > WITHIN { 1 } else { self.grown.saturating_add(1) };
            self.last = now;
        }
        grows
    }
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Proof {
    requests: Evidence,
    completions: Evidence,
    /// What others have requested on the whole machine.
    machine: Surplus,
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
        let (requests, completions, machine) = (Evidence::default(), Evidence::default(), Surplus::default());
        let (proven, looked) = (None, Instant(0));
        Self { requests, completions, machine, proven, suspected: true, looked, pause: APART }
    }
}

impl Proof {
    /// Looks at what was requested until now. What the other disks have read is asked for after that; `None` if one has a
    /// read in flight.
    pub fn look_at_requests(
        &mut self,
        now: Instant,
        counted: Counted,
        other_disks: impl FnOnce() -> Option<Bytes>,
    ) {
        let Some(by_others) = counted.requested_by_others() else {
            self.suspected = true;
            return;
        };
        let (is_first, grows) = (self.requests.read.is_none(), self.machine.grows(by_others));
        let elsewhere = if grows || is_first { other_disks() } else { None };
        let here = elsewhere.map(|elsewhere| by_others - i128::from(elsewhere.get()));
        let is_found = here.is_some_and(|here| self.requests.grows(now, here));
        if is_found {
            self.found(now, self.requests);
        }
        if is_found || (is_first && here.is_some()) {
            self.suspected = false;
        } else if grows {
            // From another disk, or hidden by what disks read for themselves (RAID).
            self.suspected = true;
        }
        if !self.suspected {
            self.looked = now;
        }
    }

    /// Looks at what was completed until now. Returns whether the disk was idle, so that it counts.
    pub fn look(&mut self, now: Instant, counted: Counted) -> bool {
        let is_idle = counted.idle && counted.before == counted.own + counted.helped;
        if is_idle {
            (self.looked, self.suspected) = (now, false);
            if self.completions.grows(now, counted.others()) {
                self.found(now, self.completions);
            }
        }
        is_idle
    }

    /// Others have read since the last look.
    fn found(&mut self, now: Instant, by: Evidence) {
        self.pause = APART;
        if by.grown >= TIMES {
            self.proven = Some(now);
        }
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
        (self.requests.read, self.requests.grown) = (None, 0);
        (self.completions.read, self.completions.grown) = (None, 0);
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
    use foreseek_units::PAGE_SIZE;
    use proptest::prelude::*;

    const PAGE: Bytes = Bytes(PAGE_SIZE);

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Way {
        Requests,
        Completions,
    }

    const WAYS: [Way; 2] = [Way::Requests, Way::Completions];

    /// A disk in virtual time, those who read from it, and another disk.
    struct Model {
        way: Way,
        proof: Proof,
        now: Instant,
        own: Bytes,
        helped: Bytes,
        others: Bytes,
        /// What this process and the programs that it helps have in flight.
        in_flight: Bytes,
        /// What was requested of the other disk, and what of that is in flight.
        elsewhere: Bytes,
        in_flight_elsewhere: Bytes,
    }

    impl Model {
        /// A model whose first look was made.
        fn new(way: Way) -> Self {
            let none = Bytes::ZERO;
            let (proof, now, others) = (Proof::default(), Instant(1), Bytes::gib(1));
            let (own, helped, in_flight, elsewhere, in_flight_elsewhere) =
                (none, none, none, Bytes::gib(2), none);
            let mut model =
                Self { way, proof, now, own, helped, others, in_flight, elsewhere, in_flight_elsewhere };
            assert!(model.look());
            model
        }

        fn counted(&self) -> Counted {
            let before = self.own + self.helped;
            let disk = before + self.others - self.in_flight;
            let machine = (self.way == Way::Requests).then_some(before + self.others + self.elsewhere);
            let idle = self.in_flight.is_zero();
            Counted { before, idle, machine, disk, own: self.own, helped: self.helped }
        }

        /// Returns whether the look counts.
        fn look(&mut self) -> bool {
            match self.way {
                Way::Requests => {
                    let idle = self.in_flight_elsewhere.is_zero();
                    self.proof.look_at_requests(self.now, self.counted(), || idle.then_some(self.elsewhere));
                    idle
                }
                Way::Completions => self.proof.look(self.now, self.counted()),
            }
        }

        /// Others may have read: the machine does not count.
        fn suspect(&mut self) {
            let counted = Counted { machine: None, ..self.counted() };
            self.proof.look_at_requests(self.now, counted, || None);
        }

        /// Others read before each look.
        fn looks_beside_others(&mut self, number: u32, apart: Nanos) {
            for _ in 0..number {
                self.now += apart;
                self.others += PAGE;
                assert!(self.look());
            }
        }

        /// This process, programs that it helps and any others of another disk read some pages. A part of all that is in
        /// flight arrives.
        fn reads(&mut self, own: u64, helped: u64, elsewhere: u64, arrives: u64) {
            self.own += PAGE * own;
            self.helped += PAGE * helped;
            self.in_flight += PAGE * (own + helped);
            self.elsewhere += PAGE * elsewhere;
            self.in_flight_elsewhere += PAGE * elsewhere;
            for in_flight in [&mut self.in_flight, &mut self.in_flight_elsewhere] {
                *in_flight -= (*in_flight * arrives.min(100) / 100).pages_floor().bytes();
            }
        }

        fn holds(&self) -> bool {
            self.proof.others_read(self.now).is_some()
        }
    }

    #[test]
    fn others_are_proven_to_read_by_some_looks_and_until_they_have_not_for_a_while() {
        for way in WAYS {
            let mut model = Model::new(way);
            model.looks_beside_others(TIMES - 1, APART);
            assert!(!model.holds());
            model.looks_beside_others(1, APART);
            assert!(model.holds());
            model.now += QUIET;
            assert!(model.look() && model.holds());
            model.now += Nanos(1);
            assert!(!model.holds());
        }
    }

    #[test]
    fn a_look_at_a_busy_disk_does_not_count() {
        let mut model = Model::new(Way::Completions);
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
    fn what_others_read_from_other_disks_is_no_reason_to_hold_back_but_to_check() {
        let mut model = Model::new(Way::Requests);
        for in_flight in [Bytes::ZERO, PAGE].repeat(TIMES as usize * 2) {
            model.now += APART;
            model.elsewhere += PAGE;
            model.in_flight_elsewhere = in_flight;
            assert!(model.look() == in_flight.is_zero() && model.proof.clone().checks(model.now + APART));
        }
        assert!(!model.holds());
    }

    #[test]
    fn what_one_way_has_shown_long_ago_proves_nothing_by_the_other() {
        for (way, other) in [(Way::Requests, Way::Completions), (Way::Completions, Way::Requests)] {
            let mut model = Model::new(way);
            model.looks_beside_others(TIMES, APART);
            assert!(model.holds());
            model.now += WITHIN * 5;
            model.way = other;
            model.look();
            model.looks_beside_others(TIMES - 1, APART);
            assert!(!model.holds());
            model.looks_beside_others(1, APART);
            assert!(model.holds());
        }
    }

    #[test]
    fn checks_are_rare_but_if_others_may_have_read() {
        assert!(Proof::default().checks(Instant(1) + APART), "the first one begins the count");
        for way in WAYS {
            let mut model = Model::new(way);
            let checks = |model: &Model, after| model.proof.clone().checks(model.now + after);
            assert!(!checks(&model, APART) && checks(&model, RARELY));
            model.suspect();
            assert!(!checks(&model, Nanos::ZERO) && checks(&model, APART));
            model.looks_beside_others(1, APART);
            assert!(!checks(&model, APART), "what was suspected was found");
        }
    }

    #[test]
    fn while_nobody_else_reads_from_any_disk_there_are_no_checks() {
        let mut model = Model::new(Way::Requests);
        for _ in 0..100 {
            model.now += APART;
            model.reads(10, 10, 0, 0);
            model.look();
            assert!(!model.proof.checks(model.now + RARELY - Nanos(1)));
        }
    }

    #[test]
    fn checks_that_find_nothing_become_rare_until_one_finds_a_read() {
        let mut model = Model::new(Way::Completions);
        let waits = |model: &mut Model| {
            let (end, mut waits) = (model.now + RARELY * 2, 0);
            while model.now < end {
                model.now += Nanos::from_millis(1);
                model.suspect();
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

    fn way() -> impl Strategy<Value = Way> {
        prop::sample::select(WAYS.as_slice())
    }

    proptest! {
        /// Whatever this process and the programs that it helps read, however much of it is in flight at a look, and
        /// whatever is read from other disks. Programs that are not known yet read as well, for twice [`APART`] at most, as
        /// do others a few times.
        #[test]
        fn alone_it_never_holds(
            way in way(),
            few in 1..TIMES,
            steps in prop::collection::vec((0..50u64, 0..50u64, 0..9u64, 0..=100u64, 0..60u64, prop::bool::weighted(0.1)), 1..300),
        ) {
            let mut model = Model::new(way);
            model.looks_beside_others(few, APART);
            model.now += WITHIN + APART;
            let mut unknown_since = None;
            for (own, helped, elsewhere, arrives, pause_ms, begins) in steps {
                model.now += Nanos::from_millis(pause_ms);
                model.reads(own, helped, elsewhere, arrives);
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
            way in way(),
            steps in prop::collection::vec((0..50u64, 0..50u64, 0..9u64, 0..=100u64, 50..400u64), 10..100),
        ) {
            let (mut model, mut counting) = (Model::new(way), 0);
            for (own, helped, elsewhere, arrives, pause_ms) in steps {
                model.now += Nanos::from_millis(pause_ms);
                // All of it has arrived at every second look or so.
                model.reads(own, helped, elsewhere, 2 * arrives);
                model.others += PAGE;
                let seen = if way == Way::Requests { model.proof.requests } else { model.proof.completions };
                let long_ago = model.now - seen.last > WITHIN && seen.grown > 0;
                counting = if model.look() { if long_ago { 1 } else { counting + 1 } } else { counting };
                prop_assert!(counting >= TIMES || !model.holds());
                prop_assert!(counting < TIMES || model.holds() || model.now - seen.last > QUIET);
            }
        }
    }
}
