//! The behaviour of an array towards its driver.

mod common;

use common::{build, mb_per_s, one_by_one, random, read, run, write};
use foreseek_device::{Build, Counters, Device, Outcome, Profile};
use foreseek_units::{Bytes, Lba, Nanos, SectorSpan, Sectors};

/// Pages of a strip of `raid5-5x-15k`.
const STRIP: u64 = 32;

fn raid5(failed_member: Option<usize>) -> Box<dyn Device> {
    build("raid5-5x-15k", &Build { failed_member, ..Build::default() })
}

fn one(device: &mut dyn Device, io: (foreseek_device::Op, SectorSpan)) -> (Nanos, Outcome, Counters) {
    let before = device.counters();
    let (time, done) = run(device, 1, &[io]);
    let after = device.counters();
    let delta = Counters { busy: after.busy - before.busy, seeks: after.seeks - before.seeks, ..after };
    (time, done[0].outcome, delta)
}

#[test]
fn a_sequential_reader_gets_the_rate_of_all_data_members() {
    let ios: Vec<_> = (0..2000).map(|i| read(i * 128, 128)).collect();
    let rate = |device: &mut dyn Device, depth| mb_per_s(2000 * 128, run(device, depth, &ios).0);
    let whole = rate(&mut *raid5(None), 16);
    // Four of five strips of a row are data, so four times a member's 96 MB/s outside.
    assert!((whole / (4.0 * 96.0) - 1.0).abs() < 0.05, "{whole} MB/s");
    let degraded = rate(&mut *raid5(Some(2)), 16);
    assert!((0.6..1.05).contains(&(degraded / whole)), "{degraded} MB/s of {whole}");
    let raid0 = rate(&mut *build("raid0-2x-seagate", &Build::default()), 16);
    assert!((raid0 / 80.9 - 1.0).abs() < 0.02, "{raid0} MB/s over the controller");
}

#[test]
fn small_random_reads_go_to_all_heads_at_once() {
    let rate = |name: &str, depth: usize| {
        let mut device = build(name, &Build::default());
        let pages = device.capacity().get() / 8 - 1;
        let ios: Vec<_> = random(3, pages, 4000).into_iter().map(|page| read(page, 1)).collect();
        4000.0 / run(&mut *device, depth, &ios).0.as_secs_f64()
    };
    let (alone, many) = (rate("raid5-5x-15k", 1), rate("raid5-5x-15k", 40));
    assert!(many > 5.0 * alone, "{alone}, {many} reads a second");
    let (disk, array) = (rate("seagate-146g", 8), rate("raid0-2x-seagate", 16));
    assert!((1.8..2.3).contains(&(array / disk)), "{disk}, {array} reads a second");
}

/// Reading old data and parity, and writing both a revolution later.
#[test]
fn a_small_write_takes_a_read_and_a_revolution_more() {
    let mut device = raid5(None);
    let pages = random(9, device.capacity().get() / 8 - 1, 400);
    let writes: Vec<_> = pages.iter().map(|page| write(*page, 1)).collect();
    let reads: Vec<_> = pages.iter().map(|page| read(*page, 1)).collect();
    let mean = |ios: &[_]| {
        let times = one_by_one(&mut *raid5(None), Nanos::ZERO, ios);
        times.iter().map(|time| time.as_millis_f64()).sum::<f64>() / times.len() as f64
    };
    let (written, read) = (mean(&writes), mean(&reads));
    // A revolution takes 4 ms; the slower of two members decides when it begins.
    assert!((3.5..6.5).contains(&(written - read)), "{written}, {read} ms");
    let (_, outcome, counters) = one(&mut *device, writes[0]);
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(counters.written, Bytes(4096), "what the host wrote, not what the members wrote");
}

#[test]
fn a_whole_row_is_written_without_reading() {
    let row = STRIP * 4;
    let (whole, ..) = one(&mut *raid5(None), write(row * 100, row));
    let (part, ..) = one(&mut *raid5(None), write(row * 100, row - 1));
    // Without its last page the row has to be read in part first: a revolution more.
    assert!(part > whole + Nanos::from_millis(2), "{whole}, {part}");
}

#[test]
fn a_lost_member_is_read_around_and_two_lost_strips_of_a_row_are_lost() {
    for failed in 0..5 {
        let mut device = raid5(Some(failed));
        let ios: Vec<_> =
            (0..300).map(|i| if i % 3 == 0 { write(i * 37, 40) } else { read(i * 53, 70) }).collect();
        let (_, done) = run(&mut *device, 16, &ios);
        assert!(done.iter().all(|one| one.outcome == Outcome::Done), "member {failed} has failed");
    }
    // Row 0 has its data on members 0 to 3. An unreadable sector on member 1 is reconstructed, also
    // for a write that needs the old data; not with another member gone.
    let bad = SectorSpan::at(Lba(STRIP * 8 + 16), Sectors(8));
    let with = |failed_member| {
        build("raid5-5x-15k", &Build { unreadable: vec![bad], failed_member, ..Build::default() })
    };
    let page = STRIP + 2;
    assert_eq!(one(&mut *with(None), read(page, 1)).1, Outcome::Done);
    assert_eq!(one(&mut *with(None), read(0, 4 * STRIP)).1, Outcome::Done);
    assert_eq!(one(&mut *with(None), write(page, 1)).1, Outcome::Done);
    assert_eq!(one(&mut *with(Some(0)), read(page, 1)).1, Outcome::Failed);
    assert_eq!(
        one(&mut *with(Some(1)), read(page, 1)).1,
        Outcome::Done,
        "the bad sector is on the lost member"
    );
    assert_eq!(one(&mut *with(Some(0)), read(page + 1, 1)).1, Outcome::Done, "beside the bad sector");
    assert_eq!(one(&mut *with(Some(0)), read(0, 1)).1, Outcome::Done, "needs member 1 elsewhere");
    assert_eq!(one(&mut *with(Some(0)), read(2, 1)).1, Outcome::Failed, "needs member 1 just there");
}

#[test]
fn lost_data_of_a_raid_0_stay_lost() {
    let mut device = build("raid0-2x-seagate", &Build { failed_member: Some(1), ..Build::default() });
    // Strips of 64 KiB: 16 pages on member 0, the next 16 on member 1.
    let ios = [read(0, 16), read(16, 1), read(15, 2), read(32, 16), write(16, 1), write(32, 1)];
    let (_, mut done) = run(&mut *device, 1, &ios);
    done.sort_by_key(|one| one.id);
    let outcomes: Vec<_> = done.iter().map(|one| one.outcome == Outcome::Done).collect();
    assert_eq!(outcomes, [true, false, false, true, false, true]);
}

#[test]
fn the_members_are_as_large_as_the_array_needs() {
    for size in [Bytes::mib(1), Bytes(1_000_448), Bytes::gib(3)] {
        let size = size.max(Bytes::mib(1));
        let device = build("raid5-5x-15k", &Build { size: Some(size), ..Build::default() });
        assert_eq!(device.capacity().bytes(), size);
    }
    let profile = Profile::builtin("raid5-5x-15k").expect("built in");
    let whole = profile.build(&Build::default()).expect("a device");
    assert_eq!(whole.capacity().bytes(), profile.capacity());
    let last = profile.capacity().pages_floor().get() - 1;
    assert_eq!(one(&mut *raid5(None), read(last, 1)).1, Outcome::Done);
}
