//! The library in another program's process: forks, locks, other users' files, the end of the process.
#![allow(unsafe_code, clippy::print_stdout)]

mod common;

use common::*;
use foreseek_libprefetch::{Client, HintMode, Settings};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps tests apart: a child would find locks of the library taken for ever that another test's thread holds at its
/// fork.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` in a forked child, which ends with `exit` and the returned status.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does only what `work` does; the C library makes its allocator usable after
    // a fork, and the child ends without returning into the test harness.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
        // SAFETY: ends the child, and runs its exit functions.
        unsafe { libc::exit(status) };
    }
    let mut status = 0;
    for _ in 0..6000 {
        // SAFETY: waits for the child just made.
        let done = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if done == child {
            assert!(libc::WIFEXITED(status), "the child died of signal {}", libc::WTERMSIG(status));
            return libc::WEXITSTATUS(status);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // SAFETY: ends the child just made, by its id, which is not reaped yet.
    unsafe { libc::kill(child, libc::SIGKILL) };
    panic!("the child hangs");
}

/// The holder of a write lock on the file's first byte, as seen by another process.
fn lock_holder(fd: RawFd) -> i32 {
    // SAFETY: asks about a lock, with a structure on the stack.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_len = 1;
        assert_eq!(libc::fcntl(fd, libc::F_GETLK, &raw mut lock), 0);
        if lock.l_type == libc::F_UNLCK as libc::c_short { 0 } else { lock.l_pid }
    }
}

fn take_lock(fd: RawFd) {
    // SAFETY: takes a lock, with a structure on the stack.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_len = 1;
        assert_eq!(libc::fcntl(fd, libc::F_SETLK, &raw const lock), 0);
    }
}

#[test]
fn the_hosts_locks_are_held_throughout() {
    let _alone = alone();
    let folder = folder();
    let path = folder.path().join("f");
    let file = write_file(&path, 1, 500);
    let fd = file.as_raw_fd();
    // A second descriptor, open until the end: closing it would drop the lock by itself.
    let second = File::open(&path).unwrap();
    take_lock(fd);
    let me = std::process::id() as i32;
    let is_held = || in_child(|| i32::from(lock_holder(fd) != me)) == 0;
    assert!(is_held());
    {
        let client = Client::new(memory(200));
        let region = client.watch(fd, bytes(0, 500)).unwrap();
        assert!(is_held(), "after watch");
        let order = shuffled(500, 1);
        let mut ask = announce_rest(&order, second.as_raw_fd());
        for (done, number) in order.iter().enumerate() {
            read_page(&client, if done % 2 == 0 { &file } else { &second }, 1, *number, &mut ask);
            if done % 100 == 50 {
                assert!(is_held(), "after {done} reads");
            }
        }
        client.closed(second.as_raw_fd());
        read_page(&client, &file, 1, 0, &mut |_, _| ());
        assert!(is_held(), "after a descriptor was closed");
        client.unwatch(region).unwrap();
        assert!(is_held(), "after unwatch");
    }
    assert!(is_held(), "after the client's end");
}

#[test]
fn a_forked_child_has_no_client_and_may_create_one() {
    let _alone = alone();
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 2, 100);
    let fd = file.as_raw_fd();
    let client = Client::new(memory(1000));
    client.watch(fd, bytes(0, 100)).unwrap();
    // Another thread keeps the client busy while the process forks.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let order = shuffled(100, 2);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                chill(&file);
                let _ = client.hint(HintMode::Set, &entries(fd, &order), true);
                order.iter().for_each(|number| read_page(&client, &file, 2, *number, &mut |_, _| ()));
            }
        });
        for _ in 0..20 {
            let status = in_child(|| {
                read_page(&client, &file, 2, 5, &mut |_, _| panic!("asked in a child"));
                client.hint(HintMode::Set, &entries(fd, &[1, 2, 3]), true).unwrap();
                client.closed(fd);
                assert_eq!(client.stats(), foreseek_libprefetch::Stats::default());
                let own = Client::new(memory(1000));
                own.hint(HintMode::Set, &[], true).unwrap();
                own.watch(fd, bytes(0, 100)).unwrap();
                own.before_read(fd, bytes(0, 1), &mut |_, _| ());
                i32::from(own.stats().engine.reads != 1)
            });
            assert_eq!(status, 0);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(client.stats().engine.reads > 0);
}

#[test]
fn a_file_of_another_user_is_prefetched_by_own_account() {
    let _alone = alone();
    // SAFETY: reads the user id.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: not root: cannot become another user");
        return;
    }
    /// The child's answer if the kernel evicted pages, which are then read again.
    const TAKEN: i32 = 2;
    let folder = folder();
    let path = folder.path().join("f");
    let mut file = write_file(&path, 3, 400);
    if !is_cold(&file) {
        return;
    }
    let reads = |reader: &File| {
        in_child(|| {
            // SAFETY: gives up root in the child.
            assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
            let client = Client::new(memory(4000));
            client.watch(reader.as_raw_fd(), bytes(0, 400)).unwrap();
            let order = shuffled(400, 3);
            let mut ask = announce_rest(&order, reader.as_raw_fd());
            for number in &order {
                read_page(&client, reader, 3, *number, &mut ask);
            }
            let stats = client.stats().engine;
            match (stats.rounds, stats.fetched.get()) {
                _ if stats.evicted.get() > evicted_at_most(400) => TAKEN,
                fetched => i32::from(fetched != (1, 400)),
            }
        })
    };
    let mut status = reads(&File::open(&path).unwrap());
    for _ in 0..4 {
        if status == TAKEN {
            file = write_file(&path, 3, 400);
            status = reads(&File::open(&path).unwrap());
        }
    }
    assert_eq!(status, 0);
    assert!(resident(&file, span(0, 400)).is_some_and(|seen| nearly(seen, 400)));
}

#[test]
fn counters_are_written_when_the_process_ends() {
    let _alone = alone();
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 4, 50);
    let stats = folder.path().join("stats-%p.json");
    let variable = stats.to_str().unwrap().to_owned();
    let status = in_child(move || {
        let settings =
            Settings::from_variables(|name| (name == "FORESEEK_STATS").then(|| variable.clone().into()));
        let settings = settings.unwrap();
        let dropped = Client::new(settings.clone());
        let kept = Box::leak(Box::new(Client::new(settings)));
        for client in [&dropped, &*kept] {
            let region = client.watch(file.as_raw_fd(), bytes(0, 50)).unwrap();
            client.hint(HintMode::Set, &entries(file.as_raw_fd(), &[3, 1, 2]), true).unwrap();
            for number in [3, 1, 2] {
                read_page(client, &file, 4, number, &mut |_, _| ());
            }
            client.unwatch(region).unwrap();
        }
        drop(dropped);
        // A child of this child writes nothing.
        in_child(|| 0)
    });
    assert_eq!(status, 0);
    let written: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("stats"))
        .collect();
    let [name] = &written[..] else { panic!("{written:?}") };
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join(name)).unwrap()).unwrap();
    assert_eq!(format!("stats-{}.json", json["process"]), *name);
    let clients = json["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 2);
    for client in clients {
        assert_eq!((&client["reads"], &client["hinted"]), (&3.into(), &3.into()));
    }
}
