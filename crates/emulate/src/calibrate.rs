//! Measuring what the path costs, through the very device that callers will use.
//!
//! Direct reads of the loop device are timed while every request takes a fixed delay: what they
//! take beyond it is the path. The delay lets processors go idle between, as they do under a disk,
//! so that the wake-ups cost what they will cost. The lower quartile is taken: a read that
//! something else on the machine held up says nothing about the path.
//!
//! It is the attaching program that reads, not the server: a process that waits for itself cannot
//! be ended.

use crate::arena::Arena;
use crate::clock::ModelClock;
use crate::error::Context;
use crate::fixed_delay::FixedDelay;
use crate::path::PathModel;
use crate::protocol::Measured;
use crate::schedule::Schedule;
use crate::timer::now;
use foreseek_units::{Bytes, Nanos, PAGE_SIZE};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Every request takes this long while measuring: in the order of a disk's.
pub(crate) const DELAY: Nanos = Nanos::from_millis(4);
/// Reads of each size: with two tenths of a second for the small ones the quartile is good to a
/// few microseconds.
const SMALL_READS: usize = 41;
const LARGE_READS: usize = 11;
const SMALL: Bytes = Bytes(PAGE_SIZE);
const LARGE: Bytes = Bytes::mib(1);

/// A schedule in which nothing is modelled but a fixed delay.
pub(crate) fn fixed_schedule(delay: Nanos) -> Schedule {
    Schedule::new(Box::new(FixedDelay::new(delay)), ModelClock::new(now(), 1.0), PathModel::default())
}

/// Times reads of the device, small and large.
pub(crate) fn measure(device: &Path, size: Bytes) -> Result<Measured, crate::Error> {
    let file =
        File::options().read(true).custom_flags(libc::O_DIRECT).open(device).context("open", device)?;
    let large = LARGE.min(size);
    Ok(Measured {
        small_bytes: SMALL.get(),
        small_ns: quartile(&file, SMALL, SMALL_READS).context("read", device)?.get(),
        large_bytes: large.get(),
        large_ns: quartile(&file, large, LARGE_READS).context("read", device)?.get(),
    })
}

/// The path that makes these times of a fixed delay.
pub(crate) fn path_of(measured: &Measured, delay: Nanos) -> PathModel {
    let beyond = |ns: u64| Nanos(ns) - delay;
    PathModel::from_measured(
        (Bytes(measured.small_bytes), beyond(measured.small_ns)),
        (Bytes(measured.large_bytes), beyond(measured.large_ns)),
    )
}

fn quartile(file: &File, size: Bytes, count: usize) -> std::io::Result<Nanos> {
    let buffer = Arena::new(size).and_then(|arena| arena.take(size.get() as usize));
    let mut buffer = buffer.ok_or(std::io::ErrorKind::OutOfMemory)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = now();
        file.read_exact_at(&mut buffer, 0)?;
        times.push(now() - start);
    }
    times.sort_unstable();
    Ok(times[count / 4])
}
