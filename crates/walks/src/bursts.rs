//! How much is requested of a disk at a time while other programs may read from it.
//!
//! Requests ahead go to the kernel in *bursts*. The length of a burst is the modelled time of the disk for it: positioning
//! and transfer, as the bound on a walk has them. A number of requests would not do, since some lie side by side and
//! others are a seek apart.
//!
//! - *Others read*: a burst has [`SHORT`] or [`SHORTER`], and the next one waits until the disk has served it. A read of another program
//!   thus waits for the rest of a burst. Nothing else bounds its wait: a scheduler that sorts by address serves what is
//!   read ahead first, since it lies in front of the head, and so does a drive's queue. The positioning to a burst's first
//!   request comes besides, since the disk reads elsewhere in between. This ends when nobody else has read for [`QUIET`].
//! - *Nobody else reads*: after [`LONG`] there is a look at counts, and no wait.
//!
//! Who reads follows from counts. Reads that were *requested* on the whole machine, less those of this process and of the
//! programs that it helps, are those of others, from whatever disk. If there are some, they may be reads of this disk.
//! Reads that the disk has *completed*, less the same, tell that, but only while it has nothing of ours in flight: hence a
//! *check*, a single wait. While others read from other disks alone, checks become rare ([`RARELY`]).
//!
//! A read of a helped program counts for it when it is requested, and for the disk when it is over. What it has in flight
//! lowers the difference, so that the highest one so far must be exceeded. That is found within [`SETTLE`] of the first
//! request, in which checks do not judge. What a program has read when it is first known, or when it has ended, does not
//! count as its own. Checks do not judge for the same time after that, once in [`QUIET`].
//!
//! It is pure: its inputs are counts, times and addresses.

use crate::costs::Model;
use foreseek_units::{Bytes, DeviceCosts, Instant, Lba, Nanos, SectorSpan};
use std::sync::Arc;

/// A burst while others read. Another's read waits for half of it in the mean, which is less than its own positioning.
const SHORT: Nanos = Nanos::from_millis(16);
/// The same where programs that are helped read meanwhile: the other one's read waits for a read of theirs, too.
const SHORTER: Nanos = Nanos::from_millis(10);
/// The time between two looks while nobody else reads. A look takes 0.1 ms.
const LONG: Nanos = Nanos::from_millis(32);
/// The most time between two checks: a queue that runs empty costs a rotation at most, which is a fiftieth.
const RARELY: Nanos = Nanos::from_millis(500);
/// Others read until they have not for so long. A program that waits for a person or another machine between two
/// reads often reads again within it.
pub const QUIET: Nanos = Nanos::from_millis(500);
/// Some checks, each of which may find less of helped programs in flight.
const SETTLE: Nanos = Nanos::from_millis(100);
/// The most that is in flight at a look for programs that are helped: the read-ahead of a few. What this process reads
/// from another disk meanwhile counts as in flight, too.
const DEBT: Bytes = Bytes::mib(2);
/// The kernel counts reads of the machine in KiB.
const ROUNDED: Bytes = Bytes::kib(1);

/// What was read since any time in the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Requested by this process and the programs that it helps, counted before all else.
    pub before: Bytes,
    /// The disk had no read in flight, counted after that.
    pub idle: bool,
    /// Requested on the whole machine, where that is known.
    pub machine: Option<Bytes>,
    /// Completed by the disk, for all programs.
    pub disk: Bytes,
    /// Requested by this process, counted after all that.
    pub own: Bytes,
    /// Requested by the programs that it helps, as far as they are known.
    pub helped: Bytes,
}

impl Counted {
    /// What others have read from the disk. What is in flight lowers it.
    pub(crate) fn others(&self) -> i128 {
        less(self.disk, self.own + self.helped)
    }

    /// What others have requested on the whole machine.
    pub(crate) fn requested_by_others(&self) -> Option<i128> {
        self.machine.map(|machine| less(machine, self.own + self.helped))
    }

    /// The beginning of a count of that. It is not too low: what was requested meanwhile is part of it.
    fn begins_machine(&self) -> Surplus {
        Surplus::new(less(self.machine.unwrap_or_default(), self.before))
    }
}

/// See the module's documentation.
#[derive(Clone)]
pub struct Bursts {
    model: Model,
    /// The length of a burst while others read.
    short: Nanos,
    /// The end of the last request; unknown at the start of a burst beside others.
    head: Option<Lba>,
    /// The modelled time of the present burst.
    length: Nanos,
    machine: Surplus,
    disk: Surplus,
    /// Others have read from some disk since the last check.
    suspected: bool,
    next_check: Instant,
    until_next: Nanos,
    /// When others were last known to read from this disk.
    others: Option<Instant>,
    /// Until then checks do not judge.
    judges_from: Instant,
}

impl std::fmt::Debug for Bursts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bursts")
            .field("length", &self.length)
            .field("others", &self.others)
            .finish_non_exhaustive()
    }
}

impl Bursts {
    /// Bursts to a disk with these costs, of which this process and the programs that it helps have nothing in flight.
    #[must_use]
    pub fn new(costs: Arc<dyn DeviceCosts>, counted: Counted) -> Self {
        let mut bursts = Self {
            model: Model::new(costs),
            short: SHORT,
            head: None,
            length: Nanos::ZERO,
            machine: Surplus::default(),
            disk: Surplus::default(),
            suspected: false,
            next_check: Instant(0),
            until_next: LONG,
            others: None,
            judges_from: Instant(0),
        };
        bursts.begin(Instant(0), counted);
        bursts
    }

    /// The programs that are helped read while requests ahead go out.
    #[must_use]
    pub fn beside_helped_programs(self) -> Self {
        Self { short: SHORTER, ..self }
    }

    /// The first burst begins after a pause, in which what this process requested was served. What others have read until
    /// now does not matter.
    pub fn begin(&mut self, now: Instant, counted: Counted) {
        self.disk = Surplus::new(counted.others());
        self.machine = counted.begins_machine();
        (self.head, self.length, self.suspected, self.others) = (None, Nanos::ZERO, false, None);
        (self.next_check, self.until_next, self.judges_from) = (now, LONG, now + SETTLE);
    }

    /// Something was requested: this much, at an address if it is known.
    pub fn requested(&mut self, place: Option<Lba>, length: Bytes) {
        let sectors = length.sectors_ceil();
        let Some(start) = place else {
            self.head = None;
            self.length += self.model.average() + self.model.slowest(sectors);
            return;
        };
        let span = SectorSpan::at(start, sectors);
        let way = self.head.map_or(Nanos::ZERO, |head| self.model.step(head, start));
        self.head = Some(span.end);
        self.length += way + self.model.transfer(span);
    }

    /// Whether the present burst is as long as it may be.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.length >= if self.others_read() { self.short } else { LONG }
    }

    /// Whether others are known to read from the disk.
    #[must_use]
    pub fn others_read(&self) -> bool {
        self.others.is_some()
    }

    /// A program is helped from now on, or one that was has ended: some of its reads do not count as its own.
    pub fn programs_change(&mut self, now: Instant) {
        if now >= self.judges_from + QUIET {
            self.judges_from = now + SETTLE;
        }
    }

    /// Others are known to have read at this time.
    pub fn others_have_read(&mut self, at: Instant) {
        self.others = self.others.max(Some(at));
    }

    /// The present burst is over, and nothing is waited for.
    pub fn restart(&mut self) {
        self.length = Nanos::ZERO;
    }

    /// The present burst is over. Returns whether to wait until the disk has served it, and then to call
    /// [`Bursts::served`].
    pub fn end(&mut self, now: Instant, counted: Counted) -> bool {
        self.length = Nanos::ZERO;
        self.suspected |= self.machine_grows(counted);
        if self.others_read() {
            self.head = None;
            return true;
        }
        let checks = self.suspected && now >= self.next_check;
        if checks {
            let until_next = if now < self.judges_from { LONG } else { self.until_next };
            self.next_check = now + until_next;
            self.until_next = (until_next * 2).min(RARELY);
        }
        checks
    }

    /// The disk has nothing in flight, as far as can be seen.
    pub fn served(&mut self, now: Instant, counted: Counted) {
        let suspected = std::mem::take(&mut self.suspected);
        let judges = self.others_read() || now >= self.judges_from;
        if self.disk.grows(counted.others()) && suspected && judges {
            self.others = Some(now);
        } else if self.others.is_some_and(|seen| now - seen > QUIET) {
            self.others = None;
            self.until_next = LONG;
        }
    }

    fn machine_grows(&mut self, counted: Counted) -> bool {
        let grows = counted.requested_by_others().is_none_or(|others| self.machine.grows(others));
        if grows {
            self.machine = counted.begins_machine();
        }
        grows
    }
}

/// What others have read: the highest difference so far, no more than [`DEBT`] above the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Surplus(i128);

impl Surplus {
    pub(crate) fn new(now: i128) -> Self {
        Self(now)
    }

    /// Whether others have read since the difference was highest.
    pub(crate) fn grows(&mut self, now: i128) -> bool {
        let grows = now > self.0 + i128::from(ROUNDED.get());
        self.0 = self.0.max(now).min(now + i128::from(DEBT.get()));
        grows
    }
}

fn less(all: Bytes, own: Bytes) -> i128 {
    i128::from(all.get()) - i128::from(own.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_device::Profile;
    use foreseek_units::PAGE_SIZE;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    const PAGE: Bytes = Bytes(PAGE_SIZE);

    /// Bursts to a disk, whose model is made once.
    fn bursts() -> Bursts {
        static MADE: LazyLock<Bursts> = LazyLock::new(|| {
            Bursts::new(
                Arc::new(Profile::builtin("barracuda-500g").expect("a built-in profile")),
                Counted::default(),
            )
        });
        MADE.clone()
    }

    /// A driver and its disk in virtual time. The disk serves what is in flight when the driver waits.
    struct Driver {
        bursts: Bursts,
        model: Model,
        now: Instant,
        counted: Counted,
        in_flight: Bytes,
        /// The requests since the disk was idle.
        ahead: Vec<(Lba, Bytes)>,
        waits: u64,
    }

    impl Driver {
        fn new() -> Self {
            let counted = Counted { machine: Some(Bytes::ZERO), ..Counted::default() };
            let mut bursts = bursts();
            bursts.begin(Instant(1_000), counted);
            let (model, now) = (bursts.model.clone(), Instant(1_000) + SETTLE);
            Self { bursts, model, now, counted, in_flight: Bytes::ZERO, ahead: Vec::new(), waits: 0 }
        }

        fn request(&mut self, (place, length): (Lba, Bytes)) {
            self.bursts.requested(Some(place), length);
            self.ahead.push((place, length));
            self.counted.own += length;
            self.counted.before += length;
            self.counted.machine = self.counted.machine.map(|machine| machine + length);
            self.in_flight += length;
            if self.bursts.is_full() && self.bursts.end(self.now, self.counted) {
                self.waits += 1;
                self.now += self.time_ahead();
                self.complete(self.in_flight);
                self.ahead.clear();
                self.bursts.served(self.now, self.counted);
            }
        }

        fn complete(&mut self, bytes: Bytes) {
            self.in_flight -= bytes;
            self.counted.disk += bytes;
        }

        /// Another program reads from this disk or from another one.
        fn other_reads(&mut self, from_this: bool) {
            self.counted.machine = self.counted.machine.map(|machine| machine + PAGE);
            self.counted.disk += if from_this { PAGE } else { Bytes::ZERO };
        }

        /// The time of the disk for what is in flight, one request after the other, after the way to the first one.
        fn time_ahead(&self) -> Nanos {
            let model = &self.model;
            let end = |(place, length): (Lba, Bytes)| place + length.sectors_ceil();
            let ways = self.ahead.windows(2).map(|two| model.step(end(two[0]), two[1].0));
            let reads = self.ahead.iter().map(|it| model.transfer(SectorSpan::new(it.0, end(*it))));
            ways.sum::<Nanos>() + reads.sum::<Nanos>()
        }
    }

    /// Requests that lie side by side, near each other, or anywhere.
    fn requests(most: usize) -> impl Strategy<Value = Vec<(Lba, Bytes)>> {
        let gap = prop_oneof![Just(0u64), 0..10_000u64, 0..900_000_000u64];
        prop::collection::vec((gap, 1..64u64), 1..most).prop_map(|all| {
            let mut at = Lba(0);
            let place = |(gap, pages): (u64, u64)| {
                let place = Lba((at.get() + gap) % 900_000_000);
                let length = PAGE * pages;
                at = place + length.sectors_ceil();
                (place, length)
            };
            all.into_iter().map(place).collect()
        })
    }

    /// Requests side by side until a burst has ended by a wait, `most` at most.
    fn until_wait(driver: &mut Driver, most: usize) {
        let before = driver.waits;
        for number in 0..most {
            if driver.waits > before {
                break;
            }
            driver.request((Lba(number as u64 * 8), PAGE));
        }
    }

    #[test]
    fn a_request_without_an_address_is_charged_a_positioning() {
        let mut driver = Driver::new();
        driver.bursts.requested(None, PAGE);
        assert!(driver.bursts.length > driver.model.average());
        driver.bursts.requested(None, PAGE);
        driver.bursts.requested(None, PAGE);
        assert!(driver.bursts.is_full());
    }

    #[test]
    fn it_ends_when_nobody_else_has_read_for_a_while() {
        let mut driver = Driver::new();
        driver.other_reads(true);
        until_wait(&mut driver, 10_000);
        assert!(driver.bursts.others_read());
        let seen = driver.now;
        while driver.bursts.others_read() {
            until_wait(&mut driver, 10_000);
        }
        assert!(driver.now - seen > QUIET && driver.now - seen < QUIET + SHORT * 3);
        let waits = driver.waits;
        requests_side_by_side(&mut driver, 10_000);
        assert_eq!(driver.waits, waits);
    }

    fn requests_side_by_side(driver: &mut Driver, number: u64) {
        (0..number).for_each(|number| driver.request((Lba(number * 8), PAGE)));
    }

    #[test]
    fn what_was_read_before_the_first_burst_does_not_matter() {
        let mut driver = Driver::new();
        driver.counted.disk += Bytes::gib(1);
        driver.other_reads(true);
        driver.bursts.begin(driver.now, driver.counted);
        requests_side_by_side(&mut driver, 10_000);
        assert!(!driver.bursts.others_read() && driver.waits == 0);
    }

    #[test]
    fn checks_do_not_judge_for_a_while_after_a_program_began_or_ended() {
        let mut driver = Driver::new();
        driver.now += QUIET;
        for seen in [false, true] {
            driver.now += SETTLE * 2;
            driver.bursts.programs_change(driver.now);
            driver.other_reads(true);
            until_wait(&mut driver, 10_000);
            assert_eq!(driver.bursts.others_read(), seen);
        }
    }

    #[test]
    fn without_a_count_of_the_machine_others_are_seen_by_checks() {
        let mut driver = Driver::new();
        driver.counted.machine = None;
        until_wait(&mut driver, 10_000);
        assert!(!driver.bursts.others_read());
        driver.counted.disk += PAGE;
        driver.now += RARELY;
        until_wait(&mut driver, 10_000);
        assert!(driver.bursts.others_read());
    }

    proptest! {
        #[test]
        fn alone_it_never_waits(all in requests(600), arrives in prop::collection::vec(0..=100u64, 600), pause_us in 0..100_000u64) {
            let mut driver = Driver::new();
            for (request, share) in all.into_iter().zip(arrives) {
                driver.request(request);
                driver.complete(driver.in_flight * share / 100);
                driver.now += Nanos::from_micros(pause_us);
            }
            prop_assert_eq!(driver.waits, 0);
            prop_assert!(!driver.bursts.others_read());
        }

        /// A read of others waits for no more than a short burst and its last request, however requests lie.
        #[test]
        fn beside_others_the_time_ahead_is_bounded(all in requests(200), reads in prop::collection::vec(prop::bool::ANY, 200)) {
            let mut driver = Driver::new();
            driver.other_reads(true);
            until_wait(&mut driver, 10_000);
            prop_assert!(driver.bursts.others_read());
            let model = driver.model.clone();
            for (request, read) in all.into_iter().zip(reads) {
                let last = model.far() + model.slowest(request.1.sectors_ceil());
                driver.request(request);
                if driver.bursts.others_read() {
                    prop_assert!(driver.time_ahead() <= SHORT + last, "{}", driver.time_ahead());
                }
                if read {
                    driver.other_reads(true);
                }
            }
        }

        /// A burst has as many requests as its time allows: no fewer than the bound.
        #[test]
        fn beside_others_a_burst_is_as_long_as_it_may_be(all in requests(200)) {
            let mut driver = Driver::new();
            driver.other_reads(true);
            until_wait(&mut driver, 10_000);
            for request in all {
                let (ahead, waits) = (driver.time_ahead(), driver.waits);
                driver.request(request);
                let took = driver.waits > waits;
                prop_assert!(!took || !driver.bursts.others_read() || ahead < SHORT);
                driver.other_reads(true);
            }
        }

        /// The first read of others is seen at the next look, whatever was requested until then.
        #[test]
        fn others_are_seen_at_the_next_look(all in requests(300), more in requests(300)) {
            let mut driver = Driver::new();
            all.into_iter().for_each(|request| driver.request(request));
            prop_assert_eq!(driver.waits, 0);
            driver.other_reads(true);
            let mut unread = driver.bursts.clone();
            for (place, length) in more {
                unread.requested(Some(place), length);
                driver.request((place, length));
                prop_assert_eq!(driver.waits > 0, unread.is_full());
                if unread.is_full() {
                    prop_assert!(driver.bursts.others_read());
                    break;
                }
            }
        }

        /// Reads from other disks cost a check now and then, and are never taken for reads of this one.
        #[test]
        fn reads_from_other_disks_cost_few_checks(number in 1_000..20_000u64, us in 20..2_000u64) {
            let mut driver = Driver::new();
            let begun = driver.now;
            for number in 0..number {
                driver.other_reads(false);
                driver.request((Lba(number * 8), PAGE));
                driver.now += Nanos::from_micros(us);
            }
            prop_assert!(!driver.bursts.others_read());
            prop_assert!(driver.waits <= 6 + (driver.now - begun).get() / RARELY.get(), "{}", driver.waits);
        }

        /// What a helped program has in flight is not taken for a read of others, if it once had nothing in flight before
        /// checks judge. What others read is seen at the latest when it has nothing in flight.
        #[test]
        fn others_are_seen_if_and_only_if_they_read(
            at_first in 0..20u64,
            steps in prop::collection::vec((0..20u64, 0..=100u64, prop::bool::weighted(0.2)), 1..60),
        ) {
            let mut bursts = bursts();
            let mut counted = Counted { helped: PAGE * at_first, ..Counted::default() };
            let (mut now, mut in_flight, mut hidden) = (Instant(0), Bytes::ZERO, false);
            bursts.begin(now, counted);
            counted.disk += PAGE * at_first;
            bursts.served(now, counted);
            now += SETTLE;
            for (requested, arrived, another) in steps {
                now += LONG;
                // What was requested at the last look is over.
                counted.disk += in_flight;
                counted.helped += PAGE * requested;
                let arrives = (PAGE * requested * arrived / 100).pages_floor().bytes();
                in_flight = PAGE * requested - arrives;
                counted.disk += arrives + if another { PAGE } else { Bytes::ZERO };
                hidden |= another;
                bursts.others = None;
                bursts.end(now, counted);
                bursts.served(now, counted);
                prop_assert!(hidden || !bursts.others_read(), "nobody else has read");
                prop_assert!(bursts.others_read() || !another || !in_flight.is_zero(), "it was missed");
            }
        }
    }
}
