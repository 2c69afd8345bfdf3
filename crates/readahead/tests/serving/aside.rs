//! The driver steps aside for a job for which prefetching does not pay, and for no other.

use crate::world::{World, bytes, settings};
use foreseek_readahead::benefit::{OPENS, SAMPLE, TRIAL};
use foreseek_readahead::serving::Settings;
use foreseek_units::{Nanos, Pages};

/// Pages of each file: 16 MiB.
const FILE: u64 = 4096;
/// The kernel's request.
const WINDOW: u64 = 32;
/// Where a program stops: just when more is fetched ahead of it.
const BEGINNING: u64 = 2 * WINDOW;
/// Programs that read at the same time. For a single one little is fetched ahead before it is read.
const READERS: u64 = 4;
/// How long a program pauses before it opens a file.
const THINKS: Nanos = Nanos::from_micros(1000);

/// Files that a program has opened in sequence, and how many of them without the driver.
struct Job {
    world: World,
    opens: u64,
    aside: u64,
}

impl Job {
    fn new(policy: &str) -> Self {
        let world = World::new(Settings { policy: policy.to_owned(), ..settings() });
        Self { world, opens: 0, aside: 0 }
    }

    /// Opens this many files that were not opened before, a few at a time, and reads `pages` of each.
    fn read(&mut self, files: u64, pages: u64) {
        for _ in 0..files / READERS {
            self.world.pass_time(THINKS.0);
            let now = self.world.now;
            let mut readers = Vec::new();
            for reader in 0..READERS {
                self.opens += 1;
                if self.world.driver.steps_aside(now) {
                    self.aside += 1;
                } else {
                    self.world.create(self.opens, bytes(FILE));
                    self.world.open(reader, self.opens);
                    readers.push(reader);
                }
            }
            for first in (0..pages).step_by(WINDOW as usize) {
                for reader in &readers {
                    self.world.read(*reader, bytes(first), bytes(WINDOW));
                }
                self.world.complete_all();
                self.world.unpin_all();
            }
            readers.into_iter().for_each(|reader| self.world.close(reader));
        }
    }

    fn ahead(&self) -> Pages {
        self.world.stats().fetched_ahead
    }
}

#[test]
fn whole_files_are_never_read_past_it() {
    for policy in ["aggressive", "competitive", "adaptive"] {
        let mut job = Job::new(policy);
        job.read(24, FILE);
        let benefit = job.world.driver.benefit();
        assert!(job.aside == 0 && job.ahead() > SAMPLE * 3, "{policy}: {} pages ahead", job.ahead());
        assert!(benefit.last().pays() && benefit.last().ahead >= SAMPLE, "{:?}", benefit.last());
    }
}

#[test]
fn reading_ahead_of_beginnings_of_files_is_wasted() {
    let mut job = Job::new("competitive");
    job.read(8000, BEGINNING);
    let benefit = job.world.driver.benefit();
    assert_eq!((benefit.times(), benefit.opened_aside()), (1, job.aside), "{:?}", benefit.last());
    let trials = job.aside / OPENS + 1;
    let most = SAMPLE * 2 + TRIAL * trials + Pages(FILE) * (trials + 2);
    assert!(job.ahead() < most, "{} pages ahead, {trials} trials", job.ahead());
    assert!(!benefit.last().pays() && job.aside > job.opens / 2, "{} of {}", job.aside, job.opens);
    // The policy that learns finds this by itself.
    let mut job = Job::new("adaptive");
    job.read(2000, BEGINNING);
    let stats = job.world.stats();
    assert!(job.aside == 0 && stats.used * 10 > job.ahead() * 9, "{} of {}", stats.used, job.ahead());
}

#[test]
fn it_prefetches_again_when_that_pays_again() {
    let mut job = Job::new("competitive");
    job.read(1200, BEGINNING);
    assert!(job.world.driver.benefit().is_aside());
    for _ in 0..8 {
        job.world.pass_time(Nanos::from_secs(60).0);
        job.read(4, FILE);
    }
    let benefit = job.world.driver.benefit();
    assert!(!benefit.is_aside() && !benefit.tries() && benefit.last().pays(), "{:?}", benefit.last());
    let after = job.aside;
    job.read(20, FILE);
    assert_eq!(job.aside, after, "it does not step aside any more");
}
