//! A small read beside two-rand-0 (EuroSys'07 section 7, figure 13).
//!
//! What the paper says: "the latency of an individual small I/O request is measured with
//! microbenchmark Two-Rand-0 running in the background". What is taken for the rest: the program of
//! number 0 is the probe, all others are handlers of [`two-rand-0`](super::micro); one of the
//! concurrency level is therefore the probe. The probe never ends. Each 100 ms it opens a random file,
//! reads 4 KiB of it at a random page, and says [`Step::Finished`](crate::program::Step::Finished);
//! the pause lies behind that, so that from the opening to `Finished` it is the latency.

use super::WorkloadError;
use super::micro;
use super::parameters::Checked;
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{Bytes, Nanos, PAGE_SIZE, PageIndex};
use rand::RngExt;
use rand_core::Rng;

/// The probe's number.
pub const PROBE: u64 = 0;
/// Between two reads: several times the latency, so that a probe meets a queue that has forgotten
/// the one before it (assumption).
const PAUSE: Nanos = Nanos::from_millis(100);
const LENGTH: Bytes = Bytes(PAGE_SIZE);
/// Private memory of the probe: it has next to none.
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
            _ => self.background.program(number, random),
        }
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
        steps.open(handle, FileNumber(random.random_range(0..self.files)), Some(LENGTH));
        steps.read(handle, page.offset(), LENGTH);
        steps.close(handle);
        steps.finished();
        steps.sleep(PAUSE);
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}
