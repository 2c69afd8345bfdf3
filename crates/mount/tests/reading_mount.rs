//! The reader behind a mount: programs read the files' contents, the server stays within its memory, and
//! errors of the medium reach only the bytes concerned.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

mod common;
mod reading_common;

use common::{mounted, wait_for};
use foreseek_mount::{MountOptions, Mounted, Policy, Reader, ReaderOptions, client};
use foreseek_storage::{BackingDevice, DeviceNumber};
use foreseek_units::Bytes;
use reading_common::{Faults, PAGE, Scarce, contents};
use rustix::fs::Advice;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The server's memory beside `--memory`.
const BESIDE: u64 = 64 << 20;

/// The peak memory of a process.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a kernel that reports it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// Drops a file of the mount from the kernel's cache, so that it is requested again.
fn forget(path: &Path) {
    let file = File::open(path).expect("it is there");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("forgotten");
}

#[test]
fn a_thousand_and_twenty_four_readers_get_their_bytes_within_the_memory() {
    for policy in [Policy::COMPETITIVE, Policy::ADAPTIVE, Policy::AGGRESSIVE] {
        let Some(mount) = mounted(policy) else { return };
        let bytes = contents(128 << 20, 1);
        std::fs::write(mount.source.join("a"), &bytes).expect("room");
        File::open(mount.source.join("a")).and_then(|file| file.sync_all()).expect("written");
        for _ in 0..2 {
            std::thread::scope(|scope| {
                for reader in 0..1024usize {
                    let (bytes, path) = (&bytes, mount.point.join("a"));
                    let read = move || {
                        let file = File::open(path).expect("it is there");
                        let mut buffer = vec![0; 32 << 10];
                        for piece in 0..4 {
                            let at = reader * (128 << 10) + piece * buffer.len();
                            file.read_exact_at(&mut buffer, at as u64).expect("read");
                            assert!(buffer == bytes[at..at + buffer.len()], "{policy:?} at {at}");
                        }
                    };
                    let thread = std::thread::Builder::new().stack_size(64 << 10);
                    thread.spawn_scoped(scope, read).expect("a thread");
                }
            });
            forget(&mount.point.join("a"));
        }
        let status = client::status(&mount.point).expect("it answers").reads;
        assert!(status.memory_bytes <= 64 << 20, "{status:?}");
        assert_eq!(status.failed, 0, "{status:?}");
        // If seeks cost nothing, as on a disk in another machine's memory, the other policies learn that and
        // fetch nothing ahead.
        assert!(status.prefetched_bytes > 0 || policy != Policy::AGGRESSIVE, "{status:?}");
        let peak = peak_memory(mount.pid());
        assert!(peak <= (64 << 20) + BESIDE, "{policy:?}: {} MiB, {status:?}", peak >> 20);
    }
}

/// A mount in this process over faults; `None`, with a message, if it is not possible.
fn faulty_mount(faults: &Faults, source: &Path, point: &Path) -> Option<Mounted> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("SKIPPED: a mount needs root and /dev/fuse");
        return None;
    }
    let start = |sink| faults.clone().over(sink);
    let options = ReaderOptions::new("competitive", Bytes::mib(16));
    let reader = Reader::start_with(&options, &start, Box::new(Scarce::default())).expect("a reader");
    let mut mount = MountOptions::new(source, point);
    mount.request_timeout = Some(Duration::from_secs(60));
    Some(Mounted::start(&mount, Arc::new(reader)).expect("a mount"))
}

#[test]
fn an_unreadable_page_fails_only_its_own_reads() {
    let faults = Faults::default();
    let place = tempfile::tempdir_in("/var/tmp").expect("a writable directory");
    let [source, point] = ["source", "mount"].map(|name| place.path().join(name));
    [&source, &point].into_iter().for_each(|path| std::fs::create_dir(path).expect("made"));
    let bytes = contents(1 << 20, 2);
    std::fs::write(source.join("a"), &bytes).expect("room");
    File::open(source.join("a")).and_then(|file| file.sync_all()).expect("written");
    let bad = 100 * PAGE..101 * PAGE;
    faults.fail(bad.clone());
    let Some(mounted) = faulty_mount(&faults, &source, &point) else { return };
    // In order, so that both the kernel and the reader have read ahead across the bad page.
    let file = File::open(point.join("a")).expect("it is there");
    let mut failed = Vec::new();
    let mut buffer = vec![0; PAGE];
    for at in (0..bytes.len()).step_by(PAGE) {
        match file.read_exact_at(&mut buffer, at as u64) {
            Ok(()) => assert!(buffer == bytes[at..at + PAGE], "at {at}"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "at {at}");
                failed.push(at);
            }
        }
    }
    assert_eq!(failed, [bad.start]);
    // A long read returns the bytes before the error.
    let mut long = vec![0; 64 * PAGE];
    let got = file.read_at(&mut long, (80 * PAGE) as u64).expect("what lies before it");
    assert_eq!((got, long[..got] == bytes[80 * PAGE..bad.start]), (20 * PAGE, true));
    drop(file);
    mounted.end(Duration::from_secs(5)).expect("ended");
}

#[test]
fn the_status_shows_the_state_of_the_reader() {
    let Some(mount) = mounted(Policy::LINUX) else { return };
    std::fs::write(mount.source.join("a"), contents(4 << 20, 3)).expect("room");
    let read = std::fs::read(mount.point.join("a")).expect("read");
    assert!(read == contents(4 << 20, 3));
    let reported = || client::status(&mount.point).expect("it answers").reads;
    wait_for("the end of all fetches", || reported().fetched_bytes >= 4 << 20);
    let status = reported();
    assert_eq!((status.policy.as_str(), status.read_bytes, status.failed), ("on-demand", 4 << 20, 0));
    assert!(status.reads > 0 && status.ceiling_bytes > 0, "{status:?}");
}

/// The file system there is unmounted when dropped.
struct Ram(std::path::PathBuf);

impl Drop for Ram {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_source_without_direct_io_is_read_through_the_page_cache_and_reports_it() {
    let mut ram = None;
    // The one file system that every kernel has and that refuses direct I/O.
    let mounted = common::mounted_with(Policy::ADAPTIVE, |options| {
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", &options.source, "ramfs", flags, None).expect("mounted");
        ram = Some(Ram(options.source.clone()));
    });
    let Some(mount) = mounted else { return };
    let bytes = contents(8 << 20, 4);
    std::fs::write(mount.source.join("a"), &bytes).expect("room");
    assert!(std::fs::read(mount.point.join("a")).expect("read") == bytes);
    let status = client::status(&mount.point).expect("it answers").reads;
    let reported = status.warnings.iter().any(|warning| warning.contains("refuses direct I/O"));
    assert!(reported && status.failed == 0 && status.prefetched_bytes > 0, "{status:?}");
    drop(mount);
    drop(ram);
}

/// Reads as readers of columns do: parts of a megabyte, in single calls, by threads that share a descriptor.
/// The kernel requests them in windows of 128 KiB.
#[test]
fn calls_that_the_kernel_splits_are_seen_whole() {
    const CALL: usize = 984_321;
    for policy in [Policy::ADAPTIVE, Policy::LINUX, Policy::PLAIN] {
        let Some(mount) = mounted(policy) else { return };
        let bytes = contents(96 << 20, 5);
        std::fs::write(mount.source.join("a"), &bytes).expect("room");
        let source = File::open(mount.source.join("a")).expect("it is there");
        source.sync_all().expect("written");
        rustix::fs::fadvise(&source, 0, None, Advice::DontNeed).expect("forgotten");
        let file = File::open(mount.point.join("a")).expect("it is there");
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let (bytes, file) = (&bytes, &file);
                scope.spawn(move || {
                    let mut buffer = vec![0; CALL];
                    for part in 0..12 {
                        // In random order, and never sequential.
                        let at = ((part * 29 + thread * 11) % 48) * (2 << 20) + 777;
                        file.read_exact_at(&mut buffer, at as u64).expect("read");
                        assert!(buffer == bytes[at..at + CALL], "{policy:?} at {at}");
                    }
                });
            }
        });
        let status = client::status(&mount.point).expect("it answers").reads;
        assert_eq!((status.failed, status.internal_errors), (0, 0), "{status:?}");
        // A reader that is still running is not inspected; on any machine some are.
        let is_readable = Path::new("/proc/self/syscall").exists();
        assert!(status.calls > 0 || !is_readable, "{status:?}");
    }
}

/// The window of a mount.
fn window(point: &Path) -> Option<Bytes> {
    let device = std::fs::metadata(point).expect("it is there").dev();
    BackingDevice::of(DeviceNumber::from_raw(device)).read_ahead
}

#[test]
fn a_file_of_columns_has_the_long_window_from_its_first_opening_on() {
    let Some(mount) = mounted(Policy::ADAPTIVE) else { return };
    for (name, length, kib) in [("a.csv", 8, 128), ("a.parquet", 8, 1024), ("short.parquet", 1, 128)] {
        let path = mount.source.join(name);
        std::fs::write(&path, contents(length << 20, 6)).expect("room");
        let source = File::open(&path).expect("it is there");
        source.sync_all().expect("written");
        rustix::fs::fadvise(&source, 0, None, Advice::DontNeed).expect("forgotten");
        let file = File::open(mount.point.join(name)).expect("it is there");
        if window(&mount.point).is_none() {
            return println!("SKIPPED: the window of a mount cannot be read here");
        }
        assert_eq!(window(&mount.point), Some(Bytes::kib(kib)), "{name}");
        drop(file);
    }
}

#[test]
fn a_reader_in_long_calls_gets_whole_ones_for_its_next_file() {
    const CALL: usize = 700_000;
    let Some(mount) = mounted(Policy::ADAPTIVE) else { return };
    let bytes = contents(64 << 20, 6);
    for name in ["a", "b", "short"] {
        let length = if name == "short" { 1 << 20 } else { bytes.len() };
        let path = mount.source.join(name);
        std::fs::write(&path, &bytes[..length]).expect("room");
        let source = File::open(&path).expect("it is there");
        source.sync_all().expect("written");
        rustix::fs::fadvise(&source, 0, None, Advice::DontNeed).expect("forgotten");
    }
    let status = || client::status(&mount.point).expect("it answers");
    // Every second part, so that none continues another.
    let read = |name: &str| {
        let file = File::open(mount.point.join(name)).expect("it is there");
        let mut buffer = vec![0; CALL];
        let before = status().reads.reads;
        for at in (4096..bytes.len() - CALL).step_by(4 << 20) {
            file.read_exact_at(&mut buffer, at as u64).expect("read");
            assert!(buffer == bytes[at..at + CALL], "{name} at {at}");
        }
        drop(file);
        // The kernel reports the close some time after it.
        wait_for("the close", || status().files_open == 0);
        status().reads.reads - before
    };
    assert_eq!(window(&mount.point), Some(Bytes::kib(128)));
    let (cut, seen) = (read("a"), status());
    if seen.reads.calls == 0 {
        return println!("SKIPPED: no call was seen here: {seen:?}");
    }
    assert_eq!(seen.long_windows, 0, "{seen:?}");
    let whole = read("b");
    let seen = status();
    assert_eq!((seen.long_windows, window(&mount.point)), (1, Some(Bytes::kib(1024))), "{seen:?}");
    // Sixteen calls of one request each, instead of six or more each.
    assert!(whole <= 20 && cut >= 5 * 16, "{whole} and {cut} requests");
    drop(File::open(mount.point.join("short")).expect("it is there"));
    assert_eq!((status().long_windows, window(&mount.point)), (1, Some(Bytes::kib(128))));
}
