//! Many at a time: open files, known files, readers.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

mod common;

use common::{Random, mounted, mounted_with, raise_descriptor_limit};
use foreseek_mount::{Policy, client};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Open files; the server has as many descriptors.
const OPEN: u64 = 5000;
/// Readers, each a thread with an open file.
const READERS: usize = 1024;
/// Files known to the kernel where each takes a descriptor, and the number of descriptors.
const KNOWN: usize = 3000;
const DESCRIPTORS: u64 = 1000;

/// The byte at an offset of a file, made from both.
fn byte(file: u64, at: u64) -> u8 {
    (file.wrapping_mul(131) ^ at ^ (at >> 8)) as u8
}

#[test]
fn thousands_of_files_are_open_at_a_time() {
    let Some(mount) = mounted(Policy::PLAIN) else { return };
    let limit = raise_descriptor_limit();
    if limit < OPEN + 1000 {
        return println!("SKIPPED: {limit} descriptors are all that this process may have (ulimit -Hn)");
    }
    let path = |number: u64| mount.point.join(format!("file {number}"));
    let files: Vec<File> = (0..OPEN)
        .map(|number| {
            fs::write(path(number), [byte(number, 0); 100]).expect("written");
            File::open(path(number)).expect("opened")
        })
        .collect();
    // The kernel reports the closes of the writers some time after them.
    common::wait_for("those that are open, and no others", || {
        client::status(&mount.point).expect("status").files_open == OPEN
    });
    for (number, file) in files.iter().enumerate() {
        let mut read = [0; 100];
        file.read_exact_at(&mut read, 0).expect("read");
        assert_eq!(read, [byte(number as u64, 0); 100]);
    }
    drop(files);
    common::wait_for("all to be closed", || {
        client::status(&mount.point).is_ok_and(|status| status.files_open == 0)
    });
}

#[test]
fn a_thousand_readers_get_their_bytes() {
    const LENGTH: u64 = 256 << 10;
    for policy in [Policy::PLAIN, Policy::COMPETITIVE] {
        let Some(mount) = mounted(policy) else { return };
        raise_descriptor_limit();
        // Fewer files than readers: some readers share.
        for number in 0..64 {
            let bytes: Vec<u8> = (0..LENGTH).map(|at| byte(number, at)).collect();
            fs::write(mount.source.join(format!("{number}")), bytes).expect("written");
        }
        let all_open = Arc::new(std::sync::Barrier::new(READERS));
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let number = reader as u64 % 64;
                let path = mount.point.join(format!("{number}"));
                let all_open = Arc::clone(&all_open);
                let read = move || {
                    let file = File::open(path).expect("opened");
                    all_open.wait();
                    let mut random = Random(reader as u64);
                    let mut bytes = vec![0; 64 << 10];
                    for _ in 0..8 {
                        let at = random.below(LENGTH);
                        let read = file.read_at(&mut bytes, at).expect("read");
                        let right = (at..).zip(&bytes[..read]).all(|(at, found)| *found == byte(number, at));
                        assert!(right && read > 0, "reader {reader} at {at}");
                    }
                };
                std::thread::Builder::new().stack_size(256 << 10).spawn(read).expect("a thread")
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
        assert_eq!(client::status(&mount.point).expect("status").reads.failed, 0);
    }
}

#[test]
fn more_files_are_known_than_there_are_descriptors() {
    let Some(mount) = mounted_with(Policy::PLAIN, |options| {
        options.use_handles = false;
        options.descriptors = Some(DESCRIPTORS);
    }) else {
        return;
    };
    let path = |number: usize| mount.point.join(format!("file {number}"));
    for number in 0..KNOWN {
        fs::write(path(number), number.to_string()).expect("written");
    }
    for number in 0..KNOWN {
        assert_eq!(fs::read_to_string(path(number)).expect("read"), number.to_string());
    }
    assert_eq!(fs::read_dir(&mount.point).expect("read").count(), KNOWN);
    let open = fs::read_dir(format!("/proc/{}/fd", mount.pid())).expect("listed").count() as u64;
    assert!(open <= DESCRIPTORS, "{open}");
}

#[test]
fn when_the_server_has_no_descriptors_left_opening_fails_and_nothing_else() {
    let Some(mut mount) = mounted_with(Policy::ADAPTIVE, |options| options.descriptors = Some(DESCRIPTORS))
    else {
        return;
    };
    raise_descriptor_limit();
    let point = mount.point.clone();
    let path = |number: usize| point.join(format!("file {number}"));
    for number in 0..KNOWN {
        fs::write(mount.source.join(format!("file {number}")), [byte(number as u64, 0); 100])
            .expect("written");
    }
    let mut open = Vec::new();
    let refused = loop {
        match File::open(path(open.len())) {
            Ok(file) => open.push(file),
            Err(error) => break error,
        }
        assert!(open.len() < KNOWN, "so many descriptors it does not have");
    };
    println!("{} files were open: {refused}", open.len());
    assert_eq!(client::status(&mount.point).expect("it answers all the same").files_open, open.len() as u64);
    assert_eq!(refused.raw_os_error(), Some(libc::ENFILE), "{refused}");
    let refused = File::create(point.join("new")).expect_err("neither can one be made");
    assert_eq!(refused.raw_os_error(), Some(libc::ENFILE), "{refused}");
    assert!(!mount.source.join("new").exists());
    for (number, file) in open.iter().enumerate() {
        let mut read = [0; 100];
        file.read_exact_at(&mut read, 0).expect("read");
        assert_eq!(read, [byte(number as u64, 0); 100]);
    }
    let half = open.len() / 2;
    open.truncate(half);
    common::wait_for("descriptors to be free again", || File::open(path(KNOWN - 1)).is_ok());
    assert_eq!(client::status(&mount.point).expect("status").reads.failed, 0);
    // It ends in order, even with the most open files.
    while let Ok(file) = File::open(path(open.len())) {
        open.push(file);
    }
    mount.send(rustix::process::Signal::TERM);
    common::wait_for("the mount to be out of the tree", || {
        foreseek_server::mount_table::mounted_on(&point).is_none()
    });
    drop(open);
    assert!(mount.wait(), "in order");
}
