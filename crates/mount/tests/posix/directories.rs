//! Directories: large ones, ones that change while they are read, ones that are gone.

use crate::record::Record;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, mkdirat, open, openat, statat};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

/// Names in the large ones: more than one reply holds, and more than a block of any index.
const NAMES: usize = 3000;

fn names(directory: &mut Dir) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(entry) = directory.read() {
        names.push(entry.expect("an entry").file_name().to_string_lossy().into_owned());
    }
    names
}

fn fill(at: &Path) {
    fs::create_dir(at.join("d")).expect("made");
    for number in 0..NAMES {
        File::create(at.join(format!("d/a name of some length {number}"))).expect("made");
    }
}

fn reader(at: &Path) -> Dir {
    let fd = open(at.join("d"), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    Dir::new(fd.expect("opened")).expect("a reader")
}

pub(crate) fn large_directories(record: &mut Record, at: &Path) {
    fill(at);
    let mut directory = reader(at);
    let first = names(&mut directory);
    record.see("names", first.len());
    record.see("each once", first.iter().collect::<BTreeSet<_>>().len());
    record.see("in the order of the file system", &first[..20]);
    File::create(at.join("d/late")).expect("made");
    directory.rewind();
    let again = names(&mut directory);
    record.see("names after a rewind", (again.len(), again.contains(&"late".to_owned())));
    let kinds: BTreeSet<String> = fs::read_dir(at)
        .expect("read")
        .map(|entry| entry.expect("an entry").file_type().map(|kind| format!("{kind:?}")).expect("a kind"))
        .collect();
    record.see("kinds", kinds);
    let numbers_agree = fs::read_dir(at.join("d")).expect("read").take(100).all(|entry| {
        use std::os::unix::fs::{DirEntryExt, MetadataExt};
        let entry = entry.expect("an entry");
        entry.ino() == entry.metadata().expect("there").ino()
    });
    record.see("numbers are those of the files", numbers_agree);
    record.note(
        "as many links as directories",
        fs::metadata(at.join("d")).map(|found| std::os::unix::fs::MetadataExt::nlink(&found)),
    );
    fs::remove_dir_all(at.join("d")).expect("gone");
}

pub(crate) fn deletes_while_reading(record: &mut Record, at: &Path) {
    fill(at);
    let mut directory = reader(at);
    let mut seen = BTreeSet::new();
    let mut twice = 0;
    // Each name is removed as soon as it is seen, as `rm -r` does.
    while let Some(entry) = directory.read() {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        fs::remove_file(at.join("d").join(&name)).expect("gone");
        twice += usize::from(!seen.insert(name));
    }
    record.see("seen and removed", (seen.len(), twice));
    record.note("empty now", fs::remove_dir(at.join("d")));
    fill(at);
    let mut directory = reader(at);
    let mut half = Vec::new();
    while half.len() < NAMES / 2 {
        half.push(
            directory.read().expect("more").expect("an entry").file_name().to_string_lossy().into_owned(),
        );
    }
    let half: BTreeSet<String> = half.into_iter().collect();
    // Every second of the unseen names is removed: the others must still appear, each once.
    let mut left = BTreeSet::new();
    for number in 0..NAMES {
        let name = format!("a name of some length {number}");
        if half.contains(&name) {
            continue;
        }
        if number % 2 == 0 {
            fs::remove_file(at.join("d").join(&name)).expect("gone");
        } else {
            left.insert(name);
        }
    }
    let rest = names(&mut directory);
    let come: BTreeSet<String> = rest.iter().cloned().collect();
    record.see("all that is left comes", left.is_subset(&come));
    record.see("each once", rest.len() == come.len());
    fs::remove_dir_all(at.join("d")).expect("gone");
}

pub(crate) fn removed_directories(record: &mut Record, at: &Path) {
    fs::create_dir(at.join("d")).expect("made");
    let fd = open(at.join("d"), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .expect("opened");
    let before = fstat(&fd).expect("there").st_ino;
    record.note("rmdir", fs::remove_dir(at.join("d")));
    record.see("it is still itself", fstat(&fd).is_ok_and(|stat| stat.st_ino == before));
    record.have(
        "make a file in it",
        openat(&fd, "x", OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o644)),
    );
    record.note("make a directory in it", mkdirat(&fd, "x", Mode::from_raw_mode(0o755)));
    record.note("look into it", statat(&fd, "x", AtFlags::empty()).map(drop));
    let mut directory = Dir::new(fd).expect("a reader");
    record.see("its names", names(&mut directory));
    fs::create_dir(at.join("e")).expect("made");
    File::create(at.join("e/inside")).expect("made");
    let fd = open(at.join("e"), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .expect("opened");
    record.note("rename it", fs::rename(at.join("e"), at.join("f")));
    record.note("it goes on", statat(&fd, "inside", AtFlags::empty()).map(|stat| stat.st_size));
    record.have(
        "and takes files",
        openat(&fd, "new", OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o644)),
    );
    record.note("under its new name", fs::metadata(at.join("f/new")).map(|found| found.len()));
    used_without_being_open(record, at);
}

/// A directory that is only referred to (as by a process's working directory) when its last name is removed.
fn used_without_being_open(record: &mut Record, at: &Path) {
    fs::create_dir(at.join("g")).expect("made");
    fs::write(at.join("h"), "still here").expect("written");
    let refer =
        |name: &str| open(at.join(name), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("opened");
    let (directory, file) = (refer("g"), refer("h"));
    fs::remove_dir(at.join("g")).expect("gone");
    fs::write(at.join("i"), "over it").expect("written");
    fs::rename(at.join("i"), at.join("h")).expect("renamed");
    // Longer than attributes are cached, so that they are requested again.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    record.note("a directory", fstat(&directory).map(|stat| stat.st_mode));
    record.note("looked into", statat(&directory, "x", AtFlags::empty()).map(drop));
    record.note("a file", fstat(&file).map(|stat| (stat.st_mode, stat.st_nlink, stat.st_size)));
    let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    record.note("opened again", fs::read_to_string(again));
}
