//! Both readers pass the same tests.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use super::*;
use crate::{Arena, Frames};
use foreseek_seam::FrameId;
use foreseek_units::{ByteOffset, Bytes, PAGE_SIZE, Pages};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const PAGE: usize = PAGE_SIZE as usize;
const LIMIT: Duration = Duration::from_secs(20);

/// Bytes that depend on their offset.
fn contents(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / PAGE * 31 + at % 253) as u8).collect()
}

fn file_of(directory: &Path, bytes: &[u8]) -> Arc<ReadFile> {
    let path = directory.join("file");
    let mut file = File::create(&path).expect("a writable directory");
    file.write_all(bytes).expect("room");
    file.sync_all().expect("written");
    Arc::new(ReadFile::reopen(File::open(&path).expect("just made").as_fd()).expect("readable"))
}

/// Runs a test with each reader that this machine supports, on a file system with direct I/O and on one
/// without.
fn with_each(test: impl Fn(&dyn DiskReader, &Receiver<Ended>, &Path)) {
    for place in [Some(Path::new("/var/tmp")), Some(Path::new("/dev/shm"))] {
        let place = place.filter(|place| place.is_dir()).unwrap_or(Path::new("."));
        for uring in [true, false] {
            let directory = tempfile::tempdir_in(place).expect("a writable directory");
            let (to, from) = channel();
            let sink: Sink = Box::new(move |ended: Vec<Ended>| {
                ended.into_iter().for_each(|one| drop(to.send(one)));
            });
            let reads: Box<dyn DiskReader> = if uring {
                match UringReads::start(sink) {
                    Ok(reads) => Box::new(reads),
                    Err(error) => {
                        println!("SKIPPED: no io_uring ({error})");
                        continue;
                    }
                }
            } else {
                Box::new(PoolReads::start(sink).expect("threads"))
            };
            test(&*reads, &from, directory.path());
            assert!(reads.stop(LIMIT), "reads under way end");
        }
    }
}

fn next(from: &Receiver<Ended>) -> Ended {
    from.recv_timeout(LIMIT).expect("it ends")
}

#[test]
fn scattered_frames_get_the_pages_of_the_file_in_order() {
    with_each(|reads, from, directory| {
        let bytes = contents(40 * PAGE);
        let file = file_of(directory, &bytes);
        let frames = Frames::new(Pages(64)).expect("memory");
        // Thirteen is no divisor of 64: frames in a jumble.
        let ids: Vec<FrameId> = (0..20).map(|at| FrameId(at * 13 % 64)).collect();
        let into = Target::Frames(frames.fill(&ids).expect("free"));
        let read =
            DiskRead { token: 7, file, offset: ByteOffset(3 * PAGE_SIZE), into, urgent: true, apart: false };
        assert!(reads.start(vec![read]).is_empty());
        let ended = next(from);
        assert_eq!((ended.read.token, ended.got, ended.error), (7, Bytes(20 * PAGE_SIZE), None));
        let Target::Frames(filling) = ended.read.into else { panic!("frames") };
        filling.finish(ended.got);
        let reading = frames.read(&ids).expect("full");
        assert_eq!(reading.slices(0, 20 * PAGE).concat(), bytes[3 * PAGE..23 * PAGE]);
    });
}

#[test]
fn more_runs_than_a_call_takes_are_read_in_several() {
    with_each(|reads, from, directory| {
        let pages = 2500;
        let bytes = contents(pages * PAGE);
        let file = file_of(directory, &bytes);
        let frames = Frames::new(Pages(2 * pages as u64)).expect("memory");
        let ids: Vec<FrameId> = (0..pages as u32).map(|at| FrameId(2 * at)).collect();
        let into = Target::Frames(frames.fill(&ids).expect("free"));
        assert!(
            reads
                .start(vec![DiskRead {
                    token: 0,
                    file,
                    offset: ByteOffset::ZERO,
                    into,
                    urgent: false,
                    apart: false
                }])
                .is_empty()
        );
        let ended = next(from);
        assert_eq!((ended.got, ended.error), (Bytes(bytes.len() as u64), None));
        let Target::Frames(filling) = ended.read.into else { panic!("frames") };
        filling.finish(ended.got);
        assert!(frames.read(&ids).expect("full").slices(0, bytes.len()).concat() == bytes);
    });
}

#[test]
fn the_end_of_a_file_comes_short_wherever_it_lies() {
    for length in [0, 1, 511, 512, 4095, 4096, 4097, 3 * PAGE + 512, 3 * PAGE + 700] {
        with_each(|reads, from, directory| {
            let bytes = contents(length);
            let file = file_of(directory, &bytes);
            assert_eq!(file.length(), Ok(Bytes(length as u64)));
            let frames = Frames::new(Pages(8)).expect("memory");
            let ids: Vec<FrameId> = (0..8).map(FrameId).collect();
            let into = Target::Frames(frames.fill(&ids).expect("free"));
            let read =
                DiskRead { token: 0, file, offset: ByteOffset::ZERO, into, urgent: true, apart: false };
            assert!(reads.start(vec![read]).is_empty());
            let ended = next(from);
            assert_eq!((ended.got, ended.error), (Bytes(length as u64), None));
        });
    }
}

#[test]
fn a_buffer_is_filled_too_from_any_aligned_place() {
    with_each(|reads, from, directory| {
        let bytes = contents(9 * PAGE + 100);
        let file = file_of(directory, &bytes);
        let unit = file.alignment().get();
        let arena = Arena::untouched(Bytes::mib(1)).expect("memory");
        let into = Target::Buffer(arena.try_take(unit as usize * 2).expect("room"));
        let offset = ByteOffset(5 * unit);
        assert!(
            reads
                .start(vec![DiskRead { token: 0, file, offset, into, urgent: true, apart: false }])
                .is_empty()
        );
        let ended = next(from);
        assert_eq!((ended.got, ended.error), (Bytes(2 * unit), None));
        let Target::Buffer(buffer) = ended.read.into else { panic!("a buffer") };
        assert_eq!(buffer[..], bytes[5 * unit as usize..7 * unit as usize]);
    });
}

#[test]
fn many_at_once_all_end_and_each_with_its_own() {
    with_each(|reads, from, directory| {
        let bytes = contents(256 * PAGE);
        let file = file_of(directory, &bytes);
        let frames = Frames::new(Pages(1024)).expect("memory");
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (file, frames) = (&file, &frames);
                scope.spawn(move || {
                    for at in 0..256u32 {
                        let token = u64::from(thread * 256 + at);
                        let into = Target::Frames(frames.fill(&[FrameId(token as u32)]).expect("free"));
                        let offset = ByteOffset(u64::from(at) * PAGE_SIZE);
                        let (file, urgent, apart) = (Arc::clone(file), at % 2 == 0, at % 3 == 0);
                        let read = DiskRead { token, file, offset, into, urgent, apart };
                        assert!(reads.start(vec![read]).is_empty());
                    }
                });
            }
            for _ in 0..1024 {
                let ended = next(from);
                assert_eq!((ended.got, ended.error), (Bytes(PAGE_SIZE), None));
                let Target::Frames(filling) = ended.read.into else { panic!("frames") };
                filling.finish(ended.got);
            }
        });
        for token in 0..1024usize {
            let reading = frames.read(&[FrameId(token as u32)]).expect("full");
            let at = token % 256 * PAGE;
            assert_eq!(reading.slices(0, PAGE).concat(), bytes[at..at + PAGE], "page {token}");
        }
    });
}

#[test]
fn after_stop_nothing_is_taken_and_all_that_was_taken_has_ended() {
    with_each(|reads, from, directory| {
        let file = file_of(directory, &contents(2000 * PAGE));
        let frames = Frames::new(Pages(2000)).expect("memory");
        let read = |token: u64| {
            let into = Target::Frames(frames.fill(&[FrameId(token as u32)]).expect("free"));
            let offset = ByteOffset(token * PAGE_SIZE);
            DiskRead { token, file: Arc::clone(&file), offset, into, urgent: false, apart: false }
        };
        assert!(reads.start((0..1999).map(read).collect()).is_empty());
        assert!(reads.stop(LIMIT));
        let ends: Vec<Option<Errno>> = from.try_iter().map(|ended| ended.error).collect();
        assert_eq!(ends.len(), 1999);
        assert!(ends.iter().all(|error| matches!(error, None | Some(Errno::CANCELED))), "{ends:?}");
        assert_eq!(reads.start(vec![read(1999)])[0].token, 1999, "stopped");
    });
}

#[test]
fn an_error_of_the_kernel_is_reported() {
    with_each(|reads, from, directory| {
        // A directory can be opened, but not read.
        let folder = File::open(directory).expect("a directory");
        let Ok(file) = ReadFile::reopen(folder.as_fd()) else { return };
        let frames = Frames::new(Pages(1)).expect("memory");
        let into = Target::Frames(frames.fill(&[FrameId(0)]).expect("free"));
        let read = DiskRead {
            token: 0,
            file: Arc::new(file),
            offset: ByteOffset::ZERO,
            into,
            urgent: true,
            apart: false,
        };
        assert!(reads.start(vec![read]).is_empty());
        let ended = next(from);
        assert_eq!((ended.got, ended.error), (Bytes::ZERO, Some(Errno::ISDIR)));
    });
}

#[test]
fn tmpfs_is_buffered_and_a_disk_direct() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("shared memory");
    let file = file_of(directory.path(), b"abc");
    // Newer kernels accept O_DIRECT on tmpfs and use the page cache all the same.
    let mut bytes = [0; 8];
    assert_eq!(file.read_waiting(&mut bytes, ByteOffset(1)), Ok(2));
    assert_eq!(&bytes[..2], b"bc");
    let directory = tempfile::tempdir_in("/var/tmp").expect("a writable directory");
    let file = file_of(directory.path(), &contents(PAGE));
    if file.mode() == ReadMode::Buffered {
        println!("SKIPPED: /var/tmp takes no direct I/O");
        return;
    }
    assert!(PAGE_SIZE.is_multiple_of(file.alignment().get()));
}

#[test]
fn a_path_descriptor_is_reopened() {
    let directory = tempfile::tempdir().expect("a writable directory");
    let path = directory.path().join("file");
    std::fs::write(&path, b"abc").expect("room");
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let place = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).expect("just made");
    let file = ReadFile::reopen(place.as_fd()).expect("readable");
    let mut bytes = [0; 3];
    assert_eq!(file.read_waiting(&mut bytes, ByteOffset(0)), Ok(3));
}

/// Reads of one page, identified by page number.
struct Pageful {
    file: Arc<ReadFile>,
    frames: Arc<Frames>,
}

impl Pageful {
    fn new(directory: &Path, pages: usize) -> Self {
        let file = file_of(directory, &contents(pages * PAGE));
        Self { file, frames: Frames::new(Pages(pages as u64)).expect("memory") }
    }

    fn read(&self, page: usize) -> DiskRead {
        let into = Target::Frames(self.frames.fill(&[FrameId(page as u32)]).expect("free"));
        let (token, offset) = (page as u64, ByteOffset((page * PAGE) as u64));
        DiskRead { token, file: Arc::clone(&self.file), offset, into, urgent: true, apart: false }
    }
}

#[test]
fn all_that_many_threads_start_at_a_time_ends() {
    with_each(|reads, from, directory| {
        let pages = Pageful::new(directory, 2000);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let pages = &pages;
                scope.spawn(move || {
                    for page in (thread..2000).step_by(4) {
                        assert!(reads.start(vec![pages.read(page)]).is_empty());
                    }
                });
            }
        });
        let mut pages: Vec<u64> = (0..2000).map(|_| next(from).read.token).collect();
        pages.sort_unstable();
        assert!(pages.into_iter().eq(0..2000));
    });
}
