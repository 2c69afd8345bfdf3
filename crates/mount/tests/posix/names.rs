//! Names: renaming, removing, linking, special files, limits.

use crate::record::Record;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fstat, linkat, mknodat, open, openat, rename,
    renameat_with, rmdir, statat, symlink, unlink, unlinkat,
};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
}

pub(crate) fn renames(record: &mut Record, at: &Path) {
    for name in ["a", "b", "c"] {
        write(&at.join(name), name);
    }
    for name in ["d", "e", "full", "full/in"] {
        fs::create_dir(at.join(name)).expect("made");
    }
    write(&at.join("full/file"), "x");
    let mut go = |from: &str, to: &str| {
        record.note(&format!("rename {from} {to}"), rename(at.join(from), at.join(to)))
    };
    go("a", "b");
    go("a", "x");
    go("b", "d");
    go("d", "b");
    go("d", "e");
    go("e", "full");
    go("full", "full/in/deeper");
    go("full", "e");
    go("e", "full");
    go("full/file", "file");
    go("file", "full/in/file");
    go("c", "c");
    go("c", "none/c");
    go("c", "b/c");
    go("c", ".");
    go("full/.", "z");
    fs::hard_link(at.join("b"), at.join("b2")).expect("linked");
    record.note("rename of one of two names to the other", rename(at.join("b"), at.join("b2")));
    record.note("both are there", statat(CWD, at.join("b"), AtFlags::empty()).map(|stat| stat.st_nlink));
    symlink("b", at.join("s")).expect("linked");
    record.note("rename of a link", rename(at.join("s"), at.join("t")));
    record.note("it is one still", fs::read_link(at.join("t")));
}

pub(crate) fn renames_with_flags(record: &mut Record, at: &Path) {
    write(&at.join("a"), "a");
    write(&at.join("b"), "bb");
    fs::create_dir(at.join("d")).expect("made");
    write(&at.join("d/in"), "in");
    let mut go = |from: &str, to: &str, flags| {
        let done = renameat_with(CWD, at.join(from), CWD, at.join(to), flags);
        record.note(&format!("rename {from} {to} {flags:?}"), done)
    };
    go("a", "b", RenameFlags::NOREPLACE);
    go("a", "c", RenameFlags::NOREPLACE);
    go("b", "c", RenameFlags::EXCHANGE);
    go("b", "d", RenameFlags::EXCHANGE);
    go("b", "none", RenameFlags::EXCHANGE);
    go("none", "b", RenameFlags::EXCHANGE);
    go("c", "c2", RenameFlags::EXCHANGE | RenameFlags::NOREPLACE);
    go("c", "w", RenameFlags::WHITEOUT);
    go("c", "w2", RenameFlags::from_bits_retain(64));
    for name in ["c", "w", "d"] {
        record.note(name, fs::read_to_string(at.join(name)));
    }
}

pub(crate) fn renames_over_open_files(record: &mut Record, at: &Path) {
    write(&at.join("old"), "old text");
    write(&at.join("new"), "new");
    let old = File::options().read(true).write(true).open(at.join("old")).expect("opened");
    let new = File::open(at.join("new")).expect("opened");
    record.note("rename", rename(at.join("new"), at.join("old")));
    let mut text = String::new();
    record.note("the old one is read", (&old).read_to_string(&mut text).map(|_| text.clone()));
    record.note("links", fstat(&old).map(|stat| stat.st_nlink));
    record.note("it is written", old.write_at(b"OLD", 0));
    record.note("shortened", old.set_len(5));
    record.note("its mode is set", rustix::fs::fchmod(&old, Mode::from_raw_mode(0o600)));
    record.note("and seen", fstat(&old).map(|stat| (stat.st_mode, stat.st_size)));
    record.note("under its name is the new one", fs::read_to_string(at.join("old")));
    text.clear();
    record.note("which is open", (&new).read_to_string(&mut text).map(|_| text));
    record.note("links", fstat(&new).map(|stat| stat.st_nlink));
}

pub(crate) fn unlinks_while_open(record: &mut Record, at: &Path) {
    let path = at.join("a");
    write(&path, "some text");
    let file = File::options().read(true).write(true).open(&path).expect("opened");
    record.note("unlink", unlink(&path));
    record.note("unlink again", unlink(&path));
    record.note("write", file.write_at(b"more", 9));
    let mut bytes = [0; 20];
    record.note("read", file.read_at(&mut bytes, 0).map(|read| bytes[..read].to_vec()));
    record.note("stat", fstat(&file).map(|stat| (stat.st_nlink, stat.st_size)));
    record.note("truncate", file.set_len(2));
    record.note("chown", rustix::fs::fchown(&file, Some(rustix::fs::Uid::from_raw(7)), None));
    record.note("owner", fstat(&file).map(|stat| stat.st_uid));
    record.note("sync", file.sync_all());
    record.note("a new one of its name", File::create_new(&path).map(drop));
    record.note("the old one's length", file.metadata().map(|found| found.len()));
    fs::create_dir(at.join("d")).expect("made");
    record.note("unlink a directory", unlink(at.join("d")));
    record.note("rmdir a file", rmdir(&path));
    record.note("rmdir nothing", rmdir(at.join("none")));
    write(&at.join("d/x"), "");
    record.note("rmdir what is full", rmdir(at.join("d")));
    record.note("rmdir .", rmdir(at.join("d/.")));
    record.note("unlink through a file", unlink(at.join("a/b")));
}

pub(crate) fn hard_links(record: &mut Record, at: &Path) {
    write(&at.join("a"), "text");
    fs::create_dir(at.join("d")).expect("made");
    let mut link = |from: &str, to: &str| {
        record.note(
            &format!("link {from} {to}"),
            linkat(CWD, at.join(from), CWD, at.join(to), AtFlags::empty()),
        )
    };
    link("a", "b");
    link("a", "d/c");
    link("a", "b");
    link("d", "e");
    link("none", "f");
    link("a", "none/f");
    symlink("a", at.join("s")).expect("linked");
    record.note("link of a link", linkat(CWD, at.join("s"), CWD, at.join("s2"), AtFlags::empty()));
    record.note("link of its target", linkat(CWD, at.join("s"), CWD, at.join("t"), AtFlags::SYMLINK_FOLLOW));
    for name in ["a", "b", "d/c", "t"] {
        record.note(name, fs::metadata(at.join(name)).map(|found| found.nlink()));
    }
    let numbers: Vec<u64> =
        ["a", "b", "d/c"].iter().map(|name| fs::metadata(at.join(name)).expect("there").ino()).collect();
    record.see("one file", numbers.iter().all(|number| *number == numbers[0]));
    fs::write(at.join("d/c"), "changed").expect("written");
    record.note("seen under the other name", fs::read_to_string(at.join("b")));
    record.note("unlink", unlink(at.join("a")));
    record.note("links", fs::metadata(at.join("b")).map(|found| found.nlink()));
    let file = File::open(at.join("b")).expect("opened");
    unlink(at.join("b")).expect("gone");
    unlink(at.join("d/c")).expect("gone");
    unlink(at.join("t")).expect("gone");
    record.note("the last links", fstat(&file).map(|stat| stat.st_nlink));
    record.note("a link to what has none", linkat(&file, "", CWD, at.join("z"), AtFlags::EMPTY_PATH));
}

pub(crate) fn symlinks(record: &mut Record, at: &Path) {
    let long = "x".repeat(4095);
    for (target, name) in
        [("a", "s"), ("none", "dangling"), ("loop", "loop"), ("", "empty"), (&long, "long"), ("a", "s")]
    {
        record.note(&format!("symlink {name}"), symlink(target, at.join(name)));
    }
    record.note("too long", symlink("x".repeat(4096), at.join("longer")));
    write(&at.join("a"), "text");
    for name in ["s", "dangling", "loop", "long"] {
        record.note(&format!("read {name}"), fs::read_to_string(at.join(name)));
        record.note(
            &format!("readlink {name}"),
            fs::read_link(at.join(name)).map(|path| path.as_os_str().len()),
        );
        record.note(&format!("length {name}"), fs::symlink_metadata(at.join(name)).map(|found| found.len()));
    }
    record.note("readlink of a file", fs::read_link(at.join("a")));
    let own = rustix::fs::chownat(
        CWD,
        at.join("s"),
        Some(rustix::fs::Uid::from_raw(5)),
        None,
        AtFlags::SYMLINK_NOFOLLOW,
    );
    record.note("chown of a link", own);
    record.note("its owner", fs::symlink_metadata(at.join("s")).map(|found| found.uid()));
    record.note("its target's", fs::metadata(at.join("s")).map(|found| found.uid()));
    record.note("create through a dangling one", File::create(at.join("dangling")).map(drop));
    record.note("its target is there", fs::metadata(at.join("none")).map(|found| found.len()));
}

pub(crate) fn names_and_their_limits(record: &mut Record, at: &Path) {
    for length in [1, 254, 255, 256] {
        let name = "n".repeat(length);
        record.note(&format!("a name of {length}"), fs::write(at.join(&name), "x"));
        record.note("mkdir", fs::create_dir(at.join(format!("{name}/x"))).map(drop));
        record.note("lookup", fs::metadata(at.join("m".repeat(length))).map(drop));
    }
    for bytes in [&b"\xff\xfe"[..], b"new\nline", b"a b", b"-", b"\\", b"\xc3\xa4"] {
        let path = at.join(OsStr::from_bytes(bytes));
        record.note(&format!("{bytes:?}"), fs::write(&path, "x"));
        record.note("read", fs::read_to_string(&path));
    }
    let mut deep = at.to_path_buf();
    for _ in 0..40 {
        deep.push("deep");
        fs::create_dir(&deep).expect("made");
    }
    record.note("deep down", fs::write(deep.join("file"), "x"));
    record.note("up and down again", fs::read_to_string(deep.join("../../deep/deep/file")));
    record.note("a file with a slash", fs::metadata(at.join("n/")).map(drop));
    record.note("nothing", fs::metadata(at.join("")).map(|found| found.is_dir()));
}

pub(crate) fn special_files(record: &mut Record, at: &Path) {
    let mut make = |name: &str, kind, mode, device| {
        record.note(
            &format!("mknod {name}"),
            mknodat(CWD, at.join(name), kind, Mode::from_raw_mode(mode), device),
        )
    };
    make("fifo", FileType::Fifo, 0o640, 0);
    make("null", FileType::CharacterDevice, 0o666, rustix::fs::makedev(1, 3));
    make("large", FileType::CharacterDevice, 0o600, rustix::fs::makedev(259, 70_000));
    make("block", FileType::BlockDevice, 0o600, rustix::fs::makedev(7, 255));
    make("socket", FileType::Socket, 0o600, 0);
    make("file", FileType::RegularFile, 0o604, 0);
    make("file", FileType::RegularFile, 0o600, 0);
    for name in ["fifo", "null", "large", "block", "socket", "file"] {
        let found = fs::symlink_metadata(at.join(name)).expect("there");
        record.see(name, (format!("{:o}", found.mode()), found.rdev()));
    }
    let fifo = at.join("fifo");
    let writer = std::thread::spawn(move || fs::write(fifo, "through the pipe"));
    record.note("read the pipe", fs::read_to_string(at.join("fifo")));
    record.note("write it", writer.join().expect("no panic"));
    record.note("write the device", fs::write(at.join("null"), "gone"));
    record.note("bind", std::os::unix::net::UnixListener::bind(at.join("bound")).map(drop));
    record.note(
        "connect without a server",
        std::os::unix::net::UnixStream::connect(at.join("bound")).map(drop),
    );
}

pub(crate) fn opens(record: &mut Record, at: &Path) {
    write(&at.join("a"), "0123456789");
    fs::create_dir(at.join("d")).expect("made");
    symlink("a", at.join("s")).expect("linked");
    let mode = Mode::from_raw_mode(0o644);
    fn go(record: &mut Record, at: &Path, name: &str, flags: OFlags) -> Option<OwnedFd> {
        let opened = open(at.join(name), flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644));
        let opened = record.have(&format!("open {name} {flags:?}"), opened);
        record.note(
            "length",
            fs::metadata(at.join(name)).map(|found| if found.is_dir() { 0 } else { found.len() }),
        );
        opened
    }
    go(record, at, "a", OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL);
    go(record, at, "n", OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL);
    go(record, at, "n2", OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC);
    go(record, at, "s", OFlags::RDONLY | OFlags::NOFOLLOW);
    go(record, at, "s", OFlags::RDONLY);
    go(record, at, "a", OFlags::RDONLY | OFlags::DIRECTORY);
    go(record, at, "d", OFlags::RDONLY | OFlags::DIRECTORY);
    go(record, at, "d", OFlags::WRONLY);
    go(record, at, "d", OFlags::RDONLY | OFlags::CREATE);
    go(record, at, "none", OFlags::RDONLY);
    go(record, at, "none/x", OFlags::RDONLY | OFlags::CREATE);
    go(record, at, "a/x", OFlags::RDONLY | OFlags::CREATE);
    go(record, at, "a", OFlags::WRONLY | OFlags::APPEND);
    go(record, at, "a", OFlags::PATH);
    let reader = go(record, at, "a", OFlags::RDONLY).expect("opened");
    record.note("write what is open for reading", rustix::io::write(&reader, b"x"));
    let writer = go(record, at, "a", OFlags::WRONLY | OFlags::TRUNC).expect("opened");
    record.note("read what is open for writing", rustix::io::read(&writer, &mut [0u8; 4]));
    record.note("write", File::from(writer).write_all(b"abc"));
    record
        .note("seen by the process that had it open", File::from(reader).metadata().map(|found| found.len()));
    let directory = open(at.join("d"), OFlags::RDONLY | OFlags::DIRECTORY, mode).expect("opened");
    record.have("openat", openat(&directory, "x", OFlags::RDWR | OFlags::CREATE, mode));
    record.note("unlinkat", unlinkat(&directory, "x", AtFlags::empty()));
    record.note("read a directory as a file", rustix::io::read(&directory, &mut [0u8; 4]));
}
