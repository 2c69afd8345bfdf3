//! The costs of a disk as learnt from jobs that seldom position its head far: small files in one place, columns
//! with gaps, rows of a table. Its buffer answers many of their reads, other seeks are short. What is learnt must
//! be right, or stay what it was.

use foreseek_device::{Build, Io, IoId, Op, Profile};
use foreseek_readahead::depth::{UnloadedCosts, Visit};
use foreseek_seam::Measured;
use foreseek_units::{Bytes, DeviceCosts, Instant, Lba, Nanos, Pages, Rate, SectorSpan, Sectors};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Disks of three kinds: of 10,000 and 7,200 turns a minute, with 4 to 128 MB of buffer.
const DISKS: [&str; 3] = ["barracuda-500g", "ibm-36g-51", "exos-18t"];
/// The costs that a mount assumes of an unknown disk, and others that are off by a factor of two or so.
const GUESSES: [(f64, f64); 4] = [(12.7, 126.0), (6.0, 60.0), (20.0, 200.0), (10.0, 51.0)];
const PLACE: u64 = 4_000_000;

/// A read, by its first page and its pages.
#[derive(Clone, Copy, Debug)]
struct Read {
    page: u64,
    pages: u64,
    /// Whether the learner sees it. It does not see what the file system reads for itself.
    seen: bool,
    /// The time of the program before it.
    pause: Nanos,
}

impl Read {
    fn of(page: u64, pages: u64) -> Self {
        Self { page, pages, seen: true, pause: Nanos::from_micros(300) }
    }
}

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn profile(name: &str) -> Profile {
    Profile::builtin(name).expect("a built-in profile")
}

/// The guesses, and the truth.
fn guesses(profile: &Profile) -> Vec<Measured> {
    let truth = Measured { positioning: profile.positioning_time(), rate: profile.rate_at(Lba(PLACE * 8)) };
    let guess =
        |(ms, mb)| Measured { positioning: Nanos::from_millis_f64(ms), rate: Rate::mb_per_second(mb) };
    GUESSES.into_iter().map(guess).chain([truth]).collect()
}

/// Serves reads in their order, so many at a time.
fn visits(profile: &Profile, reads: &[Read], at_a_time: usize) -> Vec<Visit> {
    let mut device = profile.build(&Build { queue_depth: 64, ..Build::default() }).expect("a device");
    let capacity = device.capacity().get() / 8;
    let (mut now, mut next) = (Instant::ZERO, reads.iter());
    let mut pending = BTreeMap::new();
    let (mut visits, mut finished, mut id) = (Vec::new(), Vec::new(), 0);
    loop {
        while pending.len() < at_a_time
            && let Some(read) = next.next()
        {
            now += read.pause;
            device.advance(now, &mut finished);
            let page = read.page % (capacity - read.pages);
            let range = SectorSpan::at(Lba(page * 8), Pages(read.pages).sectors());
            device.submit(now, Io { id: IoId(id), op: Op::Read, range }).expect("room");
            pending.insert(IoId(id), (now, range, read.seen, pending.is_empty()));
            id += 1;
        }
        if finished.is_empty() {
            let Some(at) = device.next().filter(|_| !pending.is_empty()) else { return visits };
            now = now.max(at);
            device.advance(now, &mut finished);
        }
        for one in finished.drain(..) {
            let (issued, range, seen, alone) = pending.remove(&one.id).expect("a request of ours");
            if seen {
                visits.push(Visit { issued, completed: one.at, range, alone });
            }
        }
    }
}

fn learnt(guess: Measured, visits: &[Visit]) -> Measured {
    let mut learner = UnloadedCosts::new(guess, false);
    visits.iter().for_each(|visit| learner.completed(*visit));
    learner.unloaded()
}

/// What is learnt must lie between the truth and the guess, nearly. The truth is anything from a seek within some
/// megabytes to one of a random place: a job that makes only short ones shows those.
fn check(costs: Measured, guess: Measured, profile: &Profile, within: f64) -> Result<(), String> {
    let ms = |time: Nanos| time.as_secs_f64() * 1e3;
    let short = ms(profile.seek_time(SHORT) + profile.half_rotation());
    let (is, was, far) = (ms(costs.positioning), ms(guess.positioning), ms(profile.positioning_time()));
    if !(was.min(short) / within..=was.max(far) * within).contains(&is) {
        return Err(format!("{is:.2} ms, from {was:.2}, instead of {short:.2} to {far:.2}"));
    }
    let mb = |rate: Rate| rate.as_mb_per_second();
    let (is, was) = (mb(costs.rate), mb(guess.rate));
    let (here, mean) = (mb(profile.rate_at(Lba(PLACE * 8))), mb(profile.mean_rate()));
    if !(was.min(mean) / within..=was.max(here) * within).contains(&is) {
        return Err(format!("{is:.0} MB/s, from {was:.0}, instead of {mean:.0} to {here:.0}"));
    }
    Ok(())
}

/// Checks what is learnt of each disk from each guess.
fn stays_right(job: &str, reads: &[Read], at_a_time: usize) {
    for name in DISKS {
        let profile = profile(name);
        let visits = visits(&profile, reads, at_a_time);
        for guess in guesses(&profile) {
            let checked = check(learnt(guess, &visits), guess, &profile, WITHIN);
            assert_eq!(checked, Ok(()), "{job} on {name}");
        }
    }
}

const SHORT: Sectors = Bytes::mib(10).sectors_floor();
const WITHIN: f64 = 1.5;

/// `git log -p`: thousands of loose objects of 4 to 12 KiB in 13 MB, the last one first, and nearly so.
#[test]
fn small_files_in_one_place() {
    let mut random = Random(1);
    let reads: Vec<Read> = (0..3000)
        .map(|at| Read::of(PLACE + 3 * (3000 - at) + random.below(64), 1 + random.below(3)))
        .collect();
    stays_right("small files, backwards", &reads, 1);
    let forwards: Vec<Read> = reads.iter().rev().copied().collect();
    stays_right("small files, forwards", &forwards, 1);
    stays_right("small files, eight at a time", &forwards, 8);
}

/// The same; the file system reads each inode and directory before.
#[test]
fn small_files_behind_reads_of_their_inodes() {
    let mut random = Random(2);
    let reads: Vec<Read> = (0..1500)
        .flat_map(|at| {
            let inode = Read { seen: false, ..Read::of(PLACE - 8192 + at / 16, 1) };
            let directory = Read { seen: false, ..Read::of(PLACE + random.below(3000), 1) };
            let file = Read::of(PLACE + (7 * at) % 4096 + random.below(16), 1 + random.below(3));
            [inode, directory, file].into_iter().take(3)
        })
        .collect();
    stays_right("small files and inodes", &reads, 1);
}

/// A compile: fifty headers and sources within a megabyte, each once.
#[test]
fn some_files_within_a_megabyte() {
    let mut random = Random(3);
    let reads: Vec<Read> =
        (0..50).map(|_| Read::of(PLACE + random.below(240), 1 + random.below(16))).collect();
    stays_right("a compile", &reads, 1);
}

/// Columns of Parquet: in each of two files of 180 MB the end, then some of six parts of 241 pages of each row group.
#[test]
fn columns_with_gaps() {
    for columns in [&[1, 4][..], &[0, 2, 3]] {
        let mut random = Random(6);
        let mut reads = Vec::new();
        for start in [PLACE, PLACE + 60_000] {
            reads.extend([Read::of(start + 43_400, 2), Read::of(start + 43_384, 16)]);
            for group in 0..30 {
                reads.extend(columns.iter().map(|column| Read::of(start + group * 1446 + column * 241, 241)));
            }
        }
        reads.iter_mut().for_each(|read| read.pause = Nanos(random.below(3_000_000)));
        stays_right("columns", &reads, 1);
        stays_right("columns, eight at a time", &reads, 8);
    }
}

/// Rows of a table in their order, in each of some tens of pages one.
#[test]
fn rows_in_their_order() {
    let mut random = Random(4);
    let mut page = PLACE;
    let reads: Vec<Read> = (0..2000)
        .map(|_| {
            page += 2 * (1 + random.below(14));
            Read::of(page, 2)
        })
        .collect();
    stays_right("rows", &reads, 1);
}

/// Readers in sequence in files of their own.
#[test]
fn readers_in_sequence() {
    let mut random = Random(7);
    for readers in [2, 4, 16] {
        let mut ends = vec![0; readers];
        let reads: Vec<Read> = (0..600)
            .map(|at| {
                let pages = [32, 64, 128, 256, 512][at / readers % 5];
                let end = &mut ends[at % readers];
                *end += pages;
                let read = Read::of(PLACE + (at % readers) as u64 * 400_000 + *end - pages, pages);
                Read { pause: Nanos(random.below(2_000_000)), ..read }
            })
            .collect();
        stays_right("readers in sequence", &reads, 1);
        stays_right("readers in sequence, at a time", &reads, readers);
    }
}

/// 300 reads of 8 KiB that the buffer answers at once, after one that fetched them.
#[test]
fn what_a_buffer_answers_is_no_positioning() {
    let guess = guesses(&profile("barracuda-500g"))[4];
    let answer = |at: u64| Visit {
        issued: Instant(at * 1_000_000),
        completed: Instant(at * 1_000_000 + 150_000),
        range: SectorSpan::at(Lba(PLACE + 16 * (at * 7 % 97)), Sectors(16)),
        alone: true,
    };
    let first = Visit { completed: Instant(900_000 + 12_000_000), ..answer(0) };
    let later = (20..320).map(answer);
    assert_eq!(learnt(guess, &later.clone().collect::<Vec<_>>()), guess);
    let costs = learnt(guess, &std::iter::once(first).chain(later).collect::<Vec<_>>());
    assert!((11.5..14.0).contains(&(costs.positioning.as_secs_f64() * 1e3)), "{costs:?}");
}

/// Parts of a megabyte that come at the rate of the bus, not of the medium.
#[test]
fn what_a_buffer_answers_has_no_rate() {
    let guess = guesses(&profile("barracuda-500g"))[4];
    let parts = (0..200).map(|at: u64| Visit {
        issued: Instant(at * 20_000_000),
        completed: Instant(at * 20_000_000 + 3_500_000),
        range: SectorSpan::at(Lba(PLACE + at * 2200), Sectors(2000)),
        alone: true,
    });
    assert_eq!(learnt(guess, &parts.collect::<Vec<_>>()).rate, guess.rate);
}

/// A device without a head is learnt as such, from a disk's costs on.
#[test]
fn a_quick_device_is_not_taken_for_a_buffer() {
    let mut random = Random(5);
    for rate in [500.0, 2000.0] {
        let mut now = 0;
        let visits: Vec<Visit> = (0..200)
            .map(|_| {
                let pages = Pages(1 << random.below(9));
                let issued = now + 200_000;
                now = issued + 100_000 + (pages.bytes().get() as f64 / rate * 1e3) as u64;
                let range = SectorSpan::at(Lba(random.below(200_000_000) * 8), pages.sectors());
                Visit { issued: Instant(issued), completed: Instant(now), range, alone: true }
            })
            .collect();
        for (ms, mb) in GUESSES {
            let guess = Measured { positioning: Nanos::from_millis_f64(ms), rate: Rate::mb_per_second(mb) };
            let costs = learnt(guess, &visits);
            assert!(costs.positioning < Nanos::from_micros(300), "{costs:?} from {guess:?}");
            let share = costs.rate.as_mb_per_second() / rate;
            assert!((0.67..1.5).contains(&share), "{costs:?} instead of {rate} MB/s");
        }
    }
}

/// What a program reads next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Any place of the disk.
    Far(u32),
    /// Somewhere beside the last read.
    Beside(i32),
    /// What follows the last read, after a gap.
    On(u8),
    /// What was read a while ago.
    Again(u8),
    /// A read of the file system's, which the learner does not see.
    Unseen(u32),
}

fn next() -> impl Strategy<Value = (Next, u64, u64)> {
    let next = prop_oneof![
        1 => (1..u32::MAX).prop_map(Next::Far),
        8 => (-400..400i32).prop_map(Next::Beside),
        8 => (0..64u8).prop_map(Next::On),
        8 => (1..32u8).prop_map(Next::Again),
        1 => (1..u32::MAX).prop_map(Next::Unseen),
    ];
    let pages = prop_oneof![3 => 1..8u64, 1 => 8..512u64];
    (next, pages, 0..3000u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever mixture of far and near reads, of answers from the buffer and of reads unseen.
    #[test]
    fn any_mixture_leaves_it_right(
        disk in 0..DISKS.len(),
        guess in 0..=GUESSES.len(),
        at_a_time in prop_oneof![3 => Just(1usize), 1 => 2..16usize],
        mixture in prop::collection::vec(next(), 50..500),
    ) {
        let profile = profile(DISKS[disk]);
        let guess = guesses(&profile)[guess];
        let mut reads = vec![Read::of(PLACE, 4)];
        for (next, pages, pause) in mixture {
            let last = reads[reads.len() - 1];
            let page = match next {
                Next::Far(at) | Next::Unseen(at) => u64::from(at) * 7,
                Next::Beside(by) => last.page.saturating_add_signed(i64::from(by)),
                Next::On(gap) => last.page + last.pages + u64::from(gap),
                Next::Again(ago) => reads[reads.len().saturating_sub(usize::from(ago))].page,
            };
            let seen = !matches!(next, Next::Unseen(_));
            reads.push(Read { seen, pause: Nanos::from_micros(pause), ..Read::of(page, pages) });
        }
        let costs = learnt(guess, &visits(&profile, &reads, at_a_time));
        prop_assert_eq!(check(costs, guess, &profile, 2.0), Ok(()));
    }
}
