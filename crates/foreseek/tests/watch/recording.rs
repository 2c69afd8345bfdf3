//! Recordings of the engines of walks that real programs caused.

use foreseek_device::Profile;
use foreseek_seam::record::{Recording, Replayed, replay_with};
use foreseek_walks::{Settings, Walks};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// Gives the events of a recording of one disk, of this profile, to an engine in virtual time, and compares the commands.
pub(crate) fn replay(record: &Path, profile: &str) -> Replayed {
    let stem = record.file_name().expect("a name").to_str().expect("plain");
    let of_disk = |name: &str| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'));
    let beside = fs::read_dir(record.parent().expect("a directory")).expect("there").flatten();
    let found = beside
        .map(|entry| entry.path())
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(of_disk));
    let [path] = &found.collect::<Vec<_>>()[..] else { panic!("one disk, one recording") };
    // It names files of all users.
    assert_eq!(fs::metadata(path).expect("there").permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(path).expect("recorded");
    let recording = Recording::<Settings>::open(&text).expect("a recording");
    let costs = Arc::new(Profile::builtin(profile).expect("built in"));
    let replayed = replay_with(&mut Walks::new(*recording.settings(), costs), &recording);
    replayed.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
