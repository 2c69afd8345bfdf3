//! What a server of a block device changes in its own process, so that it can go on serving while the kernel
//! is short of memory or the machine is busy.
//!
//! Each function returns a warning where its change is not possible; the server works without it.
#![allow(unsafe_code)]

use rustix::mm::{MlockAllFlags, mlock, mlockall};
use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, getrlimit, setrlimit};
use rustix::thread::set_current_timer_slack;
use std::fmt::Display;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::ptr;

/// Real-time priority of the timer: the lowest one suffices against all other threads.
const PRIORITY: i32 = 1;

/// Marks this process as one that writes out dirty data of others (`PR_SET_IO_FLUSHER`): its allocations then
/// never wait for such writes.
#[must_use]
pub fn io_flusher() -> Option<String> {
    warning(configure_io_flusher_behavior(true), "PR_SET_IO_FLUSHER is refused", "it needs CAP_SYS_RESOURCE")
}

/// Locks all present and future memory of this process.
#[must_use]
pub fn lock_memory() -> Option<String> {
    // Pages are locked when they are first touched, since only a small part of the receive buffers is ever
    // used.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    let locked = mlockall(flags).map_err(io::Error::from).and_then(|()| lock_program());
    warning(locked, "memory cannot be locked", "it needs CAP_IPC_LOCK or a higher 'ulimit -l'")
}

/// Brings the whole program and its libraries into memory, and locks them. A page of the program that is read
/// when it is first needed waits for memory, and for the storage that holds it: both may wait for this server.
fn lock_program() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    for range in mapped_files(&maps) {
        // SAFETY: locking changes no contents; of a range that is not mapped it is an error.
        unsafe { mlock(ptr::with_exposed_provenance_mut(range.start), range.len())? };
    }
    Ok(())
}

/// The addresses at which files can be read, in the text of `/proc/self/maps`.
fn mapped_files(maps: &str) -> impl Iterator<Item = Range<usize>> {
    maps.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, permissions, _, _, _, file, ..] = fields[..] else { return None };
        let (begin, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let is_file = file.starts_with('/') && permissions.starts_with('r');
        is_file.then_some(address(begin)?..address(end)?)
    })
}

/// Gives the calling thread real-time priority and precise timers.
#[must_use]
pub fn real_time() -> Option<String> {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: process 0 is the calling thread; the parameters live across the call.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    let done = if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    warning(done, "the timer has no real-time priority", "it needs CAP_SYS_NICE; delays are less exact")
}

/// Gives the calling thread, and threads that it starts, priority over ordinary work, since a disk's hardware
/// would not wait for a processor either. It is not real-time: without delays it could use up a core.
#[must_use]
pub fn raise_priority() -> Option<String> {
    let done = rustix::process::setpriority_process(None, -20);
    warning(done, "the server has no higher priority", "it needs CAP_SYS_NICE")
}

/// Exempts this process from the OOM killer.
#[must_use]
pub fn avoid_oom_killer() -> Option<String> {
    let spared = fs::write("/proc/self/oom_score_adj", "-1000");
    spared.err().map(|error| format!("the server may be killed when memory runs out: {error}"))
}

/// Raises the limit of open files to `wanted`, as far as the hard limit allows: most processes start with
/// 1,024.
#[must_use]
pub fn allow_descriptors(wanted: u64) -> Option<String> {
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(wanted, |most| most.min(wanted));
    if now.current.is_none_or(|current| current >= wanted) {
        return None;
    }
    let done = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: now.maximum });
    warning(done, "the limit of open files cannot be raised", "raise 'ulimit -n'")
}

fn warning<E: Display>(done: Result<(), E>, what: &str, remedy: &str) -> Option<String> {
    done.err().map(|error| format!("{what} ({error}): {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_its_libraries_are_found_where_they_are_mapped() {
        let maps = "\
55d1c0000000-55d1c0010000 r--p 00000000 08:01 131 /usr/local/bin/foreseek
55d1c0010000-55d1c0800000 r-xp 00010000 08:01 131 /usr/local/bin/foreseek
55d1c1000000-55d1c1021000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f0000021000-7f0004000000 ---p 00000000 00:00 0
7f1000000000-7f1000001000 ---p 00001000 08:01 132 /usr/lib/libc.so.6
7f1000001000-7f1000003000 r-xp 00002000 08:01 132 /usr/lib/a library (deleted)
7f1000004000-7f1000005000 rw-s 00000000 00:0f 9 anon_inode:[io_uring]";
        let found: Vec<_> = mapped_files(maps).collect();
        let program = 0x55d1_c000_0000..0x55d1_c001_0000;
        let code = 0x55d1_c001_0000..0x55d1_c080_0000;
        assert_eq!(found, [program, code, 0x7f10_0000_1000..0x7f10_0000_3000]);
    }
}
