//! Locks: `flock` and `fcntl`, between descriptors and between processes.

use crate::common::{wait_for, without_forks};
use crate::record::{Record, start_child};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

fn open(at: &Path) -> File {
    let path = at.join("locked");
    File::options().read(true).write(true).create(true).truncate(false).open(path).expect("opened")
}

fn lock(kind: i32, start: i64, length: i64) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: 0, l_start: start, l_len: length, l_pid: 0 }
}

fn set(file: &File, kind: i32, start: i64, length: i64, wait: bool) -> std::io::Result<()> {
    set_by(file, if wait { libc::F_SETLKW } else { libc::F_SETLK }, lock(kind, start, length))
}

fn set_by(file: &File, command: i32, lock: libc::flock) -> std::io::Result<()> {
    // SAFETY: one live structure is passed, of the type of the command.
    if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) } == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error())
}

fn get(file: &File, kind: i32, start: i64, length: i64) -> libc::flock {
    let mut lock = lock(kind, start, length);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) }, 0);
    lock
}

pub(crate) fn whole_file_locks(record: &mut Record, at: &Path) {
    let (one, two) = (open(at), open(at));
    let shared = FlockOperation::NonBlockingLockShared;
    let alone = FlockOperation::NonBlockingLockExclusive;
    record.note("one shares", flock(&one, shared));
    record.note("two shares", flock(&two, shared));
    record.note("one alone", flock(&one, alone));
    record.note("two lets go", flock(&two, FlockOperation::Unlock));
    record.note("one alone", flock(&one, alone));
    record.child("tries_whole", at, 0, &[0]);
    let forks = without_forks();
    let copy = one.try_clone().expect("copied");
    drop(one);
    record.note("a copy holds it", flock(&two, alone));
    drop(copy);
    record.note("no lock is held", flock(&two, alone));
    drop(forks);
    record.note("let go", flock(&two, FlockOperation::Unlock));
    record.child("tries_whole", at, 0, &[0]);
    record.note("what a process held that has ended", flock(&two, alone));
}

/// Another process tries to take the lock, and ends with the result.
pub(crate) fn tries_whole(record: &mut Record, at: &Path) {
    let file = open(at);
    record.note("another process alone", flock(&file, FlockOperation::NonBlockingLockExclusive));
    record.note("another process shares", flock(&file, FlockOperation::NonBlockingLockShared));
}

pub(crate) fn record_locks(record: &mut Record, at: &Path) {
    let file = open(at);
    record.note("write lock", set(&file, libc::F_WRLCK, 100, 100, false));
    record.note("read lock", set(&file, libc::F_RDLCK, 300, 100, false));
    record.note("in two", set(&file, libc::F_UNLCK, 140, 20, false));
    record.child("tries_records", at, 0, &[0]);
    let seen = get(&file, libc::F_WRLCK, 0, 0);
    record.see("its own locks are none to it", seen.l_type == libc::F_UNLCK as i16);
    // The surprising rule: closing any descriptor of the file releases the process's locks.
    drop(open(at));
    record.child("tries_records", at, 0, &[0]);
    record.note("to the end", set(&file, libc::F_WRLCK, 0, 0, false));
    record.note(
        "of what is open for reading",
        set(&File::open(at.join("locked")).expect("opened"), libc::F_WRLCK, 0, 1, false),
    );
    record.child("tries_records", at, 0, &[0]);
}

/// Another process tries to lock parts, and queries their holders.
pub(crate) fn tries_records(record: &mut Record, at: &Path) {
    let file = open(at);
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    for (kind, start, length) in [
        (libc::F_WRLCK, 0, 100),
        (libc::F_WRLCK, 100, 1),
        (libc::F_RDLCK, 139, 1),
        (libc::F_WRLCK, 140, 20),
        (libc::F_RDLCK, 300, 100),
        (libc::F_WRLCK, 300, 100),
        (libc::F_WRLCK, 1 << 40, 0),
    ] {
        let held = get(&file, kind, start, length);
        let by = (held.l_type, held.l_start, held.l_len, Some(held.l_pid) == parent);
        record.see(&format!("holder of {start} {length}"), by);
        record.note(
            &format!("another process, {kind} {start} {length}"),
            set(&file, kind, start, length, false),
        );
    }
}

/// Another process waits for the lock.
pub(crate) fn waits_whole(record: &mut Record, at: &Path) {
    record.note("another process waits", flock(open(at), FlockOperation::LockExclusive));
}

/// Waits until a process waits for a lock of this kind: the kernel lists the processes that wait.
fn wait_for_waiter(kind: &str, process: u32) {
    let process = process.to_string();
    let waits = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], [_, "->", of, _, _, by, ..] if of == kind && by == process)
    };
    wait_for("a process that waits for a lock", || {
        fs::read_to_string("/proc/locks").expect("Linux has it").lines().any(waits)
    });
}

pub(crate) fn waits_for_locks(record: &mut Record, at: &Path) {
    let file = open(at);
    record.note("alone", flock(&file, FlockOperation::LockExclusive));
    let path = at.to_path_buf();
    let lets_go = Arc::new(AtomicBool::new(false));
    let waiter = {
        let lets_go = Arc::clone(&lets_go);
        std::thread::spawn(move || {
            let got = flock(open(&path), FlockOperation::LockExclusive);
            (got, lets_go.load(SeqCst))
        })
    };
    wait_for_waiter("FLOCK", std::process::id());
    lets_go.store(true, SeqCst);
    record.note("let go", flock(&file, FlockOperation::Unlock));
    let (got, waited) = waiter.join().expect("no panic");
    record.note("another waited for it", got);
    record.see("until then", waited);
    record.note("records", set(&file, libc::F_WRLCK, 0, 10, true));
    record.note("alone again", flock(&file, FlockOperation::LockExclusive));
    let mut waiting = start_child("waits_whole", at, 0, &[0]);
    wait_for_waiter("FLOCK", waiting.id());
    record.note("it waits", waiting.try_wait().map(|ended| ended.is_none()));
    waiting.kill().expect("killed");
    record.note("one that waits can be ended", waiting.wait().map(|status| status.success()));
    fs::remove_file(at.join("locked")).expect("gone");
    record.note("of a file without a name", set(&file, libc::F_WRLCK, 0, 10, false));
}

/// Another process takes a lock and waits for another one.
pub(crate) fn waits_records(record: &mut Record, at: &Path) {
    let file = open(at);
    record.note("another process, its own", set(&file, libc::F_WRLCK, 20, 10, false));
    record.note("it waits", set(&file, libc::F_WRLCK, 0, 10, true));
    record.note("and has both", set(&file, libc::F_WRLCK, 0, 30, false));
}

pub(crate) fn waits_of_processes_for_each_other(record: &mut Record, at: &Path) {
    let file = open(at);
    record.note("its own", set(&file, libc::F_WRLCK, 0, 10, false));
    let other = start_child("waits_records", at, 0, &[0]);
    wait_for_waiter("POSIX", other.id());
    record.note("each for the other", set(&file, libc::F_WRLCK, 20, 10, true));
    record.note("unlocked", set(&file, libc::F_UNLCK, 0, 0, false));
    record.end_child("waits_records", other);
    record.note("of a process that has ended", set(&file, libc::F_WRLCK, 0, 0, true));
}

pub(crate) fn locks_of_descriptions(record: &mut Record, at: &Path) {
    let (one, two) = (open(at), open(at));
    let mut go = |what: &str, file: &File, command, kind, start, length| {
        record.note(what, set_by(file, command, lock(kind, start, length)));
    };
    let (ofd, classic) = (libc::F_OFD_SETLK, libc::F_SETLK);
    go("one", &one, ofd, libc::F_WRLCK, 0, 100);
    go("two, beside it", &two, ofd, libc::F_WRLCK, 100, 100);
    go("two, the same", &two, ofd, libc::F_WRLCK, 50, 10);
    go("two shares", &two, ofd, libc::F_RDLCK, 50, 10);
    go("the process itself", &two, classic, libc::F_WRLCK, 0, 10);
    go("one again", &one, ofd, libc::F_RDLCK, 0, 100);
    go("two shares", &two, ofd, libc::F_RDLCK, 50, 10);
    drop(open(at));
    let forks = without_forks();
    let copy = one.try_clone().expect("copied");
    drop(one);
    go("a copy holds it", &two, ofd, libc::F_WRLCK, 0, 10);
    drop(copy);
    go("no lock is held", &two, ofd, libc::F_WRLCK, 0, 10);
    drop(forks);
    record.child("tries_records", at, 0, &[0]);
}
