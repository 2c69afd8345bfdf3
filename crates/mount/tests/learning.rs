//! Learning of streams by a mount: by the files' kinds, over a restart, and without harm from damaged state.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

mod common;

use common::{TestMount, mounted};
use foreseek_mount::{MountStatus, Policy, client};
use foreseek_readahead::learn::Explained;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

/// Files of each kind: enough for a plan of the class.
const FILES: usize = 12;
/// Their length.
const LENGTH: usize = 2 << 20;

fn status(mount: &TestMount) -> MountStatus {
    client::status(&mount.point).expect("it answers")
}

/// Makes films and indexes of the same length. Films are read whole, of indexes only the beginning is read.
fn read_two_kinds(mount: &TestMount) {
    let name = |kind: &str, number: usize| PathBuf::from(format!("{number}.{kind}"));
    for (kind, read) in [("film", LENGTH), ("index", 64 << 10)] {
        for number in 0..FILES {
            fs::write(mount.source.join(name(kind, number)), vec![7; LENGTH]).expect("room");
            let mut file = File::open(mount.point.join(name(kind, number))).expect("it is there");
            file.read_exact(&mut vec![0; read]).expect("read");
        }
    }
    // The kernel reports the last close some time after it.
    common::wait_for("the end of all streams", || status(mount).reads.streams_open == 0);
}

/// The file with the saved state.
fn kept(mount: &TestMount) -> PathBuf {
    status(mount).kept.expect("it is kept").path
}

#[test]
fn two_kinds_of_files_are_two_classes() {
    let Some(mount) = mounted(Policy::ADAPTIVE) else { return };
    read_two_kinds(&mount);
    let classes = status(&mount).reads.classes;
    let of = |kind: &str| {
        let name = format!(".{kind}, files of 2 MiB to 4 MiB, from the start");
        let class = classes.iter().find(|class| class.class == name);
        class.unwrap_or_else(|| panic!("{name} in {classes:?}"))
    };
    let (film, index) = (of("film"), of("index"));
    // Requests may be out of order: then a stream seems to begin within a file, or to be two.
    for class in [film, index] {
        assert!((FILES as u64 / 2..=FILES as u64 * 2).contains(&class.streams), "{class:?}");
    }
    assert_eq!(film.nine_in_ten_pages, LENGTH as u64 / 4096, "{film:?}");
    assert!(index.nine_in_ten_pages < LENGTH as u64 / 4096 / 2, "{index:?}");
    // This program has read both.
    let own = fs::read_to_string("/proc/self/comm").expect("it runs");
    let by = format!(", by {}", own.trim_end());
    for kind in [".film", ".index"] {
        let read = |class: &Explained| class.class.starts_with(kind) && class.class.ends_with(&by);
        assert!(classes.iter().any(read), "{classes:?}");
    }
}

#[test]
fn learnt_state_is_loaded_after_a_restart_unless_it_is_damaged() {
    let Some(mut mount) = mounted(Policy::ADAPTIVE) else { return };
    assert_eq!(status(&mount).kept.expect("it is kept").loaded_classes, 0);
    read_two_kinds(&mount);
    let before = status(&mount).reads;
    let file = kept(&mount);
    assert!(mount.signal(Signal::TERM));
    mount.start();
    let after = status(&mount);
    let streams = |reads: &foreseek_mount::ReadStatus| -> Vec<_> {
        reads.classes.iter().map(|class| (class.class.clone(), class.streams, class.median_pages)).collect()
    };
    let mut sorted = [streams(&before), streams(&after.reads)];
    sorted.iter_mut().for_each(|classes| classes.sort());
    assert_eq!(sorted[0].len(), sorted[1].len());
    for (one, other) in sorted[0].iter().zip(&sorted[1]) {
        assert_eq!((&one.0, one.1), (&other.0, other.1));
    }
    assert_eq!(after.kept.expect("it is kept").loaded_classes, before.classes_known);
    assert!(
        after.reads.warnings.iter().all(|warning| !warning.contains("adaptive")),
        "{:?}",
        after.reads.warnings
    );
    // A damaged file is refused, with one line, and replaced.
    assert!(mount.signal(Signal::TERM));
    let whole = fs::read_to_string(&file).expect("saved");
    fs::write(&file, &whole[..whole.len() - 8]).expect("written");
    mount.start();
    let cold = status(&mount);
    assert!(cold.reads.classes.is_empty() && cold.kept.expect("it is kept").loaded_classes == 0);
    let refused = cold.reads.warnings.iter().filter(|warning| warning.contains(file.to_str().expect("text")));
    assert_eq!(refused.count(), 1, "{:?}", cold.reads.warnings);
    read_two_kinds(&mount);
    assert!(mount.signal(Signal::TERM));
    assert_ne!(fs::read_to_string(&file).expect("saved"), whole[..whole.len() - 8]);
    mount.start();
    assert!(status(&mount).kept.expect("it is kept").loaded_classes > 0);
}

#[test]
fn a_policy_that_learns_nothing_saves_nothing() {
    let Some(mount) = mounted(Policy::COMPETITIVE) else { return };
    read_two_kinds(&mount);
    let status = status(&mount);
    assert!(status.kept.is_none() && status.reads.classes.is_empty() && status.reads.classes_known == 0);
}
