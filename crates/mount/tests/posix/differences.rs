//! Differences from a plain directory by design; docs/use/mount.md lists them for users.

use crate::common::mounted;
use foreseek_mount::Policy;
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock, open};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

#[test]
fn a_file_without_a_name_cannot_be_made() {
    let Some(mount) = mounted(Policy::PLAIN) else { return };
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    assert_eq!(open(&mount.point, flags, Mode::from_raw_mode(0o600)).err(), Some(Errno::OPNOTSUPP));
}

#[test]
fn ranges_are_neither_collapsed_nor_inserted() {
    let Some(mount) = mounted(Policy::PLAIN) else { return };
    let file = File::create(mount.point.join("a")).expect("made");
    file.write_all_at(&[1; 16_384], 0).expect("written");
    for mode in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        assert_eq!(fallocate(&file, mode, 4096, 4096), Err(Errno::OPNOTSUPP));
    }
}

#[test]
fn direct_io_need_not_be_aligned() {
    let Some(mount) = mounted(Policy::PLAIN) else { return };
    std::fs::write(mount.point.join("a"), "0123456789").expect("written");
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = File::from(open(mount.point.join("a"), flags, Mode::empty()).expect("opened"));
    let mut bytes = [0; 3];
    assert_eq!(file.read_at(&mut bytes, 5).expect("read"), 3);
    assert_eq!(&bytes, b"567");
}

#[test]
fn locks_are_between_users_of_the_mount() {
    let Some(mount) = mounted(Policy::PLAIN) else { return };
    let inside = File::create(mount.point.join("a")).expect("made");
    let outside = File::open(mount.source.join("a")).expect("opened");
    flock(&inside, FlockOperation::NonBlockingLockExclusive).expect("locked");
    flock(&outside, FlockOperation::NonBlockingLockExclusive).expect("not seen from outside");
}
