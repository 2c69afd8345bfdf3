//! Programs that walk trees through a mount over an emulated disk: they are read ahead of, what they read is what the files
//! hold, whoever writes meanwhile, and what the disk cannot read fails nothing else.
//!
//! They need root, FUSE and loop devices, and skip loudly without them.
#![allow(clippy::print_stdout, reason = "tests that are skipped say so")]

#[path = "faults/below.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod below;
#[path = "disk/lab.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod lab;

use below::{Below, PAGE, contents, forget, number};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const PROFILE: &str = "barracuda-500g";
const DIRECTORIES: usize = 24;
const EACH: usize = 25;

/// The files of the tree, by their paths from its root, and what they hold.
fn files() -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
    (0..DIRECTORIES * EACH).map(|file| {
        let path = PathBuf::from(format!("tree/d{}/f{file}", file / EACH));
        (path, contents(file * 7919 % (40 << 10), file as u32))
    })
}

/// Makes the tree in the source; none of its contents are in memory then.
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
        if entry.file_type().expect("told").is_dir() {
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

/// Each file holds one generation, over and over. Nobody reads an older one than was there when it was opened.
#[test]
fn a_walk_reads_nothing_older_than_what_was_there_whoever_writes() {
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
        // Two walks, and more where they are quick.
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
