//! The shared parts of the tests: devices, drivers, reproducible numbers.
#![allow(dead_code, reason = "each test uses a part of it")]

use foreseek_device::{Build, Device, Finished, Io, IoId, Op, Profile};
use foreseek_units::{Instant, Lba, Nanos, Pages, SectorSpan};

/// Profiles of the tests: a disk with every key of an extracted drive, and an array of such disks.
const OWN: [(&str, &str); 2] = [
    ("extracted", include_str!("extracted.toml")),
    ("raid5-extracted", include_str!("raid5-extracted.toml")),
];

/// A built-in profile or one of the tests' own.
pub(crate) fn profile(name: &str) -> Profile {
    match OWN.iter().find(|(own, _)| *own == name) {
        Some((_, text)) => Profile::parse(name, text).unwrap_or_else(|error| panic!("{error}")),
        None => Profile::builtin(name).unwrap_or_else(|| panic!("{name} is built in")),
    }
}

/// A built-in device, or one of the tests' own.
pub(crate) fn build(name: &str, options: &Build) -> Box<dyn Device> {
    let profile = profile(name);
    profile.build(options).unwrap_or_else(|error| panic!("{error}"))
}

/// Keeps `depth` requests in the device until all are done; returns the time and the completions.
pub(crate) fn run(device: &mut dyn Device, depth: usize, ios: &[(Op, SectorSpan)]) -> (Nanos, Vec<Finished>) {
    let (mut now, mut next, mut all, mut done) = (Instant::ZERO, 0, Vec::new(), Vec::new());
    let mut flying = 0;
    while next < ios.len() || flying > 0 {
        while flying < depth && next < ios.len() {
            let (op, range) = ios[next];
            device.submit(now, Io { id: IoId(next as u64), op, range }).expect("room in the queue");
            (next, flying) = (next + 1, flying + 1);
        }
        now = device.next().expect("requests are under way");
        device.advance(now, &mut done);
        flying -= done.len();
        all.append(&mut done);
    }
    assert_eq!(device.next(), None);
    (now - Instant::ZERO, all)
}

/// Sends one request after the other, `pause` after each answer; returns how long each took.
pub(crate) fn one_by_one(device: &mut dyn Device, pause: Nanos, ios: &[(Op, SectorSpan)]) -> Vec<Nanos> {
    let (mut now, mut done, mut times) = (Instant::ZERO, Vec::new(), Vec::new());
    for (id, (op, range)) in ios.iter().enumerate() {
        device
            .submit(now, Io { id: IoId(id as u64), op: *op, range: *range })
            .expect("an idle device has room");
        while done.is_empty() {
            device.advance(device.next().expect("a request is under way"), &mut done);
        }
        let one: Finished = done.remove(0);
        times.push(one.at - now);
        now = one.at + pause;
        device.advance(now, &mut done);
    }
    times
}

/// A read of pages.
pub(crate) fn read(page: u64, pages: u64) -> (Op, SectorSpan) {
    (Op::Read, SectorSpan::at(Lba(page * 8), Pages(pages).sectors()))
}

/// A write of pages.
pub(crate) fn write(page: u64, pages: u64) -> (Op, SectorSpan) {
    (Op::Write, read(page, pages).1)
}

/// `count` numbers below `below`.
pub(crate) fn random(seed: u64, below: u64, count: usize) -> Vec<u64> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The rate for this many pages, in MB/s.
pub(crate) fn mb_per_s(pages: u64, time: Nanos) -> f64 {
    pages as f64 * 4096.0 / 1e6 / time.as_secs_f64()
}
