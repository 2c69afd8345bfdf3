//! Contents: lengths, appending, attributes, mappings, holes, copies, times.

use crate::record::{Record, start_child};
use rustix::fs::{
    Advice, AtFlags, CWD, FallocateFlags, Mode, OFlags, SeekFrom, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, XattrFlags, copy_file_range, fallocate, open, seek, utimensat,
};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Records that each appending process writes.
const APPENDS: usize = 500;

fn both(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).expect("opened")
}

fn read(file: &File, at: u64, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0xEE; length];
    let read = file.read_at(&mut bytes, at)?;
    bytes.truncate(read);
    Ok(bytes)
}

pub(crate) fn truncates(record: &mut Record, at: &Path) {
    let file = both(&at.join("a"));
    file.write_all_at(&[7; 10_000], 0).expect("written");
    for length in [10_000, 5000, 4096, 4095, 9000, 0, 1, 100_000, 99_999] {
        record.note(&format!("to {length}"), file.set_len(length));
        record.note("length", fs::metadata(at.join("a")).map(|found| (found.len(), found.blocks() > 0)));
        record.note("around 4090", read(&file, 4090, 12));
        record.note("at the end", read(&file, length.saturating_sub(3), 10));
    }
    record.note(
        "by name",
        rustix::fs::ftruncate(File::options().write(true).open(at.join("a")).expect("opened"), 17),
    );
    record.note("seen", file.metadata().map(|found| found.len()));
    let reader = File::open(at.join("a")).expect("opened");
    record.note("what is open for reading", reader.set_len(3));
    record.note("too long", rustix::fs::ftruncate(&file, u64::MAX));
    record.note("still", file.metadata().map(|found| found.len()));
    record.note("written beyond the end", file.write_at(b"far", 50_000));
    record.note("between are zeros", read(&file, 49_990, 20));
}

pub(crate) fn appends(record: &mut Record, at: &Path) {
    let path = at.join("log");
    let open = || File::options().append(true).read(true).create(true).open(&path).expect("opened");
    let (mut one, mut two) = (open(), open());
    for number in 0..10 {
        record.note("one", one.write_all(format!("one {number}\n").as_bytes()));
        record.note("two", two.write_all(format!("second {number}\n").as_bytes()));
        if number == 5 {
            record.note("truncate", one.set_len(11));
        }
    }
    record.note("at an offset", one.write_at(b"at\n", 0));
    record.note("position", one.stream_position());
    record.note("log", fs::read_to_string(&path));
    let plain = both(&path);
    record.note("overwritten", plain.write_at(b"ONE", 0));
    record.note("log", fs::read_to_string(&path));
}

/// Appends lines that name their writer.
pub(crate) fn append_many(record: &mut Record, at: &Path) {
    let mut log = File::options().append(true).open(at.join("log")).expect("opened");
    let line = format!("{:0100}\n", std::process::id());
    let written = (0..APPENDS).filter(|_| log.write_all(line.as_bytes()).is_ok()).count();
    record.see("appended", written);
}

pub(crate) fn appends_of_two_processes(record: &mut Record, at: &Path) {
    File::create(at.join("log")).expect("made");
    let children = [(); 2].map(|()| start_child("appends", at, 0, &[0]));
    for child in children {
        record.end_child("appends", child);
    }
    let log = fs::read_to_string(at.join("log")).expect("text");
    let mut writers: Vec<&str> = log.lines().collect();
    record.see("lines", (writers.len(), writers.iter().all(|line| line.len() == 100)));
    writers.sort_unstable();
    writers.dedup();
    record.see("writers", writers.len());
    fs::remove_file(at.join("log")).expect("gone");
}

pub(crate) fn extended_attributes(record: &mut Record, at: &Path) {
    let path = at.join("a");
    both(&path);
    fs::create_dir(at.join("d")).expect("made");
    std::os::unix::fs::symlink("a", at.join("s")).expect("linked");
    let mut set = |name: &str, attribute: &str, value: &[u8], flags| {
        let done = rustix::fs::lsetxattr(at.join(name), attribute, value, flags);
        record.note(&format!("set {attribute} of {name} ({} bytes, {flags:?})", value.len()), done)
    };
    set("a", "user.one", b"1", XattrFlags::empty());
    set("a", "user.one", b"2", XattrFlags::CREATE);
    set("a", "user.one", b"two", XattrFlags::REPLACE);
    set("a", "user.none", b"", XattrFlags::REPLACE);
    set("a", "user.empty", b"", XattrFlags::CREATE);
    set("d", "user.of_directory", b"x", XattrFlags::empty());
    set("s", "user.of_link", b"x", XattrFlags::empty());
    set("a", "trusted.root", b"y", XattrFlags::empty());
    set("a", "nonsense", b"z", XattrFlags::empty());
    set("a", "nonsense.x", b"z", XattrFlags::empty());
    set("a", &format!("user.{}", "n".repeat(250)), b"", XattrFlags::empty());
    set("a", &format!("user.{}", "n".repeat(251)), b"", XattrFlags::empty());
    set("a", "user.large", &[1; 2000], XattrFlags::empty());
    set("a", "user.too_large", &[1; 70_000], XattrFlags::empty());
    let mut get = |name: &str, attribute: &str, room: usize| {
        let mut value = vec![0; room];
        let got = if room == 0 {
            rustix::fs::lgetxattr_query(at.join(name), attribute).map(|length| (length, Vec::new()))
        } else {
            rustix::fs::lgetxattr(at.join(name), attribute, &mut value[..])
                .map(|length| (length, value[..length].to_vec()))
        };
        record.note(&format!("get {attribute} of {name} ({room})"), got)
    };
    for attribute in
        ["user.one", "user.empty", "user.none", "trusted.root", "user.large", "security.capability"]
    {
        for room in [0, 1, 3, 4096] {
            get("a", attribute, room);
        }
    }
    get("d", "user.of_directory", 10);
    let mut names = vec![0; 4096];
    record.note("list", rustix::fs::listxattr(&path, &mut names[..]).map(|length| names[..length].to_vec()));
    record.note("list's length", rustix::fs::listxattr_query(&path));
    record.note("too little room", rustix::fs::listxattr(&path, &mut [0u8; 5][..]));
    record.note("remove", rustix::fs::removexattr(&path, "user.one"));
    record.note("again", rustix::fs::removexattr(&path, "user.one"));
    let file = both(&path);
    fs::remove_file(&path).expect("gone");
    record
        .note("of an unlinked file", rustix::fs::fsetxattr(&file, "user.late", b"late", XattrFlags::empty()));
    let mut value = [0; 4];
    record.note("it has it", rustix::fs::fgetxattr(&file, "user.late", &mut value[..]).map(|_| value));
}

pub(crate) fn mappings(record: &mut Record, at: &Path) {
    let path = at.join("a");
    let file = both(&path);
    file.write_all_at(&[b'a'; 10_000], 0).expect("written");
    let map = |file: &File, length, protection, flags| {
        // SAFETY: a new mapping, at a place that the kernel chooses.
        unsafe { mmap(std::ptr::null_mut(), length, protection, flags, file, 0) }
    };
    let all = ProtFlags::READ | ProtFlags::WRITE;
    let shared = map(&file, 10_000, all, MapFlags::SHARED).expect("mapped").cast::<u8>();
    let private = map(&file, 10_000, all, MapFlags::PRIVATE).expect("mapped").cast::<u8>();
    // SAFETY: both mappings are 10,000 bytes of a file that is not shortened below 4096 while they exist, and
    // the bytes beyond are not accessed then.
    unsafe {
        record.see("first", (*shared, *shared.add(9999), *shared.add(10_000)));
        record.note("write", file.write_at(b"written", 100));
        record.see("seen in the mapping", std::slice::from_raw_parts(shared.add(98), 11));
        shared.add(5000).write(b'M');
        record.note("seen by a read", read(&file, 4998, 5));
        record.note("and another descriptor", read(&File::open(&path).expect("opened"), 4998, 5));
        private.add(5001).write(b'P');
        record.note("not visible to others", read(&file, 4998, 5));
        record.note("msync", msync(shared.cast(), 10_000, MsyncFlags::SYNC));
        record.note("shorten", file.set_len(4200));
        shared.add(4199).write(b'E');
        record.note("lengthen", file.set_len(6000));
        record.note("what is beyond is nothing", read(&file, 4195, 10));
        record.note("unmap", munmap(shared.cast(), 10_000));
        record.note("unmap", munmap(private.cast(), 10_000));
    }
    let reader = File::open(&path).expect("opened");
    record.have("a shared writable one of what may be read", map(&reader, 4096, all, MapFlags::SHARED));
    let writer = File::options().write(true).open(&path).expect("opened");
    record.have("one of what may be written", map(&writer, 4096, ProtFlags::READ, MapFlags::SHARED));
    let other = both(&at.join("b"));
    other.write_all_at(&[b'b'; 4096], 0).expect("written");
    let kept = map(&other, 4096, all, MapFlags::SHARED).expect("mapped").cast::<u8>();
    drop(other);
    fs::remove_file(at.join("b")).expect("gone");
    // SAFETY: the mapping holds the file, which is 4096 bytes long.
    unsafe {
        kept.add(17).write(b'!');
        record.see("without a name", std::slice::from_raw_parts(kept.add(16), 3));
        record.note("unmap", munmap(kept.cast(), 4096));
    }
}

#[repr(align(4096))]
struct Aligned([u8; 8192]);

pub(crate) fn direct_io(record: &mut Record, at: &Path) {
    let path = at.join("a");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT | OFlags::CLOEXEC;
    let direct = File::from(open(&path, flags, Mode::from_raw_mode(0o644)).expect("opened"));
    let cached = both(&path);
    let mut page = Aligned([b'd'; 8192]);
    record.note("write", direct.write_at(&page.0, 0));
    record.note("seen", read(&cached, 8190, 5));
    record.note("cached", cached.write_at(b"cached", 4000));
    record.note("read", direct.read_at(&mut page.0[..4096], 0));
    record.see("has it", &page.0[3999..4007]);
    record.note("over what is cached", direct.write_at(&[page.0[0]; 0], 0));
    page.0.fill(b'e');
    record.note("over what is cached", direct.write_at(&page.0[..4096], 0));
    record.note("seen", read(&cached, 3998, 5));
    record.note("longer", cached.set_len(8292));
    record.note("the tail", direct.read_at(&mut page.0, 8192));
    record.note("beyond the end", direct.read_at(&mut page.0, 16_384));
}

pub(crate) fn sparse_files(record: &mut Record, at: &Path) {
    let file = both(&at.join("a"));
    file.set_len(1 << 20).expect("set");
    for place in [0, 300_000, 700_000] {
        file.write_all_at(&[1; 5000], place).expect("written");
    }
    file.sync_all().expect("flushed");
    for place in [0, 1, 5000, 200_000, 299_008, 300_000, 710_000, (1 << 20) - 1, 1 << 20, 1 << 21] {
        record.note(&format!("data after {place}"), seek(&file, SeekFrom::Data(place)));
        record.note(&format!("hole after {place}"), seek(&file, SeekFrom::Hole(place)));
    }
    record.note("blocks", file.metadata().map(|found| found.blocks()));
    record
        .note("a hole is zeros", read(&file, 100_000, 5000).map(|bytes| bytes.iter().all(|byte| *byte == 0)));
    record.note("the end", seek(&file, SeekFrom::End(-5)));
    record.note("before the start", seek(&file, SeekFrom::Current(-(1 << 40))));
}

pub(crate) fn allocations(record: &mut Record, at: &Path) {
    let file = both(&at.join("a"));
    file.write_all_at(&[9; 20_000], 0).expect("written");
    let mut go = |mode, start, length| {
        record.note(&format!("{mode:?} {start} {length}"), fallocate(&file, mode, start, length));
        record.note("length", file.metadata().map(|found| found.len()));
        record.note(
            "bytes",
            read(&file, 0, 40_000).map(|bytes| {
                bytes.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect::<Vec<_>>()
            }),
        );
    };
    let keep = FallocateFlags::KEEP_SIZE;
    go(FallocateFlags::empty(), 0, 10_000);
    go(FallocateFlags::empty(), 19_000, 5000);
    go(keep, 30_000, 100_000);
    go(FallocateFlags::PUNCH_HOLE | keep, 1000, 8000);
    go(FallocateFlags::PUNCH_HOLE | keep, 23_000, 8000);
    go(FallocateFlags::PUNCH_HOLE, 0, 4096);
    go(FallocateFlags::ZERO_RANGE, 15_000, 100);
    go(FallocateFlags::ZERO_RANGE, 23_990, 100);
    go(FallocateFlags::ZERO_RANGE | keep, 24_000, 1000);
    go(FallocateFlags::empty(), 0, 0);
    let reader = File::open(at.join("a")).expect("opened");
    record.note("of what is open for reading", fallocate(&reader, FallocateFlags::empty(), 0, 1));
    record.note("too long", fallocate(&file, FallocateFlags::empty(), 0, i64::MAX as u64));
}

pub(crate) fn copies(record: &mut Record, at: &Path) {
    let from = both(&at.join("from"));
    let to = both(&at.join("to"));
    let bytes: Vec<u8> = (0..100_000u32).map(|number| (number % 251) as u8).collect();
    from.write_all_at(&bytes, 0).expect("written");
    to.write_all_at(&[0xFF; 50_000], 0).expect("written");
    let mut go = |what: &str, from: &File, start: u64, to: &File, place: u64, length| {
        let (mut read_at, mut write_at) = (start, place);
        let done = copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), length);
        record.note(what, done.map(|done| (done, read_at, write_at)));
    };
    go("part", &from, 1000, &to, 2000, 30_000);
    go("beyond the end", &from, 90_000, &to, 60_000, 20_000);
    go("from the end", &from, 100_000, &to, 0, 10);
    go("nothing", &from, 0, &to, 0, 0);
    go("within one file", &from, 0, &from, 200_000, 5000);
    go("over itself", &from, 0, &from, 100, 5000);
    let reader = File::open(at.join("to")).expect("opened");
    go("to what is open for reading", &from, 0, &reader, 0, 10);
    let log = File::options().append(true).open(at.join("to")).expect("opened");
    go("to what is open for appending", &from, 0, &log, 0, 10);
    let writer = File::options().write(true).open(at.join("from")).expect("opened");
    go("from what is open for writing", &writer, 0, &to, 0, 10);
    let directory = File::open(at).expect("opened");
    go("from a directory", &directory, 0, &to, 0, 10);
    // Earlier cached pages of the target are not what is read now.
    let cached = read(&to, 0, 100_000).expect("read");
    go("over what is cached", &from, 5, &to, 7, 40_000);
    let now = read(&to, 0, 100_000).expect("read");
    record.see("changed", (cached.len(), now.len(), cached == now, now[7..40_007] == bytes[5..40_005]));
    record.note("drop", rustix::fs::fadvise(&to, 0, None, Advice::DontNeed));
    record.note("read anew", read(&to, 0, 100_000).map(|again| again == now));
}

pub(crate) fn times(record: &mut Record, at: &Path) {
    let path = at.join("a");
    both(&path);
    std::os::unix::fs::symlink("a", at.join("s")).expect("linked");
    fs::create_dir(at.join("d")).expect("made");
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let omit = time(0, UTIME_OMIT);
    let mut set = |name: &str, access, modification| {
        let times = Timestamps { last_access: access, last_modification: modification };
        let done = utimensat(CWD, at.join(name), &times, AtFlags::SYMLINK_NOFOLLOW);
        record.note(&format!("set {name}"), done);
        let reported = fs::symlink_metadata(at.join(name));
        record.note(
            name,
            reported.map(|found| (found.atime(), found.atime_nsec(), found.mtime(), found.mtime_nsec())),
        );
    };
    for name in ["a", "s", "d"] {
        set(name, time(1, 2), time(3, 4));
        set(name, omit, time(1_700_000_000, 999_999_999));
        set(name, time(-2, 500_000_000), omit);
        set(name, time(-1000, 0), time(-7, 1));
        set(name, time(1 << 33, 123), omit);
        set(name, omit, omit);
        set(name, time(0, 1_000_000_000), omit);
    }
    let now = Timestamps { last_access: time(0, UTIME_NOW), last_modification: time(0, UTIME_NOW) };
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(2);
    record.note("now", utimensat(CWD, &path, &now, AtFlags::empty()));
    let modified = fs::metadata(&path).expect("there").modified().expect("a time");
    record.see("is now", modified > before && modified < before + std::time::Duration::from_secs(20));
    let reported = |path: &Path| {
        let found = fs::metadata(path).expect("there");
        (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
    };
    let old = reported(&path);
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&path, "x").expect("written");
    let written = reported(&path);
    record.see(
        "a write changes both",
        (old.0, old.1) != (written.0, written.1) && (old.2, old.3) != (written.2, written.3),
    );
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
    let set = reported(&path);
    record.see(
        "a mode one",
        ((written.0, written.1) == (set.0, set.1), (written.2, written.3) != (set.2, set.3)),
    );
}
