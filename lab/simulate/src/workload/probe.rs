//! A small read beside two-rand-0 (EuroSys'07 section 7, figure 13).
//!
//! What the paper says: "the latency of an individual small I/O request is measured with microbenchmark
//! Two-Rand-0 running in the background". The assumptions for the rest: the program of number [`PROBE`] is the
//! probe, all others are handlers of `two-rand-0`, so that one of the concurrency level is the probe. It never
//! ends. Every 100 ms it opens a random file and reads 4 KiB of it at a random page. Response times are the
//! probe's alone: the handlers here do not report when they have finished.

use super::WorkloadError;
use super::micro;
use super::parameters::Checked;
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Step, Workload};
use foreseek_units::{Bytes, Instant, Nanos, PAGE_SIZE, PageIndex};
use rand::RngExt;
use rand_core::Rng;

/// The probe's number.
pub const PROBE: u64 = 0;
/// The time between two reads: several times the latency, so that the queue no longer holds anything of the
/// read before (assumption).
const PAUSE: Nanos = Nanos::from_millis(100);
const LENGTH: Bytes = Bytes(PAGE_SIZE);
/// Private memory of the probe: hardly any.
const MEMORY: Bytes = Bytes::kib(64);

pub(super) fn small_read(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let background = micro::two_rand(parameters)?;
    let files = background.files();
    Ok(Box::new(SmallRead { background, files }))
}

struct SmallRead {
    background: Box<dyn Workload>,
    files: Vec<FileSpec>,
}

impl Workload for SmallRead {
    fn files(&self) -> Vec<FileSpec> {
        self.files.clone()
    }

    fn drive(&self) -> Drive {
        Drive::Closed
    }

    fn program(&mut self, number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        match number {
            PROBE => Script::boxed(Probe {
                files: self.files.len() as u32,
                pages: self.files.first().map_or(1, |file| file.length.pages_floor().get().max(1)),
            }),
            _ => Box::new(Silent(self.background.program(number, random))),
        }
    }
}

/// A program that does not report when it has finished a part of its work.
struct Silent(Box<dyn Program>);

impl Program for Silent {
    fn next(&mut self, now: Instant, random: &mut dyn Rng) -> Step {
        loop {
            match self.0.next(now, random) {
                Step::Finished => {}
                step => return step,
            }
        }
    }

    fn memory(&self) -> Bytes {
        self.0.memory()
    }
}

struct Probe {
    files: u32,
    pages: u64,
}

impl Source for Probe {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        let handle = Handle(0);
        let page = PageIndex(random.random_range(0..self.pages));
        steps.sleep(PAUSE);
        steps.begun();
        steps.open(handle, FileNumber(random.random_range(0..self.files)), Some(LENGTH));
        steps.read(handle, page.offset(), LENGTH);
        steps.finished();
        steps.close(handle);
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Parameters, by_name};
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn only_the_probe_is_timed_and_only_its_reads() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut small_read = by_name("small-read", &Parameters::default()).expect("known");
        let mut probe = small_read.program(PROBE, &mut random);
        let steps: Vec<Step> = (0..6).map(|_| probe.next(Instant::ZERO, &mut random)).collect();
        assert!(matches!(
            steps[..],
            [
                Step::Sleep(PAUSE),
                Step::Begun,
                Step::Open { .. },
                Step::Read { .. },
                Step::Finished,
                Step::Close { .. }
            ]
        ));
        let mut handler = small_read.program(1, &mut random);
        let steps = std::iter::from_fn(|| {
            Some(handler.next(Instant::ZERO, &mut random)).filter(|step| *step != Step::Exit)
        });
        assert!(steps.into_iter().all(|step| step != Step::Finished));
    }
}
