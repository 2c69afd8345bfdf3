//! Work at a desktop: many short tasks, each with its own kind of streams.
//!
//! No paper here describes it; one of them measures it (ATC'08 section 3.3: "the general hard disk drive
//! usage of PCMark that contains disk activities from using several common applications"). The tasks are
//! therefore those of PCMark05, from its documentation:
//!
//! - a Word document is opened, its grammar is checked and it is saved;
//! - a file is packed and unpacked; a file is encrypted;
//! - files are scanned for viruses;
//! - music and video are played; pictures are viewed;
//! - the web is browsed;
//! - a game is loaded;
//! - applications are started (its second trace).
//!
//! Mail, searching through files and a backup are added. All tasks have the same probability, since the list
//! has each once.
//!
//! Sizes and counts are assumptions, except for text files: their sizes are lognormal (mu 9.48, sigma 2.46),
//! the body of the distribution of files on desktops in *Generating realistic impressions for file-system
//! benchmarking* (FAST'09, table 2), here up to 1 MiB.
//!
//! - An application is an executable of 2 to 8 MiB and 20 of 200 common libraries of 0.1 to 2 MiB. It is
//!   mapped. A third of its pages is touched, in runs of 8 pages on average.
//! - Pictures have 1 to 4 MiB; a task shows three of them, for half a second each.
//! - Music has 3 to 6 MiB, video 200 MiB. 20 s of either are played, 64 KiB every quarter of a second for
//!   video and every second for music.
//! - A mailbox has 60 MiB. A task reads ten messages of 16 KiB on average anywhere in it; one in eight
//!   searches all of it.
//! - A page of the web is 30 of 4000 cached files of 12 KiB on average.
//! - A virus scanner reads the first 32 KiB of each file of a directory, and the rest of one in ten.
//! - A game loads a level of 24 to 64 MiB.
//! - Programs read and write 16 KiB at a time and use 10 ns of processor time for a byte.
//! - A task costs 20 ms to begin and has 2 MiB of private memory.
//! - Writes overwrite, since files do not grow here.

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Reader, Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, Bytes, Nanos, PAGE_SIZE, PageIndex, PageSpan};
use rand::{RngExt, SeedableRng};
use rand_core::Rng;
use rand_distr::{Distribution, Exp, LogNormal};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::ops::Range;

/// The assumptions; each is explained above.
const CHUNK: Bytes = Bytes::kib(16);
const COST_A_BYTE: u64 = 10;
const COST_A_TASK: Nanos = Nanos::from_millis(20);
const MEMORY: Bytes = Bytes::mib(2);
const LIBRARIES_A_START: usize = 20;
const TOUCHED_SHARE: f64 = 1.0 / 3.0;
const RUN_MEAN: f64 = 8.0;
const PICTURES_A_TASK: usize = 3;
const LOOK: Nanos = Nanos::from_millis(500);
pub(super) const PLAYED: Bytes = Bytes::kib(64);
const MUSIC_PIECES: u64 = 20;
const MUSIC_EVERY: Nanos = Nanos::from_millis(1000);
const VIDEO_PIECES: u64 = 80;
const VIDEO_EVERY: Nanos = Nanos::from_millis(250);
const MESSAGES_A_TASK: usize = 10;
const MESSAGE_MEAN: f64 = 16.0 * 1024.0;
const MAIL_SEARCHED: f64 = 1.0 / 8.0;
const FILES_A_PAGE: usize = 30;
const SCANNED_HEAD: Bytes = Bytes::kib(32);
const SCANNED_WHOLE: f64 = 0.1;
const WORDS_CHECKED: usize = 40;
const BACKED_UP: usize = 10;
/// The seed of the files' contents; fixed, so that all runs have the same.
const DATA_SEED: u64 = 2005;

/// Kinds of files, in the order in which they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Executables,
    Libraries,
    Dictionary,
    Documents,
    Archives,
    Texts,
    Cache,
    Mail,
    Music,
    Video,
    Pictures,
    Levels,
    Backup,
}

/// Each kind: number of files, files of a directory, length.
const KINDS: [(Kind, u32, u32, Length); 13] = [
    (Kind::Executables, 12, 12, Length::Between(Bytes::mib(2), Bytes::mib(8))),
    (Kind::Libraries, 200, 200, Length::Between(Bytes::kib(100), Bytes::mib(2))),
    (Kind::Dictionary, 1, 1, Length::Between(Bytes::mib(8), Bytes::mib(8))),
    (Kind::Documents, 400, 20, Length::Between(Bytes::kib(20), Bytes::mib(1))),
    (Kind::Archives, 20, 20, Length::Between(Bytes::mib(8), Bytes::mib(16))),
    (Kind::Texts, 8000, 100, Length::Text),
    (Kind::Cache, 4000, 100, Length::Exponential(12.0 * 1024.0)),
    (Kind::Mail, 4, 4, Length::Between(Bytes::mib(60), Bytes::mib(60))),
    (Kind::Music, 300, 12, Length::Between(Bytes::mib(3), Bytes::mib(6))),
    (Kind::Video, 10, 10, Length::Between(Bytes::mib(200), Bytes::mib(200))),
    (Kind::Pictures, 1000, 50, Length::Between(Bytes::mib(1), Bytes::mib(4))),
    (Kind::Levels, 20, 20, Length::Between(Bytes::mib(24), Bytes::mib(64))),
    (Kind::Backup, 10, 10, Length::Between(Bytes::mib(64), Bytes::mib(64))),
];

/// The lengths of the files of a kind.
#[derive(Clone, Copy, Debug)]
enum Length {
    Between(Bytes, Bytes),
    Exponential(f64),
    Text,
}

impl Length {
    fn draw(self, random: &mut Pcg64Mcg) -> Bytes {
        const LEAST: f64 = 512.0;
        const TEXT_MOST: f64 = 1024.0 * 1024.0;
        let length = match self {
            Self::Between(least, most) => return Bytes(random.random_range(least.get()..=most.get())),
            Self::Exponential(mean) => Exp::new(1.0 / mean).map_or(mean, |law| law.sample(random)),
            Self::Text => LogNormal::new(9.48, 2.46).map_or(LEAST, |law| law.sample(random)).min(TEXT_MOST),
        };
        Bytes(length.max(LEAST) as u64)
    }
}

pub(super) fn desktop_mix(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let memory = parameters.handler_memory(MEMORY);
    Ok(Box::new(DesktopMix { memory, ..DesktopMix::new() }))
}

pub(super) struct DesktopMix {
    files: Vec<FileSpec>,
    memory: Bytes,
}

fn files() -> Vec<FileSpec> {
    let mut random = Pcg64Mcg::seed_from_u64(DATA_SEED);
    let (mut files, mut directory) = (Vec::new(), 0);
    for (_, count, a_directory, length) in KINDS {
        for n in 0..count {
            let directory = directory + n / a_directory;
            files.push(FileSpec { length: length.draw(&mut random), directory });
        }
        directory += count.div_ceil(a_directory);
    }
    files
}

/// The numbers of a kind's files, and how many a directory has.
fn of(kind: Kind) -> (Range<u32>, u32) {
    let mut first = 0;
    for (known, count, a_directory, _) in KINDS {
        if known == kind {
            return (first..first + count, a_directory);
        }
        first += count;
    }
    (0..1, 1)
}

impl Workload for DesktopMix {
    fn files(&self) -> Vec<FileSpec> {
        self.files.clone()
    }

    fn drive(&self) -> Drive {
        Drive::Closed
    }

    fn program(&mut self, _number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        let mut task = Task::new(self.memory);
        TASKS[random.random_range(0..TASKS.len())](&mut task, self, random);
        Script::boxed(task)
    }
}

/// Each kind of task.
pub(super) const TASKS: [fn(&mut Task, &DesktopMix, &mut dyn Rng); 13] = [
    Task::document,
    Task::pack,
    Task::encrypt,
    Task::scan,
    Task::music,
    Task::video,
    Task::pictures,
    Task::browse,
    Task::game,
    Task::start,
    Task::mail,
    Task::search,
    Task::back_up,
];

impl DesktopMix {
    pub(super) fn new() -> Self {
        Self { files: files(), memory: MEMORY }
    }

    fn length(&self, file: u32) -> Bytes {
        self.files.get(file as usize).map_or(Bytes::ZERO, |file| file.length)
    }

    fn any(&self, kind: Kind, random: &mut dyn Rng) -> u32 {
        random.random_range(of(kind).0)
    }

    /// The files of one directory of a kind.
    fn directory(&self, kind: Kind, random: &mut dyn Rng) -> Range<u32> {
        let (all, a_directory) = of(kind);
        let chosen = random.random_range(0..all.len() as u32 / a_directory);
        let first = all.start + chosen * a_directory;
        first..first + a_directory
    }
}

/// A use of a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// Read from an offset, a length.
    Read(u32, Bytes, Bytes),
    /// Overwritten from its start, a length.
    Write(u32, Bytes),
    /// Read from its start at a rate: a number of pieces, and the time for each.
    Play(u32, u64, Nanos),
    /// Mapped, and a share of its pages touched.
    Map(u32, Bytes),
    /// Nothing for this long.
    Pause(Nanos),
}

/// The rest of a task.
pub(super) struct Task {
    parts: VecDeque<Part>,
    memory: Bytes,
}

impl Task {
    pub(super) fn new(memory: Bytes) -> Self {
        Self { parts: VecDeque::new(), memory }
    }

    /// Its parts.
    pub(super) fn into_parts(self) -> VecDeque<Part> {
        self.parts
    }

    fn read(&mut self, mix: &DesktopMix, file: u32) {
        self.parts.push_back(Part::Read(file, Bytes::ZERO, mix.length(file)));
    }

    fn write(&mut self, mix: &DesktopMix, file: u32, length: Bytes) {
        self.parts.push_back(Part::Write(file, length.min(mix.length(file))));
    }

    /// Reads a length at a random offset.
    fn read_at_random(&mut self, mix: &DesktopMix, file: u32, length: Bytes, random: &mut dyn Rng) {
        let at = Bytes(random.random_range(0..mix.length(file).get().max(1)));
        self.parts.push_back(Part::Read(file, at, length.min(mix.length(file) - at)));
    }

    fn document(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        let document = mix.any(Kind::Documents, random);
        self.read(mix, document);
        let dictionary = of(Kind::Dictionary).0.start;
        for _ in 0..WORDS_CHECKED {
            self.read_at_random(mix, dictionary, Bytes(PAGE_SIZE), random);
        }
        self.write(mix, document, mix.length(document));
    }

    fn pack(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        let archive = mix.any(Kind::Archives, random);
        let documents = mix.directory(Kind::Documents, random);
        let all: Bytes = documents.clone().map(|document| mix.length(document)).sum();
        documents.for_each(|document| self.read(mix, document));
        self.write(mix, archive, all);
        self.read(mix, archive);
    }

    fn encrypt(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        let (plain, coded) = (mix.any(Kind::Pictures, random), mix.any(Kind::Archives, random));
        self.read(mix, plain);
        self.write(mix, coded, mix.length(plain));
    }

    fn scan(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        for file in mix.directory(Kind::Texts, random) {
            let whole = random.random_bool(SCANNED_WHOLE);
            let length = if whole { mix.length(file) } else { mix.length(file).min(SCANNED_HEAD) };
            self.parts.push_back(Part::Read(file, Bytes::ZERO, length));
        }
    }

    fn music(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        self.parts.push_back(Part::Play(mix.any(Kind::Music, random), MUSIC_PIECES, MUSIC_EVERY));
    }

    fn video(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        self.parts.push_back(Part::Play(mix.any(Kind::Video, random), VIDEO_PIECES, VIDEO_EVERY));
    }

    fn pictures(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        for picture in mix.directory(Kind::Pictures, random).take(PICTURES_A_TASK) {
            self.read(mix, picture);
            self.parts.push_back(Part::Pause(LOOK));
        }
    }

    fn browse(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        for _ in 0..FILES_A_PAGE {
            self.read(mix, mix.any(Kind::Cache, random));
        }
    }

    fn game(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        self.start(mix, random);
        self.read(mix, mix.any(Kind::Levels, random));
    }

    fn start(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        let mut map = |file| self.parts.push_back(Part::Map(file, mix.length(file)));
        map(mix.any(Kind::Executables, random));
        (0..LIBRARIES_A_START).for_each(|_| map(mix.any(Kind::Libraries, random)));
    }

    fn mail(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        let mailbox = mix.any(Kind::Mail, random);
        if random.random_bool(MAIL_SEARCHED) {
            return self.read(mix, mailbox);
        }
        for _ in 0..MESSAGES_A_TASK {
            let length = Exp::new(1.0 / MESSAGE_MEAN).map_or(MESSAGE_MEAN, |law| law.sample(random));
            self.read_at_random(mix, mailbox, Bytes(length as u64 + 1), random);
        }
    }

    fn search(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        mix.directory(Kind::Texts, random).for_each(|text| self.read(mix, text));
    }

    fn back_up(&mut self, mix: &DesktopMix, random: &mut dyn Rng) {
        let copy = mix.any(Kind::Backup, random);
        let pictures = mix.directory(Kind::Pictures, random).take(BACKED_UP);
        let all: Bytes = pictures.clone().map(|picture| mix.length(picture)).sum();
        pictures.for_each(|picture| self.read(mix, picture));
        self.write(mix, copy, all);
    }
}

/// A task has one file open at a time.
const FILE: Handle = Handle(0);

impl Source for Task {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        let Some(part) = self.parts.pop_front() else { return };
        match part {
            Part::Read(file, at, length) => read(file, at, length, steps),
            Part::Write(file, length) => write(file, length, steps),
            Part::Play(file, pieces, every) => {
                steps.open(FILE, FileNumber(file), Some(PLAYED * pieces));
                let mut reader = Reader::new(FILE, PLAYED * pieces);
                for _ in 0..pieces {
                    reader.read(PLAYED, steps);
                    steps.sleep(every);
                }
                steps.close(FILE);
            }
            Part::Map(file, length) => map(file, length, random, steps),
            Part::Pause(time) => steps.sleep(time),
        }
        if self.parts.is_empty() {
            steps.compute(COST_A_TASK);
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        self.memory
    }
}

fn read(file: u32, at: Bytes, length: Bytes, steps: &mut Steps) {
    steps.open(FILE, FileNumber(file), Some(length));
    let mut done = Bytes::ZERO;
    while done < length {
        let chunk = CHUNK.min(length - done);
        steps.read(FILE, ByteOffset((at + done).get()), chunk);
        steps.compute(Nanos(COST_A_BYTE * chunk.get()));
        done += chunk;
    }
    steps.close(FILE);
}

fn write(file: u32, length: Bytes, steps: &mut Steps) {
    steps.open(FILE, FileNumber(file), None);
    let mut done = Bytes::ZERO;
    while done < length {
        let chunk = CHUNK.min(length - done);
        steps.write(FILE, ByteOffset(done.get()), chunk);
        steps.compute(Nanos(COST_A_BYTE * chunk.get()));
        done += chunk;
    }
    steps.close(FILE);
}

fn map(file: u32, length: Bytes, random: &mut dyn Rng, steps: &mut Steps) {
    steps.open(FILE, FileNumber(file), Some(length));
    for run in touched(length, random) {
        run.iter().for_each(|page| steps.touch(FILE, page));
    }
    steps.close(FILE);
}

/// Runs of touched and of untouched pages, both of exponential length.
pub(super) fn touched(length: Bytes, random: &mut dyn Rng) -> Vec<PageSpan> {
    let mut runs = Vec::new();
    let end = length.pages_ceil().get();
    let (mut at, mut touched) = (0, random.random_bool(TOUCHED_SHARE));
    while at < end {
        let mean = if touched { RUN_MEAN } else { RUN_MEAN * (1.0 / TOUCHED_SHARE - 1.0) };
        let run = Exp::new(1.0 / mean).map_or(mean, |law| law.sample(random)).ceil() as u64;
        let next = end.min(at + run);
        if touched {
            runs.push(PageSpan::new(PageIndex(at), PageIndex(next)));
        }
        (at, touched) = (next, !touched);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::super::tests::trail;
    use super::*;

    fn mix() -> DesktopMix {
        DesktopMix { files: files(), memory: MEMORY }
    }

    /// The work of a task of one kind.
    fn done(task: fn(&mut Task, &DesktopMix, &mut dyn Rng), seed: u64) -> super::super::tests::Trail {
        struct One(fn(&mut Task, &DesktopMix, &mut dyn Rng), DesktopMix);
        impl Workload for One {
            fn files(&self) -> Vec<FileSpec> {
                self.1.files()
            }
            fn drive(&self) -> Drive {
                Drive::Closed
            }
            fn program(&mut self, _number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
                let mut task = Task { parts: VecDeque::new(), memory: MEMORY };
                (self.0)(&mut task, &self.1, random);
                Script::boxed(task)
            }
        }
        trail(&mut One(task, mix()), 0, &mut Pcg64Mcg::seed_from_u64(seed))
    }

    #[test]
    fn directories_hold_files_of_one_kind() {
        let files = files();
        for (kind, ..) in KINDS {
            let numbers = of(kind).0;
            let directories = numbers.clone().map(|file| files[file as usize].directory);
            let (least, most) = (directories.clone().min(), directories.max());
            let others = (0..files.len() as u32).filter(|file| !numbers.contains(file));
            let strange = |file: &u32| {
                let directory = Some(files[*file as usize].directory);
                directory >= least && directory <= most
            };
            assert_eq!(others.filter(strange).count(), 0, "{kind:?}");
        }
    }

    #[test]
    fn text_files_are_as_long_as_they_are_said_to_be() {
        let (texts, _) = of(Kind::Texts);
        let mut lengths: Vec<u64> =
            files()[texts.start as usize..texts.end as usize].iter().map(|file| file.length.get()).collect();
        lengths.sort_unstable();
        // The median of a lognormal distribution is e^mu; of 8000 it is known to 4 %.
        let median = lengths[lengths.len() / 2] as f64;
        assert!((median / 9.48f64.exp() - 1.0).abs() < 0.12, "{median}");
        assert!(lengths[lengths.len() - 1] <= 1024 * 1024);
    }

    #[test]
    fn a_start_touches_a_third_of_what_it_maps() {
        let (mut mapped, mut touched) = (0, 0);
        for seed in 0..20 {
            let started = done(Task::start, seed);
            assert_eq!(started.opens.len(), 21);
            mapped += started
                .opens
                .iter()
                .map(|(_, announced)| announced.expect("announced").pages_ceil().get())
                .sum::<u64>();
            touched += started.touches.len();
        }
        // Some 5000 runs: the share is known to half a percent.
        let share = touched as f64 / mapped as f64;
        assert!((share - TOUCHED_SHARE).abs() < 0.02, "{share}");
    }

    #[test]
    fn a_scan_reads_heads_and_a_search_reads_all() {
        let bytes = |trail: &super::super::tests::Trail| {
            trail.reads.iter().map(|(_, range)| range.len()).sum::<Bytes>().get()
        };
        let (scan, search) = (done(Task::scan, 7), done(Task::search, 7));
        assert_eq!((scan.opens.len(), search.opens.len()), (100, 100));
        assert!(bytes(&scan) < bytes(&search) / 2, "{} of {}", bytes(&scan), bytes(&search));
    }

    #[test]
    fn what_is_played_is_played_at_its_pace() {
        let video = done(Task::video, 3);
        assert_eq!((video.slept, video.reads.len()), (Nanos::from_secs(20), 80));
    }

    #[test]
    fn every_task_comes_as_often() {
        let (mut mix, mut random) = (mix(), Pcg64Mcg::seed_from_u64(4));
        let count = 2600;
        let (mut mapping, mut playing) = (0.0, 0.0);
        for number in 0..count {
            let trail = trail(&mut mix, number, &mut random);
            mapping += f64::from(u8::from(!trail.touches.is_empty()));
            playing += f64::from(u8::from(trail.slept >= Nanos::from_secs(20)));
        }
        // Two of thirteen each; the share is known to 0.7 %.
        for share in [mapping / count as f64, playing / count as f64] {
            assert!((share - 2.0 / 13.0).abs() < 0.022, "{share}");
        }
    }
}
