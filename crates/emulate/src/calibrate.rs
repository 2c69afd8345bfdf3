//! Measures the cost of the path, through the device that callers will use.
//!
//! Direct reads of the loop device are timed while every request takes a fixed delay; the time beyond the
//! delay is the path's. The delay lets processors go idle, as they do while they wait for a disk, so that
//! wake-ups cost what they will cost later. Reads are timed in batches: the result is the least of the
//! batches' lower quartiles, since a read or batch that the machine delayed says nothing about the path. A
//! result beyond a plausible bound is reduced to that bound.
//!
//! The attaching program makes the reads, not the server: a process that waits for itself cannot be ended.

use crate::clock::ModelClock;
use crate::fixed_delay::FixedDelay;
use crate::path::PathModel;
use crate::protocol::Measured;
use crate::schedule::Schedule;
use crate::timer::now;
use foreseek_server::Context;
use foreseek_storage::Arena;
use foreseek_units::{Bytes, Nanos, PAGE_SIZE};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The delay of every request while measuring, similar to a disk's.
pub(crate) const DELAY: Nanos = Nanos::from_millis(4);
/// Batches of reads of each size: a program that uses the processor for a few tens of milliseconds disturbs
/// one or two of them, not all.
const BATCHES: usize = 5;
/// Reads in a batch: all small ones take two tenths of a second, and their quartile is accurate to a few
/// microseconds.
const SMALL_READS: usize = 9;
const LARGE_READS: usize = 4;
/// The highest plausible cost of a small read's path: ten times that of a slow machine. A higher value
/// measured something else, and subtracting it would make the disk faster than its model.
const BASE_MOST: Nanos = Nanos::from_millis(1);
/// The highest plausible cost of each further MiB: copying at a tenth of a slow memory's rate.
const PER_MIB_MOST: Nanos = Nanos::from_millis(5);
const SMALL: Bytes = Bytes(PAGE_SIZE);
const LARGE: Bytes = Bytes::mib(1);

/// A schedule that models a fixed delay alone.
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
        small_ns: least_quartile(&file, SMALL, SMALL_READS).context("read", device)?.get(),
        large_bytes: large.get(),
        large_ns: least_quartile(&file, large, LARGE_READS).context("read", device)?.get(),
    })
}

/// The path that explains these times with a fixed delay, and a warning where it was reduced.
pub(crate) fn path_of(measured: &Measured, delay: Nanos) -> (PathModel, Option<String>) {
    let beyond = |ns: u64| Nanos(ns) - delay;
    let (small, large) = (beyond(measured.small_ns), beyond(measured.large_ns));
    let further = Bytes(measured.large_bytes) - Bytes(measured.small_bytes);
    let most = PER_MIB_MOST.scale(further.get() as f64 / Bytes::mib(1).get() as f64);
    let base = small.min(BASE_MOST);
    let copying = (large - small).min(most);
    let path = PathModel::from_measured(
        (Bytes(measured.small_bytes), base),
        (Bytes(measured.large_bytes), base + copying),
    );
    let bounded = (base < small || copying < large - small).then(|| {
        format!(
            "the path to the disk measured {:.0} us for {SMALL} and {:.0} us for {}, more than a path can cost: \
             at most {:.0} us and {:.0} us a MiB are subtracted, and delays are less exact; attach it again \
             when the machine is less busy",
            small.as_micros_f64(),
            large.as_micros_f64(),
            Bytes(measured.large_bytes),
            BASE_MOST.as_micros_f64(),
            PER_MIB_MOST.as_micros_f64(),
        )
    });
    (path, bounded)
}

/// The least of the batches' lower quartiles.
fn least_quartile(file: &File, size: Bytes, reads: usize) -> std::io::Result<Nanos> {
    let buffer = Arena::new(size).and_then(|arena| arena.take(size.get() as usize));
    let mut buffer = buffer.ok_or(std::io::ErrorKind::OutOfMemory)?;
    let mut least = Nanos(u64::MAX);
    for _ in 0..BATCHES {
        let mut times = Vec::with_capacity(reads);
        for _ in 0..reads {
            let start = now();
            file.read_exact_at(&mut buffer, 0)?;
            times.push(now() - start);
        }
        least = least.min(quartile(times));
    }
    Ok(least)
}

/// The lower quartile of some times.
fn quartile(mut times: Vec<Nanos>) -> Nanos {
    times.sort_unstable();
    times.get(times.len() / 4).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::PathCost;

    fn path(small_us: u64, large_us: u64) -> (PathCost, Option<String>) {
        let ns = |us: u64| (DELAY + Nanos::from_micros(us)).get();
        let measured = Measured {
            small_bytes: SMALL.get(),
            small_ns: ns(small_us),
            large_bytes: (SMALL + LARGE).get(),
            large_ns: ns(large_us),
        };
        let (path, warning) = path_of(&measured, DELAY);
        (path.into(), warning)
    }

    #[test]
    fn a_sound_measurement_is_taken_as_it_is() {
        let (cost, warning) = path(120, 520);
        assert_eq!((cost.base_us, cost.per_mib_us.round(), warning), (120.0, 400.0, None));
        // A disk of a single page has no large read.
        let alike = Measured { small_bytes: 4096, small_ns: 5, large_bytes: 4096, large_ns: 4 };
        assert_eq!(path_of(&alike, Nanos::ZERO).1, None);
    }

    #[test]
    fn an_implausible_cost_is_bounded_with_a_warning() {
        let (cost, warning) = path(3993, 4393);
        assert_eq!((cost.base_us, cost.per_mib_us.round()), (1000.0, 400.0));
        assert!(warning.is_some_and(|said| said.contains("3993 us") && said.contains("1000 us")));
        let (cost, warning) = path(100, 40_100);
        assert_eq!((cost.base_us, cost.per_mib_us.round()), (100.0, 5000.0));
        assert!(warning.is_some());
    }

    #[test]
    fn a_read_that_was_delayed_does_not_move_the_quartile() {
        let times = [90, 4000, 100, 95, 4000, 4000, 110, 4000, 105].map(Nanos).to_vec();
        assert_eq!(quartile(times), Nanos(100));
    }
}
