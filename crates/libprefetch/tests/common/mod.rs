//! A host program: files of numbered pages on a real file system, read through a client.
#![allow(dead_code, unreachable_pub, clippy::print_stdout)]

use foreseek_hints::Stats;
use foreseek_libprefetch::{CallbackRequest, Client, Entry, HintMode, Settings};
use foreseek_storage::{HostFd, cachestat, dont_need};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, PageIndex, PageSpan, Pages};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

pub const PAGE: u64 = 4096;

/// How many of so many pages a kernel may evict by itself: a memory monitor (DAMON) reclaims any that look idle
/// to it, even new ones in old frames.
pub fn evicted_at_most(pages: u64) -> u64 {
    pages / 100
}

/// The most repeats of a run in which the kernel has evicted more than that: such pages are read again, in
/// further rounds.
const REPEATS: usize = 5;

/// Returns the first of a few runs in which the kernel has evicted few of so many pages, by the engine's own
/// count; the last one if there is none.
pub fn undisturbed<T>(pages: u64, mut run: impl FnMut() -> Option<(T, Stats)>) -> Option<(T, Stats)> {
    let mut last = run()?;
    for _ in 1..REPEATS {
        if last.1.evicted.get() <= evicted_at_most(pages) {
            break;
        }
        println!("the kernel evicted {} of {pages} pages: once more", last.1.evicted);
        last = run()?;
    }
    Some(last)
}

/// Whether these are so many pages, less those that a kernel may evict.
pub fn nearly(seen: u64, pages: u64) -> bool {
    (pages - evicted_at_most(pages)..=pages).contains(&seen)
}

/// The page of a test file: its number and the file's, repeated.
pub fn page(file: u32, number: u64) -> Vec<u8> {
    let mut word = Vec::from(number.to_le_bytes());
    word.extend(u64::from(file).to_le_bytes());
    word.repeat(PAGE as usize / 16)
}

/// Writes a file of `pages` pages at `path` and evicts it from memory if the kernel allows it.
pub fn write_file(path: &Path, file: u32, pages: u64) -> File {
    let mut handle = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    let mut all = Vec::new();
    for number in 0..pages {
        all.extend(page(file, number));
    }
    handle.write_all(&all).unwrap();
    handle.sync_all().unwrap();
    chill(&handle);
    handle
}

/// A folder on the disk that holds the build: a tmpfs ignores advice.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub fn host(file: &File) -> HostFd {
    HostFd::new(file.as_raw_fd()).unwrap()
}

pub fn span(start: u64, pages: u64) -> PageSpan {
    PageSpan::at(PageIndex(start), Pages(pages))
}

pub fn bytes(start: u64, pages: u64) -> ByteSpan {
    span(start, pages).bytes()
}

/// Drops a file's pages from memory.
pub fn chill(file: &File) {
    let pages = file.metadata().unwrap().len().div_ceil(PAGE);
    dont_need(host(file), span(0, pages)).unwrap();
}

/// How many pages of a range are in memory or in flight; `None` if that is not known.
pub fn resident(file: &File, range: PageSpan) -> Option<u64> {
    cachestat(host(file), range).ok().map(Pages::get)
}

/// Whether residency is visible here and the file is cold; otherwise prints that the test is skipped.
pub fn is_cold(file: &File) -> bool {
    let pages = file.metadata().unwrap().len().div_ceil(PAGE);
    match resident(file, span(0, pages)) {
        Some(0) => true,
        Some(left) => {
            println!("SKIPPED: {left} pages stay in memory: the build folder's file system keeps them");
            false
        }
        None => {
            println!("SKIPPED: no cachestat: Linux 6.5 or later has it");
            false
        }
    }
}

/// The numbers below `n`, shuffled, the same for the same seed.
pub fn shuffled(n: u64, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut numbers: Vec<u64> = (0..n).collect();
    for at in (1..numbers.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers.swap(at, (state % (at as u64 + 1)) as usize);
    }
    numbers
}

pub fn memory(pages: u64) -> Settings {
    let mut settings = Settings::default();
    settings.policy.memory = Some(Pages(pages));
    settings.infill = Some(Bytes::ZERO);
    settings
}

pub fn entries(fd: RawFd, pages: &[u64]) -> Vec<Entry> {
    pages.iter().map(|page| Entry { fd, offset: ByteOffset(page * PAGE), mark: false }).collect()
}

/// Reads a page as a host does, and checks that it is what was written.
pub fn read_page(
    client: &Client,
    file: &File,
    id: u32,
    number: u64,
    ask: &mut dyn FnMut(&Client, CallbackRequest),
) {
    client.before_read(file.as_raw_fd(), bytes(number, 1), ask);
    let mut got = vec![0; PAGE as usize];
    file.read_exact_at(&mut got, number * PAGE).unwrap();
    assert!(got == page(id, number), "page {number} of file {id} is not what was written");
}

/// The answer of an application that has its whole order ready: all from the page in question.
pub fn announce_rest(order: &[u64], fd: RawFd) -> impl FnMut(&Client, CallbackRequest) {
    move |client, want| {
        let at = order.iter().position(|page| page * PAGE == want.requested.1.get()).unwrap();
        client.hint(HintMode::Set, &entries(fd, &order[at..]), true).unwrap();
    }
}
