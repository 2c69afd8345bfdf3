//! What this process costs the machine besides reading: processor time, FIEMAP calls, and memory that the
//! kernel reclaims.

use crate::{layout, small_file};
use foreseek_units::{Bytes, Pages};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::time::Duration;

/// The costs up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCosts {
    /// Processor time of this process and its threads.
    pub processor: Duration,
    /// How often this process read the layout of a file.
    pub fiemap_calls: u64,
    /// Memory that the kernel reclaimed on the whole machine, other than by the limit of a control group.
    pub reclaimed: Bytes,
}

impl SideCosts {
    /// Since the start of this process (`reclaimed`: of the machine).
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        Self {
            processor: Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0)),
            fiemap_calls: layout::calls(),
            reclaimed: reclaimed(),
        }
    }

    /// The costs from an earlier time to this one.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            processor: self.processor.saturating_sub(before.processor),
            fiemap_calls: self.fiemap_calls.saturating_sub(before.fiemap_calls),
            reclaimed: self.reclaimed - before.reclaimed,
        }
    }
}

/// Memory that the kernel has reclaimed on the whole machine, other than by the limit of a control group.
#[must_use]
pub fn reclaimed() -> Bytes {
    reclaimed_within(Path::new("/proc"))
}

/// What this thread has read from block devices, its requests ahead included; `None` where the kernel does not
/// account for it.
#[must_use]
pub fn thread_reads() -> Option<Bytes> {
    reads_in(Path::new("/proc/thread-self/io"))
}

/// The same for a process, with its threads that have ended and its children that it has waited for.
#[must_use]
pub fn process_reads(process: u32) -> Option<Bytes> {
    reads_in(&Path::new("/proc").join(process.to_string()).join("io"))
}

fn reads_in(account: &Path) -> Option<Bytes> {
    let text = small_file::read(account)?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.trim().parse().ok().map(Bytes))
}

/// What was requested of block devices on the whole machine, requests ahead included, in KiB (`pgpgin`); `None`
/// where it cannot be read. Of stacked devices the upper one counts.
#[must_use]
pub fn machine_reads() -> Option<Bytes> {
    machine_reads_within(Path::new("/proc"))
}

fn machine_reads_within(proc: &Path) -> Option<Bytes> {
    let text = small_file::read(&proc.join("vmstat"))?;
    text.lines().find_map(|line| line.strip_prefix("pgpgin ")?.trim().parse().ok().map(Bytes::kib))
}

/// `pgsteal_kswapd` and its like in `/proc/vmstat`; zero where it cannot be read.
fn reclaimed_within(proc: &Path) -> Bytes {
    let text = small_file::read(&proc.join("vmstat")).unwrap_or_default();
    let pages = text.lines().filter_map(|line| {
        let (name, count) = line.split_once(' ')?;
        // These two count the same pages again, by kind.
        let counts = name.starts_with("pgsteal_") && name != "pgsteal_anon" && name != "pgsteal_file";
        counts.then(|| count.trim().parse().ok().map(Pages))?
    });
    pages.sum::<Pages>().bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_the_whole_machine_are_counted_in_kib() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(machine_reads_within(place.path()), None);
        std::fs::write(place.path().join("vmstat"), "nr_free_pages 9\npgpgin 12\npgpgout 5\n").unwrap();
        assert_eq!(machine_reads_within(place.path()), Some(Bytes(12 * 1024)));
    }

    #[test]
    fn what_the_kernel_reclaimed_is_counted_once() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(reclaimed_within(place.path()), Bytes::ZERO);
        let text = "nr_free_pages 9\npgsteal_kswapd 3\npgsteal_direct 2\npgsteal_anon 4\npgsteal_file 1\n";
        std::fs::write(place.path().join("vmstat"), text).unwrap();
        assert_eq!(reclaimed_within(place.path()), Bytes(5 * 4096));
    }

    #[test]
    fn costs_grow() {
        let before = SideCosts::now();
        let mut sum = 0u64;
        while SideCosts::now().processor == before.processor {
            sum = std::hint::black_box(sum + 1);
        }
        let costs = SideCosts::now().since(before);
        assert!(costs.processor > Duration::ZERO && before.since(SideCosts::now()).processor.is_zero());
    }
}
