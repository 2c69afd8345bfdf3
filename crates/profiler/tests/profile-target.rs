//! What can be measured, what is refused and why, and that nothing is ever open for writing.

use foreseek_profiler::{self as profiler, Label, Plan, Probe, Target};
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use rustix::fs::{FileType, Mode};
use std::io::Write;
use std::path::Path;

fn reason(path: &Path) -> String {
    Target::open(path).expect_err("cannot be measured").to_string()
}

/// A file of real data on the file system of the build, where direct I/O mostly works.
fn data(length: Bytes) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for tests");
    let piece = vec![b'x'; 1 << 16];
    (0..length.get() >> 16).for_each(|_| file.write_all(&piece).expect("space"));
    file.as_file().sync_all().expect("a disk");
    file
}

/// The target, or why the test is skipped.
fn open(file: &tempfile::NamedTempFile) -> Option<Target> {
    match Target::open(file.path()) {
        Ok(target) => Some(target),
        Err(error) if error.to_string().contains("no direct I/O") => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn an_unsuitable_target_is_refused_with_the_reason() {
    assert!(reason(Path::new("/nonexistent")).contains("No such file"));
    assert!(reason(Path::new("/")).contains("a directory"));
    assert!(reason(Path::new("/dev/null")).contains("a character device"));
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
    assert!(reason(&pipe).contains("no seeking"));
}

#[test]
fn a_file_with_holes_is_refused() {
    let file = data(Bytes::mib(1));
    if open(&file).is_none() {
        return;
    }
    file.as_file().set_len(64 << 20).expect("a longer file");
    let reason = reason(file.path());
    assert!(reason.contains("has a hole at offset 1048576"), "{reason}");
}

#[test]
fn a_small_one_is_refused() {
    let file = data(Bytes::mib(1));
    let Some(mut target) = open(&file) else { return };
    let label = Label { name: "small".to_owned(), description: String::new(), source: String::new() };
    let refused = profiler::profile(&mut target, Plan::quick(), &label, 1, &mut |_, _| {});
    let reason = refused.expect_err("too small").to_string();
    assert!(reason.contains("too small") && reason.contains("256 MiB"), "{reason}");
}

#[test]
fn reads_are_answered_in_order_and_the_end_is_an_error() {
    let file = data(Bytes::mib(1));
    let Some(mut target) = open(&file) else { return };
    assert_eq!(target.capacity(), Bytes::mib(1));
    let pages: Vec<ByteSpan> =
        (0..64).map(|page| ByteSpan::at(ByteOffset(page * 4096), Bytes(4096))).collect();
    for depth in [1, 8, 1000] {
        let times = target.read_all(&pages, depth).expect("readable");
        assert_eq!(times.len(), pages.len());
        assert!(times.iter().all(|time| time.finished >= time.issued));
        assert!(times.windows(2).all(|pair| pair[0].issued <= pair[1].issued), "submitted in order");
    }
    let beyond = ByteSpan::at(ByteOffset(1 << 20), Bytes(4096));
    let error = target.read(beyond).expect_err("the end").to_string();
    assert!(error.contains("offset 1048576"), "{error}");
    let error = target.read_all(&[pages[0], beyond, pages[1]], 2).expect_err("the end").to_string();
    assert!(error.contains("offset 1048576"), "{error}");
}

#[test]
fn it_is_open_for_reading_alone() {
    let file = data(Bytes::mib(1));
    let Some(_target) = open(&file) else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir("/proc/self/fd").expect("proc").flatten() {
        let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
        let Ok(info) = std::fs::read_to_string(info) else { continue };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
        let flags = u32::from_str_radix(flags.trim(), 8).expect("octal");
        let is_own = std::fs::read_link(entry.path()).is_ok_and(|path| path == file.path());
        if is_own && flags & rustix::fs::OFlags::DIRECT.bits() != 0 {
            seen += 1;
            assert_eq!(flags & rustix::fs::OFlags::ACCMODE.bits(), 0, "{flags:o} is not read-only");
        }
    }
    assert_eq!(seen, 1);
}
