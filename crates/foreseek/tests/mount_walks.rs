//! Programs that walk trees through a mount over an emulated disk. The mount reads ahead for them, their
//! reads return the files' contents while others write, and an unreadable sector fails nothing else.
//!
//! They need root, FUSE and loop devices, and are skipped with a message without them.
#![allow(clippy::print_stdout, reason = "tests that are skipped say so")]

#[path = "faults/below.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod below;
#[path = "disk/lab.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod lab;

#[path = "watch/recording.rs"]
mod recording;

use below::{Below, PAGE, contents, forget, number};
use lab::LIMIT;
use rustix::io::ReadWriteFlags;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{IoSliceMut, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const PROFILE: &str = "barracuda-500g";
const DIRECTORIES: usize = 24;
const EACH: usize = 25;

/// The files of the tree, by their paths from its root, and their contents.
fn files() -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
    (0..DIRECTORIES * EACH).map(|file| {
        let path = PathBuf::from(format!("tree/d{}/f{file}", file / EACH));
        (path, contents(file * 7919 % (40 << 10), file as u32))
    })
}

/// Makes the tree in the source; its contents are not in memory then.
fn make(below: &Below) {
    for (path, bytes) in files() {
        let path = below.source.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, bytes).expect("room");
    }
    rustix::fs::syncfs(File::open(&below.source).expect("opened")).expect("written");
    files().for_each(|(path, _)| forget(&below.source.join(path)));
}

/// Visits every file below a directory as programs do: each directory listed, its files in the order of the listing.
fn walk(directory: &Path, visit: &mut dyn FnMut(&Path)) {
    let mut below = Vec::new();
    for entry in fs::read_dir(directory).expect("listed") {
        let entry = entry.expect("listed");
        if entry.file_type().expect("reported").is_dir() {
            below.push(entry.path());
        } else {
            visit(&entry.path());
        }
    }
    below.iter().for_each(|directory| walk(directory, visit));
}

#[test]
fn a_program_that_walks_is_read_ahead_of_and_reads_what_is_there() {
    let Some(below) = Below::new("adaptive", "256M", PROFILE) else { return };
    make(&below);
    let bad = PathBuf::from("tree/d17/f430");
    below.spoil(&below.source.join(&bad), 0);
    below.set(&["--delays", "on"]);
    let mut seen = 0;
    walk(&below.point.join("tree"), &mut |path| {
        let from_root = path.strip_prefix(&below.point).expect("below it");
        let name = path.file_name().expect("named").to_str().expect("plain");
        let number_of = name[1..].parse::<usize>().expect("a number");
        let expected = contents(number_of * 7919 % (40 << 10), number_of as u32);
        match fs::read(path) {
            Err(error) => assert!(from_root == bad && number(&error) == 5, "{}: {error}", path.display()),
            Ok(_) if from_root == bad => panic!("it cannot be read"),
            Ok(bytes) => assert!(bytes == expected, "{}", path.display()),
        }
        seen += 1;
    });
    assert_eq!(seen, DIRECTORIES * EACH);
    let walks = &below.status()["walks"];
    assert!(walks["content_bytes"].as_u64() > Some(0) && walks["reads"].as_u64() > Some(0), "{walks}");
}

#[test]
fn the_engine_of_walks_replays_exactly_what_a_mount_recorded() {
    let Some(below) = Below::new("adaptive", "256M", PROFILE) else { return };
    make(&below);
    let record = below.lab.path("recording");
    below.cool_recorded("adaptive", PROFILE, &record);
    below.set(&["--delays", "on"]);
    walk(&below.point.join("tree"), &mut |path| drop(fs::read(path).expect("read")));
    below.set(&["--delays", "off"]);
    below.unmount();
    let replayed = recording::replay(&record, PROFILE);
    println!("{replayed:?}");
    assert!(
        replayed.events > DIRECTORIES * EACH / 2 && replayed.commands > 10 && !replayed.cut,
        "{replayed:?}"
    );
    // The engine of streams is recorded as well.
    let text = fs::read_to_string(&record).expect("recorded");
    assert!(text.starts_with("foreseek-recording") && text.lines().count() > EACH, "{text}");
    assert_eq!(fs::metadata(&record).expect("there").permissions().mode() & 0o777, 0o600);
}

/// Each file contains one generation, over and over. No program reads an older one than there was at its
/// open.
#[test]
fn a_walk_under_writes_reads_nothing_older_than_its_open() {
    const LENGTH: usize = PAGE;
    let Some(below) = Below::new("adaptive", "256M", PROFILE) else { return };
    let generation = |number: u64| number.to_le_bytes().repeat(LENGTH / 8);
    let latest: Vec<AtomicU64> = (0..DIRECTORIES * EACH).map(|_| AtomicU64::new(1)).collect();
    let paths: Vec<PathBuf> = files().map(|(path, _)| path).collect();
    for path in &paths {
        let path = below.source.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, generation(1)).expect("room");
    }
    rustix::fs::syncfs(File::open(&below.source).expect("opened")).expect("written");
    paths.iter().for_each(|path| forget(&below.source.join(path)));
    below.set(&["--delays", "on"]);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 2.. {
                if ended.load(SeqCst) {
                    return;
                }
                let file = number as usize * 7919 % paths.len();
                let written = File::options().write(true).open(below.point.join(&paths[file]));
                written.and_then(|to| to.write_all_at(&generation(number), 0)).expect("written");
                latest[file].store(number, SeqCst);
                if number % 3 == 0 {
                    forget(&below.source.join(&paths[file]));
                }
            }
        });
        let begun = Instant::now();
        let mut rounds = 0;
        // Two walks, and more if they are fast.
        while rounds < 2 || begun.elapsed() < Duration::from_secs(3) {
            walk(&below.point.join("tree"), &mut |path| {
                let name = path.file_name().expect("named").to_str().expect("plain");
                let file = name[1..].parse::<usize>().expect("a number");
                let before = latest[file].load(SeqCst);
                let bytes = fs::read(path).expect("read");
                let oldest =
                    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
                let oldest = oldest.min().expect("not empty");
                let right = bytes.len() == LENGTH && oldest >= before;
                if !right {
                    ended.store(true, SeqCst);
                }
                assert!(right, "{}: {} bytes of {oldest} after {before}", path.display(), bytes.len());
            });
            rounds += 1;
        }
        ended.store(true, SeqCst);
    });
}

/// The entries of a directory: names with inode numbers, in its order.
fn listing(directory: &Path) -> Vec<(Vec<u8>, u64)> {
    let entries = fs::read_dir(directory).expect("opened").map(|entry| entry.expect("listed"));
    entries.map(|entry| (entry.file_name().as_bytes().to_owned(), entry.ino())).collect()
}

/// A file's inode number, length and modification time, or the error.
fn attributes(path: &Path) -> Result<(u64, u64, i64), i32> {
    let found = fs::symlink_metadata(path).map_err(|error| number(&error))?;
    Ok((found.ino(), found.len(), found.mtime_nsec()))
}

#[test]
fn a_listing_that_waits_for_the_disk_keeps_its_order_and_an_inode_that_cannot_be_read_fails_alone() {
    const FILES: usize = 3000;
    let Some(below) = Below::new("adaptive", "256M", PROFILE) else { return };
    let directory = |root: &Path| root.join("many");
    fs::create_dir(directory(&below.source)).expect("made");
    for file in 0..FILES {
        let name = format!("{file}-{}", "n".repeat(file * 31 % 200));
        fs::write(directory(&below.source).join(name), contents(file % 100, 0)).expect("room");
    }
    let expected = listing(&directory(&below.source));
    let path = |root: &Path, name: &[u8]| directory(root).join(std::ffi::OsStr::from_bytes(name));
    let all =
        |root: &Path| -> Vec<_> { expected.iter().map(|(name, _)| attributes(&path(root, name))).collect() };
    let sound = all(&below.source);
    // Among the first, which are listed with attributes.
    let bad = path(&below.source, &expected[10].0);
    below.cool("adaptive");
    below.set(&["--delays", "on"]);
    assert_eq!(listing(&directory(&below.point)), expected);
    assert_eq!(all(&below.point), sound);

    below.cool("adaptive");
    below.spoil_inode(&bad);
    // The attributes of inodes that were just looked up arrive with the block itself.
    below.cool("adaptive");
    let seen = listing(&directory(&below.point));
    let names =
        |listing: &[(Vec<u8>, u64)]| -> Vec<_> { listing.iter().map(|(name, _)| name.clone()).collect() };
    assert_eq!(names(&seen), names(&expected));
    let (seen, outside) = (all(&below.point), all(&below.source));
    assert_eq!(seen, outside);
    let failed = seen.iter().filter(|found| **found == Err(5)).count();
    assert!((1..=PAGE / 128).contains(&failed), "those of one block: {failed}");
    let right = |(found, sound): (&Result<_, i32>, _)| found.is_err() || found == sound;
    assert!(seen.iter().zip(&sound).all(right));

    below.set(&["--fail-none"]);
    assert_eq!(all(&below.point), sound, "fixed");
    assert_eq!(listing(&directory(&below.point)), expected);
}

/// The generation of a file with one, over and over; its end may read as zeros while it is truncated.
fn generation_in(bytes: &[u8], shortened: bool) -> Option<u64> {
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight"))).collect();
    let first = words.first().copied().unwrap_or(0);
    let same = words.iter().take_while(|word| **word == first).count();
    let zeros = words[same..].iter().all(|word| *word == 0);
    (bytes.len().is_multiple_of(8) && (same == words.len() || (shortened && zeros))).then_some(first)
}

/// Files are removed, made, moved, replaced, truncated and appended to while programs walk. Each contains one
/// generation; nothing else is ever read, and at the end the mount and the source have the expected files.
#[test]
fn trees_change_under_a_walk_and_nothing_is_lost() {
    const WORDS: usize = 512;
    /// At least so many changes.
    const CHANGES: u64 = 100;
    let Some(below) = Below::new("adaptive", "256M", PROFILE) else { return };
    let bytes = |number: u64, words: usize| number.to_le_bytes().repeat(words);
    // The expected files: the generation and its number of repetitions.
    let mut model: BTreeMap<PathBuf, (u64, usize)> =
        files().enumerate().map(|(at, (path, _))| (path, (at as u64 + 1, WORDS))).collect();
    for (path, (number, words)) in &model {
        let path = below.source.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, bytes(*number, *words)).expect("room");
    }
    below.cool("adaptive");
    below.set(&["--delays", "on"]);
    let (ended, shortened) = (AtomicBool::new(false), Mutex::new(std::collections::BTreeSet::new()));
    let changes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let changer = scope.spawn(|| {
            let paths: Vec<PathBuf> = model.keys().cloned().collect();
            for step in 0usize.. {
                if ended.load(SeqCst) {
                    break;
                }
                let path = &paths[step * 7919 % paths.len()];
                let to = below.point.join(path);
                let new = (1_000_000 + step as u64, WORDS);
                match (model.get(path).copied(), step % 5) {
                    (None, _) => {
                        File::create_new(&to)
                            .and_then(|mut file| file.write_all(&bytes(new.0, new.1)))
                            .expect("made");
                        model.insert(path.clone(), new);
                    }
                    (Some(_), 0) => {
                        fs::remove_file(&to).expect("removed");
                        model.remove(path);
                    }
                    (Some(_), 1) => {
                        let beside = below.point.join("beside");
                        fs::write(&beside, bytes(new.0, new.1)).expect("made");
                        fs::rename(beside, &to).expect("replaced");
                        model.insert(path.clone(), new);
                    }
                    (Some(old), 2) => {
                        let other = &paths[(step * 104_729 + 1) % paths.len()];
                        fs::rename(&to, below.point.join(other)).expect("moved");
                        model.remove(path);
                        model.insert(other.clone(), old);
                    }
                    (Some((number, words)), 3) => {
                        shortened.lock().expect("whole").insert(number);
                        let file = File::options().write(true).open(&to).expect("opened");
                        file.set_len(words as u64 / 2 * 8).expect("shortened");
                        model.insert(path.clone(), (number, words / 2));
                    }
                    (Some((number, words)), _) => {
                        let mut file = File::options().append(true).open(&to).expect("opened");
                        file.write_all(&bytes(number, 10)).expect("appended");
                        model.insert(path.clone(), (number, words + 10));
                    }
                }
                changes.fetch_add(1, SeqCst);
            }
        });
        let begun = Instant::now();
        let mut wrong = None;
        // Some seconds, and more where changes are slow.
        let goes_on = || {
            let took = begun.elapsed();
            took < Duration::from_secs(5) || (changes.load(SeqCst) <= CHANGES && took < LIMIT)
        };
        while wrong.is_none() && !changer.is_finished() && goes_on() {
            let _ = walk_what_changes(&below.point.join("tree"), &mut |path| match fs::read(path) {
                Ok(bytes) => {
                    let first = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
                    let shortened = shortened.lock().expect("whole").contains(&first);
                    if generation_in(&bytes, shortened).is_none() {
                        wrong = Some((path.to_owned(), bytes.len(), first));
                    }
                }
                Err(error) => assert_eq!(number(&error), 2, "{}: it has gone", path.display()),
            });
        }
        ended.store(true, SeqCst);
        changer.join().expect("it goes on");
        assert_eq!(wrong, None);
    });
    assert!(changes.load(SeqCst) > CHANGES, "{changes:?} changes");
    for root in [&below.point, &below.source] {
        let mut found = BTreeMap::new();
        walk(&root.join("tree"), &mut |path| {
            let bytes = fs::read(path).expect("read");
            let number = generation_in(&bytes, false).expect("one generation");
            found.insert(path.strip_prefix(root).expect("below it").to_owned(), (number, bytes.len() / 8));
        });
        // An empty file has no generation.
        let words = |model: &BTreeMap<PathBuf, (u64, usize)>| -> BTreeMap<PathBuf, (u64, usize)> {
            model
                .iter()
                .map(|(path, (number, words))| (path.clone(), (if *words > 0 { *number } else { 0 }, *words)))
                .collect()
        };
        assert!(found == words(&model), "{}", root.display());
    }
}

/// The same as [`walk`] for names that may be removed meanwhile.
fn walk_what_changes(directory: &Path, visit: &mut dyn FnMut(&Path)) -> std::io::Result<()> {
    let mut below = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { below.push(entry.path()) } else { visit(&entry.path()) }
    }
    below.iter().try_for_each(|directory| walk_what_changes(directory, visit))
}

/// Whether the first page of a file of the source is in memory.
fn is_in_memory(path: &Path) -> bool {
    let file = File::open(path).expect("it is there");
    let mut byte = [0];
    rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT).is_ok()
}

#[test]
fn a_walker_without_permission_gets_the_errors_of_outside_and_nothing_is_read_ahead() {
    const NOBODY: u32 = 65_534;
    let Some(below) = Below::new("adaptive", "256M", PROFILE) else { return };
    for place in [&below.lab.directory, &below.lab.mount_point()] {
        fs::set_permissions(place, Permissions::from_mode(0o755)).expect("ours");
    }
    make(&below);
    let closed = |root: &Path| [root.join("tree/d5"), root.join("tree/d11")];
    // One cannot be listed, one can be listed and not searched.
    for (path, mode) in closed(&below.source).iter().zip([0o700, 0o744]) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }
    let secret = |file: &PathBuf| file.parent() == Some(Path::new("tree/d3")) && file.ends_with("f80");
    for (path, _) in files().filter(|(path, _)| secret(path)) {
        fs::set_permissions(below.source.join(path), Permissions::from_mode(0o600)).expect("ours");
    }
    below.cool("adaptive");
    below.set(&["--delays", "on"]);
    let listed = |root: &Path| {
        let mut command = Command::new("sh");
        command.args(["-c", "find tree -type f -exec cksum {} + 2>&1; true"]).current_dir(root);
        let ended = below.lab.run(command.uid(NOBODY).gid(NOBODY).env("LC_ALL", "C"));
        let mut lines: Vec<String> = ended.out.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let seen = listed(&below.point);
    let walks = &below.status()["walks"];
    assert!(walks["content_bytes"].as_u64() > Some(0), "{walks}");
    let mut others = 0;
    for (path, _) in files().filter(|(_, bytes)| !bytes.is_empty()) {
        let hidden = closed(Path::new("")).iter().any(|closed| path.starts_with(closed)) || secret(&path);
        let there = is_in_memory(&below.source.join(&path));
        assert!(!hidden || !there, "{} was read for a user without permission", path.display());
        others += usize::from(there);
    }
    assert!(others > DIRECTORIES * EACH / 2, "what it may read was: {others}");
    let refused = seen.iter().filter(|line| line.contains("Permission denied")).count();
    assert!(refused >= 2 && seen.len() > DIRECTORIES * EACH * 3 / 4, "{refused} of {}", seen.len());
    assert_eq!(seen, listed(&below.source));
}
