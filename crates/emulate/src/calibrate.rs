//! Measuring what the path costs, through the very device that callers will use.
//!
//! Direct reads of the loop device are timed while every request takes a fixed delay: what they
//! take beyond it is the path. The delay lets processors go idle between, as they do under a disk,
//! so that the wake-ups cost what they will cost. The median is taken: a read that something else
//! on the machine held up says nothing about the path.

use crate::arena::Arena;
use crate::disk::Disk;
use crate::fixed_delay::FixedDelay;
use crate::path::PathModel;
use crate::schedule::Schedule;
use crate::timer::{Tell, now};
use crate::{clock::ModelClock, error::Context};
use foreseek_device::Device;
use foreseek_units::{Bytes, Nanos, PAGE_SIZE};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Every request takes this long while measuring: in the order of a disk's.
const DELAY: Nanos = Nanos::from_millis(4);
/// Reads of each size: with a tenth of a second for the small ones the median is good to a few
/// microseconds.
const SMALL_READS: usize = 41;
const LARGE_READS: usize = 11;
const SMALL: Bytes = Bytes(PAGE_SIZE);
const LARGE: Bytes = Bytes::mib(1);

/// A schedule in which nothing is modelled but a fixed delay.
pub(crate) fn fixed_schedule(delay: Nanos) -> Schedule {
    Schedule::new(Box::new(FixedDelay::new(delay)), ModelClock::new(now(), 1.0), PathModel::default())
}

/// Measures the path of `device`, served by `disk`, whose delays must be on; the disk serves with
/// a fixed delay afterwards.
pub(crate) fn measure(device: &Path, disk: &Disk, size: Bytes) -> Result<PathModel, crate::Error> {
    disk.timer().tell(Tell::Schedule(Box::new(fixed_schedule(DELAY))));
    measure_beyond(DELAY, device, size)
}

/// Measures the path of a device whose every request is answered at once.
pub(crate) fn measure_without_delays(device: &Path, size: Bytes) -> Result<PathModel, crate::Error> {
    measure_beyond(Nanos::ZERO, device, size)
}

fn measure_beyond(delay: Nanos, device: &Path, size: Bytes) -> Result<PathModel, crate::Error> {
    let file =
        File::options().read(true).custom_flags(libc::O_DIRECT).open(device).context("open", device)?;
    let large = LARGE.min(size);
    let small = median(&file, SMALL, SMALL_READS).context("read", device)? - delay;
    if large <= SMALL {
        return Ok(PathModel::from_measured((SMALL, small), (SMALL + Bytes(1), small)));
    }
    let large_time = median(&file, large, LARGE_READS).context("read", device)? - delay;
    Ok(PathModel::from_measured((SMALL, small), (large, large_time)))
}

fn median(file: &File, size: Bytes, count: usize) -> std::io::Result<Nanos> {
    let buffer = Arena::new(size).and_then(|arena| arena.take(size.get() as usize));
    let mut buffer = buffer.ok_or(std::io::ErrorKind::OutOfMemory)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = now();
        file.read_exact_at(&mut buffer, 0)?;
        times.push(now() - start);
    }
    times.sort_unstable();
    Ok(times[count / 2])
}

/// The schedule of a modelled device, which begins its life now.
pub(crate) fn modelled_schedule(model: Box<dyn Device>, scale: f64, path: PathModel) -> Schedule {
    Schedule::new(model, ModelClock::new(now(), scale), path)
}
