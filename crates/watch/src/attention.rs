//! When all opens of files on a disk are observed, and not only those of directories.
//!
//! A program that has a list of files lists no directory, so that nothing shows it at rest. Each open that is observed
//! costs its program some microseconds. That is nothing to a program that waits for a seek at each file, and much to one
//! that finds its files in memory. Hence all opens of files are observed while the disk itself shows seeks: it is busy,
//! with few and small reads, and no program that lists directories goes on meanwhile ([`Attention::look`]).
//!
//! It also begins with the first read after a time in which opens of directories were not reported ([`crate::silence`]).
//!
//! It ends when the disk is not busy so for [`LINGER`]. It ends, and begins again only after a pause, in two cases: where
//! so many files are opened that they must be in memory, and where it has led to nothing for [`TRIAL`] (a database that
//! reads from one file). Each pause is twice as long as the one before, until a trial has led to something. A trial that
//! waited for no seeks makes none longer.
//!
//! Pure: its inputs are counts and times.

use foreseek_storage::DiskWork;
use foreseek_units::{Bytes, Instant, Nanos};

/// The time between two looks.
const PERIOD: Nanos = Nanos::from_millis(250);
/// A disk that seeks serves some ten reads in a period, and is busy for most of it.
const READS_LEAST: u64 = 5;
const BUSY_LEAST: Nanos = Nanos(PERIOD.get() / 2);
/// Larger reads in the mean are of large files: a seek is no large part of their time.
const READ_MOST: Bytes = Bytes::kib(128);
/// Directories and files that programs that list open in a period, if the seeks are theirs.
const LISTED_LEAST: u64 = 3;
/// A program that opens files from memory in between, or waits for a person, goes on within this time.
const LINGER: Nanos = Nanos::from_secs(5);
/// Some hundred files are opened in this time if each waits for the disk. A walk is read ahead after eight.
const TRIAL: Nanos = Nanos::from_secs(10);
/// More opens than this in a period are of files in memory: 4,000 a second.
const OPENS_MOST: u64 = 1000;
/// The first pause, and the longest. A trial is then a sixtieth of the time.
const PAUSE: Nanos = Nanos::from_secs(10);
const PAUSE_MOST: Nanos = Nanos::from_secs(600);

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention {
    last: Option<(Instant, DiskWork)>,
    /// Since when all opens are observed, and whether the seeks of the disk were not waited for.
    on: Option<Instant>,
    at_once: bool,
    /// When the disk was last busy with seeks, and when it last led to something.
    seeking: Instant,
    gained: Instant,
    used: u64,
    listed: u64,
    opens: u64,
    /// The next pause, and the end of the present one.
    pause: Nanos,
    until: Instant,
}

impl Default for Attention {
    fn default() -> Self {
        let never = Instant::ZERO;
        Self {
            last: None,
            on: None,
            at_once: false,
            seeking: never,
            gained: never,
            used: 0,
            listed: 0,
            opens: 0,
            pause: PAUSE,
            until: never,
        }
    }
}

impl Attention {
    /// Whether all opens are observed.
    pub(crate) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Whether the next look is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|(at, _)| at + PERIOD <= now)
    }

    /// So many files were opened.
    pub(crate) fn opened(&mut self, files: u64) {
        self.opens += files;
    }

    /// Looks at the work of the disk. `used`: files that were read ahead for programs with a list, and that these have
    /// opened. `listed`: files and directories that programs which list directories have opened. Seeks are theirs while
    /// that grows. Returns whether to observe all opens from now on.
    pub(crate) fn look(&mut self, now: Instant, work: DiskWork, used: u64, listed: u64) -> bool {
        let before = self.last.replace((now, work));
        let opens = std::mem::take(&mut self.opens);
        if before.is_some_and(|before| seeks(before, (now, work))) {
            self.seeking = now;
        }
        let others_walk = listed >= std::mem::replace(&mut self.listed, listed) + LISTED_LEAST;
        let gains = used > std::mem::replace(&mut self.used, used);
        if gains {
            (self.gained, self.pause) = (now, PAUSE);
        }
        match self.on {
            None if self.seeking == now && self.until <= now && !others_walk => {
                (self.on, self.at_once) = (Some(now), false);
            }
            None => {}
            Some(_) if self.seeking + LINGER < now => self.on = None,
            Some(since) => {
                let in_vain = since.max(self.gained) + TRIAL < now;
                if in_vain || (opens > OPENS_MOST && !gains) {
                    self.pause(now);
                }
            }
        }
        self.is_on()
    }

    /// Begins at once: programs may read files whose directories they have opened without a report. Returns whether that
    /// changes anything.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let begins = self.until <= now && self.on.is_none();
        if begins {
            (self.on, self.at_once, self.seeking) = (Some(now), true, now);
        }
        begins
    }

    /// Ends it for a while.
    pub(crate) fn pause(&mut self, now: Instant) {
        if self.on.take().is_some() {
            self.until = now + self.pause;
            if !self.at_once {
                self.pause = (self.pause * 2).min(PAUSE_MOST);
            }
        }
    }
}

/// Whether a disk was busy with small reads between two looks.
fn seeks((from, before): (Instant, DiskWork), (until, now): (Instant, DiskWork)) -> bool {
    let (reads, bytes) = (now.reads.saturating_sub(before.reads), now.bytes - before.bytes);
    // A look may be late.
    let periods = ((until - from).get() / PERIOD.get()).max(1);
    reads >= READS_LEAST * periods
        && bytes <= READ_MOST * reads
        && now.busy - before.busy >= BUSY_LEAST * periods
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that does the same in each period.
    struct Disk {
        attention: Attention,
        now: Instant,
        work: DiskWork,
        used: u64,
        listed: u64,
        /// In each period.
        lists: u64,
    }

    impl Disk {
        fn new() -> Self {
            Self {
                attention: Attention::default(),
                now: Instant(1),
                work: DiskWork::default(),
                used: 0,
                listed: 0,
                lists: 0,
            }
        }

        /// Lets so much time pass, with so many reads in each period; returns for how many periods all opens were observed.
        fn pass(&mut self, time: Nanos, [reads, kib, busy]: [u64; 3], opens: u64, gains: bool) -> u64 {
            let mut on = 0;
            for _ in 0..time.get() / PERIOD.get() {
                self.now += PERIOD;
                self.work.reads += reads;
                self.work.bytes += Bytes::kib(kib) * reads;
                self.work.busy += Nanos::from_millis(busy);
                self.attention.opened(opens);
                assert!(self.attention.is_due(self.now));
                self.used += u64::from(gains);
                self.listed += self.lists;
                on += u64::from(self.attention.look(self.now, self.work, self.used, self.listed));
                assert!(!self.attention.is_due(self.now));
            }
            on
        }
    }

    const SEEKS: [u64; 3] = [25, 8, 245];
    const SECOND: Nanos = Nanos::from_secs(1);

    #[test]
    fn only_small_reads_that_keep_the_disk_busy_count() {
        for work in [[0, 0, 0], [3, 4, 30], [250, 1024, 250], [25, 8, 5]] {
            let mut disk = Disk::new();
            assert_eq!(disk.pass(SECOND, work, 0, false), 0, "{work:?}");
        }
        let mut disk = Disk::new();
        assert_eq!(disk.pass(SECOND, SEEKS, 10, false), 3, "from the second look on");
        // A second without reads, in the middle.
        disk.pass(SECOND, [0; 3], 0, false);
        assert!(disk.attention.is_on());
        disk.pass(LINGER + SECOND, [0; 3], 0, false);
        assert!(!disk.attention.is_on());
        disk.pass(SECOND, SEEKS, 10, false);
        assert!(disk.attention.is_on(), "no pause: nothing was in vain");
    }

    #[test]
    fn seeks_of_programs_that_list_are_no_reason() {
        let mut disk = Disk { lists: 25, ..Disk::new() };
        assert_eq!(disk.pass(SECOND * 10, SEEKS, 0, false), 0);
        disk.lists = 0;
        disk.pass(SECOND, SEEKS, 10, false);
        assert!(disk.attention.is_on());
        // Once on it serves both.
        disk.lists = 25;
        disk.pass(SECOND * 5, SEEKS, 10, true);
        assert!(disk.attention.is_on());
    }

    #[test]
    fn what_leads_to_nothing_is_tried_rarely() {
        let mut disk = Disk::new();
        let hour = SECOND * 3600;
        let on = disk.pass(hour, SEEKS, 0, false);
        assert!((4..=20).contains(&(on * PERIOD.get() / TRIAL.get())), "{on}");
        // It leads to something.
        disk.attention.until = disk.now;
        disk.pass(SECOND, SEEKS, 10, true);
        assert_eq!(disk.attention.pause, PAUSE);
        assert_eq!(disk.pass(SECOND * 60, SEEKS, 10, true), 240);
    }

    #[test]
    fn what_begins_at_once_makes_no_pause_longer() {
        let mut disk = Disk::new();
        for _ in 0..20 {
            assert!(disk.attention.begin(disk.now) && !disk.attention.begin(disk.now));
            assert!(disk.pass(PAUSE, SEEKS, 5000, false) < 3, "it is in vain");
            disk.attention.until = disk.now;
        }
        assert_eq!(disk.attention.pause, PAUSE);
    }

    #[test]
    fn opens_of_files_in_memory_end_it_at_once() {
        let mut disk = Disk::new();
        assert!(disk.pass(SECOND * 600, SEEKS, 5000, false) < 10);
        // A program that is read ahead of opens as many.
        let mut disk = Disk::new();
        assert!(disk.pass(SECOND * 60, SEEKS, 5000, true) > 200);
    }
}
