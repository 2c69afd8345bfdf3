//! The requests of a desktop to its disk, replayed one after the other (ATC'08 section 3.2: "the general hard
//! disk drive usage of PCMark that contains disk activities from using several common applications").
//!
//! That trace is not public. The [desktop mix](super::desktop_mix), whose tasks are PCMark05's, takes its
//! place: each of its thirteen tasks ten times, in an order and on files that the run draws. PCMark replays the
//! requests of a Windows system to its disk, below that system's own cache, and waits only for the disk. So
//! there is no page cache above: reads and writes bypass it, one at a time, and there are neither pauses nor
//! processor time. The trace is replayed three times, as PCMark is believed to do.
//!
//! Assumptions: a file is read and written 64 KiB at a time, which was the largest request of Windows XP's
//! cache manager. The touched runs of a mapped file are read eight pages at a time, its cluster for code.
//! Requests that repeat within a task are repeated. The three traces of seeds 1 to 3 use 1189, 1401 and 1294
//! MiB of files.

use super::WorkloadError;
use super::desktop_mix::{self, DesktopMix, Part, Task};
use super::parameters::Checked;
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{Bytes, PageIndex, PageSpan, Pages};
use rand::seq::SliceRandom;
use rand_core::Rng;

/// How often each task is in the trace.
const TIMES: usize = 10;
/// How often the trace is replayed.
const PLAYED: usize = 3;
/// The longest request of a file, and of a mapped one.
const REQUEST: Pages = Bytes::kib(64).pages_floor();
const CLUSTER: Pages = Pages(8);

pub(super) fn desktop_trace(_: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    Ok(Box::new(DesktopTrace(DesktopMix::new())))
}

struct DesktopTrace(DesktopMix);

impl Workload for DesktopTrace {
    fn files(&self) -> Vec<FileSpec> {
        self.0.files()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(1)
    }

    fn program(&mut self, _number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        let mut kinds: Vec<usize> =
            (0..desktop_mix::TASKS.len()).cycle().take(desktop_mix::TASKS.len() * TIMES).collect();
        kinds.shuffle(random);
        let mut task = Task::new(Bytes::ZERO);
        for kind in kinds {
            desktop_mix::TASKS[kind](&mut task, &self.0, random);
        }
        let requests = task.into_parts().into_iter().flat_map(|part| requests(part, random)).collect();
        Script::boxed(Trace { requests, next: 0, played: 0 })
    }
}

/// A request: whether it writes, its file, its pages.
type Request = (bool, u32, PageSpan);

fn requests(part: Part, random: &mut dyn Rng) -> Vec<Request> {
    let cut = |pages: PageSpan, most: Pages| {
        let starts = (pages.start.get()..pages.end.get()).step_by(most.get() as usize);
        let end = pages.end;
        starts.map(move |at| PageSpan::new(PageIndex(at), end.min(PageIndex(at + most.get()))))
    };
    let pages = |from: Bytes, length: Bytes| {
        PageSpan::new(PageIndex(from.pages_floor().get()), PageIndex((from + length).pages_ceil().get()))
    };
    match part {
        Part::Read(file, at, length) => {
            cut(pages(at, length), REQUEST).map(|span| (false, file, span)).collect()
        }
        Part::Write(file, length) => {
            cut(pages(Bytes::ZERO, length), REQUEST).map(|span| (true, file, span)).collect()
        }
        Part::Play(file, pieces, _) => {
            let length = desktop_mix::PLAYED * pieces;
            cut(pages(Bytes::ZERO, length), REQUEST).map(|span| (false, file, span)).collect()
        }
        Part::Map(file, length) => desktop_mix::touched(length, random)
            .into_iter()
            .flat_map(|run| cut(run, CLUSTER).map(|span| (false, file, span)).collect::<Vec<_>>())
            .collect(),
        Part::Pause(_) => Vec::new(),
    }
}

/// The trace during its replay.
struct Trace {
    requests: Vec<Request>,
    next: usize,
    played: usize,
}

/// A request opens its file; that reads nothing, since directories and inodes are not part of the trace.
const FILE: Handle = Handle(0);

impl Source for Trace {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        if self.played == PLAYED {
            return;
        }
        if self.next == 0 {
            steps.begun();
        }
        if let Some((writes, file, pages)) = self.requests.get(self.next) {
            steps.open(FILE, FileNumber(*file), None);
            if *writes {
                steps.direct_write(FILE, *pages)
            } else {
                steps.direct(FILE, *pages)
            }
            steps.close(FILE);
        }
        self.next += 1;
        if self.next >= self.requests.len() {
            (self.next, self.played) = (0, self.played + 1);
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::mib(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::trail;
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;
    use std::collections::BTreeSet;

    /// The cache sizes of the experiments are shares of this working set.
    #[test]
    fn the_working_set_is_known() {
        let sets = (1..=3).map(|seed| {
            let mut workload = DesktopTrace(DesktopMix::new());
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let trail = trail(&mut workload, 0, &mut random);
            assert_eq!(trail.finished, PLAYED as u32);
            let all = trail.reads.iter().chain(&trail.writes);
            let longest = all.clone().map(|(_, range)| range.len()).max();
            assert_eq!(longest, Some(REQUEST.bytes()));
            let (read, written) = (trail.reads.len(), trail.writes.len());
            // Files are opened in the order of the accesses.
            let pages: BTreeSet<(u32, u64)> = trail
                .opens
                .iter()
                .zip(in_order(&mut DesktopTrace(DesktopMix::new()), seed))
                .flat_map(|((file, _), span)| {
                    span.iter().map(|page| (file.0, page.get())).collect::<Vec<_>>()
                })
                .collect();
            (pages.len() as u64 / 256, read, written)
        });
        let sets: Vec<_> = sets.collect();
        let mean = sets.iter().map(|(mib, ..)| mib).sum::<u64>() / 3;
        assert!((WORKING_SET_MIB..WORKING_SET_MIB + 100).contains(&mean), "{sets:?}");
    }

    /// The mean of three traces, rounded down to hundreds.
    const WORKING_SET_MIB: u64 = 1200;

    fn in_order(workload: &mut dyn Workload, seed: u64) -> Vec<PageSpan> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut program = workload.program(0, &mut random);
        let step = || program.next(foreseek_units::Instant::ZERO, &mut random);
        std::iter::repeat_with(step)
            .take_while(|step| *step != crate::program::Step::Exit)
            .filter_map(|step| match step {
                crate::program::Step::Direct { pages, .. }
                | crate::program::Step::DirectWrite { pages, .. } => Some(pages),
                _ => None,
            })
            .collect()
    }
}
