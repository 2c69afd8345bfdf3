//! Faults in a random mixture while 64 readers read: bad sectors that come and go, slow phases, a disk that
//! stands still. A read returns the right bytes, or EIO at a page that was bad then.
//!
//! `FORESEEK_FAULT_SECONDS=60` runs longer, with a stall of 5 s; `FORESEEK_SEED` sets another sequence.

use crate::below::{Below, PAGE, contents, forget, read};
use crate::lab::LIMIT;
use crate::{EIO, Ends, POLICIES, PROFILE};
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const READERS: u64 = 64;
/// Seconds of a run of the tests.
const SECONDS: u64 = 5;
/// Longest stall.
const STALL: Duration = Duration::from_secs(5);
const FILES: usize = 4;
const PAGES: usize = 2048;
/// The most pages that are bad at a time.
const BAD_MOST: u64 = 12;
/// A read may join fetches that began before it, and gets the faults of that time.
const BEFORE: usize = 3;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// A sequence from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

/// A page of a file.
type Place = (usize, usize);

struct Mixture {
    below: Below,
    contents: Vec<Vec<u8>>,
    /// The bad pages, one set after another; each is recorded before the disk gets it.
    bad: Mutex<Vec<BTreeSet<Place>>>,
    reads: AtomicU64,
    failed: AtomicU64,
}

impl Mixture {
    fn name(file: usize) -> String {
        format!("file-{file}")
    }

    fn times(&self) -> usize {
        self.bad.lock().expect("no panic").len()
    }

    /// Whether a page was bad at some time since then, or shortly before.
    fn was_bad(&self, place: Place, since: usize) -> bool {
        let bad = self.bad.lock().expect("no panic");
        bad[since.saturating_sub(BEFORE)..].iter().any(|bad| bad.contains(&place))
    }

    /// Reads pages and checks the result.
    fn read(&self, opened: &File, (file, page): Place, pages: usize) {
        let (since, begun) = (self.times(), Instant::now());
        let right = &self.contents[file][page * PAGE..(page + pages) * PAGE];
        let came = read(opened, page * PAGE, pages * PAGE);
        let took = begun.elapsed();
        assert!(took < LIMIT, "a read of page {page} of file {file} took {took:?}");
        self.reads.fetch_add(1, SeqCst);
        let got = match came {
            Ok(bytes) => {
                assert!(bytes == right[..bytes.len()], "{pages} pages at {page} of file {file}: other bytes");
                bytes.len()
            }
            Err(errno) => {
                assert_eq!(errno, EIO, "page {page} of file {file}");
                self.failed.fetch_add(1, SeqCst);
                0
            }
        };
        if got < right.len() {
            let failed = (file, page + got / PAGE);
            assert!(
                got % PAGE == 0 && self.was_bad(failed, since),
                "{got} bytes at {page}, {failed:?} is sound"
            );
        }
    }

    /// The loop of one reader.
    fn wander(&self, mut random: Random, ended: &AtomicBool) {
        while !ended.load(SeqCst) {
            let file = random.below(FILES as u64) as usize;
            let path = self.below.point.join(Self::name(file));
            // Without the kernel's cache an error fails a whole read: of one page then.
            let direct = random.below(2) == 0;
            let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
            let opened = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
            let opened = opened.expect("opened");
            let pages = if direct { 1 } else { 1 + random.below(8) as usize };
            let mut page = random.below((PAGES - 8) as u64) as usize;
            for _ in 0..=random.below(40) {
                if page + pages > PAGES || ended.load(SeqCst) {
                    break;
                }
                self.read(&opened, (file, page), pages);
                page += pages;
            }
            if random.below(8) == 0 {
                fadvise(&opened, 0, None, Advice::DontNeed).expect("forgotten");
            }
        }
    }

    /// Makes other pages bad.
    fn spoil(&self, random: &mut Random) {
        let many = random.below(BAD_MOST + 1);
        let mut place = || (random.below(FILES as u64) as usize, random.below(PAGES as u64) as usize);
        let bad: BTreeSet<Place> = (0..many).map(|_| place()).collect();
        self.bad.lock().expect("no panic").push(bad.clone());
        let bad: Vec<_> = bad
            .into_iter()
            .map(|(file, page)| (self.below.source.join(Self::name(file)), page * PAGE))
            .collect();
        self.below.spoil_all(&bad);
    }

    /// Makes random faults until the time is over.
    fn trouble(&self, mut random: Random, time: Duration) {
        let begun = Instant::now();
        let mut stalled = false;
        while begun.elapsed() < time {
            match random.below(4) {
                0 => self.below.set(&["--delays", "on", "--time-scale", "0.05"]),
                1 => self.below.set(&["--delays", "off"]),
                _ => self.spoil(&mut random),
            }
            std::thread::sleep(Duration::from_millis(100 + random.below(400)));
            if !stalled && begun.elapsed() > time / 2 {
                stalled = true;
                self.below.signal_disk(Signal::STOP).expect("sent");
                std::thread::sleep((time / 10).min(STALL));
                self.below.signal_disk(Signal::CONT).expect("sent");
            }
        }
    }
}

/// Resumes a stalled disk, also when the test fails meanwhile.
struct Goes<'a>(&'a Below);

impl Drop for Goes<'_> {
    fn drop(&mut self) {
        let _ = self.0.signal_disk(Signal::CONT);
    }
}

#[test]
fn under_any_fault_a_read_is_right_or_fails_by_its_own_page() {
    let (seed, seconds) = (number("FORESEEK_SEED", 1), number("FORESEEK_FAULT_SECONDS", SECONDS));
    let time = Duration::from_secs(seconds) / 2;
    for policy in &POLICIES[..2] {
        let Some(below) = Below::new(policy, "256M", PROFILE) else { return };
        let contents: Vec<_> = (0..FILES).map(|file| contents(PAGES * PAGE, file as u32 * 77 + 1)).collect();
        for (file, bytes) in contents.iter().enumerate() {
            below.put(&Mixture::name(file), bytes);
        }
        let bad = Mutex::new(vec![BTreeSet::new()]);
        let mixture = Mixture { below, contents, bad, reads: AtomicU64::new(0), failed: AtomicU64::new(0) };
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _goes = Goes(&mixture.below);
            let _ends = Ends(&ended);
            for reader in 0..READERS {
                let (mixture, ended) = (&mixture, &ended);
                scope.spawn(move || mixture.wander(Random(seed << 8 | reader), ended));
            }
            mixture.trouble(Random(seed), time);
        });
        let below = &mixture.below;
        below.set(&["--fail-none"]);
        below.set(&["--delays", "off"]);
        for (file, bytes) in mixture.contents.iter().enumerate() {
            let path = below.point.join(Mixture::name(file));
            forget(&path);
            assert!(std::fs::read(path).expect("fixed") == *bytes, "{policy}: all of file {file}");
        }
        let (reads, failed) = (mixture.reads.load(SeqCst), mixture.failed.load(SeqCst));
        let failed_below = below.failed_requests();
        println!(
            "FORESEEK_SEED={seed} {policy}: {reads} reads, {failed} failed; {failed_below} failed on the disk; \
             {} sets of bad pages",
            mixture.times()
        );
        assert!(reads > 100, "{policy}: {reads} reads");
    }
}
