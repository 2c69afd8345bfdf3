//! Block devices, and a device that fails: a loop device over a file that is then cut short.
#![allow(clippy::print_stdout)]

mod common;

use common::*;
use foreseek_libprefetch::{Client, HintMode};
use foreseek_storage::loop_device::{LoopDevice, LoopOptions};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const PAGES: u64 = 1000;

/// Detaches the loop device, even when the test fails.
struct Detach(LoopDevice);

impl Drop for Detach {
    fn drop(&mut self) {
        let _ = self.0.clear(Duration::from_secs(10));
    }
}

fn attach(file: &File, path: &Path) -> Option<Detach> {
    let options = LoopOptions::DISK;
    match LoopDevice::attach(file, path, options) {
        Ok(device) => Some(Detach(device)),
        Err(error) => {
            println!("SKIPPED: {error}");
            None
        }
    }
}

#[test]
fn a_block_device_is_prefetched_like_a_file() {
    let folder = folder();
    let path = folder.path().join("backing");
    let backing = write_file(&path, 1, PAGES);
    let Some(device) = attach(&backing, &path) else { return };
    let node = File::open(device.0.path()).unwrap();
    dont_need_all(&node);
    let client = Client::new(memory(4000));
    client.watch(node.as_raw_fd(), bytes(0, PAGES)).unwrap();
    let order = shuffled(PAGES, 1);
    let mut ask = announce_rest(&order, node.as_raw_fd());
    for number in &order {
        read_page(&client, &node, 1, *number, &mut ask);
    }
    let stats = client.stats().engine;
    assert_eq!((stats.rounds, stats.fetched.get()), (1, PAGES), "{stats:?}");
    assert!(stats.evicted.get() <= evicted_at_most(PAGES), "{stats:?}");
    client.closed(node.as_raw_fd());
}

/// A page that cannot be read gives its reader the error, and the others are not affected.
#[test]
fn a_device_that_fails_gives_the_host_its_own_error() {
    let folder = folder();
    let path = folder.path().join("backing");
    let backing = write_file(&path, 2, PAGES);
    let Some(device) = attach(&backing, &path) else { return };
    backing.set_len(PAGES / 2 * PAGE).unwrap();
    let node = File::open(device.0.path()).unwrap();
    dont_need_all(&node);
    let client = Client::new(memory(200));
    client.watch(node.as_raw_fd(), bytes(0, PAGES)).unwrap();
    let order = shuffled(PAGES, 2);
    client.hint(HintMode::Set, &entries(node.as_raw_fd(), &order), true).unwrap();
    let (mut good, mut bad) = (0, 0);
    for number in &order {
        client.before_read(node.as_raw_fd(), bytes(*number, 1), &mut |_, _| ());
        let mut got = vec![0; PAGE as usize];
        match node.read_exact_at(&mut got, number * PAGE) {
            Ok(()) => {
                assert!(*number < PAGES / 2 && got == page(2, *number), "page {number}");
                good += 1;
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EIO), "page {number}");
                assert!(*number >= PAGES / 2, "page {number} is there");
                bad += 1;
            }
        }
    }
    assert_eq!((good, bad), (PAGES / 2, PAGES / 2));
    let stats = client.stats().engine;
    assert!(stats.used.get() > PAGES / 4, "the good pages are prefetched on: {stats:?}");
    assert!(!foreseek_libprefetch::guest::is_aside());
}

/// Drops the node's pages from memory.
fn dont_need_all(node: &File) {
    foreseek_storage::dont_need(host(node), span(0, PAGES)).unwrap();
}
