//! File systems that are found while mounts change, and while they do not.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Eager, Setup, until};
use foreseek_watch::{Engine, Options, Watcher};
use rustix::io::Errno;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Mounts, each with an unmount soon after it.
const ROUNDS: u32 = 300;
/// After a look at all file systems the watcher rests nine times as long as that took.
const REST: Duration = Duration::from_millis(50);
/// As long as a look takes, and longer.
const LOOK: Duration = Duration::from_millis(6);
/// A minute, and as much as a busy machine needs.
const LATER: Duration = Duration::from_secs(90);

/// One test changes mounts, and the other needs mounts that do not change.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn watch(setups: &[&Setup]) -> Watcher {
    let paths = setups.iter().map(|setup| setup.point.clone()).collect();
    let make = |_, _| -> Box<dyn Engine> { Box::new(Eager::default()) };
    Watcher::start_with(&Options { paths, ..Options::default() }, Box::new(make)).expect("it starts")
}

/// Whatever is mounted is looked at, to find out whether it is worth watching.
#[test]
fn a_file_system_is_not_busy_right_after_it_was_mounted() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(setup), Some(stays)) = (Setup::new(), Setup::new()) else { return };
    let watcher = watch(&[&setup, &stays]);
    assert!(until(|| watcher.status().watched.len() == 2), "{:?}", watcher.status());
    setup.unmount();
    let mut busy = Vec::new();
    for round in 0..ROUNDS {
        std::thread::sleep(REST);
        setup.mount();
        let wait = LOOK * round / ROUNDS;
        std::thread::sleep(wait);
        match setup.try_unmount() {
            Ok(()) => {}
            Err(Errno::BUSY) => {
                busy.push(wait);
                setup.unmount();
            }
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    setup.mount();
    assert!(busy.is_empty(), "{busy:?} after the mount");
    assert!(until(|| watcher.status().watched.len() == 2), "{:?}", watcher.status());
}

#[test]
fn a_disk_that_is_said_to_seek_is_watched_a_minute_later() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(setup), Some(stays)) = (Setup::new(), Setup::new()) else { return };
    let says = |rotational: &str| {
        let name = setup.device().file_name().expect("a device").to_string_lossy().into_owned();
        fs::write(format!("/sys/block/{name}/queue/rotational"), rotational).expect("set");
    };
    says("0");
    let watcher = watch(&[&setup, &stays]);
    let status = watcher.status();
    assert_eq!((status.watched.len(), status.left_alone.len()), (1, 1), "{status:?}");
    assert!(status.left_alone[0].reason.contains("does not seek"), "{status:?}");
    says("1");
    let begun = Instant::now();
    while watcher.status().watched.len() < 2 {
        assert!(begun.elapsed() < LATER, "{:?}", watcher.status());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(watcher.status().left_alone.is_empty(), "{:?}", watcher.status());
}
