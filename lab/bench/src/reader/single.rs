//! One reader: the cost of a read where the disk has no part in it.

use super::files::Checked;
use super::times::Times;
use super::{Counted, Job, ReaderMessage, send, watch_input};
use foreseek_simulate::program::FileSpec;
use foreseek_units::{Bytes, PAGE_SIZE};
use rand::seq::SliceRandom;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Files that are read over and over: 64 MiB, a quarter of the readers' memory where a server has half of it.
const HOT_FILES: usize = 16;
/// The size of a read of them.
const HOT_BLOCK: Bytes = Bytes::kib(64);
/// Files of which pages are read: 131,072 pages, more than can be read one by one in two seconds.
const COLD_FILES: usize = 128;

/// Reads some files over and over. The first pass is checked and not measured.
pub(super) fn hot(job: &Job, files: &[FileSpec]) -> Result<(), String> {
    let open = open(job, files, HOT_FILES)?;
    let mut buffer = vec![0; HOT_BLOCK.get() as usize];
    let blocks = places(&open, HOT_BLOCK);
    for (file, offset) in &blocks {
        open[*file].0.read_checked(*offset, &mut buffer)?;
    }
    timed(job, &mut blocks.iter().cycle(), |(file, offset)| {
        open[*file].0.read(*offset, &mut buffer)?;
        Ok(HOT_BLOCK)
    })
}

/// Reads pages in random order, none twice.
pub(super) fn cold(job: &Job, files: &[FileSpec]) -> Result<(), String> {
    let page = Bytes(PAGE_SIZE);
    let open = open(job, files, COLD_FILES)?;
    let mut pages = places(&open, page);
    pages.shuffle(&mut Pcg64Mcg::seed_from_u64(job.seed));
    let mut buffer = vec![0; PAGE_SIZE as usize];
    timed(job, &mut pages.iter(), |(file, offset)| {
        open[*file].0.read_checked(*offset, &mut buffer)?;
        Ok(page)
    })
}

/// The first of the files, each with its length.
fn open(job: &Job, files: &[FileSpec], count: usize) -> Result<Vec<(Checked, Bytes)>, String> {
    let some = files.iter().take(count).enumerate();
    some.map(|(number, spec)| Ok((Checked::open(&job.folder, number as u32, files)?, spec.length))).collect()
}

/// Every whole block of every file: the file's index in the list and the offset in it.
fn places(open: &[(Checked, Bytes)], block: Bytes) -> Vec<(usize, u64)> {
    let of = |(file, (_, length)): (usize, &(Checked, Bytes))| {
        (0..*length / block).map(move |number| (file, number * block.get()))
    };
    open.iter().enumerate().flat_map(of).collect()
}

/// Does one thing after another until the time is over, or nothing is left to do.
fn timed<T>(
    job: &Job,
    todo: &mut dyn Iterator<Item = T>,
    mut read: impl FnMut(T) -> Result<Bytes, String>,
) -> Result<(), String> {
    let warm = Instant::now() + job.warm_up();
    while Instant::now() < warm {
        let Some(next) = todo.next() else { break };
        read(next)?;
    }
    send(&ReaderMessage::Begun)?;
    let (mut counted, mut times) = (Counted::default(), Times::default());
    let start = Instant::now();
    let mut before = start;
    while before - start < job.measured() {
        let Some(next) = todo.next() else { break };
        counted.read_bytes += read(next)?.get();
        let now = Instant::now();
        times.push(now - before);
        before = now;
    }
    counted.reads = times.count();
    let median = times.within(0.5).ok_or("nothing was left to read after the warm-up: take less time")?;
    counted.seconds = (before - start).as_secs_f64();
    counted.read_median_us = median.as_secs_f64() * 1e6;
    send(&ReaderMessage::Ended(counted))?;
    watch_input(&AtomicBool::new(false));
    Ok(())
}
