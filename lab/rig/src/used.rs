//! What a process has used, from `/proc`.

use foreseek_units::{Bytes, Nanos};
use std::fs;

/// Processor time of a process, user and system, over all its threads; also of one that has ended and is not
/// yet reaped. Zero where it cannot be read.
#[must_use]
pub fn processor_time(pid: u32) -> Nanos {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    ticks_at(&stat, OWN).map(of_ticks).unwrap_or_default()
}

/// Processor time of all processes that this one has started and waited for, and of those that they have waited
/// for. Zero where it cannot be read.
#[must_use]
pub fn waited_time() -> Nanos {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks_at(&stat, WAITED).map(of_ticks).unwrap_or_default()
}

/// A process's peak resident memory (`VmHWM`); zero where it cannot be read.
#[must_use]
pub fn memory_peak(pid: u32) -> Bytes {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    peak_kib(&status).map(Bytes::kib).unwrap_or_default()
}

/// Where a process's user and system time begin among the fields after its name: the 14th and 15th of all.
const OWN: usize = 11;
/// The same of the processes that it has waited for: the 16th and 17th.
const WAITED: usize = 13;

/// The sum of two fields of `/proc/PID/stat`. The second of all fields is the name in parentheses, which may
/// hold any character.
fn ticks_at(stat: &str, at: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(at);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn of_ticks(ticks: u64) -> Nanos {
    Nanos::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn peak_kib(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_past_any_name() {
        let stat = "71 (a) b (c) S 1 71 71 0 -1 4194304 100 0 0 0 250 50 30 7 20 0 1 0 100 1000 10";
        assert_eq!(ticks_at(stat, OWN), Some(300));
        assert_eq!(ticks_at(stat, WAITED), Some(37));
        assert_eq!(ticks_at("nonsense", OWN), None);
    }

    #[test]
    fn the_peak_is_found_among_the_other_lines() {
        assert_eq!(peak_kib("VmPeak:\t  99 kB\nVmHWM:\t    1234 kB\n"), Some(1234));
        assert_eq!(peak_kib("Name:\tcat\n"), None);
        assert!(memory_peak(std::process::id()) > Bytes::kib(100));
    }
}
