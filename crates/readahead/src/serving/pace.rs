//! How much of a single reader's fetches is dispatched at a time.
//!
//! Little, so that little is read unused when the reader stops: a dispatched request cannot be cancelled.
//! Enough that the device never waits for the next piece: two pieces, or as much as it reads in [`SLACK`]
//! where that is more.
//!
//! A device that serves many requests at once (a remote volume, an array, flash) may be slower with few of
//! them in flight, and no setting names such devices. The pace is therefore measured: the time for a page
//! while the device is busy for one reader, from the end of one fetch to the end of the next. It is measured
//! *free* (all dispatched at once) and *paced*. Both are tried in turn, mostly paced. Where pages arrive more
//! slowly paced, it stays free, twice as long each time that this is found.
//!
//! Limits: a disk's rate differs from zone to zone, so that a loss of less than a fifth is not detected
//! ([`JUDGED`]). A reader that never has more than one fetch in flight gives no measurement.

use foreseek_units::{Bytes, Instant, Nanos, Pages};

/// The piece in which a single reader's fetches are dispatched: the kernel's default read-ahead
/// (`read_ahead_kb`). A disk of 250 MB/s reads it in half a millisecond, much longer than it takes a
/// completion to lead to the next request.
pub(super) const PIECE: Pages = Bytes::kib(128).pages_floor();
/// The least number in flight: one that the device reads, and the next.
pub(super) const LEAST: usize = 2;
/// How long the pieces in flight keep the device busy. A thread that reaps completions waits this long for a
/// processor when another thread is using its time slice (3 to 4 ms). It is less than half of a disk's
/// positioning time.
pub(super) const SLACK: Nanos = Nanos::from_millis(4);
/// Pieces in a row that are dispatched free, to measure that pace: 8 MiB.
const FREE: u32 = 64;
/// Pieces in a row that are then paced: a seventeenth of all pieces is free.
const PACED: u32 = 1024;
/// The most pieces in a row that are dispatched free after that was found faster: 64 GiB.
const FREE_MOST: u32 = PACED << 10;
/// Pairs of a number of pieces in each way, and the most times that a page may take longer paced after as
/// many.
///
/// - No two zones of a disk differ by more than the first factor.
/// - Zones differ in the mean by a fifth. If sixteen pieces lie in a zone, the second factor is four
///   deviations of the ratio of two means away from that, and the third nearly four.
const JUDGED: [(u32, f64); 3] = [(16, 2.0), (64, 1.6), (256, 1.2)];
/// The most pieces over which a pace is averaged.
const MEMORY: u32 = 512;

/// How a fetch was dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// With all others of its reader.
    Free,
    /// When an earlier one ended.
    Paced,
}

/// The time that pages took.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    pieces: u32,
    pages: f64,
    seconds: f64,
}

impl Taken {
    fn add(&mut self, pages: Pages, time: Nanos) {
        if self.pieces >= MEMORY {
            *self = Self { pieces: self.pieces / 2, pages: self.pages / 2.0, seconds: self.seconds / 2.0 };
        }
        self.pieces += 1;
        self.pages += pages.get() as f64;
        self.seconds += time.as_secs_f64();
    }

    /// Whether a page takes more than `times` as long as another way.
    fn is_slower(&self, times: f64, than: &Self) -> bool {
        self.seconds * than.pages > times * than.seconds * self.pages
    }

    /// How many pages arrive in a time.
    fn within(&self, time: Nanos) -> Pages {
        Pages((self.pages * time.as_secs_f64() / self.seconds) as u64)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Pace {
    way: Way,
    free: Taken,
    paced: Taken,
    /// Pieces until the other way is tried.
    left: u32,
    /// How many pieces are free the next time that this is found faster.
    rest: u32,
    last: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        let (free, paced) = (Taken::default(), Taken::default());
        Self { way: Way::Free, free, paced, left: FREE, rest: PACED, last: Instant::ZERO }
    }

    /// How a single reader's fetches are dispatched.
    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// This many pages in flight are enough, if they are at least [`LEAST`] fetches.
    pub(super) fn window(&self) -> Pages {
        match self.way {
            Way::Free => Pages(u64::MAX),
            Way::Paced => self.free.within(SLACK),
        }
    }

    /// A fetch has ended. `way`: how it was dispatched, if the device had nothing else to do.
    pub(super) fn ended(&mut self, issued: Option<Instant>, now: Instant, pages: Pages, way: Option<Way>) {
        let (before, last) = (self.last, self.last.max(now));
        self.last = last;
        let busy = issued.is_some_and(|issued| issued <= before);
        let Some(way) = way.filter(|_| busy) else { return };
        let taken = if way == Way::Free { &mut self.free } else { &mut self.paced };
        taken.add(pages, last - before);
        if way != self.way {
            return;
        }
        self.left = self.left.saturating_sub(1);
        match way {
            Way::Free if self.left == 0 => (self.way, self.left) = (Way::Paced, PACED),
            Way::Paced if self.is_slow() => {
                (self.way, self.left, self.paced) = (Way::Free, self.rest, Taken::default());
                self.rest = (2 * self.rest).min(FREE_MOST);
            }
            Way::Paced if self.left == 0 => (self.way, self.left, self.rest) = (Way::Free, FREE, PACED),
            _ => {}
        }
    }

    /// Whether pages arrive more slowly paced.
    fn is_slow(&self) -> bool {
        let pieces = self.free.pieces.min(self.paced.pieces);
        JUDGED.iter().any(|(enough, times)| pieces >= *enough && self.paced.is_slower(*times, &self.free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A device under a single reader that reads on and on. Each piece takes `each`, and an answer arrives no
    /// sooner than `latency` after its request.
    struct Device {
        pace: Pace,
        each: Nanos,
        latency: Nanos,
        now: Instant,
        free: u32,
        paced: u32,
    }

    impl Device {
        fn new(each: f64, latency: f64) -> Self {
            let (each, latency) = (Nanos::from_millis_f64(each), Nanos::from_millis_f64(latency));
            let now = Instant(1);
            Self { pace: Pace::new(), each, latency, now, free: 0, paced: 0 }
        }

        /// One fetch after the other, each of one [`PIECE`].
        fn read(&mut self, fetches: u32) {
            for _ in 0..fetches {
                self.fetch();
            }
        }

        fn fetch(&mut self) {
            let (mut left, mut under_way) = (32, VecDeque::new());
            while left > 0 || !under_way.is_empty() {
                while left > 0
                    && (under_way.len() < LEAST || PIECE * (under_way.len() as u64) < self.pace.window())
                {
                    left -= 1;
                    under_way.push_back((self.now, self.pace.way()));
                }
                let Some((issued, way)) = under_way.pop_front() else { return };
                self.now = (self.now + self.each).max(issued + self.latency);
                let counted = if way == Way::Free { &mut self.free } else { &mut self.paced };
                *counted += 1;
                self.pace.ended(Some(issued), self.now, PIECE, Some(way));
            }
        }
    }

    #[test]
    fn a_disk_is_paced_once_its_pace_is_known() {
        let mut disk = Device::new(2.5, 2.5);
        disk.read(1);
        assert_eq!(disk.pace.way(), Way::Free);
        disk.read(2);
        assert_eq!(disk.pace.way(), Way::Paced);
        assert_eq!(disk.pace.window(), Pages(51), "four milliseconds of it: two pieces");
        disk.read(400);
        // The other way is tried again and again.
        assert!((FREE * 10..FREE * 16).contains(&disk.free), "{} free, {} paced", disk.free, disk.paced);
    }

    #[test]
    fn a_fast_device_has_more_under_way() {
        let mut fast = Device::new(0.1, 0.1);
        fast.read(20);
        assert_eq!((fast.pace.way(), fast.pace.window()), (Way::Paced, PIECE * 40));
    }

    /// A rate that differs from file to file does not depend on the way.
    #[test]
    fn zones_are_not_taken_for_a_difference() {
        let mut disk = Device::new(2.5, 2.5);
        for file in 0..3000u64 {
            disk.each = Nanos::from_millis_f64(2.0 + 1.3 * ((file * 7919 % 97) as f64 / 97.0));
            disk.fetch();
        }
        assert!(disk.free < disk.paced / 8, "{} free, {} paced", disk.free, disk.paced);
    }

    #[test]
    fn a_volume_that_answers_late_is_asked_for_all_at_once() {
        let mut volume = Device::new(0.5, 20.0);
        volume.read(1000);
        assert!(volume.paced < 150 && volume.free > 30_000, "{} free, {} paced", volume.free, volume.paced);
    }

    #[test]
    fn a_device_found_to_be_a_disk_is_paced_again() {
        let mut device = Device::new(0.5, 20.0);
        device.read(200);
        let before = device.paced;
        (device.each, device.latency) = (Nanos::from_millis(2), Nanos::from_millis(2));
        device.read(600);
        assert!(device.paced > before + 4000, "{} and then {}", before, device.paced);
    }

    #[test]
    fn a_fetch_to_an_idle_device_is_no_measurement() {
        let mut pace = Pace::new();
        for fetch in 1..1000 {
            let issued = Instant(fetch * 1000);
            pace.ended(Some(issued), issued + Nanos(500), PIECE, Some(Way::Free));
        }
        assert_eq!((pace.way(), pace.free.pieces), (Way::Free, 0));
    }
}
