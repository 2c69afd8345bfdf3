//! Everything at once: clients and threads that watch, hint, read, ignore, close, shrink and fork in any order.
//! In all orders, programs read what was written, nothing hangs, and the library stays on.
#![allow(clippy::print_stdout)]

mod common;

use common::*;
use foreseek_libprefetch::guest::is_aside;
use foreseek_libprefetch::{Client, Entry, HintMode, Region};
use foreseek_units::ByteOffset;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FILES: u32 = 4;
const PAGES: u64 = 300;
const THREADS: u64 = 6;
const CLIENTS: usize = 3;
/// Long enough for some ten thousand calls on two cores.
const RUN: Duration = Duration::from_secs(3);
const HANG: Duration = Duration::from_secs(60);

/// xorshift: HAMMER_SEED replays each thread's choices (not how the threads interleave).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

struct Hammer<'a> {
    random: Random,
    paths: &'a [PathBuf],
    clients: &'a [Client],
    files: Vec<Option<File>>,
    regions: Vec<(usize, Region)>,
}

impl Hammer<'_> {
    fn file(&mut self, at: usize) -> &File {
        let path = &self.paths[at];
        self.files[at].get_or_insert_with(|| File::open(path).unwrap())
    }

    fn step(&mut self) {
        let at = self.random.below(u64::from(FILES)) as usize;
        let which = self.random.below(CLIENTS as u64) as usize;
        let (start, pages) = (self.random.below(PAGES), 1 + self.random.below(60));
        let fd = self.file(at).as_raw_fd();
        let client = &self.clients[which];
        match self.random.below(100) {
            0..4 => {
                if let Ok(region) = client.watch(fd, bytes(start, pages)) {
                    self.regions.push((which, region));
                }
            }
            4..7 => {
                if let Some((which, region)) = self.regions.pop() {
                    self.clients[which].unwatch(region).unwrap();
                }
            }
            7..12 => {
                let mode =
                    [HintMode::Set, HintMode::Append, HintMode::SetFromMark][self.random.below(3) as usize];
                let hint = self.hint(pages * 4);
                let _ = client.hint(mode, &hint, pages % 2 == 0);
            }
            12..14 => {
                client.ignore();
                self.read(which, at, start);
                assert!(client.unignore());
            }
            14..16 => {
                self.clients.iter().for_each(|client| client.closed(fd));
                self.files[at] = None;
            }
            16..17 => chill(self.file(at)),
            17..18 => drop(client.stats()),
            _ => self.read(which, at, start),
        }
    }

    /// Accesses of any file, some of them beyond its end, some on invalid descriptors.
    fn hint(&mut self, length: u64) -> Vec<Entry> {
        (0..length)
            .map(|_| {
                let at = self.random.below(u64::from(FILES)) as usize;
                let fd = if self.random.below(500) == 0 { 999_999 } else { self.file(at).as_raw_fd() };
                let offset = ByteOffset(self.random.below(PAGES * 5 / 4) * PAGE + self.random.below(PAGE));
                Entry { fd, offset, mark: self.random.below(10) == 0 }
            })
            .collect()
    }

    fn read(&mut self, which: usize, at: usize, number: u64) {
        let hint = if self.random.below(3) == 0 { Vec::new() } else { self.hint(40) };
        let file = self.files[at].take().unwrap_or_else(|| File::open(&self.paths[at]).unwrap());
        let client = &self.clients[which];
        read_page(client, &file, at as u32, number, &mut |client, _| {
            let _ = client.hint(HintMode::Set, &hint, hint.len() % 2 == 0);
            client.before_read(file.as_raw_fd(), bytes(0, 1), &mut |_, _| panic!("asked within a question"));
        });
        self.files[at] = Some(file);
    }
}

#[test]
fn everything_at_once() {
    let folder = folder();
    let paths: Vec<PathBuf> = (0..FILES).map(|id| folder.path().join(id.to_string())).collect();
    for (id, path) in paths.iter().enumerate() {
        write_file(path, id as u32, PAGES);
    }
    let mut small = memory(100);
    small.policy.list_limit = 1024;
    let clients = [Client::new(small), Client::new(memory(2000)), Client::new(memory(400))];
    let fresh = u64::from(std::process::id()) << 20 | 0xF0E5;
    let seed = std::env::var("HAMMER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(fresh | 1);
    println!("seed {seed}");
    let done = AtomicBool::new(false);
    let end = Instant::now() + RUN;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let limit = Instant::now() + HANG;
            while !done.load(Ordering::Relaxed) {
                if Instant::now() > limit {
                    println!("hangs with seed {seed}");
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (paths, clients) = (&paths, &clients);
                scope.spawn(move || {
                    let mut hammer = Hammer {
                        random: Random(seed.wrapping_mul(thread * 2 + 1)),
                        paths,
                        clients,
                        files: (0..FILES).map(|_| None).collect(),
                        regions: Vec::new(),
                    };
                    let mut steps = 0u64;
                    while Instant::now() < end {
                        hammer.step();
                        steps += 1;
                    }
                    steps
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        let steps: u64 = results.into_iter().map(|result| result.expect("a thread failed")).sum();
        println!("{steps} steps");
    });
    assert!(!is_aside(), "the library stepped aside: something inside failed");
    let reads: u64 = clients.iter().map(|client| client.stats().engine.reads).sum();
    let rounds: u64 = clients.iter().map(|client| client.stats().engine.rounds).sum();
    println!("{reads} watched reads, {rounds} rounds");
    assert!(reads > 100 && rounds > 0);
}
