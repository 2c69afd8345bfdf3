//! Starting a Linux system (ATC'08 section 3.7), in its two phases.
//!
//! What the paper says: "Linux booting consists of partially random reads for scattered applications and script files." Phase 1 lasts from
//! before `init` until the root file system is remounted for writing and "consists of CPU-bounded operations rather than
//! I/O-bounded operations"; phase 2 lasts until all scripts `/etc/rc3.d/S*` have ended and "requires I/O bounded operations". "Linux booting does not
//! produce multiple concurrent reads."
//!
//! No other number of these workloads has a source, except for the approximate size of such a system (Fedora
//! Core 5): directories with a number of files of a mean length in KiB (exponential), some of which, spread
//! evenly, are used.
//!
//! - `boot-1`: 60 commands are started one after the other and 50 modules loaded, each of which costs 150 ms of
//!   processor time.
//! - `boot-2`: 40 scripts. Each is read, starts ten commands, starts a daemon with eight libraries, and reads
//!   two configuration files of its own. A command costs 10 ms of processor time, a daemon 50 ms.
//!
//! A command and a daemon are mapped, and a third of their pages is touched, in runs of eight pages on average,
//! as in the [desktop mix](super::desktop_mix). A command has one library of its own; its others are those of
//! earlier commands. The files and the order of their first use are the same in all runs; the touched pages are
//! drawn.

use super::WorkloadError;
use super::desktop_mix::touched;
use super::draw::{hash, hashed_share};
use super::parameters::Checked;
use super::script::{Reader, Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{Bytes, Nanos};
use rand_core::Rng;

/// The content of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Commands,
    Daemons,
    Libraries,
    Modules,
    Scripts,
    Settings,
}

/// Directories: content, number of them, files, mean length in KiB, number of files in use.
const DIRECTORIES: [(Kind, u32, u32, u64, u32); 9] = [
    (Kind::Commands, 1, 100, 60, 25),
    (Kind::Commands, 1, 250, 60, 40),
    (Kind::Commands, 1, 1600, 60, 40),
    (Kind::Daemons, 1, 250, 150, 40),
    (Kind::Libraries, 1, 120, 150, 25),
    (Kind::Libraries, 1, 1200, 200, 40),
    (Kind::Modules, 100, 13, 60, 1),
    (Kind::Scripts, 1, 60, 3, 40),
    (Kind::Settings, 4, 60, 4, 30),
];

/// The assumptions; each is explained above.
const PHASE_1_COMMANDS: u64 = 60;
const PHASE_1_MODULES: u64 = 50;
const PHASE_1_COST: Nanos = Nanos::from_millis(150);
const SCRIPTS: u64 = 40;
const COMMANDS_A_SCRIPT: u64 = 10;
const LIBRARIES_A_DAEMON: u64 = 8;
const SETTINGS_A_SCRIPT: u64 = 2;
const COMMAND_COST: Nanos = Nanos::from_millis(10);
const DAEMON_COST: Nanos = Nanos::from_millis(50);
const LENGTH_LEAST: f64 = 512.0;
const CHUNK: Bytes = Bytes::kib(4);
const MEMORY: Bytes = Bytes::mib(4);

pub(super) fn boot(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let phase = if parameters.workload() == "boot-1" { 1 } else { 2 };
    Ok(Box::new(Boot { phase, mapped: parameters.mapped(true) }))
}

struct Boot {
    phase: u32,
    /// Whether programs and libraries are mapped; otherwise they are read whole.
    mapped: bool,
}

fn files() -> Vec<FileSpec> {
    let (mut files, mut directory) = (Vec::new(), 0);
    for (_, directories, count, mean, _) in DIRECTORIES {
        for _ in 0..directories {
            for _ in 0..count {
                let share = hashed_share(files.len() as u64);
                let length = -(1.0 - share).ln() * (mean * 1024) as f64;
                files.push(FileSpec { length: Bytes(length.max(LENGTH_LEAST) as u64), directory });
            }
            directory += 1;
        }
    }
    files
}

/// The used files of a kind, in an order that is independent of their places.
fn used(kind: Kind) -> Vec<FileNumber> {
    let (mut used, mut first) = (Vec::new(), 0);
    for (of, directories, count, _, in_use) in DIRECTORIES {
        for _ in 0..directories {
            if of == kind {
                used.extend((0..in_use).map(|n| FileNumber(first + n * count / in_use)));
            }
            first += count;
        }
    }
    used.sort_by_key(|file| hash(u64::from(file.0)));
    used
}

impl Workload for Boot {
    fn files(&self) -> Vec<FileSpec> {
        files()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(1)
    }

    fn program(&mut self, _number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let kinds =
            [Kind::Commands, Kind::Daemons, Kind::Libraries, Kind::Modules, Kind::Scripts, Kind::Settings];
        let lengths = files().into_iter().map(|file| file.length).collect();
        let used = kinds.map(|kind| (kind, used(kind), 0)).into();
        Script::boxed(Booting { phase: self.phase, mapped: self.mapped, lengths, used, step: 0 })
    }
}

struct Booting {
    phase: u32,
    mapped: bool,
    lengths: Vec<Bytes>,
    /// The used files of each kind, and how many of them have been used.
    used: Vec<(Kind, Vec<FileNumber>, usize)>,
    step: u64,
}

const FILE: Handle = Handle(0);

impl Booting {
    /// The next file of a kind; the first again when all have been used.
    fn next(&mut self, kind: Kind) -> FileNumber {
        let Some((_, files, at)) = self.used.iter_mut().find(|(of, ..)| *of == kind) else {
            return FileNumber(0);
        };
        let file = files[*at % files.len()];
        *at += 1;
        file
    }

    fn read(&mut self, kind: Kind, steps: &mut Steps) {
        let file = self.next(kind);
        let length = self.lengths[file.0 as usize];
        let mut reader = Reader::new(FILE, length);
        steps.open(FILE, file, Some(length));
        while !reader.left().is_zero() {
            reader.read(CHUNK, steps);
        }
        steps.close(FILE);
    }

    fn map(&mut self, kind: Kind, random: &mut dyn Rng, steps: &mut Steps) {
        if !self.mapped {
            return self.read(kind, steps);
        }
        let file = self.next(kind);
        let length = self.lengths[file.0 as usize];
        steps.open(FILE, file, Some(length));
        for run in touched(length, random) {
            run.iter().for_each(|page| steps.touch(FILE, page));
        }
        steps.close(FILE);
    }

    fn command(&mut self, cost: Nanos, random: &mut dyn Rng, steps: &mut Steps) {
        self.map(Kind::Commands, random, steps);
        self.map(Kind::Libraries, random, steps);
        steps.compute(cost);
    }

    fn script(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        self.read(Kind::Scripts, steps);
        (0..COMMANDS_A_SCRIPT).for_each(|_| self.command(COMMAND_COST, random, steps));
        (0..SETTINGS_A_SCRIPT).for_each(|_| self.read(Kind::Settings, steps));
        self.map(Kind::Daemons, random, steps);
        (0..LIBRARIES_A_DAEMON).for_each(|_| self.map(Kind::Libraries, random, steps));
        steps.compute(DAEMON_COST);
    }
}

impl Source for Booting {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        let all = if self.phase == 1 { PHASE_1_COMMANDS + PHASE_1_MODULES } else { SCRIPTS };
        match (self.phase, self.step) {
            (_, step) if step > all => return,
            (_, step) if step == all => steps.finished(),
            (1, step) if step < PHASE_1_COMMANDS => self.command(PHASE_1_COST, random, steps),
            (1, _) => {
                self.read(Kind::Modules, steps);
                steps.compute(PHASE_1_COST);
            }
            _ => self.script(random, steps),
        }
        self.step += 1;
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::trail;
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;
    use std::collections::BTreeSet;

    #[test]
    fn each_phase_uses_a_few_of_many_files() {
        assert_eq!(used(Kind::Commands).len(), 105);
        for (phase, scripts, modules, computed) in [(1, 0, 50, 16_500), (2, 40, 0, 6_000)] {
            let mut boot = Boot { phase, mapped: true };
            let trail = trail(&mut boot, 0, &mut Pcg64Mcg::seed_from_u64(1));
            let opened: BTreeSet<FileNumber> = trail.opens.iter().map(|(file, _)| *file).collect();
            let of = |kind| used(kind).into_iter().filter(|file| opened.contains(file)).count();
            assert_eq!((of(Kind::Scripts), of(Kind::Modules)), (scripts, modules));
            assert_eq!(trail.computed, Nanos::from_millis(computed));
            assert!(opened.len() * 10 < files().len(), "{}", opened.len());
        }
    }
}
