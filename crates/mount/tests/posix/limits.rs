//! Limits, races and other conditions of programs: sizes, names that many processes create, executables in
//! use, mappings beyond the end, vectored calls, `statx`.

use crate::common::{spawn, without_forks};
use crate::record::Record;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::{ReadWriteFlags, pwritev2};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Barrier;

const PAGE: usize = 4096;

fn both(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).expect("opened")
}

pub(crate) fn sizes_and_their_limits(record: &mut Record, at: &Path) {
    let file = both(&at.join("a"));
    // ext4 ends at 16 TiB, others later: the results are compared, whatever they are.
    for place in [1u64 << 32, 1 << 43, 1 << 45, i64::MAX as u64 - 4096, i64::MAX as u64 - 1] {
        record.note(&format!("a byte at {place}"), file.write_at(b"x", place));
        record.note("length", file.metadata().map(|found| found.len()));
        record.note("read there", file.read_at(&mut [0; 4], place));
        record.note("as long as that", file.set_len(place));
        record.note("short again", file.set_len(0));
    }
    record.child("writes_within_a_limit", at, 0, &[0]);
}

/// A process that may make files of at most 10,000 bytes.
pub(crate) fn writes_within_a_limit(record: &mut Record, at: &Path) {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(10_000), maximum: before.maximum }).expect("set");
    let mut file = both(&at.join("limited"));
    record.note("within", file.write_at(&[1; 9000], 0));
    record.note("across", file.write_at(&[2; 4000], 8000));
    record.note("beyond", file.write_at(&[3; 10], 10_000));
    record.note("longer", file.set_len(20_000));
    record.note("allocate", rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 20_000));
    record.note("length", file.metadata().map(|found| found.len()));
    record.note("at the start", file.write(&[4; 100]));
    setrlimit(Resource::Fsize, before).expect("set back");
}

pub(crate) fn races_for_a_name(record: &mut Record, at: &Path) {
    const RACERS: usize = 8;
    type Try = fn(&Path, usize) -> bool;
    let ways: [(&str, Try); 4] = [
        ("make", |name, _| File::create_new(name).is_ok()),
        ("mkdir", |name, _| fs::create_dir(name).is_ok()),
        ("symlink", |name, racer| std::os::unix::fs::symlink(racer.to_string(), name).is_ok()),
        ("link", |name, racer| {
            let own = name.with_extension(format!("of {racer}"));
            fs::write(&own, "x").expect("written");
            fs::hard_link(&own, name).is_ok()
        }),
    ];
    for (what, way) in ways {
        for round in 0..10 {
            let (name, start) = (at.join(format!("{what} {round}")), Barrier::new(RACERS));
            let winners: usize = std::thread::scope(|scope| {
                let racers: Vec<_> = (0..RACERS)
                    .map(|racer| {
                        let (name, start) = (&name, &start);
                        scope.spawn(move || {
                            start.wait();
                            usize::from(way(name, racer))
                        })
                    })
                    .collect();
                racers.into_iter().map(|racer| racer.join().expect("no panic")).sum()
            });
            record.see(&format!("winners of {what} {round}"), winners);
            // The owner of the name differs.
            for entry in fs::read_dir(at).expect("read").flatten() {
                let path = entry.path();
                if what == "mkdir" { fs::remove_dir(path) } else { fs::remove_file(path) }.expect("gone");
            }
        }
    }
}

pub(crate) fn running_programs(record: &mut Record, at: &Path) {
    let path = at.join("program");
    // What a child of another test has open for writing cannot be run.
    let forks = without_forks();
    fs::copy("/bin/sleep", &path).expect("copied");
    drop(forks);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    let mut running = spawn(std::process::Command::new(&path).arg("60"));
    record.note("write", File::options().write(true).open(&path).map(drop));
    record.note(
        "shorten",
        rustix::fs::open(
            &path,
            rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::TRUNC,
            rustix::fs::Mode::empty(),
        )
        .map(drop),
    );
    record.note("read", File::open(&path).map(drop));
    record.note("rename", fs::rename(&path, at.join("moved")));
    record.note("unlink", fs::remove_file(at.join("moved")));
    record.note("it runs on", running.try_wait().map(|ended| ended.is_none()));
    running.kill().expect("ours");
    running.wait().expect("ended");
    let _forks = without_forks();
    let writer = {
        fs::copy("/bin/true", &path).expect("copied");
        File::options().write(true).open(&path).expect("opened")
    };
    record.note(
        "run what is being written",
        std::process::Command::new(&path).status().map(|status| status.success()),
    );
    drop(writer);
    record.note("and then", std::process::Command::new(&path).status().map(|status| status.success()));
}

pub(crate) fn mappings_beyond_the_end(record: &mut Record, at: &Path) {
    let file = both(&at.join("a"));
    file.write_all_at(&[7; 3 * PAGE], 0).expect("written");
    // Through this file an access that would end the process with SIGBUS is an error.
    let memory = File::options().read(true).write(true).open("/proc/self/mem").expect("Linux has it");
    let all = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses.
    let map =
        unsafe { mmap(std::ptr::null_mut(), 8 * PAGE, all, MapFlags::SHARED, &file, 0) }.expect("mapped");
    let byte = |page: usize| {
        let mut byte = [0];
        memory.read_exact_at(&mut byte, map as u64 + (page * PAGE) as u64).map(|()| byte[0])
    };
    for length in [3 * PAGE, 5000, PAGE, 0, 6 * PAGE + 1] {
        record.note(&format!("{length} long"), file.set_len(length as u64));
        for page in 0..8 {
            record.note(&format!("byte in page {page}"), byte(page));
            let stored = memory.write_all_at(&[9], map as u64 + (page * PAGE) as u64);
            record.note("store", stored);
        }
    }
    // SAFETY: it is ours and not used any more.
    record.note("unmap", unsafe { munmap(map, 8 * PAGE) });
}

pub(crate) fn vectored_calls(record: &mut Record, at: &Path) {
    let path = at.join("a");
    let file = both(&path);
    let parts = [IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two "), IoSlice::new(b"three")];
    record.note("pwritev", rustix::io::pwritev(&file, &parts, 5));
    for flags in [ReadWriteFlags::APPEND, ReadWriteFlags::DSYNC, ReadWriteFlags::SYNC, ReadWriteFlags::HIPRI]
    {
        record.note(&format!("{flags:?}"), pwritev2(&file, &[IoSlice::new(b"[flags]")], 2, flags));
    }
    let (mut first, mut second) = ([0; 7], [0; 100]);
    let read = rustix::io::preadv(&file, &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)], 0);
    record.note("preadv", read);
    record.see("bytes", (first, &second[..]));
    record.note("all", fs::read(&path));
    record.note("nothing", file.write_at(b"", 1 << 40));
    record.note("length", file.metadata().map(|found| found.len()));
    let (mut from, to) = (0, both(&at.join("b")));
    record.note("sendfile", rustix::fs::sendfile(&to, &file, Some(&mut from), 100));
    record.see("position", from);
    record.note("what came", fs::read(at.join("b")));
    for position in [-1i64, i64::MIN] {
        // SAFETY: the buffer is live.
        let read = unsafe {
            libc::pread(std::os::fd::AsRawFd::as_raw_fd(&file), first.as_mut_ptr().cast(), 1, position)
        };
        record.see("before the start", (read, std::io::Error::last_os_error().raw_os_error()));
    }
}

pub(crate) fn all_that_statx_tells(record: &mut Record, at: &Path) {
    let file = both(&at.join("a"));
    file.write_all_at(&[1; 10_000], 0).and_then(|()| file.sync_all()).expect("written");
    fs::create_dir(at.join("d")).expect("made");
    std::os::unix::fs::symlink("a", at.join("s")).expect("linked");
    for name in ["a", "d", "s"] {
        for sync in [AtFlags::empty(), AtFlags::from_bits_retain(0x2000), AtFlags::from_bits_retain(0x4000)] {
            let reported =
                statx(CWD, at.join(name), sync | AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
            let reported = reported.expect("there");
            let mask = reported.stx_mask & StatxFlags::BASIC_STATS.bits();
            let numbers = (reported.stx_nlink, reported.stx_uid, reported.stx_gid, reported.stx_mode);
            record.see(name, (mask, numbers, reported.stx_size, reported.stx_blksize));
        }
    }
    record.note("blocks", file.metadata().map(|found| found.blocks()));
    let nothing = statx(CWD, at.join("none"), AtFlags::empty(), StatxFlags::BASIC_STATS);
    record.note("nothing", nothing.map(drop));
}
